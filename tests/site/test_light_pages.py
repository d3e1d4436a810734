"""What the site's extensions do to a page: equations, style sheet, icons, pictures."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from docutils import nodes
from docutils.utils import new_document
from site_pages import MEASURED

ROOT = Path(__file__).resolve().parents[2]
EXTENSIONS = ROOT / "book" / "_ext"
sys.path.insert(0, str(EXTENSIONS))

import drawings  # noqa: E402
import equations  # noqa: E402
import light_pages  # noqa: E402
from normtutor_studies.plotting.drawings import CLOSES, OPENS  # noqa: E402

needs_katex = pytest.mark.skipif(not equations.KATEX.exists(), reason="KaTeX is not installed")


@needs_katex
def test_equations_are_set_with_mathml_beside():
    inline, display = (r"\hat x_i", False), (r"\frac{x - \mu}{\sigma}", True)
    found = equations.typeset([inline, display])
    assert set(found) == {inline, display}
    for (latex, shown_alone), html in found.items():
        assert "<math " in html and "aria-hidden" in html
        assert latex.replace("&", "&amp;") in html  # as the annotation, which can be copied
        assert ("katex-display" in html) == shown_alone


@needs_katex
def test_an_equation_that_cannot_be_read_is_a_warning(monkeypatch):
    said = []
    monkeypatch.setattr(
        equations.logger, "warning", lambda text, *values: said.append(text % values)
    )
    assert equations.typeset([(r"\frac{1}", False), ("x", False)])[(r"\frac{1}", False)] == ""
    assert len(said) == 1 and r"\frac{1}" in said[0]


def test_a_short_equation_keeps_the_punctuation_after_it():
    def page(latex: str, after: str) -> nodes.document:
        text = nodes.paragraph("", "see ", nodes.math("", latex), nodes.Text(after))
        document = new_document("page")
        document += text
        equations.hold_punctuation(None, document, "page")
        return document

    held = page("x", ", then").next_node(nodes.inline)
    assert held["classes"] == ["held"] and held.astext() == "x,"
    assert page("x", ", then").astext() == "see x, then"
    assert page("x", " then").next_node(nodes.inline) is None
    assert page("x + " * 20, ", then").next_node(nodes.inline) is None


def test_the_punctuation_is_that_of_the_equation():
    """The same text may have stood before: the comma after `weight` was once taken away."""
    commas = [nodes.Text(", ") for _ in range(3)]
    words = nodes.literal("", "weight"), nodes.literal("", "bias"), nodes.math("", "x")
    text = nodes.paragraph("", "", *(n for pair in zip(words, commas, strict=True) for n in pair))
    document = new_document("page")
    document += text
    equations.hold_punctuation(None, document, "page")
    assert document.astext() == "weight, bias, x, "
    assert all(child.parent is text for child in text.children)


def test_a_style_sheet_brings_what_it_imports_and_its_addresses_stay_right(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "base.css").write_text('p { background: url("dot.png"); }')
    (tmp_path / "a" / "top.css").write_text(
        '@import "../base.css";\n'
        "@font-face { src: url(fonts/x.woff2); }\n"
        'b { background: url("data:image/png;base64,AA"); }'
    )
    style = light_pages.style_of(tmp_path / "a" / "top.css", tmp_path)
    assert "@import" not in style
    for address in ("dot.png", "a/fonts/x.woff2", "data:image/png;base64,AA"):
        assert f'url("{address}")' in style


@pytest.mark.skipif(not light_pages.PURGE.exists(), reason="PurgeCSS is not installed")
def test_rules_that_nothing_can_use_are_dropped():
    style = ".seen {top: 0} .opened {top: 1px} .gone {top: 2px}"
    texts = ['<p class="seen">x</p>', 'box.classList.add("opened");']
    style = light_pages.purged(style, light_pages.names_used(style, texts))
    assert ".seen" in style and ".opened" in style and ".gone" not in style


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


def test_icons_are_found_in_both_spellings():
    style = '.a::before { content: "\\f0c9"; } :root { --icon: "\uf104"; } .b { top: 10px; }'
    assert light_pages.icons_in(style) == {0xF0C9, 0xF104}


PAGE = """<title>T</title>
<link rel="preload" as="font" href="../_static/webfonts/a.woff2" />
<link href="../_static/one.css?digest=1" rel="stylesheet" />
<link rel="stylesheet" type="text/css" href="../_static/two.css?v=2" />
<link rel="icon" href="../_static/icon.svg"/>"""


def test_a_page_gets_one_style_sheet_and_keeps_its_other_links():
    assert light_pages.stylesheets_of(PAGE) == ["../_static/one.css", "../_static/two.css"]
    page = light_pages.with_one_style(PAGE, "site.css?v=3")
    assert light_pages.stylesheets_of(page) == ["../_static/site.css"]
    assert 'rel="icon"' in page and "preload" not in page
    assert light_pages.with_one_style("<title>T</title>", "site.css") == "<title>T</title>"


def test_the_extensions_bring_no_torch_into_a_build_that_does_not_ask_for_it():
    """To import it took a sixth of the time that passes until a changed sentence is built."""
    from normtutor_studies.claims import page

    names = sorted(path.stem for path in EXTENSIONS.glob("*.py"))
    code = f"import sys; sys.path[:0] = {[str(EXTENSIONS), str(ROOT / '.ci')]}; "
    code += f"import {', '.join(names)}; "
    code += "print(executed_chapters.MYST, 'torch' in sys.modules, 'scipy' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == [page.MYST, "False", "False"]


def test_pictures_wait():
    text = '<img src="b.png"><img width="3" src="c.svg">'
    assert light_pages.with_waiting_pictures(text) == (
        '<img loading="lazy" src="b.png"><img width="3" src="c.svg">'
    )


INK = drawings.INK
DRAWING = (
    '<svg xmlns="x" width="72pt" height="36pt"><path style="fill: {}; stroke: #222222"/></svg>'
)
NARROW = DRAWING.replace("72pt", "48pt")


def parsed(page: str) -> BeautifulSoup:
    return BeautifulSoup(page, "html.parser")


def figure_in(folder: Path, colour: str, narrow: str = "") -> Path:
    (folder / "_images").mkdir(exist_ok=True)
    picture = folder / "_images" / "a.svg"
    embedded = f"{OPENS}{narrow.format(colour)}{CLOSES}</svg>" if narrow else "</svg>"
    picture.write_text(DRAWING.format(colour).replace("</svg>", embedded))
    return picture


def test_a_figure_is_there_for_both_widths_and_both_themes(tmp_path):
    picture = figure_in(tmp_path, "#ffffff", NARROW)
    made: dict = {}
    page = drawings.with_drawings(
        '<img alt="A" src="_images/a.svg" />', tmp_path / "page.html", made
    )
    light, dark = parsed(page).select("picture")
    assert light.source["srcset"] == "_images/a.narrow.svg"
    assert dark.source["srcset"] == "_images/a.dark.narrow.svg"
    assert (light.img["src"], light.img["class"]) == ("_images/a.svg", ["only-light"])
    assert (dark.img["src"], dark.img["class"]) == ("_images/a.dark.svg", ["only-dark"])
    for part in (light, dark):
        assert part.source["media"] == drawings.PHONE
        assert (part.source["width"], part.source["height"]) == ("64", "48")
        assert (part.img["width"], part.img["height"]) == ("96", "48")
        assert part.img["alt"] == "A" and part.img["loading"] == "lazy"
    files = made[picture]
    assert files[".svg"] == DRAWING.format("#ffffff")
    assert files[".narrow.svg"] == NARROW.format("#ffffff")
    assert f"fill: {drawings.DARK['#ffffff']}" in files[".dark.svg"]
    assert f"stroke: {drawings.DARK[INK]}" in files[".dark.narrow.svg"]
    assert "#ffffff" not in files[".dark.svg"] and INK not in files[".dark.svg"]


@pytest.mark.parametrize(("entries", "grouped"), [(40, False), (41, True)])
def test_contents_with_very_many_entries_show_their_groups(entries, grouped):
    contents = '<nav class="bd-toc-nav page-toc">' + '<li class="toc-entry"></li>' * entries
    page = light_pages.with_groups(contents + "</nav><p>page-toc</p>")
    assert ('page-toc grouped"' in page) == grouped and page.endswith("<p>page-toc</p>")


def test_a_figure_with_one_drawing_needs_no_sources(tmp_path):
    figure_in(tmp_path, "#ffffff")
    page = drawings.with_drawings('<img src="_images/a.svg">', tmp_path / "page.html", {})
    assert not parsed(page).select("source") and len(parsed(page).select("picture > img")) == 2


@pytest.mark.parametrize("content", ["#123456", '#ffffff"/><image href="data:', "#fde725"])
def test_a_figure_whose_colours_have_no_dark_counterpart_lies_on_a_card(tmp_path, content):
    picture = figure_in(tmp_path, content, NARROW)
    made: dict = {}
    page = drawings.with_drawings('<img src="_images/a.svg">', tmp_path / "page.html", made)
    (image,) = parsed(page).select("img")
    assert image["class"] == ["card"] and set(made[picture]) == {".svg", ".narrow.svg"}


def test_other_pictures_stay_as_they_are(tmp_path):
    text = '<img src="_static/logo.svg"><img src="_images/missing.svg"><img src="_images/a.png">'
    assert drawings.with_drawings(text, tmp_path / "page.html", {}) == text


def test_the_lock_file_pins_what_is_asked_for_and_names_no_host():
    asked = json.loads((EXTENSIONS / "package.json").read_text(encoding="utf-8"))
    text = (EXTENSIONS / "package-lock.json").read_text(encoding="utf-8")
    packages = json.loads(text)["packages"]
    for name, version in (asked["dependencies"] | asked["devDependencies"]).items():
        assert packages[f"node_modules/{name}"]["version"] == version
    assert '"resolved"' not in text
    assert all("integrity" in package for name, package in packages.items() if name)


def table_in(text: str) -> list[list[str]]:
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows if not set("".join(row)) <= set("-: ")]


def test_the_readme_quotes_an_audit_of_every_chapter_that_met_its_aims():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    head, *rows = table_in(readme.split("## The site, measured")[1].split("\n## ")[0])
    audit = (ROOT / ".ci" / "audit.py").read_text(encoding="utf-8")
    assert all(f'"{name}"' in audit for name in head)
    assert [row[0] for row in rows] == [name.removeprefix("book/") for name in MEASURED]
    for _, *values in rows:
        phone, desktop, *others, violations, weight, figures = map(int, values)
        assert min(phone, desktop) >= 95 and others == [100, 100, 100] and violations == 0
        assert weight < 1000 and figures < 1000
