"""Settings that every test shares."""

import gc
import os
import sys
from pathlib import Path

# Small tensors on several threads wait for each other. torch reads this when it is imported, which
# takes seconds: the tests of the site do without.
os.environ["OMP_NUM_THREADS"] = "1"

import hypothesis
import pytest

# The site's extensions and the tools are imported by their names.
sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("tools", "book/_ext")]

# To look for garbage among what is imported and collected, which stays until the end, takes half of
# the time until the first test.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    gc.freeze()
    gc.enable()


# A test must pass or fail for what it says, not for the load of the machine or the luck of a draw.
hypothesis.settings.register_profile("normtutor", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("normtutor")
