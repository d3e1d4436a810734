"""What Gradescope and GitHub Classroom need: a zip that grades there, a repository to hand out."""

import json
import shlex
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from normtutor.grading.classes import chosen
from normtutor.grading.judging import Task
from normtutor.grading.roster import Student
from normtutor.grading.submission import (
    Unreadable,
    as_gradescope,
    chapter_of,
    grade,
    nothing,
    tasks_for,
)
from normtutor.grading.tasks import tasks_of

PACKAGE = Path(__file__).resolve().parents[1]
PYTHON = "3.12"
# Their image has Python 3.10, which is too old; uv brings a newer one and needs no more than pip.
SETUP = f"""#!/usr/bin/env bash
set -euo pipefail
command -v pip3 >/dev/null || {{ apt-get update && apt-get install -y python3-pip; }}
pip3 install uv || pip3 install --break-system-packages uv
uv venv --python {PYTHON} /autograder/env
uv pip install --python /autograder/env/bin/python torch \\
    --index-url https://download.pytorch.org/whl/cpu
uv pip install --python /autograder/env/bin/python numpy scipy matplotlib array-api-compat
"""
RUN = """#!/usr/bin/env bash
cd /autograder
results=/autograder/results/results.json
PYTHONPATH=/autograder/source /autograder/env/bin/python -m normtutor.grading gradescope-run \\
    --submission /autograder/submission --results "$results" --chapter {chapter}{own}
[ -s "$results" ] || echo '{{"score": 0, "output": "The autograder did not start. Your submission is
 kept; your instructor sees this message, too."}}' | tr -d '\\n' > "$results"
"""
# The whole folder is a student's. So Python runs with -I, and no module there stands in for ours;
# results lie outside; and no word of a student's reaches the log, where a line that begins with two
# colons is a command.
WORKFLOW = """name: Check the coursework
on: [push, workflow_dispatch]

permissions:
  contents: read # to check out the notebook; the points travel as notices of this run

concurrency:
  group: ${{{{ github.ref }}}}
  cancel-in-progress: true

jobs:
  grade:
    name: Grade
    runs-on: ubuntu-latest
    timeout-minutes: 20
    if: github.actor != 'github-classroom[bot]'
    steps:
      - uses: actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0
        with:
          persist-credentials: false
      - uses: actions/setup-python@e797f83bcb11b83ae66e0230d6156d7c80228e7c # v6.0.0
        with:
          python-version: "{python}"
      - name: Install
        run: |
          pip install torch --index-url https://download.pytorch.org/whl/cpu
          pip install "normtutor[torch] @ git+https://github.com/normtutor/normtutor"
      - name: Grade
        run: |
          code=0
          python -I -m normtutor.grading grade {notebook} --chapter {chapter} \\
            --report "$RUNNER_TEMP/report.txt" --gradescope "$RUNNER_TEMP/results.json" || code=$?
          sed 's/^/    /' "$RUNNER_TEMP/report.txt" >> "$GITHUB_STEP_SUMMARY"
          # 0: graded, 3: not a notebook, 4: stopped. Anything else is not the student's doing.
          case $code in 0|3|4) ;; *) exit $code ;; esac
{steps}      - name: Points
        uses: classroom-resources/autograding-grading-reporter@{reporter} # v1
        env:
{results}        with:
          runners: {runners}
"""
STEP = """      - name: {title}
        id: task{number}
        uses: classroom-resources/autograding-command-grader@{grader} # v1
        with:
          test-name: {title}
          command: python -I -m normtutor.grading passed "${{{{ runner.temp }}}}/results.json" {id}
          timeout: 1
          max-score: {points:g}
"""
COMMAND_GRADER = "d5b3fa6f50f7f629b7bfae0cc3e4c58852b412d5"
REPORTER = "d13b5912daf5042ac1b71bc38bdb4a6bcd61d8ca"


# --- Gradescope -----------------------------------------------------------------------------------


