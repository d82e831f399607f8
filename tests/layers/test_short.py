"""Short keys: which of several statements wins, where a key goes, and what is left over."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Literal, get_origin

import pytest
from pydantic import ValidationError

from regard.errors import InputError
from regard.layers import GridStack, SequenceStack, WritingStack
from regard.layers.short import (
    STRUCTURE,
    part_fields,
    resolve,
    shared,
    values_of,
    with_value,
)
from regard.models import FAMILIES, BertConfig, GPTConfig, TransformerConfig, ViTConfig


def values(config, *sources):
    return resolve(config, sources).values


# Which statement wins


def test_a_key_reaches_every_part_that_has_it_and_no_other():
    given = values(TransformerConfig, {"heads": 4, "max_length": 9, "tied": "none"})
    attentions = [part["heads"] for side in ("encoder", "decoder") for part in given[side]["block"]
                  if "attention" in part["kind"]]  # fmt: skip
    assert attentions == [4, 4, 4]
    assert {given[side]["front"]["max_length"] for side in ("encoder", "decoder")} == {9}
    assert given["head"] == {"tied": "none"}
    assert "heads" not in given["encoder"]
    assert "heads" not in given["encoder"]["block"][1]  # the feed-forward


def test_what_is_written_nearer_wins_in_whatever_order_it_is_written():
    block = ({"kind": "attention", "heads": 1}, "feed_forward")
    nested = {"encoder": {"heads": 2, "block": block}, "decoder": {"heads": 2}}
    for given in ({"heads": 4, **nested}, {**nested, "heads": 4}):
        resolved = values(TransformerConfig, given)
        assert resolved["encoder"]["block"][0]["heads"] == 1
        assert [part.get("heads") for part in resolved["decoder"]["block"]] == [2, 2, None]
    front = {"dropout": 0.5, "max_length": 7, "encoder": {"front": {"max_length": 3}}}
    resolved = values(TransformerConfig, front)
    assert resolved["encoder"]["front"]["max_length"] == 3
    assert resolved["decoder"]["front"]["max_length"] == 7


def test_a_stronger_source_wins_even_if_it_is_written_farther_away():
    weak, strong = {"encoder": {"block": ({"kind": "attention", "heads": 1},)}}, {"heads": 4}
    assert values(TransformerConfig, weak, strong)["encoder"]["block"][0]["heads"] == 4
    assert values(TransformerConfig, strong, weak)["encoder"]["block"][0]["heads"] == 1


def test_what_is_given_wins_over_the_size_and_the_size_over_the_family():
    size, family = GPTConfig.SIZES["mini"], GPTConfig.DEFAULTS
    assert family["heads"] != size["heads"] != 2
    assert GPTConfig().heads == family["heads"]
    assert GPTConfig(size="mini").heads == size["heads"]
    assert GPTConfig(size="mini", heads=2).heads == 2
    assert GPTConfig(size="mini", decoder={"layers": 3}).decoder.layers == 3
    assert GPTConfig(size="mini").activation == family["activation"]  # that the size leaves
    assert GPTConfig(size="mini").score == "scaled_dot"  # of the part itself
    sources = {path: statement.source for path, statement in
               GPTConfig(size="mini", heads=2).origins.items()}  # fmt: skip
    assert sources["decoder", "block", 0, "heads"] == 2
    assert sources["decoder", "dim"] == 1
    assert sources["decoder", "positions", "kind"] == 0
    assert ("decoder", "norm") not in sources


def test_the_origin_of_a_value_is_where_it_was_written():
    given = {"dim": 8, "encoder": {"heads": 2}, "positions": "rotary"}
    _, origins, _ = resolve(TransformerConfig, [given])
    assert origins["decoder", "dim"].origin == ("dim",)
    assert origins["encoder", "block", 0, "heads"].origin == ("encoder", "heads")
    assert origins["decoder", "positions", "kind"].origin == ("positions",)
    assert ("decoder", "block", 0, "heads") not in origins


# What never goes down


def test_keys_of_the_structure_stay_where_they_are_written():
    given = {"kind": "rotary", "name": "first_feed_forward", "scale": 0.5, "block": ("recurrent",),
             "front": {"max_length": 3}}  # fmt: skip
    resolved = resolve(TransformerConfig, [given])
    assert resolved.values == values(TransformerConfig, {})
    assert {path[0] for path in resolved.unused} == {*given}
    one_level_up = {"encoder": {"scale": 0.5, "name": "my_feed_forward"}}
    resolved = resolve(TransformerConfig, [one_level_up])
    assert resolved.unused == [("encoder", "scale"), ("encoder", "name")]
    assert all("scale" not in part for part in resolved.values["encoder"]["block"])


def test_every_key_of_the_structure_is_a_key():
    fields = {
        name
        for family in FAMILIES.values()
        for part in all_parts(family.config)
        for name in part.model_fields
    }
    assert fields >= STRUCTURE


def test_a_field_on_the_way_stops_a_key():
    """The norm's place of a stack is not that of its sub-layers, which may have their own."""
    config = TransformerConfig(norm_place="post")
    for side in config.sides.values():
        assert side.norm_place == "post"
        assert {part.sublayer_norm_place for part in side.block} == {None}
    assert config.norm_place == "post"


