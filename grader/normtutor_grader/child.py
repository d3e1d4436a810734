"""The process that runs a submission: it executes cells and answers questions with data.

What it answers is compared elsewhere, so nothing that a submission does in here can change a grade
except by returning the right numbers. This file is run by its path, with ``answers.py`` beside it,
and imports nothing of normtutor.
"""

import ast
import builtins
import importlib
import importlib.machinery
import importlib.util
import json
import linecache
import os
import re
import sys
import types
from collections.abc import Sequence
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import answers  # type: ignore[import-not-found]

# Cell magics of IPython whose cell is no Python.
NOT_PYTHON = re.compile(r"%%(bash|sh|script|html|HTML|javascript|js|latex|markdown|perl|ruby|svg"
                        r"|system|sx|writefile|file|cmd|cython|R)\b")  # fmt: skip
OPEN_FILES = 256


def limit(megabytes: int) -> None:
    """Let this process grow by so much; where the system has no limits, do nothing."""
    try:
        import resource

        with open("/proc/self/statm") as statm:
            pages = list(map(int, statm.read().split()))
        # Libraries that are unmapped make room for as much of its own; as data they never counted.
        for which, now in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
            most = now * resource.getpagesize() + megabytes * 2**20
            resource.setrlimit(which, (most, most))
        stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
        resource.setrlimit(resource.RLIMIT_STACK, (stack, stack))
        resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    except (ImportError, OSError, ValueError):
        return


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


def execute(source: str, number: int, namespace: dict, seconds: float) -> list[str]:
    """Run one cell statement by statement, whatever became of those before; say what went wrong."""
    name = f"<code cell {number}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    wrong: list[str] = []
    try:
        with answers.time_limit(seconds):
            for statement in ast.parse(as_python(source), name).body:
                try:
                    exec(compile(ast.Module([statement], []), name, "exec"), namespace)
                except Exception as error:
                    wrong.append(answers.in_words(error))
    except BaseException as error:
        wrong.append(answers.in_words(error))
    return wrong[:20]


# --- what is there and what is not ----------------------------------------------------------------


class Silent:
    """Stands for whatever IPython has: can be called, asked and entered, and does nothing."""

    def __call__(self, *args: Any, **kwargs: Any) -> "Silent":
        return self

    def __getattr__(self, name: str) -> "Silent":
        if name.startswith("__"):
            raise AttributeError(name)
        return self


def stand_in(name: str) -> None:
    """A module whose functions do nothing, for the import lines of a notebook."""
    module = types.ModuleType(name)
    module.__path__ = []
    if name.startswith("normtutor"):
        for done in ("check", "check_file", "explain", "numbers", "score"):
            setattr(module, done, lambda *args, **kwargs: None)
    else:  # a library that asks for IPython's version finds one that needs no attention
        module.version_info, module.get_ipython = (99, 0), Silent()  # type: ignore[attr-defined]
        module.__getattr__ = Silent().__getattr__  # type: ignore[method-assign]
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, module)


class Withheld:
    """Makes the import of some packages fail.

    An entry None in ``sys.modules`` would do so, too, and mislead SciPy, which looks there.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if answers.is_withheld(name.partition(".")[0]):
            return importlib.machinery.ModuleSpec(name, self)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: Any) -> None:
        raise ModuleNotFoundError(f"{spec.name} is not there when a notebook is graded")

    def exec_module(self, module: Any) -> None:
        """Never reached."""


def settle(order: dict[str, Any]) -> dict[str, Any]:
    """Make this process ready for a submission, and return the namespace of its cells."""
    for name in order["prepare"]:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        if name == "torch":
            module.set_num_threads(1)
            importlib.import_module("torch.func")
        if name == "matplotlib.pyplot":
            module.switch_backend("agg")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    sys.stdin, sys.argv[1:] = open(os.devnull), []
    sys.stdout = sys.stderr = os.fdopen(os.dup(1), "w", 1, encoding="utf-8", errors="replace")
    sys.dont_write_bytecode = True
    sys.path[:] = [place for place in sys.path if place != os.path.dirname(answers.__file__)]
    sys.meta_path.insert(0, Withheld())
    for name in ("normtutor", "normtutor.grading", "IPython", "IPython.display"):
        stand_in(name)
    builtins.display = builtins.get_ipython = Silent()  # type: ignore[attr-defined]
    main_module = sys.modules["__main__"] = types.ModuleType("__main__")
    limit(order["megabytes"])
    return main_module.__dict__


def serve(questions: int, answers_to: int) -> None:
    """Run one submission: questions come by one descriptor, answers go by another, a line each.

    The first question is the order; its answer says that the process is ready.
    """
    reader, writer = os.fdopen(questions, "rb"), os.fdopen(answers_to, "wb")
    dumps, loads = json.dumps, json.loads

    def answer(content: dict, question: str) -> None:
        data = dumps({**content, "question": question}).encode()
        if len(data) > answers.MOST_BYTES:
            data = dumps({"error": "the result is too large", "question": question}).encode()
        writer.write(data + b"\n")
        writer.flush()

    order = loads(reader.readline())
    namespace, clock = settle(order), order["seconds"]
    answer({}, order["question"])
    while request := loads(reader.readline() or b"null"):
        if "cell" in request:
            wrong = execute(request["cell"], request["number"], namespace, clock)
            answer({"errors": wrong}, request["question"])
        elif request["name"] not in namespace:
            answer({"missing": True}, request["question"])
        else:
            found = namespace[request["name"]]
            arguments = [answers.decode(argument) for argument in request["arguments"]]
            if "steps" in request:
                steps = [answers.decode(step) for step in request["steps"]]
                content = answers.drive(found, arguments, steps, clock)
            else:
                content = answers.call(found, arguments, clock)
            answer(content, request["question"])


def main(arguments: Sequence[str]) -> None:
    """Serve, and end without what a submission has left to be done at the end."""
    try:
        serve(os.dup(0), int(arguments[0]))
    except BrokenPipeError:
        pass
    finally:
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
