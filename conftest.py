"""A failure in a test of any folder fits on a screen."""

import os
from collections.abc import Generator
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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
    report = yield
    if report.failed and item.config.get_verbosity() < 3:
        report.longrepr = shortened(str(report.longrepr))
        room = (LINES - report.longrepr.count("\n")) // max(1, len(report.sections)) - 2
        report.sections = [
            (name, shortened(text, room)) for name, text in report.sections if room > 3
        ]
    return report
