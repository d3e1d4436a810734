"""Settings that every test shares."""

import os

# Small tensors on several threads wait for each other. torch reads this when it is imported, which
# takes seconds: the tests of the site do without.
os.environ["OMP_NUM_THREADS"] = "1"

import hypothesis

# A test must pass or fail for what it says, not for the load of the machine or the luck of a draw.
hypothesis.settings.register_profile("normtutor", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("normtutor")
