"""Builds a model on the meta device, which takes no memory, to get the shapes of its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from regard.errors import InputError
from regard.layers.config import NoPositionsConfig
from regard.models.config import ModelConfig
from regard.models.families import build

COMPUTED = ("sinusoidal", "sinusoidal_halves", "sinusoidal_2d", "rotary")
"""Position schemes without weights."""


class NoInitialization(TorchFunctionMode):
    """Skips random initialization, which on meta tensors would import PyTorch's compiler.

    Args:
        empty: The device of tensors made by `torch.empty`; None: as the call says. With `meta`,
            weights take no memory, while computed tables, such as sinusoids, are real tensors.
    """

    def __init__(self, empty: str | None = None) -> None:
        super().__init__()
        self.empty = empty

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        del types
        kwargs = dict(kwargs or {})
        if getattr(func, "__name__", "").endswith(("normal_", "uniform_")):
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        if func is torch.empty and self.empty is not None:
            kwargs["device"] = self.empty
        return func(*args, **kwargs)


def meta_model(config: ModelConfig, *vocabularies: int) -> Any:
    """Builds the model of a config on the meta device, without memory for its weights.

    Args:
        config: The config of a model.
        vocabularies: Sizes of the source and target vocabulary, or of the only one.

    Raises:
        InputError: If a matrix would be too large to be addressed.
    """
    # These schemes have no weights, only tables, and arange on the meta device imports the
    # compiler, which takes seconds.
    for name, side in config.sides.items():
        scheme = getattr(side, "positions", None)
        if scheme is not None and scheme.kind in COMPUTED:
            without = side.model_copy(update={"positions": NoPositionsConfig()})
            config = config.model_copy(update={name: without})
    try:
        with torch.device("meta"), NoInitialization():
            return build(config, *vocabularies)
    except (RuntimeError, TypeError) as error:
        if "overflow" not in str(error).lower():  # PyTorch's message for sizes beyond 64 bits
            raise
        got = config.summary + (f", vocabulary {vocabularies[0]}" if vocabularies else "")
        raise InputError("the model", got=got, expected="matrices below 2^63 bytes") from error


def meta_weights(
    config: ModelConfig, vocabularies: Sequence[int], tensors: int, what: str
) -> dict[str, torch.Tensor]:
    """Every tensor of a config's model by name, without memory even if the config is malicious.

    Args:
        config: The config of a model.
        vocabularies: As for `meta_model`.
        tensors: Number of tensors in the checkpoint, an upper bound on the layers.
        what: The name of the config's file, for the error message.

    Raises:
        InputError: If there are more layers than tensors, or a matrix is too large to be addressed.
    """
    for layers in config.stacks.values():
        if layers > tensors:
            expected = f"what {tensors} tensors can fill"
            raise InputError(what, got=f"{layers} layers", expected=expected)
    try:
        model = meta_model(config, *vocabularies)
    except InputError as error:
        raise InputError(what, got=error.got, expected=error.expected) from None
    return dict(model.state_dict())


def shapes(
    config: ModelConfig, vocabularies: Sequence[int], tensors: int, what: str
) -> dict[str, torch.Size]:
    """The shape of every tensor of a config's model by name; see `meta_weights`."""
    weights = meta_weights(config, vocabularies, tensors, what)
    return {name: tensor.shape for name, tensor in weights.items()}