# Kinds


def test_a_stronger_kind_drops_what_weaker_sources_say_of_another():
    weak = {"positions": {"kind": "rotary", "rotary_base": 5e5}, "dim": 8}
    resolved = resolve(SequenceStack, [weak, {"positions": "learned"}])
    assert resolved.values["positions"] == {"kind": "learned"}
    assert resolved.unused == []
    rotary = resolve(SequenceStack, [weak, {"positions": {"kind": "rotary"}}])
    assert rotary.values["positions"] == {"kind": "rotary", "rotary_base": 5e5}
    short = resolve(SequenceStack, [weak, {"rotary_base": 1e6}])
    assert short.values["positions"] == {"kind": "rotary", "rotary_base": 1e6}


def test_a_stronger_list_of_sublayers_drops_what_weaker_sources_say_of_others():
    weak = {"heads": 2, "hidden": 12, "kernel": 3}
    resolved = resolve(SequenceStack, [weak, {"block": ("gated_convolution",)}])
    assert resolved.values["block"] == ({"kind": "gated_convolution", "kernel": 3},)
    assert resolved.unused == []
    config = GPTConfig(size="mini", decoder={"block": ("recurrent",)}, positions="none")
    assert [part.kind for part in config.decoder.block] == ["recurrent"]


# What is left over


def test_keys_that_no_part_has_are_listed_if_the_last_source_has_them():
    weak = {"dims": 1, "encoder": {"layer": 2}}
    strong = {"size": "tiny", "dimm": 8, "rotary_base": 5.0, "encoder": {"layers": 1, "haeds": 2}}
    resolved = resolve(TransformerConfig, [weak, strong])
    assert resolved.unused == [("dimm",), ("rotary_base",), ("encoder", "haeds")]
    assert resolve(TransformerConfig, [strong, {}]).unused == []
    inside = {"encoder": {"block": ("attention", {"kind": "feed_forward", "heads": 2})}}
    assert resolve(TransformerConfig, [inside]).unused == [("encoder", "block", 1, "heads")]


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        (TransformerConfig, {"dimm": 8}, "no part of this model has dimm"),
        (GPTConfig, {"rotary_base": 5.0}, "no part of this model has rotary_base"),
        (GPTConfig, {"encoder": {"layers": 2}}, "no part of this model has encoder"),
        (GPTConfig, {"decoder": {"heads": 2, "haeds": 2}}, r"has decoder\.haeds"),
        (SequenceStack, {"dimm": 8}, "dimm"),
        (WritingStack, {"patch": 8}, "patch"),
        (GridStack, {"token_types": 8}, "token_types"),
        (GPTConfig, {"heads": 3}, "dim 128 is not a multiple of heads 3"),
        (GPTConfig, {"positions": "rotery"}, "'rotery' .* expected tags: .*'rotary'"),
        (GPTConfig, {"positions": {"kind": "rotery"}}, "'rotery' .* expected tags: .*'rotary'"),
        (GPTConfig, {"positions": 5}, r"decoder\.positions"),
        (GPTConfig, {"decoder": {"block": "attention"}}, r"decoder\.block"),
        (GPTConfig, {"decoder": {"block": (5,)}}, r"decoder\.block\.0"),
    ],
)
def test_a_wrong_key_or_value_is_refused_where_it_stands(kind, given, says):
    with pytest.raises(ValidationError, match=says):
        kind(**given)


# Changing and reading


