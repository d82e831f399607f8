"""`config.json`: what is written of a model is enough to build it again."""

from __future__ import annotations

import json

import pytest

from regard.errors import InputError
from regard.models import TransformerConfig, build, describe, rebuild


def test_a_description_passes_through_json():
    config = TransformerConfig(size="tiny", tied="output", kv_heads=2)
    model = rebuild(json.loads(json.dumps(describe(build(config, 7, 9)))))
    assert model.config == config
    assert (model.source_vocab, model.target_vocab) == (7, 9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"regard": 2}, "regard 2, family 'transformer'"),
        ({"family": "mamba"}, "family 'mamba'"),
        ({"model": {"dim": 10}}, "config.json: got"),
        ({"model": {"widht": 10}}, "config.json: widht: got an unknown key"),
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
