"""Builds a model from a config and given weights, without initializing or copying weights.

Initial weights would double the memory and take time to draw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from regard.checkpoint.folder import check_outlines, check_tensors
from regard.models.config import ModelConfig
from regard.models.families import build
from regard.models.meta_model import NoInitialization, meta_weights
from regard.models.model import Model


def with_weights(
    config: ModelConfig, vocabularies: Sequence[int], weights: Mapping[str, Tensor], name: str
) -> Any:
    """Builds the model of a config with the weights of a checkpoint, which are checked first.

    Args:
        config: The model's config.
        vocabularies: The sizes of its vocabularies.
        weights: Tensors by name.
        name: The checkpoint's name, for error messages.

    Raises:
        InputError: A tensor is missing or unknown, or its shape or type differs.
    """
    check_weights(config, vocabularies, weights, name)
    model = blank(config, *vocabularies)
    load_weights(model, weights)
    return model


def check_weights(
    config: ModelConfig, vocabularies: Sequence[int], weights: Mapping[str, Tensor], name: str
) -> None:
    """Compares weights with those of a config's model before memory is taken; see above."""
    what = f"{name}: the weights do not fit config.json"
    expected = meta_weights(config, vocabularies, len(weights), what)
    check_outlines(what, weights, expected, lambda tensor: tuple(tensor.shape))
    check_tensors(f"{name}: the weights", weights, expected)


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
    tensors = {id(parameter): weights[name] for name, parameter in parameters.items()}
    addresses: set[int] = set()
    new_parameters: dict[int, nn.Parameter] = {}
    for parameter, tensor in tensors.items():
        # One tensor under two names that the model does not tie becomes two parameters.
        own_tensor = tensor.clone() if tensor.data_ptr() in addresses else tensor
        addresses.add(tensor.data_ptr())
        new_parameters[parameter] = nn.Parameter(own_tensor)
    named = {name: new_parameters[id(parameter)] for name, parameter in parameters.items()}
    model.load_state_dict({**weights, **named}, assign=True)
