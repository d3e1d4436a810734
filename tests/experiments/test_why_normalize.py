"""Final norm and stability: what is chosen, what works, and where the larger runs go."""

import dataclasses

import numpy as np
import pytest
import torch
from normtutor_studies import experiments
from normtutor_studies.experiments import (
    deep_last_norm,
    deep_last_norm_rates,
    deep_tanh_starts,
    deep_tanh_starts_again,
    embedding_sizes,
    final_norm,
    fresh,
    last_norm_parts,
    more_tokens,
    more_tokens_rates,
    rates,
    records,
    tanh_embeddings,
    tanh_embeddings_rates,
    tanh_starts,
    text_stability,
    text_stability_rates,
    timing,
)
from normtutor_studies.experiments.__main__ import main
from normtutor_studies.experiments.package_chunks import Size, train_models
from normtutor_studies.experiments.records import Saved, module_of
from numpy.testing import assert_allclose

from normtutor.models import TransformerLM

TINY = Size(width=8, heads=2, steps=6, warmup=2, held_out_chunks=64, clip=0.5)


def test_runs_are_the_same_together_and_one_by_one():
    settings = {"depth": 2, "norm": "rms", "wiring": "pre", "tied": False}
    runs = [(3, 1e-3), (4, 4e-3)]
    for (_, stacked), (_, single) in zip(
        train_models(TINY, runs, **settings),
        train_models(TINY, runs, together=False, **settings),
        strict=True,
    ):
        assert_allclose(stacked.loss, single.loss, rtol=1e-4)
        assert_allclose(stacked.gradient_norm, single.gradient_norm, rtol=1e-3)


# --- what is chosen -------------------------------------------------------------------------------


def saved_final(losses):
    """(norm, final, rate, α) -> validation losses by seed; the test loss is larger by 1."""
    runs = tuple(
        {
            "seed": seed,
            "records": [
                {
                    **vars(final_norm.Cell(norm, final, True, alpha=alpha)),
                    "learning_rate": rate,
                    "validation": values[seed],
                    "test": None if values[seed] is None else values[seed] + 1,
                }
                for (norm, final, rate, alpha), values in losses.items()
            ],
        }
        for seed in range(2)
    )
    return Saved("final_norm", {}, runs)


def test_the_rate_is_chosen_on_the_mean_validation_loss_of_runs_that_end():
    saved = saved_final(
        {
            ("layer", True, 0.1, 0.5): (4.0, 5.0),
            ("layer", True, 0.2, 0.5): (4.4, 4.4),
            ("layer", True, 0.4, 0.5): (1.0, None),  # one seed diverged
            ("tanh", True, 0.1, 0.5): (3.0, 3.2),
            ("tanh", True, 0.1, 1.0): (3.0, 3.1),
        }
    )
    best = final_norm.chosen(saved, norm="layer", final=True)
    assert best["learning_rate"] == 0.2
    assert_allclose(best["test"], [5.4, 5.4])
    assert final_norm.chosen(saved, norm="tanh")["alpha"] == 1
    with pytest.raises(ValueError, match="reached the end"):
        final_norm.chosen(saved, norm="none")


def test_dynamic_tanh_starts_where_its_cell_says_at_each_place():
    cell = final_norm.Cell("tanh", True, False, alpha=2.0, last=0.25)
    model = TransformerLM(20, width=8, heads=2, depth=2, norm="tanh", wiring="pre")
    final_norm.start_alpha(cell, model)
    starts = {name: p.item() for name, p in model.named_parameters() if name.endswith("alpha")}
    assert starts.pop("final_norm.alpha") == 0.25
    assert len(starts) == 4 and set(starts.values()) == {2.0}


def test_small_gains_start_in_the_layers_and_not_after_the_last_one():
    model = TransformerLM(20, width=8, heads=2, depth=2, norm="layer", wiring="pre")
    deep_last_norm_rates.start_gain(0.1, model)
    norms = {name: m for name, m in model.named_modules() if isinstance(m, torch.nn.LayerNorm)}
    assert_allclose(norms.pop("final_norm").weight.detach(), 1)
    assert len(norms) == 4
    for norm in norms.values():
        assert_allclose(norm.weight.detach(), 0.1, rtol=1e-6)


