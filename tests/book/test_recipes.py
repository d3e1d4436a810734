"""The page of recipes is in order, like a chapter."""

from pathlib import Path

import nbformat
from test_book import chapter_problems

RECIPES = Path(__file__).resolve().parents[2] / "book" / "recipes.ipynb"


def test_the_recipes_are_in_order():
    notebook = nbformat.read(RECIPES, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    assert chapter_problems(notebook) == []
