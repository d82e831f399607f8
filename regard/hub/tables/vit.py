"""ViT, with or without its classification head: config and tensor names."""

from __future__ import annotations

from typing import Any

from regard.errors import InputError
from regard.hub.kind import (
    Kind,
    Names,
    activation_of,
    activation_to,
    label_maps,
    labels_in,
    only,
    their_activation,
)
from regard.hub.rules import Rule, Table, same, within
from regard.models import ViTConfig


def _read(their: dict[str, Any], names: Names) -> ViTConfig:
    only(their, qkv_bias=True)
    image, patch = their["image_size"], their["patch_size"]
    if isinstance(patch, list) and len(set(patch)) == 1:
        patch = patch[0]
    if not isinstance(patch, int):
        raise InputError("config.json: patch_size", got=patch, expected="a square's side")
    return ViTConfig(
        layers=their["num_hidden_layers"],
        dim=their["hidden_size"],
        heads=their["num_attention_heads"],
        hidden=their["intermediate_size"],
        activation=activation_of(their_activation(their, "hidden_act", "gelu")),
        norm_epsilon=their.get("layer_norm_eps", 1e-12),
        image=tuple(image) if isinstance(image, list) else (image, image),
        patch=patch,
        channels=their.get("num_channels", 3),
        dropout=their.get("hidden_dropout_prob", 0.0),
        hidden_dropout=0.0,
        attention_dropout=their.get("attention_probs_dropout_prob", 0.0),
        classes=labels_in(their) if names.has("classifier.") else (),
    )


def _write(config: ViTConfig) -> dict[str, Any]:
    height, width = config.image
    return {
        "architectures": ["ViTForImageClassification" if config.classes else "ViTModel"],
        "num_hidden_layers": config.layers,
        "hidden_size": config.dim,
        "num_attention_heads": config.heads,
        "intermediate_size": config.hidden,
        "hidden_act": activation_to(config.activation),
        "layer_norm_eps": config.norm_epsilon or 1e-5,
        "image_size": height if height == width else [height, width],
        "patch_size": config.patch,
        "num_channels": config.channels,
        "qkv_bias": True,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        **label_maps(config.classes),
    }


def _names(config: ViTConfig) -> Table:
    """The table of names; their patch projection is a kernel (dim, channels, patch, patch).

    Ours is a matrix with the last three dimensions flattened.
    """
    embeddings, projection = "vit.embeddings.", "vit.embeddings.patch_embeddings.projection"
    kernel = (config.dim, config.channels, config.patch, config.patch)
    table, first = (1, config.tokens, config.dim), (1, 1, config.dim)
    rules = [
        Rule(("embed.first",), (f"{embeddings}cls_token",), shape=first),
        Rule(("encoder.positions.table",), (f"{embeddings}position_embeddings",), shape=table),
        Rule(("embed.projection.weight",), (f"{projection}.weight",), shape=kernel),
        Rule(("embed.projection.bias",), (f"{projection}.bias",)),
        *same("encoder.final_norm", "vit.layernorm"),
    ]
    block = [
        *same("self_attention.query", "attention.attention.query"),
        *same("self_attention.key_value", "attention.attention.key+attention.attention.value"),
        *same("self_attention.out", "attention.output.dense"),
        *same("self_norm", "layernorm_before"),
        *same("feed_forward.into", "intermediate.dense"),
        *same("feed_forward.out", "output.dense"),
        *same("feed_norm", "layernorm_after"),
    ]
    for layer in range(config.layers):
        rules += within(f"encoder.blocks.{layer}.", f"vit.encoder.layer.{layer}.", block)
    if config.classes:
        rules += same("classes", "classifier")
    return Table(tuple(rules), {})


def _fits(config: ViTConfig) -> bool:
    """Whether all settings are ones that their ViT can have."""
    return (
        (config.norm, config.norm_place, config.positions) == ("layer", "pre", "learned")
        and (config.kv_heads, config.head_dim, config.window) == (None, None, None)
        and (config.class_token, config.pool, config.positions_from) == (True, "first", 0)
        and (config.bias, config.embedding_norm, config.residual) == (True, False, True)
        and config.attention_bias in (None, "all")
        and config.final_norm in (None, True)
        and config.score == "scaled_dot"
        and not config.query_key_norm
        and not config.activation.startswith("gated")
    )


VIT = Kind("vit", "vit", "vit.", _read, _write, _names, _fits, ("classifier.",))
