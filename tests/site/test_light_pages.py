"""What the site's extensions do to a page, where the built site would not show it.

The style sheet, the icons, the equations and the drawings of the site itself: test_site.py.
"""

import subprocess
import sys
import types
import zipfile
from pathlib import Path

import drawings
import equations
import light_pages
import pytest
from docutils import nodes
from docutils.utils import new_document
from site_pages import ROOT
from sphinx.errors import ExtensionError

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


def test_a_theme_is_patched_once_and_one_that_a_patch_does_not_fit_fails_in_a_sentence(tmp_path):
    """A second build found its own patch in place of the theme's lines."""
    theme, site = tmp_path / "theme" / "static", tmp_path / "site"
    for folder in (theme, site):
        (folder / "scripts").mkdir(parents=True)
    for name, old in light_pages.PATCHES.items():
        (theme / name).write_text(f"before({old})")
    for _ in range(2):
        light_pages.patch_scripts(site, [str(theme.parent)])
        assert {path.read_text() for path in site.rglob("*.js")} == {"before([])"}
    for change in (lambda path: path.write_text("other()"), Path.unlink):
        change(theme / name)
        with pytest.raises(ExtensionError, match=r"theme no longer has .* see light_pages"):
            light_pages.patch_scripts(site, [str(theme.parent)])


def test_the_figures_of_the_chapters_are_packed_for_slides(tmp_path):
    for folder in ("book", "_images"):
        (tmp_path / folder).mkdir()
    image = '<img alt="1 > 0" src="../_images/ab12.svg"/><img src="../_images/ab12.dark.svg"/>'
    figure = f'<figure class="align-default" id="fig-one">\n{image}</figure>'
    (tmp_path / "book" / "01_one.html").write_text(figure)
    (tmp_path / "book" / "about.html").write_text(figure)
    (tmp_path / "_images" / "ab12.svg").write_text("<svg/>")
    drawings.write_slides(types.SimpleNamespace(outdir=tmp_path, srcdir=ROOT))
    with zipfile.ZipFile(tmp_path / "book" / "figures.zip") as file:
        assert file.namelist() == ["LICENSE", "01_one/fig-one.svg"]
        assert file.read("01_one/fig-one.svg") == b"<svg/>"


def test_the_extensions_bring_no_torch_into_a_build_that_does_not_ask_for_it():
    """To import it took a sixth of the time that passes until a changed sentence is built."""
    folder = ROOT / "book" / "_ext"
    code = f"import sys; sys.path[:0] = [{str(folder)!r}]; "
    code += f"import {', '.join(sorted(path.stem for path in folder.glob('*.py')))}; "
    code += "sys.exit('torch' in sys.modules or 'scipy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
