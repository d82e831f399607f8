from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batch import Batch, Cursor, epochs
from regard.data.order import evaluation_batches, training_batches
from regard.data.text.encoded import EncodedPairs, make_batch
from regard.errors import InputError
from regard.inputs.arrays import Dense, Paired, Ragged

lengths_strategy = st.lists(st.integers(0, 40), max_size=200)
sequences_strategy = st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=6), max_size=8)


@given(sequences_strategy)
@settings(deadline=None)
def test_ragged_splits_into_what_it_was_made_of(sequences):
    ragged = Ragged.of(sequences)
    assert ragged.ids.dtype == torch.int64
    assert ragged.ids.shape == (sum(map(len, sequences)),)
    assert ragged.lengths == tuple(map(len, sequences))
    assert ragged.split() == sequences
    assert ragged.to("cpu").split() == sequences


def test_tokens_have_types_that_go_along():
    ragged = Ragged.of([[5, 6, 7], [8], [9, 4]])
    assert ragged.types is None
    assert ragged.to("cpu").types is None
    assert ragged.first_tokens.tolist() == [0, 3, 4]
    typed = ragged.typed(torch.tensor([0, 1, 1, 0, 0, 1]))
    assert typed.split() == ragged.split()
    assert typed.to("cpu").types.tolist() == [0, 1, 1, 0, 0, 1]


def test_targets_are_the_decoder_input_one_step_ahead():
    batch = make_batch([[9], [5, 6]], [[7, 8], []], index=[40, 2], begin=1, end=2)
    assert batch.source.split() == [[9], [5, 6]]
    assert batch.decoder_input.split() == [[1, 7, 8], [1]]
    assert batch.targets.ids.tolist() == [7, 8, 2, 2]
    assert batch.targets.ids.dtype == batch.source.ids.dtype == torch.int64
    assert batch.index == (40, 2)
    assert batch.to("meta").targets.ids.device.type == "meta"


@given(st.data())
@settings(deadline=None)
def test_a_gathered_batch_equals_one_built_from_lists(data):
    count = data.draw(st.integers(1, 6))
    ids = st.lists(st.integers(0, 99), max_size=5)
    source = data.draw(st.lists(ids, min_size=count, max_size=count))
    target = data.draw(st.lists(ids, min_size=count, max_size=count))
    index = data.draw(st.lists(st.integers(0, count - 1), max_size=8))
    pairs = EncodedPairs(source, target, begin=1, end=2)
    batch = pairs.batch(index)
    assert len(pairs) == count
    assert batch.source.split() == [source[i] for i in index]
    assert batch.decoder_input.split() == [[1, *target[i]] for i in index]
    assert batch.targets.ids.tolist() == [t for i in index for t in [*target[i], 2]]
    assert batch.index == tuple(index)
    assert pairs.lengths.tolist() == [len(source[i]) + len(target[i]) + 1 for i in range(count)]
    assert batch.source.ids.numel() + batch.targets.ids.numel() == sum(
        pairs.lengths[i] for i in index
    )


def test_unequal_numbers_of_sources_and_targets_are_refused():
    with pytest.raises(ValueError, match="2 sources but 1 targets"):
        EncodedPairs([[1], [2]], [[1]], begin=1, end=2)


@given(lengths_strategy, st.integers(1, 100), st.integers(-5, 2**40), st.integers(0, 5))
@settings(deadline=None)
def test_every_example_is_in_one_batch_within_the_budget(lengths, budget, seed, epoch):
    batches = training_batches(lengths, budget, seed, epoch)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or sum(lengths[i] for i in batch) <= budget
    assert (
        training_batches(np.array(lengths, dtype=np.int64), budget, seed, epoch) == batches
    )  # pure


def test_each_epoch_and_seed_has_its_own_order():
    lengths = [3 + i % 7 for i in range(300)]
    orders = [training_batches(lengths, 50, seed, epoch) for seed in (0, 1) for epoch in (0, 1)]
    assert len({str(batches) for batches in orders}) == 4
    # neighbours change too, not only the order of the batches
    assert len({str(sorted(map(sorted, batches))) for batches in orders}) == 4


def test_the_order_is_the_same_in_every_process():
    assert training_batches([4, 9, 2, 7, 7, 1], 11, seed=3, epoch=1) == [[5, 2, 0], [4], [3], [1]]


def test_batches_hold_like_lengths_and_are_well_filled():
    random = np.random.default_rng(0)
    lengths = random.integers(5, 100, 20_000)
    batches = training_batches(lengths, 2000, seed=0, epoch=0)
    rows = sum(len(batch) * lengths[batch].max() for batch in batches)
    assert rows < 1.05 * lengths.sum()
    assert len(batches) < 1.05 * lengths.sum() / 2000
    # short and long batches come mixed
    means = [lengths[batch].mean() for batch in batches]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.2


