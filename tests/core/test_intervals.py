"""The interval over seeds, beside the quantiles of another library."""

import numpy as np
import pytest
from scipy import stats

from normtutor.intervals import t_interval


def test_the_half_width_is_that_of_student_to_five_digits():
    for seeds in [*range(2, 60), 100, 1000]:
        values = np.arange(float(seeds)).reshape(-1, 1)
        mean, half_width = t_interval(values)
        assert mean == pytest.approx((seeds - 1) / 2)
        quantile = half_width / (values.std(ddof=1) / np.sqrt(seeds))
        assert quantile == pytest.approx(stats.t.ppf(0.975, seeds - 1), abs=1e-5), seeds


def test_one_seed_has_no_spread_and_none_no_mean():
    mean, half_width = t_interval([[3.0]])
    assert mean == 3 and np.isnan(half_width)
    with pytest.raises(ValueError, match="at least one row"):
        t_interval([])