def saved_rates(losses, margin=0.25):
    records = [
        {"build": b, "depth": 12, "scale": s, "learning_rate": r, "validation": loss}
        for (b, s, r), loss in losses.items()
    ]
    environment = {"versions": {}, "data": {}}
    run = {"seed": 0, "records": records, "environment": environment, "cpu_seconds": 0.0}
    return Saved("text_stability_rates", {"margin": margin}, (run,))


def test_a_rate_works_if_it_comes_near_the_best_of_any_build():
    saved = saved_rates(
        {
            ("no norm", 1.0, 0.1): None,
            ("no norm", 1.0, 0.2): 5.0,
            ("Pre-LN", 1.0, 0.1): 4.3,
            ("Pre-LN", 4.0, 0.1): 4.2,
            ("Pre-LN", 4.0, 0.2): 4.0,
            ("Pre-LN", 4.0, 0.4): 4.26,
        }
    )
    assert text_stability_rates.working_rates(saved, 12) == {"no norm": [], "Pre-LN": [0.1, 0.2]}
    assert text_stability_rates.best_rates(saved) == {
        ("no norm", 12, 1.0): 0.2,
        ("Pre-LN", 12, 4.0): 0.2,
    }


def scales_tried(monkeypatch, loss, rates=(0.1, 0.2, 2.0)) -> list:
    """The scales that tuning tries in turn, if ``loss`` says what a scale ends at."""
    calls = []

    def fake(size, build, depth, scale, runs):
        calls.append((scale, [rate for _, rate in runs]))
        return [
            {"scale": scale, "learning_rate": r, "diverged": r > 1, "validation": loss(scale)}
            for _, r in runs
        ]

    monkeypatch.setattr(text_stability_rates, "train_build", fake)
    config = dataclasses.replace(text_stability_rates.CONFIG, rates=rates)
    text_stability_rates.tune(config, "Pre-LN", 12, 0)
    return calls


def test_tuning_widens_the_scales_until_the_best_lies_inside(monkeypatch):
    first, rest = [0.1, 0.2, 2.0], [0.4, 0.8]
    up = scales_tried(monkeypatch, lambda scale: abs(scale - 16), (*first, *rest))
    assert up == [(scale, first) for scale in (1.0, 4.0, 16.0, 64.0)] + [(16.0, rest)]
    down = scales_tried(monkeypatch, lambda scale: abs(scale - 1 / 4))
    assert [scale for scale, _ in down] == [1.0, 4.0, 1 / 4, 1 / 16]


def test_tuning_stops_where_a_further_scale_gains_little(monkeypatch):
    little = text_stability_rates.CONFIG.scale_gain / 2
    losses = {1.0: 6.0, 4.0: 5.0, 16.0: 4.0, 64.0: 4.0 - little}
    calls = scales_tried(monkeypatch, losses.__getitem__)
    assert [scale for scale, _ in calls] == [1.0, 4.0, 16.0, 64.0]
    # Where everything diverges, one more is tried and no further one.
    calls = scales_tried(monkeypatch, lambda scale: float("nan"), rates=(2.0, 3.0, 4.0))
    assert [scale for scale, _ in calls] == [1.0, 4.0, 1 / 4]


def test_the_grid_goes_on_while_its_largest_rate_is_the_best(monkeypatch):
    tried = []

    def fake(size, build, depth, scale, runs):
        tried.extend(rate for _, rate in runs)
        return [
            {"scale": scale, "learning_rate": r, "diverged": False, "validation": abs(r - 0.3)}
            for _, r in runs
        ]

    monkeypatch.setattr(text_stability_rates, "train_build", fake)
    text_stability_rates.tune(text_stability_rates.CONFIG, "Pre-LN", 12, 0)
    assert set(tried) - set(text_stability_rates.CONFIG.rates) == {0.25, 0.63}
    tried.clear()
    config = dataclasses.replace(text_stability_rates.CONFIG, beyond=())
    text_stability_rates.tune(config, "Pre-LN", 12, 0)
    assert set(tried) == set(config.rates)


