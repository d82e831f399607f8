"""A config and weights -> a model of them: nothing is drawn, and no weight is copied.

Fresh weights would take as much memory as those that follow, and a while to be drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.models.config import ModelConfig
from regard.models.families import build
from regard.models.model import Model
from regard.models.sketch import NothingDrawn


class _NoPlaces(NothingDrawn):
    """Makes a weight without memory; tables that are computed, such as sinusoids, have theirs."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is torch.empty:
            kwargs = {**(kwargs or {}), "device": "meta"}
        return super().__torch_function__(func, types, args, kwargs)


def blank(config: ModelConfig, *vocabularies: int) -> Any:
    """The model of a config without its weights, which `fill` gives it.

    Args:
        config: Of a family.
        vocabularies: Entries of the source's and the target's vocabulary, or of the only one.
    """
    with _NoPlaces():
        return build(config, *vocabularies)


def fill(model: Model, weights: Mapping[str, Tensor]) -> None:
    """Gives a model its weights: the tensors themselves, not copies of them.

    Args:
        model: Blank, or with weights that are let go. What is tied in it stays so.
        weights: By name, all of the model's, of its shapes and kinds.
    """
    own = dict(model.named_parameters(remove_duplicate=False))
    given = {id(parameter): weights[name] for name, parameter in own.items()}
    places: set[int] = set()
    ready: dict[int, nn.Parameter] = {}
    for parameter, tensor in given.items():
        # Equal numbers under two names that the model does not tie are two parameters.
        apart = tensor.clone() if tensor.data_ptr() in places else tensor
        places.add(tensor.data_ptr())
        ready[parameter] = nn.Parameter(apart)
    named = {name: ready[id(parameter)] for name, parameter in own.items()}
    model.load_state_dict({**weights, **named}, assign=True)
