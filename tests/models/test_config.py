"""The `model:` section: sizes fill in what is not set, and impossible sizes are refused."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from regard.models import TransformerConfig


def test_a_size_gives_the_default_of_what_is_not_set():
    base = TransformerConfig(size="base")
    assert (base.dim, base.heads, base.hidden, base.encoder.layers) == (512, 8, 2048, 6)
    assert base.norm_place == "post"
    mixed = TransformerConfig(size="base", dim=256, norm_place="pre")
    assert (mixed.dim, mixed.hidden, mixed.norm_place) == (256, 2048, "pre")


def test_a_config_survives_its_own_dump():
    config = TransformerConfig(size="big", heads=8, kv_heads=2)
    assert TransformerConfig.model_validate(config.model_dump()) == config


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dim": 10, "heads": 4}, "dim 10 is not a multiple of heads 4"),
        ({"heads": 8, "kv_heads": 3}, "heads 8 is not a multiple of kv_heads 3"),
        ({"dim": 12, "heads": 4, "positions": "rotary"}, "even head width, got 3"),
        ({"size": "huge"}, "size"),
        ({"kernel": 3}, "no part of this model has kernel"),
        ({"max_length": 2**24 + 1}, "max_length"),
    ],
)
def test_impossible_models_are_refused(fields, message):
    with pytest.raises(ValidationError, match=message):
        TransformerConfig(**fields)
