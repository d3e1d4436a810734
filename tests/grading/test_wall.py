"""What a submission reaches from behind the wall, and what it may use up."""

import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from attacks import OUTSIDE
from handed_in import STUBBORN, hand_in
from normtutor_grader import sandbox as sandbox_module
from normtutor_grader import wall
from normtutor_grader.sandbox import Limits, Sandbox

import normtutor
from normtutor.grading import TASKS, judge

pytestmark = pytest.mark.slow

PACKAGE = Path(normtutor.__file__).resolve().parent
LIMITS = Limits(seconds=100, total_seconds=600)  # what no honest cell needs, on a busy machine
ENDLESS = Limits(seconds=1, total_seconds=600, megabytes=300)  # for what ends by a limit alone


@pytest.fixture(autouse=True)
def whole():
    """Let a test about the wall run where there is one."""
    try:
        wall.tried()
    except wall.NoWall as error:
        if os.environ.get("NORMTUTOR_WALL") == "required":
            raise
        pytest.skip(str(error).splitlines()[0])


def run(cells, limits=LIMITS):
    """Run some cells; what they printed, what they ended with, why they were stopped."""
    with Sandbox(cells, limits) as sandbox:
        sandbox.ask({"name": "nothing", "arguments": []})
    return sandbox.printed, sandbox.errors, sandbox.stopped


def test_nothing_outside_is_reached_or_changed(tmp_path, monkeypatch):
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
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket(socket.AF_UNIX) as own:
        names["listening"] = listening.getsockname()[1]
        names["abstract"] = f"normtutor-{os.getpid()}"
        own.bind(f"\0{names['abstract']}")
        own.listen()
        cells = []
        for number, attack in enumerate(OUTSIDE.values()):
            cell = re.sub(r"\{(\w+)\}", lambda m: str(names[m[1]]), attack)
            body = "\n".join(f"    {line}" for line in cell.splitlines())
            cells.append(f"def attack():\n{body}\n    print('reached {number}.')\nattack()")
        printed, errors, stopped = run(cells)
    assert [name for i, name in enumerate(OUTSIDE) if f"reached {i}." in printed] == []
    assert not stopped and len(errors) == min(len(OUTSIDE), 50)  # a report repeats no more
    for place, status in before.items():
        now = (tmp_path / place).stat()
        assert now.st_mtime_ns == status.st_mtime_ns and now.st_mode == status.st_mode
        assert (now.st_uid, now.st_size) == (status.st_uid, status.st_size)
    assert {p.name for p in tmp_path.iterdir()} == {Path(p).parts[0] for p in before}


NEEDED = """
import numpy as np, torch, scipy.special, matplotlib.pyplot as plt
import tempfile, threading
open("notes.txt", "w").write("mine")
assert open("notes.txt").read() == "mine" and tempfile.mkdtemp()
plt.plot([1, 2]); plt.savefig("figure.png")
thread = threading.Thread(target=print); thread.start(); thread.join()
x = torch.ones(3, requires_grad=True); (x @ x).backward()
assert torch.linalg.svd(torch.eye(3))[1].sum() == 3 and np.random.default_rng().normal() != 0
"""


def test_what_an_exercise_needs_works_behind_the_wall():
    assert run([NEEDED])[1:] == ([], [])


# A library of 400 MB that is given up made room for as much of one's own.
UNMAPPED = """import ctypes, torch
for line in open("/proc/self/maps"):
    first, last = (int(part, 16) for part in line.split()[0].split("-"))
    if "libtorch_cpu" in line and " rw-p " not in line:
        ctypes.CDLL(None).munmap(ctypes.c_void_p(first), ctypes.c_size_t(last - first))
kept = b"x" * (400 * 2**20)"""


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (
            "for _ in range(50): threading.Thread(target=time.sleep, args=(60,)).start()",
            "new thread",
        ),
        ("for _ in range(300): open('a', 'ab').write(bytes(2**20))", "No space left"),
        ("open('/dev/shm/a', 'wb').write(bytes(2**20))", "No space left"),
        ("kept = bytes(400 * 2**20)", "MemoryError"),
        (UNMAPPED, "MemoryError"),
        ("for n in itertools.count(): open(str(n), 'w').close()", "too many files"),
    ],
)
def test_what_all_need_is_not_used_up_by_one(cell, words):
    _, errors, _ = run(
        [f"import itertools, threading, time\n{cell}"], LIMITS._replace(megabytes=300)
    )
    assert re.search(words, errors[0])


