"""What the next owner finds: what pages name, the lines of a failure, the choice of quick tests."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import normtutor

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".ci"))
import fast_tests  # noqa: E402


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


def test_the_forms_for_issues_can_be_read():
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        if path.stem != "config":
            assert {"name", "description", "body"} <= set(form)
            assert all(part["attributes"]["label"] for part in form["body"])


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
    (tmp_path / "test_busy.py").write_text(
        "import time\n"
        "def test_it():\n"
        "    end = time.process_time() + 1.0\n"
        "    while time.process_time() < end:\n"
        "        pass\n"
    )
    (tmp_path / "test_idle.py").write_text("def test_it():\n    pass\n")
    kept = tmp_path / "seconds.json"
    kept.write_text('{"test_idle.py": 7.0, "test_old.py": 2.0}')
    assert run_tests(tmp_path, NORMTUTOR_SECONDS=str(kept)).returncode == 0
    found = json.loads(kept.read_text())
    assert found["test_old.py"] == 2.0 and found["test_idle.py"] < 0.5
    assert found["test_busy.py"] > 0.5  # the system counts in ticks, and may miss some


def test_make_check_takes_the_cheapest_files_that_fit():
    seconds = {"a": 5.0, "b": 1.0, "c": 30.0, "d": 2.0}
    assert fast_tests.cheapest(seconds, budget=8.0) == ["a", "b", "d"]
    assert fast_tests.cheapest(seconds, budget=7.9) == ["b", "d"]


def test_make_check_fails_on_a_file_of_tests_that_was_not_measured(tmp_path, monkeypatch):
    for name in ("tests/core/test_a.py", "tests/core/test_b.py", "tests/site/test_c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setattr(fast_tests, "ROOT", tmp_path)
    known = {"tests/core/test_a.py": 1.0, "tests/core/test_gone.py": 1.0}
    with pytest.raises(SystemExit, match=r"make seconds TESTS='tests/core/test_b.py'"):
        fast_tests.chosen(known)
    assert fast_tests.chosen(known | {"tests/core/test_b.py": 100.0}) == ["tests/core/test_a.py"]


def test_every_file_of_tests_was_measured():
    measured = json.loads(read("tests/seconds.json"))
    assert fast_tests.chosen(measured)
    assert [name for name in measured if not (ROOT / name).exists()] == []


def test_the_installation_is_silent_unless_it_fails(tmp_path):
    pip = tmp_path / "python"
    for status, printed in ((0, ""), (1, "Collecting numpy\nno such version\n\n")):
        pip.write_text(f"#!/bin/sh\necho Collecting numpy\necho no such version\nexit {status}\n")
        pip.chmod(0o755)
        run = subprocess.run(
            [sys.executable, ROOT / ".ci" / "install.py", pip], capture_output=True, text=True
        )
        assert (run.returncode, run.stdout, run.stderr) == (status, "", printed)
