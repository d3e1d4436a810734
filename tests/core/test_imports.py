"""The package stands without the studies, no modules import each other, formulas need no torch."""

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

WITHOUT_TORCH = (
    "affine", "exchange", "gradcheck", "intervals", "masks", "moments", "norms", "tracing",
    "validation",
)  # fmt: skip


def imported(source: str, modules: set[str] = frozenset()) -> set[str]:
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
        name: imported(path.read_text("utf-8"), MODULES.keys()) & MODULES.keys() - {name}
        for name, path in MODULES.items()
    }
    graphlib.TopologicalSorter(graph).prepare()  # names the circle


# Runs in a fresh interpreter. Its importer refuses torch and everything that brings it.
BLOCKED = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ModuleNotFoundError("blocked: " + name, name=name)

sys.meta_path.insert(0, Refuse())
"""


def run_without(blocked: set[str], code: str) -> subprocess.CompletedProcess[str]:
    """Run code in an interpreter in which some packages cannot be imported."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", BLOCKED.format(blocked=blocked) + code],
        capture_output=True,
        text=True,
        timeout=1200,
    )


NOT_CORE = {"torch", "jax", "matplotlib", "scipy", "sklearn", "pandas", "tqdm", "joblib"}


def test_the_formulas_run_without_torch():
    imports = "\n".join(f"import normtutor.{name}" for name in WITHOUT_TORCH)
    code = f"""
import normtutor
{imports}
import numpy as np
from normtutor import norms

x = np.arange(24.0).reshape(2, 3, 4) ** 2
y, cache = norms.layer_norm(x)
grads = norms.layer_norm_backward(np.ones_like(y), cache)
assert abs(y.mean(axis=-1)).max() < 1e-12 and abs(y.var(axis=-1) - 1).max() < 1e-3
assert abs(grads.x).max() < 1e-12
assert not {NOT_CORE!r} & set(sys.modules)
print("fine")
"""
    result = run_without(NOT_CORE, code)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "fine\n"


def test_importing_normtutor_imports_nothing_heavy():
    code = f"import normtutor; assert not {NOT_CORE!r} & set(sys.modules)"
    result = subprocess.run([sys.executable, "-c", "import sys;" + code], capture_output=True)
    assert result.returncode == 0, result.stderr.decode()


def test_the_blocker_blocks():
    assert "blocked: torch" in run_without({"torch"}, "import torch").stderr
