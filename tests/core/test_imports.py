"""The package stands without the studies, and no modules import each other."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import normtutor

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (ROOT / "normtutor", ROOT / "studies" / "normtutor_studies")
MODULES = {
    ".".join(path.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for folder in FOLDERS
    for path in sorted(folder.rglob("*.py"))
}


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


def test_the_package_stands_without_the_studies_and_imports_by_full_names():
    for module, path in MODULES.items():
        if module.split(".")[0] == "normtutor":
            names = imported(path.read_text(encoding="utf-8"))
            assert not [n for n in names if n.startswith((".", "normtutor_studies"))], module


def test_no_modules_import_each_other():
    assert {"normtutor.norms.layer_norm", "normtutor_studies.engine"} <= MODULES.keys()
    graph = {
        name: imported(path.read_text("utf-8"), frozenset(MODULES)) & MODULES.keys() - {name}
        for name, path in MODULES.items()
    }
    graphlib.TopologicalSorter(graph).prepare()  # names the circle


def test_the_front_door_opens_at_once_and_leads_to_every_public_name():
    """Nothing heavy is imported before it is needed."""
    heavy = {"torch", "jax", "matplotlib", "scipy", "sklearn", "pandas", "tqdm", "joblib"}
    code = f"""
import sys, normtutor
assert not {heavy!r} & set(sys.modules)
for name in normtutor.__all__:
    value = getattr(normtutor, name)
    assert value.__module__.startswith("normtutor.") if callable(value) else value.__doc__, name
assert {{*normtutor.__all__}} <= {{*dir(normtutor)}}
assert not hasattr(normtutor, "experiments")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_types_are_known_behind_the_front_door():
    """What is imported where it is first used is imported for the type checker, under its name."""
    tree = ast.parse(MODULES["normtutor"].read_text(encoding="utf-8"))
    (typed,) = [node for node in tree.body if isinstance(node, ast.If)]
    names = [
        alias.name for one in typed.body for alias in one.names if isinstance(one, ast.ImportFrom)
    ]
    assert sorted(names) == sorted(normtutor.__all__)
