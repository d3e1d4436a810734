"""Attacks on the grader, each with what it reached before there was a wall, and now."""

import ctypes
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
from attacks import OUTSIDE
from handed_in import STUBBORN, hand_in

from normtutor import norms
from normtutor.grading import TASKS, Local, answers, judge, wall
from normtutor.grading import sandbox as sandbox_module
from normtutor.grading.sandbox import Limits, Sandbox
from normtutor.grading.submission import (
    Grade,
    as_gradescope,
    as_text,
    grade,
)

PACKAGE = Path(wall.__file__).resolve().parents[1]
LIMITS = Limits(seconds=100, total_seconds=300, start_seconds=200)


def run(cells, **how):
    """Run some cells; what the kernel held, what they printed, what they ended with."""
    with Sandbox(cells, how.pop("limits", LIMITS), **how) as sandbox:
        sandbox.ask({"name": "nothing", "arguments": []})
        sandbox._stop()
        return sandbox.walled, sandbox.printed, sandbox.errors


pytestmark = pytest.mark.usefixtures("patient")


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


def test_nothing_outside_is_reached_or_changed(whole, tmp_path, monkeypatch):
    """All attacks are cells of one submission."""
    places = ["02_other.ipynb", "02_other.txt", "grades.csv", "gradebook.db"]
    places += ["submitted/ann/02/02.ipynb"]
    for place in places:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text("secret " * 9)
    before = {place: (tmp_path / place).stat() for place in places}
    secret = ctypes.create_string_buffer(b"secret")
    names = {"root": PACKAGE.parent, "package": PACKAGE, "scene": tmp_path, "home": Path.home()}
    names |= {"judge": os.getpid(), "address": ctypes.addressof(secret)}
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        names["listening"] = listening.getsockname()[1]
        cells = []
        for number, attack in enumerate(OUTSIDE.values()):
            cell = re.sub(r"\{(\w+)\}", lambda m: str(names[m[1]]), attack)
            cells.append(f"{cell}\nprint('reached number {number}.', flush=True)")
        _, printed, errors = run(cells)
    assert [name for i, name in enumerate(OUTSIDE) if f"reached number {i}." in printed] == []
    assert len(errors) == 50  # the report repeats no more
    for place, status in before.items():
        now = (tmp_path / place).stat()
        assert now.st_mtime_ns == status.st_mtime_ns and now.st_mode == status.st_mode
        assert (now.st_uid, now.st_size) == (status.st_uid, status.st_size)
    assert {p.name for p in tmp_path.iterdir()} == {Path(p).parts[0] for p in before}


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
    forbidden = """
    socket socketpair connect bind sendto fork vfork clone3 execve execveat ptrace process_vm_readv
    process_vm_writev pidfd_open pidfd_send_signal tkill unshare setns chroot pivot_root mount
    umount2 mknod mknodat link linkat symlink symlinkat chmod fchmod fchmodat chown truncate
    utimensat setxattr open_by_handle_at name_to_handle_at openat2 memfd_create shmget msgget semget
    mq_open add_key keyctl bpf perf_event_open userfaultfd io_uring_setup inotify_init inotify_init1
    fanotify_init setpriority setpgid setsid setuid setgid setgroups setrlimit sched_setscheduler
    sched_setaffinity timer_create clock_settime settimeofday seccomp vmsplice personality
    """
    assert (
        set(forbidden.split()) & wall.numbers(wall.CALLS + wall.FILTERED, "x86_64").keys() == set()
    )


@pytest.mark.parametrize(
    ("files", "calls", "words"), [(False, True, "read and write files"), (True, False, "network")]
)
def test_where_a_part_of_the_wall_is_missing_the_reports_say_so(files, calls, words):
    path, held = Path("02_a.ipynb"), wall.Wall(files, calls, "no such kernel")
    found = Grade((), {}, (), frozenset(), 0.0, (), held)
    for text in (as_text(path, found), as_gradescope(found)["output"]):
        assert "No wall: no such kernel" in text and words in text and "in a container" in text


def test_a_report_says_no_more_where_the_wall_is_whole(walled, tmp_path):
    path = hand_in(tmp_path / "02_a.ipynb")
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
        # SciPy looks for JAX among the modules, and must not find an empty entry.
        "from scipy import special; assert special.logsumexp([10.0, -1000.0]) == 10",
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
    path = hand_in(tmp_path / "02_a.ipynb", STUBBORN)
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
def test_who_forgets_what_is_asked_for_is_told_so_here_and_there(monkeypatch):
    found, cells = {}, [c.replace("from normtutor import norms", "") for c in BORROWED.values()]
    for name, cell in zip(BORROWED, cells, strict=True):
        namespace = {"__name__": "student"}
        exec(cell, namespace)
        found[name] = "02.5" if "weight" in cell else "02.2", namespace["answer"]
    named = [f"{cell}\nanswer_{number} = answer" for number, cell in enumerate(cells)]
    with Sandbox(named, LIMITS) as sandbox:
        for number, (id, answer) in enumerate(found.values()):
            here = judged_here(id, answer)
            assert here.score == 0 and "write the formula yourself" in here.findings[0].words
            there = judge(TASKS[id], sandbox.answer(f"answer_{number}"), np.random.default_rng(0))
            assert there.findings[0].words == here.findings[0].words
        assert sandbox.errors == []
    # Only if the answer is right does a refusal say something.
    monkeypatch.setattr(answers, "own_work", lambda run, *given: run(*given))
    for name, (id, answer) in found.items():
        assert judged_here(id, answer).findings[0].passed, name


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


def test_what_a_students_own_lines_compute_counts_here_and_there():
    """A derivative by a complex step is no library's; nor is an import a derivative."""
    task, start = TASKS["02.2"], "import numpy as np, torch\n"
    cells = [f"{start}{c}answer_{i} = answer" for i, c in enumerate((COMPLEX_STEP, LATE_IMPORT))]
    namespace = {"__name__": "student"}
    with Sandbox(cells, LIMITS) as sandbox:
        result = judge(task, sandbox.answer("layer_norm_dx"), np.random.default_rng(0))
        assert "not defined" in result.findings[0].words
        for i, cell in enumerate(cells):
            exec(cell, namespace)
            there = judge(task, sandbox.answer(f"answer_{i}"), np.random.default_rng(0))
            assert there.score == task.points, there.findings
            assert judged_here("02.2", namespace["answer"]).score == task.points
        assert sandbox.errors == []


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
