"""normtutor: reference implementations of the normalization layers of deep networks.

- :mod:`normtutor.norms`: the formulas, forward and backward, for NumPy, torch and JAX arrays.
- :mod:`normtutor.layers`: the same formulas as ``torch.nn`` modules.

``import normtutor`` needs neither torch nor matplotlib.
"""

__version__ = "0.1.0"
