"""How studies are run and read, in a world whose runs cost nothing."""

import dataclasses
import json

import numpy as np
import pytest
from normtutor_studies import numbers
from normtutor_studies.engine import STUDIES, Effect, Study, at_best_rate, grid, search
from normtutor_studies.store import Store, World


def train(cell, rate, seed):
    """A loss that falls over eight points to (log2 of the rate over its best)², plus the arm's."""
    if rate > 0.1:
        return {"diverged": True, "loss": [3.0] + [None] * 7}
    least = cell["height"] + 0.001 * seed + np.log2(rate / cell["best"]) ** 2
    return {"diverged": False, "loss": [least + (7 - point) * 0.1 for point in range(8)]}


def world(**settings):
    return World("toy", train, {"height": 1.0, "best": 0.02, **settings}, rate=0.005)


def toy_study(name, arms, **more):
    more = {"worlds": [world()], **more}
    return Study(name=name, chapter=1, question=name, arms=arms, control="-", **more)


@pytest.fixture
def made(tmp_path):
    """A finished study of two arms."""
    arms = {"low": {}, "high": {"height": 2.0, "best": 0.04}}
    study = toy_study(f"made in {tmp_path}", arms, folder=tmp_path)
    runs = list(study.run())
    assert len(runs) == 2 * len(study.seeds)
    return study


def test_each_arm_has_the_best_rate_of_the_tuning_seeds(made):
    assert made.rate("toy", "low") == 0.02
    assert made.rate("toy", "high") == 0.04
    np.testing.assert_allclose(made.final("toy", "low"), 1 + 0.001 * np.arange(5), atol=1e-4)


def test_a_worse_rate_was_tried_on_both_sides(made, tmp_path):
    lines = map(json.loads, (tmp_path / "toy.jsonl").read_text().splitlines())
    tried = {run["rate"] for run in lines if run.get("seed") == 90 and run.get("cell") == {}}
    assert {0.01, 0.02, 0.04} <= tried


def test_an_effect_is_read_at_half_and_at_full_length(made):
    effect = made.effect("toy", "high", "low")
    assert effect.half.shape == effect.full.shape == (5,)
    np.testing.assert_allclose(effect.full, 1.0, atol=1e-4)
    assert made.enters("high", "low")
    assert not made.enters("low", "low")


def test_losses_and_their_differences_are_rows_without_a_name(made):
    np.testing.assert_allclose(made.row("toy: high"), made.final("toy", "high"))
    np.testing.assert_allclose(made.row("toy: high - low"), 1.0, atol=1e-4)
    for wrong in ("toy: hgih", "toy: high - lwo", "yot: high", "high"):
        with pytest.raises(KeyError, match="has no row"):
            made.row(wrong)


def test_a_comparison_names_arms_that_there_are():
    with pytest.raises(ValueError, match="has no arm hgih"):
        toy_study("misnamed", {"high": {}}, pairs=[("hgih", "high")])


@pytest.mark.parametrize(
    ("half", "full", "sign"),
    [
        ([1.0, 1.0], [1.0, 2.0], 1),
        ([-1.0, -1.0], [-1.0, -2.0], -1),
        ([1.0, -0.1], [1.0, 2.0], 0),
        ([1.0, 1.0], [1.0, np.nan], 0),
    ],
)
def test_a_sign_is_one_that_all_seeds_have_at_both_lengths(half, full, sign):
    assert Effect(np.array(half), np.array(full)).sign == sign


def test_nothing_is_run_twice(made, tmp_path):
    before = (tmp_path / "toy.jsonl").read_text()
    study = toy_study(f"again in {tmp_path}", made.arms, folder=tmp_path)
    list(study.run())
    assert (tmp_path / "toy.jsonl").read_text() == before


@pytest.mark.parametrize(("height", "needed"), [(2.0, True), (1.0, False)])
def test_the_second_world_is_run_where_the_first_leaves_something_to_confirm(
    tmp_path, height, needed
):
    first, second = world(), dataclasses.replace(world(), name="second")
    study = toy_study(
        f"two worlds in {tmp_path}",
        {"low": {}, "high": {"height": height}},
        pairs=[("high", "low")],
        worlds=[first, second],
        folder=tmp_path,
    )
    list(study.run())
    assert study.on_record() == (["toy", "second"] if needed else ["toy"])
    assert study.complete()
    assert study.enters("high", "low") == needed


def test_a_setting_added_later_keeps_the_record_only_in_the_header(made, tmp_path):
    with pytest.raises(ValueError, match="other settings of depth"):
        _ = Store(world(depth=6), tmp_path).runs


