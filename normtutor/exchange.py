r"""Parameters and settings of a norm between torch, Keras, Flax and ONNX.

The four libraries store the same norm in four ways. What differs:

================  ===================  ============================  =============  ==============
\                 torch                Keras                         Flax           ONNX
================  ===================  ============================  =============  ==============
γ                 ``weight``           ``gamma``; RMSNorm ``scale``  ``scale``      ``scale``
β                 ``bias``             ``beta``                      ``bias``       ``B``
running mean      ``running_mean``     ``moving_mean``               ``mean``       ``input_mean``
running variance  ``running_var``      ``moving_variance``           ``var``        ``input_var``
its divisor       n − 1                n                             n              n
momentum counts   the new value        the old value                 the old value  the old value
ε is called       ``eps``              ``epsilon``                   ``epsilon``    ``epsilon``
ε of BatchNorm    1e-5                 1e-3                          1e-5           1e-5
ε of the others   1e-5; RMSNorm 2^-23  1e-3; RMSNorm 1e-6            1e-6           1e-5
features on axis  1                    -1                            -1             1
================  ===================  ============================  =============  ==============

The last three rows are the defaults. The layers of this package use torch's names, so they count
as "torch".
"""

from collections.abc import Mapping
from typing import Any

NORMS = ("BatchNorm", "LayerNorm", "RMSNorm", "GroupNorm")

# What each library calls what torch calls so.
NAMES: dict[str, dict[str, str]] = {
    "torch": {
        name: name
        for name in (
            "weight",
            "bias",
            "running_mean",
            "running_var",
            "eps",
            "momentum",
            "feature_axis",
            "num_groups",
        )
    },
    "keras": {
        "weight": "gamma",
        "bias": "beta",
        "running_mean": "moving_mean",
        "running_var": "moving_variance",
        "eps": "epsilon",
        "momentum": "momentum",
        "feature_axis": "axis",
        "num_groups": "groups",
    },
    "flax": {
        "weight": "scale",
        "bias": "bias",
        "running_mean": "mean",
        "running_var": "var",
        "eps": "epsilon",
        "momentum": "momentum",
        "feature_axis": "axis",
        "num_groups": "num_groups",
    },
    "onnx": {
        "weight": "scale",
        "bias": "B",
        "running_mean": "input_mean",
        "running_var": "input_var",
        "eps": "epsilon",
        "momentum": "momentum",
        "num_groups": "num_groups",
    },
}
# ε where nothing is said; None is the machine epsilon, which only torch's RMSNorm has.
EPS: dict[str, dict[str, float | None]] = {
    "torch": {"BatchNorm": 1e-5, "LayerNorm": 1e-5, "RMSNorm": None, "GroupNorm": 1e-5},
    "keras": {"BatchNorm": 1e-3, "LayerNorm": 1e-3, "RMSNorm": 1e-6, "GroupNorm": 1e-3},
    "flax": {"BatchNorm": 1e-5, "LayerNorm": 1e-6, "RMSNorm": 1e-6, "GroupNorm": 1e-6},
    "onnx": {"BatchNorm": 1e-5, "LayerNorm": 1e-5, "RMSNorm": 1e-5, "GroupNorm": 1e-5},
}
MOMENTUM = {"torch": 0.1, "keras": 0.99, "flax": 0.99, "onnx": 0.9}  # as each library writes it
FEATURE_AXIS = {"torch": 1, "keras": -1, "flax": -1, "onnx": 1}
FLOAT32_EPS = 2.0**-23
IGNORED = ("num_batches_tracked",)


