"""ViT, DeiT and DINOv2, with or without their classification heads: config and tensor names."""

from __future__ import annotations

from typing import Any

from regard.errors import InputError
from regard.hub.kind import (
    ACTIVATIONS,
    HubFormat,
    TensorNames,
    activation_of,
    activation_to,
    label_maps,
    labels_in,
    require,
    their_activation,
)
from regard.hub.needs import BLOCKS, Need, fixed
from regard.hub.rules import Rule, Table, same, within
from regard.models import ViTConfig


def _common(their: dict[str, Any]) -> dict[str, Any]:
    """The settings that all three kinds have by the same names."""
    image, patch = their["image_size"], their["patch_size"]
    if isinstance(patch, list) and len(set(patch)) == 1:
        patch = patch[0]
    if not isinstance(patch, int):
        raise InputError("config.json: patch_size", got=patch, expected="a square's side")
    return {
        "layers": their["num_hidden_layers"],
        "dim": their["hidden_size"],
        "heads": their["num_attention_heads"],
        "activation": activation_of(their_activation(their, "hidden_act", "gelu")),
        "image": tuple(image) if isinstance(image, list) else (image, image),
        "patch": patch,
        "channels": their.get("num_channels", 3),
        "dropout": their.get("hidden_dropout_prob", 0.0),
        "hidden_dropout": 0.0,
        "attention_dropout": their.get("attention_probs_dropout_prob", 0.0),
        "attention_bias": None if their.get("qkv_bias", True) else "out",
    }


def _read(their: dict[str, Any], names: TensorNames) -> ViTConfig:
    classes = labels_in(their, names, "classifier.weight") if names.has("classifier.") else ()
    return _read_plain(their, pooled=names.has("vit.pooler."), classes=classes)


def _read_deit(their: dict[str, Any], names: TensorNames) -> ViTConfig:
    both = names.has("distillation_classifier.")
    return _read_plain(
        their,
        pooled=names.has("deit.pooler."),
        distillation="head" if both else "token",
        classes=labels_in(their, names, f"{'cls_' if both else ''}classifier.weight")
        if both or names.has("classifier.")
        else (),
    )


def _read_plain(their: dict[str, Any], *, pooled: bool, **own_settings: Any) -> ViTConfig:
    """Reads the settings that ViT and DeiT share; `own_settings` adds those of one kind."""
    if pooled:
        require(their, pooler_act="tanh", pooler_output_size=their["hidden_size"])
    return ViTConfig(
        **_common(their),
        hidden=their["intermediate_size"],
        norm_epsilon=their.get("layer_norm_eps", 1e-12),
        pooling_layer=pooled,
        **own_settings,
    )


def _read_dinov2(their: dict[str, Any], names: TensorNames) -> ViTConfig:
    require(their, use_swiglu_ffn=False, apply_layernorm=True)
    return ViTConfig(
        **_common(their),
        hidden=int(their["hidden_size"] * their.get("mlp_ratio", 4)),
        norm_epsilon=their.get("layer_norm_eps", 1e-6),
        drop_path=their.get("drop_path_rate", 0.0),
        layer_scale=their.get("layerscale_value", 1.0),
        pool="both",
        classes=labels_in(their, names, "classifier.weight") if names.has("classifier.") else (),
    )


def _write_common(name: str, config: ViTConfig) -> dict[str, Any]:
    height, width = config.image
    return {
        "architectures": [name],
        "num_hidden_layers": config.layers,
        "hidden_size": config.dim,
        "num_attention_heads": config.heads,
        "hidden_act": activation_to(config.activation),
        "layer_norm_eps": config.norm_epsilon or 1e-5,
        "image_size": height if height == width else [height, width],
        "patch_size": config.patch,
        "num_channels": config.channels,
        "qkv_bias": config.attention_bias != "out",
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        **label_maps(config.classes),
    }


def _write(config: ViTConfig) -> dict[str, Any]:
    name = "ViTForImageClassification" if config.classes else "ViTModel"
    return {**_write_common(name, config), "intermediate_size": config.hidden}


def _write_deit(config: ViTConfig) -> dict[str, Any]:
    with_head = "WithTeacher" if config.distillation == "head" else ""
    name = f"DeiTForImageClassification{with_head}" if config.classes else "DeiTModel"
    return {**_write_common(name, config), "intermediate_size": config.hidden}


def _write_dinov2(config: ViTConfig) -> dict[str, Any]:
    ratio = config.hidden / config.dim
    name = "Dinov2ForImageClassification" if config.classes else "Dinov2Model"
    return {
        **_write_common(name, config),
        "mlp_ratio": int(ratio) if ratio == int(ratio) else ratio,
        "layerscale_value": config.layer_scale,
        "drop_path_rate": config.drop_path,
        "use_swiglu_ffn": False,
    }


