"""Build the wheels of the package and of its studies from copies, so that the tree stays clean.

Nothing is fetched: setuptools comes from the environment. With --source, the source distribution
is built as well. A tag that is not the version is an error.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def version() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")


# Of each distribution: where it lies, its package, and what else belongs to it.
DISTRIBUTIONS = (
    (ROOT, "normtutor", ("pyproject.toml", "README.md", "LICENSE")),
    (ROOT / "studies", "normtutor_studies", ("pyproject.toml",)),
)


def build_wheels(folder: Path, source_too: bool = False) -> list[Path]:
    """Build the wheels into a folder; what other versions left there is removed."""
    with tempfile.TemporaryDirectory() as work:
        made = Path(work) / "made"
        for root, package, files in DISTRIBUTIONS:
            source = Path(work) / package
            shutil.copytree(
                root / package,
                source / package,
                ignore=shutil.ignore_patterns("__pycache__", "*.pyc", ".*"),
            )
            for name in files:
                shutil.copy(root / name, source)
            if source_too:
                build = "import sys, setuptools.build_meta as b; b.build_sdist(sys.argv[1])"
                run([sys.executable, "-c", build, str(made)], source)
            command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
            command += ["--disable-pip-version-check", "--no-build-isolation"]
            run([*command, "--wheel-dir", str(made), str(source)], source)
        folder.mkdir(parents=True, exist_ok=True)
        for old in (*folder.glob("*.whl"), *folder.glob("*.tar.gz")):
            old.unlink()
        for path in made.iterdir():
            shutil.move(path, folder / path.name)
    return sorted(folder.glob("*.whl"))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--source", action="store_true")
    parser.add_argument("--tag")
    arguments = parser.parse_args()
    if arguments.tag and arguments.tag != f"v{version()}":
        print(f"The tag {arguments.tag} is not v{version()}, the version here.", file=sys.stderr)
        return 1
    for wheel in build_wheels(arguments.folder.resolve(), arguments.source):
        print(wheel)
    return 0


if __name__ == "__main__":
    sys.exit(main())
