"""The wheels of the package and of its studies, beside the readers' notebooks, for Colab."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import execution
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

# Of each distribution: its folder, and the package in it.
DISTRIBUTIONS = ((".", "normtutor"), ("studies", "normtutor_studies"))


def behind(folder: str, package: str) -> list[str]:
    """What a wheel is made of."""
    return [f"{folder}/{name}" for name in (f"{package}/**/*", "pyproject.toml", "README.md")]


def build(folder: str, to: Path) -> None:
    """Build a wheel from a source distribution, so that nothing from an earlier build is in it."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(to), folder]
    # Files of 1980: the same sources make the same wheel.
    env = {**os.environ, "SOURCE_DATE_EPOCH": "315532800"}
    done = subprocess.run(command, cwd=execution.ROOT, env=env, capture_output=True, text=True)
    if done.returncode:
        raise ExtensionError(f"{' '.join(command)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def put_wheels(app: Sphinx, error: Exception | None) -> None:
    """Put the wheels into the site; what is as it was is not built again."""
    if error or app.builder.name != "html":
        return
    kept = Path(app.outdir).parent / "wheels"
    for folder, package in DISTRIBUTIONS:
        now, record = execution.digest(behind(folder, package)), kept / package / "behind.txt"
        if not record.exists() or record.read_text() != now:
            shutil.rmtree(record.parent, ignore_errors=True)
            build(folder, record.parent)
            record.write_text(now)
        for wheel in record.parent.glob("*.whl"):
            shutil.copy(wheel, Path(app.outdir, "notebooks"))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", put_wheels)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
