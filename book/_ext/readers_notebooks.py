"""Readers' notebooks: every page with code as a notebook that reads well wherever it is opened.

MyST's directives mean nothing to JupyterLab, VS Code or Colab. So the pages are written a second
time, as plain Markdown with the numbers and references of the site; the code cells are those of
the book, to the letter, with the outputs of their last execution. The notebooks lie in the folder
``notebooks`` of the site, and the buttons of a page lead to its own. The workflow that publishes
the site pushes the same folder to a branch, because Colab and Binder open notebooks from Git alone.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import execution
import nbformat
from docutils import nodes
from execution import MYST
from jupyter_cache import get_cache
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from normtutor_studies.plotting.drawings import separate
from readers_markdown import Block, Code, Text, UnknownNode, Writer
from sphinx.application import Sphinx
from sphinx.util import logging

FOLDER = "notebooks"  # of the site
BRANCH = "notebooks"  # of the repository, where Colab and Binder find them
BOOK = "Normalization in deep networks"
HIDES_CODE = {"hide-input", "remove-input", "hide-cell", "remove-cell"}
HIDES_OUTPUT = {"hide-output", "remove-output", "hide-cell", "remove-cell"}
DATA_OF_A_FIGURE = re.compile(r'<script type="application/json">.*?</script>', re.DOTALL)
FIGURE_IN_WORDS = re.compile(r"^<Figure size [^>]*>$")
ADDRESS_IN_MEMORY = re.compile(r" at 0x[0-9a-f]+>")

logger = logging.getLogger(__name__)


# --- names ----------------------------------------------------------------------------------------


def name_of(docname: str) -> str:
    """Where the notebook of a page lies in the folder."""
    return f"{docname.removeprefix('book/')}.ipynb"


def wheel_name(folder: str = ".") -> str:
    """What the wheel of a distribution is called: it lies beside the notebooks."""
    path = execution.ROOT / folder / "pyproject.toml"
    project = tomllib.loads(path.read_text("utf-8"))["project"]
    return f"{project['name'].replace('-', '_')}-{project['version']}-py3-none-any.whl"


def is_notebook(app: Sphinx, docname: str) -> bool:
    return docname in app.env.found_docs and app.env.doc2path(docname).endswith(".ipynb")


# --- cells ----------------------------------------------------------------------------------------


def setup_code(base: str) -> str:
    """The code that makes Colab ready, and does nothing anywhere else."""
    return f"""# On Colab this installs the package and its studies; elsewhere it does nothing.
import subprocess
import sys

if "google.colab" in sys.modules:
    packages = [
        "normtutor[notebooks] @ {base}{FOLDER}/{wheel_name()}",
        "normtutor-studies @ {base}{FOLDER}/{wheel_name("studies")}",
    ]
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *packages], check=True)"""


def introduction(page: str, base: str) -> str:
    """What a reader needs to know who has nothing but the notebook."""
    return (
        f"*This notebook is a page of the book [{BOOK}]({base}). "
        f"[Read it on the site]({page}), where its figures are interactive. "
        "Its code needs Python 3.11 or newer and "
        f"[normtutor]({base}{FOLDER}/{wheel_name()}) with the extra `notebooks`, and the "
        f"saved runs in [normtutor-studies]({base}{FOLDER}/{wheel_name('studies')}); "
        "on Colab the next cell installs all.*"
    )


def metadata_of(source: NotebookNode, folded: bool) -> dict[str, Any]:
    """What JupyterLab (``jupyter``) and Colab (``cellView``) must know of a code cell."""
    tags = set(source.metadata.get("tags", []))
    metadata: dict[str, Any] = {"tags": sorted(tags)} if tags else {}
    if tags & HIDES_CODE or folded:
        metadata |= {"jupyter": {"source_hidden": True}, "cellView": "form"}
    if tags & HIDES_OUTPUT or folded:
        metadata.setdefault("jupyter", {})["outputs_hidden"] = True
    return metadata


def outputs_of(cell: NotebookNode, resolved: str = "") -> list[NotebookNode]:
    """The outputs of a cell without what only the site can use, and what changes at every run.

    In place of text in MyST stands the same text with its references resolved.
    """
    outputs = []
    for output in cell.get("outputs", []):
        output = nbformat.from_dict(output)
        data = output.get("data", {})
        if "<nt-" in data.get("text/html", ""):
            data["text/html"] = DATA_OF_A_FIGURE.sub("", data["text/html"])
        if "image/svg+xml" in data:
            data["image/svg+xml"], _narrow = separate(data["image/svg+xml"])
        if MYST in data:
            del data[MYST]
            data["text/markdown"] = resolved or data["text/markdown"]
        if "text/plain" in data:
            # JupyterLab shows this in place of a drawing while it does not trust the notebook.
            words = FIGURE_IN_WORDS.sub("Run the cell to see the figure.", data["text/plain"])
            data["text/plain"] = ADDRESS_IN_MEMORY.sub(">", words)
        outputs.append(output)
    return outputs


def code_cell(source: NotebookNode, folded: bool = False, output: str = "") -> NotebookNode:
    cell = new_code_cell(source.source, metadata=metadata_of(source, folded), id=source.id)
    cell.outputs = outputs_of(source, output)
    cell.execution_count = source.get("execution_count")
    return cell


def below_code(block: Code, page: str) -> str:
    """What stands below a code cell: the caption of its figure, the way to an interactive one."""
    lines = [block.caption] if block.caption else []
    if block.interactive:
        lines.append(f"*The [interactive figure]({page}) is on the site.*")
    return "\n\n".join(lines)


def cells_of(blocks: Iterable[Block], source: NotebookNode, page: str) -> Iterator[NotebookNode]:
    """Put blocks together into cells: a heading begins one.

    A code cell that the page does not show is in its place all the same.
    """
    texts: list[str] = []
    count, place = 0, 0

    def text_cell() -> Iterator[NotebookNode]:
        nonlocal count
        if texts:
            count += 1
            yield new_markdown_cell("\n\n".join(texts), id=f"text-{count}")
            texts.clear()

    def code_until(end: int) -> Iterator[NotebookNode]:
        nonlocal place
        for cell in source.cells[place:end]:
            if cell.cell_type == "code":
                yield code_cell(cell)
        place = max(place, end)

    for block in blocks:
        if isinstance(block, Text):
            if block.heading:
                yield from text_cell()
            texts.append(block.markdown)
        else:
            yield from text_cell()
            yield from code_until(block.index)
            yield code_cell(source.cells[block.index], block.folded, block.output)
            place = block.index + 1
            texts += filter(None, [below_code(block, page)])
    yield from text_cell()
    yield from code_until(len(source.cells))


def readers_notebook(
    blocks: list[Block], source: NotebookNode, page: str, base: str
) -> NotebookNode:
    """Make the notebook of a page: its title, what it is, Colab's cell, and the page."""
    title, *rest = blocks
    assert isinstance(title, Text) and title.heading, f"{page} does not begin with its title"
    first = new_markdown_cell(f"{title.markdown}\n\n{introduction(page, base)}", id="introduction")
    # Folded, so that a page still begins with its first sentence.
    folded = {"jupyter": {"source_hidden": True}, "cellView": "form"}
    ready = new_code_cell(setup_code(base), metadata=folded, id="setup")
    notebook = new_notebook(
        cells=[first, ready, *cells_of(rest, source, page)],
        metadata={
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
            "colab": {"provenance": [], "toc_visible": True},
        },
    )
    nbformat.validate(notebook)
    return notebook


