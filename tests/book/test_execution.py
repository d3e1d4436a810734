"""Chapters are executed when their code, or something behind it, has changed, and then alone."""

from pathlib import Path

import execution
import nbformat
import pytest
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import docutils_namespace

CELL = """import sys
sys.path.insert(0, '.')
from normtutor.formula import factor
with open('runs.txt', 'a') as runs:
    runs.write('{name} ')
print('{name}', factor * 3)"""


def write_notebook(path: Path, code: str, prose: str = "# A title") -> Path:
    v4 = nbformat.v4
    notebook = v4.new_notebook(cells=[v4.new_markdown_cell(prose), v4.new_code_cell(code)])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    notebook.metadata.language_info = {"name": "python"}
    nbformat.write(notebook, path)
    return path


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A repository of one module and a style sheet."""
    (tmp_path / "book" / "_static").mkdir(parents=True)
    (tmp_path / "book" / "_static" / "style.css").write_text("b {}")
    (tmp_path / "normtutor").mkdir()
    (tmp_path / "normtutor" / "__init__.py").touch()
    (tmp_path / "normtutor" / "formula.py").write_text("factor = 2")
    monkeypatch.setattr(execution, "ROOT", tmp_path)
    return tmp_path


def build(place: Path) -> str:
    """Build a site of all notebooks here; the text of its pages."""
    settings = {
        "extensions": ["myst_nb", "execution"],
        "root_doc": "a",
        "nb_execution_mode": "cache",
        "exclude_patterns": ["_build", "normtutor"],
        "html_static_path": ["book/_static"],
    }
    out = place / "_build" / "html"
    with docutils_namespace():
        app = Sphinx(place, None, out, place / "trees", "html", settings, None, None)
        app.build()
    return "".join(path.read_text() for path in sorted(out.glob("?.html")))


def test_a_changed_formula_changes_the_number_on_the_page(place):
    for name in "ab":
        write_notebook(place / f"{name}.ipynb", CELL.format(name=name))

    def runs() -> str:
        return "".join(sorted((place / "runs.txt").read_text().split()))

    assert "a 6" in build(place) and runs() == "ab"
    write_notebook(place / "a.ipynb", CELL.format(name="a"), "# Another title")
    site = build(place)
    assert "Another title" in site and "a 6" in site and runs() == "ab"
    write_notebook(place / "a.ipynb", CELL.format(name="a").replace("3", "4"))
    site = build(place)
    assert "a 8" in site and "b 6" in site and runs() == "aab"
    (place / "normtutor" / "formula.py").write_text("factor = 10")
    site = build(place)
    assert "a 40" in site and "b 30" in site and runs() == "aaabb"
    build(place)
    assert runs() == "aaabb"


def test_a_changed_style_reaches_a_site_whose_pages_are_as_before(place):
    write_notebook(place / "a.ipynb", "1")
    build(place)
    (place / "book" / "_static" / "style.css").write_text("i {}")
    build(place)
    assert (place / "_build" / "html" / "_static" / "style.css").read_text() == "i {}"


def test_all_that_fail_are_named_and_the_others_are_kept(place):
    good = write_notebook(place / "a.ipynb", CELL.format(name="a"))
    bad = [write_notebook(place / f"{name}.ipynb", "1 / 0") for name in "bc"]
    cache = execution.open_cache(place / "cache")
    with pytest.raises(ExtensionError) as raised:
        execution.execute(cache, [good, *bad])
    message = str(raised.value)
    assert message.count("ipynb failed") == 2 and "ZeroDivisionError" in message
    assert execution.executed(cache, good).cells[1].outputs[0].text == "a 6\n"
    assert execution.executed(cache, bad[0]).cells[1].outputs == []


def test_what_is_executed_side_by_side_is_kept_whatever_a_cache_takes_for_the_oldest(place):
    """The kernel of a chapter that was being put in was once said to have failed."""
    paths = [write_notebook(place / f"{name}.ipynb", CELL.format(name=name)) for name in "abc"]
    cache = execution.open_cache(place / "cache")
    cache.change_cache_limit(1)
    execution.execute(cache, paths)
    assert cache.list_unexecuted(list(map(str, paths))) == []


def test_a_page_shows_myst_where_an_output_has_it(place):
    shown = {"text/markdown": "plain", "text/x-myst": "in *{term}`myst`*"}
    code = f"from IPython.display import display\ndisplay({shown}, raw=True)"
    write_notebook(place / "a.ipynb", code, "# A title\n\n```{glossary}\nmyst\n  A word.\n```")
    notebook = nbformat.read(place / "a.ipynb", as_version=4)
    notebook.cells[1].metadata = {"mystnb": {"markdown_format": "myst"}, "tags": ["remove-input"]}
    nbformat.write(notebook, place / "a.ipynb")
    site = build(place)
    assert 'href="#term-myst"' in site and "plain" not in site
