"""What a page loads, and no more: one style sheet, the icons it shows, nothing before it is needed.

The theme and its extensions have sixteen style sheets, of which a page uses a tenth, and three
fonts with 4000 icons, of which it shows some twenty. A page links to ``site.css`` alone (see
layout.html). After the build the style sheets are put together there: PurgeCSS drops the rules that
no page and no script can use, and fontTools cuts the fonts of icons and equations down to what is
shown.
Scripts run after the page is there; pictures come when the reader does.
"""

import base64
import hashlib
import io
import logging
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import drawings
import from_npm
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.builders.html._assets import _JavaScript
from sphinx.errors import ExtensionError

SHEET = "site.css"
OPTIONS = "basic/static/documentation_options.js.jinja"  # what Sphinx writes beside the pages
# These the theme puts before all others.
OF_THE_THEME = ("styles/theme.css", "styles/bootstrap.css", "styles/pydata-sphinx-theme.css")
ICONS = "vendor/fontawesome/*/css/all.min.css"
# The icons' fonts: file, family, weight.
ICON_FONTS = (
    ("fa-solid-900.ttf", "Font Awesome 6 Free", 900),
    ("fa-brands-400.ttf", "Font Awesome 6 Brands", 400),
)

IMPORT = re.compile(r'@import\s+(?:url\()?["\']?([^"\')]+)["\']?\)?;')
ADDRESS = re.compile(r'url\((["\']?)(?!data:)([^"\')]+)\1\)')
FONT_FACE = re.compile(r"@font-face\s*\{[^}]*\}")
PICTURE = re.compile(r"<img (?![^>]*(?: width=| loading=))")
WORD = re.compile(r"[A-Za-z0-9_-]+")  # what PurgeCSS takes for a name that a rule can use
HEADING = re.compile(r"<h[1-4]>.*?</h[1-4]>", re.DOTALL)
DOT = re.compile(r"(?<=\w)([._])(?=[A-Za-z])(?![^<]*>)")

# What nothing but a change of the theme's scripts keeps it from. The first measures every code cell
# as soon as the page is there and whenever it changes, and the browser lays the page out for each:
# reading.js does it for what is seen. The second looks for notes in the margin; there are none.
PATCHES = {
    "scripts/pydata-sphinx-theme.js": (
        'document.querySelectorAll("pre, .nboutput > .output_area, '
        '.cell_output > .output, .jp-RenderedHTMLCommon")'
    ),
    "scripts/sphinx-book-theme.js": 'document.querySelectorAll(n.join(", "))',
}


