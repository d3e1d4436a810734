"""What others show of the site: previews of links, cards of chapters, an icon, a feed."""

import base64
import html
import io
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import claims_page
import drawings
import from_npm
from docutils import nodes
from markdown_it import MarkdownIt
from sphinx.application import Sphinx

CHAPTER = re.compile(r"^book/\d\d_")
FIGURE = re.compile(r'<img alt="(?P<alt>[^"]*)"[^>]*src="[^"]*_images/(?P<name>[^"]+\.svg)"')
PANEL = (470, 40, 1160, 590)  # of a card: where its figure stands, beside its title
RELEASE = re.compile(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def preview(context: dict[str, Any], name: str, content: str) -> None:
    """Change what previews of a page show."""
    pattern = rf'(?<=<meta property="{name}" content=)"[^"]*"'
    text = f'"{html.escape(content)}"'
    context["metatags"] = re.sub(pattern, lambda _: text, context.get("metatags", ""))


def describe(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Let previews show a page's own description, a chapter's figure, and the site's own address.

    sphinxext-opengraph takes the first words of the page instead, with their raw mathematics.
    """
    if not isinstance(doctree, nodes.document):
        return
    for meta in doctree.findall(nodes.meta):
        if meta.get("name") == "description":
            preview(context, "og:description", meta["content"])
    if pagename == app.config.root_doc:
        context["pageurl"] = app.config.html_baseurl
        preview(context, "og:url", app.config.html_baseurl)
    figure = FIGURE.search(context.get("body") or "")
    if CHAPTER.match(pagename) and figure:
        title = re.sub(r"<[^>]+>", "", context["title"])
        wanted(app)[pagename.rpartition("/")[2]] = html.unescape(title), figure["name"]
        address = f"{app.config.html_baseurl}_static/cards/{pagename.rpartition('/')[2]}.png"
        preview(context, "og:image", address)
        preview(context, "og:image:alt", html.unescape(figure["alt"]))


def wanted(app: Sphinx) -> dict[str, tuple[str, str]]:
    """The cards of the chapters that were written in this build: title and figure."""
    if not hasattr(app, "cards"):
        app.cards = {}  # type: ignore[attr-defined]
    return app.cards  # type: ignore[attr-defined]


def as_pictures(svgs: list[tuple[str, int]]) -> list[bytes]:
    """Draw SVGs as PNGs of the given widths; the letters in ours are outlines."""
    program, script = from_npm.package("@resvg/resvg-wasm"), Path(__file__).with_suffix(".cjs")
    written = from_npm.run(script, program, given=json.dumps(svgs))
    return [base64.b64decode(one) for one in json.loads(written)]


def draw_card(title: str, figure: bytes, path: Path) -> None:
    """Draw what a link to a chapter shows: its title, and a figure on a light panel."""
    import matplotlib
    from PIL import Image, ImageDraw, ImageFont

    fonts = Path(matplotlib.get_data_path(), "fonts", "ttf")
    image = Image.new("RGB", claims_page.SIZE, claims_page.NAVY)
    canvas = ImageDraw.Draw(image)
    left, top, right, bottom = PANEL
    for text, place, points, height in (
        (title, top + 10, 50, 400),
        ("Normalization in deep networks", bottom - 70, 26, 80),
    ):
        size, lines = claims_page.fitted(text, points, height, width=left - 80)
        font = ImageFont.truetype(str(fonts / "DejaVuSans.ttf"), size)
        canvas.text((40, place), lines, claims_page.CREAM, font, spacing=size // 3)
    canvas.rounded_rectangle(PANEL, 12, "white")
    drawn = Image.open(io.BytesIO(figure)).convert("RGBA")
    drawn.thumbnail((right - left - 30, bottom - top - 20), Image.Resampling.LANCZOS)
    corner = (left + right - drawn.width) // 2, (top + bottom - drawn.height) // 2
    image.paste(drawn, corner, drawn)
    image.quantize(128).save(path, optimize=True)


def draw(app: Sphinx, error: Exception | None) -> None:
    """Draw the cards and the icon that telephones put on their first screen."""
    if error or app.builder.name != "html":
        return
    static, pictures = Path(app.outdir, "_static"), drawings.pictures_of(app)
    (static / "cards").mkdir(exist_ok=True)
    cards = wanted(app)
    svgs = [(drawings.drawings_of(pictures[name])[".svg"], 1600) for _, name in cards.values()]
    icon, *figures = as_pictures([((static / "favicon.svg").read_text("utf-8"), 180), *svgs])
    (static / "icon.png").write_bytes(icon)
    for (name, (title, _)), figure in zip(cards.items(), figures, strict=True):
        draw_card(title, figure, static / "cards" / f"{name}.png")


def write_feed(app: Sphinx, error: Exception | None) -> None:
    """Write the releases of the changelog that have a date as an Atom feed."""
    if error or app.builder.name != "html":
        return
    base, releases = app.config.html_baseurl, Path(app.srcdir, "CHANGELOG.md").read_text("utf-8")
    repository = app.config.html_theme_options["repository_url"]
    feed = ElementTree.Element("feed", xmlns="http://www.w3.org/2005/Atom")

    def add(parent: ElementTree.Element, tag: str, text: str = "", **attributes: str) -> None:
        ElementTree.SubElement(parent, tag, attributes).text = text or None

    found = RELEASE.findall(releases)
    add(feed, "title", app.config.project)
    add(feed, "id", base)
    add(feed, "updated", f"{found[0][1]}T00:00:00Z")
    add(feed, "link", href=base)
    add(feed, "link", rel="self", href=f"{base}feed.xml")
    add(ElementTree.SubElement(feed, "author"), "name", app.config.author)
    for version, date, text in found:
        entry = ElementTree.SubElement(feed, "entry")
        add(entry, "title", f"Version {version}")
        add(entry, "id", f"{base}#version-{version}")
        add(entry, "updated", f"{date}T00:00:00Z")
        add(entry, "link", href=f"{repository}/blob/main/CHANGELOG.md")
        add(entry, "content", MarkdownIt().render(text), type="html")
    path = Path(app.outdir, "feed.xml")
    ElementTree.ElementTree(feed).write(path, encoding="utf-8", xml_declaration=True)


def setup(app: Sphinx) -> dict[str, Any]:
    # After the extension that adds the previews, before the drawings of a page are parted.
    app.connect("html-page-context", describe, priority=890)
    app.connect("build-finished", draw)
    app.connect("build-finished", write_feed)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
