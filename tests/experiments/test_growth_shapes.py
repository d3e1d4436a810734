"""Which curve describes a growth: each shape is found where it is, and ties are called so."""

import numpy as np
import pytest
from normtutor_studies import experiments
from normtutor_studies.experiments import growth_shapes

LAYERS = np.arange(1, 25)
GROWTHS = {
    "linear": 2 + 3.0 * LAYERS,
    "quadratic": (1 + 0.5 * LAYERS) ** 2,
    "exponential": 1.3**LAYERS,
    "power": (1 + 0.2 * LAYERS) ** 3.5,
    "offset exponential": 4 + 0.5 * 1.25**LAYERS,
}


@pytest.mark.parametrize("shape", GROWTHS)
@pytest.mark.parametrize("how", growth_shapes.HOW)
def test_a_shape_predicts_the_layers_that_its_fit_has_not_seen(shape, how):
    assert growth_shapes.held_out_error(GROWTHS[shape], shape, how) < 1e-3


@pytest.mark.parametrize("how", growth_shapes.HOW)
def test_the_judge_excludes_what_is_not_there(how):
    rng = np.random.default_rng(0)
    noisy = {
        shape: [values * np.exp(0.01 * rng.standard_normal(24)) for _ in range(5)]
        for shape, values in GROWTHS.items()
    }
    found = {shape: growth_shapes.judge(profiles, how) for shape, profiles in noisy.items()}
    assert str(found["offset exponential"]) == "offset exponential"
    assert str(found["power"]) == "power"
    for shape, verdict in found.items():
        assert shape in verdict.left
    # A linear growth is a power too: nothing decides between the two, and the judge says so.
    assert {"quadratic", "exponential"}.isdisjoint(found["linear"].left)
    assert str(found["linear"]).startswith("undecided: ")


def test_an_unknown_way_of_holding_out_is_refused():
    with pytest.raises(ValueError, match='"between" or "beyond"; got "above"'):
        growth_shapes.held_out_error(GROWTHS["linear"], "linear", "above")


def test_no_stream_on_record_levels_off_over_its_layers():
    saved = experiments.load("variance_growth")
    for condition in saved.config["conditions"]:
        added = np.diff(saved.values("stream", **condition)[:, -1], axis=1)  # (seeds, layers)
        assert (added > 0).all(), condition
        if condition["wiring"] == "pre" and condition["learning_rate"] < 0.016:
            quarters = [part.mean(axis=1) for part in np.array_split(added, 4, axis=1)]
            assert (quarters[-1] > np.max(quarters[:-1], axis=0)).all(), condition
