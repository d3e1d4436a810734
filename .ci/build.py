"""Build the site: execute the chapters in parallel, then let Jupyter Book render them.

Jupyter Book keeps the executed chapters in a cache whose key is the notebook alone. A chapter also
depends on the package, on the saved runs and on the versions of what is installed, so this script
keeps a digest of those beside the cache and throws the cache away when the digest has changed.
"""

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

import yaml
from jupyter_cache import get_cache
from jupyter_cache.executors import load_executor

ROOT = Path(__file__).resolve().parent.parent
# What the outputs of a chapter depend on, besides the notebook itself.
BEHIND_CHAPTERS = (
    "normtutor/**/*.py",
    "normtutor/results/*.json",
    "requirements.txt",
    "pyproject.toml",
)
# What the site depends on.
BEHIND_SITE = (*BEHIND_CHAPTERS, "book/**/*", "_config.yml", "_toc.yml", ".ci/build.py")

CELL_TIMEOUT = 180  # seconds; a chapter takes 30 on a quiet core, and CI is not quiet


def digest_of(patterns: tuple[str, ...], root: Path = ROOT) -> str:
    """Hash the files that match, with their names, and the interpreter that reads them."""
    digest = hashlib.sha256(f"{platform.python_version()} {platform.platform()}".encode())
    for path in sorted({path for pattern in patterns for path in root.glob(pattern)}):
        if path.is_file() and path.suffix != ".pyc":
            digest.update(path.relative_to(root).as_posix().encode() + b"\0")
            digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


def drop_stale_cache(build: Path, digest: str) -> bool:
    """Remove the cached executions unless they were made with this digest; say whether."""
    key = build / "chapters.txt"
    if key.exists() and key.read_text() == digest:
        return False
    shutil.rmtree(build / ".jupyter_cache", ignore_errors=True)
    build.mkdir(parents=True, exist_ok=True)
    key.write_text(digest)
    return True


def notebooks_in_toc(root: Path = ROOT) -> list[Path]:
    """List the notebooks to execute that the table of contents names, in its order.

    The stubs of the exercises fail until a student has filled them in.
    """

    def files(node: object) -> list[str]:
        if isinstance(node, list):
            return [name for item in node for name in files(item)]
        if isinstance(node, dict):
            own = [node[key] for key in ("root", "file") if key in node]
            return own + [name for value in node.values() for name in files(value)]
        return []

    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    candidates = [root / f"{name}.ipynb" for name in files(toc)]
    return [path for path in candidates if path.exists() and path.parent.name != "exercises"]


def execute(notebooks: list[Path], build: Path) -> bool:
    """Execute the notebooks that are not in the cache, on all cores; report what failed."""
    cache = get_cache(build / ".jupyter_cache")
    cache.change_cache_limit(1000)
    for path in notebooks:
        cache.add_nb_to_project(str(path))
    names = [str(path) for path in notebooks]
    # One notebook gains nothing from a pool of processes.
    executor = "local-parallel" if len(names) > 1 else "local-serial"
    result = load_executor(executor, cache).run_and_cache(filter_uris=names, timeout=CELL_TIMEOUT)
    succeeded, failed = result.succeeded, result.excepted
    if result.errored:
        # Kernels that start side by side can reach for the same port, and one of them dies.
        again = load_executor("local-serial", cache).run_and_cache(
            filter_uris=result.errored, timeout=CELL_TIMEOUT
        )
        succeeded += again.succeeded
        failed += again.excepted + again.errored
    for uri in succeeded:
        print(f"executed {os.path.relpath(uri, ROOT)}")
    for uri in failed:
        record = cache.get_project_record(uri)
        print(f"\n{os.path.relpath(uri, ROOT)} failed:\n{record.traceback or ''}", file=sys.stderr)
    return not failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT, help="folder that gets _build/html")
    parser.add_argument("--clean", action="store_true", help="remove the output folder first")
    arguments = parser.parse_args()
    output = arguments.output.resolve()
    build = output / "_build"
    # More than one thread makes small tensors wait for each other: 100 s instead of 0.7 s.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if arguments.clean:
        shutil.rmtree(build, ignore_errors=True)
    started = time.monotonic()
    index, done, digest = build / "html" / "index.html", build / "site.txt", digest_of(BEHIND_SITE)
    if index.exists() and done.exists() and done.read_text() == digest:
        print("Nothing has changed since the site was built. Open it with a browser:")
        print(f"    {index}")
        return 0
    drop_stale_cache(build, digest_of(BEHIND_CHAPTERS))
    # An earlier build that failed leaves pages that Sphinx would take for good ones.
    shutil.rmtree(build / "html", ignore_errors=True)
    if not execute(notebooks_in_toc(), build):
        return 1
    command = [Path(sys.executable).parent / "jupyter-book", "build", ROOT, "--path-output", output]
    # Every page is read again, and a warning or an unresolved reference is an error.
    command += ["--all", "-W", "--keep-going", "-n", "-q"]
    # Jupyter Book's own banners go; warnings and errors come by the other way.
    status = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
    if status == 0:
        done.write_text(digest)
        print(f"\nThe site is ready ({time.monotonic() - started:.0f} s). Open it with a browser:")
        print(f"    {index}")
    else:
        print("\nThe site was not built; see the messages above.", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
