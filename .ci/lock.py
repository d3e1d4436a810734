"""Choose the versions in requirements.txt, requirements-lab.txt and Binder's torch: `make lock`.

uv finds one set of versions for every Python and system that the package supports. What is pinned
stays as it is where it can; with --upgrade, everything becomes as new as it can be.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parent.parent
BOOK, LAB = ROOT / "requirements.txt", ROOT / "requirements-lab.txt"
BINDER = ROOT / ".binder" / "requirements.txt"
# The libraries of CUDA belong to one build of torch for Linux; pip adds them where they are needed.
LEFT_OUT = re.compile(r"^(nvidia-|cuda-|triton\b)")
NAME = re.compile(r"^([A-Za-z0-9._-]+)")


def name_of(line: str) -> str:
    found = NAME.match(line)
    return re.sub(r"[-_.]+", "-", found[1]).lower() if found else ""


def pins_of(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [line for line in text.splitlines() if "==" in line and not line.startswith("#")]


def project_table() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def fitting(pins: list[str], project: dict[str, Any]) -> list[str]:
    """Leave out the pins that the package no longer allows, for which uv would find no solution."""
    needs = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    asked: dict[str, SpecifierSet] = {}
    for need in needs:
        name = name_of(need)
        asked[name] = asked.get(name, SpecifierSet()) & Requirement(need).specifier
    return [
        pin
        for pin in pins
        if all(
            asked.get(name_of(pin), SpecifierSet()).contains(exact.version, prereleases=True)
            for exact in Requirement(pin).specifier
        )
    ]


def oldest_python() -> str:
    """The oldest version of Python that the package supports, which every pin must support too."""
    return str(project_table()["requires-python"]).removeprefix(">=")


def chosen_directly(extra: str) -> set[str]:
    """Name what an extra of the package asks for, in itself or through other extras."""
    project = project_table()
    names = {name_of(need) for need in project["dependencies"]}
    waiting, seen = [extra], set()
    while waiting:
        seen.add(current := waiting.pop())
        for need in project["optional-dependencies"][current]:
            if need.startswith("normtutor["):
                waiting += set(re.findall(r"\w+", need.split("[")[1])) - seen
            else:
                names.add(name_of(need))
    return names


def resolve(extras: list[str], constraints: list[str], folder: Path) -> list[str]:
    """Let uv choose a version of everything that the extras need."""
    held = folder / "constraints.txt"
    held.write_text("\n".join(constraints) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "uv", "pip", "compile", str(ROOT / "pyproject.toml")]
    command += [word for extra in extras for word in ("--extra", extra)]
    command += ["--universal", "--python-version", oldest_python()]
    command += ["--no-header", "--no-annotate"]
    command += ["--fork-strategy", "fewest", "--constraint", str(held), "--quiet"]
    # pip's own settings say where packages come from.
    index = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"],
        capture_output=True,
        text=True,
    ).stdout.strip()
    environment = {**os.environ, **({"UV_DEFAULT_INDEX": index} if index else {})}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr)
    lines = (line.replace("'", '"').replace(" ; ", "; ") for line in done.stdout.splitlines())
    return [re.sub(r"\+cpu\b", "", line) for line in lines if line and not LEFT_OUT.match(line)]


def written(title: str, direct: set[str], lines: list[str], last: str = "") -> str:
    """Lay out a file of pins: what was chosen, and what that needs."""
    chosen = [line for line in lines if name_of(line) in direct]
    rest = [line for line in lines if name_of(line) not in direct]
    parts = [f"# {title}", "# `make lock` writes this file. Chosen directly:", *chosen]
    return "\n".join([*parts, "", "# What those need:", *rest]) + "\n" + last


def with_torch_of(pins: list[str], binder: str) -> str:
    """Give Binder the torch of the book, built for processors."""
    (torch,) = (line for line in pins if name_of(line) == "torch")
    return re.sub(r"^torch==.*$", f"{torch}+cpu", binder, flags=re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--upgrade", action="store_true")
    arguments = parser.parse_args()
    held = [] if arguments.upgrade else fitting([*pins_of(BOOK), *pins_of(LAB)], project_table())
    with tempfile.TemporaryDirectory() as folder:
        book = resolve(["test"], held, Path(folder))
        again = [] if arguments.upgrade else fitting(pins_of(LAB), project_table())
        both = resolve(["test", "lab"], [*book, *again], Path(folder))
    last = "\n# The packages of this repository; a change in them is seen at once.\n"
    last += "-e .\n-e ./studies\n"
    title = "What the book is built with, exactly."
    BOOK.write_text(written(title, chosen_directly("test"), book, last), encoding="utf-8")
    binder = with_torch_of(book, BINDER.read_text(encoding="utf-8"))
    BINDER.write_text(binder, encoding="utf-8")
    lab = [line for line in both if line not in book]
    title = "What `make lab` adds to requirements.txt, exactly."
    LAB.write_text(written(title, chosen_directly("lab"), lab), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
