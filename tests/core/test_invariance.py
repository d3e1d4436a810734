"""The table of invariances: typed tables, planted wrong norms, ε."""

import numpy as np
import pytest
from bs4 import BeautifulSoup
from torch import nn

from normtutor import invariance, layers, norms
from normtutor.invariance import (
    NO,
    NORMS,
    SIGN,
    TRANSFORMATIONS,
    UP_TO_EPS,
    YES,
    Dice,
    Setup,
    audit,
    audit_all,
    epsilon_factor,
    linear,
    memory_factor,
    rule,
)
from normtutor.moments import mean_square

pytestmark = pytest.mark.slow

NAMES = list(TRANSFORMATIONS)

# One letter a column, in the order of TRANSFORMATIONS: y(es) or n(o).
# Ba, Kiros and Hinton 2016, Table 1: BatchNorm, WeightNorm, LayerNorm; Zhang and Sennrich 2019,
# Table 1: RMSNorm, pRMSNorm. Their "single training case" is both the sequence and the token. The
# other rows follow from the theorem of chapter 4, by hand.
TYPED = {
    "BatchNorm": "yynyynn",
    "BatchNorm, eval": "nnnnnnn",
    "WeightNorm": "yynnnnn",
    "LayerNorm": "ynyynyy",
    "RMSNorm": "ynnynyy",
    "pRMSNorm": "ynnynyy",
    "InstanceNorm": "yynyyyn",
    "GroupNorm": "ynnynyn",
    "PowerNorm-V": "yynynnn",
    "PowerNorm, frozen": "nnnnnnn",
    "PowerNorm, settled": "yynynnn",
    "PowerNorm, scaled": "ynnynyy",
}

# With a bias before the norm. Where it hurts, the norm has no mean to take it away per unit.
WITH_BIAS = {
    **dict.fromkeys(TYPED, "nnnnnnn"),
    "BatchNorm": "yynyynn",
    "WeightNorm": "yynnnnn",
    "LayerNorm": "nnynnnn",
    "InstanceNorm": "yynyyyn",
}


def letters(row):
    return "".join(cell.verdict[0] for cell in row.values())


@pytest.fixture(scope="module")
def table():
    return audit_all()


# --- the verdicts ---------------------------------------------------------------------------------


def test_the_table_is_the_typed_one(table):
    assert {name: letters(row) for name, row in table.items()} == TYPED
    assert list(table["LayerNorm"]) == NAMES
    assert {name.split(",")[0] for name in table} == set(norms.TABLE)


def test_a_bias_destroys_the_rescalings_where_no_mean_takes_it_away():
    found = audit_all(bias=True, dtypes=[np.float64])
    assert {name: letters(row) for name, row in found.items()} == WITH_BIAS


def test_negative_factors_flip_the_sign():
    for name, row in audit_all(negative=True, dtypes=[np.float64]).items():
        for (transformation, cell), letter in zip(row.items(), TYPED[name], strict=True):
            kept = SIGN if TRANSFORMATIONS[transformation].kind == "scale" else YES
            assert cell.verdict == (kept if letter == "y" else NO), (name, transformation)


def letters_of_the_rule(row):
    return "".join("y" if rule(row, t) else "n" for t in TRANSFORMATIONS.values())


def test_the_rule_predicts_what_the_audit_of_a_row_finds():
    plain = {name: row for name, row in norms.TABLE.items() if name in TYPED}
    assert {name: letters_of_the_rule(row) for name, row in plain.items()}.items() <= TYPED.items()
    for row in [norms.TABLE["PowerNorm"], *norms.RELATIVES.values()]:
        subject = invariance.subject_of(row)
        found = letters(audit(subject.norm, linear=subject.linear, dtypes=[np.float64]))
        assert found == letters_of_the_rule(row), row


# --- the counterexamples --------------------------------------------------------------------------


def outputs(subject, before, after):
    """What a norm makes of two setups; what is frozen is that of the first one."""
    z_before, z_after = subject.linear(*before), subject.linear(*after)
    norm = subject.norm(z_before) if subject.frozen else subject.norm
    return norm(z_before), norm(z_after)


