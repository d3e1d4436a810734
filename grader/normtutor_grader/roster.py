"""Who is in a class: a list of students, what each of them handed in, and what platforms import.

The list is a table with the columns identifier, name and file, or what a platform exports: Canvas's
gradebook, or the grading worksheet of an assignment in Moodle.
"""

import csv
import hashlib
import html
import io
import re
import unicodedata
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from normtutor.grading.judging import printable
from normtutor.grading.tasks import PROJECT

# What the columns are called, here and by the two platforms.
IDENTIFIER, NAME, FILE = ("identifier", "id"), ("name", "full name", "student"), ("file",)
CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
MOODLE = ("Identifier", "Full name", "Grade", "Last modified (grade)", "Feedback comments")


@dataclass(frozen=True, eq=False)
class Student:
    """One student of a class, and the files or folders that were handed in."""

    identifier: str
    name: str = ""
    entries: tuple[Path, ...] = ()
    row: dict[str, str] = field(default_factory=dict)  # of the list; empty for others

    @property
    def key(self) -> str:
        """A name for this student's files, in which no two identifiers meet."""
        plain = re.sub(r"[^\w.@+ -]", "_", self.identifier).encode()[:120].decode(errors="ignore")
        if plain == self.identifier and not plain.startswith("."):
            return plain
        return f"{plain.lstrip('.')}-{hashed(self.identifier)}"

    @property
    def feedback(self) -> str:
        """What the report is called in a zip: platforms know a student by what they sent us."""
        for entry in self.entries:
            if printable(entry.name) == entry.name and not set(entry.name) & set('\\:*?"<>|'):
                return entry.name + ("/report.txt" if entry.is_dir() else ".txt")
        return f"{self.key}.txt"

    @property
    def notebooks(self) -> list[Path]:
        """The notebooks that were handed in, and the files of a project."""
        endings = (".ipynb", f"{PROJECT}.py")
        return [path for path in self.files if path.name.endswith(endings)]

    @property
    def files(self) -> list[Path]:
        """All files that were handed in, without those that programs keep for themselves."""
        found: list[Path] = []
        for entry in self.entries:
            below = [entry] if entry.is_symlink() or not entry.is_dir() else entry.rglob("*")
            for path in sorted(below):
                inside = path.relative_to(entry.parent).parts
                hidden = any(part.startswith((".", "__MACOSX")) for part in inside)
                if not hidden and (path.suffix == ".ipynb" or not path.is_dir()):
                    found.append(path)
        return found


def hashed(text: str) -> str:
    """Eight digits that stand for a text."""
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:8]


def plainly(text: str) -> str:
    """A text as it is compared."""
    return unicodedata.normalize("NFC", text).casefold()


# --- tables ---------------------------------------------------------------------------------------


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a table that some program has written: commas, semicolons or tabs.

    Raises
    ------
    ValueError
        If there is no such file, or it cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252", errors="replace")  # so Excel saves a table on Windows
    first = text.partition("\n")[0]
    table = csv.DictReader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count))
    try:
        rows = list(table)
    except csv.Error as error:
        raise ValueError(f"{path.name} is no table: {error}.") from error
    return [{str(k): str(v or "") for k, v in row.items() if k is not None} for row in rows]


def no_formula(cell: Any) -> Any:
    """A cell of a table that no spreadsheet program takes for a formula."""
    if not isinstance(cell, str):
        return cell
    # Some programs begin a cell anew at a semicolon, a tab or the end of a line, and drop a quote.
    return re.sub(r"(^(?=[\t\r])|(?:^|[;\t\r\n])(?=\"*[=+@-]))", r"\1'", cell)


def write_table(
    path: Path, columns: Sequence[str], rows: Iterable[Iterable[Any]], encoding: str = "utf-8"
) -> None:
    """Write a table: whole, or not at all."""
    unfinished = path.with_suffix(".part")
    with open(unfinished, "w", newline="", encoding=encoding) as file:
        table = csv.writer(file)
        table.writerow(columns)
        table.writerows(rows)
    unfinished.replace(path)


def read(path: Path) -> list[Student]:
    """Read a list of students.

    Raises
    ------
    ValueError
        If it has no column of identifiers, or names somebody twice.
    """
    found: dict[str, Student] = {}
    for row in rows_of(path):
        columns = {plainly(name).strip(): value for name, value in row.items()}

        def value(names: Sequence[str], columns: dict[str, str] = columns) -> str:
            return next((columns[name].strip() for name in names if name in columns), "")

        if not set(IDENTIFIER) & columns.keys():
            raise ValueError(f"{path} has no column 'identifier'; its columns: {', '.join(row)}.")
        identifier = printable(value(IDENTIFIER))
        if not identifier:  # Canvas's row of possible points
            continue
        if identifier in found:
            raise ValueError(f"{path} names {identifier} twice.")
        entries = (Path(value(FILE)),) if value(FILE) else ()  # in the folder of what came in
        found[identifier] = Student(identifier, printable(value(NAME)), entries, row)
    return list(found.values())


# --- what was handed in ---------------------------------------------------------------------------


def place_of(student: Student, entry: Path) -> int:
    """Where a student's identifier stands in the name of a file or folder; −1 if it does not.

    Canvas calls a file ``name_identifier_number_title.ipynb``, Moodle a folder
    ``Full Name_identifier_assignsubmission_file``; its worksheet says "Participant identifier".
    """
    identifier = plainly(student.identifier).removeprefix("participant ")
    name, moodle, _ = plainly(entry.stem).partition("_assignsubmission_")
    if moodle:  # a full name is what somebody chose
        return len(name) if name.endswith(f"_{identifier}") else -1
    return f"_{plainly(entry.stem)}_".find(f"_{identifier}_")


def collected(folder: Path, listed: Sequence[Student] = (), chapter: str = "") -> list[Student]:
    """Everybody on the list and everybody who handed something in, with what they handed in.

    Of a student's files those count in whose names the identifier stands first: what a classmate
    has put behind it takes nobody's place. What begins with the number of another chapter counts
    where there is nothing else.
    """
    found = {s.identifier: [folder / e for e in s.entries] for s in listed}
    named = {folder / e.parts[0] for s in listed for e in s.entries}
    placed: dict[str, list[tuple[tuple[bool, int], Path]]] = {s.identifier: [] for s in listed}
    others: dict[str, Student] = {}
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith((".", "__MACOSX")) or entry in named:
            continue
        places = {s: place_of(s, entry) for s in listed}
        candidates = [s for s in listed if places[s] >= 0]
        if candidates:
            student = min(candidates, key=lambda s: (places[s], -len(s.identifier)))
            if not student.entries:  # otherwise the list says which file counts
                elsewhere = bool(chapter and re.match(rf"(?!{chapter})0\d[ _-]", entry.name))
                placed[student.identifier].append(((elsewhere, places[student]), entry))
        elif entry.is_dir() or entry.suffix in (".ipynb", ".py"):
            raw = entry.name if entry.is_dir() else entry.stem
            identifier = printable(raw)
            if identifier != raw:  # nobody sees how it differs from another name
                identifier += f" {hashed(raw)}"
            before = others.get(identifier, Student(identifier))
            others[identifier] = replace(before, entries=(*before.entries, entry))
    for identifier, entries in placed.items():
        first = min((place for place, _ in entries), default=None)
        found[identifier] += [entry for place, entry in entries if place == first]
    there = {i: tuple(e for e in es if e.exists() or e.is_symlink()) for i, es in found.items()}
    return [replace(s, entries=there[s.identifier]) for s in listed] + list(others.values())


# --- what platforms import ------------------------------------------------------------------------


def export(
    out: Path, chapter: str, records: Sequence[dict[str, Any]], totals: dict[str, Any]
) -> None:
    """Write points as Canvas and Moodle import them, and every report into one zip.

    Canvas takes ``canvas.csv`` under *Grades, Import*, and the zip as uploaded submissions of the
    assignment; Moodle takes ``moodle.csv`` as the assignment's grading worksheet or as a table
    of grades, and the zip as feedback files. A student's own row of the list is kept as it was.
    Work that is missing or could not be read has no points there: what it counts is yours to say.
    """
    of = max(sum(task["points"] for task in record["tasks"].values()) for record in records)
    whole = ["    Points Possible", *[""] * (len(CANVAS) - 1), f"{of:g}"]
    canvas, moodle = [whole], []
    columns = next((list(record["row"]) for record in records if record["row"]), [])
    moodle_columns = columns if {"Identifier", "Grade"} <= set(columns) else list(MOODLE)
    for record in records:
        row, total = record["row"], totals[record["identifier"]]
        identifier, name = no_formula(record["identifier"]), no_formula(record["name"])
        own = {"Student": name or identifier, "SIS User ID": identifier, "SIS Login ID": identifier}
        if "ID" in row:
            own = row
        canvas.append([*(own.get(column, "") for column in CANVAS), total])
        own = {"Identifier": identifier, "Full name": name, **row, "Grade": total}
        why = "" if record["state"] == "graded" else html.escape(record["note"], quote=False)
        own["Feedback comments"] = no_formula(why)  # which Moodle shows as HTML
        moodle.append([own.get(column, "") for column in moodle_columns])
    write_table(out / "canvas.csv", [*CANVAS, f"Coursework {chapter}"], canvas)
    write_table(out / "moodle.csv", moodle_columns, moodle)
    with zipfile.ZipFile(out / "feedback.zip", "w", zipfile.ZIP_DEFLATED) as file:
        for record in records:
            file.write(out / f"{record['key']}.txt", record["feedback"])
