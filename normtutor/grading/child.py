"""The process that runs a submission. It answers questions with data, behind a wall of the kernel.

What it answers is compared elsewhere, so nothing that a submission does in here can change a grade
except by returning the right numbers. A starter process imports NumPy and torch once and forks one
such process a submission. This file is run by its path and imports nothing of normtutor.
"""

import ast
import builtins
import contextlib
import importlib
import importlib.machinery
import importlib.util
import json
import linecache
import os
import re
import signal
import site
import socket
import sys
import sysconfig
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# Shared libraries, time zones and fonts; what torch asks about the processor.
SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share/zoneinfo",
          "/usr/share/fonts", "/etc/ld.so.cache", "/etc/localtime", "/etc/fonts",
          "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu", "/sys/devices/system/node",
          "/dev/urandom", "/dev/random")  # fmt: skip
DEVICES = ("/dev/null", "/dev/zero")
# Cell magics of IPython whose cell is no Python.
NOT_PYTHON = re.compile(r"%%(bash|sh|script|html|HTML|javascript|js|latex|markdown|perl|ruby|svg"
                        r"|system|sx|writefile|file|cmd|cython|R)\b")  # fmt: skip
FILE_BYTES = 50_000_000  # the largest file that a submission may write
FILES = 256  # that it may have open


def beside(name: str) -> Any:
    """A module that lies beside this file, without the package around it."""
    spec = importlib.util.spec_from_file_location(f"grader_{name}", HERE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def packages_below(tree: str) -> Iterator[str]:
    """What lies in the folders of packages in a tree."""
    for folder, folders, files in os.walk(tree):
        if folder.endswith(("site-packages", "dist-packages")):
            yield from (os.path.join(folder, name) for name in (*folders, *files))
            folders.clear()


def readable(wall: Any, withheld: Sequence[str]) -> list[tuple[str, int]]:
    """The interpreter and its libraries, but for the packages that hold answers."""
    # A folder that somebody has added to the path can be anything, a checkout with its tests even.
    added = [p for p in sys.path if p.endswith(("site-packages", "dist-packages"))]
    interpreter = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib")]
    places = (*SYSTEM, *site.getsitepackages(), *added, *interpreter, sys.base_prefix + "/lib")
    trees = {os.path.realpath(place) for place in places if os.path.exists(place)}
    packages = [path for tree in trees for path in packages_below(tree)]
    away = {str(HERE.parent)}
    if (HERE.parents[1] / "tests").is_dir():  # a checkout, with the solutions of the tests
        away.add(str(HERE.parents[1]))
    for path in packages:
        name = os.path.basename(path)  # with a "~" in front pip keeps what it could not remove
        if name.startswith("~") or re.split("[-.]", name)[0] in withheld:
            away.add(path)
    return [entry for tree in sorted(trees) for entry in wall.around(tree, away)]


def limit(megabytes: int, seconds: float) -> None:
    """Let this process grow and compute by so much; where the system has no limits, do nothing."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
        used = resource.getrusage(resource.RUSAGE_SELF)
        most = int(used.ru_utime + used.ru_stime + seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))
        with open("/proc/self/statm") as statm:
            now = int(statm.read().split()[0]) * resource.getpagesize()
        most = now + megabytes * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


# --- cells ----------------------------------------------------------------------------------------


def as_python(source: str) -> str:
    """Turn what only IPython reads (%, !, ?) into Python that does nothing, line by line."""
    if NOT_PYTHON.match(source.lstrip()):
        return "pass"
    lines = source.split("\n")
    for _ in range(len(lines)):
        try:
            ast.parse("\n".join(lines))
            break
        except SyntaxError as error:
            number = min(error.lineno or 1, len(lines)) - 1
            line = lines[number]
            indent = line[: len(line) - len(line.lstrip())]
            if found := re.match(r"\s*%%?time\s+(.+)", line):
                lines[number] = indent + found[1]
            elif re.match(r"\s*(%|!|\?)|.*\?\s*$", line):
                lines[number] = indent + "pass"
            elif found := re.match(r"\s*([\w, ]+=)\s*[%!]", line):
                lines[number] = indent + found[1] + " None"
            else:
                break
        except (ValueError, RecursionError, MemoryError):
            break
    return "\n".join(lines)


def stand_in(name: str) -> types.ModuleType:
    """A module whose functions do nothing, for the import lines of a notebook."""

    def nothing(*args: Any, **kwargs: Any) -> None:
        """Do nothing: the graded run checks from outside and shows nothing."""

    module = types.ModuleType(name)
    module.__path__ = []
    if name.startswith("normtutor"):
        for done in ("check", "check_file", "explain", "numbers", "score"):
            setattr(module, done, nothing)
    else:  # a library that asks for IPython's version finds one that needs no attention
        module.version_info, module.get_ipython = (99, 0), nothing  # type: ignore[attr-defined]
        module.__getattr__ = Silent().__getattr__  # type: ignore[method-assign]
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, module)
    return module


class Withheld:
    """Makes the import of some packages fail.

    An entry None in ``sys.modules`` would do so, too, and mislead SciPy, which looks there.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = {name for name in names if importlib.util.find_spec(name) is not None}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] not in self.names:
            return None
        return importlib.machinery.ModuleSpec(name, self)  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> None:
        raise ModuleNotFoundError(f"{spec.name} is not there when a notebook is graded")

    def exec_module(self, module: Any) -> None:
        """Never reached."""


