"""What the site's extensions do to a page, where the built site would not show it.

The style sheet, the icons, the equations and the drawings of the site itself: test_site.py.
"""

import subprocess
import sys

import equations
import light_pages
import pytest
from docutils import nodes
from docutils.utils import new_document
from site_pages import ROOT

X, LONG = nodes.math("", "x"), nodes.math("", "x + " * 20)


@pytest.mark.parametrize(
    ("parts", "held"),
    [
        (("see ", X, ", then"), "x,"),
        ((X, " then"), None),
        ((LONG, ", then"), None),
        # The same text may have stood before: the first comma was once taken away.
        ((nodes.literal("", "weight"), ", ", X, ", "), "x,"),
    ],
)
def test_a_short_equation_keeps_the_punctuation_after_it_and_no_other(parts, held):
    words = [nodes.Text(one) if isinstance(one, str) else one.deepcopy() for one in parts]
    page = new_document("page")
    page += nodes.paragraph("", "", *words)
    said = page.astext()
    equations.hold_punctuation(None, page, "page")
    box = page.next_node(nodes.inline)
    assert (box and box.astext()) == held and page.astext() == said


def test_finishing_twice_gives_the_same_site_and_leaves_the_pages_alone(tmp_path, monkeypatch):
    pages, site = tmp_path / "pages", tmp_path / "html"
    (pages / "_static" / "scripts").mkdir(parents=True)
    (pages / "_static/vendor/fontawesome/6/webfonts").mkdir(parents=True)
    for name, text in (
        ("_static/one.css", ".seen { top: 0 } .gone { top: 1px }"),
        ("_static/documentation_options.js", "const options = {};"),
        ("_static/scripts/pydata-sphinx-theme.js", light_pages.MEASURES_ALL),
        ("_static/scripts/sphinx-book-theme.js", light_pages.SEEKS_NOTES),
        (
            "index.html",
            '<title>T</title><link rel="stylesheet" href="_static/one.css"><p class="seen">',
        ),
    ):
        (pages / name).write_text(text)
    monkeypatch.setattr(light_pages, "icon_faces", lambda style, fonts: "")

    def finished() -> dict[str, str]:
        light_pages.finish(pages, site, tmp_path / "style")
        return {p.name: p.read_text() for p in sorted(site.rglob("*")) if p.is_file()}

    before = {path: path.read_bytes() for path in pages.rglob("*") if path.is_file()}
    first = finished()
    assert ".seen" in first["site.css"] and ".gone" not in first["site.css"]
    assert "site.css" in first["index.html"] and "one.css" not in first["index.html"]
    assert finished() == first
    assert {path: path.read_bytes() for path in before} == before
    # What fails on the way leaves the finished site where it is.
    (pages / "_static" / "scripts" / "sphinx-book-theme.js").write_text("changed")
    with pytest.raises(RuntimeError, match="has changed"):
        finished()
    assert "site.css" in (site / "index.html").read_text()


def test_the_extensions_bring_no_torch_into_a_build_that_does_not_ask_for_it():
    """To import it took a sixth of the time that passes until a changed sentence is built."""
    folders = ROOT / "book" / "_ext", ROOT / ".ci"
    code = f"import sys; sys.path[:0] = {[*map(str, folders)]}; "
    code += f"import {', '.join(sorted(path.stem for path in folders[0].glob('*.py')))}; "
    code += "sys.exit('torch' in sys.modules or 'scipy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
