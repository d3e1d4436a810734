"""Write what ARCHITECTURE.md says of the modules: the floors, and each module's own first line.

Usage: python .ci/architecture.py   (a test fails as long as the page is not up to date)
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from normtutor.floors import FLOORS, MEANING  # noqa: E402

PAGE = ROOT / "ARCHITECTURE.md"
BLOCK = re.compile(r"(<!-- begin: (\w+) -->\n).*?(<!-- end: \2 -->)", re.DOTALL)


def purpose_of(path: Path) -> str:
    """Read the first sentence of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    line = " ".join(text.split("\n\n")[0].split())
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", line).replace("|", r"\|")


def file_of(module: str) -> Path:
    path = ROOT.joinpath("normtutor", *module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def drawing() -> Iterator[str]:
    """Draw the floors, the highest on top."""
    yield "```text"
    for floor in reversed(range(len(MEANING))):
        names = sorted(name for name, number in FLOORS.items() if number == floor)
        yield f"{floor}  {MEANING[floor]}"
        yield f"   {'  '.join(names)}"
    yield "```"


def modules() -> Iterator[str]:
    """List every module with its purpose, package by package."""
    yield "| floor | module | what it is for |"
    yield "| --- | --- | --- |"
    for name, floor in sorted(FLOORS.items(), key=lambda entry: (entry[1], entry[0])):
        path = file_of(name)
        yield f"| {floor} | `{name}` | {purpose_of(path)} |"
        if path.name == "__init__.py":
            for inner in sorted(path.parent.glob("[a-z]*.py")):
                yield f"| | `{name}.{inner.stem}` | {purpose_of(inner)} |"


def page(text: str) -> str:
    """Return the page with its generated parts made anew."""
    parts = {"floors": drawing, "modules": modules}

    def made(block: re.Match[str]) -> str:
        return block[1] + "\n".join(parts[block[2]]()) + "\n" + block[3]

    return BLOCK.sub(made, text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
