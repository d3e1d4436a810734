"""What nearly every chapter imports, imported once for all kernels (see kernels.py)."""

import os

# Before Matplotlib: it asks once. A kernel sets the same.
os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")

import ipykernel.kernelapp  # noqa: F401
import matplotlib.pyplot  # noqa: F401
import pandas  # noqa: F401
import scipy.stats  # noqa: F401
import sklearn.datasets  # noqa: F401
import torch._dynamo  # noqa: F401  (the first seed, or the first optimizer, imports it)

# Processor time: a reader's kernel takes it for itself.
seconds = sum(os.times()[:2])
