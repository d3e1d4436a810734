"""A depth page is a reference: at most so many words of prose, and no intervals in it."""

import json
import re
from pathlib import Path

import pytest

DEPTH_PAGES = sorted((Path(__file__).resolve().parents[2] / "book" / "in_depth").glob("*.ipynb"))
MOST = 4_500


def prose(text: str) -> str:
    """What one reads in sentences: no formulas, code, tables, options and addresses.

    >>> prose("One $x$ of [two](b).\\n```{math}\\ny\\n```\\n| 1 ± 2 |\\nThree").split()
    ['One', 'of', '[two', '.', 'Three']
    """
    lines, closing = [], ""
    for line in text.splitlines():
        fence = re.match(r"(`{3,})(\{?)(\w*)", line)
        if closing:
            closing = "" if line.strip() == closing else closing
        elif fence and (fence[3] == "math" or (fence[3] and not fence[2])):
            closing = fence[1]
        elif not re.match(r"\||`{3,}|:[\w-]+:", line):
            lines.append(line)
    said = re.sub(r"\$\$.*?\$\$", " ", "\n".join(lines), flags=re.DOTALL)
    return re.sub(r"\$[^$]*\$|\]\([^)]*\)|\{[\w:]+\}`[^`]*`", " ", said)


@pytest.mark.parametrize("path", DEPTH_PAGES, ids=lambda path: path.stem)
def test_a_depth_page_is_a_reference(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = prose("\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown"))
    assert len(re.findall(r"[^\W\d_][\w'’-]*", text)) <= MOST
    assert not re.search(r"\d\s*±|±\s*\d", text)
