"""What Gradescope and GitHub Classroom need: a zip that grades there, a repository to hand out."""

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from normtutor.grading.judging import Task
from normtutor.grading.sandbox import Limits
from normtutor.grading.submission import (
    Unreadable,
    as_gradescope,
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
WORKFLOW = """name: Check the coursework
on: [push, workflow_dispatch]
permissions:
  checks: write
  actions: read
  contents: read
jobs:
  grade:
    runs-on: ubuntu-latest
    timeout-minutes: 20
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "{python}"
      - run: pip install torch --index-url https://download.pytorch.org/whl/cpu
      - run: pip install "normtutor[torch] @ git+https://github.com/normtutor/normtutor"
      - name: Grade
        run: >
          python -m normtutor.grading grade {notebook} --report report.txt
          --gradescope results.json || true
      - name: Report
        run: cat report.txt | tee -a "$GITHUB_STEP_SUMMARY"
{steps}      - name: Points
        uses: classroom-resources/autograding-grading-reporter@v1
        env:
{results}        with:
          runners: {runners}
"""
STEP = """      - name: "{id} {title}"
        id: task-{number}
        uses: classroom-resources/autograding-command-grader@v1
        with:
          test-name: "{id} {title}"
          command: python -m normtutor.grading passed results.json {id}
          timeout: 1
          max-score: {points:g}
"""


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


def the_notebook(folder: Path, chapter: str) -> Path:
    """The one notebook that was handed in; with several, the one with the chapter in its name."""
    paths = [p for p in sorted(folder.rglob("*.ipynb")) if ".ipynb_checkpoints" not in p.parts]
    named = [path for path in paths if path.name.startswith(chapter)]
    if len(paths) == 1 or len(named) == 1:
        return (named or paths)[0]
    if not paths:
        raise Unreadable("there is no notebook (.ipynb) in what you handed in")
    names = ", ".join(path.name for path in paths)
    raise Unreadable(
        f"you handed in {len(paths)} notebooks, and it is not clear which one counts: {names}. "
        f"Hand in one, or one whose name begins with {chapter}"
    )


def gradescope_run(
    submission: Path,
    results: Path,
    chapter: str,
    checks: Path | None = None,
    variant: Path | None = None,
    limits: Limits | None = None,
) -> int:
    """Grade what lies in Gradescope's folder, and write results.json whatever happens."""
    tasks: Sequence[Task] = []
    try:
        tasks, hidden = tasks_for(chapter, checks, variant)
        path = the_notebook(submission, chapter)
        content = as_gradescope(grade(path, tasks, limits=limits, hidden=hidden))
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
    chapter = notebook.name[:2]
    tasks = [task for task in tasks_of(chapter) if task.kind != "explain"]
    steps = [
        STEP.format(id=t.id, title=t.title, number=i, points=t.points) for i, t in enumerate(tasks)
    ]
    ids = [f"task-{i}" for i in range(len(tasks))]
    results = [
        f'          {id.upper()}_RESULTS: "${{{{ steps.{id}.outputs.result }}}}"\n' for id in ids
    ]
    text = WORKFLOW.format(
        python=PYTHON,
        notebook=notebook.name,
        steps="".join(steps),
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
            print(test["output"])
            return 0 if test["status"] == "passed" else 1
    print(f"there is no task {id}")
    return 1