# --- Sphinx ---------------------------------------------------------------------------------------


def write_notebook(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Write the readers' notebook of a page whose references are resolved."""
    if app.builder.name != "html" or not is_notebook(app, docname):
        return
    path = Path(app.env.doc2path(docname))
    source = execution.executed(get_cache(execution.folder_of(app)), path)
    page = f"{app.config.html_baseurl}{app.builder.get_target_uri(docname)}"
    in_myst = {
        place
        for place, cell in enumerate(source.cells)
        if any(MYST in output.get("data", {}) for output in cell.get("outputs", []))
    }
    writer = Writer(
        page,
        app.env.toc_fignumbers.get(docname, {}),
        app.config.numfig_format["figure"],
        in_myst,
    )
    try:
        blocks = writer.write(doctree)
    except UnknownNode as error:
        logger.warning("no Markdown for %s", error, location=docname)
        return
    notebook = readers_notebook(blocks, source, page, app.config.html_baseurl)
    path = Path(app.outdir) / FOLDER / name_of(docname)
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)


def remove_old_notebooks(app: Sphinx, error: Exception | None) -> None:
    """Remove the notebooks of pages that are no more."""
    if error or app.builder.name != "html":
        return
    folder = Path(app.outdir) / FOLDER
    current = {folder / name_of(name) for name in app.env.found_docs if is_notebook(app, name)}
    for path in set(folder.rglob("*.ipynb")) - current:
        path.unlink()


def colab(app: Sphinx, docname: str) -> str:
    """Where Colab opens a page's notebook; empty where there is none."""
    options = app.config.html_theme_options
    place = options.get("launch_buttons", {}).get("colab_url")
    if not place or not is_notebook(app, docname):
        return ""
    return f"{place}/github/{repository(app)}/blob/{BRANCH}/{name_of(docname)}"


def repository(app: Sphinx) -> str:
    """The owner and the name of the repository."""
    address: str = app.config.html_theme_options["repository_url"]
    return "/".join(address.rstrip("/").split("/")[-2:])


def lead_buttons_to_notebooks(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Let a page's buttons download and open its readers' notebook; the theme takes the source."""
    if not is_notebook(app, pagename):
        return
    name = name_of(pagename)
    groups = {group.get("label"): group for group in context.get("header_buttons", [])}
    for button in groups.get("download-buttons", {}).get("buttons", []):
        if button["text"] == ".ipynb":
            button["url"] = f"{context['pathto'](FOLDER, 1)}/{name}"
            button["tooltip"] = "Download this page as a notebook"
    binder = app.config.html_theme_options.get("launch_buttons", {}).get("binderhub_url")
    addresses = {
        "Binder": f"{binder}/v2/gh/{repository(app)}/{BRANCH}"
        f"?urlpath={quote(f'lab/tree/{name}', safe='')}",
        "Colab": colab(app, pagename),
    }
    for button in groups.get("launch-buttons", {}).get("buttons", []):
        button["url"] = addresses[button["text"]]


def setup(app: Sphinx) -> dict[str, Any]:
    # After what changes a page, and before equations.py holds punctuation in lines of the site.
    app.connect("doctree-resolved", write_notebook, priority=890)
    app.connect("build-finished", remove_old_notebooks)
    # After the theme has made its buttons.
    app.connect("html-page-context", lead_buttons_to_notebooks, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
