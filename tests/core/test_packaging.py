"""The wheel builds, declares what it needs, and works where there is no torch."""

import importlib.metadata
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
CORE = ("numpy", "array-api-compat")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def run(*command: object, cwd: Path | None = None) -> str:
    """Run a command; its output, or a failure that shows it."""
    result = subprocess.run(
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True, timeout=1200
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel as the build of the site does."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    (path,) = folder.glob("normtutor-*.whl")
    return path


@pytest.fixture(scope="module")
def bare(wheel, tmp_path_factory):
    """A folder with the wheel's package and its two dependencies, and nothing else."""
    folder = tmp_path_factory.mktemp("bare")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    for name in CORE:
        distribution = importlib.metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or [] if file.parts[0] != ".."}:
            (folder / top).symlink_to(Path(distribution.locate_file(top)).resolve())
    return folder


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("normtutor/**/*.py")}
    assert modules <= names
    assert "normtutor/py.typed" in names
    tops = {name.split("/")[0] for name in names}
    assert tops == {"normtutor", f"normtutor-{VERSION}.dist-info"}
    assert wheel.stat().st_size < 400_000


WITHOUT_TORCH = ("colours", "gradcheck", "intervals", "moments", "norms", "tracing", "validation")


def test_the_wheel_works_without_torch(bare, tmp_path):
    (metadata,) = (path.read_text(encoding="utf-8") for path in bare.glob("normtutor-*/METADATA"))
    needs = [line for line in metadata.splitlines() if line.startswith("Requires-Dist")]
    needs = [Requirement(line.partition(": ")[2]).name for line in needs if "extra ==" not in line]
    assert sorted(needs) == sorted(CORE)
    imports = "\n".join(f"import normtutor.{name}" for name in WITHOUT_TORCH)
    code = f"""
import importlib.util, sys
sys.path.append({str(bare)!r})
{imports}
import numpy as np
from normtutor import norms

assert importlib.util.find_spec("torch") is None
assert normtutor.__file__.startswith({str(bare)!r})
y, cache = norms.layer_norm(np.arange(24.0).reshape(2, 3, 4) ** 2)
grads = norms.layer_norm_backward(np.ones_like(y), cache)
assert abs(y.mean(axis=-1)).max() < 1e-12 and abs(y.var(axis=-1) - 1).max() < 1e-3
assert abs(grads.x).max() < 1e-12
try:
    from normtutor import layers
except ModuleNotFoundError as error:
    assert 'pip install "normtutor[torch]"' in str(error)
print(normtutor.__version__)
"""
    printed = run(sys.executable, "-I", "-S", "-W", "error", "-c", code, cwd=tmp_path)
    assert printed.strip() == VERSION