class Silent:
    """Stands for whatever IPython has: can be called, asked and entered, and does nothing."""

    def __call__(self, *args: Any, **kwargs: Any) -> "Silent":
        return self

    def __getattr__(self, name: str) -> "Silent":
        if name.startswith("__"):
            raise AttributeError(name)
        return self


def execute(source: str, number: int, namespace: dict, seconds: float, answers: Any) -> str:
    """Run one cell, whatever became of those before; say what went wrong."""
    name = f"<code cell {number}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    try:
        with answers.time_limit(seconds):
            exec(compile(as_python(source), name, "exec"), namespace)
    except BaseException as error:
        return answers.in_words(error)
    return ""


# --- the process ----------------------------------------------------------------------------------


def settle(order: dict[str, Any], grader: dict[str, Any]) -> tuple[dict, Any]:
    """Make this process ready for a submission: its namespace and the wall."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    sys.stdin, sys.argv[1:] = open(os.devnull), []
    sys.stdout = sys.stderr = os.fdopen(os.dup(1), "w", 1, encoding="utf-8", errors="replace")
    own = os.path.realpath(order["own"])
    os.chdir(own)
    os.environ.update(HOME=own, TMPDIR=own, MPLCONFIGDIR=own)
    sys.dont_write_bytecode = True
    sys.meta_path.insert(0, Withheld(grader["answers"].WITHHELD))
    for name in ("normtutor", "normtutor.grading", "IPython", "IPython.display"):
        stand_in(name)
    builtins.display = builtins.get_ipython = Silent()  # type: ignore[attr-defined]
    main_module = sys.modules["__main__"] = types.ModuleType("__main__")
    limit(order["megabytes"], 3 * order["total_seconds"])
    return main_module.__dict__, grader["wall"].raise_wall(grader["readable"], own, DEVICES)


def serve(order: dict[str, Any], answers_to: int, grader: dict[str, Any]) -> None:
    """Run one submission: questions come by descriptor 0, answers go by another, a line each.

    The first question asks for nothing; its answer says that the process is ready, or why not.
    """
    answers = grader["answers"]
    reader, writer = os.fdopen(os.dup(0), "rb"), os.fdopen(answers_to, "wb")
    dumps, loads, clock = json.dumps, json.loads, order["seconds"]
    answers.PATIENCE = order["patience"]

    def answer(content: dict, question: str) -> None:
        data = dumps({**content, "question": question}).encode()
        if len(data) > answers.MOST_BYTES:
            data = dumps({"error": "the result is too large", "question": question}).encode()
        writer.write(data + b"\n")
        writer.flush()

    hello = loads(reader.readline())["question"]
    try:
        namespace, holds = settle(order, grader)
    except Exception as error:
        answer({"failed": f"{type(error).__name__}: {error}"}, hello)
        return
    answer({"wall": holds}, hello)
    while True:
        request = loads(reader.readline() or b"null")
        if request is None:
            return
        if "cell" in request:
            went_wrong = execute(request["cell"], request["number"], namespace, clock, answers)
            answer({"error": went_wrong}, request["question"])
            continue
        if request["name"] not in namespace:
            answer({"missing": True}, request["question"])
            continue
        found = namespace[request["name"]]
        arguments = [answers.decode(argument) for argument in request["arguments"]]
        if "steps" in request:
            steps = [answers.decode(step) for step in request["steps"]]
            content = answers.drive(found, arguments, steps, clock)
        else:
            content = answers.call(found, arguments, clock)
        answer(content, request["question"])


def prepare(names: Sequence[str]) -> None:
    """Import what a notebook mentions, once for all submissions."""
    for name in names:
        if name in sys.modules:
            continue
        with contextlib.suppress(ImportError):
            module = importlib.import_module(name)
            if name == "torch":
                module.set_num_threads(1)
                importlib.import_module("torch.func")
            if name == "matplotlib.pyplot":
                module.switch_backend("agg")


def end(pid: int) -> None:
    """Kill a submission's process with all that it has started."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def main() -> None:
    """Start a process for each order that comes by a socket; end it when told to."""
    control = socket.socket(fileno=int(sys.argv[1]))
    grader: dict[str, Any] = {name: beside(name) for name in ("answers", "wall")}
    grader["wall"].die_with_parent()
    grader["readable"] = readable(grader["wall"], grader["answers"].WITHHELD)
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 65536, 3)
        if not message:
            return
        order = json.loads(message)
        if "end" in order:
            end(order["end"])
            control.sendall(b"{}\n")
            continue
        prepare(order["prepare"])
        pid = os.fork() if order["fork"] else 0
        if not pid:
            os.setsid()
            if order["fork"]:
                grader["wall"].die_with_parent()
                control.close()
            else:
                control.sendall(json.dumps({"pid": os.getpid()}).encode() + b"\n")
            questions, printed, answers_to = descriptors
            for old, new in ((questions, 0), (printed, 1), (printed, 2)):
                os.dup2(old, new)
            os.close(questions)
            os.close(printed)
            try:
                serve(order, answers_to, grader)
            except BrokenPipeError:
                pass
            finally:
                os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)
        control.sendall(json.dumps({"pid": pid}).encode() + b"\n")


if __name__ == "__main__":
    main()
