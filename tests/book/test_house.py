"""What the next owner finds: recipes, the version, the lines of a failure, what a commit runs."""

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import normtutor

ROOT = Path(__file__).resolve().parents[2]


# Several files are called conftest.py; this is the one at the top.
SPEC = importlib.util.spec_from_file_location("top_conftest", ROOT / "conftest.py")
assert SPEC and SPEC.loader
house = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(house)


sys.path.insert(0, str(ROOT / ".ci"))
import fast_tests  # noqa: E402


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_contributing_has_the_recipes():
    found = re.findall(r"^### (.*)$", read("CONTRIBUTING.md"), re.MULTILINE)
    for word in ("norm", "claim", "study", "interactive", "exercise", "question"):
        assert any(word in name for name in found), word


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "ARCHITECTURE.md", "README.md"])
def test_what_a_page_for_owners_names_is_there(name):
    text = read(name)
    targets = set(re.findall(r"`make ([a-z]+)", text))
    rules = set(re.findall(r"^([a-z]+):", read("Makefile"), re.MULTILINE))
    assert targets <= rules
    paths = re.findall(r"`((?:normtutor|studies|tests|book|\.ci)/[\w./-]+\.\w+)`", text)
    assert [
        path
        for path in paths
        if not re.search("NAME|SUBJECT|0N", path) and not (ROOT / path).exists()
    ] == []


# The page, and the case among the tests, that a norm needs beside its code.
PAGE, CASES = "book/in_depth/02_family_of_norms.ipynb", "tests/core/test_conditional.py"


def test_a_norm_touches_six_files():
    """ScaleNorm is the example: where the recipe has a norm named, and nowhere else."""
    recipe = read("CONTRIBUTING.md").split("### A norm\n")[1].split("\n### ")[0]
    asked = set(re.findall(r"`((?:normtutor/|norms/|tests/)[\w/]+\.py)`", recipe))
    assert len(asked) == 5 and "table of chapter 2's depth page" in recipe
    code = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.glob("normtutor/**/*.py")
        if re.search("scale_?norm", path.read_text(encoding="utf-8"), re.IGNORECASE)
    }
    files = ("norms/scale_norm", "norms/__init__", "norms/choices", "layers/token")
    assert code == {f"normtutor/{file}.py" for file in files}
    rows = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.glob("book/**/*.ipynb")
        if '"| ScaleNorm' in path.read_text(encoding="utf-8")
    }
    assert rows == {PAGE} and '"scale_norm": (norms.scale_norm' in read(CASES)
    assert len({*code, *rows, CASES}) == 6


def commands_of(text: str) -> list[list[str]]:
    """The arguments of every pytest that a page asks for, which may be broken over lines."""
    found = re.findall(r"python -m pytest ([^`]*)`", re.sub(r"\n *", " ", text))
    return [shlex.split(arguments) for arguments in found]


def words_without_a_test(command: list[str]) -> list[str]:
    """The paths, or the words behind -k, that choose nothing; placeholders are left out."""
    paths = [ROOT / word for word in command if word.startswith("tests")]
    files = [
        file for path in paths for file in (path.rglob("test_*.py") if path.is_dir() else [path])
    ]
    if not files or not all(file.exists() for file in files):
        return list(map(str, paths))
    names = " ".join(
        [file.stem for file in files]
        + [
            n
            for file in files
            for n in re.findall(r"^def (test_\w+)", file.read_text("utf-8"), re.M)
        ]
    )
    asked = " ".join(command[command.index("-k") + 1 :]) if "-k" in command else ""
    words = set(re.findall(r"\b[a-z_]+\b", asked)) - {"and", "or", "not", "rms"}  # rms: a NAME
    return sorted(word for word in words if word not in names)


def test_the_commands_of_the_recipes_choose_tests():
    commands = commands_of(read("CONTRIBUTING.md"))
    assert len(commands) >= 8
    assert {" ".join(c): words_without_a_test(c) for c in commands if words_without_a_test(c)} == {}


def test_a_command_that_chooses_nothing_is_noticed():
    (command,) = commands_of('`python -m pytest tests/core -k\n   "NAME or imports or lawyers"`')
    assert words_without_a_test(command) == ["lawyers"]
    assert words_without_a_test(["tests/gone.py"])


def test_the_newest_change_is_that_of_this_version():
    newest = re.search(r"^## (\S+)", read("CHANGELOG.md"), re.MULTILINE)
    assert newest and newest[1] == normtutor.__version__