def test_power_norm_starts_with_the_statistic_of_the_batch(monkeypatch):
    made = []

    def fake(size, runs, *, norm, together, **settings):
        made.append((norm, together))
        return []

    monkeypatch.setattr(text_stability_rates, "train_models", fake)
    text_stability_rates.train_build(TINY, "Pre-PowerNorm", 2, 1.0, [])
    text_stability_rates.train_build(TINY, "Pre-BatchNorm", 2, 1.0, [])
    (power, together), (batch, batches_together) = made
    assert power(4).warmup_steps == TINY.steps // 3 == 2 and not together
    assert batch == "batch" and batches_together


def test_the_parts_of_the_grid_are_put_together():
    grid = text_stability_rates.grids()
    cells = [
        (r["build"], r["depth"], r["scale"], r["learning_rate"]) for r in grid.runs[0]["records"]
    ]
    assert len(set(cells)) == len(cells)
    assert {depth for _, depth, _, _ in cells} == set(grid.config["depths"])
    for depth in grid.config["depths"]:
        builds = {build for build, at, _, _ in cells if at == depth}
        assert len(builds) == (4 if depth == 24 else 8)
        for build in builds:
            tried = text_stability_rates.tried_rates(grid, build, depth)
            assert len(tried) in (7, 8)


@pytest.mark.parametrize("depth", [12, 24])
def test_deep_networks_train_at_three_rates_with_a_norm(depth):
    working = text_stability_rates.working_rates(text_stability_rates.grids(), depth)
    norms = [build for build in working if build.startswith("Pre-") and "PowerNorm" not in build]
    assert len(norms) == (3 if depth == 12 else 2)
    assert all(len(working[build]) == 3 for build in norms)
    weights = [build for build in working if build.startswith("no norm")]
    assert [build for build in weights if working[build]] == ["no norm, Fixup"]


def test_grids_that_were_run_apart_have_the_same_seeds(monkeypatch):
    grid = experiments.load("more_tokens_rates")
    other = dataclasses.replace(grid, runs=({**grid.runs[0], "seed": 1},))
    monkeypatch.setattr(rates, "load", lambda name, scale: {"a": grid, "b": other}[name])
    assert len(rates.joined("a", "a").runs[0]["records"]) == 2 * len(grid.runs[0]["records"])
    assert rates.joined("a", "a").config == grid.config
    with pytest.raises(ValueError, match="different seeds"):
        rates.joined("a", "b")


def test_the_two_grids_of_more_tokens_are_put_together():
    grid = more_tokens_rates.grids()
    cells = {tuple(c.values()) for c in grid.config["conditions"]}
    found = [
        tuple(record[key] for key in ("build", "depth", "scale", "learning_rate"))
        for record in grid.runs[0]["records"]
    ]
    assert set(found) == cells and len(found) == len(cells) == 24


def test_no_rate_that_works_best_ends_its_grid():
    grid = text_stability_rates.grids()
    for (build, depth, _), rate in text_stability_rates.best_rates(grid).items():
        if text_stability_rates.working_rates(grid, depth)[build]:
            tried = text_stability_rates.tried_rates(grid, build, depth)
            assert tried[0] < rate < tried[-1]


def test_running_statistics_do_not_explain_where_batch_norm_and_power_norm_end():
    saved = experiments.load("text_stability")
    for condition in saved.config["conditions"]:
        if condition["build"] in ("Pre-BatchNorm", "Pre-PowerNorm"):
            where = {"build": condition["build"], "depth": condition["depth"]}
            gap = saved.values("test", **where) - saved.values("test_in_batches", **where)
            assert np.abs(gap).max() < 0.005


def test_the_rates_are_those_that_were_chosen():
    best = text_stability_rates.best_rates(text_stability_rates.grids())
    best |= text_stability_rates.best_rates(experiments.load("text_stability_rates_0"))
    taken = {(c.build, c.depth, c.scale): c.learning_rate for c in text_stability.CONFIG.conditions}
    assert taken.items() <= best.items()


def test_each_size_of_the_embeddings_has_its_best_rate():
    grid = text_stability_rates.grids()
    for c in embedding_sizes.CONFIG.conditions:
        tried = {
            record["learning_rate"]: record["validation"]
            for record in grid.runs[0]["records"]
            if (record["build"], record["depth"], record["scale"]) == (c.build, c.depth, c.scale)
        }
        assert c.learning_rate == min(tried, key=lambda rate: tried[rate] or np.inf)


