r"""Which changes of the weights and of the data leave a norm's output unchanged?

A linear map, then a norm: :math:`z = W x + b`, :math:`y = \operatorname{norm}(z)`, for x of shape
(B, L, d) and W of shape (H, d), one row per unit. There are seven transformations of W or x. The
question for each norm and each of them: is y the same afterwards?

:func:`audit` finds out by trying. It runs the norm before and after on random shapes, scales and
dtypes. One draw on which y changes by more than rounding refutes the invariance, and a small
counterexample in whole numbers is kept; as long as no draw does, the verdict is yes. That is
evidence, not proof: the proofs are in the chapter. :func:`rule` derives the verdicts from the three
choices of a norm.

>>> def my_norm(z):  # divide each token by the sum of its absolute values
...     return z / abs(z).sum(axis=-1, keepdims=True)
>>> row = audit(my_norm)
>>> row["one token rescaled"].verdict, row["data set recentred"].verdict
('yes', 'no')
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from normtutor import norms
from normtutor.moments import mean_square, widen

Array = np.ndarray
Norm = Callable[[Array], Array]

YES, UP_TO_EPS, SIGN, NO = "yes", "up to eps", "sign flips", "no"

# Rounding may move y this many times as far as the last digits of the inputs do.
SAFETY = 30
# Where the last digits alone move y by more than this many machine epsilons, or by more than this
# share of it, a draw tells nothing: a norm that is all noise would hide every change.
ILL_CONDITIONED, ILL_CONDITIONED_SHARE = 1e4, 0.02


class Setup(NamedTuple):
    """What comes before the norm: data, weights, and a bias or None."""

    x: Array  # (B, L, d)
    weight: Array  # (H, d)
    bias: Array | None  # (H,)


def linear(x: Array, weight: Array, bias: Array | None) -> Array:
    """Return :math:`z = W x + b` for every token, (B, L, d) -> (B, L, H)."""
    z = x @ weight.T
    return z if bias is None else z + bias


def weight_normalized(x: Array, weight: Array, bias: Array | None) -> Array:
    """The linear map of WeightNorm: every row of W is first divided by its length."""
    return linear(x, norms.weight_norm(weight)[0], bias)


# --- the transformations --------------------------------------------------------------------------


class Dice:
    """Draws the factors and shifts of a transformation.

    Parameters
    ----------
    rng : Generator
    sign : int
        1 for positive factors, −1 for negative ones.
    whole : bool
        Whether to draw whole numbers, for a counterexample that can be checked by hand.
    """

    def __init__(self, rng: np.random.Generator, sign: int = 1, whole: bool = False) -> None:
        self.rng, self.sign, self.whole = rng, sign, whole

    def factor(self) -> float:
        """One factor that is not close to 1: 2 or 3, or in [1/4, 1/2] or [2, 4]."""
        if self.whole:
            return self.sign * float(self.rng.integers(2, 4))
        return self.sign * float(2.0 ** (self.rng.choice([-1, 1]) * self.rng.uniform(1, 2)))

    def factors(self, count: int) -> Array:
        """``count`` factors that differ: 1 to 3, or in [1/4, 4]; half of them negative."""
        signs = self.rng.permutation(np.resize([float(self.sign), 1.0], count))
        if self.whole:
            return signs * self.rng.permutation(np.resize([1.0, 2.0, 3.0], count))
        return signs * np.exp2(self.rng.uniform(-2, 2, count))

    def shift(self, count: int, like: Array) -> Array:
        """A vector of ``count`` entries as large as those of ``like``, or from −3 to 3."""
        if self.whole:
            return self.rng.integers(-3, 4, count).astype(np.float64)
        return _scale(like) * self.rng.standard_normal(count)

    def choose(self, *lengths: int) -> tuple[int, ...]:
        """One index along each of some axes."""
        return tuple(int(self.rng.integers(n)) for n in lengths)


Change = Callable[[Setup, Dice], tuple[Setup, Any]]


class Transformation(NamedTuple):
    """One column of the table.

    ``change(setup, dice)`` returns the new setup, and the sign that each entry of y takes if y
    follows nothing but the sign of the factors. ``varies`` names the axes of z along which the
    factor or the shift differs.
    """

    change: Change
    kind: str  # "scale" or "shift"
    varies: str  # letters of "BLH"
    of: str  # "weights" or "data"


def _scale(a: Array) -> float:
    return float(np.sqrt(np.mean(np.square(a, dtype=np.float64))))


def _times(a: Array, factor: Any) -> Array:
    return (a * np.asarray(factor)).astype(a.dtype)


def _plus(a: Array, shift: Array) -> Array:
    return (a + shift).astype(a.dtype)


def rescale_matrix(setup: Setup, dice: Dice) -> tuple[Setup, Any]:
    """Multiply W by one factor."""
    return setup._replace(weight=_times(setup.weight, dice.factor())), dice.sign


def rescale_vectors(setup: Setup, dice: Dice) -> tuple[Setup, Any]:
    """Multiply each unit's weights by its own factor."""
    factors = dice.factors(setup.weight.shape[0])
    return setup._replace(weight=_times(setup.weight, factors[:, None])), np.sign(factors)


