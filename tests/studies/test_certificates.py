"""Each world is one on which layers pay: read from the record, nothing is trained."""

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
def test_layers_pay_and_the_curve_has_flattened_within_five_minutes(name, world):
    one = study(name)
    for fewer in (NONE, ONE):
        effect = one.effect(world, fewer, SIX)
        assert effect.sign == 1, fewer  # for all seeds, at half length too
        assert effect.full.mean() > 4 * effect.full.std(ddof=1), fewer
    losses = one.values(world, SIX, "loss").mean(0)
    assert losses[-2] - losses[-1] < 0.1 * (losses[0] - losses[-1])
    assert max(run["seconds"] for run in one.runs(world, SIX)) < 300  # on one core


@pytest.mark.parametrize("name", [one.name for one in STUDIES.values() if one.holds])
def test_what_was_found_is_on_record(name):
    one = study(name)
    assert one.finding
    assert one.holds(one)


@pytest.mark.parametrize("world", SEQUENCES, ids=lambda world: world.name)
def test_neither_vocabulary_nor_tying_is_a_hidden_knob(world):
    assert not world.settings["tied"]
    assert world.settings["embedding_scale"] == 1.0