def test_every_no_comes_with_whole_numbers_that_anyone_can_recompute(table):
    for name, row in table.items():
        for transformation, cell in row.items():
            if cell.verdict == YES:
                assert cell.counterexample is None
                continue
            before, after, y_before, y_after, place = cell.counterexample
            assert before.x.shape == (2, 3, 2) and before.weight.shape == (4, 2)
            for part in (before.x, before.weight, after.x, after.weight):
                assert np.array_equal(part, np.round(part)) and abs(part).max() <= 9
            recomputed = outputs(NORMS[name], before, after)
            np.testing.assert_array_equal(recomputed, (y_before, y_after))
            moved = abs(y_after - y_before)
            assert moved.max() > 0.1, (name, transformation)
            assert moved[place] == pytest.approx(moved.max()), (name, transformation)


def test_a_counterexample_is_the_same_where_a_processor_rounds_otherwise():
    norm = NORMS["LayerNorm"].norm

    def rounded_otherwise(z):
        return norm(z) * (1 + 4e-16 * np.random.default_rng(0).choice([-1, 0, 1], size=z.shape))

    def examples(norm):
        found = [cell.counterexample for cell in audit(norm, dtypes=[float], draws=1).values()]
        return [(example.place, example.before.x.tolist()) for example in found if example]

    assert examples(rounded_otherwise) == examples(norm)


# --- what is drawn --------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", NAMES)
def test_a_transformation_does_what_it_says(name, sign):
    transformation, rng = TRANSFORMATIONS[name], np.random.default_rng(0)
    before = Setup(rng.standard_normal((4, 5, 3)), rng.standard_normal((6, 3)), None)
    after, signs = transformation.change(before, Dice(rng, sign))
    kept = "weight" if transformation.of == "data" else "x"
    assert getattr(after, kept) is getattr(before, kept)
    z, changed = linear(*before), linear(*after)
    given = changed / z if transformation.kind == "scale" else changed - z
    varying = {letter for axis, letter in enumerate("BLH") if np.ptp(given, axis=axis).max() > 1e-9}
    assert varying == set(transformation.varies)
    if name.startswith("one"):
        moved = (after.x != before.x).any(axis=(1, 2) if "sequence" in name else 2)
        assert moved.sum() == 1
    expected = np.sign(given) if transformation.kind == "scale" else np.ones_like(z)
    assert np.array_equal(np.broadcast_to(signs, z.shape), expected)
    assert (expected.min() < 0) == (sign < 0 and transformation.kind == "scale")
    low = Setup(before.x.astype(np.float16), before.weight.astype(np.float16), None)
    changed, _ = transformation.change(low, Dice(rng, sign))
    assert changed.x.dtype == changed.weight.dtype == np.float16


def test_what_is_frozen_comes_from_the_data_before():
    z = 3 + np.random.default_rng(0).standard_normal((4, 5, 6))
    for name in ("BatchNorm, eval", "PowerNorm, frozen", "PowerNorm, settled", "PowerNorm, scaled"):
        y = NORMS[name].norm(z)(z)
        np.testing.assert_allclose(np.square(y).mean((0, 1)), 1, rtol=1e-9)
        assert (abs(y.mean((0, 1))).max() < 1e-9) == (name == "BatchNorm, eval")


# --- what an audit gives --------------------------------------------------------------------------


def test_tables_print_the_change_and_a_place_to_look_at(table):
    cell = audit(np.tanh, draws=2)["data set rescaled"]
    assert list(cell.by_dtype) == ["float64", "float32", "float16"]
    assert cell.change == cell.by_dtype["float64"] > 0.01
    row = invariance.Row({"one rescaled": cell, "two": table["LayerNorm"]["data set rescaled"]})
    _, no, yes = str(row).splitlines()
    example = cell.counterexample
    before, after = (f"{y[example.place]:.3f}" for y in (example.y_before, example.y_after))
    assert f"no          {cell.change:.1e}" in no and f"= {before} -> {after}" in no
    assert yes.split() == ["two", "yes", "rounding"]
    both = invariance.Table({"A&B": row, "C": row})
    assert str(both) == "     one      two\n     rescaled\nA&B  no       yes\nC    no       yes"
    page = BeautifulSoup(both._repr_html_(), "html.parser")
    shown = [[cell.text for cell in line.find_all(["th", "td"])] for line in page.select("tr")]
    assert shown == [["", "one rescaled", "two"], ["A&B", "no", "yes"], ["C", "no", "yes"]]