def test_more_tokens_have_the_rates_that_were_chosen():
    best = more_tokens_rates.best_rates(more_tokens_rates.grids())
    taken = {(c.build, c.depth, c.scale): c.learning_rate for c in more_tokens.CONFIG.conditions}
    assert taken == best


def test_twelve_layers_cannot_tell_rms_norm_from_layer_norm():
    losses = text_stability.losses(experiments.load("text_stability"), 12)
    assert np.isclose(text_stability.MARGIN, experiments.load("rms_against_layer").config["margin"])
    assert text_stability.within_margin(losses["Pre-RMSNorm"] - losses["Pre-LN"])
    # The test can fail: Fixup is behind by more than it allows, and scattered seeds decide nothing.
    deepest = text_stability.losses(experiments.load("text_stability"), 24)
    assert text_stability.within_margin(deepest["Pre-RMSNorm"] - deepest["Pre-LN"])
    assert not text_stability.within_margin(deepest["no norm, Fixup"] - deepest["Pre-RMSNorm"])
    assert not text_stability.within_margin(np.array([-0.03, 0.03, -0.02, 0.02, 0.0]))


def test_the_grid_was_not_cut_at_the_best_rate():
    """A best rate at the end of the grid would say that the grid is too short."""
    saved = experiments.load("final_norm")
    for norm in ("layer", "rms", "tanh", "none"):
        for tied in (True, False):
            rate = final_norm.chosen(saved, norm=norm, tied=tied, scale=1.0)["learning_rate"]
            assert rate > min(saved.config["rates"])
            assert rate < max(saved.config["rates"])


def test_dynamic_tanh_starts_where_it_was_found_to_start_best():
    swept = experiments.load("tanh_starts")
    best = tanh_starts.best_starts(swept)
    for cell in final_norm.CONFIG.cells:
        if cell.norm == "tanh" and cell.final:
            found = best[True, cell.tied]
            assert (cell.alpha, cell.last) == (found["alpha"], found["last"])
    for tied in (True, False):
        losses = [
            swept.values("validation", final=False, tied=tied, alpha=alpha, learning_rate=0.032)[0]
            for alpha in (0.25, 0.5, 1.0)
        ]
        assert abs(losses[0] - losses[1]) < 0.001 < losses[2] - losses[1]


def test_who_is_ahead_when_all_are_tuned_depends_on_the_output():
    saved = experiments.load("final_norm")
    for tied, sign in ((True, -1), (False, 1)):
        best = [final_norm.chosen(saved, norm=norm, tied=tied) for norm in ("tanh", "layer")]
        assert (sign * (best[0]["test"] - best[1]["test"])).mean() > 0
    assert best[0]["final"] is False and best[1]["scale"] == 64


def test_larger_embeddings_of_dynamic_tanh_on_one_seed():
    tried, usual = experiments.load("tanh_embeddings_rates"), experiments.load("tanh_starts")
    assert tried.seeds == usual.seeds
    validation = {}
    for saved in (tried, usual):
        for r in saved.runs[0]["records"]:
            lower = {0.5: 1.0, 0.125: 4.0, 0.03125: 16.0}.get(r["alpha"], 64.0)
            key = r["norm"], r["final"], r["tied"], r["scale"], lower if r["scale"] > 1 else 1.0
            validation.setdefault(key, {}).setdefault(r["learning_rate"], []).append(
                r["validation"]
            )
    least = {key: min(map(min, losses.values())) for key, losses in validation.items()}
    for tied in (True, False):
        without = least["tanh", False, tied, 1.0, 1.0]
        larger = min(least["tanh", False, tied, 4.0, lower] for lower in (1.0, 4.0))
        assert round(larger - without, 2) == 0.12
    for tied, gain in ((True, 0.14), (False, 0.05)):
        usual_last, lower = (least["tanh", True, tied, s, s] for s in (1.0, 4.0))
        assert round(usual_last - lower, 2) == gain
        assert min(least["tanh", True, tied, s, s] for s in (16.0, 64.0)) > usual_last
    assert round(least["tanh", True, True, 4.0, 4.0] - least["tanh", False, True, 1.0, 1.0], 2) == (
        0.18
    )
    gain = least["tanh", False, False, 1.0, 1.0] - least["tanh", True, False, 4.0, 4.0]
    assert round(gain, 3) == 0.017
    assert round(least["layer", True, False, 64.0, 1.0], 3) - 0.007 == pytest.approx(
        round(least["layer", True, False, 256.0, 1.0], 3), abs=6e-4
    )


