"""What the site's extensions do to a page, where the built site would not show it.

The style sheet, the icons, the equations and the drawings of the site itself: test_site.py.
"""

import subprocess
import sys

import pytest
from bs4 import BeautifulSoup
from docutils import nodes
from docutils.utils import new_document
from site_pages import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

import drawings
import equations
import light_pages
from normtutor_studies.plotting.drawings import CLOSES, OPENS


def held(*parts: nodes.Node) -> nodes.document:
    """A page of one paragraph, with what its short equations hold beside them."""
    document = new_document("page")
    document += nodes.paragraph("", "", *parts)
    equations.hold_punctuation(None, document, "page")
    return document


def test_a_short_equation_keeps_the_punctuation_after_it_and_no_other():
    x, after = nodes.math("", "x"), ", then"
    page = held(nodes.Text("see "), x.deepcopy(), nodes.Text(after))
    assert page.next_node(nodes.inline)["classes"] == ["held"]
    assert page.next_node(nodes.inline).astext() == "x,"
    assert page.astext() == "see x, then"
    assert held(x.deepcopy(), nodes.Text(" then")).next_node(nodes.inline) is None
    long = nodes.math("", "x + " * 20)
    assert held(long, nodes.Text(after)).next_node(nodes.inline) is None
    # The same text may have stood before: the comma after `weight` was once taken away.
    words = nodes.literal("", "weight"), nodes.literal("", "bias"), x
    page = held(*(part for word in words for part in (word, nodes.Text(", "))))
    assert page.astext() == "weight, bias, x, "


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
    made = []
    monkeypatch.setattr(light_pages, "icon_faces", lambda style, fonts: made.append(1) or "")

    def finished() -> dict[str, str]:
        light_pages.finish(pages, site, tmp_path / "style")
        return {p.name: p.read_text() for p in sorted(site.rglob("*")) if p.is_file()}

    before = {path: path.read_bytes() for path in pages.rglob("*") if path.is_file()}
    first = finished()
    assert ".seen" in first["site.css"] and ".gone" not in first["site.css"]
    assert "site.css" in first["index.html"] and "one.css" not in first["index.html"]
    assert finished() == first
    # A sentence that uses the same rules cuts nothing again; one that uses others does.
    index = pages / "index.html"
    index.write_text(index.read_text() + "A sentence.")
    assert finished()["site.css"] == first["site.css"] and len(made) == 1
    index.write_text(index.read_text() + '<p class="gone">')
    assert ".gone" in finished()["site.css"] and len(made) == 2
    assert {path: path.read_bytes() for path in before if path != index} == {
        path: content for path, content in before.items() if path != index
    }
    # What fails on the way leaves the finished site where it is.
    (pages / "_static" / "scripts" / "sphinx-book-theme.js").write_text("changed")
    with pytest.raises(RuntimeError, match="has changed"):
        finished()
    assert "site.css" in (site / "index.html").read_text()


INK = drawings.INK
DRAWING = (
    '<svg xmlns="x" width="72pt" height="36pt"><path style="fill: {}; stroke: #222222"/></svg>'
)
NARROW = DRAWING.replace("72pt", "48pt")


@pytest.fixture
def drawn(tmp_path):
    """Give a page its drawings: what stands there then, and the files by their ends."""

    def start(colour: str, narrow: str = "", text='<img alt="A" src="_images/a.svg" />'):
        (tmp_path / "_images").mkdir(exist_ok=True)
        picture = tmp_path / "_images" / "a.svg"
        embedded = f"{OPENS}{narrow.format(colour)}{CLOSES}</svg>" if narrow else "</svg>"
        picture.write_text(DRAWING.format(colour).replace("</svg>", embedded))
        made: dict = {}
        page = drawings.with_drawings(text, tmp_path / "page.html", made)
        return BeautifulSoup(page, "html.parser"), made.get(picture)

    return start


def test_a_figure_is_there_for_both_widths_and_both_themes(drawn):
    page, files = drawn("#ffffff", NARROW)
    light, dark = page.select("picture")
    assert light.source["srcset"] == "_images/a.narrow.svg"
    assert dark.source["srcset"] == "_images/a.dark.narrow.svg"
    assert (light.img["src"], light.img["class"]) == ("_images/a.svg", ["only-light"])
    assert (dark.img["src"], dark.img["class"]) == ("_images/a.dark.svg", ["only-dark"])
    for part in (light, dark):
        assert part.source["media"] == drawings.PHONE
        assert (part.source["width"], part.source["height"]) == ("64", "48")
        assert (part.img["width"], part.img["height"]) == ("96", "48")
        assert part.img["alt"] == "A" and part.img["loading"] == "lazy"
    assert files[".svg"] == DRAWING.format("#ffffff")
    assert files[".narrow.svg"] == NARROW.format("#ffffff")
    assert f"fill: {drawings.DARK['#ffffff']}" in files[".dark.svg"]
    assert f"stroke: {drawings.DARK[INK]}" in files[".dark.narrow.svg"]
    assert "#ffffff" not in files[".dark.svg"] and INK not in files[".dark.svg"]
    page, _ = drawn("#ffffff")  # with one drawing it needs no sources
    assert not page.select("source") and len(page.select("picture > img")) == 2


@pytest.mark.parametrize("content", ["#123456", '#ffffff"/><image href="data:', "#fde725"])
def test_a_figure_whose_colours_have_no_dark_counterpart_lies_on_a_card(drawn, content):
    page, files = drawn(content, NARROW)
    (image,) = page.select("img")
    assert image["class"] == ["card"] and set(files) == {".svg", ".narrow.svg"}


def test_other_pictures_stay_as_they_are(drawn):
    text = '<img src="_static/logo.svg"/><img src="_images/missing.svg"/><img src="_images/b.png"/>'
    page, files = drawn("#ffffff", text=text)
    assert str(page) == text and files is None


def test_the_extensions_bring_no_torch_into_a_build_that_does_not_ask_for_it():
    """To import it took a sixth of the time that passes until a changed sentence is built."""
    folders = ROOT / "book" / "_ext", ROOT / ".ci"
    code = f"import sys; sys.path[:0] = {[*map(str, folders)]}; "
    code += f"import {', '.join(sorted(path.stem for path in folders[0].glob('*.py')))}; "
    code += "sys.exit('torch' in sys.modules or 'scipy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
