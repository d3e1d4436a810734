"""The page "Where the layers run": every row has tests, and every test that it names exists."""

import ast
import functools
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "book" / "where_layers_run.md"


@functools.cache
def names_of_tests(path: str) -> set[str]:
    """Name the tests of a file; none where there is no such file."""
    if not (ROOT / path).exists():
        return set()
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def problems(text: str) -> list[str]:
    """List rows without a number, numbers without tests, and tests that do not exist."""
    found = []
    tables, _, tests = text.partition("## The tests")
    rows = [line for line in tables.splitlines() if line.startswith("| ")]
    rows = [r for r in rows if not r.startswith(("| tool ", "| library ", "| --- "))]
    numbers = []
    for row in rows:
        number = re.search(r"\{sup\}`(\d+)`", row)
        if number is None:
            found.append(f"no number: {row}")
        else:
            numbers.append(int(number[1]))
    listed = {int(n): line for n, line in re.findall(r"(?m)^(\d+)\. (.*)$", tests)}
    if numbers != sorted(listed) or numbers != list(range(1, len(numbers) + 1)):
        found.append(f"rows {numbers} and tests {sorted(listed)}")
    for number, line in listed.items():
        names = re.findall(r"`([^`]*)::([^`]*)`", line)
        if not names:
            found.append(f"no test: {number}")
        for path, name in names:
            if name not in names_of_tests(path):
                found.append(f"{path} has no {name}")
    return found


def test_every_row_is_tested():
    assert problems(PAGE.read_text(encoding="utf-8")) == []


def test_a_row_without_a_test_is_noticed():
    text = PAGE.read_text(encoding="utf-8")
    assert problems(text.replace("test_export`", "test_exports`"))
    assert problems(text.replace("{sup}`9`", ""))
    assert problems(re.sub(r"(?m)^9\. .*$", "", text))
    assert problems(re.sub(r"(?m)^9\. .*$", "9. later", text))
