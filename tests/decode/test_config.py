"""Settings of decoding: outside their ranges nothing right could be computed, inside all can."""

from __future__ import annotations

import json
import math

import pytest
import torch

from regard.decode import DecodeConfig, Symbols, search
from regard.decode.config import MAX_LENGTH_PENALTY
from regard.decode.filters import constrain, filter_for_sampling
from regard.errors import FoundProblems, InputError
from regard.recipes import recipe as recipes


@pytest.mark.parametrize(
    ("key", "values", "range_"),
    [
        ("length_penalty", [1e308, 1e9, -500, math.inf, math.nan], "at least -40 and at most 40"),
        ("temperature", [1e-300, 1e300, 0, -1, math.nan], "at least 1e-20 and at most 1e+20"),
        ("repetition_penalty", [1e-300, 1e300, 0], "at least 1e-06 and at most 1000000.0"),
        ("n_best", [10**9, 10**30, 10**300], "at least 1 and at most 10000"),
    ],
)
def test_a_setting_beyond_what_can_be_computed_is_refused_with_its_range(key, values, range_):
    for value in values:
        with pytest.raises(InputError) as caught:
            recipes.load("tiny/copy", [f"decode.{key}={json.dumps(value)}"])
        assert range_ in str(caught.value)
        assert len(str(caught.value).splitlines()) <= 2


@pytest.mark.parametrize("temperature", [1e-20, 1e20])
@pytest.mark.parametrize("penalty", [1e-6, 1e6])
def test_the_ends_of_the_ranges_can_be_computed(temperature, penalty):
    config = DecodeConfig(sample=True, temperature=temperature, repetition_penalty=penalty)
    scores, history = 100 * torch.randn(3, 11), torch.tensor([[1], [2], [3]])
    adjusted = filter_for_sampling(
        constrain(scores, history, None, config, Symbols(0, 1, 2)), config
    )
    assert adjusted.double().softmax(dim=1).isfinite().all()
    for alpha in (-MAX_LENGTH_PENALTY, MAX_LENGTH_PENALTY):
        assert math.isfinite(-(10.0**5) / (2**24) ** float(alpha))


def test_logits_too_large_for_a_temperature_are_said_and_no_index_error():
    sentence = search.Request(0, (), 5, 0)
    draw = search.Sampling(
        [sentence], Symbols(0, 1, 2), DecodeConfig(sample=True, temperature=1e-20)
    )
    with pytest.raises(FoundProblems, match="not finite"):
        draw.choose(torch.tensor([[1e30, 2e30, 0.0]]))
