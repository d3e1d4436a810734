"""The wall around a submission: bubblewrap, which Flatpak uses, and limits of the kernel.

A submission sees the interpreter and the system's libraries, read-only, an empty temporary folder
of limited size, itself as its only process, and no network. What holds an answer is not there.
"""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import normtutor
from normtutor.grading import answers
from normtutor_grader import system_calls

SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/etc/fonts")
SCRATCH = "/normtutor-scratch"  # in there: a file system of its own, where no interpreter lies
PACKAGES = ("site-packages", "dist-packages")
CODE = "/grader"  # in there: the two files that a submission's process runs
PYTHON = os.path.abspath(sys.executable)
MEGABYTES_ON_DISK = 200
THREADS = 16
NOBODY = 60_000  # for a grader that is root: one user of so many for each submission
REMEDY = """Submissions are run inside bubblewrap, and it does not work here: {why}
  Debian, Ubuntu: sudo apt install bubblewrap libseccomp2
  Fedora:         sudo dnf install bubblewrap libseccomp
  Ubuntu 24.04 and newer forbid it to users:
                  sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0
  macOS, Windows: use the container of the page on teaching, or WSL 2.
Without it, --no-wall runs each submission as you: it can read and change your files and use the
network. Do that in a container, or for notebooks that you trust."""


class NoWall(ValueError):
    """bubblewrap is missing or forbidden here."""


def hidden() -> Iterator[Path]:
    """What holds answers: this package, its tests, and libraries that have norms."""
    package = Path(normtutor.__file__).resolve().parent
    yield package
    yield Path(__file__).resolve().parent
    for name in ("tests", "grader", ".git"):  # of a checkout
        if (package.parent / "pyproject.toml").exists() and (package.parent / name).exists():
            yield package.parent / name
    folders = {folder for folder in map(Path, sys.path) if folder.name in PACKAGES}
    for place in map(Path, ("/usr", "/usr/local", sys.base_prefix, sys.prefix)):
        for name in PACKAGES:  # also those that lie there for another interpreter
            folders.update(place.glob(f"lib/python3*/{name}"))
            folders.update(place.glob(f"envs/*/lib/python3*/{name}"))
    for folder in filter(Path.is_dir, folders):
        for path in folder.iterdir():
            if answers.is_withheld(path.name):
                yield path.resolve()


@functools.cache
def view() -> list[str]:
    """The arguments that say which files there are."""
    added = [p for p in sys.path if p.endswith(("site-packages", "dist-packages"))]
    places = [*SYSTEM, sys.base_prefix, sys.prefix, *added]
    places = [place for place in dict.fromkeys(places) if os.path.exists(place)]
    found: list[str] = []
    for place in places:
        if os.path.islink(place) and place in SYSTEM:
            found += ["--symlink", os.readlink(place), place]
        elif not any(place.startswith(f"{other}/") for other in places):
            for parent in reversed(Path(place).parents[:-1]):  # else closed to everybody but root
                found += ["--dir", str(parent)]
            found += ["--ro-bind", place, place]
    roots = [os.path.realpath(place) for place in places]
    for path in sorted(set(hidden())):
        if any(path.is_relative_to(root) for root in roots):
            found += (
                ["--tmpfs", str(path)] if path.is_dir() else ["--ro-bind", "/dev/null", str(path)]
            )
    return found


def started(
    program: Sequence[str], files: dict[str, Path], pass_fds: Sequence[int] = (), **how: Any
) -> subprocess.Popen:
    """Start a program behind the wall.

    Parameters
    ----------
    program : sequence of str
    files : mapping of str to Path
        Files to show under ``CODE``, by their name there.
    pass_fds, **how
        As for ``subprocess.Popen``.
    """
    reads, writes = os.pipe()
    try:
        with open(writes, "wb") as filter_:
            filter_.write(system_calls.program())
        command = ["bwrap", "--seccomp", str(reads), *arguments(files), *program]
        return subprocess.Popen(command, pass_fds=(*pass_fds, reads), **how)
    finally:
        os.close(reads)


def arguments(files: dict[str, Path]) -> list[str]:
    """What bubblewrap is told, and what is run in it before the program."""
    apart, as_whom = ["--unshare-all"], list[str]()
    if os.getuid() == 0:  # the kernel counts no processes of root's
        apart = [f"--unshare-{kind}" for kind in ("ipc", "pid", "net", "uts", "cgroup")]
        user = NOBODY + os.getpid() % 5000
        as_whom = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        as_whom += ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
        as_whom += ["--pdeathsig=KILL", "--"]  # another user's is forgotten
    found = [*apart, "--die-with-parent", "--new-session", "--clearenv", *view(), "--proc", "/proc"]
    found += ["--as-pid-1"]  # else process 1 is bubblewrap's, with the grader's environment
    # Shared memory can be had of /dev/zero as well.
    found += ["--dev", "/dev", "--ro-bind", "/dev/null", "/dev/zero"]
    found += ["--size", "65536", "--perms", "1777", "--tmpfs", "/dev/shm"]
    found += ["--size", str(MEGABYTES_ON_DISK * 2**20), "--perms", "1777", "--tmpfs", SCRATCH]
    found += ["--dir", CODE]
    for name, path in files.items():
        found += ["--ro-bind", str(path), f"{CODE}/{name}"]
    for name, value in environment(SCRATCH).items():
        found += ["--setenv", name, value]
    found += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", SCRATCH, "--"]
    return [*found, "prlimit", f"--nproc={THREADS}", "--core=0", "--", *as_whom]


def environment(home: str) -> dict[str, str]:
    """What a submission's process has of an environment: nothing of the grader's."""
    return {
        "HOME": home,
        "TMPDIR": home,
        "MPLCONFIGDIR": home,
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
    }


@functools.cache
def tried() -> None:
    """Run nothing behind the wall.

    Raises
    ------
    NoWall
        If that does not work, with the remedy.
    """
    if shutil.which("bwrap") is None:
        raise NoWall(REMEDY.format(why="the command bwrap is not installed"))
    how: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    try:
        with started([PYTHON, "-I", "-c", "import numpy"], {}, **how) as process:
            try:
                _, words = process.communicate(timeout=240)
            finally:
                process.kill()
    except (OSError, ImportError, RuntimeError, subprocess.TimeoutExpired) as error:
        raise NoWall(REMEDY.format(why=error)) from error
    if process.returncode:
        raise NoWall(REMEDY.format(why=words.strip()[-300:]))
