"""The package stands without the studies, and no modules import each other."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (ROOT / "normtutor", ROOT / "studies" / "normtutor_studies")
MODULES = {
    ".".join(path.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for folder in FOLDERS
    for path in sorted(folder.rglob("*.py"))
}
PACKAGE = sorted(name for name in MODULES if name.split(".")[0] == "normtutor")


def imported(source: str, modules: frozenset[str] = frozenset()) -> set[str]:
    """Name what a module imports anywhere in it; of ``modules`` those that are meant."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            within = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= within & modules or {"." * node.level + (node.module or "")}
    return found


@pytest.mark.parametrize("name", PACKAGE)
def test_the_package_stands_without_the_studies_and_imports_by_full_names(name):
    names = imported(MODULES[name].read_text(encoding="utf-8"))
    assert not [name for name in names if name.startswith((".", "normtutor_studies"))]


def test_no_modules_import_each_other():
    assert {"normtutor.norms.layer_norm", "normtutor_studies.engine"} <= MODULES.keys()
    graph = {
        name: imported(path.read_text("utf-8"), frozenset(MODULES)) & MODULES.keys() - {name}
        for name, path in MODULES.items()
    }
    graphlib.TopologicalSorter(graph).prepare()  # names the circle


def test_importing_normtutor_imports_nothing_heavy():
    heavy = {"torch", "jax", "matplotlib", "scipy", "sklearn", "pandas", "tqdm", "joblib"}
    code = f"import sys, normtutor; assert not {heavy!r} & set(sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert result.returncode == 0, result.stderr.decode()
