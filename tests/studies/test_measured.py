"""Marks on a page become numbers and tables when the page is built."""

import io
from pathlib import Path

import pytest
from normtutor_studies.engine import STUDIES, Study
from normtutor_studies.store import World
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

PAGE = """# Page

It falls by {measured}`seen / fall / 1` nats.

```{study} seen
```
"""


@pytest.fixture
def record(tmp_path):
    world = World("page", lambda cell, rate, seed: {"loss": [2.0] * 7 + [1.5]}, {}, rate=1.0)
    study = Study(
        name="seen",
        chapter=1,
        question="Does it fall?",
        arms={"only": {"rate": 1.0}},
        worlds=[world],
        control="Nothing else differs.",
        predicts={"it learns": "it falls"},
        folder=tmp_path,
        rows={"fall": lambda study: 2.0 - study.final("page", "only")},
    )
    list(study.run())
    yield tmp_path
    del STUDIES["seen"]


def built(text: str, folder: Path) -> tuple[str, str]:
    """The page as text, and what the build warned of."""
    source, warnings = folder / "source", io.StringIO()
    source.mkdir()
    (source / "index.md").write_text(text, encoding="utf-8")
    with docutils_namespace():
        app = Sphinx(
            source, None, folder / "out", folder / "trees", "text",
            confoverrides={
                "extensions": ["myst_parser", "measured", "verdicts"],
                # Else an extension of another test's application is asked to read the page.
                "source_suffix": {".md": "markdown"},
            },
            status=None, warning=warnings,
        )  # fmt: skip
        app.build()
    return (folder / "out" / "index.txt").read_text("utf-8"), warnings.getvalue()


def test_marks_become_numbers_and_tables(record):
    text, warned = built(PAGE, record)
    assert not warned
    assert "It falls by 0.5 nats." in text
    for part in (
        "Does it fall?",
        "If it learns: it falls.",
        "Nothing else differs.",
        "0.500\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.000",
    ):
        assert part in text


def test_a_question_asked_in_several_worlds_is_printed_once(record):
    text, warned = built("# Page\n\n```{study} seen seen\n```\n", record)
    assert not warned
    assert (text.count("Does it fall?"), text.count("0.500")) == (1, 2)


@pytest.mark.parametrize(
    "mark", ["seen / rise / 1", "unseen / fall / 1", "seen", "seen / fall / x"]
)
def test_a_mark_that_names_nothing_is_a_warning(mark, record):
    _, warned = built(f"# Page\n\nIt is {{measured}}`{mark}`.\n", record)
    assert "index.md" in warned and "WARNING" in warned