def test_one_more_value_beats_all_that_is_nested():
    nested = TransformerConfig(dim=16, heads=2, encoder={"heads": 4}).model_dump()
    changed = TransformerConfig.model_validate(with_value(nested, ["heads"], 8))
    assert {value for _, value in values_of(changed, "heads")} == {8}
    of_encoder = TransformerConfig.model_validate(with_value(nested, ["encoder", "heads"], 8))
    assert of_encoder.encoder.attention.heads == 8
    assert of_encoder.decoder.attention.heads == 2
    assert nested["encoder"]["block"][0]["heads"] == 4  # not changed itself
    assert with_value({"encoder": "rnn"}, ["encoder", "layers"], 2) == {"encoder": {"layers": 2}}
    block = with_value(nested, ["encoder", "block"], ("feed_forward",))
    assert block["encoder"]["block"] == ("feed_forward",)
    assert block["decoder"]["block"] == nested["decoder"]["block"]


def test_a_changed_config_has_the_new_value_in_every_part():
    config = TransformerConfig(size="tiny", encoder={"dropout": 0.5})
    assert config.changed(dropout=0.2).dropout == 0.2
    assert config.changed(positions="rotary").positions.kind == "rotary"
    assert config.encoder.dropout == 0.5
    assert config.changed() == config


@pytest.mark.parametrize("family", FAMILIES)
def test_what_was_read_once_is_read_the_same_again(family):
    kind = FAMILIES[family].config
    for size in (None, *kind.SIZES):
        config = kind(size=size)
        assert kind.model_validate(config.model_dump()) == config
        assert kind.model_validate_json(config.model_dump_json()) == config


def test_a_short_key_is_read_if_all_parts_agree():
    config = TransformerConfig(dim=16, heads=2, encoder={"layers": 3, "heads": 4})
    assert shared(config, "dim") == config.decoder.dim == 16
    assert shared(config, "positions").kind == "sinusoidal"
    with pytest.raises(InputError, match=r"model\.heads: got encoder 4, decoder 2, e"):
        shared(config, "heads")
    with pytest.raises(InputError, match="expected one value in all parts"):
        _ = config.layers
    for key in ("patch", "rotary_base", "kernel"):
        with pytest.raises(AttributeError, match=f"no part of this TransformerConfig has {key}"):
            shared(config, key)
        assert not hasattr(config, key)
    paths = [path for path, _ in values_of(config, "heads")]
    assert paths == [("encoder", "block", 0), ("decoder", "block", 0), ("decoder", "block", 1)]


def test_a_key_of_an_image_is_read_from_its_front():
    config = ViTConfig(image=(8, 8), patch=2)
    assert config.patch == 2
    assert config.encoder.front.image == config.image == (8, 8)
    assert BertConfig(token_types=0).token_types == 0


# The meaning of keys


def all_parts(config):
    """The classes of all parts that a model of a config can have, and its own."""
    parts = [config]
    for field in part_fields(config).values():
        for part in dict.fromkeys(field.classes.values()):
            parts += all_parts(part)
    return list(dict.fromkeys(parts))


def reached(config, key):
    """The classes of the parts that a short key can reach; the first on a way that has it."""
    if key in config.model_fields:
        return [config]
    return [
        part
        for field in part_fields(config).values()
        for option in dict.fromkeys(field.classes.values())
        for part in reached(option, key)
    ]


def explanation(part, key):
    """The text below a field in the source, or below that of the class it is inherited from."""
    for kind in part.__mro__:
        if key not in vars(kind).get("__annotations__", {}):
            continue
        [definition] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        for line, after in zip(definition.body, [*definition.body[1:], None], strict=True):
            if isinstance(line, ast.AnnAssign) and getattr(line.target, "id", "") == key:
                text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                return " ".join(after.value.value.split()) if text else None
    raise AssertionError(f"{part} has no {key}")


def is_choice(info):
    return get_origin(info.annotation) is Literal


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_short_key_means_the_same_in_all_parts_that_it_can_reach(family):
    config = FAMILIES[family].config
    keys = {name for part in all_parts(config) for name in part.model_fields} - STRUCTURE
    differing = []
    for key in sorted(keys):
        parts = list(dict.fromkeys(reached(config, key)))
        infos = [part.model_fields[key] for part in parts]
        sections = all(key in part_fields(part) for part in parts)
        kinds = {"choice" if is_choice(info) else str(info.annotation) for info in infos}
        texts = {text for part in parts if (text := explanation(part, key)) is not None}
        if (len(kinds) > 1 and not sections) or len(texts) > 1:
            differing.append((key, [part.__name__ for part in parts], kinds, texts))
    assert differing == []
