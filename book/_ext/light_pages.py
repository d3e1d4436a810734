"""What a page loads, and no more: one style sheet, the icons it shows, nothing before it is needed.

The theme and its extensions link to sixteen style sheets, of which a page uses a tenth, and to
three fonts with 4000 icons, of which it shows some twenty. After the build, this extension puts the
style sheets together, lets PurgeCSS drop the rules that no page and no script can use, and lets
fontTools cut the icons' fonts down to the icons that are left. Scripts run after the page is there;
pictures come when the reader does.

`finish` makes the site out of the pages that Sphinx has written, and leaves these as they are: a
second build that writes one page finishes all of them from the same beginnings.
"""

import base64
import hashlib
import io
import logging
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import drawings
from equations import NODE
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont
from sphinx.application import Sphinx

PURGE = Path(sys.prefix) / "node_modules" / "purgecss" / "bin" / "purgecss.js"
BUNDLE = "site.css"

# The icons' fonts: file, family, weight.
ICON_FONTS = (
    ("fa-solid-900.ttf", "Font Awesome 6 Free", 900),
    ("fa-brands-400.ttf", "Font Awesome 6 Brands", 400),
)

# A page's own contents, and how many entries a reader still looks through.
CONTENTS = re.compile(r'<nav class="bd-toc-nav page-toc">.*?</nav>', re.DOTALL)
MANY = 40

LINK = re.compile(r'\s*<link [^>]*(?:rel="stylesheet"|as="font")[^>]*>')
IMPORT = re.compile(r'@import\s+(?:url\()?["\']?([^"\')]+)["\']?\)?;')
ADDRESS = re.compile(r'url\((["\']?)(?!data:)([^"\')]+)\1\)')
PICTURE = re.compile(r'<img [^>]*?src="([^"]+)"[^>]*>')
WORD = re.compile(r"[A-Za-z0-9_-]+")  # what PurgeCSS takes for a name that a rule can use
OPTIONS = re.compile(r'<script [^>]*src="[^"]*documentation_options\.js[^"]*"[^>]*></script>')
HEADING = re.compile(r"<h[1-4]>.*?</h[1-4]>", re.DOTALL)
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


def names_used(style: str, texts: Iterable[str]) -> list[str]:
    """List the words of a style sheet that the texts, pages and scripts, contain as well."""
    in_style, used = set(WORD.findall(style)), set()
    for text in texts:
        used |= in_style & set(WORD.findall(text))
    return sorted(used)


def purged(style: str, names: list[str]) -> str:
    """Drop the rules that name something else."""
    with tempfile.TemporaryDirectory() as folder:
        before, after, content = (Path(folder) / name for name in (BUNDLE, "purged", "names.html"))
        before.write_text(style, encoding="utf-8")
        content.write_text(" ".join(names), encoding="utf-8")
        command = [str(NODE), str(PURGE), "--css", str(before), "--content", str(content)]
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


def light_style(style: str, names: list[str], fonts: Path) -> str:
    """Drop what is not used from a style sheet, and put the icons' cut fonts into it."""
    # The book theme names an older family in one place.
    style = purged(style, names).replace(r"Font Awesome\ 5 Free", '"Font Awesome 6 Free"')
    return icon_faces(style, fonts) + style


def bundle_styles(folder: Path, pages: dict[Path, str], kept: Path) -> str:
    """Put the style sheets of all pages together, and leave in what the pages use.

    Most changes of a page use the same rules as before: in the folder ``kept`` lies the sheet that
    was made last, under a name that tells out of what.
    """
    static = folder / "_static"
    # Some page has every style sheet; those of single pages come last.
    links: dict[str, None] = {}
    for text in pages.values():
        links |= dict.fromkeys(link.split("_static/")[1] for link in stylesheets_of(text))
    whole = "\n".join(style_of(static / name, static) for name in links)
    scripts = (path.read_text(encoding="utf-8") for path in sorted(static.rglob("*.js")))
    names = names_used(whole, (*pages.values(), *scripts))
    fonts = next(static.glob("vendor/fontawesome/*/webfonts"))
    digest = hashlib.sha256("\0".join([whole, *names]).encode()).hexdigest()
    sheet = kept / f"{digest[:16]}.css"
    if not sheet.exists():
        style = light_style(whole, names, fonts)
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        sheet.write_text(style, encoding="utf-8")
    return sheet.read_text(encoding="utf-8")


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


def with_waiting_pictures(text: str) -> str:
    """Load pictures when they come near the screen."""

    def finished(match: re.Match[str]) -> str:
        tag = match[0]
        known = " width=" in tag or " loading=" in tag
        return tag if known else tag.replace("<img", '<img loading="lazy"', 1)

    return PICTURE.sub(finished, text)


def with_breaks(text: str) -> str:
    """Let a long name in a heading break after a dot or an underscore, and not between letters."""
    return HEADING.sub(
        lambda head: re.sub(r"(?<=\w)([._])(?=[A-Za-z])(?![^<]*>)", r"\1<wbr>", head[0]), text
    )


def with_groups(text: str) -> str:
    """Show the groups alone of contents that are too long to look through (see reading.js)."""
    found = CONTENTS.search(text)
    if found is None or found[0].count("toc-entry") <= MANY:
        return text
    return text.replace(found[0], found[0].replace('page-toc"', 'page-toc grouped"', 1))


def mended_scripts(static: Path) -> dict[Path, str]:
    """Keep the theme from work for what is not seen or not there."""
    mended = {}
    for name, old, new in (
        ("scripts/pydata-sphinx-theme.js", MEASURES_ALL, "[]"),
        ("scripts/sphinx-book-theme.js", SEEKS_NOTES, "[]"),
    ):
        text = (static / name).read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise RuntimeError(f"{name} has changed: look whether it still needs to be mended.")
        # Its source map would no longer fit.
        mended[static / name] = text.replace(old, new).split("//# sourceMappingURL")[0]
    return mended


def finish(folder: Path, site: Path, kept: Path) -> None:
    """Make a site of the pages in a folder, and then put it in the place of the one before."""
    static = folder / "_static"
    pages = {
        path: path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*.html"))
        if static not in path.parents
    }
    style = bundle_styles(folder, pages, kept)
    name = f"{BUNDLE}?v={hashlib.sha256(style.encode()).hexdigest()[:8]}"
    texts = {static / BUNDLE: style, **mended_scripts(static)}
    figures: dict[Path, dict[str, str]] = {}
    for path, text in pages.items():
        text = with_breaks(with_groups(with_options(with_one_style(text, name), folder)))
        texts[path] = with_waiting_pictures(drawings.with_drawings(text, path, figures))
    for picture, files in figures.items():
        texts |= {picture.with_suffix(ending): text for ending, text in files.items()}

    coming, going = (site.with_name(f"{site.name}.{word}") for word in ("coming", "going"))
    for place in (coming, going):
        shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, coming, ignore=shutil.ignore_patterns(".buildinfo*"))
    for path, text in texts.items():
        (coming / path.relative_to(folder)).write_text(text, encoding="utf-8")
    if site.exists():
        site.rename(going)
    coming.rename(site)
    shutil.rmtree(going, ignore_errors=True)


def let_scripts_wait(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Run the scripts after the page is there, and leave out those that it has no use for.

    sphinx-thebe loads its own on every page, though the book offers no live code; sphinx-design
    loads one for tabs.
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
        scripts.append(script)
    context["script_files"] = scripts


def setup(app: Sphinx) -> dict[str, Any]:
    logging.getLogger("fontTools").setLevel(logging.WARNING)
    # After the extensions that add scripts.
    app.connect("html-page-context", let_scripts_wait, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
