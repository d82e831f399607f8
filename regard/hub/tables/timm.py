"""ViTs and DeiTs of timm: its config and tensor names.

timm's `config.json` names an architecture and says little of its sizes, so these are read from the
shapes of the tensors. The number of heads is no such size: it is dim / 64, as in every ViT and DeiT
of timm, unless `model_args` says otherwise.
"""

from __future__ import annotations

import math
from typing import Any

from regard.errors import InputError
from regard.hub.kind import HubFormat, TensorNames, require
from regard.hub.needs import Need, fixed
from regard.hub.rules import Rule, Table, add_prefixes, same
from regard.hub.tables.vit import VIT_NEEDS, front_rules
from regard.models import ViTConfig

HEAD_DIM = 64
"""Width of a head in timm's ViTs and DeiTs."""
SIZES = {192: "tiny", 384: "small", 768: "base", 1024: "large"}
"""Their word for a width."""


def _read(hub_config: dict[str, Any], names: TensorNames) -> ViTConfig:
    model_args = hub_config.get("model_args") or {}
    require(model_args, qk_norm=False, no_embed_class=False, pre_norm=False, reg_tokens=0)
    dim, channels, patch, _ = names.shape("patch_embed.proj.weight")
    tokens = names.shape("pos_embed")[1]
    has_class_token, distilled = names.has("cls_token"), names.has("dist_token")
    tokens_before = has_class_token + distilled
    default_pool = "avg" if names.has("fc_norm.") else "token"
    pool = str(hub_config.get("global_pool") or model_args.get("global_pool") or default_pool)
    if pool not in ("token", "avg"):
        raise InputError("config.json: global_pool", got=pool, expected="token or avg")
    image = (hub_config.get("pretrained_cfg") or {}).get("input_size") or [0, 0, 0]
    size = model_args.get("img_size") or image[1:]
    height, width = (size, size) if isinstance(size, int) else size
    if (height // patch) * (width // patch) != tokens - tokens_before:
        height = width = patch * math.isqrt(tokens - tokens_before)
    class_count = names.shape("head.weight")[0] if names.has("head.") else 0
    return ViTConfig(
        layers=names.count("blocks."),
        dim=dim,
        heads=model_args.get("num_heads") or max(1, dim // HEAD_DIM),
        hidden=names.shape("blocks.0.mlp.fc1.weight")[0],
        image=(height, width),
        patch=patch,
        channels=channels,
        dropout=0.0,
        attention_bias=None if names.has("blocks.0.attn.qkv.bias") else "out",
        layer_scale=1e-5 if names.has("blocks.0.ls1.gamma") else None,
        class_token=has_class_token,
        distillation="head" if distilled and class_count else "token" if distilled else "none",
        pool="first" if pool == "token" else "mean",
        final_norm=names.has("norm."),
        pooled_norm=names.has("fc_norm."),
        classes=_labels(hub_config, class_count),
    )


def _labels(hub_config: dict[str, Any], class_count: int) -> tuple[str, ...]:
    """The names of the classes, or their numbers."""
    labels = hub_config.get("label_names") or (hub_config.get("pretrained_cfg") or {}).get(
        "label_names"
    )
    if isinstance(labels, list) and len(labels) == class_count:
        return tuple(map(str, labels))
    return tuple(map(str, range(class_count)))


def _write(config: ViTConfig) -> dict[str, Any]:
    height, width = config.image
    size = SIZES.get(config.dim, "base")
    if config.distillation != "none":  # there is no large one
        name = f"deit_{'base' if size == 'large' else size}_distilled_patch16_224"
    else:
        name = f"vit_{size}_patch16_224"
    pool = "token" if config.pool == "first" else "avg"
    arguments: dict[str, Any] = {
        "img_size": [height, width],
        "patch_size": config.patch,
        "embed_dim": config.dim,
        "depth": config.layers,
        "num_heads": config.heads,
        "mlp_ratio": config.hidden / config.dim,
        "qkv_bias": config.attention_bias != "out",
        "in_chans": config.channels,
        "global_pool": pool,
    }
    if not config.class_token:
        arguments["class_token"] = False
    if config.layer_scale is not None:
        arguments["init_values"] = config.layer_scale
    if config.pool == "mean":
        arguments["fc_norm"] = config.pooled_norm
    return {
        "architecture": name,  # `model_args` says what differs
        "num_classes": len(config.classes),
        "num_features": config.dim,
        "global_pool": pool,
        "label_names": list(config.classes),
        "model_args": arguments,
        "pretrained_cfg": {
            "input_size": [config.channels, height, width],
            "num_classes": len(config.classes),
            "first_conv": "patch_embed.proj",
            "classifier": ["head", "head_dist"] if config.distillation == "head" else "head",
        },
    }


def _names(config: ViTConfig) -> Table:
    biased = config.attention_bias != "out"
    block = [
        *same("self_norm", "norm1"),
        *same("self_attention.query+self_attention.key_value", "attn.qkv", bias=biased),
        *same("self_attention.out", "attn.proj"),
        *same("feed_norm", "norm2"),
        *same("feed_forward.into", "mlp.fc1"),
        *same("feed_forward.out", "mlp.fc2"),
    ]
    if config.layer_scale is not None:
        block += [Rule(("self_gain",), ("ls1.gamma",)), Rule(("feed_gain",), ("ls2.gamma",))]
    token_names = ["cls_token", "dist_token"][: config.encoder.front.tokens_before]
    rules = front_rules(config, token_names, "pos_embed", "patch_embed.proj")
    for layer in range(config.layers):
        rules += add_prefixes(f"encoder.blocks.{layer}.", f"blocks.{layer}.", block)
    if config.final_norm in (None, True):
        rules += same("encoder.final_norm", "norm")
    if config.pooled_norm:
        rules += same("pooled_norm", "fc_norm")
    if config.classes and config.distillation == "head":
        rules += [*same("classes.own", "head"), *same("classes.distilled", "head_dist")]
    elif config.classes:
        rules += same("classes", "head")
    return Table(tuple(rules), {})


def _has_final_norm(config: ViTConfig) -> bool:
    """Whether a norm follows the last block."""
    return config.final_norm in (None, True)


_NEEDS = (
    *VIT_NEEDS,
    *fixed(norm_epsilon=1e-6, activation="gelu", pooling_layer=False),
    Need("pool", ("first", "mean")),
    Need("pooled_norm", (False,), _has_final_norm),
    Need("pooled_norm", (True,), lambda config: not _has_final_norm(config)),
    # a distillation token without its head is not theirs
    Need("distillation", ("none", "head"), lambda config: config.classes),
)

TIMM = HubFormat("timm", "vit", "", _read, _write, _names, _NEEDS, has_model_type=False)
