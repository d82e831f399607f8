"""Prompts that cannot be read are refused, whoever stands beside them."""

from __future__ import annotations

import pytest
import torch

from regard.decode import DecodeConfig, decode
from regard.decode.filters import Symbols
from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.models import GPTConfig, TransformerConfig, build

SYMBOLS, CONFIG = Symbols(1, 2, 0), DecodeConfig(max_length=3)


@pytest.fixture(scope="module")
def gpt():
    torch.manual_seed(0)
    return build(GPTConfig(dim=8, heads=2, layers=1, hidden=8, max_length=16), 9).eval()


@pytest.mark.parametrize(
    ("prompts", "said"),
    [
        ([[], [5, 6]], "prompt 0: got no token"),
        ([[5, 6], []], "prompt 1: got no token"),
        ([[5], [9]], "prompt 1: got token 9, expected 0 to 8"),
        ([[-1]], "prompt 0: got token -1"),
    ],
)
def test_a_prompt_of_nothing_or_of_unknown_tokens_is_refused(gpt, prompts, said):
    with pytest.raises(InputError, match=said):
        decode(gpt, None, SYMBOLS, CONFIG, prompts=prompts)


def test_a_model_with_an_encoder_takes_no_prompts():
    model = build(TransformerConfig(dim=8, heads=2, hidden=8), 9, 9).eval()
    with pytest.raises(InputError, match="sources for it"):
        decode(model, Ragged.of([[5]]), SYMBOLS, CONFIG, prompts=[[5]])
