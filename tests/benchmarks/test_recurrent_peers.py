"""The step-by-step loop computes, learns and writes the same as the recurrent translator."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.measure.ours import Decode, Train
from benchmarks.measure.work import SAME, Work
from benchmarks.peers import loop, step_by_step
from benchmarks.peers.work import flat
from regard.inputs.arrays import Ragged
from regard.models import build
from regard.models.families.seq2seq import Seq2SeqConfig

PAIRS = [([4, 5, 6], [7, 8]), ([9, 4], [5, 6, 7, 8]), ([4, 5, 6, 7, 8], [9])]
WORK = Work(
    Seq2SeqConfig(dim=16, dropout=0.0).model_dump(), 40, 40, {SAME: [PAIRS], "decode": [PAIRS]}, 64
)


def test_the_loop_computes_the_same_logits() -> None:
    torch.manual_seed(1)
    ours = build(WORK.config, 40, 40).eval()
    theirs = step_by_step.Translator({**vars(WORK), "model": flat(WORK.model)}).eval()
    step_by_step.copy_weights(ours, theirs)
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())
    batch = loop.padded(PAIRS, vars(WORK))
    source = Ragged.of([source for source, _ in PAIRS])
    target = Ragged.of([[WORK.begin, *target] for _, target in PAIRS])
    expected = ours(source, target)  # (tokens, vocab)
    torch.testing.assert_close(theirs(batch)[batch.target_out != 0], expected)


def test_a_step_of_training_has_the_same_gradients(tmp_path: Path) -> None:
    path = WORK.save(tmp_path / "work.json")
    ours, theirs = Train(path), step_by_step.Train(path)
    ours.prepare(1)
    theirs.prepare(1)
    model, plain = ours.trainer.job.model, theirs.loop.model
    step_by_step.copy_weights(model, plain)
    [batch] = ours.batches[SAME]
    (ours.trainer.job.task.loss(model, batch) / batch.targets.ids.numel()).backward()
    theirs.loop.loss(theirs.loop.batches[SAME][0]).backward()
    attention = model.decoder.blocks[0].cross_attention
    for weight, other in (
        (model.head.weight, plain.embed.weight),
        (attention.query.weight, plain.query.weight),
        (model.decoder.blocks[0].recurrent.cells.weight_hh_l0, plain.cell.weight_hh),
        (model.encoder.blocks[0].recurrent.cells.weight_ih_l0, plain.encoder.weight_ih_l0),
    ):
        torch.testing.assert_close(weight.grad, other.grad, atol=1e-6, rtol=1e-4)


def test_greedy_decoding_writes_the_same(tmp_path: Path) -> None:
    path = WORK.save(tmp_path / "work.json")
    ours, theirs = Decode(path, beam=1), step_by_step.Decode(path, 30)
    ours.prepare(1)
    theirs.prepare(1)
    for count in (1, 3):
        for mine, other in zip(ours.hypotheses(count), theirs.hypotheses(count), strict=True):
            assert mine[0] == other[0]
            assert mine[1] == pytest.approx(other[1], abs=1e-3)
