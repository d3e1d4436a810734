"""The outputs of the chapters, from myst-nb's cache of executed notebooks.

The cache looks at a notebook's code, and at nothing behind it. So it is emptied when the package,
the studies with their records, or the pinned versions have changed; all pages are then read again,
as they are when an extension changes. What is missing is executed before the pages are read, as
many notebooks side by side as there are cores.
"""

import hashlib
import logging
import os
import platform
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat
from docutils import nodes
from jupyter_cache.base import JupyterCacheAbstract
from jupyter_cache.cache.db import NbProjectRecord
from jupyter_cache.cache.main import JupyterCacheBase
from jupyter_cache.executors import load_executor
from jupyter_client.manager import KernelManager
from myst_nb.core import render
from nbformat import NotebookNode
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.util.logging import getLogger

logger = logging.getLogger(__name__)
logger.setLevel(logging.INFO)  # the executor says what it executes

ROOT = Path(__file__).resolve().parents[2]
BEHIND_OUTPUTS = ("normtutor/**/*", "studies/normtutor_studies/**/*", "requirements.txt")
BEHIND_PAGES = (*BEHIND_OUTPUTS, "book/_ext/*.py", "_config.yml")
BEHIND_STYLE = ("book/_static/**/*", "requirements.txt")
TIMEOUT = 3600  # seconds, for a cell that hangs; a machine may do much else meanwhile
CACHE = ROOT / "_build" / ".jupyter_cache"  # of `jupyter-book build .`
# What MyST alone understands: a page takes it in place of the same text in Markdown.
MYST = "text/x-myst"


def digest(patterns: Iterable[str]) -> str:
    """Hash the files that match, with their names, and the version of Python."""
    found = hashlib.sha256(platform.python_version().encode())
    for path in sorted({path for pattern in patterns for path in ROOT.glob(pattern)}):
        if path.is_file() and path.suffix != ".pyc":
            found.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


class Cache(JupyterCacheBase):
    def truncate_caches(self) -> None:
        """Keep all: what others execute beside it counts as the oldest while it is put in."""


def is_current(folder: Path) -> bool:
    """Whether what is behind the outputs in a cache is what is there now."""
    record = folder / "behind.txt"
    return record.exists() and record.read_text() == digest(BEHIND_OUTPUTS)


def open_cache(folder: Path) -> JupyterCacheAbstract:
    """Open the cache in a folder, empty if something else was behind its outputs."""
    if not is_current(folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "behind.txt").write_text(digest(BEHIND_OUTPUTS))
    return Cache(folder)


def execute(cache: JupyterCacheAbstract, notebooks: Iterable[Path]) -> None:
    """Execute the notebooks whose code the cache lacks; an error names all that failed."""
    for path in (paths := list(map(str, notebooks))):
        cache.add_nb_to_project(path)
    if missing := [record.uri for record in cache.list_unexecuted(paths)]:
        # More than one thread makes small tensors wait for each other: 100 s instead of 0.7 s.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        # Figures for both widths of a page.
        os.environ["NORMTUTOR_BOTH_DRAWINGS"] = "yes"
        # Each kernel would warn that others can listen.
        KernelManager.transport_encryption.default_value = "auto"
        executor = load_executor("local-parallel", cache, logger)
        result = executor.run_and_cache(filter_uris=missing, timeout=TIMEOUT)
        if failed := [*result.excepted, *result.errored]:
            records = (NbProjectRecord.record_from_uri(uri, cache.db) for uri in failed)
            raise ExtensionError("\n\n".join(map(description_of, records)))


def description_of(failed: NbProjectRecord) -> str:
    """Say what went wrong in a notebook, in at most a screen's lines."""
    lines = render.strip_ansi(failed.traceback or "No cell failed, but the kernel.").splitlines()
    return "\n".join([f"{failed.uri} failed:", *lines[-40:]])


def executed(cache: JupyterCacheAbstract, path: Path) -> NotebookNode:
    """Read a notebook with the outputs that the cache has for its code; all else is its own."""
    notebook = nbformat.read(path, as_version=4)
    try:
        _, run = cache.merge_match_into_notebook(notebook)
    except KeyError:
        return notebook
    for cell, ran in zip(notebook.cells, run.cells, strict=True):
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = ran.outputs, ran.execution_count
    return notebook


# --- Sphinx ---------------------------------------------------------------------------------------


def is_executed(app: Sphinx, docname: str) -> bool:
    """Whether a page is a notebook that the build executes."""
    path = Path(app.env.doc2path(docname))
    left_out = app.config.nb_execution_excludepatterns
    return path.suffix == ".ipynb" and not any(path.match(pattern) for pattern in left_out)


def folder_of(app: Sphinx) -> Path:
    return Path(app.env.mystnb_config.execution_cache_path)  # type: ignore[attr-defined]


def name_outdated(
    app: Sphinx, env: BuildEnvironment, added: set[str], changed: set[str], removed: set[str]
) -> list[str]:
    """Empty the cache, and name all pages outdated, when something behind them has changed."""
    if app.config.keep_outputs:
        return []
    open_cache(folder_of(app))
    before, now = getattr(env, "behind_pages", None), digest(BEHIND_PAGES)
    env.behind_pages = now  # type: ignore[attr-defined]
    return [] if before == now else sorted(env.found_docs)


def name_style(app: Sphinx, config: Config) -> None:
    """Have all pages written anew, and what stands beside them copied, when a style has changed."""
    config.behind_style = digest(BEHIND_STYLE)


def execute_pages(app: Sphinx, env: BuildEnvironment, docnames: list[str]) -> None:
    """Execute what the pages need that will be read."""
    if app.config.nb_execution_mode == "cache":
        paths = [Path(env.doc2path(name)) for name in docnames if is_executed(app, name)]
        try:
            execute(Cache(folder_of(app)), paths)
        except ExtensionError as error:
            if not app.config.keep_outputs:
                raise
            getLogger(__name__).warning(str(error))


class MystOutput:
    """Read an output in MyST as if it stood on the page."""

    mime_priority_overrides = (("html", MYST, 1),)

    @staticmethod
    def handle_mime(
        renderer: render.NbElementRenderer, data: render.MimeData, inline: bool
    ) -> list[nodes.Element] | None:
        return None if inline or data.mime_type != MYST else renderer.render_markdown(data)


def setup(app: Sphinx) -> dict[str, Any]:
    # A preview keeps the outputs of a chapter until its own code changes, and shows what fails.
    app.add_config_value("keep_outputs", False, "")
    app.add_config_value("behind_style", "", "html")
    app.connect("config-inited", name_style)
    app.connect("env-get-outdated", name_outdated)
    app.connect("env-before-read-docs", execute_pages)
    # myst-nb looks for such plugins among the installed packages, and anew for each output.
    render.load_mime_renders = lambda: [MystOutput]
    return {"parallel_read_safe": True, "parallel_write_safe": True}
