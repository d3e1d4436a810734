"""The drawings of a figure on the site: wide and narrow, each for a light and for a dark page.

A chapter's figure comes as one file with two drawings in it
(``normtutor_studies.plotting.drawings``). Here they are taken apart, and written once more in the
colours of a dark page. A drawing with a colour
that has no dark counterpart, a heat map for instance, keeps its colours, on a card.
"""

import functools
import re
import zipfile
from pathlib import Path

from normtutor_studies.plotting.drawings import separate
from normtutor_studies.plotting.style import DARK, INK
from sphinx.application import Sphinx

PHONE = "screen and (max-width: 576px)"

PICTURE = re.compile(r'<img [^>]*?src="([^"]+)\.svg"[^>]*>')
FIGURE = re.compile(r'<figure[^>]* id="(fig-[\w-]+)">.*? src="[^"]*_images/(\w+\.svg)"', re.DOTALL)
COLOUR = re.compile(r'((?:fill|stroke|stop-color)(?:: ?|="))(#[0-9a-f]{6})')


def pixels(drawing: str) -> tuple[int, int] | None:
    """Read the size of an SVG drawing, which is in points: 72 of them are 96 pixels."""
    found = re.search(r'<svg [^>]*?width="([0-9.]+)pt" height="([0-9.]+)pt"', drawing)
    return (round(float(found[1]) / 0.75), round(float(found[2]) / 0.75)) if found else None


def darkened(drawing: str) -> str | None:
    """Write a drawing in the colours of a dark page; None where a colour has no counterpart."""
    if "<image" in drawing or any(colour not in DARK for _, colour in COLOUR.findall(drawing)):
        return None
    # What is drawn without a colour is black.
    drawing = drawing.replace("<svg ", f'<svg fill="{INK}" ', 1)
    return COLOUR.sub(lambda match: match[1] + DARK[match[2]], drawing)


@functools.cache
def drawings_of(picture: Path) -> dict[str, str]:
    """Make the files of a figure: by the ending of their names, what is in them."""
    wide, narrow = separate(picture.read_text(encoding="utf-8"))
    files = {".svg": wide} | ({".narrow.svg": narrow} if narrow else {})
    dark = {f".dark{ending}": darkened(drawing) for ending, drawing in files.items()}
    # A figure is dark in both widths, or in none.
    return files | {
        name: drawing for name, drawing in dark.items() if all(dark.values()) and drawing
    }


def element(image: str, files: dict[str, str], theme: str, kind: str) -> str:
    """Show a drawing of a theme ("" or ".dark"), the narrow one on a telephone."""
    stem = image.split('src="')[1].split('.svg"')[0]

    def size(ending: str) -> str:
        width, height = pixels(files[ending]) or (0, 0)
        return f'width="{width}" height="{height}"'

    image = re.sub(r' (?:class|width|height|loading)="[^"]*"', "", image)
    image = image.replace(f'src="{stem}.svg"', f'src="{stem}{theme}.svg"')
    image = image.replace("<img ", f'<img class="{kind}" loading="lazy" {size(f"{theme}.svg")} ')
    narrow = f"{theme}.narrow.svg"
    # The theme hides a caption that follows an image for the other theme in the same element.
    if narrow not in files:
        return f"<picture>{image}</picture>"
    source = f'<source media="{PHONE}" srcset="{stem}{narrow}" {size(narrow)}/>'
    return f"<picture>{source}{image}</picture>"


def pictures_of(app: Sphinx) -> dict[str, Path]:
    """The drawings of the pages written so far: where each comes from, by its name on the site."""
    assert app.builder is not None
    found = {name: Path(app.srcdir, source) for source, name in app.builder.images.items()}
    return {name: path for name, path in found.items() if path.suffix == ".svg"}


def with_drawings(body: str, app: Sphinx) -> str:
    """Let a page show the drawing that fits."""
    pictures = pictures_of(app)

    def shown(match: re.Match[str]) -> str:
        folder, _, name = match[1].rpartition("/")
        picture = pictures.get(f"{name}.svg")
        if picture is None or not folder.endswith("_images"):
            return match[0]
        files = drawings_of(picture)
        if ".dark.svg" not in files:
            return element(match[0], files, "", "card")
        return "".join(
            element(match[0], files, theme, kind)
            for theme, kind in (("", "only-light"), (".dark", "only-dark"))
        )

    return PICTURE.sub(shown, body)


def write(app: Sphinx) -> None:
    """Write the files that the pages show."""
    for name, picture in pictures_of(app).items():
        for ending, drawing in drawings_of(picture).items():
            path = Path(app.outdir, "_images", name).with_suffix(ending)
            path.write_text(drawing, encoding="utf-8")


def write_slides(app: Sphinx) -> None:
    """Pack the wide drawings of the main lines, by page and name, with their licence."""
    site = Path(app.outdir)
    files = {"LICENSE": Path(app.srcdir, "LICENSE")}
    for page in sorted(Path(site, "book").glob("0*.html")):
        for figure, picture in FIGURE.findall(page.read_text(encoding="utf-8")):
            files[f"{page.stem}/{figure}.svg"] = site / "_images" / picture
    with zipfile.ZipFile(site / "book" / "figures.zip", "w") as file:
        for name, path in files.items():
            file.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)