def recentre_matrix(setup: Setup, dice: Dice) -> tuple[Setup, Any]:
    """Add the same row to the weights of every unit."""
    row = dice.shift(setup.weight.shape[1], setup.weight)
    return setup._replace(weight=_plus(setup.weight, row)), 1


def rescale_data(setup: Setup, dice: Dice) -> tuple[Setup, Any]:
    """Multiply all data by one factor."""
    return setup._replace(x=_times(setup.x, dice.factor())), dice.sign


def recentre_data(setup: Setup, dice: Dice) -> tuple[Setup, Any]:
    """Add the same vector to every token."""
    return setup._replace(x=_plus(setup.x, dice.shift(setup.x.shape[2], setup.x))), 1


def rescale_sequence(setup: Setup, dice: Dice) -> tuple[Setup, Any]:
    """Multiply all tokens of one sequence by one factor."""
    factors = np.ones((setup.x.shape[0], 1, 1))
    factors[dice.choose(setup.x.shape[0])] = dice.factor()
    return setup._replace(x=_times(setup.x, factors)), np.sign(factors)


def rescale_token(setup: Setup, dice: Dice) -> tuple[Setup, Any]:
    """Multiply one token by a factor."""
    factors = np.ones((*setup.x.shape[:2], 1))
    factors[dice.choose(*setup.x.shape[:2])] = dice.factor()
    return setup._replace(x=_times(setup.x, factors)), np.sign(factors)


TRANSFORMATIONS: dict[str, Transformation] = {
    "weight matrix rescaled": Transformation(rescale_matrix, "scale", "", "weights"),
    "weight vectors rescaled": Transformation(rescale_vectors, "scale", "H", "weights"),
    "weight matrix recentred": Transformation(recentre_matrix, "shift", "BL", "weights"),
    "data set rescaled": Transformation(rescale_data, "scale", "", "data"),
    "data set recentred": Transformation(recentre_data, "shift", "H", "data"),
    "one sequence rescaled": Transformation(rescale_sequence, "scale", "B", "data"),
    "one token rescaled": Transformation(rescale_token, "scale", "BL", "data"),
}


# --- the norms ------------------------------------------------------------------------------------


class Subject(NamedTuple):
    """How a norm is tested; the arguments of :func:`audit`."""

    norm: Callable[[Array], Any]
    linear: Callable[[Array, Array, Array | None], Array] = linear
    frozen: bool = False


def _per_feature(statistic: Any) -> Array:
    return np.ravel(statistic)


def _batch_norm_evaluation(before: Array) -> Norm:
    stats = norms.normalize(before, (0, 1))[1]
    mean, variance = _per_feature(stats.mean), _per_feature(stats.square)
    return lambda z: norms.batch_norm(
        z, running_mean=mean, running_var=variance, training=False, eps=_TINY, feature_axis=-1
    )[0]


def _power_norm_frozen(before: Array) -> Norm:
    psi_squared = _per_feature(mean_square(widen(before), (0, 1)))
    return lambda z: norms.power_norm(z, None, None, psi_squared, training=False, eps=0.0)[0]


def _power_norm_following(before: Array) -> Norm:
    start = _per_feature(mean_square(widen(before), (0, 1)))

    def norm(z: Array) -> Array:
        y, psi_squared = z, start
        # The limit is the same for every alpha; with 0.01 ten steps leave 1e-20 of the past.
        for _ in range(11):
            y, _, psi_squared = norms.power_norm(z, None, None, psi_squared, alpha=0.01, eps=0.0)
        return y

    return norm


