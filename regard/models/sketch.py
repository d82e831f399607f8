"""The model of a config without its numbers: tensors on the meta device, which take no memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from regard.errors import InputError
from regard.models.config import ModelConfig
from regard.models.families import build


class NothingDrawn(TorchFunctionMode):
    """Leaves out the drawing of fresh weights, for which meta tensors import the compiler too."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        del types
        kwargs = kwargs or {}
        if getattr(func, "__name__", "").endswith(("normal_", "uniform_")):
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)


def sketch(config: ModelConfig, *vocabularies: int) -> Any:
    """The model of a config without its numbers: shapes on the meta device, no memory.

    Args:
        config: Of a family.
        vocabularies: Entries of the source's and the target's vocabulary, or of the only one.

    Raises:
        InputError: A matrix of it would be larger than can be addressed.
    """
    if getattr(config, "positions", "none") in ("sinusoidal", "sinusoidal_halves", "rotary"):
        # They have no weights, only tables, whose arange on meta imports the compiler: seconds.
        config = config.model_copy(update={"positions": "none"})
    try:
        with torch.device("meta"), NothingDrawn():
            return build(config, *vocabularies)
    except (RuntimeError, TypeError) as error:
        if "overflow" not in str(error).lower():  # torch's word for what 64 bits do not hold
            raise
        got = config.widths + (f", vocabulary {vocabularies[0]}" if vocabularies else "")
        raise InputError("the model", got=got, expected="matrices below 2^63 bytes") from error


def shapes(
    config: ModelConfig, vocabularies: Sequence[int], tensors: int, what: str
) -> dict[str, torch.Size]:
    """The shape of every tensor of a config's model, by name; a hostile config takes no memory.

    Args:
        config: Of a family.
        vocabularies: As for `sketch`.
        tensors: How many there are to fill it.
        what: Where the config stands, for an error.

    Raises:
        InputError: There are more layers than that, or a matrix is larger than can be addressed.
    """
    for layers in config.stacks.values():
        if layers > tensors:
            expected = f"what {tensors} tensors can fill"
            raise InputError(what, got=f"{layers} layers", expected=expected)
    try:
        model = sketch(config, *vocabularies)
    except InputError as error:
        raise InputError(what, got=error.got, expected=error.expected) from None
    return {name: tensor.shape for name, tensor in model.state_dict().items()}