def test_larger_embeddings_are_trained_as_was_best_on_another_seed():
    best = tanh_embeddings_rates.best(experiments.load("tanh_embeddings_rates"))
    for condition in tanh_embeddings.CONFIG.conditions:
        found = best[condition.norm, condition.final, condition.tied]
        assert {key: found[key] for key in vars(condition)} == vars(condition)
    assert best["layer", True, True]["scale"] == 64
    assert not set(tanh_embeddings.SEEDS) & set(tanh_embeddings_rates.SEEDS)


def test_the_best_of_two_runs_is_taken_by_the_validation_loss():
    saved, there = experiments.load("tanh_embeddings"), experiments.load("final_norm")
    assert_allclose(
        tanh_embeddings.at_best("layer", False, saved), saved.values("test", norm="layer")
    )
    tanh = final_norm.chosen(there, norm="tanh", tied=False)["test"]
    assert_allclose(tanh_embeddings.at_best("tanh", False, saved), tanh)


def test_the_figures_get_what_they_need():
    rates, saved = text_stability_rates.grids(), experiments.load("text_stability")
    for depth in rates.config["depths"]:
        for outcome in text_stability.outcomes(rates, saved, depth).values():
            assert set(outcome.working) <= set(outcome.tried)
            assert len(outcome.best) in (1, len(saved.seeds))
    curves = final_norm.curves(experiments.load("final_norm"))
    seeds = len(experiments.load("final_norm").seeds)
    for rows in curves.values():
        for row in rows.values():
            assert {values.shape for values in row.values()} == {(seeds, 4)}


def test_twelve_layers_are_trained_as_the_grids_chose():
    best = deep_last_norm_rates.best_rates(experiments.load("deep_last_norm_rates"))
    wide = text_stability_rates.best_rates(text_stability_rates.grids())
    starts = deep_tanh_starts.best_starts(experiments.load("deep_tanh_starts"))
    for c in deep_last_norm.CONFIG.conditions:
        if isinstance(c, deep_last_norm.TanhCondition):
            found = starts[c.final, c.tied]
            assert dataclasses.asdict(c).items() <= found.items()
            grid = deep_tanh_starts.CONFIG.rows
        elif isinstance(c, deep_last_norm.GainCondition):
            tried = [
                record
                for record in experiments.load("deep_small_gains").runs[0]["records"]
                if (record["build"], record["final"], record["tied"]) == (c.build, c.final, c.tied)
            ]
            found = min(tried, key=lambda record: record["validation"])
            assert dataclasses.asdict(c).items() <= found.items()
            continue
        elif (c.build, c.final, c.tied, c.scale) in best:
            assert best[c.build, c.final, c.tied, c.scale] == c.learning_rate
            grid = deep_last_norm_rates.CONFIG.rows
        else:
            assert wide[c.build, 12, c.scale] == c.learning_rate
            continue
        build = (c.build, c.final, c.tied, c.scale)
        tried = {
            rate
            for row in grid
            if row.clip and dataclasses.astuple(row.network)[:4] == build
            for rate in row.rates
        }
        assert min(tried) < c.learning_rate < max(tried)


def test_dynamic_tanh_of_twelve_layers_starts_between_worse_starts():
    saved = experiments.load("deep_tanh_starts")
    smallest: dict = {}
    for record in saved.runs[0]["records"]:
        cell, alpha = (record["final"], record["tied"]), record["alpha"]
        if not record["diverged"]:
            losses = smallest.setdefault(cell, {})
            losses[alpha] = min(record["validation"], losses.get(alpha, np.inf))
    for cell, best in deep_tanh_starts.best_starts(saved).items():
        assert min(smallest[cell]) < best["alpha"] < max(smallest[cell])
        assert best["alpha"] < final_norm.Cell("tanh", *cell).alpha


