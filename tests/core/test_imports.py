"""The package stands without the other two, and its front door opens at once."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import normtutor

PACKAGE = Path(normtutor.__file__).parent


def test_the_package_stands_without_the_studies_and_the_grader():
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(from|import) normtutor_(studies|grader)", text, re.MULTILINE), (
            path
        )


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
    tree = ast.parse(Path(normtutor.__file__).read_text(encoding="utf-8"))
    (typed,) = [node for node in tree.body if isinstance(node, ast.If)]
    names = [
        alias.name for one in typed.body for alias in one.names if isinstance(one, ast.ImportFrom)
    ]
    assert sorted(names) == sorted(normtutor.__all__)
