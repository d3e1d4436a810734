"""A browser without a window, for the tests of the site and of its interactive figures."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


def browse(address: str, profile: Path) -> tuple[str, str]:
    """Open a page without a window; the page as it then stands, and the browser's log."""
    result = subprocess.run(
        [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            *("--disable-background-networking", "--disable-dev-shm-usage", "--disable-extensions"),
            *("--enable-logging=stderr", "--log-level=0", "--virtual-time-budget=60000"),
            # Only this machine: what comes from elsewhere must not decide a test.
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            *(f"--user-data-dir={profile}", "--dump-dom", address),
        ],
        capture_output=True,
        text=True,
        timeout=240,
    )
    return result.stdout, result.stderr


def console_errors(log: str) -> list[str]:
    """Pick the script errors out of a browser's log."""
    lines = [line for line in log.splitlines() if ":CONSOLE" in line]
    return [line for line in lines if re.search(r"Uncaught|TypeError|SyntaxError|invalid", line)]
