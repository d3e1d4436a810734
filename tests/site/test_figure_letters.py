"""The measure of a figure's letters; test_pages.py holds every page of the site to it."""

import re

import pytest
from letters import smallest_letters, too_small

LETTER = '<g transform="translate(1 2) scale({0} -{0})"><use/></g>'
INDEX = '<g transform="translate(1 2) scale(0.11 -0.11)"><use transform="scale(0.7)"/></g>'


@pytest.mark.parametrize(
    ("letters", "width", "size"),
    [
        (LETTER.format(0.1), 400 / 0.75, 13.33),
        (LETTER.format(0.11) + LETTER.format(0.08), 400, 8.0),
        (INDEX, 400, 11.0),
        ('<text style="font: 12px sans-serif">a</text>', 200, 6.0),
        ("<path/>", 400, None),
    ],
)
def test_the_smallest_letters_are_found(letters, width, size):
    drawing = f'<svg viewBox="0 0 400 300">{letters}</svg>'
    assert smallest_letters(drawing, width) == (size and pytest.approx(size, abs=0.01))


def test_small_letters_are_named(tmp_path):
    (tmp_path / "a.svg").write_text(f'<svg viewBox="0 0 400 9">{LETTER.format(0.1)}</svg>')
    shown = [{"file": "http://x/a.svg", "width": width} for width in (440, 430)]
    assert too_small(shown, tmp_path, "http://x/") == ["a.svg: 10.8 px where it is 430 px wide"]


def without_colours(drawing: str) -> str:
    """A drawing in no colours; on a dark page the whole has one, for what is drawn without."""
    whole = re.sub(r'(?<=<svg) fill="[^"]*"', "", drawing)
    return re.sub(r"#[0-9a-fA-F]{3,8}\b", "#", whole)


def test_a_drawing_is_the_same_in_both_themes_but_for_its_colours(site):
    dark = sorted((site / "_images").glob("*.dark.*svg"))
    assert len(dark) > 50
    for path in dark:
        light = path.with_name(path.name.replace(".dark", "")).read_text(encoding="utf-8")
        drawing = path.read_text(encoding="utf-8")
        assert drawing != light, path.name
        assert without_colours(drawing) == without_colours(light), path.name
