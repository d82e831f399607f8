"""An exponential moving average of a model's weights (Polyak and Juditsky 1992).

    s_t = d s_{t-1} + (1 - d) w_t,    d = min(decay, (1 + t) / (10 + t))

The smaller d of the first steps forgets the initial weights soon, so that short runs work, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class MovingAverage:
    """The average of all weights and buffers of a model, updated after each step.

    Args:
        model: The model whose weights are averaged.
        decay: The largest weight d of the average so far.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = _copy_tensors(model.state_dict())

    def restore(self, weights: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> None:
        """Continues with the average of a checkpoint, on the devices of `like`."""
        moved = {name: tensor.to(like[name].device) for name, tensor in weights.items()}
        self.weights = _copy_tensors(moved)

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Takes the weights after a step into the average; steps are counted from 1."""
        share = 1 - min(self.decay, (1 + step) / (10 + step))
        averages, present, updated = [], [], set[int]()
        for name, tensor in model.state_dict().items():
            average = self.weights[name]
            if id(average) in updated:  # a tied weight has two names
                continue
            updated.add(id(average))
            if tensor.is_floating_point():
                averages.append(average)
                present.append(tensor)
            else:  # a count, such as that of a batch norm
                average.copy_(tensor)
        torch._foreach_lerp_(averages, present, share)

    @contextmanager
    def used_in(self, model: nn.Module) -> Iterator[None]:
        """Puts the average into the model for the body of a `with`."""
        present = _copy_tensors(model.state_dict())
        model.load_state_dict(self.weights)
        try:
            yield
        finally:
            model.load_state_dict(present)


def _copy_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies of tensors; one tensor under two names is copied once."""
    copied: dict[int, Tensor] = {}
    copies = {}
    for name, tensor in tensors.items():
        address = tensor.data_ptr() if tensor.numel() else id(tensor)
        if address not in copied or copied[address].shape != tensor.shape:
            copied[address] = tensor.detach().clone()
        copies[name] = copied[address]
    return copies
