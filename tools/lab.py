"""Open JupyterLab on a reader's own copies of the notebooks.

The copies lie in ``notebooks/``, which Git ignores. When the book is built anew, a notebook that
its reader has not touched is replaced; one that he has changed stays as it is.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MADE = ROOT / "_build" / "html" / "notebooks"
OWN = ROOT / "notebooks"
RECORD = ".copied.json"  # what each copy was when it was made


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def copy_notebooks(made: Path, own: Path) -> tuple[list[Path], list[Path]]:
    """Bring the copies up to date; return those that are new, and those that were left alone."""
    own.mkdir(parents=True, exist_ok=True)
    record = own / RECORD
    copied = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    new, left_alone = [], []
    for source in sorted(made.rglob("*.ipynb")):
        name = source.relative_to(made).as_posix()
        target, wanted = own / name, digest(source)
        present = digest(target) if target.exists() else None
        if present == wanted:
            copied[name] = wanted
        elif present is None or present == copied.get(name):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            copied[name] = wanted
            new.append(target)
        elif copied.get(name) != wanted:
            left_alone.append(target)
    record.write_text(json.dumps(copied, indent=1) + "\n", encoding="utf-8")
    return new, left_alone


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("options", nargs="*", help="for jupyter lab, after --")
    arguments = parser.parse_args()
    new, left_alone = copy_notebooks(MADE, OWN)
    if left_alone:
        print("You have changed these, so they stay as they are; delete one to get the new one:")
        print("".join(f"  {path.relative_to(ROOT)}\n" for path in left_alone), end="", flush=True)
    if new:
        # JupyterLab shows no stored figures of a notebook that it does not trust.
        trust = "from nbformat.sign import TrustNotebookApp as app; app.launch_instance()"
        command = [sys.executable, "-c", trust, *map(str, new)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    command = [
        sys.executable,
        "-m",
        "jupyter",
        "lab",
        "--notebook-dir",
        str(OWN),
        *arguments.options,
    ]
    os.execv(sys.executable, command)


if __name__ == "__main__":
    sys.exit(main())
