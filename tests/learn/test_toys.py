"""Every translator learns something small in seconds."""

from __future__ import annotations

import pytest
import torch

from regard.data.synthetic.toy import toy_splits
from regard.layers import Edit, Tap
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
        model={
            "dim": 64,
            "heads": 4,
            "hidden": 128,
            "encoder": {"layers": 1},
            "decoder": {"layers": 2},
        },
        train={"steps": 200, "batch_tokens": 800, "learning_rate": 4e-3, "warmup": 30},
    )
    torch.set_num_threads(1)
    pairs = toy_splits(kind, seed=0, **data).tests["test"]
    assert pipeline.evaluate(pairs, beam=1).scores.exact >= 90


RECURRENT = {
    "additive": ({"attention": "additive"}, 90),
    "none": ({"attention": "none"}, 50),
    "sutskever": ({"attention": "none", "context": "first", "encoder": "forward"}, 15),
    "hard": ({"hard_attention": True, "last_word": True}, 60),
    "sampled": ({"hard_attention": "sampled", "last_word": True}, 30),
    "location": ({"attention": "location", "encoder": "forward", "cell": "gru_before"}, 50),
}
"""Settings of a recurrent translator, and how many of 100 sequences it reverses at least."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", RECURRENT)
def test_a_recurrent_translator_learns_a_toy_by_its_alignment(kind: str) -> None:
    fields, right_at_least = RECURRENT[kind]
    data = {"pairs": 3000, "held_out": 100, "symbols": 8, "longest": 6}
    pipeline = train(
        "tiny/reverse",
        quiet=True,
        threads=1,
        data=data,
        model={"family": "seq2seq", "size": "tiny", "dim": 64, **fields},
        train={"steps": 250, "batch_tokens": 800, "learning_rate": 1e-2, "warmup": 30},
    )
    torch.set_num_threads(1)
    pairs = toy_splits("reverse", seed=0, **data).tests["test"]
    assert pipeline.evaluate(pairs, beam=1).scores.exact >= right_at_least
    if kind != "additive":
        return

    def even(weights: torch.Tensor) -> torch.Tensor:
        return (weights > 0) / (weights > 0).sum(-1, keepdim=True)

    task, config = pipeline.task, pipeline.decoding(beam=1)
    encoded = task.read(pipeline.model, [pair.source for pair in pairs])

    def right(tap: Tap | None) -> int:
        found = task.predict(pipeline.model, encoded, config, tap=tap)
        written = (best.text for best, *_ in found)
        return sum(text == pair.target for text, pair in zip(written, pairs, strict=True))

    assert right(Tap()) == right(None) >= 90
    assert right(Tap(edits=[Edit("decoder.0.cross.weights", even)])) < 30