# --- norms that are wrong must be told apart ------------------------------------------------------


def leaking(leak):
    """LayerNorm that lets a trace of its input through."""
    return lambda z: norms.layer_norm(z, eps=0.0)[0] + leak * z


def centred(z):
    return z - z.mean(-1, keepdims=True)


OWN = {
    "a small leak": (leaking(1e-10), "nnnnnnn"),
    "a leak that rounding hides": (leaking(1e-20), TYPED["LayerNorm"]),
    "nothing": (lambda z: z, "nnnnnnn"),
    "LayerNorm with a trace of the batch": (
        lambda z: norms.layer_norm(z + 1e-4 * z.mean(axis=0, keepdims=True), eps=0.0)[0],
        "ynyynnn",
    ),
    "LayerNorm over positions": (
        lambda z: norms.group_norm(z, num_groups=1, eps=0.0, feature_axis=-1)[0],
        "ynnynyn",
    ),
    "LayerNorm, the norm not centred": (
        lambda z: centred(z) / abs(z).mean(-1, keepdims=True),
        "ynnynyy",
    ),
    # The unbiased variance is a mistake, but not one that an invariance could show.
    "LayerNorm, unbiased": (
        lambda z: centred(z) / z.std(-1, keepdims=True, ddof=1),
        TYPED["LayerNorm"],
    ),
    "L2": (lambda z: z / np.linalg.norm(z, axis=-1, keepdims=True), TYPED["RMSNorm"]),
}


@pytest.mark.parametrize("name", OWN)
def test_a_norm_of_ones_own_has_its_row(name):
    norm, row = OWN[name]
    assert letters(audit(norm)) == row


