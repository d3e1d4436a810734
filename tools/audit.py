"""Measure the built site in a real browser with Lighthouse.

The site is served with compression, as a web server would. Lighthouse imitates a telephone of the
middle class on a slow network, or a desktop computer; what else the machine does moves the figures
of the telephone, so that the median of several runs counts. axe-core looks at all pages in
tests/site/test_pages.py.
"""

import argparse
import asyncio
import json
import os
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
from tabulate import tabulate

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("tests/site", "book/_ext")]
from browser import OPTIONS, WITH_WINDOWS, first_installed  # noqa: E402
from from_npm import NODE, package  # noqa: E402
from site_pages import MEASURED  # noqa: E402

# What readers have: Lighthouse's times are those of a browser with a window.
CHROMIUM = first_installed(*WITH_WINDOWS)
LIGHTHOUSE = package("lighthouse") / "cli" / "index.js"
RUNS = 5  # as a telephone
CATEGORIES = ("performance", "accessibility", "best-practices", "seo")
HEAD = ("page", "performance, phone", "desktop", "accessibility", "best practices", "SEO", "kB")


def serve(site: Path) -> str:
    """Serve a folder with compression from a thread of its own; return its address."""
    handler = (r"/(.*)", tornado.web.StaticFileHandler, {"path": str(site)})
    sockets = tornado.netutil.bind_sockets(0, "127.0.0.1")

    async def run() -> None:
        options: dict[str, Any] = {"compress_response": True, "log_function": lambda _: None}
        application = tornado.web.Application([handler], **options)
        tornado.httpserver.HTTPServer(application).add_sockets(sockets)
        await asyncio.Event().wait()

    threading.Thread(target=lambda: asyncio.run(run()), daemon=True).start()
    return f"http://127.0.0.1:{sockets[0].getsockname()[1]}"


def lighthouse(address: str, desktop: bool, folder: Path) -> dict[str, Any]:
    """Run Lighthouse once; return its report."""
    report = folder / "report.json"
    flags = ["--headless", *(option for option in OPTIONS if " " not in option)]
    command = [str(NODE), str(LIGHTHOUSE), address, "--quiet", "--output=json"]
    command += [f"--output-path={report}", f"--chrome-flags={' '.join(flags)}"]
    command += ["--preset=desktop"] if desktop else []
    subprocess.run(command, check=True, env={**os.environ, "CHROME_PATH": str(CHROMIUM)})
    return json.loads(report.read_text(encoding="utf-8"))


def scores(reports: list[dict[str, Any]]) -> dict[str, int]:
    """Take the median of each category over several runs, in percent."""
    found = {name: [one["categories"][name]["score"] for one in reports] for name in CATEGORIES}
    return {name: round(100 * statistics.median(values)) for name, values in found.items()}


def weight(report: dict[str, Any]) -> int:
    """Add up what a page transfers apart from its figures, in kB."""
    requests = report["audits"]["network-requests"]["details"]["items"]
    return round(sum(r["transferSize"] for r in requests if "/_images/" not in r["url"]) / 1000)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", default=MEASURED, help="such as book/04_invariance")
    arguments = parser.parse_args()
    if CHROMIUM is None:
        print("The audit needs Chromium; none is installed.", file=sys.stderr)
        return 1
    address = serve(ROOT / "_build" / "html")
    rows, below = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.pages:
            url = f"{address}/{name}.html"
            slow = [lighthouse(url, False, Path(folder)) for _ in range(RUNS)]
            phone, desktop = scores(slow), scores([lighthouse(url, True, Path(folder))])
            worst = [min(phone[key], desktop[key]) for key in CATEGORIES[1:]]
            speed = phone["performance"], desktop["performance"]
            if min(speed) < 95 or min(worst) < 100:
                below.append(name)
            rows.append((name.removeprefix("book/"), *speed, *worst, weight(slow[0])))
            print(f"{len(rows)} of {len(arguments.pages)}: {name}", file=sys.stderr)
    print(tabulate(rows, HEAD, tablefmt="github"))
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
