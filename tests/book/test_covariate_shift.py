"""What the book says of covariate shift keeps to the book's own definition of it."""

import re
from pathlib import Path

import nbformat
from normtutor_studies import claims

BOOK = Path(__file__).resolve().parents[2] / "book"
NOISE = re.compile(r"\b(shak|shook|nois)", re.IGNORECASE)
SHIFT = re.compile(r"covariate shift|\bdrift", re.IGNORECASE)


def paragraphs() -> list[str]:
    """Paragraphs and captions of the pages, and what the ledger says of its claims."""
    texts = [path.read_text(encoding="utf-8") for path in BOOK.glob("*.md")]
    for path in [*BOOK.glob("*.ipynb"), *BOOK.glob("in_depth/*.ipynb")]:
        for cell in nbformat.read(path, as_version=4).cells:
            figure = cell.metadata.get("mystnb", {}).get("figure", {})
            texts.append(cell.source if cell.cell_type == "markdown" else figure.get("caption", ""))
    texts += [f"{claim.words} {claim.condition}" for claim in claims.CLAIMS]
    return [" ".join(part.split()) for text in texts for part in re.split(r"\n\s*\n|\n- ", text)]


def refutes_with_noise(paragraph: str) -> bool:
    """Whether it sets noise against covariate shift and does not say that the one is not the other.

    By the definition of chapter 1 only a change of the parameters makes a shift.
    """
    prose = re.sub(r"\(#.*?\)", "", paragraph)
    both = NOISE.search(prose) and SHIFT.search(prose)
    says_so = re.search(r"no parameter|parameters do not|steady inputs", prose, re.IGNORECASE)
    return bool(both) and not says_so


def test_noise_is_not_held_against_the_shift_that_parameters_make():
    assert refutes_with_noise("It is not the drift: shake those inputs, and the speed remains.")
    assert [one for one in paragraphs() if refutes_with_noise(one)] == []
