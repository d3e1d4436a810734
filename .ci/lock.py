"""Choose the versions in requirements.txt, requirements-lab.txt and Binder's torch: `make lock`.

uv finds one set of versions for every Python and system that the package supports. What is pinned
stays as it is where it can; with --upgrade, everything becomes as new as it can be.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BOOK, LAB = ROOT / "requirements.txt", ROOT / "requirements-lab.txt"
BINDER = ROOT / ".binder" / "requirements.txt"
# The libraries of CUDA belong to one build of torch for Linux; pip adds them where they are needed.
LEFT_OUT = re.compile(r"^(nvidia-|cuda-|triton\b)")
HEAD = "# {}\n# `make lock` writes this file.\n"


def pins_of(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if "==" in line and not line.startswith("#")]


def oldest_python() -> str:
    """The oldest version of Python that the package supports, which every pin must support too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["requires-python"]).removeprefix(">=")


def resolve(extras: list[str], pinned: list[str], flags: list[str]) -> list[str]:
    """Let uv choose a version of everything that the extras need, those pinned where they fit."""
    with tempfile.TemporaryDirectory() as folder:
        pins = Path(folder) / "pins.txt"
        pins.write_text("\n".join(pinned), encoding="utf-8")
        command = [sys.executable, "-m", "uv", "pip", "compile", str(ROOT / "pyproject.toml")]
        command += [word for extra in extras for word in ("--extra", extra)]
        command += ["--universal", "--python-version", oldest_python(), "--quiet"]
        command += ["--no-header", "--no-annotate", "--fork-strategy", "fewest"]
        subprocess.run([*command, *flags, "--output-file", str(pins)], check=True)
        lines = pins.read_text(encoding="utf-8").replace("+cpu", "").splitlines()
    lines = [line.replace("'", '"').replace(" ; ", "; ") for line in lines]
    return [line for line in lines if not LEFT_OUT.match(line)]


def with_torch_of(pins: list[str], binder: str) -> str:
    """Give Binder the torch of the book, built for processors."""
    (torch,) = (line for line in pins if line.startswith("torch=="))
    return re.sub(r"^torch==.*$", f"{torch}+cpu", binder, flags=re.MULTILINE)


def main(flags: list[str]) -> None:
    book = resolve(["test"], pins_of(BOOK), flags)
    held = [] if "--upgrade" in flags else pins_of(LAB)
    both = resolve(["test", "lab"], [*book, *held], [])
    last = "\n# The packages of this repository; a change in them is seen at once.\n"
    last += "-e .\n-e ./studies\n"
    title = HEAD.format("What the book is built with, exactly.")
    BOOK.write_text(title + "\n".join(book) + "\n" + last, encoding="utf-8")
    BINDER.write_text(with_torch_of(book, BINDER.read_text(encoding="utf-8")), encoding="utf-8")
    title = HEAD.format("What `make lab` adds to requirements.txt, exactly.")
    LAB.write_text(title + "\n".join(sorted({*both} - {*book})) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
