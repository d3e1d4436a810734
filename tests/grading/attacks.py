"""What a clever student may try against the wall, and against those who wait behind it.

``attacks.txt`` has one attack a block: its name and a cell. Those in OUTSIDE end only if they
reached what they were after; words in braces are filled in by the test. Those in BEARABLE leave
their process alive, so that one submission makes them all; each of those in DEADLY is a submission
of its own, which ends its process, or is ended.
"""

import re
from pathlib import Path

TEXT = Path(__file__).with_name("attacks.txt").read_text(encoding="utf-8")


def cells(text):
    """Each attack of a part of the text, by its name."""
    blocks = (block.partition(":") for block in re.findall(r"^\S.*(?:\n .*)*", text, re.MULTILINE))
    return {name: code.replace("\n    ", "\n").strip() for name, _, code in blocks}


OUTSIDE, BEARABLE, DEADLY = map(cells, re.split(r"^# .*\n", TEXT, flags=re.MULTILINE)[1:])