@pytest.mark.parametrize(
    ("norm", "name"),
    [
        (norms.layer_norm, "LayerNorm"),
        (layers.RMSNorm(6), "RMSNorm"),
        (layers.BatchNorm(4, feature_axis=-1), "BatchNorm"),
        (nn.BatchNorm1d(4).eval(), "BatchNorm, eval"),
        (nn.GroupNorm(2, 4), "GroupNorm"),
        (layers.PowerNorm(4, feature_axis=-1), "PowerNorm, frozen"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__module__,
)
def test_formulas_and_modules_have_the_row_of_their_norm(norm, name):
    row = audit(norm, draws=2)
    found = "".join("y" if cell.verdict in (YES, UP_TO_EPS) else "n" for cell in row.values())
    assert found == TYPED[name]
    assert {cell.verdict for cell in row.values()} != {YES}
    for buffer in norm.buffers() if isinstance(norm, nn.Module) else ():
        assert buffer.unique().tolist() in ([0], [1])  # no running statistic has moved


def test_a_norm_with_parameters_says_how_many_units_it_needs():
    gamma = np.asarray([0.5, 2.0, -1.0])
    row = audit(lambda z: norms.layer_norm(z, gamma.astype(z.dtype)), units=3, draws=2)
    assert row["weight matrix recentred"].verdict == YES
    assert row["data set recentred"].counterexample.y_before.shape == (2, 3, 3)


def test_without_positions_group_norm_is_layer_norm_within_groups():
    assert letters(audit(NORMS["GroupNorm"].norm, positions=1)) == TYPED["LayerNorm"]


def test_a_norm_of_weights_comes_with_a_linear_map_of_its_own():
    row = audit(lambda z: z, linear=invariance.weight_normalized)
    assert letters(row) == TYPED["WeightNorm"]


def test_an_input_shift_is_a_transformation_of_ones_own():
    def shift_bias(setup, dice):
        return setup._replace(bias=setup.bias + dice.shift(1, setup.bias)), 1

    own = {"input shifted": invariance.Transformation(shift_bias, "shift", "", "data")}
    for name, verdict in {"LayerNorm": YES, "BatchNorm": YES, "RMSNorm": NO}.items():
        row = audit(NORMS[name].norm, bias=True, transformations=own, dtypes=[np.float64])
        assert row["input shifted"].verdict == verdict


NOISE = np.random.default_rng(0)


def noisy(z):
    return norms.layer_norm(z, eps=0.0)[0] + 8e-3 * NOISE.standard_normal(z.shape)


@pytest.mark.parametrize(
    ("norm", "reason"),
    [
        (lambda z: z.mean(axis=-1), "of its input's shape"),
        (NORMS["PowerNorm, frozen"].norm, "frozen=True"),
        (lambda z: z * np.nan, "Check the norm on one array"),
        # Its change stays below 30 times the noise.
        (lambda z: noisy(z) + 0.05 * np.tanh(z), "or random"),
        (lambda z: norms.layer_norm(z.astype(np.float32), eps=0.0)[0], "float32 for float64"),
    ],
)
def test_what_cannot_be_audited_is_refused(norm, reason):
    with pytest.raises(ValueError, match=reason):
        audit(norm)


def test_a_norm_that_the_change_breaks_is_not_invariant():
    def breaks(z):
        y = norms.rms_norm(z, eps=0.0)[0]
        return y if np.abs(z).max() < 50 else y * np.nan

    assert audit(breaks)["weight matrix rescaled"].verdict == NO


# --- epsilon --------------------------------------------------------------------------------------


def inside(z, eps=1e-3):
    return norms.rms_norm(z, eps=eps)[0]


def outside(z):
    return z / (np.sqrt((z**2).mean(-1, keepdims=True)) + 1e-3)


@pytest.mark.parametrize("delta", [0.1, 3.0])
def test_the_violation_at_a_positive_epsilon_is_the_predicted_one(delta):
    z = np.random.default_rng(0).standard_normal((3, 4, 5))
    batch, token = norms.normalize(z, (0, 1))[1].square, mean_square(z, (2,))
    for norm, statistic in (
        (lambda z: norms.batch_norm(z, eps=0.3, feature_axis=-1)[0], batch),
        (lambda z: norms.rms_norm(z, eps=0.3)[0], token),
    ):
        predicted = epsilon_factor(statistic, 0.3, delta)
        np.testing.assert_allclose(norm(delta * z), predicted * norm(z), rtol=1e-9)


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        (lambda z: norms.layer_norm(z)[0], "unyunuu"),
        (lambda z: norms.layer_norm(z, eps=1e3)[0], "unyunuu"),
        (inside, "unnunuu"),
        (outside, "unnunuu"),
        (lambda z: norms.batch_norm(z, feature_axis=-1)[0], "uunuynn"),
        # It follows one law on some draws and the other one on others.
        (lambda z: (inside if z.shape[0] % 2 else outside)(z), "nnnnnnn"),
    ],
)
def test_an_epsilon_is_recognised(norm, expected):
    row = audit(norm)
    assert letters(row) == expected
    assert all((c.counterexample is None) == (c.verdict != NO) for c in row.values())


@pytest.mark.parametrize(("delta", "alpha"), [(0.1, 0.9), (10.0, 0.5)])
def test_power_norm_forgets_as_predicted(delta, alpha):
    z = np.random.default_rng(0).standard_normal((3, 4, 5))
    settled = mean_square(z, (0, 1)).reshape(-1)
    reference, _, psi_squared = norms.power_norm(z, None, None, settled, alpha=alpha, eps=0.0)
    for k in range(30):
        y, _, psi_squared = norms.power_norm(
            delta * z, None, None, psi_squared, alpha=alpha, eps=0.0
        )
        np.testing.assert_allclose(y, memory_factor(delta, k, alpha) * reference, rtol=1e-9)
