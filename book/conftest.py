"""What the tests of the chapters compare: stored outputs with those of the executed copies.

`pytest --nbval book/NAME.ipynb` executes a chapter. Where NORMTUTOR_EXECUTED names a build folder,
as in `make test`, nothing is executed a second time: what `.ci/chapters.py` has kept is compared.
"""

import os
import sys
from pathlib import Path

from nbval.plugin import IPyNbCell, IPyNbFile

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / ".ci"))
import chapters
import refresh


def find_copy(file: IPyNbFile) -> None:
    """Set a notebook's tests up with its executed copy, which must be up to date."""
    build = (chapters.ROOT / os.environ["NORMTUTOR_EXECUTED"]).resolve()
    if not chapters.is_fresh(file.path, build):
        raise RuntimeError(f"{file.path.name} was not executed: run .ci/chapters.py first.")
    file.executed = [c for c in chapters.kept(file.path, build).cells if c.cell_type == "code"]


def compare(test: IPyNbCell) -> None:
    run = test.parent.executed[test.cell_num]
    assert test.cell.source == run.source
    if refresh.is_checked(run):
        assert test.cell.outputs == refresh.checked_outputs(run)


if os.environ.get("NORMTUTOR_EXECUTED"):
    IPyNbFile.setup, IPyNbCell.runtest = find_copy, compare
