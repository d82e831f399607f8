"""What Regard knows of one kind of Hugging Face model: its config and its names, both ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.hub.rules import Table

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "silu": "silu"}
"""Their name -> ours."""
_OTHER_NAMES = {"swish": "silu", "gelu_pytorch_tanh": "gelu_new", "gelu_python": "gelu"}


class Names:
    """The tensors of a checkpoint, for questions that a config does not answer."""

    def __init__(self, their: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self._their, self._tensors = their, tensors

    def has(self, start: str) -> bool:
        """Whether there is a tensor whose name begins so."""
        return any(name.startswith(start) for name in self._tensors)

    def tied(self, copy: str, original: str, *, usual: bool) -> bool:
        """Whether a matrix is only another name of one that comes before it.

        Where both are stored, their numbers decide; else the config.
        """
        if copy in self._tensors and original in self._tensors:
            return torch.equal(self._tensors[copy], self._tensors[original])
        return bool(self._their.get("tie_word_embeddings", usual))


@dataclass(frozen=True)
class Kind:
    """One kind of model. A kind of theirs is a config of one of our families."""

    name: str
    """Their `model_type`."""
    family: str
    prefix: str
    """What the names of the body begin with in a model that has a head; without one they do not."""
    read: Callable[[dict[str, Any], Names], Any]
    """Their config, and the tensors -> our config."""
    write: Callable[..., dict[str, Any]]
    """Our config and the sizes of vocabularies -> their config."""
    names: Callable[[Any], Table]
    """Our config -> the table of names."""
    fits: Callable[[Any], bool]
    """Whether a config of the family can be written as this kind."""
    heads: tuple[str, ...] = ("lm_head.",)
    """What the names of heads begin with, which stand beside the body."""

    def whole_names(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors with the names that they have in a model with a head, and have today."""
        today = {_renamed(name): tensor for name, tensor in tensors.items()}
        if any(name.startswith(self.prefix) for name in today):
            return today
        return {
            name if name.startswith(self.heads) else self.prefix + name: tensor
            for name, tensor in today.items()
        }


def _renamed(name: str) -> str:
    """Today's name of a tensor; the first BERTs, out of TensorFlow, call the parts of norms so."""
    for old, new in (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")):
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def only(their: Mapping[str, Any], **wanted: object) -> None:
    """Refuses a config that sets something to what Regard does not compute."""
    for key, value in wanted.items():
        if their.get(key, value) != value:
            raise InputError(f"config.json: {key}", got=their[key], expected=value)


def their_activation(their: Mapping[str, Any], key: str, usual: str) -> str:
    """Their name of the activation, one name for each; `usual` is what a config leaves out."""
    name = str(their.get(key) or usual)
    return _OTHER_NAMES.get(name, name)


def activation_of(theirs: str) -> Any:
    """Our name of an activation; `gated_` stays in front."""
    gate, name = ("gated_", theirs[6:]) if theirs.startswith("gated_") else ("", theirs)
    if name not in ACTIVATIONS:
        raise InputError(
            "config.json: the activation", got=name, expected=", ".join(sorted(ACTIVATIONS))
        )
    return gate + ACTIVATIONS[name]


def activation_to(ours: str) -> str:
    """Their name of an activation."""
    return next(theirs for theirs, name in ACTIVATIONS.items() if name == ours)