def test_a_commit_runs_what_make_lint_runs():
    hooks = yaml.safe_load(read(".pre-commit-config.yaml"))["repos"][0]["hooks"]
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", read("Makefile"), re.MULTILINE)
    assert lint
    for hook, line in zip(hooks, lint[1].splitlines(), strict=True):
        assert line.removesuffix(" .").split("/")[-1] in hook["entry"]


def test_the_forms_for_issues_can_be_read():
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        if path.stem != "config":
            assert {"name", "description", "body"} <= set(form)
            assert all(part["attributes"]["label"] for part in form["body"])


def test_a_long_failure_keeps_its_beginning_and_its_end():
    long = "\n".join(map(str, range(8000)))
    kept = house.shortened(long).splitlines()
    assert len(kept) == house.LINES < 60
    assert (kept[0], kept[-1]) == ("0", "7999")
    assert any("7945 lines left out" in line for line in kept)
    assert house.shortened("one\ntwo") == "one\ntwo"


@pytest.mark.parametrize("server", [{}, {"CI": "true"}], ids=["a person", "a server"])
def test_a_failure_prints_at_most_sixty_lines(tmp_path, server):
    (tmp_path / "conftest.py").write_text(read("conftest.py"))
    (tmp_path / "test_long.py").write_text(
        "def test_it():\n"
        "    print('said\\n' * 5000)\n"
        "    assert list(range(3000)) == [str(i) for i in range(3000)]\n"
    )
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_long.py"],
        cwd=tmp_path,
        env=os.environ | server,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1 and "assert [0, 1, 2" in run.stdout
    assert len(run.stdout.splitlines()) <= 60 + 8  # with pytest's own lines around it


def test_make_check_takes_the_cheapest_files_that_fit():
    seconds = {"a": 5.0, "b": 1.0, "c": 30.0, "d": 2.0}
    assert fast_tests.cheapest(seconds, budget=8.0) == ["a", "b", "d"]
    assert fast_tests.cheapest(seconds, budget=7.9) == ["b", "d"]
    assert fast_tests.cheapest(seconds, budget=0.5) == []


def test_make_check_fails_on_a_file_of_tests_that_was_not_measured(tmp_path, monkeypatch):
    for name in ("tests/core/test_a.py", "tests/core/test_b.py", "tests/site/test_c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setattr(fast_tests, "ROOT", tmp_path)
    known = {"tests/core/test_a.py": 1.0, "tests/core/test_gone.py": 1.0}
    with pytest.raises(SystemExit, match=r"make seconds TESTS='tests/core/test_b.py'"):
        fast_tests.chosen(known)
    assert fast_tests.chosen(known | {"tests/core/test_b.py": 100.0}) == ["tests/core/test_a.py"]
    recipe = re.search(r"^check:.*\n((?:\t.*\n)+)", read("Makefile"), re.MULTILINE)
    assert recipe and "files=$$($(BIN)/python .ci/fast_tests.py) &&" in recipe[1]


def test_every_file_of_tests_was_measured():
    """Nineteen of 97 were, so that make check left out what is cheap."""
    measured = json.loads(read("tests/seconds.json"))
    taken = fast_tests.chosen(measured)
    assert sum(measured[name] for name in taken) <= fast_tests.BUDGET
    # No file that is gone is named, either.
    assert all((ROOT / name).exists() for name in measured)


def test_what_a_file_of_tests_costs_is_written_where_it_is_asked_for(tmp_path):
    (tmp_path / "conftest.py").write_text(read("conftest.py"))
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
    # A worker leaves the writing to its head, and this run has none.
    own = {name: value for name, value in os.environ.items() if name != "PYTEST_XDIST_WORKER"}
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0"],
        cwd=tmp_path,
        env=own | {"NORMTUTOR_SECONDS": str(kept)},
        capture_output=True,
        check=True,
    )
    found = json.loads(kept.read_text())
    assert found["test_old.py"] == 2.0 and found["test_idle.py"] < 0.5
    assert found["test_busy.py"] > 0.5  # the system counts in ticks, and may miss some


def test_the_installation_is_silent_unless_it_fails(tmp_path):
    pip = tmp_path / "python"
    for status, printed in ((0, ""), (1, "Collecting numpy\nno such version\n\n")):
        pip.write_text(f"#!/bin/sh\necho Collecting numpy\necho no such version\nexit {status}\n")
        pip.chmod(0o755)
        run = subprocess.run(
            [sys.executable, ROOT / ".ci" / "install.py", pip], capture_output=True, text=True
        )
        assert (run.returncode, run.stdout, run.stderr) == (status, "", printed)
