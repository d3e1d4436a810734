"""Each world is one on which layers pay: read from the record, nothing is trained."""

import numpy as np
import pytest
from normtutor_studies import study
from normtutor_studies.engine import STUDIES
from normtutor_studies.worlds import SEQUENCES, SIGNALS

# A world whose certificate is not on record yet has no certified finding either.
SIX, ONE, NONE = "six layers", "one layer", "no layers"
WORLDS = [
    *(("layers_pay", world.name) for world in SEQUENCES),
    *(("layers_pay_on_signals", world.name) for world in SIGNALS),
]


@pytest.mark.parametrize(("name", "world"), WORLDS)
def test_layers_pay_many_times_the_spread_over_seeds(name, world):
    one = study(name)
    for fewer in (NONE, ONE):
        gained = one.effect(world, fewer, SIX).full
        assert gained.min() > 0
        assert gained.mean() > 4 * gained.std(ddof=1), fewer


@pytest.mark.parametrize(("name", "world"), WORLDS)
def test_the_order_of_depths_is_there_at_half_length(name, world):
    one = study(name)
    for fewer in (NONE, ONE):
        effect = one.effect(world, fewer, SIX)
        assert effect.sign == 1, fewer
        assert effect.lasting, fewer


@pytest.mark.parametrize(("name", "world"), WORLDS)
def test_the_curve_has_flattened(name, world):
    losses = study(name).values(world, SIX, "loss").mean(0)
    falls = -np.diff(losses)
    assert falls[-1] < 0.1 * (losses[0] - losses[-1])


@pytest.mark.parametrize(("name", "world"), WORLDS)
def test_a_run_takes_at_most_five_minutes_of_one_core(name, world):
    assert max(run["seconds"] for run in study(name).runs(world, SIX)) < 300


@pytest.mark.parametrize("name", [one.name for one in STUDIES.values() if one.holds])
def test_what_was_found_is_on_record(name):
    one = study(name)
    assert one.finding
    assert one.holds(one)


@pytest.mark.parametrize("world", SEQUENCES, ids=lambda world: world.name)
def test_neither_vocabulary_nor_tying_is_a_hidden_knob(world):
    assert not world.settings["tied"]
    assert world.settings["embedding_scale"] == 1.0
