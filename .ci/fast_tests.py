"""Name the files of tests that `make check` runs: the cheapest, as many as fit into its minute.

Usage: python .ci/fast_tests.py   (prints the files; `make seconds` measures them all anew)

``tests/seconds.json`` holds the processor seconds that each file's tests took. A file of tests that
it does not name is an error; those in a browser, or beside other libraries, are another matter.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "tests" / "seconds.json"
# Processor seconds for all of them. Two processes share them, beside style and types.
BUDGET = 60.0


def cheapest(seconds: Mapping[str, float], budget: float = BUDGET) -> list[str]:
    """The files with the fewest seconds that together stay within the budget, by name."""
    chosen, left = [], budget
    for name, cost in sorted(seconds.items(), key=lambda entry: (entry[1], entry[0])):
        if cost > left:
            break
        chosen.append(name)
        left -= cost
    return sorted(chosen)


def chosen(seconds: Mapping[str, float]) -> list[str]:
    """The cheapest of the files that are there; all must have been measured."""
    paths = (path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py"))
    there = {path.as_posix() for path in paths if path.parts[1] not in ("site", "libraries")}
    if new := " ".join(sorted(there - seconds.keys())):
        sys.exit(f"Not in tests/seconds.json yet; measure: make seconds TESTS='{new}'")
    return cheapest({name: seconds[name] for name in there})


def main() -> None:
    print(*chosen(json.loads(MEASURED.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
