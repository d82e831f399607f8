"""Quantizes a trained model to 8 bits, by the products of `regard.kernels.int8`.

Quantized are all matrices of attention and feed-forward, and the vocabulary matrix of the output
head. Embedding lookups, positions, norms, biases, softmax, and the products of queries, keys and
values stay in 32 bits.
"""

from __future__ import annotations

import copy
import platform
from typing import TypeVar

import torch
from torch import nn

from regard.errors import InputError
from regard.kernels.int8 import ENGINE, Int8Head, Int8Linear
from regard.kernels.linear import Linear
from regard.kernels.small_batches import LOADER
from regard.layers.attention import Attention
from regard.layers.heads import VocabularyHead
from regard.layers.scores import DotScore
from regard.models.config import ModelConfig

ModuleT = TypeVar("ModuleT", bound=nn.Module)


def quantise(model: ModuleT) -> ModuleT:
    """A copy of the model in 8 bits, for inference; it shares the tensors that stay in 32 bits.

    Raises:
        InputError: If the processor or the device lacks the kernels.
    """
    devices = {tensor.device.type for tensor in model.parameters()}
    if devices - {"cpu"}:
        raise InputError(
            "precision int8",
            got=f"a model on {', '.join(sorted(devices))}",
            expected="one on the CPU",
            fix="use --device cpu, or --precision fp32",
        )
    if ENGINE not in torch.backends.quantized.supported_engines:
        raise InputError(
            "precision int8",
            got=platform.machine() or "this processor",
            expected="an x86 processor with AVX2",
            fix="use --precision fp32",
        )
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    twin = copy.deepcopy(model, shared).eval()
    # Speed counts most where many texts are written at once, and for the hundreds of patches of an
    # image; for the tokens of a text that is read, 16 bits are fast enough.
    config = getattr(model, "config", None)
    many = isinstance(config, ModelConfig) and hasattr(config.first, "grid")
    exact = not hasattr(model, "step") and not many
    LOADER.load_stored()  # now, lest a text be computed one way before they are loaded, one after
    for parent in list(twin.modules()):
        if isinstance(parent, DotScore):
            parent.by_row = hasattr(model, "step")
        for name, child in list(parent.named_children()):
            if isinstance(child, Attention) and not child.cross:
                join(child, exact=exact, many=many)
            if isinstance(child, Linear):
                small = Int8Linear(child.weight, child.bias, exact=exact, many=many)
                setattr(parent, name, small)
            elif isinstance(child, VocabularyHead):
                scaled = child.weight * child.scale
                setattr(parent, name, Int8Head(scaled, child.bias, exact=exact, many=many))
    return twin


def join(attention: Attention, *, exact: bool = False, many: bool = False) -> None:
    """Joins the projections of queries, keys and values, so that x is quantized only once."""
    query, key_value = attention.query, attention.key_value
    weight = torch.cat((query.weight, key_value.weight))
    biases = [
        weight.new_zeros(len(layer.weight)) if layer.bias is None else layer.bias
        for layer in (query, key_value)
    ]
    bias = None if query.bias is None else torch.cat(biases)
    attention.joined = Int8Linear(weight, bias, exact=exact, many=many)
    del attention.query, attention.key_value
