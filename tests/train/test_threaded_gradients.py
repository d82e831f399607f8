"""A micro-batch cut into parts must train as the whole one does."""

from __future__ import annotations

import pytest
import torch

from regard.data.text.encoded import make_batch
from regard.data.text.pairs import Pair
from regard.inputs.text import TokensConfig, learn
from regard.kernels.dropout import drawing_from, drop
from regard.models import TransformerConfig, build
from regard.tasks.translate import Translate
from regard.train.step import ThreadedGradients, parts_for


def copier():
    return Translate(learn([Pair("a", "b")], TokensConfig(kind="words")), smoothing=0.1)


@pytest.fixture
def task():
    return copier()


def model_of(dropout):
    torch.manual_seed(0)
    sizes = {"dim": 16, "heads": 2, "hidden": 32, "layers": 1}
    return build(TransformerConfig(**sizes, dropout=dropout), 20, 20).train()


def batch_of(*lengths):
    sequences = [[4 + (i * n) % 16 for i in range(n)] for n in lengths]
    return make_batch(sequences, sequences[::-1], range(len(lengths)), begin=1, end=2)


def gradients(task, model, strategy, batches, seed="0 1"):
    model.zero_grad()
    loss_and_targets = strategy.gradients(task, model, batches, seed)
    return loss_and_targets, [p.grad.clone() for p in model.parameters()]


def test_a_split_batch_has_every_sentence_once():
    batch = batch_of(3, 1, 4, 2, 5)
    parts = batch.split(2)
    assert [part.index for part in parts] == [(0, 2, 4), (1, 3)]
    for part in parts:
        for name in ("source", "decoder_input"):
            whole = getattr(batch, name).split()
            assert getattr(part, name).split() == [whole[i] for i in part.index]
        outs = torch.split(part.targets.ids, list(part.decoder_input.lengths))
        reads = part.decoder_input.split()
        assert [out.tolist() for out in outs] == [[*read[1:], 2] for read in reads]
    assert len(batch.split(9)) == 5


@pytest.mark.parametrize("parts", [2, 3, 8])
def test_gradients_of_parts_are_those_of_the_whole(task, parts):
    model, batches = model_of(0.0), [batch_of(3, 1, 4, 2, 5), batch_of(2, 2)]
    (loss, targets), whole = gradients(task, model, ThreadedGradients(1, 1), batches)
    (loss_of_parts, same), of_parts = gradients(
        task, model, ThreadedGradients(parts, parts), batches
    )
    assert (loss_of_parts, same) == (pytest.approx(loss), targets)
    torch.testing.assert_close(of_parts, whole)


def test_gradients_of_parts_are_the_same_bits_each_time_with_dropout_on(task):
    model, batches, shards = model_of(0.5), [batch_of(9, 8, 7, 6, 5, 4)], ThreadedGradients(3, 3)
    _, first = gradients(task, model, shards, batches)
    for _ in range(5):
        torch.rand(1)  # what others draw does not matter
        _, again = gradients(task, model, shards, batches)
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    _, other = gradients(task, model, shards, batches, seed="0 2")
    assert not torch.equal(first[0], other[0])


def test_each_part_drops_others(task):
    sentence = [5, 6, 7, 8] * 8
    batch = make_batch([sentence] * 2, [sentence] * 2, range(2), begin=1, end=2)
    model, seen = model_of(0.5), []
    task.loss = lambda model, part: seen.append(loss(model, part)) or seen[-1]
    loss = Translate.loss.__get__(task)
    gradients(task, model, ThreadedGradients(2, 2), [batch])
    assert seen[0].item() != seen[1].item()


def test_the_calling_thread_keeps_its_threads(task):
    before = torch.get_num_threads()
    gradients(task, model_of(0.0), ThreadedGradients(before, 2), [batch_of(3, 3)])
    assert torch.get_num_threads() == before


def test_each_part_computes_with_its_share_of_the_threads(task):
    seen = []

    def loss(model, part):
        torch.ones(1000, 1000) @ torch.ones(1000, 1000)  # an operation of many threads
        seen.append(torch.get_num_threads())
        return Translate.loss(task, model, part)

    task.loss = loss
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        gradients(task, model_of(0.0), ThreadedGradients(4, 2), [batch_of(3, 3)])
    finally:
        torch.set_num_threads(before)
    assert seen == [2, 2]


def test_what_goes_wrong_in_a_part_is_raised(task):
    def broken(*_):
        raise ValueError("in a part")

    task.loss = broken
    with pytest.raises(ValueError, match="in a part"):
        ThreadedGradients(2, 2).gradients(task, model_of(0.0), [batch_of(3, 3)], "")


def test_dropout_draws_from_torchs_own_dice_unless_told():
    torch.manual_seed(3)
    plain = drop(torch.ones(100), 0.5)
    with drawing_from(torch.Generator().manual_seed(3)):
        drawn = drop(torch.ones(100), 0.5)
    torch.manual_seed(3)
    assert torch.equal(plain, drawn)
    assert torch.equal(drop(torch.ones(100), 0.5), plain)


@pytest.mark.parametrize(
    ("threads", "tokens", "dim", "weights", "parts"),
    [
        (1, 4096, 512, 10**7, 1),
        (2, 2048, 512, 10**7, 2),
        (2, 2048, 128, 10**7, 2),
        (2, 2048, 127, 10**7, 1),
        (64, 10**6, 512, 10**7, 8),
        (2, 2048, 768, 10**8, 1),
    ],
)
def test_parts_are_neither_too_small_nor_too_many(threads, tokens, dim, weights, parts):
    assert parts_for(threads, tokens, dim, weights) == parts


def test_a_run_of_before_is_cut_as_it_was():
    assert [parts_for(2, 2048, dim, 10**7, before=True) for dim in (128, 255, 256)] == [1, 1, 2]
