"""Settings that every test shares."""

import os

# Before torch starts its threads: small tensors on several threads wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis

try:
    import torch
except ModuleNotFoundError:  # the formulas are tested without torch, too
    pass
else:
    torch.set_num_threads(1)

# A test must pass or fail for what it says, not for the load of the machine or the luck of a draw.
hypothesis.settings.register_profile("normtutor", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("normtutor")
