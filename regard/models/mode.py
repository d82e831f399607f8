"""How a model computes: without dropout and gradients while it is used; in mixed precision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Inside, the model is in eval mode and nothing is kept for a backward pass."""
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode(), precision_of(model):
            yield
    finally:
        model.train(was_training)


def precision_of(model: nn.Module) -> AbstractContextManager[Any]:
    """Inside, matrix products are computed in what the model says (`mixed`), all else in fp32."""
    kind: torch.dtype | None = getattr(model, "mixed", None)
    if kind is None:
        return nullcontext()
    return torch.autocast(next(model.parameters()).device.type, kind)
