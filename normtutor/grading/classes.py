"""Grade a folder of submissions: side by side, resumable, with a table and a summary of the class.

Each submission leaves a record and a report in the results' folder as soon as it is graded. A
submission whose record is up to date is not graded again, so an interrupted run goes on where it
stopped, and a late submission costs only its own time.
"""

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
from normtutor.grading.notebook import points
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

# What became of a submission, and the exit code of a run in which that is the worst.
STATES = {"graded": 0, "unreadable": 3, "stopped": 4, "failed": 5}
COLUMNS = ("student", "task", "points", "of", "comment", "text")  # of explanations.csv


class Settings(NamedTuple):
    """How all submissions of a class are graded."""

    chapter: str = ""  # of the file's name where empty
    checks: Path | None = None
    variant: Path | None = None
    limits: Limits = Limits()
    seed: int | None = None


def submissions(folder: Path, chapter: str = "") -> dict[str, list[Path]]:
    """The notebooks of each student: a file by its own name, a folder by that of the student."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*.ipynb")):
        parts = path.relative_to(folder).parts
        if any(part.startswith(".") for part in parts):  # checkpoints of Jupyter's
            continue
        student = printable(path.stem if len(parts) == 1 else parts[0])
        found.setdefault(student, []).append(path)
    for student, paths in found.items():
        named = [path for path in paths if chapter and path.name.startswith(chapter)]
        found[student] = named or paths
    return found


def fingerprint(path: Path, settings: Settings) -> str:
    """What a grade depends on: the notebook, the checks, the limits, this package's version."""
    content = hashlib.sha256(repr((settings, __version__)).encode())
    for file in (path, settings.checks, settings.variant):
        if file is None or not is_file(file):
            content.update(b"\0")
            continue
        with open(file, "rb") as stream:
            content.update(hashlib.file_digest(stream, "sha256").digest())
    return content.hexdigest()


def record_of(student: str, paths: Sequence[Path], settings: Settings, out: Path) -> dict[str, Any]:
    """Grade one student's notebook and write its record; nothing that it holds stops the class."""
    path, tasks, hidden = paths[0], list[Task](), list[str]()
    state, failure = "graded", ""
    try:
        chapter = settings.chapter or chapter_of(path)
        tasks, hidden = tasks_for(chapter, settings.checks, settings.variant)
        if len(paths) > 1:
            names = ", ".join(printable(p.name) for p in paths)
            raise Unreadable(
                f"there are {len(paths)} notebooks, and it is not clear which: {names}"
            )
        found = grade(path, tasks, limits=settings.limits, hidden=hidden, seed=settings.seed)
        if found.stopped:
            state = "stopped"
    except ValueError as error:
        found, state = nothing(tasks, str(error)), "unreadable"
    except Exception as error:
        found, state = nothing(tasks, f"the grader failed: {error!r}"), "failed"
        failure = as_failure(path, error)
    record = as_record(student, path, found, state)
    if failure:  # without a fingerprint: the next run tries again
        record["report"] = failure
    else:
        record["fingerprint"] = fingerprint(path, settings)
    # Whole or not at all: who is interrupted while writing would grade it again.
    unfinished = out / f"{student}.part"
    unfinished.write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(out / f"{student}.json")
    return record


def as_record(student: str, path: Path, found: Grade, state: str) -> dict[str, Any]:
    """All that is kept of a graded submission."""
    return {
        "student": student,
        "file": printable(path.name),
        "state": state,
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
        "notes": found.notes,
        "stopped": found.stopped,
        "report": as_text(path, found),
    }


