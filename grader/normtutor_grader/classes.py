"""Grade a folder of submissions: side by side, resumable, with a table and a summary of the class.

Each submission leaves a record and a report in the folder of its chapter as soon as it is graded. A
submission whose record is up to date is not graded again, so an interrupted run goes on where it
stopped, and a late submission costs only its own time.
"""

import contextlib
import hashlib
import json
import re
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import joblib
from tqdm import tqdm

from normtutor import __version__
from normtutor.grading.judging import NOT_TRIED, printable
from normtutor.grading.notebook import personal, points
from normtutor.grading.tasks import tasks_of
from normtutor_grader import wall
from normtutor_grader.roster import (
    Student,
    collected,
    export,
    no_formula,
    read,
    rows_of,
    write_table,
)
from normtutor_grader.sandbox import Limits
from normtutor_grader.submission import (
    Grade,
    Unreadable,
    answers,
    as_refusal,
    as_text,
    chapter_of,
    grade,
    is_file,
    nothing,
    tasks_for,
)

# What became of a submission, and the exit code of a run in which that is the worst.
STATES = {"graded": 0, "missing": 0, "unreadable": 3, "stopped": 4, "failed": 5}
NO_POINTS = ("missing", "unreadable", "failed")  # until a person gives some
RESULTS = ("file", "state", "seed", "tasks", "texts", "report")  # of a record, while they stand
KEPT = "the earlier grade stands: "
HEAD = ("identifier", "name", "file", "state", "note", "seed")  # of grades.csv
CLASS = "class.list"  # in which order the students stand in the tables
BY_HAND = "by_hand.csv"
COLUMNS = ("identifier", "task", "points", "of", "comment", "note", "text")  # of BY_HAND

ANEW = "handed in anew: clear the points to read the new text, or to take the program's points"
UNKNOWN = "it counts nowhere: there is no such student or task"

Given = dict[tuple[str, str], dict[str, str]]  # rows of BY_HAND by identifier and task


class Settings(NamedTuple):
    """How all submissions of a class are graded."""

    chapter: str
    checks: Path | None = None
    variant: Path | None = None
    limits: Limits = Limits()
    personal: str = ""  # the column of the list from which each student's numbers follow
    walled: bool = True


def chosen(student: Student, chapter: str) -> Path:
    """The one notebook of a student that counts.

    Raises
    ------
    Unreadable
        If there is none, or more than one.
    """
    paths = student.notebooks
    begin = [path for path in paths if path.name.startswith(chapter)]
    paths = begin or [path for path in paths if path.stem.endswith(chapter)] or paths
    if 1 < len(paths) < 10:  # what is in them decides
        paths = [path for path in paths if answers(path, tasks_of(chapter))] or paths
    if len(paths) > 1:
        names = ", ".join(printable(path.name) for path in paths)
        words = f"there are {len(paths)} notebooks, and it is not clear which one counts: {names}"
        more = "" if begin else ", or one whose name begins with its chapter"
        raise Unreadable(f"{words}. Hand in one{more}")
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
    path, *_ = [*student.files, Path(student.identifier)]
    tasks, hidden = tasks_for(settings.chapter, settings.checks, settings.variant)
    state, earlier = "graded", {}
    try:
        if died:
            raise died
        path = chosen(student, settings.chapter)
        if settings.personal:
            own = student.row.get(settings.personal, student.identifier)
            tasks = [personal(task, own) for task in tasks]
        how: dict[str, Any] = {"limits": settings.limits, "hidden": hidden}
        found = grade(path, tasks, **how, walled=settings.walled)
        if found.stopped:
            state = "stopped"
    except Unreadable as error:
        found, state = nothing(tasks, str(error)), "unreadable" if student.files else "missing"
        earlier = kept(out, student.key)
    except Exception as error:
        why = f"The grader failed, which says nothing about the answers: {error!r}"
        found, state = nothing(tasks, why), "failed"
    record = as_record(student, path, found, state)
    if earlier.get("state", "missing") not in NO_POINTS:
        record |= {name: earlier[name] for name in RESULTS} | {"note": KEPT + record["note"]}
    if state != "failed":  # else the next run tries again
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
        "note": [*found.stopped, *found.notes, ""][0],
        "seed": found.seed,
        "tasks": {
            r.task.id: {
                "kind": r.task.kind,
                "score": r.score,
                "points": r.task.points,
                "findings": [f._asdict() for f in r.findings],
            }
            for r in found.results
        },
        "texts": found.texts,
        "report": as_refusal(path, *found.notes) if state in NO_POINTS else as_text(path, found),
    }