def front_rules(config: ViTConfig, first: list[str], positions: str, projection: str) -> list[Rule]:
    """The rules for learned tokens, positions and patches.

    Their patch projection is a kernel (dim, channels, patch, patch); ours is a matrix with the last
    three dimensions flattened.

    Args:
        config: The model's config.
        first: Their names of the learned tokens, in order.
        positions: Their name of the position table.
        projection: Their name of the patch projection.
    """
    kernel = (config.dim, config.channels, config.patch, config.patch)
    tokens = [Rule(("embed.first",), tuple(first), shape=(1, 1, config.dim))] if first else []
    return [
        *tokens,
        Rule(("encoder.positions.table",), (positions,), shape=(1, config.tokens, config.dim)),
        Rule(("embed.projection.weight",), (f"{projection}.weight",), shape=kernel),
        Rule(("embed.projection.bias",), (f"{projection}.bias",)),
    ]


def _names_of(config: ViTConfig, prefix: str, block: list[Rule]) -> list[Rule]:
    """The rules for all but the heads, with the names that ViT and its kin share."""
    embeddings = f"{prefix}embeddings."
    first = [f"{embeddings}cls_token", f"{embeddings}distillation_token"][: config.tokens_before]
    projection = f"{embeddings}patch_embeddings.projection"
    biased = config.attention_bias != "out"
    block = [
        *same("self_attention.query", "attention.attention.query", bias=biased),
        *same(
            "self_attention.key_value",
            "attention.attention.key+attention.attention.value",
            bias=biased,
        ),
        *same("self_attention.out", "attention.output.dense"),
        *block,
    ]
    rules = [
        *front_rules(config, first, f"{embeddings}position_embeddings", projection),
        *same("encoder.final_norm", f"{prefix}layernorm"),
    ]
    for layer in range(config.layers):
        rules += within(f"encoder.blocks.{layer}.", f"{prefix}encoder.layer.{layer}.", block)
    if config.pooling_layer:
        rules += same("pooling_layer", f"{prefix}pooler.dense")
    return rules


_BLOCK = [
    *same("self_norm", "layernorm_before"),
    *same("feed_forward.into", "intermediate.dense"),
    *same("feed_forward.out", "output.dense"),
    *same("feed_norm", "layernorm_after"),
]
_DINOV2_BLOCK = [
    *same("self_norm", "norm1"),
    *same("feed_forward.into", "mlp.fc1"),
    *same("feed_forward.out", "mlp.fc2"),
    *same("feed_norm", "norm2"),
    Rule(("self_gain",), ("layer_scale1.lambda1",)),
    Rule(("feed_gain",), ("layer_scale2.lambda1",)),
]


def _names(config: ViTConfig) -> Table:
    heads = same("classes", "classifier") if config.classes else []
    return Table((*_names_of(config, "vit.", _BLOCK), *heads), {})


def _names_deit(config: ViTConfig) -> Table:
    heads: list[Rule] = []
    if config.classes and config.distillation == "head":
        heads = [
            *same("classes.own", "cls_classifier"),
            *same("classes.distilled", "distillation_classifier"),
        ]
    elif config.classes:
        heads = same("classes", "classifier")
    return Table((*_names_of(config, "deit.", _BLOCK), *heads), {})


def _names_dinov2(config: ViTConfig) -> Table:
    heads = same("classes", "classifier") if config.classes else []
    rules = (*_names_of(config, "dinov2.", _DINOV2_BLOCK), *heads)
    return Table(rules, {}, ignored=("dinov2.embeddings.mask_token",))


PLAIN = (
    *BLOCKS,
    *fixed(stem="patches", norm="layer", norm_place="pre", score="scaled_dot"),
    Need("positions", ("learned", "sinusoidal_2d")),
    *fixed(kv_heads=None, head_dim=None, window=None, positions_from=0, query_key_norm=False),
    *fixed(embedding_norm=False, residual=True, head_hidden=None),
    Need("activation", ("gelu", *ACTIVATIONS.values())),
)
"""What all kinds of ViT require, timm's included."""
_THEIRS = (*PLAIN, Need("final_norm", (None, True)), *fixed(class_token=True, pooled_norm=False))
_PATCHES = (
    *_THEIRS,
    *fixed(pool="first", layer_scale=None),
    Need("pooling_layer", (False,), lambda config: config.classes),
)
_VIT = (*_PATCHES, *fixed(distillation="none"))
_DEIT = (*_PATCHES, Need("distillation", ("head", "token")))
_DINOV2 = (
    *_THEIRS,
    *fixed(pool="both", pooling_layer=False, distillation="none"),
    Need("layer_scale", (1.0,), lambda config: config.layer_scale is None),
)

VIT = HubFormat("vit", "vit", "vit.", _read, _write, _names, _VIT, ("classifier.",))
DEIT = HubFormat(
    "deit",
    "vit",
    "deit.",
    _read_deit,
    _write_deit,
    _names_deit,
    _DEIT,
    ("classifier.", "cls_classifier.", "distillation_classifier."),
)
DINOV2 = HubFormat(
    "dinov2",
    "vit",
    "dinov2.",
    _read_dinov2,
    _write_dinov2,
    _names_dinov2,
    _DINOV2,
    ("classifier.",),
    any_size=True,
)
