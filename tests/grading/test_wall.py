"""Attacks on the grader, each with what it reached before there was a wall, and now."""

import csv
import ctypes
import json
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from attacks import BORROWED, OUTSIDE, TORCH

from normtutor.grading import TASKS, judge, wall
from normtutor.grading import sandbox as sandbox_module
from normtutor.grading.__main__ import main
from normtutor.grading.notebook import examined
from normtutor.grading.sandbox import Limits, Sandbox
from normtutor.grading.submission import as_gradescope, as_text, grade

PACKAGE = Path(wall.__file__).resolve().parents[1]
LIMITS = Limits(seconds=100, total_seconds=300, start_seconds=200)


def run(cells, **how):
    """Run some cells; what the kernel held, what they printed, what they ended with."""
    with Sandbox(cells, how.pop("limits", LIMITS), **how) as sandbox:
        sandbox.ask({"name": "nothing", "arguments": []})
        sandbox._stop()
        return sandbox.walled, sandbox.printed, sandbox.errors


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
            cell = re.sub(r"\{(\w+)\}", lambda m: str(names[m[1]]), attack.cell)
            cells.append(f"def reached(): print('reached number {number}.', flush=True)\n{cell}")
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
    assert OUTSIDE[name].before in ("reached", "refused")
    assert not outcome[2][name], name


def test_nothing_outside_is_changed(whole, outcome):
    scene, before, _, errors = outcome
    assert len(errors) == 50  # the report repeats no more
    for place, status in before.items():
        now = (scene / place).stat()
        assert now.st_mtime_ns == status.st_mtime_ns and now.st_mode == status.st_mode
        assert (now.st_uid, now.st_size) == (status.st_uid, status.st_size)
    assert sorted(p.name for p in scene.iterdir()) == sorted({Path(p).parts[0] for p in before})


def test_the_suite_has_sixty_kinds_and_the_wall_was_needed():
    assert len(OUTSIDE) + len(BORROWED) >= 60
    assert sum(attack.before == "reached" for attack in OUTSIDE.values()) >= 15
    assert sum(before == "reached" for _, _, before in BORROWED.values()) >= 8


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


# --- answers that are not the student's -----------------------------------------------------------


@pytest.fixture(scope="module")
def borrowed():
    """What the grade says to each answer that torch has computed; the cells of one submission."""
    cells = [TORCH]
    for number, (_, cell, _) in enumerate(BORROWED.values()):
        cells.append(f"{cell}\nanswer_{number} = answer\ndel answer")
    # The functions keep their helpers apart.
    cells[1:] = [
        f"exec({cell!r}, names := globals().copy()); answer_{i} = names['answer_{i}']"
        for i, cell in enumerate(cells[1:])
    ]
    rng, found = np.random.default_rng(0), {}
    with Sandbox(cells, LIMITS) as sandbox:
        for number, (name, (id, _, _)) in enumerate(BORROWED.items()):
            found[name] = judge(TASKS[id], sandbox.answer(f"answer_{number}"), rng)
        assert sandbox.errors == []
    return found


WORDS = ("write the formula yourself", "interferes with the record")


@pytest.mark.parametrize("name", BORROWED)
def test_an_answer_of_the_library_earns_nothing(borrowed, name):
    result = borrowed[name]
    assert result.score == 0
    assert any(words in result.findings[0].words for words in WORDS), result.findings[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [n for n in BORROWED if "record" not in n])
def test_a_students_own_check_says_the_same(borrowed, name):
    id, cell, _ = BORROWED[name]
    namespace = {"__name__": "student"}
    exec(TORCH + cell, namespace)
    result = examined(TASKS[id], namespace["answer"])
    assert result.score == 0
    assert result.findings[0].words == borrowed[name].findings[0].words


@pytest.mark.filterwarnings("ignore")
def test_the_borrowed_answers_would_have_been_right(monkeypatch):
    """Only then does a refusal say something."""
    from normtutor.grading import answers

    monkeypatch.setattr(answers, "own_work", lambda run, *given, **how: run(*given))
    right = 0
    for name, (id, cell, _) in BORROWED.items():
        if "record" in name:  # these are about the record itself
            continue
        namespace = {"__name__": "student"}
        exec(TORCH + cell, namespace)
        right += examined(TASKS[id], namespace["answer"]).findings[0].passed
    assert right >= 0.8 * len(BORROWED)


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
IN_TORCH = """
def answer(g, x_hat, inverse_std):
    arrays, dtype = (g, x_hat / inverse_std, inverse_std), g.dtype
    g, v, s = (torch.tensor(a).double() for a in arrays)
    eps = s**-2.0 - v.var(-1, keepdim=True, correction=0)

    def forward(v):
        centred = v - v.mean(-1, keepdim=True)
        return centred / ((centred * centred).mean(-1, keepdim=True) + eps).sqrt()

    dx = torch.empty_like(g)
    for i in range(g.shape[-1]):
        step = torch.zeros_like(v)
        step[..., i] = 1e-30
        dx[..., i] = (g * forward(torch.complex(v, step)).imag / 1e-30).sum(-1)
    return dx.numpy().astype(dtype)
"""
LATE_IMPORT = """
def answer(g, x_hat, inverse_std):
    import scipy.differentiate, scipy.optimize, scipy.stats
    mean = lambda a: a.mean(-1, keepdims=True)
    return inverse_std * (g - mean(g) - x_hat * mean(g * x_hat))
"""


@pytest.mark.parametrize("cell", [COMPLEX_STEP, IN_TORCH, LATE_IMPORT])
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
    assert examined(TASKS["02.2"], namespace["answer"]).score == result.score


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
    assert not Path(sandbox._folder.name).exists()


def test_more_files_than_are_good_are_not_opened(whole):
    cell = "import os\nfor i in range(300): os.dup(0)"
    assert "Too many open files" in run([cell])[2][0]


LIAR = """
import sys
def layer_norm_dx(*a): return 1
sys.modules["grader_answers"].encode = lambda value: {"other": chr(0xD800) + chr(27) + "[31m"}
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
        students = [row["student"] for row in csv.DictReader(file)]
    assert sorted(students) == ["'=cmd|1", "02_ ", "02_a"]
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
        table = {row["student"]: row for row in csv.DictReader(file)}
    assert {name: row["state"] for name, row in table.items()} == {
        "ann": "graded", "bob": "unreadable", "cy": "unreadable",
    }  # fmt: skip
    assert float(table["ann"]["total"]) == 1 and float(table["bob"]["total"]) == 0
    assert "hand in the notebook itself" in (out / "bob.txt").read_text()
