"""PyTorch's `backward`, plain and wrapped, finds the gradients that threads find."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.models import BertConfig, build
from regard.runtime.ranks import Ranks
from regard.train.config import TrainConfig
from regard.train.optim import optimizer
from regard.train.step import (
    Objective,
    PlainGradients,
    ThreadedGradients,
    choose_strategy,
    parameters_reached,
)
from tests.train.test_threaded_gradients import batch_of, gradients, model_of, task

__all__ = ["task"]
BATCHES = [batch_of(3, 1, 4, 2, 5), batch_of(2, 2)]


@pytest.fixture
def process():
    """A process group of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def whole(tensor):
    """The numbers of a tensor that may be a shard."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def learned(task, model, way, steps=4):
    """The weights after some steps of training."""
    update = None
    for step in range(steps):
        if update is not None:
            update.zero_grad()
        loss, targets = way.gradients(task, model, BATCHES, f"0 {step}")
        update = update or optimizer(model, TrainConfig(learning_rate=0.01))
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        update.step()
    return loss, targets, [whole(parameter.detach()) for parameter in model.parameters()]


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_backward_finds_what_threads_find(task, dropout):
    threads = gradients(task, model_of(dropout), ThreadedGradients(1, 1), BATCHES)
    plain = gradients(task, model_of(dropout), PlainGradients(), BATCHES)
    assert plain[0] == threads[0]
    torch.testing.assert_close(plain[1], threads[1], rtol=0, atol=1e-6)
    parted = gradients(task, model_of(dropout), ThreadedGradients(2, 2), BATCHES)
    again = gradients(task, model_of(dropout), PlainGradients(2), BATCHES)
    assert again[0] == (pytest.approx(parted[0][0]), parted[0][1])
    torch.testing.assert_close(again[1], parted[1], rtol=0, atol=1e-6)


@pytest.mark.usefixtures("process")
def test_one_process_learns_the_same_under_ddp(task):
    plain = learned(task, model_of(0.2), ThreadedGradients(1, 1))
    wrapped = learned(task, model_of(0.2), PlainGradients(wrap=DistributedDataParallel))
    assert wrapped[:2] == (pytest.approx(plain[0], abs=1e-5), plain[1])
    torch.testing.assert_close(wrapped[2], plain[2], rtol=0, atol=1e-5)


def sharded(objective):
    for stack in (objective.model.encoder, objective.model.decoder):
        for block in stack.blocks:
            fully_shard(block)
    return fully_shard(objective)


@pytest.mark.usefixtures("process")
def test_one_process_learns_the_same_under_fully_shard(task):
    before = [parameter.clone() for parameter in model_of(0.2).parameters()]
    plain = learned(task, model_of(0.2), ThreadedGradients(1, 1))
    wrapped = learned(task, model_of(0.2), PlainGradients(wrap=sharded))
    assert wrapped[0] == pytest.approx(plain[0], abs=1e-4)
    torch.testing.assert_close(wrapped[2], plain[2], rtol=0, atol=1e-5)
    assert any(not torch.equal(old, new) for old, new in zip(before, wrapped[2], strict=True))


def test_a_gradient_that_does_not_come_is_an_error(task):
    """A wrapper that trains a copy: nothing would be learned."""
    message = r"depends on source_embed\.weight, but it got no gradient"
    with pytest.raises(RuntimeError, match=message):
        PlainGradients(wrap=copy.deepcopy).gradients(task, model_of(0.0), BATCHES, "0 1")


def test_parameters_that_the_loss_does_not_reach_may_go_without(task):
    model = model_of(0.0)
    model.spare = nn.Parameter(torch.zeros(3))
    names = parameters_reached(Objective(task, model), BATCHES[0])
    assert names == {name for name, _ in model.named_parameters()} - {"spare"}
    PlainGradients().gradients(task, model, BATCHES, "0 1")
    assert model.spare.grad is None


class Coupled:
    """A loss of a whole batch: how far its vectors are from their mean."""

    whole = True

    def __init__(self):
        self.sizes = []

    def targets(self, batch):
        return len(batch.index)

    def split(self, *_):
        raise AssertionError("this batch cannot be cut")

    def loss(self, model, batch):
        self.sizes.append(len(batch.index))
        vectors = model.encode(batch.source).x
        return (vectors - vectors.mean(0)).square().sum()


def test_a_loss_that_couples_its_batch_is_never_cut():
    task, model = Coupled(), model_of(0.0)
    way = choose_strategy(task, model, threads=4, parts=4)
    assert isinstance(way, PlainGradients)
    way.gradients(task, model, BATCHES, "0 1")
    assert set(task.sizes) == {5, 2}
    with pytest.raises(InputError, match="2 processes: got a task whose loss couples"):
        choose_strategy(task, model, threads=1, parts=2, ranks=Ranks(0, 2))


def test_batch_norm_is_not_for_threads(task):
    encoder = {"block": ("convolution", "feed_forward"), "kernel": 3}
    sizes = {"dim": 8, "hidden": 8, "layers": 1, "masked": True}
    for kind, way in (("batch", PlainGradients), ("layer", ThreadedGradients)):
        model = build(BertConfig(**sizes, encoder=encoder, convolution_norm=kind), 11)
        assert isinstance(choose_strategy(task, model, threads=2, parts=2), way)


def test_looking_for_what_is_reached_leaves_statistics_and_random_numbers():
    block = ("convolution", "feed_forward")
    encoder = {"block": block, "kernel": 3, "convolution_norm": "batch"}
    sizes = {"dim": 8, "hidden": 8, "layers": 1, "masked": True, "dropout": 0.5}
    model = build(BertConfig(**sizes, encoder=encoder), 11).train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.get_rng_state()

    class Whole:
        def loss(self, model, batch):
            return model(batch).sum()

    assert parameters_reached(Objective(Whole(), model), Ragged.of([[1, 2, 3], [4]]))
    assert model.training
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(("world", "parts"), [(2, 2), (2, 4), (3, 3), (2, 3), (4, 8)])
def test_each_example_is_computed_by_one_process(task, world, parts):
    """And where the parts divide evenly, process r has the examples r, r + world, …."""
    batch = batch_of(*range(1, 8))
    seen = []
    for rank in range(world):
        own_parts = [
            *PlainGradients(parts, Ranks(rank, world))._parts_of_process(task, [batch], "0 1")
        ]
        index = [i for piece, _, share in own_parts for i in piece.index if share]
        if parts % world == 0:
            assert sorted(index) == list(range(rank, 7, world))
        seen += index
    assert sorted(seen) == list(range(7))


def test_a_process_without_an_example_meets_the_others_all_the_same(task):
    [(piece, _, share)] = PlainGradients(3, Ranks(2, 3))._parts_of_process(
        task, [batch_of(2, 2)], "0 1"
    )
    assert share == 0
    assert piece.index == (0,)


@pytest.mark.parametrize("world", [2, 3, 4])
def test_the_processes_together_find_the_gradients_of_one(task, world, monkeypatch):
    """What DDP does, the mean of all, is the gradient of the whole step; here one by one."""
    monkeypatch.setattr(Ranks, "total", lambda _, value: value)
    (loss, targets), whole = gradients(task, model_of(0.0), ThreadedGradients(1, 1), BATCHES)
    losses, of_all = [], []
    for rank in range(world):
        way = PlainGradients(world, Ranks(rank, world), wrap=lambda objective: objective)
        (part, same), of_rank = gradients(task, model_of(0.0), way, BATCHES)
        assert same == targets
        losses.append(part)
        of_all.append(of_rank)
    assert sum(losses) == pytest.approx(loss)
    means = [torch.stack(of_weight).mean(0) for of_weight in zip(*of_all, strict=True)]
    torch.testing.assert_close(means, whole, rtol=0, atol=1e-6)


def test_a_part_has_no_fewer_targets_than_the_task_can_learn_from(task):
    batch = batch_of(1, 1, 1, 1, 1)
    task.targets = lambda batch: len(batch.index)
    assert [
        len(part.index) for part in PlainGradients(4, Ranks(0, 4))._split_batch(task, batch)
    ] == [
        2,
        1,
        1,
        1,
    ]
    task.least = 2
    assert [
        len(part.index) for part in PlainGradients(4, Ranks(0, 4))._split_batch(task, batch)
    ] == [3, 2]
    own_parts = [
        [*PlainGradients(4, Ranks(rank, 4))._parts_of_process(task, [batch], "0 1")]
        for rank in range(4)
    ]
    assert [[share for _, _, share in parts] for parts in own_parts] == [[1.0], [1.0], [0.0], [0.0]]