def _scaled_power_norm_frozen(before: Array) -> Norm:
    scaled = norms.rms_norm(widen(before), eps=0.0)[0]
    psi_squared = _per_feature(mean_square(scaled, (0, 1)))
    return lambda z: norms.power_norm(
        norms.rms_norm(z, eps=0.0)[0], None, None, psi_squared, training=False, eps=0.0
    )[0]


# BatchNorm refuses an epsilon of exactly 0 in training; this one vanishes next to any variance.
_TINY = float(np.finfo(np.float64).tiny)


def subject_of(choices: norms.Choices) -> Subject:
    """Put the norm of a row of the table to the test, in training and with ε as good as 0.

    Parameters
    ----------
    choices : Choices
        As in :data:`normtutor.norms.TABLE` or :data:`normtutor.norms.RELATIVES`.
    """
    formula = norms.formula_of(choices)
    if choices.source is not norms.Source.WEIGHTS:
        return Subject(lambda z: formula(z, _TINY))
    return Subject(lambda z: z, lambda x, w, bias: linear(x, formula(w, _TINY), bias))


# In the order of the papers' tables; what a running statistic makes of a norm stands by its side.
_PLAIN = {name: subject_of(row) for name, row in norms.TABLE.items() if name != "PowerNorm"}
NORMS: dict[str, Subject] = {
    "BatchNorm": _PLAIN["BatchNorm"],
    "BatchNorm, eval": Subject(_batch_norm_evaluation, frozen=True),
    **{name: _PLAIN[name] for name in ("WeightNorm", "LayerNorm", "RMSNorm")},
    **{name: _PLAIN[name] for name in _PLAIN if name != "PowerNorm-V"},
    "PowerNorm-V": _PLAIN["PowerNorm-V"],
    "PowerNorm, frozen": Subject(_power_norm_frozen, frozen=True),
    "PowerNorm, settled": Subject(_power_norm_following, frozen=True),
    "PowerNorm, scaled": Subject(_scaled_power_norm_frozen, frozen=True),
}


# --- what the three choices imply -----------------------------------------------------------------


def rule(choices: norms.Choices, transformation: Transformation) -> bool:
    """Say whether a transformation leaves the output of a norm with these choices unchanged.

    It does if the factor or shift is the same on all cells that share a statistic, and, for a
    shift, if the norm subtracts a mean. A statistic that is not computed from the present data or
    weights does not follow any change.

    Parameters
    ----------
    choices : Choices
        As in :data:`normtutor.norms.TABLE`.
    transformation : Transformation

    Examples
    --------
    >>> rule(norms.TABLE["LayerNorm"], TRANSFORMATIONS["weight matrix recentred"])
    True
    >>> rule(norms.TABLE["RMSNorm"], TRANSFORMATIONS["weight matrix recentred"])
    False
    """
    if not choices.source.follows:
        return False
    if not choices.axes:  # the statistic is the length of each unit's weights
        return transformation.of == "weights" and transformation.kind == "scale"
    shared = set(choices.axes.upper())
    constant = not shared & set(transformation.varies)
    return constant and (transformation.kind == "scale" or choices.statistic.centred)


def epsilon_factor(statistic: Any, eps: float, delta: float) -> Any:
    r"""Factor by which y grows when z is multiplied by ``delta`` and ε is not 0.

    .. math::

        \frac{y'}{y} = \sqrt{\frac{s^2 + \varepsilon}{s^2 + \varepsilon / \delta^2}}

    Parameters
    ----------
    statistic : float or array
        :math:`s^2`, the variance or mean square before the change.
    eps : float
        ε, inside the root.
    delta : float
        Positive.

    Examples
    --------
    >>> round(float(epsilon_factor(1.0, 1e-5, 10.0)) - 1, 9)
    4.95e-06
    """
    return np.sqrt((statistic + eps) / (statistic + eps / delta**2))


