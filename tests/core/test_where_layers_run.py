"""The page "Where the layers run": every row has tests, and every test that it names exists."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def test_every_row_is_tested():
    page = (ROOT / "book" / "where_layers_run.md").read_text(encoding="utf-8")
    tables, _, tests = page.partition("## The tests")
    rows = [line for line in tables.splitlines() if re.match(r"\| (?!tool |library |--- )", line)]
    numbers = [int(n) for row in rows for n in re.findall(r"\{sup\}`(\d+)`", row)]
    assert numbers == list(range(1, len(rows) + 1))
    lines = re.findall(r"(?m)^(\d+)\. (.*)$", tests)
    assert [int(number) for number, _ in lines] == numbers
    for number, line in lines:
        names = re.findall(r"`([^`]*)::([^`]*)`", line)
        assert names, f"row {number} names no test"
        for path, name in names:
            assert f"\ndef {name}(" in (ROOT / path).read_text(encoding="utf-8"), (path, name)
