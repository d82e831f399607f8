"""A model gets its weights: the tensors themselves, tied ones once, and nothing is drawn."""

from __future__ import annotations

import pytest
import torch

from regard.models import FAMILIES, build
from regard.models.load_weights import blank, load_weights

SMALL = {"dim": 16, "heads": 2, "hidden": 32, "max_length": 12}
CONFIGS = {
    "transformer": {"encoder_layers": 1, "decoder_layers": 1, "tied": "all"},
    "t5": {"encoder_layers": 1, "decoder_layers": 1, "positions": "buckets"},
    "gpt": {"layers": 1, "positions": "rotary"},
    "bert": {"layers": 1, "masked": True, "classes": ("a", "b")},
}


def make(family: str, **changes: object):
    config = FAMILIES[family].config(family=family, **SMALL | CONFIGS[family] | changes)
    return config, (11, 11)[: 1 + config.has_target]


def copies(model) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("family", CONFIGS)
def test_a_filled_model_is_the_model_whose_weights_they_are(family):
    config, vocabularies = make(family)
    model = build(config, *vocabularies)
    weights = copies(model)
    filled = blank(config, *vocabularies)
    load_weights(filled, weights)
    assert filled.state_dict().keys() == weights.keys()
    for name, tensor in filled.state_dict().items():
        assert torch.equal(tensor, weights[name])
    for (name, table), (_, own_table) in zip(
        model.named_buffers(), filled.named_buffers(), strict=True
    ):
        assert torch.equal(own_table, table), name  # computed, not stored
    together = {id(parameter) for parameter in model.parameters()}
    assert len({id(parameter) for parameter in filled.parameters()}) == len(
        together
    )  # tied as before
    assert all(parameter.requires_grad and parameter.is_leaf for parameter in filled.parameters())


def test_nothing_is_copied_and_nothing_is_drawn():
    config, vocabularies = make("gpt", tied=False)
    weights = copies(build(config, *vocabularies))
    before = torch.get_rng_state()
    model = blank(config, *vocabularies)
    assert all(parameter.is_meta for parameter in model.parameters() if parameter.dim() == 2)
    load_weights(model, weights)
    assert torch.equal(torch.get_rng_state(), before)
    for name, tensor in model.state_dict().items():
        assert tensor.data_ptr() == weights[name].data_ptr()


def test_equal_matrices_that_the_model_does_not_tie_stay_two():
    config, vocabularies = make("gpt", tied=False)
    weights = copies(build(config, *vocabularies))
    weights["head.weight"] = weights["embed.weight"]
    model = blank(config, *vocabularies)
    load_weights(model, weights)
    with torch.no_grad():
        model.head.weight.zero_()
    assert model.embed.weight.abs().sum() > 0
