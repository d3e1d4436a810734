"""What has been read of each work, beside its entry in the bibliography.

Every entry of ``references.bib`` has a field ``read``: one mark of ``MARKS`` or several, with
commas. The style named ``normtutor`` is pybtex's plain style with these words at the end.
"""

from typing import Any

from pybtex.database import BibliographyData, Entry
from pybtex.plugin import register_plugin
from pybtex.richtext import Tag, Text
from pybtex.style import FormattedEntry
from pybtex.style.formatting.plain import Style
from sphinx.application import Sphinx

STYLE = "normtutor"

MARKS = {
    "paper": "the text",
    "quoted": "passages quoted by others",
    "abstract": "the abstract",
    "code": "code or documentation",
    "cited": "others’ accounts of it",
}


def marks_of(entry: Entry) -> list[str]:
    """The marks of an entry, in the order of ``MARKS``; a missing or unknown one is an error."""
    given = {mark.strip() for mark in entry.fields.get("read", "").split(",")}
    if unknown := given - MARKS.keys():
        raise ValueError(f"{entry.key}: read = {sorted(unknown)}, and not of {sorted(MARKS)}")
    return [mark for mark in MARKS if mark in given]


def words_for(entry: Entry) -> str:
    """Say what has been read of a work."""
    return f"Read: {'; '.join(MARKS[mark] for mark in marks_of(entry))}."


class WithWhatWasRead(Style):
    """The plain style, and what has been read of the work."""

    def format_entry(
        self, label: str, entry: Entry, bib_data: BibliographyData | None = None
    ) -> FormattedEntry:
        formatted = super().format_entry(label, entry, bib_data)
        formatted.text = Text(formatted.text, " ", Tag("em", words_for(entry)))
        return formatted


def setup(app: Sphinx) -> dict[str, Any]:
    register_plugin("pybtex.style.formatting", STYLE, WithWhatWasRead)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
