"""A model with some of its attention heads removed.

In: a model and names of heads. Out: a copy that shares all its weights, in which the output of
these heads is zero. It computes the same as a tap with `knock_out`, and can be used where no tap
can be passed.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

import torch
from torch import Tensor, nn

from regard.layers.attention import Attention
from regard.layers.tap.tap import Tap, knock_out, split_head

ModuleT = TypeVar("ModuleT", bound=nn.Module)


class HeadRemoved(nn.Module):
    """An attention layer's output projection that ignores some heads.

    Args:
        out: The output projection.
        kept_features: (heads · head_dim,), 0 at the features of the removed heads, else 1.
    """

    def __init__(self, out: nn.Module, kept_features: Tensor) -> None:
        super().__init__()
        self.out, self.kept_features = out, kept_features.bool()

    def forward(self, x: Tensor) -> Tensor:
        """(tokens, heads · head_dim) -> (tokens, dim)."""
        return self.out(x.where(self.kept_features, 0.0))


def without_head(model: ModuleT, heads: Sequence[str]) -> ModuleT:
    """A copy of the model, sharing its weights, without these heads (`decoder.1.cross.3`, …).

    Raises:
        InputError: If the model has no such head.
    """
    Tap(edits=[knock_out(head) for head in heads]).begin(model.sites())  # type: ignore[operator]
    removed, device = [split_head(head) for head in heads], next(model.parameters()).device
    for path, attention in list(model.named_modules()):
        if not isinstance(attention, Attention):
            continue
        numbers = [number for layer, number in removed if fnmatchcase(attention.name, layer)]
        if numbers:
            kept_features = torch.ones(attention.heads, attention.value_dim, device=device)
            kept_features[numbers] = 0
            out = HeadRemoved(attention.out, kept_features.flatten())
            model = _replace_submodule(model, f"{path}.out", out)
    return model


def _replace_submodule(module: ModuleT, path: str, replacement: nn.Module) -> ModuleT:
    """A copy of the module with another submodule at `path`; it shares all other submodules."""
    twin = copy.copy(module)
    twin._modules = dict(module._modules)
    name, _, inner_path = path.partition(".")
    inner = twin._modules[name]
    assert inner is not None
    twin._modules[name] = (
        _replace_submodule(inner, inner_path, replacement) if inner_path else replacement
    )
    return twin
