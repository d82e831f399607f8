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
    hub_activation,
    label_maps,
    labels_in,
    require,
)
from regard.hub.needs import BLOCKS, Need, fixed
from regard.hub.rules import Rule, Table, add_prefixes, same
from regard.models import ViTConfig


def _common_settings(hub_config: dict[str, Any]) -> dict[str, Any]:
    """The settings that all three kinds have by the same names."""
    image, patch = hub_config["image_size"], hub_config["patch_size"]
    if isinstance(patch, list) and len(set(patch)) == 1:
        patch = patch[0]
    if not isinstance(patch, int):
        raise InputError("config.json: patch_size", got=patch, expected="a square's side")
    return {
        "layers": hub_config["num_hidden_layers"],
        "dim": hub_config["hidden_size"],
        "heads": hub_config["num_attention_heads"],
        "activation": activation_of(hub_activation(hub_config, "hidden_act", "gelu")),
        "image": tuple(image) if isinstance(image, list) else (image, image),
        "patch": patch,
        "channels": hub_config.get("num_channels", 3),
        "dropout": hub_config.get("hidden_dropout_prob", 0.0),
        "hidden_dropout": 0.0,
        "attention_dropout": hub_config.get("attention_probs_dropout_prob", 0.0),
        "attention_bias": None if hub_config.get("qkv_bias", True) else "out",
    }


def _read(hub_config: dict[str, Any], names: TensorNames) -> ViTConfig:
    classes = labels_in(hub_config, names, "classifier.weight") if names.has("classifier.") else ()
    return _read_vit_or_deit(hub_config, pooled=names.has("vit.pooler."), classes=classes)


def _read_deit(hub_config: dict[str, Any], names: TensorNames) -> ViTConfig:
    has_two_heads = names.has("distillation_classifier.")
    return _read_vit_or_deit(
        hub_config,
        pooled=names.has("deit.pooler."),
        distillation="head" if has_two_heads else "token",
        classes=labels_in(hub_config, names, f"{'cls_' if has_two_heads else ''}classifier.weight")
        if has_two_heads or names.has("classifier.")
        else (),
    )


def _read_vit_or_deit(
    hub_config: dict[str, Any], *, pooled: bool, **own_settings: Any
) -> ViTConfig:
    """Reads the settings that ViT and DeiT share; `own_settings` adds those of one kind."""
    if pooled:
        require(hub_config, pooler_act="tanh", pooler_output_size=hub_config["hidden_size"])
    return ViTConfig(
        **_common_settings(hub_config),
        hidden=hub_config["intermediate_size"],
        norm_epsilon=hub_config.get("layer_norm_eps", 1e-12),
        pooling_layer=pooled,
        **own_settings,
    )


def _read_dinov2(hub_config: dict[str, Any], names: TensorNames) -> ViTConfig:
    require(hub_config, use_swiglu_ffn=False, apply_layernorm=True)
    return ViTConfig(
        **_common_settings(hub_config),
        hidden=int(hub_config["hidden_size"] * hub_config.get("mlp_ratio", 4)),
        norm_epsilon=hub_config.get("layer_norm_eps", 1e-6),
        drop_path=hub_config.get("drop_path_rate", 0.0),
        layer_scale=hub_config.get("layerscale_value", 1.0),
        pool="both",
        classes=labels_in(hub_config, names, "classifier.weight")
        if names.has("classifier.")
        else (),
    )


def _common_entries(name: str, config: ViTConfig) -> dict[str, Any]:
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
    return {**_common_entries(name, config), "intermediate_size": config.hidden}


def _write_deit(config: ViTConfig) -> dict[str, Any]:
    with_head = "WithTeacher" if config.distillation == "head" else ""
    name = f"DeiTForImageClassification{with_head}" if config.classes else "DeiTModel"
    return {**_common_entries(name, config), "intermediate_size": config.hidden}


def _write_dinov2(config: ViTConfig) -> dict[str, Any]:
    ratio = config.hidden / config.dim
    name = "Dinov2ForImageClassification" if config.classes else "Dinov2Model"
    return {
        **_common_entries(name, config),
        "mlp_ratio": int(ratio) if ratio == int(ratio) else ratio,
        "layerscale_value": config.layer_scale,
        "drop_path_rate": config.drop_path,
        "use_swiglu_ffn": False,
    }


