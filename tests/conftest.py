"""Settings that every test shares."""

import os
import sys
from pathlib import Path

# Small tensors on several threads wait for each other. torch reads this when it is imported, which
# takes seconds: the tests of the site do without.
os.environ["OMP_NUM_THREADS"] = "1"

import hypothesis

# The scripts of the build and the site's extensions are imported by their names.
sys.path += [str(Path(__file__).parents[1] / folder) for folder in (".ci", "book/_ext")]

# A test must pass or fail for what it says, not for the load of the machine or the luck of a draw.
hypothesis.settings.register_profile("normtutor", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("normtutor")