def kept(out: Path, student: str) -> dict[str, Any]:
    """The record of a student, or nothing."""
    try:
        return json.loads((out / f"{student}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def grade_class(
    folder: Path, out: Path, settings: Settings, *, jobs: int = 1, again: bool = False
) -> int:
    """Grade a folder, write the results into another, and return the exit code.

    Raises
    ------
    ValueError
        If there is no notebook in the folder.
    """
    import joblib
    from tqdm import tqdm

    found = submissions(folder, settings.chapter)
    if not found:
        raise ValueError(f"there is no notebook in {folder}")
    out.mkdir(parents=True, exist_ok=True)
    left = {
        student: paths
        for student, paths in found.items()
        if again or kept(out, student).get("fingerprint") != fingerprint(paths[0], settings)
        or len(paths) > 1
    }  # fmt: skip
    run = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
    todo = (joblib.delayed(record_of)(s, paths, settings, out) for s, paths in left.items())
    with tqdm(total=len(found), initial=len(found) - len(left), unit="notebook") as bar:
        for record in run(todo):
            bar.update()
            if record["state"] != "graded":
                why = [*record["stopped"], *record["notes"], ""][0]
                bar.write(f"{record['student']}: {record['state']}: {why[:200]}")
    return write_up(out, sorted(found))


# --- what a class has done ------------------------------------------------------------------------


def write_up(out: Path, students: Sequence[str] = ()) -> int:
    """Write reports, table and summary from the records, with the points for explanations.

    ``students`` are those that handed in; without, all that have a record.
    """
    names = students or sorted(p.stem for p in out.glob("*.json"))
    records = [record for record in (kept(out, name) for name in names) if record]
    if not records:
        raise ValueError(f"there are no graded submissions in {out}")
    given = explanations(out, records)
    totals = {r["student"]: total_of(r, given) for r in records}
    for record in records:
        text = record["report"] + "".join(f"{line}\n" for line in entered(record, given))
        (out / f"{record['student']}.txt").write_text(text, encoding="utf-8")
    ids = sorted({id for record in records for id in record["tasks"]})
    with open(out / "grades.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["student", "file", "state", *ids, "total", "of", "complete"])
        for record in records:
            row = [score_of(record, id, given) for id in ids]
            total = "" if record["state"] == "failed" else totals[record["student"]]
            whole = sum(task["points"] for task in record["tasks"].values())
            missing = any(
                cell == "" and id in record["tasks"] for id, cell in zip(ids, row, strict=True)
            )
            head = [no_formula(record["student"]), no_formula(record["file"]), record["state"]]
            table.writerow([*head, *row, total, whole, "no" if missing else "yes"])
    (out / "summary.md").write_text("\n".join(summary(records, totals)) + "\n", encoding="utf-8")
    return max(STATES[record["state"]] for record in records)


def score_of(record: dict[str, Any], id: str, given: dict[tuple[str, str], dict]) -> Any:
    """The points of one task; empty while nobody, or no program, has read it."""
    task = record["tasks"].get(id)
    if task is None or record["state"] == "failed":
        return ""
    if task["kind"] != "explain":
        return task["score"]
    return given[record["student"], id]["points"]


def total_of(record: dict[str, Any], given: dict[tuple[str, str], dict]) -> float:
    """All points that there are so far."""
    return round(sum(float(score_of(record, id, given) or 0) for id in record["tasks"]), 2)


def entered(record: dict[str, Any], given: dict[tuple[str, str], dict]) -> Iterator[str]:
    """What the report says about explanations that somebody has read."""
    asked = [id for id, task in record["tasks"].items() if task["kind"] == "explain"]
    rows = [given[record["student"], id] for id in asked if record["state"] != "failed"]
    for row in rows:
        if row["points"] != "":
            worth = points(float(row["points"]), float(row["of"]))
            yield f"{row['task']}, read: {worth}{'. ' + row['comment'] if row['comment'] else ''}"
    if rows and all(row["points"] != "" for row in rows):
        whole = sum(task["points"] for task in record["tasks"].values())
        yield f"Together: {points(total_of(record, given), whole)}"


def explanations(out: Path, records: Sequence[dict[str, Any]]) -> dict[tuple[str, str], dict]:
    """Read the points that were entered in explanations.csv, and write it with what is new."""
    path, before = out / "explanations.csv", {}
    if path.exists():
        with open(path, newline="", encoding="utf-8-sig") as file:
            before = {(row["student"], row["task"]): row for row in csv.DictReader(file)}
    rows = {}
    for record in records:
        if record["state"] == "failed":  # what was entered before is kept for the next run
            for key in [key for key in before if key[0] == no_formula(record["student"])]:
                rows[key] = {column: before[key].get(column) or "" for column in COLUMNS}
            continue
        for id, written in record["texts"].items():
            text = no_formula(written.strip())
            most = record["tasks"][id]["points"]
            old = before.get((no_formula(record["student"]), id), {})
            value = (old.get("points") or "").strip().replace(",", ".")
            comment = old.get("comment") or ""
            if value and old.get("text", "").strip() != text:
                value, comment = (
                    "",
                    f"the text has changed; it had {value} points. {comment}".strip(),
                )
            if value and not (value.replace(".", "", 1).isdigit() and float(value) <= most):
                who = f"{record['student']}, {id}"
                raise ValueError(f"{path.name}: {who}: {value} is not a number from 0 to {most:g}")
            row = (no_formula(record["student"]), id, value, f"{most:g}", comment, text)
            rows[record["student"], id] = dict(zip(COLUMNS, row, strict=True))
        for id, task in record["tasks"].items():  # of a file that could not be read
            if task["kind"] == "explain" and id not in record["texts"]:
                row = (no_formula(record["student"]), id, "0", f"{task['points']:g}", "", "")
                rows[record["student"], id] = dict(zip(COLUMNS, row, strict=True))
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerows(rows.values())
    return rows


def no_formula(text: str) -> str:
    """A cell of a table that no spreadsheet program takes for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def summary(records: Sequence[dict[str, Any]], totals: dict[str, float]) -> Iterator[str]:
    """The class on a page: who is missing something, which checks failed, and with which words."""
    states = Counter(record["state"] for record in records)
    yield f"# {len(records)} submissions\n"
    yield ", ".join(f"{n} {state}" for state, n in states.items()) + ".\n"
    values = sorted(totals[r["student"]] for r in records if r["state"] != "failed")
    if values:
        yield (
            f"Points: median {statistics.median(values):g}, mean {statistics.mean(values):.2f}, "
            f"from {values[0]:g} to {values[-1]:g}.\n"
        )
    if any(record["no wall"] for record in records):
        yield "**Some submissions ran without a wall of the kernel;** their reports say why.\n"
    for record in records:
        if record["state"] != "graded":
            why = in_markdown([*record["stopped"], *record["notes"], ""][0])
            who = in_markdown(f"{record['student']} ({record['file']})")
            yield f"- {who}: {record['state']}: {why}"
    yield "\n| task | check | failed | most often because |\n| --- | --- | --- | --- |"
    words: dict[tuple[str, str], Counter] = {}
    asked: Counter = Counter()
    for record in records:
        if record["state"] in ("unreadable", "failed"):
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
