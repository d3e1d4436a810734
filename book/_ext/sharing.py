"""What others show of the site: previews of links, cards of chapters, an icon, a feed."""

import base64
import html
import io
import json
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import drawings
import from_npm
from docutils import nodes
from docutils.utils import new_document
from markdown_it import MarkdownIt
from sphinx.application import Sphinx
from sphinxext import opengraph

CHAPTER = re.compile(r"^book/\d\d_")
FIGURE = re.compile(r'<img alt="(?P<alt>[^"]*)"[^>]*src="[^"]*_images/(?P<name>[^"]+\.svg)"')
RELEASE = re.compile(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)

# Of a card: the ground and letters of social.png, and where a chapter's figure stands.
NAVY, CREAM, SIZE = "#10324f", "#f5f1e8", (1200, 630)
PANEL = (470, 40, 1160, 590)

# The cards of the chapters that were written in this build: title and figure.
cards: dict[str, tuple[str, str]] = {}


# --- previews -------------------------------------------------------------------------------------


def describe(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Let previews show a page's own description, a chapter's figure, and the site's own address.

    sphinxext-opengraph would take the first words of the page, with their raw mathematics. It
    leaves pages alone that have no source; one of these is described if it brings a description.
    """
    fields = dict(context.get("meta") or {})
    context["meta"] = fields
    if isinstance(doctree, nodes.document):
        for meta in doctree.findall(nodes.meta):
            if meta.get("name") == "description":
                fields["og:description"] = html.escape(meta["content"])
        if pagename == app.config.root_doc:
            context["pageurl"] = fields["og:url"] = app.config.html_baseurl
        figure = FIGURE.search(context.get("body") or "")
        if CHAPTER.match(pagename) and figure:
            name = pagename.rpartition("/")[2]
            cards[name] = html.unescape(re.sub(r"<[^>]+>", "", context["title"])), figure["name"]
            fields["og:image"] = f"{app.config.html_baseurl}_static/cards/{name}.png"
            fields["og:image:alt"] = figure["alt"]
    elif words := fields.get("og:description"):
        fields["og:type"] = "article"
        nothing = new_document("")
        where = {"srcdir": app.srcdir, "outdir": app.outdir, "config": app.config}
        tags = opengraph.get_tags(context, nothing, builder=app.builder, env=app.env, **where)
        context["metatags"] = f'{tags}<meta name="description" content="{words}">'


# --- cards ----------------------------------------------------------------------------------------


class Words(NamedTuple):
    """A text of a card: where it begins, its largest size, and the height that it may take."""

    text: str
    top: int
    points: int
    height: int
    ink: str = CREAM


def fitted(text: str, points: int, height: int, width: int) -> tuple[int, str]:
    """The largest size up to ``points`` at which a text fits a place, and the text in lines."""
    for size in range(points, 16, -2):
        lines = textwrap.fill(text, int(width / (0.56 * size)), break_long_words=False)
        # A line takes 7/6 of its size, and a third of it stands between two lines.
        if (lines.count("\n") + 1) * 1.5 * size <= height:
            break
    return size, lines


def card(texts: Iterable[Words], left: int = 70, width: int = 1060) -> Any:
    """A picture with texts: a long one becomes smaller, and leaves its part to nobody."""
    import matplotlib
    from PIL import Image, ImageDraw, ImageFont

    letters = Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
    image = Image.new("RGB", SIZE, NAVY)
    canvas = ImageDraw.Draw(image)
    for text, top, points, height, ink in texts:
        size, lines = fitted(text, points, height, width)
        font = ImageFont.truetype(str(letters), size)
        canvas.text((left, top), lines, ink, font, spacing=size // 3)
    return image


def card_of_chapter(title: str, figure: bytes, book: str) -> Any:
    """What a link to a chapter shows: its title, and a figure on a light panel."""
    from PIL import Image, ImageDraw

    left, top, right, bottom = PANEL
    words = (Words(title, top + 10, 50, 400), Words(book, bottom - 70, 26, 80))
    image = card(words, left=40, width=left - 80)
    ImageDraw.Draw(image).rounded_rectangle(PANEL, 12, "white")
    drawn = Image.open(io.BytesIO(figure)).convert("RGBA")
    drawn.thumbnail((right - left - 30, bottom - top - 20), Image.Resampling.LANCZOS)
    corner = (left + right - drawn.width) // 2, (top + bottom - drawn.height) // 2
    image.paste(drawn, corner, drawn)
    return image.quantize(128)


def as_pictures(svgs: list[tuple[str, int]]) -> list[bytes]:
    """Draw SVGs as PNGs of the given widths; the letters in ours are outlines."""
    program, script = from_npm.package("@resvg/resvg-wasm"), Path(__file__).with_suffix(".cjs")
    written = from_npm.run(script, program, given=json.dumps(svgs))
    return [base64.b64decode(one) for one in json.loads(written)]


def draw(app: Sphinx, error: Exception | None) -> None:
    """Draw the cards and the icon that telephones put on their first screen."""
    if error or app.builder.name != "html":
        return
    static, pictures = Path(app.outdir, "_static"), drawings.pictures_of(app)
    (static / "cards").mkdir(exist_ok=True)
    svgs = [(drawings.drawings_of(pictures[name])[".svg"], 1600) for _, name in cards.values()]
    icon, *figures = as_pictures([((static / "favicon.svg").read_text("utf-8"), 180), *svgs])
    (static / "icon.png").write_bytes(icon)
    for (name, (title, _)), figure in zip(cards.items(), figures, strict=True):
        drawn = card_of_chapter(title, figure, app.config.project)
        drawn.save(static / "cards" / f"{name}.png", optimize=True)


# --- feed -----------------------------------------------------------------------------------------


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
    # Before the extension that writes the previews.
    app.connect("html-page-context", describe, priority=400)
    app.connect("build-finished", draw)
    app.connect("build-finished", write_feed)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