UNCOUNTED = """
import ctypes, errno, fcntl, mmap, os, socket
c = ctypes.CDLL(None, use_errno=True)
clone, seccomp, io_setup = (56, 317, 206) if os.uname().machine == "x86_64" else (220, 277, 0)

def refused(function, *given):
    try:
        if function(*given) != -1: return False
        return ctypes.get_errno() == errno.EPERM
    except PermissionError:
        return True

reached = [name for name, call in {
    "a socket": (socket.socket,), "a pair of sockets": (socket.socketpair,),
    "memory without a name": (os.memfd_create, "a"), "shared memory": (mmap.mmap, -1, 2**20),
    "memory by /dev/zero": (open, "/dev/zero"), "memory of System V": (c.shmget, 0, 2**20, 0o1600),
    "queues": (c.msgget, 0, 0o1600), "semaphores": (c.semget, 0, 32000, 0o1600),
    "a page given to a pipe": (c.vmsplice, os.pipe()[1], 0, 0, 0),
    "what stands beside a file": (os.setxattr, ".", "user.a", bytes(9)),
    "the same by a newer call": (c.syscall, 463, 0, 0, 0, 0, 0, 0),
    "entries for what is watched": (c.inotify_init,),
    "calls in a queue": (c.syscall, 425, 1, 0), "a name space": (c.unshare, 0x10020000),
    "a file system": (c.mount, b"none", b"/normtutor-scratch", b"tmpfs", 0, b"size=2g"),
    "a session of its own": (os.setsid,), "a process": (os.fork,),
    "a name space with a process": (c.syscall, clone, 0x10000000, 0, 0, 0, 0),
    "a table of futexes": (c.prctl, 78, 1, ctypes.c_ulong(2**20), 0, 0),
    "rules for ports": (c.syscall, 444, 0, 0, 1), "a filter": (c.syscall, seccomp, 2, 0, bytes(8)),
    "reading ahead": (c.syscall, io_setup, 1, bytes(8)),
    "a table of files for each thread": (c.syscall, 436, 250, 255, 2),
    "locks of parts of a file": (fcntl.lockf, open("a", "w"), fcntl.LOCK_EX, 1, 0),
    "the same, asked in 64 bits": (c.fcntl, ctypes.c_int(1), ctypes.c_long(2**32 + 6), bytes(32)),
    "a stack without end": (c.mmap, 0, 4096, 3, 0x122, -1, 0),
    "an end of its own choosing": (c.prctl, 1, 0),
}.items() if not refused(*call)]
assert not reached, reached
"""


def test_the_kernel_holds_nothing_for_a_submission_that_is_not_counted():
    """Sockets took 941 MB of 512, shared memory 2.4 GB, semaphores and queues 500 MB each.

    Processes took 1.5 GB of 500 MB: each soon went on as another, or its first thread ended, and
    they were not counted. One call took a gigabyte of the kernel's for a table of futexes; two
    million rules for ports took 180 MB.
    """
    assert run([UNCOUNTED])[1:] == ([], [])


LATER = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        while not os.path.exists("go"): time.sleep(0.01)
        kept = b"x" * 150_000_000
        time.sleep(600)
"""


def test_memory_is_looked_at_while_nobody_asks():
    """A submission that answered each question within a tenth of a second was never looked at."""
    with Sandbox([LATER], LIMITS._replace(megabytes=200), walled=False) as sandbox:
        sandbox.ask({"name": "nothing", "arguments": []})
        (Path(sandbox._folder.name) / "go").touch()
        sandbox._process.wait(100)
        sandbox.ask({"name": "nothing", "arguments": []})
        assert sandbox.stopped[0] == "the submission took more than 200 MB"


FORKS = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        kept = b"x" * 100_000_000
        time.sleep(600)
time.sleep(600)
"""


def test_the_memory_of_all_its_processes_has_one_limit():
    """Each of them was below 200 MB, and together they took 606; behind the wall it has one."""
    with Sandbox([FORKS], LIMITS._replace(megabytes=200), walled=False) as sandbox:
        sandbox.ask({"name": "nothing", "arguments": []})
    (words,) = sandbox.stopped
    assert words == "the submission took more than 200 MB"


