"""A failure in a test of any folder fits on a screen; what each file of tests costs is measured."""

import gc
import json
import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

# On a server of continuous integration pytest would write out every difference in full: over a
# minute's work for two long lists, of which a screen shows nothing.
for name in ("CI", "BUILD_NUMBER"):
    os.environ.pop(name, None)

LINES = 56  # with the lines around it, a failure stays below 60


def shortened(text: str, most: int = LINES) -> str:
    """Keep the beginning and the end of a text, and say how much is left out."""
    lines = text.splitlines()
    if len(lines) <= most:
        return text
    head, tail = most // 3, most - most // 3 - 1
    left_out = f"... {len(lines) - head - tail} lines left out; -vvv shows them ..."
    return "\n".join([*lines[:head], left_out, *lines[-tail:]])


def cpu_seconds() -> float:
    """Processor time of this process and of those that it has waited for."""
    return sum(os.times()[:4])


# To look for garbage among what is imported and collected, which stays until the end, takes half of
# the time until the first test.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    gc.freeze()
    gc.enable()


BEGUN = pytest.StashKey[float]()
COST = "cpu seconds"
seconds: Counter[str] = Counter()  # of each file of tests


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[BEGUN] = cpu_seconds()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown":
        seconds[report.nodeid.split("::")[0]] += dict(report.user_properties).get(COST, 0.0)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where NORMTUTOR_SECONDS names a file, the seconds of what was run are put into it."""
    name = os.environ.get("NORMTUTOR_SECONDS")
    if name and not os.environ.get("PYTEST_XDIST_WORKER"):
        path = Path(name)
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        known |= {file: round(cost, 1) for file, cost in seconds.items()}
        text = json.dumps(dict(sorted(known.items())), indent=1)
        path.write_text(f"{text}\n", encoding="utf-8")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
    if call.when == "teardown":
        item.user_properties.append((COST, cpu_seconds() - item.stash[BEGUN]))
    report = yield
    if report.failed and item.config.get_verbosity() < 3:
        report.longrepr = shortened(str(report.longrepr))
        room = (LINES - report.longrepr.count("\n")) // max(1, len(report.sections)) - 2
        report.sections = [
            (name, shortened(text, room)) for name, text in report.sections if room > 3
        ]
    return report
