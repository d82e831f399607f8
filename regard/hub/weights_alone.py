"""ViTs whose weights stand alone, without a config: those of vit-pytorch (lucidrains), and timm's.

In: a file of tensors. Out: a model of Regard. Sizes are read from the shapes; the number of heads
is in no shape, and must be given for a model of vit-pytorch if it is not 8.

The early versions of vit-pytorch, which are read here, scale scores by dim^-0.5 instead of
head_dim^-0.5, have no bias in the projections of queries, keys and values, no norm after the last
block, and a hidden layer in the head.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.hub.folder import model_of, read_file
from regard.hub.identify import ModelDescription
from regard.hub.kind import TensorNames
from regard.hub.rules import Rule, Table, add_prefixes, same
from regard.hub.tables.timm import TIMM
from regard.models import Model, ViTConfig
from regard.models.load_weights import blank, load_weights
from regard.models.meta_model import shapes

DEFAULT_HEADS = 8
"""The usual number of heads of vit-pytorch."""


def read_vit_file(file: Path, heads: int | None = None) -> Model:
    """Reads a ViT from a file of weights, by the names of its tensors.

    Args:
        file: A `.pth`, `.pt` or `.safetensors` file.
        heads: The number of heads; None: 8 for vit-pytorch, dim / 64 for timm.

    Raises:
        InputError: The tensors are those of another model.
    """
    tensors = read_file(file)
    if "patch_to_embedding.weight" in tensors:
        return _read_vit_pytorch(tensors, heads or DEFAULT_HEADS, file)
    if "patch_embed.proj.weight" in tensors and "pos_embed" in tensors:
        hub_config: dict[str, Any] = {"architecture": "vit", "num_classes": 0}
        if heads is not None:
            hub_config["model_args"] = {"num_heads": heads}
        return model_of(ModelDescription(TIMM, hub_config), tensors, file)
    raise InputError(
        f"import {file}",
        got="weights alone, which do not say what model they belong to",
        expected="those of a ViT of vit-pytorch (lucidrains) or timm",
        fix="name the folder that has config.json beside them; without one, build the model in "
        "transformers, load them there and save_pretrained(FOLDER)",
    )


def _read_vit_pytorch(tensors: dict[str, Tensor], heads: int, file: Path) -> Model:
    """A ViT of early versions of vit-pytorch."""
    names = TensorNames({}, tensors)
    if names.has("mlp_head.") and not {"mlp_head.0.weight", "mlp_head.2.weight"} <= tensors.keys():
        raise InputError(f"{file}: mlp_head", got="another head", expected="Linear, GELU, Linear")
    (dim, pixels), patches = names.shape("patch_to_embedding.weight"), _count_patches(names)
    channels = 1 if math.isqrt(pixels) ** 2 == pixels else 3
    patch = math.isqrt(pixels // channels)
    classes = names.shape("mlp_head.2.weight")[0]
    if dim % heads:
        raise InputError("--heads", got=heads, expected=f"a number that divides {dim}")
    config = ViTConfig(
        layers=names.count("transformer.layers."),
        dim=dim,
        heads=heads,
        hidden=names.shape("transformer.layers.0.1.fn.fn.net.0.weight")[0],
        head_hidden=names.shape("mlp_head.0.weight")[0],
        image=(patch * math.isqrt(patches),) * 2,
        patch=patch,
        channels=channels,
        norm_epsilon=1e-5,
        attention_bias="out",
        final_norm=False,
        dropout=0.0,
        classes=tuple(map(str, range(classes))),
    )
    for name in list(tensors):
        if name.endswith("to_qkv.weight"):
            # q·k dim^-0.5 = (q √(head_dim / dim))·k head_dim^-0.5, and head_dim / dim = 1 / heads
            query, key_value = tensors[name][:dim], tensors[name][dim:]
            tensors[name] = torch.cat((query * heads**-0.5, key_value))
    matrix = tensors["patch_to_embedding.weight"]
    if channels > 1:  # their patches are (row, column, channel), ours (channel, row, column)
        matrix = matrix.view(dim, patch, patch, channels).permute(0, 3, 1, 2).reshape(dim, -1)
        tensors["patch_to_embedding.weight"] = matrix.contiguous()
    expected_shapes = shapes(config, (), len(tensors), str(file))
    our_tensors = _table(config).import_tensors(tensors, expected_shapes)
    model: Model = blank(config)
    load_weights(model, our_tensors)
    return model.eval()


def _count_patches(names: TensorNames) -> int:
    """The number of patches; an image is a square of them."""
    patches = names.shape("pos_embedding")[1] - 1
    if math.isqrt(patches) ** 2 != patches:
        raise InputError("pos_embedding", got=f"{patches} patches", expected="a square of them")
    return patches


def _table(config: ViTConfig) -> Table:
    block = [
        *same("self_norm", "0.fn.norm"),
        *same("self_attention.query+self_attention.key_value", "0.fn.fn.to_qkv", bias=False),
        *same("self_attention.out", "0.fn.fn.to_out"),
        *same("feed_norm", "1.fn.norm"),
        *same("feed_forward.into", "1.fn.fn.net.0"),
        *same("feed_forward.out", "1.fn.fn.net.2"),
    ]
    table = (1, config.max_length, config.dim)
    rules = [
        Rule(("embed.first",), ("cls_token",), shape=(1, 1, config.dim)),
        Rule(("encoder.positions.table",), ("pos_embedding",), shape=table),
        *same("embed.projection", "patch_to_embedding"),
        *same("classes.0", "mlp_head.0"),
        *same("classes.2", "mlp_head.2"),
    ]
    for layer in range(config.layers):
        rules += add_prefixes(f"encoder.blocks.{layer}.", f"transformer.layers.{layer}.", block)
    return Table(tuple(rules), {})
