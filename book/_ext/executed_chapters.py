"""The outputs of the chapters, from their executed copies.

The notebooks of the book lie in the repository without most of their outputs. `.ci/build.py`
executes them first, and tells where the copies are; a page is read again when its copy is new.
"""

import sys
from pathlib import Path
from typing import Any

import nbformat
from sphinx.application import Sphinx
from sphinx.util import logging

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".ci"))
import chapters

logger = logging.getLogger(__name__)

# normtutor_studies.claims.page says so too, but brings torch: a fifth of a sentence's time.
MYST = "text/x-myst"


def prefer_myst(notebook: nbformat.NotebookNode) -> None:
    """Take the MyST of an output that has it; its Markdown is for programs that know no more."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if MYST in output.get("data", {}):
                output.data["text/markdown"] = output.data.pop(MYST)


def put_outputs(app: Sphinx, docname: str, source: list[str]) -> None:
    """Give a notebook the outputs of its executed copy."""
    path = Path(app.env.doc2path(docname))
    if path.suffix != ".ipynb":
        return
    for build in map(Path, app.config.executed_builds):
        copy = chapters.kept_at(path, build)
        if copy.exists():
            app.env.note_dependency(str(copy))
        if executed := chapters.kept(path, build):
            notebook = chapters.with_outputs(nbformat.reads(source[0], as_version=4), executed)
            prefer_myst(notebook)
            source[0] = nbformat.writes(notebook)
            return
    if path in chapters.notebooks_in_toc() and app.config.executed_builds:
        logger.warning("there is no executed copy with the same code", location=docname)


def setup(app: Sphinx) -> dict[str, Any]:
    # The build folders with executed copies. Where something else executes, there are none.
    app.add_config_value("executed_builds", [], "")
    app.connect("source-read", put_outputs, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