def test_a_damaged_line_is_named(made, tmp_path):
    path = tmp_path / "toy.jsonl"
    path.write_text(path.read_text() + '{"cell": {}, "ra\n')
    with pytest.raises(ValueError, match=r"toy\.jsonl, line \d+: damaged"):
        _ = Store(made.worlds[0], tmp_path).runs


def test_what_is_not_on_record_says_how_to_make_it(tmp_path):
    study = toy_study(f"missing in {tmp_path}", {"low": {}}, folder=tmp_path)
    assert not study.complete()
    with pytest.raises(LookupError, match="python -m normtutor_studies run missing"):
        study.final("toy", "low")


def test_an_arm_with_a_rate_of_its_own_keeps_it_and_may_diverge(tmp_path):
    study = toy_study(f"fixed in {tmp_path}", {"too large": {"rate": 1.0}}, folder=tmp_path)
    list(study.run())
    assert np.isinf(study.final("toy", "too large")).all()
    assert np.isnan(study.values("toy", "too large", "loss")[:, -1]).all()


def test_a_cell_with_an_unknown_setting_is_refused():
    with pytest.raises(KeyError, match="toy has no setting hieght"):
        toy_study("misspelt", {"low": {"hieght": 1.0}})


def test_a_grid_of_rates_is_tried_on_the_tuning_seeds_and_one_that_diverges_is_not_chosen(tmp_path):
    options = {"rates": (0.01, 0.04, 1.0), "seeds": (2, 3), "tuning": (0,), "folder": tmp_path}
    study = toy_study(f"grid in {tmp_path}", {"high": {"height": 2.0, "best": 0.04}}, **options)
    runs = list(study.run())
    assert study.rate("toy", "high") == 0.04
    assert [run["seed"] for run in runs] == [2, 3]


def test_arms_are_read_by_their_settings(made):
    np.testing.assert_equal(made.read("loss", height=2.0), made.values("toy", "high", "loss"))
    assert made.choices("height") == [1.0, 2.0]
    both = made.across("height")
    assert both.shape == (5, 2, 8)
    np.testing.assert_equal(both[:, 0], made.values("toy", "low", "loss"))
    with pytest.raises(LookupError, match="low, high have them"):
        made.read("loss")
    with pytest.raises(LookupError, match="none has them"):
        made.read("loss", height=7.0)


def test_a_seed_gets_the_rate_that_is_best_on_the_others():
    losses = np.array([[0.1, 0.5], [0.9, 0.4], [0.9, 0.3], [np.nan, 0.2]])
    # Seed 0 would like the first rate, but the others speak against it.
    assert at_best_rate(losses).tolist() == [0.5, 0.4, 0.3, 0.2]
    assert np.isinf(at_best_rate(np.array([[0.1, 0.2], [0.1, 0.2], [np.nan, 0.2]]))[2])


def test_what_nothing_is_trained_for_has_no_rate(tmp_path):
    world = World("still", lambda cell, rate, seed: {"size": float(seed)}, {"depth": 1})
    study = toy_study(f"still in {tmp_path}", {"only": {}}, worlds=[world], folder=tmp_path)
    assert [run["rate"] for run in study.run()] == [None] * 5
    assert study.read("size").tolist() == [0, 1, 2, 3, 4]


def test_a_grid_varies_what_is_a_list():
    assert grid(a=[1, 2], b=(3, 4)) == [{"a": 1, "b": (3, 4)}, {"a": 2, "b": (3, 4)}]


def test_a_search_without_an_end_stops():
    with pytest.raises(ValueError, match="no best rate between"):
        search(lambda rate: -rate, 1.0)


# --- numbers on pages -----------------------------------------------------------------------------


def test_a_mark_names_a_study_a_row_and_its_digits(made, monkeypatch):
    rows = {"gap of both": lambda study: study.effect("toy", "high", "low").full}
    study = dataclasses.replace(made, name="with_rows", rows=rows)
    monkeypatch.setitem(STUDIES, "with_rows", study)
    assert numbers.said("with_rows / gap of both / 2") == "1.00"
    assert numbers.said("with_rows / gap of both / 0%") == "100%"
    assert numbers.said("with_rows / toy: low - high / 1") == "−1.0"
    with pytest.raises(KeyError, match="has no row 'gap'; it has gap of both"):
        numbers.said("with_rows / gap / 2")
    with pytest.raises(ValueError, match="study / row / digits"):
        numbers.said("with_rows, gap")


def test_a_table_has_every_arm_and_says_what_diverged(tmp_path):
    arms = {"low": {}, "too large": {"rate": 1.0}}
    study = toy_study(f"table in {tmp_path}", arms, folder=tmp_path)
    list(study.run())
    lines = numbers.table(study).splitlines()
    assert lines[2].startswith("| toy | low | 0.02 | 1.402\N{NO-BREAK SPACE}±")
    assert lines[3] == "| toy | too large | 1 | diverged | diverged |"
