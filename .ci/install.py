"""Install requirements.txt into an environment, with a bar where somebody looks on.

Usage: python .ci/install.py ENVIRONMENT/bin/python [flags of pip]

Runs before anything is installed, so that the standard library must do.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parent.parent / "requirements.txt"
# pip says one of these for each package.
STEP = re.compile(r"^\s*(Collecting|Requirement already satisfied:|Processing|Obtaining) ?(\S*)")
WIDTH = 40


def bar(done: int, whole: int, name: str) -> str:
    filled = min(WIDTH, WIDTH * done // max(1, whole))
    return (
        f"\r  {'#' * filled}{'.' * (WIDTH - filled)} {min(done, whole)} of {whole}  {name[:30]:30}"
    )


def main(python: str, flags: list[str]) -> int:
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    whole = sum(bool(re.match(r"[A-Za-z-]", line)) for line in lines)
    command = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-color"]
    command += ["--progress-bar", "off", *flags, "-r", str(REQUIREMENTS)]
    said, done, watched = [], 0, sys.stderr.isatty()
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        cwd=REQUIREMENTS.parent,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as pip:
        for line in pip.stdout or ():
            said.append(line)
            if found := STEP.match(line):
                done += 1
                if watched:
                    print(bar(done, whole, found[2]), end="", file=sys.stderr, flush=True)
    if watched:
        print("\r" + " " * (WIDTH + 50), end="\r", file=sys.stderr)
    if pip.returncode:
        print("".join(said[-30:]), file=sys.stderr)
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
