"""`config.json`: what is written of a model is enough to build it again."""

from __future__ import annotations

import json

import pytest
import torch

from regard.errors import InputError
from regard.inputs.arrays import Dense, Ragged
from regard.models import FAMILIES, TransformerConfig, build, describe, rebuild
from tests.configs import fitting


def test_a_description_passes_through_json():
    config = TransformerConfig(size="tiny", tied="output", kv_heads=2)
    model = rebuild(json.loads(json.dumps(describe(build(config, 7, 9)))))
    assert model.config == config
    assert (model.source_vocab, model.target_vocab) == (7, 9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"regard": 3}, "regard 3, family 'transformer'"),
        ({"family": "mamba"}, "family 'mamba'"),
        ({"model": {"dim": 10}}, "config.json: encoder: got dim 10 is not a multiple"),
        ({"model": {"widht": 10}}, "config.json: got no part of this model has widht"),
        ({"source_vocab": "many"}, "many"),
    ],
)
def test_a_description_that_is_not_ours_is_refused(change, message):
    described = describe(build(TransformerConfig(size="tiny"), 7, 7))
    with pytest.raises(InputError, match=message):
        rebuild(described | change)


def test_a_missing_field_is_named():
    described = describe(build(TransformerConfig(size="tiny"), 7, 7))
    del described["target_vocab"]
    with pytest.raises(InputError, match="target_vocab"):
        rebuild(described)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_says_what_its_models_are_made_of(family):
    sizes = {"dim": 16, "heads": 2, "hidden": 24}
    sizes |= {"cnn": {"dense": (16,)}, "resnet": {"depths": (1, 1), "filters": (8, 16)},
              "swin": {"dim": 8, "depths": (1, 1)},
              "mlp": {"hidden": (16,)}}.get(family, {})  # fmt: skip
    kind = FAMILIES[family].config
    config = fitting(kind, sizes)
    model = build(config, *[9] * len(config.VOCABULARIES))
    assert len(model.embeds()) == 1 + config.has_target
    assert tuple(model.vocabularies()) == config.VOCABULARIES
    if config.reads == "text":
        assert len(config.VOCABULARIES) == 1 + config.has_target
    assert list(config.stacks) == [name for name in ("encoder", "decoder") if hasattr(model, name)]
    assert model.reader == next(iter(config.stacks))
    if config.reads == "text":
        assert model.hidden(Ragged.of([[5, 6, 7], [8]])).shape == (4, 16)
    elif config.reads == "table":
        assert model.hidden(Dense(torch.zeros(2, config.features))).shape == (2, 16)
    else:
        images = Dense(torch.zeros(2, config.channels, *config.image))
        rows, columns = config.encoder.grid
        tokens_per_image = rows * columns + config.encoder.front.tokens_before
        assert model.hidden(images).shape == (2 * tokens_per_image, 16)

    below, *layers, top = model.depths()
    stack = getattr(model, model.reader)
    assert below == [*model.embeds(), stack.positions]
    assert [block for *_, block in layers] == [*stack.blocks]  # before it, a merge of patches
    assert len(layers) == config.stacks[model.reader]
    assert top == [stack.final_norm]
