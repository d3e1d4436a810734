"""Name the files of tests that `make check` runs: the cheapest, as many as fit into its minute.

Usage: python .ci/fast_tests.py   (prints the files; `make seconds` measures them all anew)

``tests/seconds.json`` holds the processor seconds that each file's tests took. A file that it does
not name yet is not among the cheap ones; a file that is no longer there is left out.
"""

import json
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


def main() -> None:
    seconds = json.loads(MEASURED.read_text(encoding="utf-8"))
    there = {name: cost for name, cost in seconds.items() if (ROOT / name).exists()}
    print(*cheapest(there))


if __name__ == "__main__":
    main()