def lighten(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Let a page show its figures in both themes and widths, and its scripts wait."""
    body = drawings.with_drawings(context.get("body") or "", app)
    # A long name in a heading breaks after a dot or an underscore, and not between letters.
    body = HEADING.sub(lambda head: DOT.sub(r"\1<wbr>", head[0]), body)
    context["body"] = PICTURE.sub('<img loading="lazy" ', body)
    # A browser that was here before fetches a new style sheet.
    context["style_digest"] = app.config.behind_style[:8]
    # sphinx-thebe loads its scripts on every page, though the book offers no live code;
    # sphinx-design loads one for tabs.
    unused = "thebe" if "sd-tab-set" in body else "thebe|design-tabs"
    scripts = []
    for script in context.get("script_files", []):
        name, attributes = str(getattr(script, "filename", None) or ""), script.attributes
        if re.search(unused, f"{name} {attributes.get('body')}"):
            continue
        if name.endswith("documentation_options.js"):
            # A page's own scripts need these lines at once.
            assert isinstance(app.builder, StandaloneHTMLBuilder)
            written = app.builder.templates.render(OPTIONS, context).strip()
            scripts.append(_JavaScript("", body=written))
            continue
        if attributes.get("type") == "module":
            attributes["fetchpriority"] = "low"
        elif name:
            attributes["defer"] = "defer"
        scripts.append(script)
    context["script_files"] = scripts


def style_of(path: Path, root: Path) -> str:
    """Read a style sheet with what it imports; its addresses become relative to the folder root."""

    def rebased(match: re.Match[str]) -> str:
        return f'url("{(path.parent / match[2]).resolve().relative_to(root).as_posix()}")'

    text = path.read_text(encoding="utf-8")
    # Imports come first in a style sheet.
    imported = [style_of(path.parent / match[1], root) for match in IMPORT.finditer(text)]
    own = ADDRESS.sub(rebased, IMPORT.sub("", text))
    # The icons come cut down, below.
    own = FONT_FACE.sub("", own) if "fontawesome" in path.parts else own
    return "\n".join([*imported, own])


def purged(style: str, names: list[str]) -> str:
    """Drop the rules that name something else."""
    with tempfile.TemporaryDirectory() as folder:
        before, after, content = (Path(folder) / name for name in (SHEET, "purged", "names.html"))
        before.write_text(style, encoding="utf-8")
        content.write_text(" ".join(names), encoding="utf-8")
        script = from_npm.package("purgecss") / "bin" / "purgecss.js"
        from_npm.run(script, "--css", before, "--content", content, "--output", after)
        style = (after / SHEET).read_text(encoding="utf-8")
    # The book theme names an older family in one place.
    return style.replace(r"Font Awesome\ 5 Free", '"Font Awesome 6 Free"')


def icon_faces(style: str, fonts: Path) -> str:
    """Describe the icons' fonts, cut to the icons of a style sheet, each inside the sheet."""
    icons = {int(code, 16) for code in re.findall(r"\\([ef][0-9a-f]{3})\b", style)}
    icons |= {ord(letter) for letter in style if "\ue000" <= letter <= "\uf8ff"}
    faces = []
    for name, family, weight in ICON_FONTS:
        font = base64.b64encode(cut_down(fonts / name, icons)).decode()
        faces.append(
            f'@font-face {{ font-family: "{family}"; font-weight: {weight}; src: '
            f'url("data:font/woff;base64,{font}") format("woff"); }}\n'
        )
    return "".join(faces)


def cut_down(path: Path, letters: Iterable[int]) -> bytes:
    """Leave in a font what is shown."""
    font, written = TTFont(path, recalcTimestamp=False), io.BytesIO()
    subsetter = Subsetter(Options(layout_features=[], name_IDs=[]))
    subsetter.populate(unicodes=letters)
    subsetter.subset(font)
    font.flavor = "woff"
    font.save(written)
    return written.getvalue()


def write_style(site: Path, sheets: Iterable[str], kept: Path) -> None:
    """Put the style sheets together, and leave in what pages and scripts can use.

    Most changes of a page use the same rules as before: ``kept`` says of what the sheet was made.
    """
    static = site / "_static"
    icons = next(static.glob(ICONS))
    paths = [*(static / name for name in OF_THE_THEME), icons, *(static / name for name in sheets)]
    whole = "\n".join(style_of(path, static) for path in paths)
    read_by = [path for path in site.rglob("*.html") if static not in path.parents]
    texts = (path.read_text(encoding="utf-8") for path in (*read_by, *static.rglob("*.js")))
    known, found, letters = set(WORD.findall(whole)), set[str](), set[str]()
    for text in texts:
        found |= known & set(WORD.findall(text))
        letters |= set(text)
    names = sorted(found)
    digest = hashlib.sha256("\0".join([whole, *names, *sorted(letters)]).encode()).hexdigest()
    if not (static / SHEET).exists() or not kept.exists() or kept.read_text() != digest:
        style = purged(whole, names)
        sheet = icon_faces(style, icons.parents[1] / "webfonts") + style
        (static / SHEET).write_text(sheet, encoding="utf-8")
        for font in (from_npm.package("katex") / "dist" / "fonts").glob("*.ttf"):
            cut = static / "katex" / "fonts" / f"{font.stem}.woff"
            cut.write_bytes(cut_down(font, map(ord, letters)))
        kept.write_text(digest)


def patch_scripts(static: Path, themes: Iterable[str]) -> None:
    """Keep the theme from work for what is not seen or not there."""
    for name, old in PATCHES.items():
        found = [path for theme in themes if (path := Path(theme, "static", name)).exists()]
        text = found[0].read_text(encoding="utf-8") if found else ""
        if text.count(old) != 1:
            raise ExtensionError(f"{name} of the theme no longer has {old}: see light_pages.py.")
        # Its source map would no longer fit.
        patched = text.replace(old, "[]").split("//# sourceMappingURL")[0]
        (static / name).write_text(patched, encoding="utf-8")


def finish(app: Sphinx, error: Exception | None) -> None:
    if error or not isinstance(app.builder, StandaloneHTMLBuilder):
        return
    site = Path(app.outdir)
    drawings.write(app)
    drawings.write_slides(app)
    patch_scripts(site / "_static", app.builder.theme.get_theme_dirs())
    files = sorted(app.builder._css_files, key=lambda sheet: sheet.priority)
    sheets = [str(sheet.filename).split("_static/")[-1].split("?")[0] for sheet in files]
    write_style(site, sheets, Path(app.doctreedir) / "style.txt")


def setup(app: Sphinx) -> dict[str, Any]:
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    # After the extensions that add scripts.
    app.connect("html-page-context", lighten, priority=900)
    # After the extensions that add style sheets and scripts.
    app.connect("build-finished", finish, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