def kept(out: Path, key: str) -> dict[str, Any]:
    """The record of a student, or nothing."""
    try:
        return json.loads((out / f"{key}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def order_of(out: Path) -> list[str]:
    """In which order the students stand in the tables, by the names of their files."""
    path = out / CLASS
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def only_chapter(students: Sequence[Student]) -> str:
    """The chapter that all notebooks of a folder are of, by their names.

    Raises
    ------
    ValueError
        If they are of several.
    """
    chapters = sorted({chapter_of(path) for student in students for path in student.notebooks})
    if len(chapters) != 1:
        raise ValueError(f"there are notebooks of chapters {', '.join(chapters)}: name one with "
                         "--chapter")  # fmt: skip
    return chapters[0]


def grade_class(
    folder: Path,
    out: Path,
    settings: Settings,
    *,
    jobs: int = 1,
    again: bool = False,
    roster: Path | None = None,
) -> int:
    """Grade a folder, write the results into ``out/CHAPTER``, and return the exit code.

    Everybody who handed something in has a row in the table, and so has everybody in ``roster``.

    Raises
    ------
    ValueError
        If nothing is in the folder, the chapter is unknown, or the list cannot be read.
    NoWall
        If there is no wall here.
    """
    students = collected(folder, read(roster) if roster else (), settings.chapter)
    if not students:
        raise ValueError(f"there is no notebook in {folder}")
    settings = settings._replace(chapter=settings.chapter or only_chapter(students))
    tasks_for(settings.chapter, settings.checks, settings.variant)  # fails now if ever
    if settings.walled:
        wall.tried()
    out = out / settings.chapter
    if not roster and any(kept(out, key).get("row") for key in order_of(out)):
        raise ValueError(f"{out} holds the grades of a list of students: name it with --roster, or "
                         "another folder with --out")  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    by_hand(out, [])  # a table that cannot be read is said before the work
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
                if record["state"] != "graded" or record["note"].startswith(KEPT):
                    bar.write(f"{record['identifier']}: {record['state']}: {record['note'][:200]}")
        except Exception as error:  # a process of joblib's has died: the rest is not lost
            for student in waiting.values():
                record_of(student, settings, out, error)
    keys = [student.key for student in students]
    (out / CLASS).write_text(json.dumps(keys), encoding="utf-8")
    code = write_up(out)
    print(f"The results are in {out}: grades.csv, summary.md, by_hand.csv, a report for each")
    return code


# --- what a person gives --------------------------------------------------------------------------


def by_hand(out: Path, records: Sequence[dict[str, Any]]) -> Given:
    """Read what a person has entered, add a row for each explanation that is new, and write it.

    A row that has points or a comment stays as it is. Points in the row of another task take the
    place of the program's.

    Raises
    ------
    ValueError
        If points are no number from 0 to what the task is worth.
    """
    path = out / BY_HAND
    before = rows_of(path) if path.exists() else []
    if any(not row.get("identifier") or not row.get("task") for row in before):
        raise ValueError(f"{path.name} has a row without an identifier or a task")
    rows: Given = {}
    for row in [{**dict.fromkeys(COLUMNS, ""), **row} for row in before]:
        # A spreadsheet makes 2.7 of 02.7.
        id = re.sub(r"^(\d)[.,](?=\d)", r"0\1.", row["task"].strip())
        row["note"] = UNKNOWN if typed(row) else ""
        same = rows.setdefault((row["identifier"].strip().lstrip("'"), id), row)
        if same is not row and typed(same) and typed(row):
            raise ValueError(f"{path.name} has two rows for {row['identifier']}, {id}")
        same |= row if typed(row) else {}
    for record in records:
        for id in record["texts"]:
            rows.setdefault((record["identifier"], id), dict.fromkeys(COLUMNS, ""))
        for id, task in record["tasks"].items():
            if (record["identifier"], id) in rows:
                row, who = rows[record["identifier"], id], record["identifier"]
                row |= {"identifier": no_formula(who), "task": id, "of": f"{task['points']:g}"}
                value, most = row["points"].strip().replace(",", "."), task["points"]
                if value and not (re.fullmatch(r"\d*\.?\d+", value) and float(value) <= most):
                    words = f"{value} is not a number from 0 to {most:g}"
                    raise ValueError(f"{path.name}: {who}, {id}: {words}")
                row["note"], text = "", f"the program gives {task['score']:g}"
                if task["kind"] == "explain":
                    text = no_formula(record["texts"].get(id, row["text"]).strip())
                if not value or not (row["text"] or id in record["texts"]):
                    row["text"] = text
                elif row["text"].split() != text.split():  # a spreadsheet ends lines in its way
                    row["note"] = ANEW
    columns = list(dict.fromkeys([*COLUMNS, *(name for row in before for name in row)]))
    if records:
        cells = ([row.get(c, "") for c in columns] for row in rows.values())
        write_table(path, columns, cells, "utf-8-sig")  # or Excel reads it in another encoding
    return rows


def typed(row: dict[str, str]) -> bool:
    """Whether a person has entered something in a row."""
    return bool(row["points"].strip() or row["comment"].strip())


def entered(given: Given, record: dict[str, Any], id: str) -> float | None:
    """The points that a person has given for a task."""
    value = given.get((record["identifier"], id), {}).get("points", "").strip()
    return float(value.replace(",", ".")) if value else None


def score_of(record: dict[str, Any], id: str, given: Given) -> float | str:
    """The points of one task; empty while nobody, or no program, has read it."""
    task, value = record["tasks"].get(id), entered(given, record, id)
    if task is None or value is not None:
        return "" if value is None else value
    return "" if task["kind"] == "explain" or record["state"] in NO_POINTS else task["score"]


def total_of(record: dict[str, Any], given: Given) -> float | str:
    """All points that there are so far; none where nothing could be graded."""
    scores = [score for id in record["tasks"] if (score := score_of(record, id, given)) != ""]
    return round(sum(map(float, scores)), 2) if scores else ""


def remarks(record: dict[str, Any], given: Given) -> Iterator[str]:
    """What the report says about what a person has entered."""
    for id, task in record["tasks"].items():
        value, row = entered(given, record, id), given.get((record["identifier"], id), {})
        comment = printable(row.get("comment", "").strip())
        if value is not None:
            worth = points(value, task["points"])
            yield f"{id}, read by a person: {worth}{'. ' + comment if comment else ''}"
        elif comment:
            yield f"{id}: {comment}"
    waits = any(score_of(record, id, given) == "" for id in record["tasks"])
    if not waits:
        whole = sum(task["points"] for task in record["tasks"].values())
        yield f"Together: {points(float(total_of(record, given)), whole)}"


# --- what a class has done ------------------------------------------------------------------------


def write_up(out: Path) -> int:
    """Write reports, tables and summary from the records, with what a person has entered."""
    keys = order_of(out)
    records = [kept(out, key) for key in keys]
    if not all(records):
        lost = keys[records.index({})]
        raise ValueError(f"{lost}.json is missing or broken in {out}: grade the class again")
    if not records:
        raise ValueError(f"there are no graded submissions in {out}; it has the name of a chapter")
    given = by_hand(out, records)
    totals = {r["identifier"]: total_of(r, given) for r in records}
    for record in records:
        text = record["report"] + "".join(f"{line}\n" for line in remarks(record, given))
        (out / f"{record['key']}.txt").write_text(text, encoding="utf-8")
    ids = sorted({id for record in records for id in record["tasks"]})
    rows = []
    for record in records:
        cells = [score_of(record, id, given) for id in ids]
        whole = sum(task["points"] for task in record["tasks"].values())
        head, total = [record[name] for name in HEAD], totals[record["identifier"]]
        complete = "no" if "" in cells else "yes"
        rows.append([*map(no_formula, head), *cells, total, whole, complete])
    write_table(out / "grades.csv", [*HEAD, *ids, "total", "of", "complete"], rows)
    export(out, out.name, records, totals)
    for (who, id), row in given.items():
        if row["note"]:
            print(f"{BY_HAND}: {who}, {id}: {row['note']}", file=sys.stderr)
    lines = summary(records, totals, given)
    (out / "summary.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return max(STATES[record["state"]] for record in records)


def summary(
    records: Sequence[dict[str, Any]], totals: dict[str, Any], given: Given
) -> Iterator[str]:
    """The class on a page: who is missing something, which checks failed, and with which words."""
    states = Counter(record["state"] for record in records)
    yield f"# {len(records)} students\n"
    yield ", ".join(f"{n} {state}" for state, n in states.items()) + ".\n"
    came = [r for r in records if r["state"] not in NO_POINTS]
    values = sorted(float(totals[r["identifier"]]) for r in came if totals[r["identifier"]] != "")
    if values:
        yield (
            f"Points: median {statistics.median(values):g}, mean {statistics.mean(values):.2f}, "
            f"from {values[0]:g} to {values[-1]:g}.\n"
        )
    for record in records:
        if record["state"] != "graded" or record["note"]:
            who = f"{record['identifier']} ({record['file'] or record['name']})"
            yield f"- {in_markdown(who)}: {record['state']}: {in_markdown(record['note'])}"
    for (identifier, id), row in given.items():
        if row["note"]:
            yield f"- {in_markdown(identifier)}, {id}: {row['note']}"
    others = [r["identifier"] for r in records if not r["row"]]
    if 0 < len(others) < len(records):
        yield f"\nNot on the list: {in_markdown(', '.join(others))}."
    yield "\n| task | check | failed | most often because |\n| --- | --- | --- | --- |"
    words: dict[tuple[str, str], Counter] = {}
    asked: Counter = Counter()
    for record in came:
        for id, task in record["tasks"].items():
            for found in task["findings"]:
                asked[id, found["check"]] += 1
                if not found["passed"] and found["words"] != NOT_TRIED:
                    reason = re.sub(r"\s+", " ", found["words"].split(" (in ")[0])
                    reason = reason if found["known"] else re.sub(r"\d[\d.,e+-]*", "…", reason)
                    words.setdefault((id, found["check"]), Counter())[reason] += 1
    for (id, check), reasons in sorted(words.items(), key=lambda item: -item[1].total()):
        most = "; ".join(f"{reason[:160]} ({n})" for reason, n in reasons.most_common(3))
        yield f"| {id} | {check} | {reasons.total()} of {asked[id, check]} | {in_markdown(most)} |"


def in_markdown(text: str) -> str:
    """A submission's words in one line, without what would be a tag, a link or a new cell."""
    line = re.sub(r"\s+", " ", text)
    return re.sub(r"([\\|<\[\]`])", r"\\\1", line)
