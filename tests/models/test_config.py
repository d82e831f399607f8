"""The `model:` section: sizes fill in what is not set, and impossible sizes are refused."""

from __future__ import annotations

import random

import pytest
from pydantic import ValidationError

from regard.errors import InputError
from regard.layers.short import short_fields
from regard.models import FAMILIES, TransformerConfig
from regard.models.version_1 import OLD_KEYS


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


VALUES = (
    None, True, 0, 3, -1, 0.5, "x", "rotary", "both", (), ("attention",), {}, {"kind": "rotary"},
    {"kind": {"a": 1}}, {"dim": 3}, {"block": 5}, ({"kind": "attention", "heads": 2},), 10**30,
)  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_whatever_is_written_is_read_or_refused(family):
    kind, draw = FAMILIES[family].config, random.Random(family)
    keys = [*short_fields(kind), *OLD_KEYS, "unknown"]

    def section(depth=0):
        nested = depth < 3 and draw.random() < 0.2
        return {
            draw.choice(keys): section(depth + 1) if nested else draw.choice(VALUES)
            for _ in range(draw.randint(0, 4))
        }

    for _ in range(150):
        values = section() | {"family": family}
        try:
            config = kind.model_validate(values)
        except ValidationError:
            continue
        assert kind.model_validate(config.model_dump()) == config


def test_sides_may_differ_and_share_what_is_written_above_them():
    config = TransformerConfig(
        dim=32, encoder={"dim": 48, "heads": 4, "block": ("attention", "convolution")},
        decoder={"positions": "rotary"}, kernel=3, heads=2, tied="output",
    )  # fmt: skip
    assert (config.encoder.dim, config.decoder.dim) == (48, 32)
    assert [part.kind for part in config.encoder.block] == ["attention", "convolution"]
    assert (config.encoder.attention.heads, config.decoder.attention.heads) == (4, 2)
    assert config.decoder.positions.kind == "rotary"
    with pytest.raises(InputError, match="encoder 4, decoder 2, expected one value in all parts"):
        _ = config.heads
    assert not hasattr(config, "heads")
    assert config.changed(heads=1).heads == 1
