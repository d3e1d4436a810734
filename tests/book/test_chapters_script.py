"""Chapters are executed when something changed that they reach, and then alone."""

import json
import shutil
from pathlib import Path

import chapters
import nbformat
import pytest


def write_notebook(path: Path, *cells: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, path)
    return path


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A package of two modules and a saved run, in a place of its own."""
    for name, text in (
        ("tiny/__init__.py", ""),
        ("tiny/formula.py", "factor = 2"),
        ("tiny/grader.py", "points = 1"),
        ("tiny/results/run.json", "[3]"),
        ("tiny/results/other.json", "[4]"),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_a_chapter_is_executed_when_what_it_reaches_has_changed(repository):
    first = write_notebook(
        repository / "book" / "first.ipynb",
        "import json, pathlib, sys\nsys.path.insert(0, '..')\nfrom tiny import formula",
        "runs = json.loads(pathlib.Path('../tiny/results/run.json').read_text())\n"
        "formula.factor * runs[0]",
    )
    second = write_notebook(repository / "book" / "second.ipynb", "1 + 1")
    folder, both = repository / "_build", [first, second]

    def stale() -> list[Path]:
        return [path for path in both if not chapters.is_fresh(path, folder, repository)]

    def change(name: str, text: str = "[5]") -> list[Path]:
        (repository / name).write_text(text)
        return stale()

    assert stale() == both
    assert chapters.execute(both, folder, root=repository) == {}
    assert stale() == []
    kept = chapters.kept(first, folder, repository)
    assert kept.cells[1].outputs[0].data["text/plain"] == "6"
    assert kept.metadata.execution.files == [
        *("tiny/__init__.py", "tiny/formula.py", "tiny/results/run.json"),
    ]
    # What it does not reach executes nothing.
    assert change("tiny/grader.py", "points = 2") == []
    assert change("tiny/results/other.json") == []
    assert change("book/prose.md", "words") == []
    # What it reaches does.
    assert change("tiny/results/run.json") == [first]
    assert change("tiny/results/run.json", "[3]") == []
    assert change("tiny/formula.py", "factor = 3") == [first]
    (repository / "tiny/formula.py").unlink()
    assert stale() == [first]
    shutil.rmtree(folder)
    assert stale() == both


def test_what_changes_while_a_chapter_runs_leaves_it_stale(repository):
    code = "import sys, pathlib\nsys.path.insert(0, '..')\nfrom tiny import formula"
    change = "pathlib.Path('../tiny/formula.py').write_text('factor = 7')"
    path = write_notebook(repository / "book" / "first.ipynb", code, change)
    assert chapters.execute([path], repository / "_build", root=repository) == {}
    assert chapters.kept(path, repository / "_build", repository) is not None
    assert not chapters.is_fresh(path, repository / "_build", repository)


def test_a_kernel_is_stopped_when_it_is_idle(repository, capfd):
    # A kernel replies before it is done: here half a second before.
    slow = """import time
kernel = get_ipython().kernel
execute = kernel.shell_handlers["execute_request"]

async def execute_and_linger(*arguments):
    await execute(*arguments)
    time.sleep(0.5)

kernel.shell_handlers["execute_request"] = execute_and_linger"""
    path = write_notebook(repository / "book" / "first.ipynb", slow)
    assert chapters.execute([path], repository / "_build", root=repository) == {}
    assert capfd.readouterr().err == ""


def test_prose_captions_and_tags_execute_nothing_and_are_seen(repository):
    path = write_notebook(repository / "book" / "first.ipynb", "1 + 1")
    folder = repository / "_build"
    chapters.execute([path], folder, root=repository)
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_markdown_cell("# A heading"))
    notebook.cells[1].metadata = {"mystnb": {"figure": {"caption": "new"}}, "tags": ["hide-input"]}
    nbformat.write(notebook, path)
    assert chapters.is_fresh(path, folder, repository)
    shown = chapters.with_outputs(notebook, chapters.kept(path, folder, repository))
    assert shown.cells[1].metadata == notebook.cells[1].metadata
    assert shown.cells[1].outputs[0].data["text/plain"] == "2"
    notebook.cells[1].source = "1 + 2"
    nbformat.write(notebook, path)
    assert not chapters.is_fresh(path, folder, repository)
    assert chapters.kept(path, folder, repository) is None


def test_comments_execute_nothing_and_another_version_of_a_package_does(tmp_path, monkeypatch):
    def digest(text: str, name: str = "module.py", numpy: str = "2.0", torch: str = "2.9") -> str:
        monkeypatch.setattr(chapters, "versions", lambda: {"numpy": numpy, "torch": torch})
        (tmp_path / name).write_text(text)
        return chapters.digest_behind([name], ["numpy"], tmp_path)

    assert digest("a = 1\n") == digest("# Why one?\n\na = 1  # for one\n")
    assert digest("a = 1\n") != digest("a = 2\n")
    assert digest("a =") != digest("a = =")  # no module, but still a file
    assert digest("# 1", "data.txt") != digest("# 2", "data.txt")
    assert digest("", torch="3.0") == digest("") != digest("", numpy="2.1")


def test_a_chapter_that_fails_is_named_briefly_and_the_others_are_kept(repository):
    good = write_notebook(repository / "book" / "good.ipynb", "print(1)")
    bad = write_notebook(repository / "book" / "bad.ipynb", "print('x\\n' * 500)\n1 / 0")
    dead = write_notebook(repository / "book" / "dead.ipynb", "import os", "os._exit(1)")
    failures = chapters.execute([good, bad, dead], repository / "_build", root=repository)
    assert set(failures) == {bad, dead}
    seconds = json.loads((repository / "_build" / "cpu_seconds.json").read_text())
    assert seconds["book/good.ipynb"] > 0
    assert "ZeroDivisionError" in failures[bad]
    assert all(text and text.count("\n") < 60 for text in failures.values())
    assert chapters.is_fresh(good, repository / "_build", repository)
