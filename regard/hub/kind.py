"""The description of one kind of Hugging Face model: how config and tensor names are converted.

A `HubFormat` converts between their `config.json` and our model config, and between their tensor
names and ours (by a `Table` of rules), in both directions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.hub.needs import Need
from regard.hub.rules import Table

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "silu": "silu"}
"""Their name of an activation -> ours."""
DATA_PARALLEL_PREFIX = "module."
"""What `nn.DataParallel` puts before all names; models were often saved with it."""
_ACTIVATION_SYNONYMS = {"swish": "silu", "gelu_pytorch_tanh": "gelu_new", "gelu_python": "gelu"}


class TensorNames:
    """Answers questions about a checkpoint's tensors that its config does not answer."""

    def __init__(self, hub_config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self._hub_config, self._tensors = hub_config, tensors
        self.notes: list[str] = []
        """What was assumed because the config does not say it, or contradicts the tensors."""

    def section(self, hub_config: Mapping[str, Any]) -> TensorNames:
        """The same tensors, with a section of the config in its place."""
        names = TensorNames(hub_config, self._tensors)
        names.notes = self.notes
        return names

    def has(self, start: str) -> bool:
        """Whether there is a tensor whose name begins with `start`."""
        return any(name.startswith(start) for name in self._tensors)

    def count(self, start: str) -> int:
        """How many different words follow `start` in the names: `blocks.` -> number of blocks."""
        suffixes = (name.removeprefix(start) for name in self._tensors if name.startswith(start))
        return len({name.partition(".")[0] for name in suffixes})

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor.

        Raises:
            InputError: There is no such tensor.
        """
        if name not in self._tensors:
            raise InputError("the weights", got=f"no {name}", expected="all tensors of the model")
        return tuple(self._tensors[name].shape)

    def is_zero(self, name: str, row: int) -> bool:
        """Whether a row of a matrix is there and all zero."""
        rows = self._tensors.get(name, ())
        return row < len(rows) and not bool(rows[row].any())

    def tied(self, copy: str, original: str, *, default: bool) -> bool:
        """Whether two matrices are tied.

        If both are stored, their values decide; otherwise the config.

        Args:
            copy: Name of the matrix that may be a copy.
            original: Name of the other matrix.
            default: The default if the config does not say.
        """
        if copy in self._tensors and original in self._tensors:
            return torch.equal(self._tensors[copy], self._tensors[original])
        return bool(self._hub_config.get("tie_word_embeddings", default))


@dataclass(frozen=True)
class HubFormat:
    """One kind of Hugging Face model; it corresponds to certain configs of one of our families."""

    name: str
    """Their `model_type`."""
    family: str
    """Our family."""
    prefix: str
    """Prefix of the body's tensor names in a model with a head; a model without a head lacks it."""
    read: Callable[[dict[str, Any], TensorNames], Any]
    """Their config and tensors -> our config."""
    write: Callable[..., dict[str, Any]]
    """Our config and the sizes of vocabularies -> their config."""
    names: Callable[[Any], Table]
    """Our config -> the table that converts tensor names."""
    needs: tuple[Need, ...]
    """What it requires of a config of the family; a config that meets all can be written."""
    heads: tuple[str, ...] = ("lm_head.",)
    """Prefixes of the heads' tensor names."""
    any_size: bool = False
    """Whether their image processor decides the size of images, not their config."""
    has_model_type: bool = True
    """Whether the config says `model_type`; timm's does not."""
    recognised: Callable[[dict[str, Any], TensorNames], bool] = lambda _hub_config, _names: True
    """Whether a model without `model_type` is of this kind, where others have the same names."""
    halves: bool = False
    """Whether its sinusoidal positions have all sines first and all cosines after them."""
    writer: str = ""
    """The section of their config with the side that writes texts; empty: the config itself."""

    def text_config(self, hub_config: Mapping[str, Any]) -> dict[str, Any]:
        """Their config of the side that writes texts: its sizes, tokenizer, ids and decoding.

        What the whole config says, such as ids, overrules its section.
        """
        if not self.writer:
            return dict(hub_config)
        own_keys = "model_type", "architectures", "tie_word_embeddings"
        whole = {
            key: value for key, value in hub_config.items()
            if value is not None and key not in own_keys and not isinstance(value, dict)
        }  # fmt: skip
        return {**hub_config[self.writer], **whole}

    def obstacles(self, config: Any) -> list[Need]:
        """What it requires, and a config of the family does not meet."""
        return [need for need in self.needs if not need.is_met(config)]

    def standard_names(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Renames tensors to the names that transformers gives them now, in a model with a head."""
        wrapped = all(name.startswith(DATA_PARALLEL_PREFIX) for name in tensors)
        current_tensors = {
            _current_name(name.removeprefix(DATA_PARALLEL_PREFIX) if wrapped else name): tensor
            for name, tensor in tensors.items()
        }
        if any(name.startswith(self.prefix) for name in current_tensors):
            return current_tensors
        return {
            name if name.startswith(self.heads) else self.prefix + name: tensor
            for name, tensor in current_tensors.items()
        }


def _current_name(name: str) -> str:
    """Today's name of a tensor; old BERTs, converted from TensorFlow, have gamma and beta."""
    for old, new in (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")):
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def require(hub_config: Mapping[str, Any], **supported: object) -> None:
    """Refuses a config in which a key has another value than the only one that Regard supports."""
    for key, value in supported.items():
        if hub_config.get(key, value) != value:
            raise InputError(f"config.json: {key}", got=hub_config[key], expected=value)


def hub_activation(hub_config: Mapping[str, Any], key: str, default: str) -> str:
    """Their name of the activation, with synonyms replaced; `default` is the default."""
    name = str(hub_config.get(key) or default)
    return _ACTIVATION_SYNONYMS.get(name, name)


def activation_of(hub_name: str) -> Any:
    """Our name of an activation; the prefix `gated_` is kept."""
    gate, name = ("gated_", hub_name[6:]) if hub_name.startswith("gated_") else ("", hub_name)
    if name not in ACTIVATIONS:
        raise InputError(
            "config.json: the activation", got=name, expected=", ".join(sorted(ACTIVATIONS))
        )
    return gate + ACTIVATIONS[name]


def activation_to(our_name: str) -> str:
    """Their name of an activation."""
    return next(hub_name for hub_name, name in ACTIVATIONS.items() if name == our_name)


def architecture_in(hub_config: Mapping[str, Any]) -> str:
    """The first of their `architectures`, such as `BertForMaskedLM`; empty if there is none."""
    stated = hub_config.get("architectures")
    first = stated[0] if isinstance(stated, list) and stated else stated
    return first if isinstance(first, str) else ""


def labels_in(hub_config: dict[str, Any], names: TensorNames, matrix: str) -> tuple[str, ...]:
    """The names of the classes or tags in their config, in the order of their numbers.

    There are as many as the classifier has rows, whatever the config says; older configs leave them
    out. Labels without a name are called as transformers calls them.

    Args:
        hub_config: The contents of `config.json`.
        names: The tensors; a contradiction is noted there.
        matrix: The name of the classifier's matrix.
    """
    rows = names.shape(matrix)[0]
    labels = hub_config.get("id2label") or {}
    if len(labels) == rows:
        return tuple(str(labels[key]) for key in sorted(labels, key=int))
    stated = len(labels) or hub_config.get("num_labels", 2)  # two is the default of transformers
    if stated != rows:
        default_names = f"LABEL_0 to LABEL_{rows - 1}" if rows > 1 else "LABEL_0"
        names.notes.append(f"{rows} labels, as {matrix} has rows, not {stated}: {default_names}")
    return tuple(f"LABEL_{number}" for number in range(rows))


def label_maps(labels: Sequence[str]) -> dict[str, Any]:
    """The entries of their config for the names of classes or tags; none for a model without."""
    if not labels:
        return {}
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }
