"""Grade a folder of submissions: side by side, resumable, with a table and a summary of the class.

Each submission leaves a record and a report in the results' folder as soon as it is graded. A
submission whose record is up to date is not graded again, so an interrupted run goes on where it
stopped, and a late submission costs only its own time.
"""

import contextlib
import csv
import hashlib
import json
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from normtutor import __version__
from normtutor.grading.judging import NOT_TRIED, Task, printable
from normtutor.grading.notebook import personal, points
from normtutor.grading.roster import Student, collected, export, no_formula, read, write_table
from normtutor.grading.sandbox import Limits
from normtutor.grading.submission import (
    Grade,
    Unreadable,
    as_failure,
    as_text,
    chapter_of,
    grade,
    is_file,
    nothing,
    tasks_for,
)
from normtutor.grading.tasks import PROJECT

# What became of a submission, and the exit code of a run in which that is the worst.
STATES = {"graded": 0, "missing": 0, "unreadable": 3, "stopped": 4, "failed": 5}
HEAD = ("identifier", "name", "file", "state", "note")  # of grades.csv
CLASS = "class.list"  # in which order the students stand in the tables
COLUMNS = ("identifier", "task", "points", "of", "comment", "text")  # of explanations.csv


class Settings(NamedTuple):
    """How all submissions of a class are graded."""

    chapter: str = ""  # of the file's name where empty
    checks: Path | None = None
    variant: Path | None = None
    limits: Limits = Limits()
    personal: str = ""  # the column of the list from which each student's numbers follow


def chosen(student: Student, chapter: str) -> Path:
    """The one notebook of a student that counts.

    Raises
    ------
    Unreadable
        If there is none, or more than one.
    """
    paths = student.notebooks
    named = [path for path in paths if path.name.startswith(chapter) or path.stem.endswith(chapter)]
    paths = (chapter and named) or paths
    if len(paths) > 1:
        names = ", ".join(printable(path.name) for path in paths)
        words = f"there are {len(paths)} notebooks, and it is not clear which one counts: {names}"
        raise Unreadable(f"{words}. Hand in one, or one whose name begins with its chapter")
    if not paths and student.files:
        endings = {printable(path.suffix) for path in student.files}
        kinds = sorted(ending or "file without an ending" for ending in endings)
        raise Unreadable(f"a {' and a '.join(kinds[:3])} only: hand in the notebook")
    if not paths:
        raise Unreadable("nothing handed in")
    return paths[0]


def fingerprint(student: Student, settings: Settings) -> str:
    """What a grade depends on: the files, the checks, the limits, this package's version."""
    known = (student.identifier, student.name, student.row, settings, __version__)
    content = hashlib.sha256(repr(known).encode(errors="surrogateescape"))
    for file in (*student.files, settings.checks, settings.variant):
        content.update(f"{file}".encode(errors="surrogateescape"))
        with contextlib.suppress(OSError):
            if file is not None and is_file(file):
                with open(file, "rb") as stream:
                    content.update(hashlib.file_digest(stream, "sha256").digest())
    return content.hexdigest()


def record_of(
    student: Student, settings: Settings, out: Path, died: Exception | None = None
) -> dict[str, Any]:
    """Grade one student's notebook and write its record; nothing that it holds stops the class.

    ``died`` is what ended the process that should have done so.
    """
    (path, *_), tasks, hidden = (
        [*student.files, Path(student.identifier)],
        list[Task](),
        list[str](),
    )
    state, failure = "graded", ""
    try:
        if settings.chapter:  # a row of zeros needs the tasks, too
            tasks, hidden = tasks_for(settings.chapter, settings.checks, settings.variant)
        if died:
            raise died
        path = chosen(student, settings.chapter)
        if not settings.chapter:
            tasks, hidden = tasks_for(chapter_of(path), settings.checks, settings.variant)
        if settings.personal:
            own = student.row.get(settings.personal, student.identifier)
            tasks = [personal(task, own) for task in tasks]
        found = grade(path, tasks, limits=settings.limits, hidden=hidden)
        if found.stopped:
            state = "stopped"
    except ValueError as error:
        found, state = nothing(tasks, str(error)), "unreadable" if student.files else "missing"
    except Exception as error:
        found, state = nothing(tasks, f"the grader failed: {error!r}"), "failed"
        failure = as_failure(path, error)
    record = as_record(student, path, found, state)
    if failure:  # without a fingerprint: the next run tries again
        record["report"] = failure
    else:
        record["fingerprint"] = fingerprint(student, settings)
    # Whole or not at all: who is interrupted while writing would grade it again.
    unfinished = out / f"{student.key}.part"
    unfinished.write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(out / f"{student.key}.json")
    return record


def as_record(student: Student, path: Path, found: Grade, state: str) -> dict[str, Any]:
    """All that is kept of a graded submission."""
    return {
        "identifier": student.identifier,
        "name": student.name,
        "row": student.row,
        "key": student.key,
        "feedback": student.feedback,
        "file": printable(path.name) if student.files else "",
        "state": state,
        "note": [*found.stopped, *found.notes, ""][0] if state != "graded" else "",
        "score": found.score,
        "possible": found.possible,
        "seconds": found.seconds,
        "no wall": found.walled.missing if found.walled else "",
        "tasks": {
            r.task.id: {
                "title": r.task.title,
                "kind": r.task.kind,
                "score": r.score,
                "points": r.task.points,
                "hidden": r.task.id in found.hidden,
                "findings": [f._asdict() for f in r.findings],
            }
            for r in found.results
        },
        "texts": found.texts,
        "report": as_text(path, found),
    }


def kept(out: Path, key: str) -> dict[str, Any]:
    """The record of a student, or nothing."""
    try:
        return json.loads((out / f"{key}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def grade_class(
    folder: Path,
    out: Path,
    settings: Settings,
    *,
    jobs: int = 1,
    again: bool = False,
    roster: Path | None = None,
) -> int:
    """Grade a folder, write the results into another, and return the exit code.

    Everybody who handed something in has a row in the table, and so has everybody in ``roster``.

    Raises
    ------
    ValueError
        If nothing is in the folder, or the list cannot be read.
    """
    import joblib
    from tqdm import tqdm

    students = collected(folder, read(roster) if roster else ())
    if not students:
        raise ValueError(f"there is no notebook in {folder}")
    out.mkdir(parents=True, exist_ok=True)
    names = [path for student in students for path in student.notebooks]
    chapters = {PROJECT if path.stem.endswith(PROJECT) else path.name[:2] for path in names}
    if not settings.chapter and len(chapters) == 1:
        settings = settings._replace(chapter=chapter_of(Path(*chapters)))
    left = [
        s for s in students
        if again or kept(out, s.key).get("fingerprint") != fingerprint(s, settings)
    ]  # fmt: skip
    run = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
    todo = (joblib.delayed(record_of)(student, settings, out) for student in left)
    waiting = {student.identifier: student for student in left}
    with tqdm(total=len(students), initial=len(students) - len(left), unit="notebook") as bar:
        try:
            for record in run(todo):
                bar.update()
                del waiting[record["identifier"]]
                if record["state"] != "graded":
                    bar.write(f"{record['identifier']}: {record['state']}: {record['note'][:200]}")
        except Exception as error:  # a process of joblib's has died: the rest is not lost
            for student in waiting.values():
                record_of(student, settings, out, error)
    keys = [student.key for student in students]
    (out / CLASS).write_text(json.dumps(keys), encoding="utf-8")
    return write_up(out)


# --- what a class has done ------------------------------------------------------------------------


def write_up(out: Path) -> int:
    """Write reports, tables and summary from the records, with the points for explanations."""
    if not (out / CLASS).exists():
        raise ValueError(f"there are no graded submissions in {out}")
    records = [kept(out, key) for key in json.loads((out / CLASS).read_text(encoding="utf-8"))]
    given = explanations(out, records)
    totals = {r["identifier"]: total_of(r, given) for r in records}
    for record in records:
        text = record["report"] + "".join(f"{line}\n" for line in entered(record, given))
        (out / f"{record['key']}.txt").write_text(text, encoding="utf-8")
    ids = sorted({id for record in records for id in record["tasks"]})
    rows = []
    for record in records:
        cells = [score_of(record, id, given) for id in ids]
        whole = sum(task["points"] for task in record["tasks"].values())
        waits = any(score_of(record, id, given) == "" for id in record["tasks"])
        head, total = [record[name] for name in HEAD], totals[record["identifier"]]
        rows.append([*map(no_formula, head), *cells, total, whole, "no" if waits else "yes"])
    write_table(out / "grades.csv", [*HEAD, *ids, "total", "of", "complete"], rows)
    export(out, records, totals)
    (out / "summary.md").write_text("\n".join(summary(records, totals)) + "\n", encoding="utf-8")
    return max(STATES[record["state"]] for record in records)


def score_of(record: dict[str, Any], id: str, given: dict[tuple[str, str], dict]) -> Any:
    """The points of one task; empty while nobody, or no program, has read it."""
    task = record["tasks"].get(id)
    if task is None or record["state"] == "failed":
        return ""
    if task["kind"] != "explain":
        return task["score"]
    return given[record["identifier"], id]["points"]


def total_of(record: dict[str, Any], given: dict[tuple[str, str], dict]) -> float | str:
    """All points that there are so far; none where the grader failed."""
    if record["state"] == "failed":
        return ""
    return round(sum(float(score_of(record, id, given) or 0) for id in record["tasks"]), 2)


def entered(record: dict[str, Any], given: dict[tuple[str, str], dict]) -> Iterator[str]:
    """What the report says about explanations that somebody has read."""
    asked = [id for id, task in record["tasks"].items() if task["kind"] == "explain"]
    rows = [given[record["identifier"], id] for id in asked if record["state"] != "failed"]
    for row in rows:
        if row["points"] != "":
            worth = points(float(row["points"]), float(row["of"]))
            yield f"{row['task']}, read: {worth}{'. ' + row['comment'] if row['comment'] else ''}"
    if rows and all(row["points"] != "" for row in rows):
        whole = sum(task["points"] for task in record["tasks"].values())
        yield f"Together: {points(float(total_of(record, given)), whole)}"


def explanations(out: Path, records: Sequence[dict[str, Any]]) -> dict[tuple[str, str], dict]:
    """Read the points that were entered in explanations.csv, and write it with what is new."""
    path, before = out / "explanations.csv", {}
    if path.exists():
        with open(path, newline="", encoding="utf-8-sig") as file:
            before = {(row["identifier"], row["task"]): row for row in csv.DictReader(file)}
    rows = {}
    for record in records:
        who = no_formula(record["identifier"])
        if record["state"] == "failed":  # what was entered before is kept for the next run
            for key in [key for key in before if key[0] == who]:
                rows[key] = {column: before[key].get(column) or "" for column in COLUMNS}
            continue
        for id, written in record["texts"].items():
            text = no_formula(written.strip())
            most = record["tasks"][id]["points"]
            old = before.get((who, id), {})
            value = (old.get("points") or "").strip().replace(",", ".")
            comment = old.get("comment") or ""
            if value and old.get("text", "").strip() != text:
                comment = f"the text has changed; it had {value} points. {comment}".strip()
                value = ""
            if value and not (value.replace(".", "", 1).isdigit() and float(value) <= most):
                words = f"{value} is not a number from 0 to {most:g}"
                raise ValueError(f"{path.name}: {record['identifier']}, {id}: {words}")
            row = (who, id, value, f"{most:g}", comment, text)
            rows[record["identifier"], id] = dict(zip(COLUMNS, row, strict=True))
        for id, task in record["tasks"].items():  # of a file that could not be read
            if task["kind"] == "explain" and id not in record["texts"]:
                row = (who, id, "0", f"{task['points']:g}", "", "")
                rows[record["identifier"], id] = dict(zip(COLUMNS, row, strict=True))
    write_table(path, COLUMNS, [row.values() for row in rows.values()])
    return rows


def summary(records: Sequence[dict[str, Any]], totals: dict[str, Any]) -> Iterator[str]:
    """The class on a page: who is missing something, which checks failed, and with which words."""
    states = Counter(record["state"] for record in records)
    yield f"# {len(records)} students\n"
    yield ", ".join(f"{n} {state}" for state, n in states.items()) + ".\n"
    came = [r for r in records if r["state"] not in ("failed", "missing")]
    values = sorted(totals[r["identifier"]] for r in came)
    if values:
        yield (
            f"Points: median {statistics.median(values):g}, mean {statistics.mean(values):.2f}, "
            f"from {values[0]:g} to {values[-1]:g}.\n"
        )
    if any(record["no wall"] for record in records):
        yield "**Some submissions ran without a wall of the kernel;** their reports say why.\n"
    for record in records:
        if record["state"] != "graded":
            who = f"{record['identifier']} ({record['file'] or record['name']})"
            yield f"- {in_markdown(who)}: {record['state']}: {in_markdown(record['note'])}"
    others = [r["identifier"] for r in records if not r["row"]]
    if 0 < len(others) < len(records):
        yield f"\nNot on the list: {in_markdown(', '.join(others))}."
    yield "\n| task | check | failed | most often because |\n| --- | --- | --- | --- |"
    words: dict[tuple[str, str], Counter] = {}
    asked: Counter = Counter()
    for record in came:
        if record["state"] == "unreadable":
            continue
        for id, task in record["tasks"].items():
            for found in task["findings"]:
                asked[id, found["check"]] += 1
                if not found["passed"] and found["words"] != NOT_TRIED:
                    reason = re.sub(r"\s+", " ", found["words"].split(" (in ")[0])
                    reason = reason if found["known"] else re.sub(r"\d[\d.,e+-]*", "…", reason)
                    words.setdefault((id, found["check"]), Counter())[reason] += 1
    for (id, check), reasons in sorted(words.items(), key=lambda item: -item[1].total()):
        most = "; ".join(f"{reason[:160]} ({n})" for reason, n in reasons.most_common(3))
        most = in_markdown(most)
        yield f"| {id} | {check} | {reasons.total()} of {asked[id, check]} | {most} |"


def in_markdown(text: str) -> str:
    """A submission's words in one line, without what would be a tag, a link or a new cell."""
    line = re.sub(r"\s+", " ", text)
    return re.sub(r"([\\|<\[\]`])", r"\\\1", line)
