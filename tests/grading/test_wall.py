"""Attacks on the grader, each with what it reached before there was a wall, and now."""

import csv
import ctypes
import json
import os
import platform
import re
import select
import signal
import socket
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from attacks import OUTSIDE

from normtutor import norms
from normtutor.grading import TASKS, Local, answers, judge, wall
from normtutor.grading import sandbox as sandbox_module
from normtutor.grading.__main__ import main
from normtutor.grading.sandbox import Limits, Sandbox
from normtutor.grading.submission import Unreadable, as_gradescope, as_text, code_cells, grade

PACKAGE = Path(wall.__file__).resolve().parents[1]
LIMITS = Limits(seconds=100, total_seconds=300, start_seconds=200)


def run(cells, **how):
    """Run some cells; what the kernel held, what they printed, what they ended with."""
    with Sandbox(cells, how.pop("limits", LIMITS), **how) as sandbox:
        sandbox.ask({"name": "nothing", "arguments": []})
        sandbox._stop()
        return sandbox.walled, sandbox.printed, sandbox.errors


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """What computes is stopped by what it computes: no clock, which a busy machine would move."""
    monkeypatch.setattr(answers, "PATIENCE", 1000)


def judged_here(id, answer):
    """What a student's own check finds, however long a library takes to be imported."""
    return judge(TASKS[id], Local(answer, 1000.0), np.random.default_rng(0))


@pytest.fixture(scope="module")
def walled():
    """What this kernel holds around a submission; a machine need not have a wall."""
    return run(["pass"])[0]


@pytest.fixture(scope="module")
def whole(walled):
    """Let a test about the wall run where there is one."""
    if walled.missing:
        pytest.skip(f"no wall on this machine: {walled.missing}")


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """What became of each attack from OUTSIDE, all of them cells of one submission."""
    scene = tmp_path_factory.mktemp("class")
    places = ["02_other.ipynb", "02_other.txt", "grades.csv", "gradebook.db"]
    places += [f"{p}/02/02.ipynb" for p in ("submitted/ann", "autograded/ann", "source")]
    for place in places:
        (scene / place).parent.mkdir(parents=True, exist_ok=True)
        (scene / place).write_text("secret " * 9)
    before = {place: (scene / place).stat() for place in places}
    secret = ctypes.create_string_buffer(b"secret")
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        names = {
            "root": PACKAGE.parent,
            "package": PACKAGE,
            "scene": scene,
            "home": Path.home(),
            "judge": os.getpid(),
            "address": ctypes.addressof(secret),
            "port": free.getsockname()[1] + 1,
            "listening": listening.getsockname()[1],
        }
        cells = []
        for number, attack in enumerate(OUTSIDE.values()):
            cell = re.sub(r"\{(\w+)\}", lambda m: str(names[m[1]]), attack)
            cells.append(f"{cell}\nprint('reached number {number}.', flush=True)")
        there, folder = os.getcwd(), os.getpriority(os.PRIO_PROCESS, 0)
        try:
            os.chdir(scene)
            held, printed, errors = run(cells)
        finally:
            os.chdir(there)
    assert os.getpriority(os.PRIO_PROCESS, 0) == folder or held.missing
    found = {name: f"reached number {i}." in printed for i, name in enumerate(OUTSIDE)}
    return scene, before, found, errors


@pytest.mark.parametrize("name", OUTSIDE)
def test_nothing_outside_is_reached(whole, outcome, name):
    assert not outcome[2][name], name


def test_nothing_outside_is_changed(whole, outcome):
    scene, before, _, errors = outcome
    assert len(errors) == 50  # the report repeats no more
    for place, status in before.items():
        now = (scene / place).stat()
        assert now.st_mtime_ns == status.st_mtime_ns and now.st_mode == status.st_mode
        assert (now.st_uid, now.st_size) == (status.st_uid, status.st_size)
    assert sorted(p.name for p in scene.iterdir()) == sorted({Path(p).parts[0] for p in before})