def memory_factor(delta: float, updates: Any, alpha: float) -> Any:
    r"""Factor by which PowerNorm's y is off, some updates after z has been multiplied by ``delta``.

    .. math::

        \frac{y'}{y} = \frac{\delta}{\sqrt{\alpha^k + (1 - \alpha^k)\, \delta^2}}

    ψ² has settled on one batch; then come k updates on the multiplied batch.

    Parameters
    ----------
    delta : float
        Positive.
    updates : int or array of int
        k.
    alpha : float
        The weight of the past in ψ².

    Examples
    --------
    >>> memory_factor(10.0, 0, 0.9)
    10.0
    >>> steps = np.arange(100)  # how many until y is within 10%
    >>> [int((abs(memory_factor(d, steps, 0.9) - 1) < 0.1).argmax()) for d in (10.0, 0.1)]
    [17, 58]
    """
    past = alpha ** np.asarray(updates)
    factor = delta / np.sqrt(past + (1 - past) * delta**2)
    return float(factor) if factor.ndim == 0 else factor


# --- the audit ------------------------------------------------------------------------------------


class Counterexample(NamedTuple):
    """One setup, before and after, for which y changes, and the place where it changes most."""

    before: Setup
    after: Setup
    y_before: Array
    y_after: Array
    place: tuple[int, ...]

    def __str__(self) -> str:
        position = ", ".join(str(i) for i in self.place)
        return f"y[{position}] = {self.y_before[self.place]:.3f} -> {self.y_after[self.place]:.3f}"


class Cell(NamedTuple):
    r"""One cell of the table.

    ``change`` is the largest :math:`\lVert y' - y \rVert / \lVert y \rVert` over the draws in
    the first dtype, and ``by_dtype`` the largest in each. ``excess`` is the largest change in
    units of what the last digits of the inputs do to y on the same draw.
    """

    verdict: str
    change: float
    excess: float
    by_dtype: dict[str, float]
    counterexample: Counterexample | None


class Row(dict[str, Cell]):
    """The cells of one norm: name of the transformation -> :class:`Cell`."""

    def __str__(self) -> str:
        lines = [f"{'':25}{'verdict':12}{'change':10}for example"]
        for name, cell in self.items():
            # The digits of a rounding error differ between machines.
            change = "rounding" if cell.verdict == YES else f"{cell.change:.1e}"
            shown = "" if cell.counterexample is None else str(cell.counterexample)
            lines.append(f"{name:25}{cell.verdict:12}{change:10}{shown}".rstrip())
        return "\n".join(lines)

    __repr__ = __str__


