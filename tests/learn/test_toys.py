"""The family learns something small in seconds."""

from __future__ import annotations

import pytest
import torch

from regard.data.toy import toy_splits
from regard.runs.train import train


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["copy", "reverse", "sort"])
def test_a_toy_is_learned(kind: str) -> None:
    data = {"pairs": 3000, "held_out": 100, "symbols": 8, "longest": 6}
    pipeline = train(
        f"tiny/{kind}",
        quiet=True,
        threads=1,
        data=data,
        model={"dim": 64, "heads": 4, "hidden": 128, "encoder_layers": 1, "decoder_layers": 2},
        train={"steps": 200, "batch_tokens": 800, "learning_rate": 4e-3, "warmup": 30},
    )
    torch.set_num_threads(1)
    pairs = toy_splits(kind, seed=0, **data).tests["test"]
    assert pipeline.evaluate(pairs, beam=1).scores.exact >= 90