def test_no_call_is_made_that_is_not_on_the_list(whole):
    known = [*wall.numbers(wall.CALLS + wall.FILTERED, platform.machine()).values()]
    probes = {335, 336}  # with these the kernel ends a process that it does not trace itself
    others = sorted({*range(500)} - {*known} - probes)
    cell = f"""
import ctypes
library = ctypes.CDLL(None, use_errno=True)
for number in {others}:
    ctypes.set_errno(0)
    library.syscall(number, *[ctypes.c_long(-1)] * 6)
    assert ctypes.get_errno() in (1, 38), number
"""
    assert run([cell])[2] == []


def test_without_a_wall_the_reports_say_so(tmp_path):
    path = tmp_path / "02_a.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": "open('/etc/hosts')"}]}))
    found = grade(path, [TASKS["02.3"]], limits=LIMITS, wall=False)
    assert found.notes == ()  # the file was read
    for text in (as_text(path, found), as_gradescope(found)["output"]):
        assert "No wall: switched off" in text and "in a container" in text


def test_a_report_says_no_more_where_the_wall_is_whole(walled, tmp_path):
    path = tmp_path / "02_a.ipynb"
    path.write_text(json.dumps({"cells": []}))
    found = grade(path, [TASKS["02.3"]], limits=LIMITS)
    assert found.walled == walled
    assert ("No wall" in as_text(path, found)) == bool(walled.missing)


@pytest.mark.parametrize(
    ("change", "held"),
    [
        ("wall.landlock_version = lambda: 0", (False, True)),
        ("wall.platform.machine = lambda: 'riscv64'", (True, False)),
        ("wall.sys.platform = 'darwin'", (False, False)),
    ],
)
def test_a_kernel_that_lacks_a_part_is_found_out(walled, change, held):
    code = f"""
import importlib.util as u, sys
spec = u.spec_from_file_location("wall", {wall.__file__!r})
wall = u.module_from_spec(spec); sys.modules["wall"] = wall; spec.loader.exec_module(wall)
{change}
print(*wall.raise_wall([], "/tmp"), sep="|")
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    files, calls, missing = done.stdout.strip().split("|")
    assert (files, calls) == (str(held[0] and walled.files), str(held[1] and walled.calls))
    assert missing


def test_what_an_exercise_needs_works_behind_the_wall(walled):
    cells = [
        "import numpy as np, torch, scipy.stats, matplotlib.pyplot as plt, threading, json, re",
        "open('own.txt', 'w').write('mine'); assert open('own.txt').read() == 'mine'",
        "import os; os.mkdir('a'); os.rename('own.txt', 'b'); os.remove('b'); os.rmdir('a')",
        "plt.plot([1, 2]); plt.savefig('p.png'); plt.show(); display(1); np.save('x', np.ones(3))",
        "t = threading.Thread(target=sum, args=([1],)); t.start(); t.join()",
        "torch.save(torch.nn.Linear(2, 2).state_dict(), 'm.pt'); torch.load('m.pt')",
        "x = torch.ones(300, 300, requires_grad=True); (x @ x).sum().backward()",
        "import tempfile; tempfile.NamedTemporaryFile().write(b'x')",
        "import datetime, zoneinfo; datetime.datetime.now(); scipy.stats.norm.cdf(0.0)",
        "%matplotlib inline\n!ls\nfiles = !ls\n%timeit 1 + 1\n%time y = 5\nnp.ones?\nassert y == 5",
        "%%time\nz = 6",
        "%%bash\nls",
        "assert z == 6; get_ipython().run_line_magic('load_ext', 'x')",
        "from IPython.display import Markdown, display; display(Markdown('a'))",
    ]
    held, _, errors = run(cells)
    assert errors == []
    assert held == walled


def test_the_numbers_of_the_system_calls_are_those_of_the_kernel():
    assert len(wall.numbers(wall.CALLS, "x86_64")) > 100
    places = {
        "x86_64": ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", {}),
        "aarch64": ("/usr/include/asm-generic/unistd.h", {"fstatat": "newfstatat"}),
    }
    for machine, (header, other) in places.items():
        if not Path(header).exists():
            continue
        text = Path(header).read_text()
        known = {
            other.get(name, name): int(number)
            for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)
        }
        for name, number in wall.numbers(wall.CALLS + wall.FILTERED, machine).items():
            assert known[name] == number, (machine, name)
    for name in wall.numbers(wall.FILTERED, "x86_64"):
        assert len(wall.filtered(name)) % 8 == 0
    with pytest.raises(ValueError):
        wall.filtered("read")


def test_a_tree_is_opened_around_what_is_withheld(tmp_path):
    for name in ("a/x", "b/c/y", "b/d/z"):
        (tmp_path / name).mkdir(parents=True)
    tree = str(tmp_path)
    assert list(wall.around(tree, ["/elsewhere"])) == [(tree, wall.READ)]
    assert list(wall.around(tree, [tree])) == []
    opened = dict(wall.around(tree, [f"{tree}/b/c"]))
    readable = [path for path, rights in opened.items() if rights == wall.READ]
    assert sorted(readable) == [f"{tree}/a", f"{tree}/b/d"]


def descendants(pid):
    """The processes that a process has started, and those that they have."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        parents.setdefault(int(text.rsplit(")", 1)[1].split()[1]), []).append(int(text.split()[0]))
    found = parents.get(pid, [])
    return found + [below for child in found for below in descendants(child)]


