"""What publishes the book: workflows, the branch of notebooks, Binder, pins; and `make lab`."""

import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import lab
import pytest

import normtutor

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


# --- documents for owners -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "ARCHITECTURE.md", "README.md"])
def test_what_a_page_for_owners_names_is_there(name):
    text = re.sub(r"https?://\S+", "", read(name))
    targets = set(re.findall(r"(?:`|^ *)make ([a-z]+)", text, re.MULTILINE))
    rules = re.findall(r"^([a-z ]+):", read("Makefile"), re.MULTILINE)
    assert targets <= {name for rule in rules for name in rule.split()}
    paths = re.findall(r"\b((?:normtutor|studies|tests|book|tools|\.ci)/[\w./-]+\w)(?![\w*])", text)
    named = {path for path in paths if not re.search("NAME|SUBJECT|TOPIC|0N", path)}
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_newest_change_is_that_of_this_version():
    newest = re.search(r"^## (\S+)(?: \((\S+)\))?", read("CHANGELOG.md"), re.MULTILINE)
    assert newest and newest[1] == normtutor.__version__
    assert f"version: {newest[1]}\n" in read("CITATION.cff")
    for folder in (".", "studies", "grader"):
        assert f'\nversion = "{newest[1]}"\n' in read(f"{folder}/pyproject.toml"), folder
    cited = re.search(r"^date-released: (\S+)$", read("CITATION.cff"), re.MULTILINE)
    assert cited and newest[2] in (cited[1], "unreleased")


# --- workflows ------------------------------------------------------------------------------------


def run(*command: object) -> str:
    """Run a program of this environment; what it says."""
    program, *words = map(str, command)
    there = Path(sys.executable).with_name(program)
    return subprocess.run([there, *words], capture_output=True, text=True, cwd=ROOT).stdout


def test_the_workflows_pass_their_linters():
    """All actions are pinned, for instance."""
    found = run("zizmor", "--offline", "--no-progress", "--format", "json", *WORKFLOWS)
    assert [finding["ident"] for finding in json.loads(found)] == []
    said = run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *WORKFLOWS)
    assert said.startswith("ok")


# --- the branch that Colab and Binder open --------------------------------------------------------


def git(*words: object, cwd: Path) -> str:
    command = ["git", *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True).stdout


def test_the_branch_holds_the_notebooks_and_binders_files(tmp_path):
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    made = tmp_path / "made"
    (made / "in_depth").mkdir(parents=True)
    for name in ("01_a.ipynb", "in_depth/01_a.ipynb", "normtutor-1-py3-none-any.whl"):
        (made / name).write_text(name)
    remote = tmp_path / "remote"
    git("init", "--quiet", "--bare", remote, cwd=tmp_path)
    before = git("status", "--porcelain", cwd=ROOT)
    for _ in range(2):  # the second time replaces the first
        command = [ROOT / ".ci" / "publish_notebooks", made, remote]
        subprocess.run(command, check=True, capture_output=True)
    names = git("ls-tree", "-r", "--name-only", "notebooks", cwd=remote).split()
    assert names == [
        *(".binder/requirements.txt", ".binder/runtime.txt", ".binder/start"),
        *("01_a.ipynb", "README.md", "in_depth/01_a.ipynb", "normtutor-1-py3-none-any.whl"),
    ]
    assert git("rev-list", "--count", "notebooks", cwd=remote).strip() == "1"
    assert git("status", "--porcelain", cwd=ROOT) == before


def test_binder_gets_the_wheels_and_the_torch_of_the_book_for_processors():
    lines = [line for line in read(".binder/requirements.txt").splitlines() if line[:1] != "#"]
    (torch,) = re.findall(r"^torch==\S+", read("requirements.txt"), re.MULTILINE)
    assert lines[0] == "--find-links .." and "/whl/cpu" in lines[1]
    assert lines[2:] == [f"{torch}+cpu", "normtutor[notebooks]", "normtutor-studies"]


# --- versions -------------------------------------------------------------------------------------


def test_the_two_files_of_pins_agree():
    names = ("requirements.txt", "requirements-lab.txt")
    book, lab = (dict(re.findall(r"^(\S+)==([^;\s]+)", read(name), re.M)) for name in names)
    assert {name: book.get(name, pin) for name, pin in lab.items()} == lab
    assert not [name for name in book if re.match("nvidia|cuda|triton", name)]


@pytest.mark.slow
def test_what_is_published_holds_the_records_and_the_licence(tmp_path):
    command = [sys.executable, "-m", "build", "--no-isolation", "--sdist", "--outdir", tmp_path]
    subprocess.run([*command, ROOT / "studies"], check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        names = {name.split("/", 1)[1] for name in packed.getnames() if "/" in name}
    folder = ROOT / "studies"
    records = folder.glob("normtutor_studies/records/*.jsonl")
    assert {path.relative_to(folder).as_posix() for path in records} <= names
    assert {"LICENSE", "README.md"} <= names


# --- make lab -------------------------------------------------------------------------------------


def test_a_readers_copy_is_never_lost(tmp_path):
    made, own = tmp_path / "made", tmp_path / "own"
    (made / "in_depth").mkdir(parents=True)
    names = ("a.ipynb", "b.ipynb", "in_depth/c.ipynb")
    for name in names:
        (made / name).write_text("first")
    new, left_alone = lab.copy_notebooks(made, own)
    assert [path.relative_to(own).as_posix() for path in new] == list(names) and not left_alone
    assert lab.copy_notebooks(made, own) == ([], [])

    (own / "a.ipynb").write_text("my own work")
    for name in names:
        (made / name).write_text("second")
    new, left_alone = lab.copy_notebooks(made, own)
    assert left_alone == [own / "a.ipynb"] and len(new) == 2
    assert (own / "a.ipynb").read_text() == "my own work"
    assert (own / "b.ipynb").read_text() == "second"

    (own / "a.ipynb").unlink()
    assert lab.copy_notebooks(made, own) == ([own / "a.ipynb"], [])
