"""What the next owner finds: what pages name, the lines of a failure, the choice of quick tests."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import fast_tests
import pytest

import normtutor

ROOT = Path(__file__).resolve().parents[2]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "ARCHITECTURE.md", "README.md"])
def test_what_a_page_for_owners_names_is_there(name):
    text = read(name)
    targets = set(re.findall(r"(?:`|^ *)make ([a-z]+)", text, re.MULTILINE))
    assert targets <= set(re.findall(r"^([a-z]+):", read("Makefile"), re.MULTILINE))
    paths = re.findall(r"\b((?:normtutor|studies|tests|book|\.ci)/[\w./-]+\w)", text)
    named = {path for path in paths if not re.search("NAME|SUBJECT|0N", path)}
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_newest_change_is_that_of_this_version():
    newest = re.search(r"^## (\S+)", read("CHANGELOG.md"), re.MULTILINE)
    assert newest and newest[1] == normtutor.__version__


def run_tests(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of a folder under the repository's own conftest.py, in one process."""
    (folder / "conftest.py").write_text(read("conftest.py"))
    # A worker leaves the writing of costs to its head, and this run has none.
    own = {name: value for name, value in os.environ.items() if name != "PYTEST_XDIST_WORKER"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0"],
        cwd=folder,
        env=own | environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("server", [{}, {"CI": "true"}], ids=["a person", "a server"])
def test_a_failure_prints_at_most_sixty_lines(tmp_path, server):
    (tmp_path / "test_long.py").write_text(
        "def test_it():\n"
        "    print('said\\n' * 5000)\n"
        "    assert list(range(3000)) == [str(i) for i in range(3000)]\n"
    )
    run = run_tests(tmp_path, **server)
    assert run.returncode == 1 and "assert [0, 1, 2" in run.stdout
    assert "lines left out" in run.stdout
    assert len(run.stdout.splitlines()) <= 60 + 8  # with pytest's own lines around it


def test_what_a_file_of_tests_costs_is_written_where_it_is_asked_for(tmp_path):
    (tmp_path / "test_idle.py").write_text("def test_it():\n    pass\n")
    kept = tmp_path / "seconds.json"
    kept.write_text('{"test_idle.py": 7.0, "test_old.py": 2.0}')
    assert run_tests(tmp_path, NORMTUTOR_SECONDS=str(kept)).returncode == 0
    found = json.loads(kept.read_text())
    assert found["test_old.py"] == 2.0 and found["test_idle.py"] < 0.5


def test_every_file_of_tests_was_measured():
    measured = json.loads(read("tests/seconds.json"))
    assert fast_tests.chosen(measured)
    assert [name for name in measured if not (ROOT / name).exists()] == []