@pytest.mark.skipif(platform.system() != "Linux", reason="looks at processes in /proc")
def test_a_submission_does_not_outlive_a_killed_grader(tmp_path):
    path = tmp_path / "02_a.ipynb"
    loop = "while True:\n    try:\n        while True: pass\n    except BaseException: pass"
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": loop}]}))
    command = [sys.executable, "-m", "normtutor.grading", "grade", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as grader:
        end = time.monotonic() + 1200
        while len(started := descendants(grader.pid)) < 2 and time.monotonic() < end:
            time.sleep(0.1)
        assert len(started) == 2  # the starter and the submission
        grader.send_signal(signal.SIGKILL)
    while (left := [p for p in started if Path(f"/proc/{p}").exists()]) and time.monotonic() < end:
        left = [p for p in left if "State:\tZ" not in Path(f"/proc/{p}/status").read_text()]
        if not left:
            break
        time.sleep(0.1)
    assert left == []


# --- a tripwire for honest students ---------------------------------------------------------------

GROUP = """
import torch, numpy as np, torch.nn.functional as F
from normtutor import norms
def answer(x, weight, bias, eps):
    x, weight, bias = (torch.tensor(a) for a in (x, weight, bias))
    return {}
"""
SLOPE = """
import torch, numpy as np, scipy.optimize
def answer(g, x_hat, inverse_std):
    g, v, s = (torch.tensor(a) for a in (g, x_hat / inverse_std, inverse_std))
    def forward(v):
        centred = v - v.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    v.requires_grad_()
    {}
"""
BORROWED = {
    "functional": GROUP.format("F.group_norm(x, 1, weight, bias, eps)"),
    "torch's own name": GROUP.format("torch.group_norm(x, 1, weight, bias, eps)"),
    "a module": GROUP.format(
        "torch.nn.GroupNorm(1, x.shape[1], eps, affine=False).double()(x) * weight[:, None]"
        " + bias[:, None]"
    ),
    "another norm": GROUP.format(
        "F.layer_norm(x, x.shape[1:], None, None, eps) * weight[:, None] + bias[:, None]"
    ),
    "backward": SLOPE.format("forward(v).backward(g); return v.grad"),
    "autograd": SLOPE.format("return torch.autograd.grad(forward(v), v, g)[0]"),
    "a function's derivative": SLOPE.format(
        "return torch.func.vjp(forward, v.detach())[1](g)[0].detach()"
    ),
    "a Jacobian": SLOPE.format(
        "return torch.autograd.functional.jacobian(lambda v: (forward(v) * g).sum(), v)"
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", BORROWED)
def test_who_forgets_what_is_asked_for_is_told_so_here_and_there(name, monkeypatch):
    task = TASKS["02.5" if "weight" in BORROWED[name] else "02.2"]
    cell = BORROWED[name].replace("from normtutor import norms", "")
    namespace = {"__name__": "student"}
    exec(cell, namespace)
    here = judged_here(task.id, namespace["answer"])
    assert here.score == 0 and "write the formula yourself" in here.findings[0].words
    with Sandbox([cell], LIMITS) as sandbox:
        there = judge(task, sandbox.answer("answer"), np.random.default_rng(0))
        assert sandbox.errors == []
    assert there.findings[0].words == here.findings[0].words
    # Only if the answer is right does a refusal say something.
    monkeypatch.setattr(answers, "own_work", lambda run, *given: run(*given))
    assert judged_here(task.id, namespace["answer"]).findings[0].passed


def test_the_packages_own_formulas_are_not_an_answer_in_a_notebook():
    def answer(g, x_hat, inverse_std):
        return norms.layer_norm(x_hat)[0]

    (first, *_) = judged_here("02.2", answer).findings
    assert "it calls normtutor, which" in first.words


# --- what is the student's own --------------------------------------------------------------------

COMPLEX_STEP = """
def answer(g, x_hat, inverse_std):
    v = x_hat / inverse_std
    eps = inverse_std**-2.0 - v.var(-1, keepdims=True)

    def forward(v):
        centred = v - v.mean(-1, keepdims=True)
        return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + eps)

    dx = np.empty_like(g)
    for i in range(g.shape[-1]):
        step = np.zeros(g.shape[-1])
        step[i] = 1e-30
        dx[..., i] = (g * forward(v + 1j * step).imag / 1e-30).sum(-1)
    return dx
"""
LATE_IMPORT = """
def answer(g, x_hat, inverse_std):
    import scipy.differentiate, scipy.optimize, scipy.stats
    mean = lambda a: a.mean(-1, keepdims=True)
    return inverse_std * (g - mean(g) - x_hat * mean(g * x_hat))
"""


@pytest.mark.parametrize("cell", [COMPLEX_STEP, LATE_IMPORT])
def test_what_a_students_own_lines_compute_counts_here_and_there(cell):
    """A derivative by a complex step is no library's; nor is an import a derivative."""
    start = "import numpy as np, torch\n"
    with Sandbox([start + cell], LIMITS) as sandbox:
        result = judge(TASKS["02.2"], sandbox.answer("layer_norm_dx"), np.random.default_rng(0))
        assert "not defined" in result.findings[0].words
        result = judge(TASKS["02.2"], sandbox.answer("answer"), np.random.default_rng(0))
        assert sandbox.errors == []
    assert result.score == TASKS["02.2"].points, result.findings
    namespace = {"__name__": "student"}
    exec(start + cell, namespace)
    assert judged_here("02.2", namespace["answer"]).score == result.score


# --- what a submission may use up, and what it may write into a report ----------------------------

PATIENT = Limits(seconds=30, total_seconds=60, megabytes=1024, start_seconds=200)
TALK = """
import fcntl, os, time

def writes(d):
    try:
        return fcntl.fcntl(d, 3) & 3 == os.O_WRONLY
    except OSError:
        return False

open("a", "w").write("x" * 400_000)
while True:
    for d in filter(writes, range(3, 9)):
        os.write(d, b".")
    time.sleep(0.01)
"""
REMOVED = """
import os, time
kept = []
for i in range(9):
    kept.append(open(f"a{i}", "w"))
    kept[-1].write("x" * 50_000)
    kept[-1].flush()
    os.remove(f"a{i}")
time.sleep(60)
"""
MAPPED = """
import mmap, os, time
file = open("a", "wb+")
file.truncate(400_000)
kept = mmap.mmap(file.fileno(), 400_000)
file.close()
os.remove("a")
time.sleep(60)
"""
THREADS = """
import threading, time
threading.stack_size(65536)
for i in range(100):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (REMOVED, "wrote too much"),  # what is removed and still open is in no folder
        (MAPPED, "wrote too much"),  # nor is what is closed as well, and still mapped
        ("import time\nfor i in range(99): open(f'a{i}', 'w')\ntime.sleep(60)", "wrote too much"),
        (TALK, "wrote too much"),  # whoever talks all the time is looked at all the same
        (THREADS, "too many threads"),
    ],
)
def test_what_all_need_is_not_used_up_by_one(whole, monkeypatch, cell, words):
    monkeypatch.setattr(sandbox_module, "MOST_WRITTEN", 200_000)
    monkeypatch.setattr(sandbox_module, "MOST_THREADS", 50)
    with Sandbox([cell], PATIENT) as sandbox:
        sandbox.ask({"name": "nothing", "arguments": []})
        assert sandbox.stopped and words in sandbox.stopped[0]


def test_a_very_deep_folder_is_removed(whole):
    deep = "import os\nfor i in range(1500): os.mkdir('d'); os.chdir('d')"
    with Sandbox([deep], PATIENT) as sandbox:
        sandbox.ask({"name": "nothing", "arguments": []})
    assert not Path(sandbox._folder).exists()


def test_more_files_than_are_good_are_not_opened(whole):
    cell = "import os\nfor i in range(300): os.dup(0)"
    assert "Too many open files" in run([cell])[2][0]


LIAR = """
import sys
def layer_norm_dx(*a): return 1
assert not [name for name in sys.modules if "grader" in name]
told = {"other": chr(0xD800) + chr(27) + "[31m"}
sys._getframe(1).f_locals["answers"].encode = lambda value: told
"""


def test_no_word_of_a_submission_breaks_a_report(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    content = json.dumps({"cells": [{"cell_type": "code", "source": LIAR}]})
    (folder / "02_a.ipynb").write_text(content)
    try:
        (folder / os.fsdecode(b"02_\xff.ipynb")).write_text("{")
    except OSError:
        pytest.skip("this file system has no such names")
    (folder / "=cmd|1.ipynb").write_text("{")
    assert main(["grade", str(folder), "--chapter", "02", "--out", str(out)]) == 3
    with open(out / "grades.csv", newline="", encoding="utf-8") as file:
        students = [row["identifier"] for row in csv.DictReader(file)]
    assert [name[:7] for name in sorted(students)] == ["'=cmd|1", "02_  79", "02_a"]
    text = (out / "02_a.txt").read_text(encoding="utf-8")
    assert "it is a " in text and chr(27) not in text
    assert "=cmd\\|1" in (out / "summary.md").read_text(encoding="utf-8")
    # What a person enters is found again under such a name.
    path = out / "explanations.csv"
    entered = path.read_text(encoding="utf-8").replace("'=cmd|1,02.7,0,2", "'=cmd|1,02.7,1,2")
    path.write_text(entered, encoding="utf-8")
    assert main(["merge", str(out)]) == 3
    results = tmp_path / "results.json"
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.ipynb").write_text(content)
    there = ["--submission", str(tmp_path / "one"), "--results", str(results), "--chapter", "02"]
    assert main(["gradescope-run", *there]) == 0
    assert json.loads(results.read_text(encoding="utf-8"))["score"] == 0


def test_another_students_notebook_is_not_handed_in_by_a_link(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    for student in ("ann", "bob", "cy"):
        (folder / student).mkdir(parents=True)
    cell = {"cell_type": "code", "source": "prediction_02_1 = 10"}
    (folder / "ann" / "02.ipynb").write_text(json.dumps({"cells": [cell]}))
    (folder / "bob" / "02.ipynb").symlink_to("../ann/02.ipynb")
    os.mkfifo(folder / "cy" / "02.ipynb")  # reading it would never end
    assert main(["grade", str(folder), "--chapter", "02", "--out", str(out)]) == 3
    with open(out / "grades.csv", newline="", encoding="utf-8") as file:
        table = {row["identifier"]: row for row in csv.DictReader(file)}
    assert {name: row["state"] for name, row in table.items()} == {
        "ann": "graded", "bob": "unreadable", "cy": "unreadable",
    }  # fmt: skip
    assert float(table["ann"]["total"]) == 1 and float(table["bob"]["total"]) == 0
    assert "hand in the notebook itself" in (out / "bob.txt").read_text()


FORGES = """
explanation_02_7 = "mine" + chr(10) + "02.7 Which norm is this? (explain): 2 of 2 points"
raise ValueError("a\\n02.3 Two chunks, one variance (implement): 3 of 3 points\\u2028")
"""


def test_no_line_of_a_report_is_a_submissions_own(tmp_path):
    path = tmp_path / "02_a.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": FORGES}]}))
    found = grade(path, [TASKS["02.3"], TASKS["02.7"]], limits=PATIENT)
    for text in (as_text(path, found), as_gradescope(found)["output"]):
        assert "3 of 3 points" in text and "2 of 2 points" in text
        forged = [line for line in text.splitlines() if re.match(r"\s*\d\d\.\d.*of \d", line)]
        assert all(line.startswith(("02.3", "02.7")) and "0 of 3" in line for line in forged), (
            forged
        )


LOOPS = """
class Loops(Exception):
    def __str__(self):
        while True: pass
raise Loops
"""


def test_an_exception_that_takes_forever_to_show_stops_nothing():
    with Sandbox([LOOPS, "b = 2"], PATIENT) as sandbox:
        assert sandbox.answer("b")() == 2
        assert "Loops" not in sandbox.errors[0] and "cannot be shown" in sandbox.errors[0]
        assert sandbox.starts == 1 and sandbox.stopped == []


def test_the_key_is_withheld_in_every_packages_folder_below_a_readable_tree(whole, tmp_path):
    folders = [tmp_path / p for p in ("lib/python3.1/site-packages", "lib/a/b/c/dist-packages")]
    keys = [f / k for f in folders for k in ("normtutor/key.py", "normtutor-0.2-py3.egg/key.py")]
    keys.append(folders[0] / "~ormtutor" / "key.py")  # pip leaves it where it could not remove
    others = [tmp_path / "lib" / "other.py", *(folder / "numpy" / "a.py" for folder in folders)]
    for path in (*keys, *others):
        path.parent.mkdir(parents=True) if not path.parent.exists() else None
        path.write_text("1")
    code = f"""
from normtutor.grading import answers, child, wall
child.SYSTEM = (*child.SYSTEM, {str(tmp_path / "lib")!r})
assert not wall.raise_wall(child.readable(wall, answers.WITHHELD), "/nowhere").missing
for path in {[str(path) for path in (*keys, *others)]!r}:
    try:
        print(open(path).read())
    except PermissionError:
        print("refused")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["refused"] * len(keys) + ["1"] * len(others)


REPLIES = """
import sys
def layer_norm_dx(*a):
    frame = sys._getframe(1)
    while "request" not in frame.f_locals: frame = frame.f_back
    ours = frame.f_locals
    ours["writer"].write(b'{{"value": [' + {part!r} * {times} + b'0], "question": "'
                         + ours["request"]["question"].encode() + b'"}}' + chr(10).encode())
    ours["writer"].flush()
"""


def peak_of(run):
    """How many bytes Python needs at once for a call."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("part", [b"{},", b"[],", b'{"tuple":[]},', b"1.5,", b'"a",', b"0" * 1000])
def test_a_forged_reply_does_not_fill_the_judges_memory(part):
    with Sandbox([REPLIES.format(part=part, times=12_000_000 // len(part))], PATIENT) as sandbox:
        sandbox.ask({"name": "nothing", "arguments": []})  # the process is there
        answer, rng = sandbox.answer("layer_norm_dx"), np.random.default_rng(0)
        judge(TASKS["02.2"], lambda *a: None, rng)  # the libraries are there
        assert peak_of(lambda: judge(TASKS["02.2"], answer, rng)) < 80e6
        assert sandbox.errors == []


@pytest.mark.parametrize("part", ["{},", "[],", '{"a": 1},', "1.5,", '"\\\\ud83d\\\\ude00",'])
def test_a_notebook_does_not_fill_the_judges_memory(tmp_path, part):
    path = tmp_path / "02_a.ipynb"
    path.write_text('{"cells": [' + part * (40_000_000 // len(part)) + "{}]}")

    def read():
        with pytest.raises(Unreadable, match="too many parts"):
            code_cells(path)

    assert peak_of(read) < 100e6


SLOW = """
import time
def slow(*a):
    end = time.process_time() + 0.4
    while time.process_time() < end: pass
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux what a process has computed")
def test_all_calls_together_have_a_limit(monkeypatch):
    receive = Sandbox._receive

    def late(self, seconds):  # a busy judge looks when the reply has been there for long
        select.select([self._answers], [], [], 60)
        return receive(self, seconds)

    monkeypatch.setattr(Sandbox, "_receive", late)
    limits = Limits(seconds=1, total_seconds=1, start_seconds=200)
    with Sandbox([SLOW], limits) as sandbox:
        replies = [sandbox.ask({"name": "slow", "arguments": []}) for _ in range(12)]
    assert "value" in replies[0] and sum("value" in reply for reply in replies) <= 6
    assert "used up its time" in replies[-1]["error"]


def test_a_folder_that_nobody_may_list_counts_as_full_and_goes_away(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "hidden").write_text("x" * 9000)
    (tmp_path / "mine").write_text("1")
    (tmp_path / "a" / "b" / "link").symlink_to(tmp_path / "mine")
    assert 9000 < sandbox_module.size_of(str(tmp_path)) < 999_000
    folders, user = (tmp_path, tmp_path / "a", tmp_path / "a" / "b"), os.geteuid()
    for folder in (*tmp_path.parents[:-2], tmp_path):  # all that lie in the system's folder
        folder.chmod(0o755)
    for folder in folders:
        os.chown(folder, 65534 if user == 0 else -1, -1)
    for folder in reversed(folders[1:]):
        folder.chmod(0o300)
    try:
        if user == 0:
            os.seteuid(65534)  # nothing is closed to root
        assert sandbox_module.size_of(str(tmp_path)) > sandbox_module.MOST_WRITTEN
        sandbox_module.remove(str(tmp_path / "a"))
    finally:
        os.seteuid(user)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_disk_is_not_taken_without_writing(whole):
    cells = ["import os; os.posix_fallocate(os.open('a', os.O_RDWR | os.O_CREAT), 0, 10**6)"]
    cells += ["import numpy as np; np.save('b', np.ones(3_000_000)); assert np.load('b.npy').all()"]
    errors = run(cells)[2]
    assert len(errors) == 1 and "PermissionError" in errors[0]


def test_a_cell_that_is_none_does_not_make_a_notebook_unreadable(tmp_path):
    path = tmp_path / "02_a.ipynb"
    cells = [None, {"cell_type": "code", "source": None}, {"cell_type": "code", "source": "a = 1"}]
    path.write_text(json.dumps({"cells": [*cells, "text", 3]}))
    assert [cell for cell in code_cells(path) if cell] == ["a = 1"]


STRAY = """
import os, sys
def layer_norm_dx(*a):
    frame = sys._getframe(1)
    while "writer" not in frame.f_locals: frame = frame.f_back
    try:
        while True: os.write(frame.f_locals["writer"].fileno(), {line!r} * 5000)
    except BaseException: pass
"""


@pytest.mark.parametrize("line", [b"\n", b"{}\n", b'{"question": 1}\n'])
def test_lines_that_nobody_asked_for_cost_the_judge_little(monkeypatch, line):
    seen, read = [], sandbox_module.read_reply
    monkeypatch.setattr(sandbox_module, "read_reply", lambda text: seen.append(1) or read(text))
    with Sandbox([STRAY.format(line=line)], PATIENT) as sandbox:
        sandbox.ask({"name": "nothing", "arguments": []})
        reply = sandbox.ask({"name": "layer_norm_dx", "arguments": []})
        assert "too much" in reply["error"] and len(seen) < sandbox_module.MOST_STRAY + 10


ASLEEP = """
import time
while True:
    try: time.sleep(10**6)
    except BaseException: pass
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux who sleeps")
@pytest.mark.parametrize("cell", [ASLEEP, "import signal; signal.raise_signal(signal.SIGSTOP)"])
def test_who_sleeps_through_every_alarm_is_not_waited_for(monkeypatch, cell):
    monkeypatch.setattr(sandbox_module, "NAP", -1.5)  # half a second is enough here
    monkeypatch.setattr(answers, "PATIENCE", 4)
    limits = Limits(seconds=0.5, total_seconds=10_000, start_seconds=200)
    with Sandbox([cell], limits) as sandbox:
        reply = sandbox.ask({"name": "nothing", "arguments": []})
    assert reply["error"] == "the submission slept through its time" and sandbox.errors