def test_further_seeds_choose_the_start_and_the_embeddings_that_the_first_chose():
    saved = experiments.load("deep_tanh_starts_again")
    first = deep_tanh_starts.best_starts(experiments.load("deep_tanh_starts"))
    assert len(saved.seeds) == 2 and not set(saved.seeds) & set(deep_tanh_starts.SEEDS)
    for tied in (True, False):
        chosen = first[False, tied]
        lost = deep_tanh_starts_again.lost(saved, tied)
        assert lost.pop((chosen["scale"], chosen["alpha"])).tolist() == [0, 0]
        assert min(values.min() for values in lost.values()) > 0
        alphas = [alpha for scale, alpha in lost if scale == chosen["scale"]]
        assert min(alphas) < chosen["alpha"] < max(alphas)


def test_trainings_that_stand_in_two_records_are_the_same():
    deep, other = experiments.load("deep_last_norm"), experiments.load("text_stability")
    for build in ("Pre-LN", "no norm, Fixup"):
        final = build == "Pre-LN"
        here = deep.values("test", build=build, final=final, tied=False)
        assert other.seeds[: len(here)] == deep.seeds
        assert_allclose(here, other.values("test", build=build, depth=12)[: len(here)], rtol=0)


def test_a_diverged_rate_is_not_chosen_at_twelve_layers():
    cell = {"build": "Pre-LN", "final": True, "tied": True}
    records_ = [
        {**cell, "scale": scale, "learning_rate": rate, "clip": clip, "validation": loss}
        for scale, rate, clip, loss in (
            (1.0, 0.1, 1.0, 5.0),
            (4.0, 0.1, 1.0, None),
            (4.0, 0.2, 1.0, 4.5),
            (1.0, 0.2, None, 4.0),  # without clipping: a control
        )
    ]
    saved = Saved("deep_last_norm_rates", {}, ({"seed": 0, "records": records_},))
    assert deep_last_norm_rates.best_rates(saved) == {("Pre-LN", True, True, 4.0): 0.2}


def test_one_length_for_all_tokens_keeps_their_lengths_among_themselves():
    x = torch.randn(3, 5, 8) * torch.arange(1, 6)[:, None]
    y = last_norm_parts.OneLength(8)(x)
    assert_allclose(y.square().mean().item(), 1, rtol=1e-5)
    assert_allclose((y / x).detach(), (y / x)[0, 0, 0].item(), rtol=1e-4)


def test_a_copied_output_starts_as_the_tied_one_and_is_trained_alone():
    model = TransformerLM(20, width=8, heads=2, depth=1, norm="layer", wiring="pre")
    tokens = torch.arange(6)[None]
    before = model.eval()(tokens)
    last_norm_parts.prepare("copied", "norm", model)
    assert_allclose(model(tokens).detach(), before.detach(), rtol=1e-6)
    assert model.head.weight is not model.token_embedding.weight


def test_the_first_two_last_places_are_those_of_final_norm():
    here, there = experiments.load("last_norm_parts"), experiments.load("final_norm")
    for last, final in (("norm", True), ("none", False)):
        best = final_norm.chosen(there, norm="layer", final=final, tied=True, scale=1.0)
        assert best["learning_rate"] == 0.032
        assert_allclose(here.values("test", head="tied", last=last), best["test"], rtol=0)


# --- the larger size ------------------------------------------------------------------------------


def test_the_larger_size_has_a_configuration_and_a_record_of_its_own(tmp_path, monkeypatch, capsys):
    large = dataclasses.replace(final_norm.CONFIG, **final_norm.REDUCED)
    monkeypatch.setattr(final_norm, "LARGE_CONFIG", large)
    command = ["run", "final_norm", "--scale", "large", "--seeds", "1", "--jobs", "1"]
    assert main([*command, "--directory", str(tmp_path)]) == 0
    assert "--scale large" in capsys.readouterr().out
    assert experiments.load("final_norm", tmp_path, scale="large").seeds == [1]
    with pytest.raises(ValueError, match="another configuration"):
        experiments.load("final_norm", tmp_path)
    assert main(["run", "gru_statistics", "--scale", "large"]) == 1
    assert "book's size alone" in capsys.readouterr().err
    with pytest.raises(ValueError, match="scale must be one of"):
        records.configuration("final_norm", "huge")


