"""Context managers for inference: eval mode without gradients, and mixed precision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn

from regard.kernels.mixed import products_in
from regard.kernels.small_batches import LOADER


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Puts the model into eval mode and inference mode, in its precision; restores its mode."""
    was_training = model.training
    LOADER.prepare(model)
    model.eval()
    try:
        with torch.inference_mode(), precision_of(model):
            yield
    finally:
        model.train(was_training)


def precision_of(model: nn.Module) -> AbstractContextManager[Any]:
    """Mixed precision in the dtype `model.mixed`; a null context if the model has none.

    On a CPU only products of training are in that dtype, elsewhere PyTorch's autocast decides.
    """
    kind: torch.dtype | None = getattr(model, "mixed", None)
    if kind is None:
        return nullcontext()
    device = next(model.parameters()).device.type
    return products_in(kind) if device == "cpu" else torch.autocast(device, kind)
