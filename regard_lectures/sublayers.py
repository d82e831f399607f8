"""The rest of a block around one attention layer: residual connections, norms and feed-forward.

    post-norm (the paper):   result = norm(stream + sublayer(stream))
    pre-norm (in practice):  result = stream + sublayer(norm(stream))

While the model runs, hooks keep what enters and leaves each module of the block; `sublayers_of`
makes of it the numbers of the attention's sub-layer and of the feed-forward that follows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

Array = npt.NDArray[np.float32]
ACTIVATIONS = {"relu": "ReLU", "gelu": "GELU", "gelu_tanh": "GELU", "silu": "SiLU"}
"""Names of activation functions as the papers write them."""


@dataclass(frozen=True, eq=False)
class Sublayer:
    """A sub-layer with its residual connection and its norm, for n tokens.

    Attributes:
        norm_place: `post`, `pre` or `inside`.
        stream: (n, dim) What the residual connection carries past the sub-layer.
        given: (n, dim) What enters the sub-layer: the stream, or its norm.
        change: (n, dim) What the sub-layer adds.
        added: (n, dim) stream + change.
        result: (n, dim) What goes on: the sum, or its norm.
        matrices: Weight and bias of the norm, W_1, W_2 and biases of a feed-forward, by name.
        hidden: (n, hidden) The hidden layer of a feed-forward.
        activation: The name of its activation function.
    """

    norm_place: str
    stream: Array
    given: Array
    change: Array
    added: Array
    result: Array
    matrices: Mapping[str, Array]
    hidden: Array | None = None
    activation: str = ""

    def to_arrays(self, prefix: str = "") -> dict[str, Array]:
        """The arrays by the names that they have in the JSON; not the matrices."""
        arrays = {
            "stream": self.stream, "given": self.given, "hidden": self.hidden,
            "change": self.change, "added": self.added, "result": self.result,
        }  # fmt: skip
        return {f"{prefix}{name}": array for name, array in arrays.items() if array is not None}


Passed = dict[str, tuple[Tensor, Tensor]]
"""What entered and what left each module of a block, by the module's name."""


@contextmanager
def passed_through(block: Any) -> Iterator[Passed]:
    """While this context is open, keeps what enters and leaves the modules of a block."""
    passed: Passed = {}

    def keep(name: str) -> Any:
        def hook(_: nn.Module, given: tuple[Any, ...], out: Tensor) -> None:
            passed[name] = given[0], out

        return hook

    children = [] if block is None else block.named_children()
    hooks = [module.register_forward_hook(keep(name)) for name, module in children]
    try:
        yield passed
    finally:
        for hook in hooks:
            hook.remove()


def block_of(model: Any, site: str) -> Any:
    """The block that holds the attention layer `site`; None if it is in none (recurrent models)."""
    name = site.rpartition(".")[0]
    blocks = (m for m in model.modules() if getattr(m, "name", "") == name and hasattr(m, "order"))
    return next(blocks, None)


def sublayers_of(block: Any, site: str, passed: Passed) -> tuple[Sublayer | None, Sublayer | None]:
    """The sub-layer of an attention layer, and the feed-forward that follows it in its block."""
    if block is None:
        return None, None
    names = [step.part for step in block.order]
    index = next(i for i, name in enumerate(names) if getattr(block, name).name == site)
    feeds = [i for i in range(index + 1, len(names)) if hasattr(getattr(block, names[i]), "gated")]
    attention_layer = _sublayer(block, block.order[index], passed)
    return attention_layer, _sublayer(block, block.order[feeds[0]], passed) if feeds else None


def _sublayer(block: Any, step: Any, passed: Passed) -> Sublayer:
    """The numbers of one sub-layer, computed as `Block.forward` does."""
    layer, norm = getattr(block, step.part), getattr(block, step.norm)
    given, out = passed[step.part]
    stream = passed[step.norm][0] if step.norm_place == "pre" else given
    with torch.inference_mode():
        change = norm(out) if step.norm_place == "inside" else out
        change = change * step.scale if step.gain is None else change * getattr(block, step.gain)
        added = stream + change if block.residual else change
        result = norm(added) if step.norm_place == "post" else added
        tensors = {"norm_weight": getattr(norm, "weight", None)}
        tensors["norm_bias"] = getattr(norm, "bias", None)
        hidden = None
        if hasattr(layer, "gated"):
            hidden = layer.into(given)
            first, *gates = hidden.chunk(2 if layer.gated else 1, dim=-1)
            hidden = layer.function(first) * gates[0] if gates else layer.function(first)
            tensors |= {"w_1": layer.into.weight.T, "w_2": layer.out.weight.T}
            tensors |= {"b_1": layer.into.bias, "b_2": layer.out.bias}
    matrices = {name: array_of(tensor) for name, tensor in tensors.items() if tensor is not None}
    name = getattr(getattr(layer, "function", None), "__name__", "")
    return Sublayer(
        norm_place=step.norm_place,
        stream=array_of(stream),
        given=array_of(given),
        change=array_of(change),
        added=array_of(added),
        result=array_of(result),
        matrices=matrices,
        hidden=None if hidden is None else array_of(hidden),
        activation=ACTIVATIONS.get(name, name),
    )


def array_of(values: Tensor) -> Array:
    """A tensor as an array of its own."""
    array: Array = values.detach().float().cpu().numpy().copy()
    return array
