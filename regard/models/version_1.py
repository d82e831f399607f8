"""Reads configs of version 1, in which one flat list of keys served both sides of a model.

Most keys of version 1 are short forms of today's (`regard/layers/short.py`). The others are
converted here. Old keys may still be used in overrides and in Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from regard.config import Config
from regard.layers import short

if TYPE_CHECKING:
    from regard.models.config import ModelConfig

LAYERS = {"encoder_layers": "encoder", "decoder_layers": "decoder"}
BLOCKS = {
    "sublayers": tuple | list,
    "scales": dict,
    "norm_places": dict,
    "feed_forward": bool,
    "both_ways": bool,
}
"""Keys that described the sub-layers of a block, with the types of their values."""
KINDS = {"self_attention": "attention"}
"""Kinds of sub-layers whose default name is another word."""
NAMES = ("self_attention", "cross_attention", "gated_convolution", "convolution", "recurrent",
         "feed_forward")  # fmt: skip
USUAL = ("self_attention", "feed_forward")
OLD_KEYS = {*LAYERS, *BLOCKS}
"""Keys of version 1 that are no short form of a key of today."""
UNUSED = {
    "kernel", "convolution_norm", "cell", "encoder.direction", "decoder.direction",
    "grid_window", "grid_bias", "buckets",
    "farthest", "rotary_base", "rotary_scaling", "positions_from", "last_word", "hard_attention",
    "context", "max_length", "dim", "embedding_norm", "scaled_embedding", "scaled_output",
    "output_bias", "token_types", "window", "score", "heads", "kv_heads", "head_dim",
    "attention_bias", "attention_dropout", "query_key_norm", "hidden", "activation",
    "hidden_dropout",
}  # fmt: skip
"""Keys that every config of version 1 had, also if the model had no part that used them."""


def upgraded(config: type[ModelConfig], values: Mapping[str, Any]) -> dict[str, Any]:
    """A config of version 1 without the keys that its model does not use.

    Args:
        config: The config class of the family.
        values: The `model` section of a recipe or of `config.json`.
    """
    unused = {".".join(map(str, path)) for path in config.resolve(dict(values)).unused} & UNUSED
    unused |= {"both_ways"} if unused & {"encoder.direction", "decoder.direction"} else set()
    return {key: value for key, value in values.items() if key not in unused}


def old_path(path: short.Path) -> short.Path:
    """Where version 1 had a key of today: `("encoder", "layers")` -> `("encoder_layers",)`."""
    old_names: dict[short.Path, str] = {(side, "layers"): key for key, side in LAYERS.items()}
    if path in old_names:
        return (old_names[path],)
    if not path:
        return path
    return {"block": ("sublayers",), "direction": ("both_ways",)}.get(str(path[-1]), path)


def with_new_keys(config: type[Config], values: Mapping[str, Any]) -> dict[str, Any]:
    """A short form in which keys of version 1 are replaced by what they became.

    Example:
        >>> from regard.models import TransformerConfig
        >>> with_new_keys(TransformerConfig, {"encoder_layers": 6, "both_ways": False})
        {'encoder': {'layers': 6}}
    """
    new = dict(values)
    sides = [side for side in ("encoder", "decoder") if side in config.model_fields]
    if isinstance(new.get("encoder"), str):  # of seq2seq: the direction
        new["encoder"] = {"direction": new["encoder"]}
    for key, side in LAYERS.items():
        if key in new:
            new = short.with_value(new, [side, "layers"], new.pop(key))
    if new.get("size") is not None and not isinstance(new["size"], str):
        return new
    known = short.short_fields(config)
    if "unit" in known and isinstance(new.get("block"), str):  # of ResNet
        new["unit"] = new.pop("block")
    if "filter_side" in known and "kernel" not in known and "kernel" in new:  # of CNN
        new["filter_side"] = new.pop("kernel")
    old = {key: new.pop(key) for key, kind in BLOCKS.items() if isinstance(new.get(key), kind)}
    if new.get("grid_window", 0) is None:  # no windows
        del new["grid_window"]
        new.pop("grid_bias", None)
    elif "grid_window" in new and "grid_window" in known and not _has_block(new):
        old.setdefault("sublayers", USUAL)
    if old:
        new = _with_blocks(new, old, sides)
    return new


def _has_block(values: Mapping[str, Any]) -> bool:
    """Whether the encoder's block is written in today's form."""
    encoder = values.get("encoder")
    return isinstance(encoder, Mapping) and "block" in encoder


def _with_blocks(
    new: dict[str, Any], old: Mapping[str, Any], sides: Sequence[str]
) -> dict[str, Any]:
    """Writes `block` and `direction` from the keys that described sub-layers by name."""
    names = tuple(map(str, old.get("sublayers", USUAL)))
    if old.get("feed_forward") is False:
        names = tuple(name for name in names if not name.endswith("feed_forward"))
    for key in ("scales", "norm_places"):
        unknown = (old.get(key) or {}).keys() - {*names, "cross_attention"}
        if unknown:  # left where it is, to be refused
            new[key] = old[key]
    for side in sides if old.keys() - {"both_ways"} else ():
        block = _side_names(names, cross=side == "decoder" and "encoder" in sides)
        items = tuple(_item(name, old, grid="grid_window" in new) for name in block)
        new = short.with_value(new, [side, "block"], items)
    if old.get("both_ways") and (sides[0] == "encoder" or "sublayers" not in old):
        new = short.with_value(new, [sides[0], "direction"], "both")  # a decoder ignored it
    return new


def _side_names(names: tuple[str, ...], *, cross: bool) -> tuple[str, ...]:
    """The sub-layers of one side: cross-attention before the last feed-forward, if it has any."""
    if not cross:
        return tuple(name for name in names if not name.endswith("cross_attention"))
    if any(name.endswith("cross_attention") for name in names):
        return names
    end = names[-1:] if names and names[-1].endswith("feed_forward") else ()
    return (*names[: len(names) - len(end)], "cross_attention", *end)


def _item(name: str, old: Mapping[str, Any], *, grid: bool) -> Any:
    """One sub-layer of a block from its name in version 1."""
    usual = next((ending for ending in NAMES if name.endswith(ending)), name)
    kind = KINDS.get(usual, usual)
    item: dict[str, Any] = {"kind": "grid_attention" if grid and kind == "attention" else kind}
    if name != usual:
        item["name"] = name
    if name in (scales := old.get("scales") or {}):
        item["scale"] = scales[name]
    if name in (norm_places := old.get("norm_places") or {}):
        item["sublayer_norm_place"] = norm_places[name]
    return item
