"""The figures of part 3: look-up beside attention, costs of scores and heads, a head's question."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import regard
from regard.atlas import show
from regard.atlas.figures.lookup import look_up, nearest
from regard.data.grammar import corpus as grammar
from regard.errors import InputError
from regard.layers import DotScore
from regard.models.mode import evaluating
from tests.legible import problems


def test_a_look_up_has_one_key_and_none_where_nothing_may_be_looked_at():
    weights = torch.tensor([[[[0.2, 0.5, 0.3], [0.0, 0.0, 0.0]], [[0.9, 0.1, 0.0], [0, 0.4, 0.6]]]])
    assert nearest(weights).tolist() == [[[[0, 1, 0], [0, 0, 0]], [[1, 0, 0], [0, 0, 1]]]]
    one = look_up("decoder.0.self", 1).change(weights)
    assert torch.equal(one[:, 0], weights[:, 0])
    assert torch.equal(one[:, 1], nearest(weights[:, 1]))


@pytest.mark.slow
def test_the_look_up_is_an_argmax_in_place_of_the_softmax(monkeypatch):
    drawing = show("lookup", model="tiny/translate", pairs=6, head="encoder.0.self.2")
    numbers = drawing.numbers
    soft, hard = (np.array(numbers[f"weights_{name}"]) for name in ("softmax", "nearest"))
    assert np.array_equal(hard.argmax(1), soft.argmax(1))
    assert np.array_equal(hard.sum(1), np.ones(len(hard)))
    assert set(np.unique(hard)) == {0, 1}
    pipeline = regard.load("tiny/translate", device="cpu")
    pairs = grammar.splits(pairs=2000, held_out=6, seed=0).tests["combinations"]
    batch = pipeline.task.encode(pairs).batch(range(6))

    def loss() -> float:
        with evaluating(pipeline.model):
            logits = pipeline.model(*batch.sides)
        return float(F.cross_entropy(logits, batch.wanted.ids))

    def attend(_self, q, k, v, mask, *_):
        """For each query, the value of the allowed key with the largest product."""
        allowed = mask.dense(q.shape[2], k.shape[2])
        scores = q @ k.transpose(-2, -1)
        scores = scores if allowed is None else scores.masked_fill(~allowed, float("-inf"))
        found = scores.argmax(-1)[..., None].expand(*q.shape)
        return v.gather(2, found)

    assert numbers["sets"] == ["softmax", "one head", "encoder", "decoder", "cross", "all heads"]
    assert numbers["loss"][0] == pytest.approx(loss(), abs=1e-4)
    monkeypatch.setattr(DotScore, "attend", attend)
    assert numbers["loss"][-1] == pytest.approx(loss(), abs=1e-4)
    texts = [pair.source for pair in pairs]
    right = [a == b.target for a, b in zip(pipeline.translate(texts, beam=1), pairs, strict=True)]
    assert numbers["exact"][-1] == pytest.approx(100 * np.mean(right))


@pytest.mark.slow
def test_a_look_up_takes_own_sentences_and_pairs(tmp_path):
    (tmp_path / "pairs.tsv").write_text(
        "The dog sleeps.\tDer Hund schläft.\nI sleep.\tIch schlafe.\n"
    )
    drawing = show(
        "lookup", text="The dog sleeps.", model="tiny/translate", data=str(tmp_path / "pairs.tsv")
    )
    assert drawing.numbers["pairs"] == 2
    assert drawing.numbers["translations"][0] == "Der Hund schläft."
    assert problems(drawing.figure) == []
    with pytest.raises(InputError, match="no such site"):
        show("lookup", model="tiny/translate", head="encoder.9.self.0", pairs=2)