def gradescope_zip(
    chapter: str, out: Path, checks: Path | None = None, variant: Path | None = None
) -> int:
    """Write the zip that Gradescope asks for: two scripts, this package, an instructor's files."""
    tasks_for(chapter, checks, variant)  # says now what would fail there
    own = ""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for option, path in (("checks", checks), ("variant", variant)):
            if path is not None:
                own += f" --{option} /autograder/source/{option}.py"
                file.write(path, f"{option}.py")
        _executable(file, "setup.sh", SETUP)
        _executable(file, "run_autograder", RUN.format(chapter=chapter, own=own))
        for path in sorted(PACKAGE.rglob("*.py")):
            name = path.relative_to(PACKAGE.parent)
            if not {"experiments", "plotting", "claims"} & set(name.parts):
                file.write(path, name.as_posix())
    print(f"{out}: upload it as the autograder; their default image (Ubuntu 22.04) will do")
    return 0


def _executable(file: zipfile.ZipFile, name: str, text: str) -> None:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = 0o755 << 16
    file.writestr(entry, text)


def gradescope_run(
    submission: Path, results: Path, chapter: str, checks: Path | None, variant: Path | None
) -> int:
    """Grade what lies in Gradescope's folder, and write results.json whatever happens."""
    tasks: Sequence[Task] = []
    try:
        tasks, hidden = tasks_for(chapter, checks, variant)
        path = chosen(Student("", entries=(submission,)), chapter)
        content = as_gradescope(grade(path, tasks, hidden=hidden))
    except Unreadable as error:
        content = as_gradescope(nothing(tasks, str(error)))
    except Exception as error:
        words = "The autograder failed. Your submission is kept; your instructor sees this, too."
        content = as_gradescope(nothing(tasks, words))
        content["output"] += f"\n\n{type(error).__name__}: {error}"
    results.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return 0


# --- GitHub Classroom -----------------------------------------------------------------------------


def classroom(notebook: Path, out: Path) -> int:
    """Write a folder to make a template repository of: the notebook, a workflow, a README."""
    chapter = chapter_of(notebook)
    tasks = [task for task in tasks_of(chapter) if task.kind != "explain"]
    steps = [
        STEP.format(
            id=task.id,
            title=json.dumps(f"{task.id} {task.title}", ensure_ascii=False),
            number=number,
            points=task.points,
            grader=COMMAND_GRADER,
        )
        for number, task in enumerate(tasks)
    ]
    ids = [f"task{number}" for number in range(len(tasks))]
    results = [
        f"          {id.upper()}_RESULTS: ${{{{ steps.{id}.outputs.result }}}}\n" for id in ids
    ]
    text = WORKFLOW.format(
        python=PYTHON,
        notebook=shlex.quote(notebook.name),
        chapter=chapter,
        steps="".join(steps),
        reporter=REPORTER,
        results="".join(results),
        runners=",".join(ids),
    )
    workflow = out / ".github" / "workflows" / "classroom.yml"
    workflow.parent.mkdir(parents=True, exist_ok=True)
    workflow.write_text(text, encoding="utf-8")
    (out / notebook.name).write_bytes(notebook.read_bytes())
    (out / "README.md").write_text(
        f"# Coursework {chapter}\n\nFill in `{notebook.name}`, commit it, and push. The checks run "
        "on GitHub after each push; the report stands under *Actions*, in the summary of the run.\n"
        '\nTo run them yourself: `pip install "normtutor[torch]"` and the cells of the notebook.\n',
        encoding="utf-8",
    )
    print(f"{out}: commit it to a repository, make that a template, and choose it in an assignment")
    return 0


def passed(results: Path, id: str) -> int:
    """Exit with 0 if a task has all its points, for a workflow that asks task by task."""
    try:
        content: dict[str, Any] = json.loads(results.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        print("there are no results")
        return 1
    for test in content["tests"]:
        if test["number"] == id:
            # Nothing that a student wrote: on GitHub a line of output can be a command.
            print(f"{test['number']}: {test['score']:g} of {test['max_score']:g} points")
            print("The report stands in the summary of this run.")
            return 0 if test["status"] == "passed" else 1
    print(f"there is no task {id}")
    return 1
