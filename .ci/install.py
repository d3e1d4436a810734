"""Install requirements.txt into an environment; pip says what it does where somebody looks on.

Usage: python .ci/install.py ENVIRONMENT/bin/python [flags of pip]

Runs before anything is installed, so that the standard library must do.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(python: str, flags: list[str]) -> int:
    command = [python, "-m", "pip", "install", "--disable-pip-version-check", *flags]
    command += [] if sys.stderr.isatty() else ["--quiet"]
    return subprocess.call([*command, "-r", "requirements.txt"], cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
