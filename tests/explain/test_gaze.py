"""What is summed up of a head's maps, beside a count by hand."""

from __future__ import annotations

import numpy as np
import pytest

from regard.explain.heads import _HeadStatistics


@pytest.mark.parametrize("shape", [(4, 4), (6, 2), (2, 6), (1, 3)])
def test_the_weight_on_the_previous_key_is_a_mean_over_the_queries_that_have_one(shape):
    queries, keys = shape
    weights = np.full(shape, 1 / keys)
    gaze = _HeadStatistics()
    gaze.add(weights)
    having = [query for query in range(1, queries) if query - 1 < keys]
    expected = np.mean([weights[query, query - 1] for query in having]) if having else 0.0
    assert gaze.summary("head", 0.0).previous == pytest.approx(expected)
