"""A module imports only from lower floors, and the two lowest floors need no torch."""

import ast
import graphlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from normtutor.floors import FLOORS, MEANING

PACKAGE = Path(__file__).resolve().parents[2] / "normtutor"

NEED_MORE = {"data", "layers", "package_text", "pieces"}
WITHOUT_TORCH = sorted(
    name for name, floor in FLOORS.items() if floor <= 3 and name not in NEED_MORE
)

MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


def top_level(path: Path) -> str:
    """Name the floor's module or package that a file belongs to."""
    whole = ".".join(path.with_suffix("").parts)
    return whole if whole in FLOORS else path.parts[0].removesuffix(".py")


def imports_of(source: str) -> set[str]:
    """Name what a module imports of normtutor, at its head or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError("a relative import: write the full name")
            base = node.module or ""
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("normtutor.")}
    return found


def climbs(name: str, source: str) -> list[str]:
    """List the imports by which a module reaches to its own floor or above."""
    return [
        f"{name} (floor {FLOORS[name]}) imports {other} (floor {FLOORS[other]})"
        for other in sorted(imports_of(source) & FLOORS.keys())
        if other != name and FLOORS[other] >= FLOORS[name]
    ]


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_a_module_imports_only_from_lower_floors(path):
    source = (PACKAGE / path).read_text(encoding="utf-8")
    name = top_level(path)
    if name == "__init__":
        assert not imports_of(source)
        return
    assert name in FLOORS, f"give {name} a floor in normtutor/floors.py"
    assert climbs(name, source) == []


def imported(source: str, modules: set[str]) -> set[str]:
    """Name the modules, of those in ``modules``, that a module imports anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            within = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= within & modules or {str(node.module)}
    return found & modules


def circle(sources: dict[str, str]) -> list[str]:
    """Modules of which each imports the one before it, the first one twice; empty without one."""
    graph = {name: imported(source, sources.keys() - {name}) for name, source in sources.items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


def test_no_modules_import_each_other():
    sources = {
        ".".join(("normtutor", *path.with_suffix("").parts)).removesuffix(".__init__"): (
            PACKAGE / path
        ).read_text(encoding="utf-8")
        for path in MODULES
    }
    assert "normtutor.experiments.batch_rates" in sources
    assert circle(sources) == []


def test_a_circle_is_noticed():
    first = "def f():\n    from package import second\n"
    assert circle({"package.first": first, "package.second": "import numpy"}) == []
    closed = {"package.first": first, "package.second": "from package.first import f"}
    assert sorted(set(circle(closed))) == ["package.first", "package.second"]


def test_every_floor_has_a_meaning():
    assert set(FLOORS.values()) == set(range(len(MEANING)))


def test_the_page_on_the_architecture_is_up_to_date():
    sys.path.insert(0, str(PACKAGE.parent / ".ci"))
    import architecture

    text = architecture.PAGE.read_text(encoding="utf-8")
    assert architecture.page(text) == text, "run python .ci/architecture.py"
    assert architecture.page(text.replace("`norms.layer_norm`", "`norms.other`")) == text


def test_climbing_is_noticed():
    assert climbs("moments", "def f():\n    from normtutor.layers import LayerNorm\n")
    assert climbs("models", "from normtutor import plotting")
    assert climbs("norms", "import normtutor.layers as layers")
    assert climbs("data", "from normtutor import layers")  # the same floor counts
    assert not climbs("layers", "import torch\nfrom normtutor import norms, moments\n")
    with pytest.raises(ValueError, match="relative import"):
        imports_of("from . import norms")


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


def test_the_lower_floors_run_without_torch():
    present = [name for name in WITHOUT_TORCH if importlib.util.find_spec(f"normtutor.{name}")]
    assert "norms" in present
    imports = "\n".join(f"import normtutor.{name}" for name in ["", *present] if name)
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
    result = run_without({"torch"}, "import torch")
    assert result.returncode != 0
    assert "blocked: torch" in result.stderr