def front_rules(
    config: ViTConfig, token_names: list[str], positions: str, projection: str
) -> list[Rule]:
    """The rules for learned tokens, positions and patches.

    Their patch projection is a kernel (dim, channels, patch, patch); ours is a matrix with the last
    three dimensions flattened.

    Args:
        config: The model's config.
        token_names: Their names of the learned tokens, in order.
        positions: Their name of the position table.
        projection: Their name of the patch projection.
    """
    kernel = (config.dim, config.channels, config.patch, config.patch)
    shape = (1, 1, config.dim)
    tokens = [Rule(("embed.first",), tuple(token_names), shape=shape)] if token_names else []
    return [
        *tokens,
        Rule(("encoder.positions.table",), (positions,), shape=(1, config.max_length, config.dim)),
        Rule(("embed.projection.weight",), (f"{projection}.weight",), shape=kernel),
        Rule(("embed.projection.bias",), (f"{projection}.bias",)),
    ]


def _body_rules(config: ViTConfig, prefix: str, block: list[Rule]) -> list[Rule]:
    """The rules for all but the heads, with the names that ViT and its kin share."""
    embeddings = f"{prefix}embeddings."
    tokens = ("cls_token", "distillation_token")[: config.encoder.front.tokens_before]
    token_names = [f"{embeddings}{token}" for token in tokens]
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
        *front_rules(config, token_names, f"{embeddings}position_embeddings", projection),
        *same("encoder.final_norm", f"{prefix}layernorm"),
    ]
    for layer in range(config.layers):
        rules += add_prefixes(f"encoder.blocks.{layer}.", f"{prefix}encoder.layer.{layer}.", block)
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
    return Table((*_body_rules(config, "vit.", _BLOCK), *heads), {})


def _names_deit(config: ViTConfig) -> Table:
    heads: list[Rule] = []
    if config.classes and config.distillation == "head":
        heads = [
            *same("classes.own", "cls_classifier"),
            *same("classes.distilled", "distillation_classifier"),
        ]
    elif config.classes:
        heads = same("classes", "classifier")
    return Table((*_body_rules(config, "deit.", _BLOCK), *heads), {})


def _names_dinov2(config: ViTConfig) -> Table:
    heads = same("classes", "classifier") if config.classes else []
    rules = (*_body_rules(config, "dinov2.", _DINOV2_BLOCK), *heads)
    return Table(rules, {}, ignored=("dinov2.embeddings.mask_token",))


VIT_NEEDS = (
    *BLOCKS,
    *fixed(stem="patches", norm="layer", norm_place="pre", score="scaled_dot"),
    Need("positions", ("learned", "sinusoidal_2d")),
    *fixed(kv_heads=None, head_dim=None, window=None, positions_from=0, query_key_norm=False),
    *fixed(embedding_norm=False, residual=True, head_hidden=None),
    Need("activation", ("gelu", *ACTIVATIONS.values())),
)
"""What all kinds of ViT require, timm's included."""
_TRANSFORMERS_NEEDS = (
    *VIT_NEEDS,
    Need("final_norm", (None, True)),
    *fixed(class_token=True, pooled_norm=False),
)
_VIT_AND_DEIT_NEEDS = (
    *_TRANSFORMERS_NEEDS,
    *fixed(pool="first", layer_scale=None),
    Need("pooling_layer", (False,), lambda config: config.classes),
)
_VIT_NEEDS = (*_VIT_AND_DEIT_NEEDS, *fixed(distillation="none"))
_DEIT_NEEDS = (*_VIT_AND_DEIT_NEEDS, Need("distillation", ("head", "token")))
_DINOV2_NEEDS = (
    *_TRANSFORMERS_NEEDS,
    *fixed(pool="both", pooling_layer=False, distillation="none"),
    Need("layer_scale", (1.0,), lambda config: config.layer_scale is None),
)

VIT = HubFormat("vit", "vit", "vit.", _read, _write, _names, _VIT_NEEDS, ("classifier.",))
DEIT = HubFormat(
    "deit",
    "vit",
    "deit.",
    _read_deit,
    _write_deit,
    _names_deit,
    _DEIT_NEEDS,
    ("classifier.", "cls_classifier.", "distillation_classifier."),
)
DINOV2 = HubFormat(
    "dinov2",
    "vit",
    "dinov2.",
    _read_dinov2,
    _write_dinov2,
    _names_dinov2,
    _DINOV2_NEEDS,
    ("classifier.",),
    any_size=True,
)