def convert(
    state: Mapping[str, Any],
    norm: str,
    *,
    source: str,
    target: str,
    values_per_feature: int | None = None,
) -> dict[str, Any]:
    """Rewrite the parameters and settings of a norm from one library's form into another's.

    Parameters
    ----------
    state : mapping
        Parameters, running statistics and settings under the names of ``source``. A setting that
        is missing has the library's own default, which the result states.
    norm : {"BatchNorm", "LayerNorm", "RMSNorm", "GroupNorm"}
        InstanceNorm is GroupNorm with one feature in each group.
    source, target : {"torch", "keras", "flax", "onnx"}
    values_per_feature : int, optional
        n, how many values of a feature a training batch had. With it the running variance is turned
        from unbiased to biased or back; without it, it stays, and is off by the factor n / (n − 1).

    Returns
    -------
    dict
        Parameters and settings under the names of ``target``, values unchanged except for the
        momentum, which counts the old value in some libraries and the new one in others, and the
        running variance. For BatchNorm the axis of the features is always stated, since the
        libraries' defaults differ.

    Raises
    ------
    ValueError
        For an unknown library, norm or name; for a momentum of None, the plain average, which only
        torch has; for features on another axis than 1 in ONNX.

    Examples
    --------
    >>> convert({"momentum": 0.1, "eps": 1e-5}, "BatchNorm", source="torch", target="keras")
    {'momentum': 0.9, 'epsilon': 1e-05, 'axis': 1}

    The variance of batches of five values, by n − 1 and by n:

    >>> convert({"running_var": 10.0}, "BatchNorm", source="torch", target="onnx",
    ...         values_per_feature=5)["input_var"]
    8.0
    >>> convert({"var": 8.0}, "BatchNorm", source="flax", target="torch",
    ...         values_per_feature=5)["running_var"]
    10.0

    From Keras into a layer: the settings go to the constructor, the arrays into the state dict.

    >>> import numpy as np
    >>> import torch
    >>> from normtutor.layers import BatchNorm
    >>> names = ("gamma", "beta", "moving_mean", "moving_variance")  # as get_weights() returns them
    >>> weights = np.full(3, 2.0), np.zeros(3), np.ones(3), np.full(3, 4.0)
    >>> keras = dict(zip(names, weights)) | {"epsilon": 1e-3, "momentum": 0.99}
    >>> found = convert(keras, "BatchNorm", source="keras", target="torch")
    >>> layer = BatchNorm(3, **{n: found.pop(n) for n in ("eps", "momentum", "feature_axis")})
    >>> layer.load_state_dict({n: torch.as_tensor(array) for n, array in found.items()})
    <All keys matched successfully>
    >>> layer.eps, layer.momentum, layer.feature_axis
    (0.001, 0.01, -1)
    """
    for library in (source, target):
        if library not in NAMES:
            raise ValueError(f"unknown library {library!r}. Choose one of: {', '.join(NAMES)}.")
    if norm not in NORMS:
        raise ValueError(f"unknown norm {norm!r}. Choose one of: {', '.join(NORMS)}.")
    said = {name: torchs for torchs, name in _names(source, norm).items()}
    unknown = [name for name in state if name not in said and name not in IGNORED]
    if unknown:
        raise ValueError(
            f"{', '.join(unknown)} is not a name that {source} uses for {norm}. Its names are: "
            f"{', '.join(said)}."
        )
    plain = {said[name]: value for name, value in state.items() if name not in IGNORED}

    eps = plain.setdefault("eps", EPS[source][norm])
    if eps is None and target != "torch":
        plain["eps"] = FLOAT32_EPS
    if norm == "BatchNorm":
        momentum = plain.setdefault("momentum", MOMENTUM[source])
        if momentum is None and target != "torch":
            raise ValueError(
                "momentum=None is the plain average of all batches, which only torch has. Give a "
                "number; it matters only where training goes on."
            )
        if (source == "torch") != (target == "torch"):
            plain["momentum"] = round(1 - momentum, 12)
        axis = plain.setdefault("feature_axis", FEATURE_AXIS[source])
        if target == "onnx":
            if axis != 1:
                raise ValueError(
                    f"ONNX has the features of BatchNorm on axis 1; got {axis}. Transpose before "
                    "and after it."
                )
            del plain["feature_axis"]
    if plain.get("running_var") is not None and values_per_feature is not None:
        if values_per_feature < 2:
            raise ValueError(f"values_per_feature must be at least 2; got {values_per_feature}.")
        factor = values_per_feature / (values_per_feature - 1)
        if source != "torch" and target == "torch":
            plain["running_var"] = plain["running_var"] * factor
        if source == "torch" and target != "torch":
            plain["running_var"] = plain["running_var"] / factor
    names = _names(target, norm)
    return {names[name]: value for name, value in plain.items()}


def _names(library: str, norm: str) -> dict[str, str]:
    """What ``library`` calls the parts of ``norm``, by torch's names."""
    parts = ["weight", "eps"] + ([] if norm == "RMSNorm" else ["bias"])
    if norm == "GroupNorm":
        parts.append("num_groups")
    if norm == "BatchNorm":
        parts += ["running_mean", "running_var", "momentum", "feature_axis"]
    names = {part: NAMES[library][part] for part in parts if part in NAMES[library]}
    if library == "keras" and norm == "RMSNorm":
        names["weight"] = "scale"
    return names