def test_an_example_over_the_budget_stands_alone():
    batches = training_batches([3, 500, 4], budget=10, seed=0, epoch=0)
    assert [1] in batches
    assert sorted(map(sorted, batches)) == [[0, 2], [1]]


def test_nothing_in_gives_nothing_out():
    assert training_batches([], 10, 0, 0) == evaluation_batches([], 10) == []


@given(lengths_strategy, st.integers(1, 100))
@settings(deadline=None)
def test_evaluation_goes_from_short_to_long_once(lengths, budget):
    batches = evaluation_batches(lengths, budget)
    flat = [i for batch in batches for i in batch]
    assert flat == sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
    for batch in batches:
        assert len(batch) == 1 or sum(lengths[i] for i in batch) <= budget


def test_a_million_examples_are_ordered_in_seconds():
    lengths = np.random.default_rng(0).integers(5, 120, 1_000_000)
    start = time.perf_counter()
    batches = training_batches(lengths, 4096, seed=0, epoch=0)
    assert time.perf_counter() - start < 3
    assert sum(map(len, batches)) == 1_000_000


def test_a_cursor_survives_json():
    cursor = Cursor(epoch=3, batch=17)
    assert Cursor(**json.loads(json.dumps(asdict(cursor)))) == cursor
    assert Cursor() == Cursor(0, 0)


@dataclass(frozen=True, eq=False)
class Kept(Batch):
    """A batch with a field of a task's own."""

    cells: torch.Tensor | None = None


@given(st.integers(1, 7), st.integers(1, 9))
@settings(deadline=None, max_examples=30)
def test_a_batch_of_any_input_is_split_round_robin(count, parts):
    views = Paired(Dense(torch.rand(count, 1, 2, 2)), Dense(torch.rand(count, 3)))
    wanted = Ragged.of([[number] * (number + 1) for number in range(count)])
    labels, cells = torch.arange(count), torch.arange(2 * count).view(count, 2)
    batch = Kept(views, wanted, tuple(range(10, 10 + count)), None, labels, cells)
    batches = batch.split(parts)
    assert len(batches) == min(parts, count)
    for number, part in enumerate(batches):
        rows = list(range(number, count, parts))
        assert part.index == tuple(10 + row for row in rows)
        assert torch.equal(part.source.first.values, views.first.values[rows])
        assert torch.equal(part.source.second.values, views.second.values[rows])
        assert part.targets.split() == [wanted.split()[row] for row in rows]
        assert (part.decoder_input, part.labels.tolist()) == (None, rows)
        assert torch.equal(part.cells, cells[rows])
    assert batch.to("meta").source.second.device.type == "meta"


def test_known_targets_are_at_their_positions():
    ids, wanted = Ragged.of([[5, 6, 7], [8]]), Ragged.of([[-1, 0, -1], [9]])
    batch = Batch(ids, wanted, (0, 1))
    assert (batch.target_positions.tolist(), batch.known_targets.tolist()) == ([1, 3], [0, 9])
    (part,) = batch.take([1]).split(1)
    assert (part.target_positions.tolist(), part.known_targets.tolist()) == ([0], [9])
    with pytest.raises(ValueError, match="without a target"):
        _ = batch.sides


def test_epochs_go_on_from_any_place():
    def run(start, count):
        return list(
            islice(epochs(lambda epoch: range(epoch + 1), lambda i, e: (e, i), start), count)
        )

    whole = run(Cursor(), 10)
    assert [item for item, _ in whole] == [(e, i) for e in range(4) for i in range(e + 1)]
    for done, (_, after) in enumerate(whole[:-1]):
        assert run(after, 9 - done) == whole[done + 1 :]
    assert run(Cursor(1, 7), 1) == run(Cursor(2, 0), 1)  # past the end of an epoch


def test_epochs_of_nothing_are_refused():
    with pytest.raises(InputError, match="got no examples"):
        next(epochs(lambda _: [], lambda item, _: item, Cursor()))


@pytest.mark.parametrize("count", [1, 2, 6, 7, 13])
def test_a_last_batch_of_too_few_joins_the_one_before_it(count):
    usual = training_batches([1] * count, 6, seed=1, epoch=2)
    joined = training_batches([1] * count, 6, seed=1, epoch=2, least=2)
    assert sorted(i for batch in joined for i in batch) == list(range(count))
    if count % 6 == 1 and count > 1:
        assert sorted(map(len, joined)) == [6] * (count // 6 - 1) + [7]
    else:
        assert joined == usual
