"""Muon: its equation in plain lines, its memory, and what it leaves to Adam."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from regard.errors import InputError
from regard.train.config import TrainConfig
from regard.train.muon import Muon, is_hidden_matrix, orthogonalize
from regard.train.optim import (
    check_optimizer,
    optimizer,
    optimizer_tensors,
    parameters_without_state,
    restore_optimizer,
)

CONFIG = TrainConfig(optimizer="muon", learning_rate=0.02, weight_decay=0.1)


class Small(nn.Module):
    """Named as a model of ours is: an embedding, one block, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.encoder = nn.Module()
        self.encoder.blocks = nn.ModuleList([nn.Linear(4, 6), nn.Linear(6, 4), nn.LayerNorm(4)])
        self.head = nn.Linear(4, 7)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        first, second, norm = self.encoder.blocks
        return self.head(norm(second(first(self.embed(ids)).tanh())))


def learn(model: nn.Module, memory: torch.optim.Optimizer, steps: int) -> None:
    for step in range(steps):
        memory.zero_grad()
        ids = torch.arange(7).roll(step)
        nn.functional.cross_entropy(model(ids), ids).backward()
        memory.step()


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 4, 16), (2, 16, 4)])
def test_singular_values_become_nearly_one_and_directions_stay(shape: tuple[int, ...]) -> None:
    matrices = torch.randn(shape)
    updates = orthogonalize(matrices)
    u, s, v = torch.linalg.svd(matrices, full_matrices=False)
    inside = u.mT @ updates @ v.mT  # diagonal where the singular vectors stay
    diagonal = inside.diagonal(dim1=-2, dim2=-1)
    assert (inside - torch.diag_embed(diagonal)).abs().max() < 1e-4
    large = s > 0.02 * s.sum(-1, keepdim=True)  # the smallest take more turns
    assert ((diagonal[large] > 0.6) & (diagonal[large] < 1.25)).all()


def test_an_update_is_the_equation() -> None:
    model = Small()
    memory = optimizer(model, CONFIG)
    assert isinstance(memory, Muon)
    weight = model.encoder.blocks[0].weight
    before, momentum = weight.detach().clone(), torch.zeros(6, 4)
    for step in range(3):
        memory.zero_grad()
        ids = torch.arange(7).roll(step)
        nn.functional.cross_entropy(model(ids), ids).backward()
        gradient = weight.grad.clone()
        memory.step()
        momentum = 0.95 * momentum + 0.05 * gradient
        ahead = 0.95 * momentum + 0.05 * gradient
        x = ahead / ahead.norm()
        for _ in range(5):
            x = 3.4445 * x - 4.7750 * x @ x.T @ x + 2.0315 * x @ x.T @ x @ x.T @ x
        before = before - 0.02 * (0.2 * 6**0.5 * x + 0.1 * before)
        assert torch.allclose(weight, before, atol=1e-5)


def test_embeddings_heads_norms_and_biases_are_adam_s() -> None:
    model = Small()
    hidden = [name for name, weight in model.named_parameters() if is_hidden_matrix(name, weight)]
    assert hidden == ["encoder.blocks.0.weight", "encoder.blocks.1.weight"]
    twin = copy.deepcopy(model)
    memory = optimizer(model, CONFIG)
    others = [p for name, p in twin.named_parameters() if name not in hidden]
    reference = torch.optim.AdamW(
        [
            {"params": [p for p in others if p.dim() > 1], "weight_decay": 0.1},
            {"params": [p for p in others if p.dim() <= 1], "weight_decay": 0.0},
        ],
        lr=0.02,
        betas=CONFIG.betas,
        eps=CONFIG.epsilon,
        fused=True,
    )
    learn(model, memory, 1)
    learn(twin, reference, 1)
    for name, parameter in model.named_parameters():
        same = torch.equal(parameter, twin.get_parameter(name))
        assert same == (name not in hidden)


def test_training_goes_on_bit_for_bit_from_its_memory() -> None:
    torch.manual_seed(0)
    model = Small()
    two = copy.deepcopy(model)
    first, second = optimizer(model, CONFIG), optimizer(two, CONFIG)
    learn(model, first, 3)
    two.load_state_dict(model.state_dict())
    tensors = optimizer_tensors(model, first)
    assert "optimizer.encoder.blocks.0.weight.momentum" in tensors
    check_optimizer("x", two, tensors, 3, "muon")
    assert parameters_without_state(two, tensors) == []
    restore_optimizer(two, second, tensors)
    learn(model, first, 3)
    learn(two, second, 3)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, two.get_parameter(name))


def test_memory_of_another_optimizer_or_shape_is_refused() -> None:
    model = Small()
    memory = optimizer(model, CONFIG)
    learn(model, memory, 1)
    tensors = optimizer_tensors(model, memory)
    with pytest.raises(InputError, match="momentum"):
        check_optimizer("x", model, tensors, 1, "adamw")
    name = "optimizer.encoder.blocks.0.weight.momentum"
    for wrong in (torch.zeros(4, 6), torch.zeros(6, 4).double(), torch.full((6, 4), torch.nan)):
        with pytest.raises(InputError, match="momentum"):
            check_optimizer("x", model, tensors | {name: wrong}, 1, "muon")


def test_a_parameter_without_a_gradient_stays_as_it_is() -> None:
    model = Small()
    model.encoder.blocks[1].weight.requires_grad_(requires_grad=False)
    before = model.encoder.blocks[1].weight.clone()
    learn(model, optimizer(model, CONFIG), 2)
    assert torch.equal(model.encoder.blocks[1].weight, before)


def test_products_in_16_bits_give_nearly_the_same_update():
    torch.manual_seed(0)
    matrix = torch.randn(3, 64, 128)
    whole, short = orthogonalize(matrix), orthogonalize(matrix.to(torch.bfloat16)).float()
    assert torch.nn.functional.cosine_similarity(whole.flatten(), short.flatten(), dim=0) > 0.99
