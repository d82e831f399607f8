"""Models whose weights are shuffled: what they compute means nothing, and figures must say so."""

from __future__ import annotations

from pathlib import Path

import torch

import regard


def shuffle(name: str, folder: Path) -> str:
    """Writes a shipped model with the numbers of each of its matrices in another order.

    Args:
        name: A shipped model.
        folder: The folder to write; if it exists, it is used as it is.
    """
    if not folder.exists():
        pipeline = regard.load(name)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for weight in pipeline.model.parameters():
                if weight.dim() > 1:
                    order = torch.randperm(weight.numel(), generator=generator)
                    weight.copy_(weight.flatten()[order].view_as(weight))
        pipeline.save(folder)
    return str(folder)