def test_large_runs_take_their_rates_from_the_large_run_that_chose_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="run text_stability_rates --scale large"):
        records.configuration("text_stability", "large")
    rates = saved_rates({("Pre-LN", 4.0, 0.1): 4.2, ("Pre-LN", 4.0, 0.2): 4.0})
    config = records.as_plain(text_stability_rates.LARGE_CONFIG)
    records.save(dataclasses.replace(rates, config=config), tmp_path / "runs" / "large")
    large = records.configuration("text_stability", "large")
    assert large.conditions == (text_stability.Condition("Pre-LN", 12, 4.0, 0.2),)
    assert large.size.width == 256 and large.size.clip == 1.0


# --- what a run will cost -------------------------------------------------------------------------


def test_each_cell_is_timed_by_a_few_steps(monkeypatch, capsys):
    ran = []

    def fake(config, seed):
        ran.append((config.cells, config.size.steps))
        now[0] += 10 + 2 * config.size.steps  # 10 seconds to build and score, 2 a step

    now = [0.0]
    monkeypatch.setattr(final_norm, "run", fake)
    cells = final_norm.CONFIG.cells
    found = list(timing.estimate("final_norm", clock=lambda: now[0]))
    assert [cost.seconds for cost in found] == [10 + 2 * 300] * len(cells)
    assert ran[:3] == [((cells[0],), steps) for steps in (2, 2, 6)]
    assert main(["time", "final_norm", "--only", "norm=layer final=True tied=True scale=4.0"]) == 0
    assert "norm=layer" in capsys.readouterr().out.splitlines()[0]


def test_what_has_no_steps_or_no_such_cell_is_said(capsys):
    assert main(["time", "loss_landscape", "--only", "x"]) == 1
    assert main(["time", "final_norm", "--only", "norm=group"]) == 1
    assert "no cell of 'final_norm'" in capsys.readouterr().err


def test_a_stretched_run_of_the_large_size_is_cut_cell_by_cell():
    config = text_stability_rates.LARGE_CONFIG
    found = dict(timing.parts(config))
    assert len(found) == len(config.builds) * len(config.depths)
    assert found["Post-LN, 24"].builds == ("Post-LN",) and found["Post-LN, 24"].depths == (24,)
    assert timing.shortened(config, 2).size.steps == 2


# --- a fresh seed ---------------------------------------------------------------------------------


def saved_pair(seed, loss):
    """A run of two norms, LayerNorm at 4 and no norm at ``loss``, tied, with the last norm."""
    cells = (("none", False, loss), ("layer", True, 4.0), ("layer", False, 4.0))
    found = [
        {
            **vars(final_norm.Cell(norm, final, tied)),
            "learning_rate": 0.1,
            "validation": 4.0,
            "test": test,
        }
        for norm, final, test in cells
        for tied in (True, False)
    ]
    return {"seed": seed, "records": found}


def test_a_fresh_seed_is_inside_or_outside_what_the_record_expects():
    saved = Saved("final_norm", {}, tuple(saved_pair(s, 4.1 + 0.01 * s) for s in range(4)))
    usual = fresh.compare(saved, saved_pair(9, 4.12))
    assert len(usual) == 4 and all(row.inside for row in usual)
    odd = fresh.compare(saved, saved_pair(9, 4.3))
    assert not any(row.inside for row in odd)
    with pytest.raises(ValueError, match="one seed"):
        fresh.expected(np.array([1.0]))


CHOOSING = ["learning_rate_sweep", "noisy_batch_norm", "remedies"]


@pytest.mark.parametrize("name", CHOOSING)
def test_a_fresh_seed_takes_the_rates_that_those_on_record_choose(name):
    """Where rates are chosen on other seeds, a fresh seed alone has none to choose from."""
    saved = experiments.load(name)
    before = Saved(name, saved.config, saved.runs[:-1])
    of_record = module_of(name).rows(saved)
    found = fresh.compare(before, saved.runs[-1])
    assert [row.name for row in found] == list(of_record)
    assert_allclose([row.value for row in found], [v[-1] for v in of_record.values()])
    assert_allclose(
        [(row.low, row.high) for row in found],
        [fresh.expected(values) for values in module_of(name).rows(before).values()],
    )


def test_a_seed_on_record_is_no_fresh_one(capsys):
    assert main(["again", "company", "--seed", "10"]) == 1
    assert "is on record" in capsys.readouterr().err
