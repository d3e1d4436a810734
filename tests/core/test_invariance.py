"""The table of invariances: typed tables, theorems on random shapes, planted wrong norms, ε."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from normtutor import invariance, norms
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
    draw,
    epsilon_factor,
    linear,
    memory_factor,
    relative_change,
    rule,
)
from normtutor.moments import mean_square, moments

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


def test_yes_and_no_are_far_apart(table):
    cells = [cell for row in table.values() for cell in row.values()]
    assert max(cell.excess for cell in cells if cell.verdict == YES) < invariance.SAFETY / 5
    assert min(cell.excess for cell in cells if cell.verdict == NO) > 1e10


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_low_precision_alone_gives_the_same_verdicts(dtype):
    found = audit_all(dtypes=[dtype], draws=12)
    assert {name: letters(row) for name, row in found.items()} == TYPED


def test_a_bias_destroys_the_rescalings_where_no_mean_takes_it_away():
    found = audit_all(bias=True, dtypes=[np.float64])
    assert {name: letters(row) for name, row in found.items()} == WITH_BIAS


def test_negative_factors_flip_the_sign():
    found = audit_all(negative=True, dtypes=[np.float64])
    for name, row in found.items():
        for transformation, cell in row.items():
            scale = TRANSFORMATIONS[transformation].kind == "scale"
            invariant = TYPED[name][NAMES.index(transformation)] == "y"
            assert cell.verdict == (NO if not invariant else SIGN if scale else YES)


def test_without_positions_group_norm_is_layer_norm_within_groups():
    group = NORMS["GroupNorm"]
    assert letters(audit(group.norm, positions=1)) == TYPED["LayerNorm"]


def test_the_rule_predicts_the_table():
    names = {name: name for name in norms.TABLE} | {"PowerNorm": "PowerNorm, frozen"}
    for name, choices in norms.TABLE.items():
        predicted = "".join("y" if rule(choices, t) else "n" for t in TRANSFORMATIONS.values())
        assert predicted == TYPED[names[name]], name


@pytest.mark.parametrize("name", norms.TABLE | norms.RELATIVES)
def test_the_rule_predicts_what_the_audit_of_a_row_finds(name):
    row = (norms.TABLE | norms.RELATIVES)[name]
    subject = invariance.subject_of(row)
    found = letters(audit(subject.norm, linear=subject.linear, dtypes=[np.float64]))
    assert found == "".join("y" if rule(row, t) else "n" for t in TRANSFORMATIONS.values())


def test_the_linear_map_of_weight_norm_divides_each_row_by_its_length():
    rng = np.random.default_rng(0)
    x, weight, bias = rng.normal(size=(2, 3, 4)), rng.normal(size=(5, 4)), rng.normal(size=5)
    unit = weight / np.linalg.norm(weight, axis=1, keepdims=True)
    np.testing.assert_allclose(invariance.weight_normalized(x, weight, bias), x @ unit.T + bias)
    np.testing.assert_allclose(invariance.weight_normalized(x, weight, None), x @ unit.T)
    subject = invariance.subject_of(norms.TABLE["WeightNorm"])
    np.testing.assert_allclose(subject.linear(x, weight, bias), x @ unit.T + bias)


def test_the_audit_has_every_row_of_the_table():
    audited = {name.split(",")[0] for name in NORMS}
    assert audited == set(norms.TABLE)


# --- each theorem, on shapes and values that hypothesis chooses -----------------------------------

INVARIANT = [
    (n, t) for n, row in TYPED.items() for t, v in zip(NAMES, row, strict=True) if v == "y"
]
seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize(("name", "transformation"), INVARIANT)
@given(
    shape=st.tuples(st.integers(2, 7), st.integers(3, 9), st.integers(1, 9)),
    groups_of=st.integers(2, 6),
    log_scale=st.floats(-3, 3),
    seed=seeds,
)
def test_an_invariance_holds(name, transformation, shape, groups_of, log_scale, seed):
    rng = np.random.default_rng(seed)
    x = 10**log_scale * (rng.standard_normal(shape) + rng.standard_normal(shape[2]))
    before = Setup(x, rng.standard_normal((2 * groups_of, shape[2])), None)
    after, _ = TRANSFORMATIONS[transformation].change(before, Dice(rng))
    subject = NORMS[name]
    z_before, z_after = subject.linear(*before), subject.linear(*after)
    norm = subject.norm(z_before) if subject.frozen else subject.norm
    np.testing.assert_allclose(norm(z_after), norm(z_before), rtol=1e-6, atol=1e-8)


@given(seed=seeds)
@settings(max_examples=5)
def test_the_verdicts_do_not_hang_on_the_seed(seed):
    for name in ("BatchNorm", "LayerNorm", "PowerNorm-V"):
        assert letters(audit(NORMS[name].norm, seed=seed, draws=2)) == TYPED[name]


# --- the counterexamples --------------------------------------------------------------------------


def test_every_no_comes_with_whole_numbers_that_anyone_can_recompute(table):
    for name, row in table.items():
        for transformation, cell in row.items():
            if cell.verdict == YES:
                assert cell.counterexample is None
                continue
            example = cell.counterexample
            assert example is not None
            for setup in (example.before, example.after):
                assert np.array_equal(setup.x, np.round(setup.x))
                assert np.array_equal(setup.weight, np.round(setup.weight))
            subject = NORMS[name]
            z_before = subject.linear(*example.before)
            z_after = subject.linear(*example.after)
            norm = subject.norm(z_before) if subject.frozen else subject.norm
            np.testing.assert_array_equal(norm(z_before), example.y_before)
            np.testing.assert_array_equal(norm(z_after), example.y_after)
            moved = abs(example.y_after - example.y_before)
            assert moved.max() > 0.1, (name, transformation)
            assert moved[example.place] == pytest.approx(moved.max()), (name, transformation)


@given(seed=seeds, whole=st.booleans(), negative=st.booleans())
def test_the_transformations_do_what_they_say(seed, whole, negative):
    rng = np.random.default_rng(seed)
    dice = Dice(rng, -1 if negative else 1, whole)
    before = draw(rng)
    x, weight, _ = before
    after = {name: t.change(before, dice)[0] for name, t in TRANSFORMATIONS.items()}
    for name, setup in after.items():
        data = TRANSFORMATIONS[name].of == "data"
        assert setup.bias is None
        assert np.array_equal(setup.weight if data else setup.x, weight if data else x)
    factor = after["weight matrix rescaled"].weight / weight
    np.testing.assert_allclose(factor, factor[0, 0])
    assert abs(np.log2(abs(factor[0, 0]))) > 0.99
    assert (factor[0, 0] < 0) == negative
    factors = after["weight vectors rescaled"].weight / weight  # (H, d)
    np.testing.assert_allclose(factors, factors[:, :1] * np.ones_like(weight))
    assert (factors[:, 0].min() < 0) == negative
    shift = after["weight matrix recentred"].weight - weight
    np.testing.assert_allclose(shift, shift[:1] * np.ones((len(weight), 1)), atol=1e-9)
    shift = after["data set recentred"].x - x
    np.testing.assert_allclose(shift, shift[:1, :1] + np.zeros_like(x), atol=1e-9)
    factor = after["data set rescaled"].x / x
    np.testing.assert_allclose(factor, factor[0, 0, 0])
    sequences = (after["one sequence rescaled"].x != x).any(axis=(1, 2))
    tokens = (after["one token rescaled"].x != x).any(axis=2)
    assert sequences.sum() == tokens.sum() == 1


@pytest.mark.parametrize("name", NAMES)
def test_the_factor_or_shift_varies_along_the_axes_that_are_named(name):
    transformation = TRANSFORMATIONS[name]
    rng = np.random.default_rng(0)
    before = Setup(rng.standard_normal((4, 5, 3)), rng.standard_normal((6, 3)), None)
    z, changed = linear(*before), linear(*transformation.change(before, Dice(rng))[0])
    given = changed / z if transformation.kind == "scale" else changed - z
    varying = {letter for axis, letter in enumerate("BLH") if np.ptp(given, axis=axis).max() > 1e-9}
    assert varying == set(transformation.varies)


DRAWS = 400


def test_factors_keep_away_from_one_and_reach_both_ends():
    for sign in (1, -1):
        dice = Dice(np.random.default_rng(0), sign)
        small, large = [], []
        for _ in range(DRAWS):
            factor = sign * dice.factor()
            (small if factor < 1 else large).append(factor)
        assert 0.25 <= min(small) < 0.26 and 0.49 < max(small) <= 0.5
        assert 2 <= min(large) < 2.05 and 3.9 < max(large) <= 4
        assert 0.4 < len(small) / DRAWS < 0.6
        whole = Dice(np.random.default_rng(0), sign, whole=True)
        assert {sign * whole.factor() for _ in range(DRAWS)} == {2.0, 3.0}
    default = Dice(np.random.default_rng(0))
    assert default.sign == 1 and default.whole is False


def test_factors_of_units_differ_and_half_of_them_take_the_sign():
    for sign in (1, -1):
        dice = Dice(np.random.default_rng(0), sign)
        drawn = np.stack([dice.factors(4) for _ in range(DRAWS)])
        assert ((drawn < 0).sum(axis=1) == (0 if sign == 1 else 2)).all()
        assert (drawn < 0).any(axis=0).all() == (sign == -1)  # not always the same two
        sizes = abs(drawn)
        assert 0.25 <= sizes.min() < 0.26 and 3.9 < sizes.max() <= 4
        assert abs(np.log2(sizes).mean()) < 0.1
        whole = Dice(np.random.default_rng(0), sign, whole=True)
        drawn = np.stack([whole.factors(4) for _ in range(DRAWS)])
        assert {tuple(sorted(row)) for row in abs(drawn)} == {(1.0, 1.0, 2.0, 3.0)}
        assert set(drawn[:, 0]) == ({1, 2, 3} if sign == 1 else {1, 2, 3, -1, -2, -3})


def test_shifts_are_as_large_as_what_they_are_added_to():
    dice, like = Dice(np.random.default_rng(0)), np.full((7, 3), -50.0)
    shift = dice.shift(4000, like)
    assert shift.shape == (4000,)
    assert abs(shift.std() / 50 - 1) < 0.05 and abs(shift.mean()) < 3
    assert dice.shift(9, like.astype(np.float16) * 100).std() > 1000  # squares would overflow
    whole = Dice(np.random.default_rng(0), whole=True).shift(DRAWS, like)
    assert set(whole) == {-3, -2, -1, 0, 1, 2, 3} and whole.dtype == np.float64
    chosen = [Dice(np.random.default_rng(seed)).choose(2, 3) for seed in range(60)]
    assert set(chosen) == {(i, j) for i in range(2) for j in range(3)}
    assert type(chosen[0][0]) is int


@pytest.mark.parametrize("name", NAMES)
def test_a_transformation_names_the_signs_that_y_takes(name):
    rng = np.random.default_rng(1)
    before = draw(rng)
    for sign in (1, -1):
        after, signs = TRANSFORMATIONS[name].change(before, Dice(rng, sign))
        z, changed = linear(*before), linear(*after)
        if TRANSFORMATIONS[name].kind == "scale":
            assert np.array_equal(np.broadcast_to(signs, z.shape), np.sign(changed / z))
        else:
            assert np.array_equal(signs, 1)


def test_draws_have_the_shapes_and_scales_that_are_promised():
    def logs(setups):
        return [np.log10(np.sqrt(np.mean(np.square(s, dtype=np.float64)))) for s in setups]

    for dtype, reach in ((np.float64, 2.0), (np.float32, 2.0), (np.float16, 0.3)):
        drawn = [draw(np.random.default_rng(seed), dtype, bias=True) for seed in range(DRAWS)]
        assert (
            {one.x.shape[0] for one in drawn} == {one.x.shape[2] for one in drawn} == {2, 3, 4, 5}
        )
        assert {one.x.shape[1] for one in drawn} == {3, 4, 5, 6}
        assert {one.weight.shape[0] for one in drawn} == {4, 8, 12}
        x, weight = logs(one.x for one in drawn), logs(one.weight for one in drawn)
        assert (
            {one.x.dtype for one in drawn} == {one.bias.dtype for one in drawn} == {np.dtype(dtype)}
        )
        for found, centre in ((x, 0.15), (weight, 0.0)):
            assert abs(np.mean(found) - centre) < 0.25 * max(reach, 0.5)
            assert np.ptp(found) == pytest.approx(2 * reach, abs=0.75)
        # The bias is as large as the rest of z, and every feature has a centre of its own.
        size = np.mean(logs(one.bias for one in drawn)) - np.mean(x) - np.mean(weight)
        assert abs(size + 0.15) < 0.15
        centres = [abs(one.x.mean((0, 1))).mean() / one.x.std(0).mean() for one in drawn]
        assert 0.6 < np.mean(centres) < 1.6
    assert draw(np.random.default_rng(0)).x.dtype == np.float64
    assert draw(np.random.default_rng(0)).bias is None


@pytest.mark.parametrize("name", NAMES)
def test_a_transformation_keeps_the_precision(name):
    rng = np.random.default_rng(0)
    after, _ = TRANSFORMATIONS[name].change(draw(rng, np.float16), Dice(rng))
    assert after.x.dtype == after.weight.dtype == np.float16


def test_a_seed_draws_what_it_always_drew():
    # Chapter 4 prints what these draws lead to.
    setup = draw(np.random.default_rng(22), bias=True)
    sums = 1.1589742977370616, 14.265949252443452, 0.15216737126416713
    assert [part.shape for part in setup] == [(5, 4, 4), (4, 4), (4,)]
    np.testing.assert_allclose([part.sum() for part in setup], sums, rtol=1e-9)


def test_what_is_frozen_comes_from_the_data_before():
    z = 3 + np.random.default_rng(0).standard_normal((4, 5, 6))
    for name in ("BatchNorm, eval", "PowerNorm, frozen", "PowerNorm, settled", "PowerNorm, scaled"):
        y = NORMS[name].norm(z)(z)
        np.testing.assert_allclose(np.square(y).mean((0, 1)), 1, rtol=1e-9)
        mean = y.mean((0, 1))
        assert (abs(mean).max() < 1e-9) == (name == "BatchNorm, eval")
    # PowerNorm with a running statistic follows the new data; what is frozen does not.
    for name, follows in (("PowerNorm, settled", True), ("PowerNorm, frozen", False)):
        found = NORMS[name].norm(z)(2 * z)
        np.testing.assert_allclose(np.square(found).mean((0, 1)), 1 if follows else 4, rtol=1e-9)


def test_an_audit_hands_on_the_sign_and_the_positions():
    signs, lengths = set(), set()

    def rescale(setup, dice):
        signs.add(dice.sign)
        return invariance.rescale_matrix(setup, dice)

    def seen(norm):
        return lambda z: (lengths.add(z.shape[1]), norm(z))[1]

    one = {"rescaled": invariance.Transformation(rescale, "scale", "", "weights")}
    for negative, positions in ((False, 1), (True, 2)):
        # One with an ε, one with a counterexample.
        for norm in (lambda z: norms.layer_norm(z)[0], np.tanh):
            audit(seen(norm), negative=negative, positions=positions, transformations=one, draws=2)
        assert signs == {-1 if negative else 1} and lengths == {positions}
        signs.clear(), lengths.clear()


def test_a_nudge_moves_every_entry_by_its_last_digit_up_or_down():
    setup = Setup(np.ones((4, 5, 6)), np.full((8, 6), 2, np.float32), None)
    moved = invariance._nudge(setup, np.random.default_rng(0))
    assert moved.bias is None
    for entries, like in ((moved.x, setup.x), (moved.weight, setup.weight)):
        assert entries.dtype == like.dtype
        steps = {np.nextafter(like.flat[0], like.dtype.type(end)) for end in (-np.inf, np.inf)}
        assert set(entries.flat) == steps
        assert 0.3 < (entries > like).mean() < 0.7


def test_what_rounding_does_is_at_least_the_last_digit_and_is_that_of_the_worse_side():
    setup = Setup(np.ones((2, 3, 2)), np.ones((4, 2)), None)
    rng = np.random.default_rng(0)
    still = invariance.Subject(np.ones_like)
    precision = np.finfo(np.float64).eps
    assert invariance._rounding(still, setup, setup, rng) == precision
    far = setup._replace(x=10 * setup.x)

    def rough(z):  # rounding shows on large values alone
        return np.where(abs(z) > 10, 1e6 * (z - np.round(z)) + z, np.round(z))

    subject = invariance.Subject(rough)
    assert invariance._rounding(subject, setup, setup, rng) == precision
    for pair in ((setup, far), (far, setup)):
        assert 1e4 * precision < invariance._rounding(subject, *pair, rng) < 1e8 * precision
    # What is frozen is frozen before the change, and is not moved with the digits.
    frozen = invariance.Subject(lambda before: lambda z: z - before, frozen=True)
    assert invariance._rounding(frozen, setup, far, rng) == float("inf")  # 0 before it is nudged


def test_a_cell_keeps_the_largest_change_of_each_dtype():
    found = [audit(np.tanh, draws=draws)["data set rescaled"] for draws in (2, 6)]
    for cell in found:
        assert list(cell.by_dtype) == ["float64", "float32", "float16"]
        assert cell.change == cell.by_dtype["float64"]
        assert cell.excess >= cell.change / np.finfo(np.float64).eps / 1e4 > 1e9
    assert {cell.excess for cell in audit(np.ones_like, draws=1).values()} == {0.0}
    fewer, more = (one.by_dtype["float64"] for one in found)
    assert more >= fewer > 0.01
    low = audit(np.tanh, draws=2, dtypes=[np.float16, np.float64])["data set rescaled"]
    assert low.change == low.by_dtype["float16"]
    twice = [audit(np.tanh, draws=2, seed=seed)["data set rescaled"].change for seed in (0, 0, 1)]
    assert twice[0] == twice[1] != twice[2]
    assert audit(np.tanh, draws=2)["data set rescaled"].change == twice[0]


def test_a_norm_that_says_something_on_half_of_the_draws_is_heard():
    def sometimes(good, draws=4):
        runs = iter(range(10**6))

        def norm(z):  # ten runs a draw: two of its own and two for each of four nudges
            return norms.layer_norm(z, eps=0.0)[0] * (
                np.nan if next(runs) // 10 % draws >= good else 1
            )

        return norm

    one = {"data set rescaled": TRANSFORMATIONS["data set rescaled"]}
    options = {"draws": 4, "dtypes": [np.float64], "transformations": one}
    assert letters(audit(sometimes(2), **options)) == "y"
    for good, draws in ((1, 4), (2, 5)):
        with pytest.raises(ValueError, match=f"in float64 only {good} of {draws} draws"):
            audit(sometimes(good, draws), **options | {"draws": draws})


@pytest.mark.parametrize("positions", [None, 1])
@pytest.mark.parametrize("bias", [True, False])
def test_a_counterexample_is_small(positions, bias):
    row = audit(np.tanh, bias=bias, positions=positions, draws=2)
    for cell in row.values():
        before, after = cell.counterexample.before, cell.counterexample.after
        for setup in (before, after):
            assert setup.x.shape == (2, positions or 3, 2) and setup.weight.shape == (4, 2)
            assert (setup.bias is None) != bias and (not bias or setup.bias.shape == (4,))
        entries = np.concatenate([part.ravel() for part in before if part is not None])
        assert set(entries) <= set(range(-3, 4)) and len(set(entries)) > 4
        assert {type(i) for i in cell.counterexample.place} == {int}


def test_the_clearest_of_twelve_counterexamples_is_kept():
    seen = []

    def norm(z):
        seen.append(z)
        return z + 1

    scaled = invariance.Transformation(invariance.rescale_matrix, "scale", "", "weights")
    subject, rng = invariance.Subject(norm), np.random.default_rng(0)
    best = invariance._counterexample(subject, scaled, rng, 1, False, None)
    assert len(seen) == 24
    changes = [
        relative_change(before + 1, after + 1)
        for before, after in zip(seen[::2], seen[1::2], strict=True)
    ]
    assert relative_change(best.y_before, best.y_after) == max(changes)
    # A change by a factor of 100 or more comes from a division by almost nothing.
    blown = invariance.Subject(lambda z: np.where(abs(z).max() > 15, 101.5, 1.0) * np.ones_like(z))
    assert invariance._counterexample(blown, scaled, rng, 1, False, None) is None


@pytest.mark.parametrize("name", NORMS)
def test_a_counterexample_is_the_same_where_a_processor_rounds_otherwise(name):
    subject = NORMS[name]

    def rounded_otherwise(seed):
        rng = np.random.default_rng(seed)

        def other(norm):
            return lambda z: norm(z) * (1 + 4e-16 * rng.choice([-1, 0, 1], size=z.shape))

        norm = (lambda z: other(subject.norm(z))) if subject.frozen else other(subject.norm)
        return subject._replace(norm=norm)

    def found(subject, transformation):
        rng = np.random.default_rng(0)
        example = invariance._counterexample(subject, transformation, rng, 1, False, None)
        return example.place, example.before.x.tolist()

    for transformation, letter in zip(TRANSFORMATIONS.values(), TYPED[name], strict=True):
        if letter == "n":
            results = [found(rounded_otherwise(seed), transformation) for seed in range(4)]
            assert results == [found(subject, transformation)] * 4


def test_tables_and_counterexamples_are_printed_as_they_always_were():
    setup = Setup(np.ones((1, 1, 1)), np.ones((1, 1)), None)
    y = np.arange(6.0).reshape(1, 2, 3)
    example = invariance.Counterexample(setup, setup, y, -2 * y, (0, 1, 2))
    assert str(example) == "y[0, 1, 2] = 5.000 -> -10.000"
    yes = invariance.Cell(YES, 2e-16, 1.0, {"float64": 2e-16}, None)
    no = invariance.Cell(NO, 0.523, 1e15, {"float64": 0.523}, example)
    row = invariance.Row({"one rescaled": yes, "two": no})
    assert (
        str(row)
        == repr(row)
        == (
            "                         verdict     change    for example\n"
            "one rescaled             yes         rounding\n"
            "two                      no          5.2e-01   y[0, 1, 2] = 5.000 -> -10.000"
        )
    )
    table = invariance.Table({"A&B": row, "C": invariance.Row({"one rescaled": no, "two": yes})})
    assert (
        str(table)
        == repr(table)
        == ("     one      two\n     rescaled\nA&B  yes      no\nC    no       yes")
    )
    pad, centre = "padding: 0.3em", "text-align: center; padding: 0.3em"
    row_head = f'<th scope="row" style="text-align: left; {pad}">'
    yes_cell, no_cell = (
        f'<td style="{centre}">{shown}</td>' for shown in ("<strong>yes</strong>", "no")
    )
    assert table._repr_html_() == (
        '<div style="overflow-x: auto" tabindex="0" role="region" aria-label="Invariances">'
        '<table class="table dataframe" style="font-size: 0.85em"><thead><tr><td></td>'
        f'<th scope="col" style="{pad}">one rescaled</th><th scope="col" style="{pad}">two</th>'
        f"</tr></thead><tbody><tr>{row_head}A&amp;B</th>{yes_cell}{no_cell}</tr>"
        f"<tr>{row_head}C</th>{no_cell}{yes_cell}</tr></tbody></table></div>"
    )


# --- norms that are wrong must be told apart ------------------------------------------------------


def leaking(leak):
    """LayerNorm that lets a trace of its input through."""
    return lambda z: norms.layer_norm(z, eps=0.0)[0] + leak * z


@pytest.mark.parametrize("leak", [1e-2, 1e-6, 1e-10])
def test_a_leak_is_noticed(leak):
    assert letters(audit(leaking(leak))) == "nnnnnnn"


def test_what_rounding_hides_is_not_noticed():
    assert letters(audit(leaking(1e-20))) == TYPED["LayerNorm"]


PLANTED = {
    "LayerNorm that forgets the mean": lambda z: norms.rms_norm(z, eps=0.0)[0],
    "LayerNorm over positions too": lambda z: norms.group_norm(
        z, num_groups=1, eps=0.0, feature_axis=-1
    )[0],
    "LayerNorm with a trace of the batch": lambda z: norms.layer_norm(
        z + 1e-4 * z.mean(axis=0, keepdims=True), eps=0.0
    )[0],
    "LayerNorm that divides by the mean absolute value, uncentred": lambda z: (
        (z - z.mean(-1, keepdims=True)) / abs(z).mean(-1, keepdims=True)
    ),
    "LayerNorm with its ε": lambda z: norms.layer_norm(z)[0],
    "tanh": np.tanh,
    "nothing": lambda z: z,
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_wrong_layer_norm_has_another_row(name):
    assert letters(audit(PLANTED[name])) != TYPED["LayerNorm"]


def test_a_constant_factor_makes_no_difference():
    # The unbiased variance is a mistake, but not one that an invariance could show.
    def unbiased(z):
        return (z - z.mean(-1, keepdims=True)) / z.std(-1, keepdims=True, ddof=1)

    assert letters(audit(unbiased)) == TYPED["LayerNorm"]


def test_a_frozen_norm_is_not_a_following_one():
    frozen = NORMS["PowerNorm, frozen"]
    assert letters(audit(frozen.norm, frozen=True)) == "nnnnnnn"
    assert letters(audit(lambda z: frozen.norm(z)(z))) == TYPED["PowerNorm-V"]


def test_an_input_shift_is_a_transformation_of_ones_own():
    def shift_bias(setup, dice):
        return setup._replace(bias=setup.bias + dice.shift(1, setup.bias)), 1

    own = {"input shifted": invariance.Transformation(shift_bias, "shift", "", "data")}
    for name, verdict in {"LayerNorm": YES, "BatchNorm": YES, "RMSNorm": NO}.items():
        row = audit(NORMS[name].norm, bias=True, transformations=own, dtypes=[np.float64])
        assert row["input shifted"].verdict == verdict


def test_a_norm_that_returns_another_shape_is_refused():
    with pytest.raises(ValueError, match="of its input's shape"):
        audit(lambda z: z.mean(axis=-1))
    with pytest.raises(ValueError, match="frozen=True"):
        audit(NORMS["PowerNorm, frozen"].norm)


def test_a_norm_that_says_nothing_is_refused():
    with pytest.raises(ValueError, match="Check the norm on one array"):
        audit(lambda z: z * np.nan)
    with pytest.raises(ValueError, match="Check the norm on one array"):
        audit(lambda z: z / np.zeros_like(z))


def test_noise_cannot_hide_a_change():
    rng = np.random.default_rng(0)

    def noisy(z):  # the change that tanh shows stays below 30 times the noise
        return norms.layer_norm(z, eps=0.0)[0] + 8e-3 * rng.standard_normal(z.shape)

    with pytest.raises(ValueError, match="or random"):
        audit(lambda z: noisy(z) + 0.05 * np.tanh(z))
    with pytest.raises(ValueError, match="or random"):
        audit(noisy, dtypes=[np.float64])


def test_a_yes_in_float64_hides_no_more_than_it_says():
    limit = invariance.SAFETY * invariance.ILL_CONDITIONED * np.finfo(np.float64).eps
    assert 6e-11 < limit < 7e-11


def test_a_norm_that_the_change_breaks_is_not_invariant():
    def breaks(z):
        y = norms.rms_norm(z, eps=0.0)[0]
        return y if np.abs(z).max() < 50 else y * np.nan

    assert audit(breaks)["weight matrix rescaled"].verdict == NO


def test_a_norm_that_loses_precision_is_refused():
    with pytest.raises(ValueError, match="float32 for float64"):
        audit(lambda z: norms.layer_norm(z.astype(np.float32), eps=0.0)[0])
    row = audit(lambda z: norms.layer_norm(z.astype(np.float64), eps=0.0)[0])
    assert letters(row) == TYPED["LayerNorm"]


@pytest.mark.parametrize(
    ("norm", "row"),
    [
        (lambda z: z / np.sqrt((z**2).mean(-1, keepdims=True)), TYPED["RMSNorm"]),
        (lambda z: z / np.linalg.norm(z, axis=-1, keepdims=True), TYPED["RMSNorm"]),
        (lambda z: (z - z.mean(-1, keepdims=True)) / z.std(-1, keepdims=True), TYPED["LayerNorm"]),
        (lambda z: (z - z.mean((0, 1))) / z.std((0, 1)), TYPED["BatchNorm"]),
        (
            lambda z: (z - np.median(z, -1, keepdims=True)) / np.ptp(z, -1, keepdims=True),
            TYPED["LayerNorm"],
        ),
    ],
)
def test_a_norm_in_one_line_of_numpy_has_its_row(norm, row):
    assert letters(audit(norm)) == row


# --- epsilon --------------------------------------------------------------------------------------

WITH_EPS = {
    "LayerNorm": (lambda z, eps: norms.layer_norm(z, eps=eps)[0], moments, (2,)),
    "BatchNorm": (lambda z, eps: norms.batch_norm(z, eps=eps, feature_axis=-1)[0], moments, (0, 1)),
    "InstanceNorm": (
        lambda z, eps: norms.instance_norm(z, eps=eps, feature_axis=-1)[0],
        moments,
        (1,),
    ),
    "RMSNorm": (lambda z, eps: norms.rms_norm(z, eps=eps)[0], mean_square, (2,)),
    "PowerNorm-V": (lambda z, eps: norms.power_norm_v(z, eps=eps)[0], mean_square, (0, 1)),
}


@pytest.mark.parametrize("name", WITH_EPS)
@given(
    log_scale=st.floats(-4, 2),
    log_eps=st.floats(-8, -2),
    delta=st.floats(0.05, 20),
    seed=seeds,
)
def test_the_violation_at_a_positive_epsilon_is_the_predicted_one(
    name, log_scale, log_eps, delta, seed
):
    norm, statistic, axes = WITH_EPS[name]
    z = 10**log_scale * np.random.default_rng(seed).standard_normal((3, 4, 5))
    found = statistic(z, axes)
    squared = found.variance if statistic is moments else found
    eps = 10**log_eps
    predicted = epsilon_factor(squared, eps, delta)
    np.testing.assert_allclose(norm(delta * z, eps), predicted * norm(z, eps), rtol=1e-9)
    # The same, said without the statistic: a factor on z is a factor on epsilon.
    np.testing.assert_allclose(norm(delta * z, eps), norm(z, eps / delta**2), rtol=1e-9)


def test_a_wrong_prediction_would_be_noticed():
    z = 1e-2 * np.random.default_rng(0).standard_normal((3, 4, 5))
    wrong = epsilon_factor(moments(z, (2,)).variance, 1e-5, 10.0) ** 0.5  # forgets the square
    y, changed = norms.layer_norm(z)[0], norms.layer_norm(10 * z)[0]
    assert relative_change(wrong * y, changed) > 1e-3


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        (lambda z: norms.layer_norm(z)[0], ["up to eps", "no", "yes", "up to eps", "no"]),
        (lambda z: norms.rms_norm(z)[0], ["up to eps", "no", "no", "up to eps", "no"]),
        (  # its ε stands outside the root
            lambda z: norms.partial_rms_norm(z, p=0.5)[0],
            ["up to eps", "no", "no", "up to eps", "no"],
        ),
        (
            lambda z: norms.batch_norm(z, feature_axis=-1)[0],
            ["up to eps", "up to eps", "no", "up to eps", "yes"],
        ),
        (np.tanh, ["no"] * 5),  # it saturates, which is not what an epsilon does
    ],
)
def test_an_epsilon_is_recognised(norm, expected):
    row = audit(norm)
    assert [cell.verdict for cell in row.values()][:5] == expected
    assert all((c.counterexample is None) == (c.verdict != NO) for c in row.values())


def test_an_epsilon_is_recognised_however_large_it_is():
    row = audit(lambda z: norms.layer_norm(z, eps=1e3)[0], draws=2)
    assert row["weight matrix rescaled"].verdict == UP_TO_EPS


def test_an_epsilon_follows_one_law():
    def inside(z):
        return norms.rms_norm(z, eps=1e-3)[0]

    def outside(z):
        return z / (np.sqrt((z**2).mean(-1, keepdims=True)) + 1e-3)

    def either(z):  # 1/s² on some draws, 1/s on others
        return (inside if z.shape[0] % 2 else outside)(z)

    one = TRANSFORMATIONS["data set rescaled"]
    for norm, law in ((inside, True), (outside, True), (either, False), (np.tanh, False)):
        rng = np.random.default_rng(0)
        found = invariance._falls_with_scale(invariance.Subject(norm), one, rng, 1, False, None)
        assert found == law, norm


def test_a_bias_is_not_taken_for_an_epsilon():
    row = audit(NORMS["LayerNorm"].norm, bias=True)
    assert row["weight matrix rescaled"].verdict == NO
    assert UP_TO_EPS not in {cell.verdict for cell in row.values()}


@given(delta=st.floats(0.05, 20), alpha=st.floats(0, 0.99), seed=seeds)
def test_power_norm_forgets_as_predicted(delta, alpha, seed):
    z = np.random.default_rng(seed).standard_normal((3, 4, 5))
    settled = mean_square(z, (0, 1)).reshape(-1)
    reference, _, psi_squared = norms.power_norm(z, None, None, settled, alpha=alpha, eps=0.0)
    for k in range(30):
        y, _, psi_squared = norms.power_norm(
            delta * z, None, None, psi_squared, alpha=alpha, eps=0.0
        )
        np.testing.assert_allclose(y, memory_factor(delta, k, alpha) * reference, rtol=1e-9)


# --- the pieces -----------------------------------------------------------------------------------


def test_a_change_is_relative_and_may_be_infinite():
    y = np.asarray([3.0, 4.0])
    assert relative_change(y, 2 * y) == pytest.approx(1.0)
    assert relative_change(y, y) == 0
    assert relative_change(0 * y, 0 * y) == 0
    assert relative_change(0 * y, y) == relative_change(y, y * np.inf) == float("inf")


@given(seed=seeds, bias=st.booleans(), positions=st.sampled_from([None, 1, 4]))
def test_a_draw_has_the_shapes_it_promises(seed, bias, positions):
    x, weight, shift = draw(np.random.default_rng(seed), np.float32, bias=bias, positions=positions)
    assert 2 <= x.shape[0] <= 5
    assert 2 <= x.shape[2] <= 5
    assert x.shape[1] == positions or (positions is None and 3 <= x.shape[1] <= 6)
    assert weight.shape[0] in (4, 8, 12)
    assert x.dtype == weight.dtype == np.float32
    assert (shift is None) != bias
    z = linear(x, weight, shift)
    assert z.shape == (*x.shape[:2], weight.shape[0])
    assert z.dtype == np.float32


def test_a_table_shows_as_text_and_in_a_notebook():
    found = audit_all({name: NORMS[name] for name in ("LayerNorm", "RMSNorm")}, draws=1)
    lines = str(found).splitlines()
    assert lines[0].split() == ["weight"] * 3 + ["data"] * 2 + ["one"] * 2
    assert lines[3].split() == ["LayerNorm", "yes", "no", "yes", "yes", "no", "yes", "yes"]
    html = found._repr_html_()
    assert html.count("<tr>") == 3
    assert html.count('scope="col"') == len(NAMES)
    assert html.count("<strong>yes</strong>") == 5 + 4
    assert str(found["RMSNorm"]).splitlines()[3].startswith("weight matrix recentred  no")
