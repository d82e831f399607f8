"""Swin and Swin-V2, with or without their classification head: config and tensor names."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from regard.errors import InputError
from regard.hub.kind import (
    ACTIVATIONS,
    HubFormat,
    TensorNames,
    activation_of,
    activation_to,
    hub_activation,
    label_maps,
    labels_in,
    require,
)
from regard.hub.needs import Need, fixed
from regard.hub.rules import Rule, Table, add_prefixes, same
from regard.models import SwinConfig
from regard.models.families.swin import VERSION_2


def _read_settings(hub_config: dict[str, Any], names: TensorNames) -> dict[str, Any]:
    """The settings that both versions have by the same names."""
    require(hub_config, use_absolute_embeddings=False)
    depths, heads = tuple(hub_config["depths"]), tuple(hub_config["num_heads"])
    dim, ratio = hub_config["embed_dim"], hub_config.get("mlp_ratio", 4.0)
    hidden = int(ratio * dim)
    doubled = [hidden * 2**stage for stage in range(len(depths))]
    if [int(ratio * dim * 2**stage) for stage in range(len(depths))] != doubled:
        expected = f"one that gives whole widths for {dim}"
        raise InputError("config.json: mlp_ratio", got=ratio, expected=expected)
    image = hub_config.get("image_size", 224)
    return {
        "image": tuple(image) if isinstance(image, list) else (image, image),
        "patch": _side(hub_config.get("patch_size", 4)),
        "channels": hub_config.get("num_channels", 3),
        "dim": dim,
        "hidden": hidden,
        "depths": depths,
        "heads": heads[0],
        "stage_heads": None if _doubles(heads) and len(heads) == len(depths) else heads,
        "grid_window": hub_config.get("window_size", 7),
        "activation": activation_of(hub_activation(hub_config, "hidden_act", "gelu")),
        "norm_epsilon": hub_config.get("layer_norm_eps", 1e-5),
        "dropout": hub_config.get("hidden_dropout_prob", 0.0),
        "hidden_dropout": 0.0,
        "attention_dropout": hub_config.get("attention_probs_dropout_prob", 0.0),
        "drop_path": hub_config.get("drop_path_rate", 0.1),
        "classes": labels_in(hub_config, names, "classifier.weight")
        if names.has("classifier.")
        else (),
    }


def _side(patch: Any) -> int:
    """The side of a patch, which must be a square."""
    if isinstance(patch, list) and len(set(patch)) == 1:
        patch = patch[0]
    if not isinstance(patch, int):
        raise InputError("config.json: patch_size", got=patch, expected="a square's side")
    return patch


def _doubles(numbers: tuple[int, ...]) -> bool:
    """Whether each number is twice the one before."""
    return all(after == 2 * before for before, after in pairwise(numbers))


def _read(hub_config: dict[str, Any], names: TensorNames) -> SwinConfig:
    bias = None if hub_config.get("qkv_bias", True) else "out"
    return SwinConfig(**_read_settings(hub_config, names), attention_bias=bias)


def _read_v2(hub_config: dict[str, Any], names: TensorNames) -> SwinConfig:
    settings = {**VERSION_2, **_read_settings(hub_config, names)}
    if not hub_config.get("qkv_bias", True):
        settings["attention_bias"] = "out"
    trained = tuple(hub_config.get("pretrained_window_sizes") or ())[: len(settings["depths"])]
    return SwinConfig(**settings, bias_windows=trained if any(trained) else None)


def _write(config: SwinConfig) -> dict[str, Any]:
    return _entries("Swin", config)


def _write_v2(config: SwinConfig) -> dict[str, Any]:
    stages = len(config.encoder.depths)
    trained = config.encoder.bias_windows or (0,) * stages
    return {**_entries("Swinv2", config), "pretrained_window_sizes": list(trained)}


def _entries(name: str, config: SwinConfig) -> dict[str, Any]:
    """The entries of their config that both versions have."""
    side, (height, width) = config.encoder, config.image
    ratio = config.hidden / side.dim
    return {
        "architectures": [f"{name}{'ForImageClassification' if config.classes else 'Model'}"],
        "image_size": height if height == width else [height, width],
        "patch_size": config.patch,
        "num_channels": config.channels,
        "embed_dim": side.dim,
        "depths": list(side.depths),
        "num_heads": list(side.heads_of_stages),
        "window_size": config.grid_window,
        "mlp_ratio": ratio,
        "qkv_bias": config.attention_bias != "out",
        "hidden_act": activation_to(config.activation),
        "layer_norm_eps": config.norm_epsilon or 1e-5,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "drop_path_rate": config.drop_path,
        "use_absolute_embeddings": False,
        **label_maps(config.classes),
    }


def _names(config: SwinConfig) -> Table:
    keys = same(
        "self_attention.key_value",
        "attention.self.key+attention.self.value",
        bias=config.attention_bias != "out",
    )
    table = "attention.self.relative_position_bias_table"
    bias = [Rule(("self_attention.score_bias.table",), (table,))]
    return _table("swin.", config, [[*keys, *bias]] * len(config.encoder.depths))


def _names_v2(config: SwinConfig) -> Table:
    net, their_net = "self_attention.score_bias.net", "attention.self.continuous_position_bias_mlp"
    keys = same("self_attention.key_value", "attention.self.key+attention.self.value", bias=False)
    if config.attention_bias != "out":
        keys.append(Rule(("self_attention.value_bias",), ("attention.self.value.bias",)))
    keys += [*same(f"{net}.0", f"{their_net}.0"), *same(f"{net}.2", f"{their_net}.2", bias=False)]
    scale, their_scale = ("self_attention.query_norm.scale",), ("attention.self.logit_scale",)
    stages = [
        [*keys, Rule(scale, their_scale, shape=(heads, 1, 1))]
        for heads in config.encoder.heads_of_stages
    ]
    return _table("swinv2.", config, stages)


def _table(prefix: str, config: SwinConfig, attention: list[list[Rule]]) -> Table:
    """The rules for all tensors.

    Args:
        prefix: The prefix of their names.
        config: The model's config.
        attention: For each stage the rules of a block that the versions do not share.
    """
    side, patch = config.encoder, config.patch
    kernel = (side.dim, config.channels, patch, patch)
    projection = f"{prefix}embeddings.patch_embeddings.projection"
    rules = [
        Rule(("embed.projection.weight",), (f"{projection}.weight",), shape=kernel),
        Rule(("embed.projection.bias",), (f"{projection}.bias",)),
        *same("embed.norm", f"{prefix}embeddings.norm"),
    ]
    block = [
        *same("self_attention.query", "attention.self.query", bias=config.attention_bias != "out"),
        *same("self_attention.out", "attention.output.dense"),
        *same("self_norm", "layernorm_before"),
        *same("feed_forward.into", "intermediate.dense"),
        *same("feed_forward.out", "output.dense"),
        *same("feed_norm", "layernorm_after"),
    ]
    number = 0
    for stage, depth in enumerate(side.depths):
        theirs = f"{prefix}encoder.layers.{stage}."
        for i in range(depth):
            of_block = [*block, *attention[stage]]
            rules += add_prefixes(f"encoder.blocks.{number}.", f"{theirs}blocks.{i}.", of_block)
            number += 1
        if stage < len(side.depths) - 1:
            merge = [*same("norm", "norm"), *same("reduction", "reduction", bias=False)]
            rules += add_prefixes(f"encoder.merges.{stage}.", f"{theirs}downsample.", merge)
    rules += same("encoder.final_norm", f"{prefix}layernorm")
    rules += same("classes", "classifier") if config.classes else []
    computed = ("*.relative_position_index", "*.relative_coords_table", "*.attn_mask")
    return Table(tuple(rules), {}, ignored=(*computed, f"{prefix}embeddings.mask_token"))


class _Blocks(Need):
    """Blocks of attention within windows and a feed-forward."""

    def is_met(self, config: Any) -> bool:
        """Whether a config has such blocks."""
        block = config.encoder.block
        plain = not any(part.name or part.scale != 1 or part.sublayer_norm_place for part in block)
        return plain and tuple(part.kind for part in block) == self.values

    def got(self, config: Any) -> str:
        """The sub-layers."""
        return f"model.block=[{','.join(part.part for part in config.encoder.block)}]"

    def wanted(self, config: Any) -> str:
        """The usual sub-layers."""
        del config
        return f"model.block=[{','.join(self.values)}]"


_NEEDS = (
    _Blocks("block", ("grid_attention", "feed_forward")),
    *fixed(block_norm=False, norm="layer", bias=True, residual=True, layer_scale=None),
    *fixed(kv_heads=None, head_dim=None, query_key_norm=False),
    *fixed(window_padding="zeros", shifted=True),
    Need("activation", ("gelu", *ACTIVATIONS.values())),
)
_V1_NEEDS = (
    *_NEEDS,
    *fixed(norm_place="pre", score="scaled_dot", grid_bias="table", fixed_shift=False),
    Need("attention_bias", (None, "all", "out")),
    Need("final_norm", (None, True)),
)
_V2_NEEDS = (
    *_NEEDS,
    *fixed(norm_place="inside", score="cosine", grid_bias="net", fixed_shift=True),
    Need("attention_bias", ("all_but_key", "out")),
    *fixed(final_norm=True),
)

SWIN = HubFormat(
    "swin", "swin", "swin.", _read, _write, _names, _V1_NEEDS, ("classifier.",), any_size=True
)
SWIN_V2 = HubFormat(
    "swinv2", "swin", "swinv2.", _read_v2, _write_v2, _names_v2, _V2_NEEDS, ("classifier.",),
    any_size=True,
)  # fmt: skip
