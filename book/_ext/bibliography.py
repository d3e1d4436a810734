"""The bibliography: letters for works that would be cited alike, and what has been read of each.

Every entry of ``references.bib`` has a field ``read``: one mark of ``MARKS`` or several, with
commas. The style named ``normtutor`` is pybtex's plain style with these words at the end.
"""

from collections import defaultdict
from collections.abc import Iterable
from string import ascii_lowercase
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


def cited_as(entry: Entry) -> str:
    """Say how a work is cited: by its authors, or the first of three or more, and its year."""
    names = [" ".join(one.prelast_names + one.last_names) for one in entry.persons["author"]]
    authors = " and ".join(names) if len(names) < 3 else f"{names[0]} et al."
    return f"{authors} {entry.fields['year']}"


def put_letters(entries: Iterable[Entry]) -> None:
    """Add a, b and so on, in the order of the list, to the years of works that are cited alike."""
    alike = defaultdict(list)
    for entry in Style().sort(entries):
        # What an earlier build has put there comes back with Sphinx's environment.
        entry.fields["year"] = entry.fields["year"].rstrip(ascii_lowercase)
        alike[cited_as(entry)].append(entry)
    for works in alike.values():
        for letter, entry in zip(ascii_lowercase, works, strict=False):
            entry.fields["year"] += letter if len(works) > 1 else ""


def put_letters_of_site(app: Sphinx, *_: object) -> None:
    """Neither sphinxcontrib-bibtex nor pybtex's plain style tells such works apart."""
    put_letters(app.env.get_domain("cite").bibdata.data.entries.values())  # type: ignore[attr-defined]


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("env-before-read-docs", put_letters_of_site)
    register_plugin("pybtex.style.formatting", STYLE, WithWhatWasRead)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