ASLEEP = """
import time
while True:
    try: time.sleep(10**6)
    except BaseException: pass
"""


@pytest.mark.parametrize("cell", [ASLEEP, STUBBORN])
def test_who_sleeps_or_computes_is_waited_for_as_long_as_the_page_says(cell):
    """It was 48 seconds of sleep where 16 were documented."""
    with Sandbox([cell], ENDLESS) as sandbox:
        asked, reply = [], sandbox._reply
        sandbox._reply = lambda question, seconds: asked.append(seconds) or reply(question, seconds)
        sandbox.ask({"name": "nothing", "arguments": []})
        assert asked[1:] == [ENDLESS.seconds + sandbox_module.GRACE]
        assert sandbox.stopped == ["the submission did not answer within 1 seconds"]
        assert sandbox.starts == sandbox_module.MOST_STARTS  # and no second time


def test_nothing_is_left_of_a_submission_that_has_ended():
    """A process that stayed behind had rewritten a table of grades."""
    cell = "import os, time\nif os.fork() == 0:\n    os.setpgrp()\n    while True: time.sleep(1)"
    family = []
    for walled in (True, False):
        with Sandbox([cell], LIMITS, walled=walled) as sandbox:
            sandbox.ask({"name": "nothing", "arguments": []})
            family += sandbox_module.family(sandbox._process)
    assert len(family) >= 4
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []


def test_a_submission_does_not_outlive_a_killed_grader(tmp_path):
    path = hand_in(
        tmp_path / "02_a.ipynb", f"import ctypes\nctypes.CDLL(None).prctl(1, 0)\n{STUBBORN}"
    )
    command = [sys.executable, "-m", "normtutor_grader", "grade", str(path), "--seconds", "600"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as grader:
        end, family = time.monotonic() + 600, []
        try:
            while not any(map(runs_a_submission, family)):
                assert time.monotonic() < end
                time.sleep(0.1)
                family = psutil.Process(grader.pid).children(recursive=True)
        finally:
            grader.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(family, timeout=600)
    assert alive == []


def runs_a_submission(process):
    try:
        return "child.py" in " ".join(process.cmdline()) and "bwrap" not in process.name()
    except psutil.Error:
        return False


def test_no_wall_is_an_error_with_the_remedy_and_not_a_note(tmp_path, monkeypatch):
    """Without a wall the grader went on, silently, with exit code 0."""
    monkeypatch.setenv("PATH", "/nowhere")
    wall.tried.cache_clear()
    try:
        with pytest.raises(wall.NoWall, match="apt install bubblewrap"):
            Sandbox(["a = 1"])
    finally:
        wall.tried.cache_clear()


def test_the_key_is_withheld_in_every_folder_of_packages():
    cell = """
import os, sys
files = [os.path.join(p, n) for p in sys.path if os.path.isdir(p) for n in os.listdir(p)]
left = [f for f in files if "normtutor" in f.rpartition("/")[2].lower() and os.path.isfile(f)]
for folder in filter(os.path.isdir, files):
    if "normtutor" in folder.rpartition("/")[2]:
        left += [os.path.join(folder, name) for name in os.listdir(folder)]
assert not [f for f in left if os.path.getsize(f)], left
"""
    assert run([cell])[1] == []
    with Sandbox(["import normtutor.norms"], LIMITS) as sandbox:
        result = judge(TASKS["02.2"], sandbox.answer("layer_norm_dx"), np.random.default_rng(0))
        assert result.score == 0 and "normtutor" in sandbox.errors[0]


@pytest.mark.parametrize(
    "place", ["lib/python3.11/site-packages", "envs/a/lib/python3.9/site-packages"]
)
def test_the_key_is_withheld_where_another_interpreter_keeps_it(place, tmp_path, monkeypatch):
    """In a virtual environment, the packages of the Python that it was made of could be read."""
    package = tmp_path / place / "normtutor"
    package.mkdir(parents=True)
    (tmp_path / place / "numpy").mkdir()
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    assert [path for path in wall.hidden() if path.is_relative_to(tmp_path)] == [package]


def test_the_scratch_folder_hides_no_interpreter():
    """It lay over the system's own temporary folder, and a checkout in there had no wall."""
    assert not [place for place in wall.view() if place.startswith(wall.SCRATCH)]
    assert wall.SCRATCH.startswith("/normtutor")