class Table(dict[str, Row]):
    """The rows of several norms. Prints as text; shows as a table in a notebook."""

    def __str__(self) -> str:
        names = list(next(iter(self.values())))
        width = max(len(norm) for norm in self) + 2
        heads = [name.split() for name in names]
        depth = max(len(words) for words in heads)
        words_below = [[row[name].verdict for row in self.values()] for name in names]
        columns = [
            max(len(word) for word in [*above, *below]) + 1
            for above, below in zip(heads, words_below, strict=True)
        ]
        lines = []
        for level in range(depth):
            words = [head[level] if level < len(head) else "" for head in heads]
            cells = "".join(f"{w:{c}}" for w, c in zip(words, columns, strict=True))
            lines.append((" " * width + cells).rstrip())
        for norm, row in self.items():
            cells = "".join(f"{row[n].verdict:{c}}" for n, c in zip(names, columns, strict=True))
            lines.append(f"{norm:{width}}{cells}".rstrip())
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        names = list(next(iter(self.values())))
        pad = "padding: 0.3em"
        head = "".join(f'<th scope="col" style="{pad}">{escape(name)}</th>' for name in names)
        body = ""
        for norm, row in self.items():
            body += f'<tr><th scope="row" style="text-align: left; {pad}">{escape(norm)}</th>'
            for name in names:
                verdict = escape(row[name].verdict)
                shown = f"<strong>{verdict}</strong>" if verdict == YES else verdict
                body += f'<td style="text-align: center; {pad}">{shown}</td>'
            body += "</tr>"
        return (
            '<div style="overflow-x: auto" tabindex="0" role="region" aria-label="Invariances">'
            '<table class="table dataframe" style="font-size: 0.85em">'
            f"<thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )


def draw(
    rng: np.random.Generator,
    dtype: Any = np.float64,
    *,
    bias: bool = False,
    positions: int | None = None,
    units: int | None = None,
) -> Setup:
    """Draw data, weights and perhaps a bias of a random shape and scale.

    Parameters
    ----------
    rng : Generator
    dtype : floating dtype
        In float16 the scales stay close to 1, so that squares do not overflow.
    bias : bool
        Whether there is a bias, as large as the rest of z.
    positions : int, optional
        L; by default 3 to 6.
    units : int, optional
        H; by default one of 4, 8 and 12.

    Returns
    -------
    Setup
        B and d from 2 to 5.
    """
    # With two positions InstanceNorm's output is ±1 whatever the input, so there are at least 3.
    batch, length, features = (int(n) for n in rng.integers((2, 3, 2), (6, 7, 6)))
    length = length if positions is None else positions
    drawn = 4 * int(rng.integers(1, 4))
    units = drawn if units is None else units
    reach = 0.3 if np.dtype(dtype) == np.float16 else 2.0
    x_scale, w_scale = 10.0 ** rng.uniform(-reach, reach, 2)
    centre = rng.standard_normal(features)
    x = x_scale * (centre + rng.standard_normal((batch, length, features)))
    weight = w_scale * rng.standard_normal((units, features))
    shift = x_scale * w_scale * rng.standard_normal(units) if bias else None
    return Setup(
        x.astype(dtype), weight.astype(dtype), None if shift is None else shift.astype(dtype)
    )


def _run(subject: Subject, before: Setup, after: Setup) -> tuple[Array, Array]:
    """Outputs before and after, in float64 for the comparison."""
    z_before, z_after = subject.linear(*before), subject.linear(*after)
    norm = subject.norm(z_before) if subject.frozen else subject.norm
    y_before, y_after = _first(norm(z_before)), _first(norm(z_after))
    if y_before.shape != z_before.shape:
        raise ValueError(
            f"a norm must return an array of its input's shape {z_before.shape}; got "
            f"{y_before.shape}. Keep reduced axes with keepdims=True; a norm that first needs "
            "the data before the change takes frozen=True."
        )
    if y_before.dtype in (np.float16, np.float32) and y_before.dtype < z_before.dtype:
        raise ValueError(
            f"a norm must not lose its input's precision, or its rounding looks like a change; got "
            f"{y_before.dtype} for {z_before.dtype}. Compute in the dtype of z or a finer one."
        )
    return y_before.astype(np.float64), y_after.astype(np.float64)


def _first(result: Any) -> Array:
    """What a norm returned; the formulas return more beside it."""
    return np.asarray(result[0] if isinstance(result, tuple) else result)


def _of_module(module: Any) -> tuple[Norm, int | None]:
    """A torch module as a function of z, and H if the module has a fixed one.

    It runs in at least float32, on a copy, so that no running statistic moves.
    """
    import torch

    shape = getattr(module, "normalized_shape", None)
    names = ("num_features", "num_channels", "dim")
    units = next((getattr(module, name) for name in names if hasattr(module, name)), None)
    if shape is not None and len(shape) == 1:
        units = shape[0]
    over_batch = isinstance(module, torch.nn.modules.batchnorm._NormBase | torch.nn.GroupNorm)
    axis = getattr(module, "feature_axis", 1 if over_batch else -1)

    def norm(z: Array) -> Array:
        x = torch.from_numpy(np.promote_types(z.dtype, np.float32).type(z))
        with torch.no_grad():
            y = copy.deepcopy(module).to(x.dtype)(x.movedim(-1, axis))
        return y.movedim(axis, -1).numpy()

    return norm, units


def relative_change(before: Array, after: Array) -> float:
    """Return ‖after − before‖ / ‖before‖ over all entries; infinite if anything is not finite."""
    with np.errstate(all="ignore"):
        difference, size = float(np.linalg.norm(after - before)), float(np.linalg.norm(before))
    if not np.isfinite(difference) or size == 0:
        return 0.0 if difference == 0 else float("inf")
    return difference / size


def _nudge(setup: Setup, rng: np.random.Generator) -> Setup:
    """Move every entry by its last digit, up or down at random."""

    def nudged(a: Array | None) -> Array | None:
        if a is None:
            return None
        direction = np.where(rng.random(a.shape) < 0.5, -np.inf, np.inf).astype(a.dtype)
        return np.nextafter(a, direction)

    return Setup(*(nudged(a) for a in setup))  # type: ignore[arg-type]


def _rounding(subject: Subject, before: Setup, after: Setup, rng: np.random.Generator) -> float:
    """How far the last digits of the inputs, before and after the change, move the output."""
    moved = [float(np.finfo(before.x.dtype).eps)]
    frozen = subject
    if subject.frozen:  # the frozen statistics are those of the setup before
        norm = subject.norm(subject.linear(*before))
        frozen = subject._replace(norm=norm, frozen=False)
    for setup in (before, after) * 2:
        moved.append(relative_change(*_run(frozen, setup, _nudge(setup, rng))))
    return max(moved)


def audit(
    norm: Callable[[Array], Any],
    *,
    linear: Callable[[Array, Array, Array | None], Array] = linear,
    frozen: bool = False,
    bias: bool = False,
    negative: bool = False,
    positions: int | None = None,
    units: int | None = None,
    transformations: Mapping[str, Transformation] = TRANSFORMATIONS,
    dtypes: Sequence[Any] = (np.float64, np.float32, np.float16),
    draws: int = 8,
    seed: int = 0,
) -> Row:
    """Apply every transformation to a norm: its row of the table.

    Parameters
    ----------
    norm : function or torch.nn.Module
        Takes z of shape (B, L, H), returns y of the same shape, or a tuple that begins with y, as
        the formulas of :mod:`normtutor.norms` do. Give it ε = 0 to ask what the theorems say; with
        an ε the verdict can be "up to eps". A module runs in its own mode and gets its features
        where it expects them.
    linear : function
        ``linear(x, weight, bias)`` returns z. By default :func:`linear`;
        :func:`weight_normalized` for a norm of the weights.
    frozen : bool
        Whether the statistics come from elsewhere. Then ``norm`` is called with z before the
        change, and returns the function that is applied before and after it.
    bias : bool
        Whether a bias is added before the norm. No transformation here touches it.
    negative : bool
        Whether the factors are negative.
    positions : int, optional
        L; by default it is drawn, from 3 to 6.
    units : int, optional
        H, for a norm with parameters; a module says it itself. By default it is 4, 8 or 12.
    transformations : mapping of name -> Transformation
    dtypes : sequence of floating dtypes
    draws : int
        Random setups for each dtype and transformation.
    seed : int

    Returns
    -------
    Row
        For each transformation a :class:`Cell` with one of the verdicts

        - "yes": on no draw did y change by more than 30 times what the last digits of the
          inputs do to it, in any dtype (in float64, no further than 7e-11 of its size);
        - "up to eps": y changes, by an amount that falls as the scale of z, or its square,
          grows, as the change due to an ε does;
        - "sign flips": only signs changed, as those of the factors;
        - "no": also if y is finite only before the change, and if the norm rounds to fewer digits
          than its input has; ``change`` is then about as small as that rounding.

    Raises
    ------
    ValueError
        If ``norm`` returns another shape than z's, or a coarser dtype; if on most draws its
        output is not finite, random, or moves far with the last digit of its input.

    Examples
    --------
    >>> row = audit(norms.layer_norm)  # with its ε of 1e-5
    >>> row["weight matrix recentred"].verdict, row["weight matrix rescaled"].verdict
    ('yes', 'up to eps')
    """
    if hasattr(norm, "named_parameters"):
        norm, own_units = _of_module(norm)
        units = own_units if units is None else units
    subject = Subject(norm, linear, frozen)
    sign = -1 if negative else 1
    row = Row()
    for name, transformation in transformations.items():
        rng = np.random.default_rng(seed)
        by_dtype: dict[str, float] = {}
        excess, flips = 0.0, True
        for dtype in dtypes:
            precision, largest, told = float(np.finfo(dtype).eps), 0.0, 0
            for _ in range(draws):
                before = draw(rng, dtype, bias=bias, positions=positions, units=units)
                after, signs = transformation.change(before, Dice(rng, sign))
                with np.errstate(all="ignore"):
                    y_before, y_after = _run(subject, before, after)
                    rounding = _rounding(subject, before, after, rng)
                if np.isfinite(y_before).all() and not np.isfinite(y_after).all():
                    rounding = precision  # the change itself breaks the norm, so it is seen
                if rounding > min(ILL_CONDITIONED * precision, ILL_CONDITIONED_SHARE):
                    continue
                told += 1
                change = relative_change(y_before, y_after)
                excess = max(excess, change / rounding)
                largest = max(largest, change)
                flips &= relative_change(signs * y_before, y_after) <= SAFETY * rounding
            if 2 * told < draws:
                raise ValueError(
                    f"in {np.dtype(dtype).name} only {told} of {draws} draws say anything: on the "
                    "others the output is not finite, or random, or moves far with the last digit "
                    "of the inputs. Check the norm on one array of shape (2, 3, 4)."
                )
            by_dtype[np.dtype(dtype).name] = largest
        verdict, example = YES, None
        if excess > SAFETY:
            options = subject, transformation, rng, sign, bias, positions, units
            if not flips and _falls_with_scale(*options):
                verdict = UP_TO_EPS
            else:
                verdict, example = SIGN if flips else NO, _counterexample(*options)
        change = next(iter(by_dtype.values()))
        row[name] = Cell(verdict, change, excess, by_dtype, example)
    return row


def _falls_with_scale(
    subject: Subject,
    transformation: Transformation,
    rng: np.random.Generator,
    sign: int,
    bias: bool,
    positions: int | None,
    units: int | None,
) -> bool:
    """Say whether the change falls as 1/s or 1/s² when z is multiplied by s, as ε's does."""
    exponents: list[float] = []
    for _ in range(5):
        setup = draw(rng, bias=bias, positions=positions, units=units)
        unit = _scale(linear(*setup))
        state = rng.bit_generator.state

        def change_at(
            s: float, setup: Setup = setup, unit: float = unit, state: Any = state
        ) -> float:
            shift = None if setup.bias is None else setup.bias * (s / unit)
            before = Setup(setup.x * (s / unit), setup.weight, shift)
            rng.bit_generator.state = state  # the same change at every scale
            after = transformation.change(before, Dice(rng, sign))[0]
            return relative_change(*_run(subject, before, after))

        # From large scales down, until the change stands out from rounding.
        changes = [change_at(4.0**10)]
        for power in range(9, -15, -1):
            changes.append(change_at(4.0**power))
            if changes[-1] > 1e-9:
                break
        if not (np.isfinite(changes).all() and 0 < changes[-2] < changes[-1]):
            return False
        exponents.append(float(np.log(changes[-1] / changes[-2]) / np.log(4.0)))
        if min(abs(exponents[-1] - 1), abs(exponents[-1] - 2)) > 0.1:
            return False
    return max(exponents) - min(exponents) < 0.2


def _counterexample(
    subject: Subject,
    transformation: Transformation,
    rng: np.random.Generator,
    sign: int,
    bias: bool,
    positions: int | None,
    units: int | None,
) -> Counterexample | None:
    """Find small whole numbers on which y changes; the first of the clearest of a few.

    What is equal but for rounding, which differs between processors, counts as equal.
    """
    dice, best = Dice(rng, sign, whole=True), None
    length, width = (3 if positions is None else positions), (4 if units is None else units)
    largest = 0.0
    for _ in range(12):
        x, weight, shift = (
            rng.integers(-3, 4, shape).astype(np.float64)
            for shape in ((2, length, 2), (width, 2), width)
        )
        before = Setup(x, weight, shift if bias else None)
        after = transformation.change(before, dice)[0]
        with np.errstate(all="ignore"):
            y_before, y_after = _run(subject, before, after)
        change = relative_change(y_before, y_after)
        # A variance of 0 in the one or the other proves nothing.
        if largest < (1 - 1e-9) * change and change < 100:
            apart = abs(y_after - y_before)
            index = np.argwhere(apart >= (1 - 1e-9) * apart.max())[0]
            largest, place = change, tuple(int(i) for i in index)
            best = Counterexample(before, after, y_before, y_after, place)
    return best


def audit_all(**options: Any) -> Table:
    """Audit every norm of ``NORMS``: the table.

    Parameters
    ----------
    **options
        As in :func:`audit`.
    """
    return Table(
        {
            name: audit(subject.norm, linear=subject.linear, frozen=subject.frozen, **options)
            for name, subject in NORMS.items()
        }
    )
