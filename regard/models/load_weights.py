"""Builds a model from a config and given weights, without initializing or copying weights.

Initial weights would double the memory and take time to draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from regard.models.config import ModelConfig
from regard.models.families import build
from regard.models.meta_model import NoInitialization
from regard.models.model import Model


def blank(config: ModelConfig, *vocabularies: int) -> Any:
    """Builds the model of a config with weights on the meta device, to be set by `load_weights`.

    Args:
        config: The config of a model.
        vocabularies: Sizes of the source and target vocabulary, or of the only one.
    """
    with NoInitialization(empty="meta"):
        return build(config, *vocabularies)


def load_weights(model: Model, weights: Mapping[str, Tensor]) -> None:
    """Sets the weights of a model to the given tensors, without copying them.

    Args:
        model: A model from `blank`, or any other, whose weights are replaced. Tied weights stay
            tied.
        weights: Name -> tensor for all weights, with the model's shapes and dtypes.
    """
    parameters = dict(model.named_parameters(remove_duplicate=False))
    given = {id(parameter): weights[name] for name, parameter in parameters.items()}
    addresses: set[int] = set()
    ready: dict[int, nn.Parameter] = {}
    for parameter, tensor in given.items():
        # One tensor under two names that the model does not tie becomes two parameters.
        apart = tensor.clone() if tensor.data_ptr() in addresses else tensor
        addresses.add(tensor.data_ptr())
        ready[parameter] = nn.Parameter(apart)
    named = {name: ready[id(parameter)] for name, parameter in parameters.items()}
    model.load_state_dict({**weights, **named}, assign=True)
