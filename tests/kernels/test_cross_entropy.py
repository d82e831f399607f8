from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from regard.kernels.cross_entropy import BLOCK, cross_entropy
from tests.largest import Largest

TOKENS = (1, BLOCK, 2 * BLOCK + 3)


def problem(tokens, vocab=37, dim=8, scale=1.0):
    torch.manual_seed(tokens)
    x = (scale * torch.randn(tokens, dim, dtype=torch.float64)).requires_grad_()
    weight = torch.randn(vocab, dim, dtype=torch.float64, requires_grad=True)
    return x, weight, torch.randint(vocab, (tokens,))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("tokens", TOKENS)
def test_loss_and_gradients_are_those_of_pytorch(tokens, smoothing):
    x, weight, targets = problem(tokens)
    ours = cross_entropy(x, weight, targets, smoothing)
    gradients = torch.autograd.grad(ours / tokens, (x, weight))
    theirs = F.cross_entropy(x @ weight.t(), targets, reduction="sum", label_smoothing=smoothing)
    expected = torch.autograd.grad(theirs / tokens, (x, weight))
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(gradients, expected)


def test_without_gradients_the_loss_is_the_same_and_nothing_is_kept():
    x, weight, targets = problem(BLOCK + 1)
    with torch.no_grad():
        loss = cross_entropy(x, weight, targets, 0.1)
    assert not loss.requires_grad
    torch.testing.assert_close(loss, cross_entropy(x, weight, targets, 0.1).detach())


def test_a_frozen_matrix_and_a_frozen_input_still_give_the_others_gradient():
    x, weight, targets = problem(5)
    both = torch.autograd.grad(cross_entropy(x, weight, targets), (x, weight))
    (of_x,) = torch.autograd.grad(cross_entropy(x, weight.detach(), targets), x)
    (of_weight,) = torch.autograd.grad(cross_entropy(x.detach(), weight, targets), weight)
    torch.testing.assert_close((of_x, of_weight), both)


def test_huge_logits_neither_overflow_nor_lose_the_loss():
    x, weight, targets = problem(4, scale=1e4)
    loss = cross_entropy(x.float(), weight.float(), targets)
    expected = F.cross_entropy((x @ weight.t()).float(), targets, reduction="sum")
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-4)


def test_the_logits_of_the_whole_batch_never_exist():
    vocab = 50
    x, weight, targets = problem(8 * BLOCK, vocab)
    with Largest() as seen:
        cross_entropy(x, weight, targets, 0.1).backward()
    assert seen.numel <= max(BLOCK * vocab, x.numel()) < 8 * BLOCK * vocab


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("tokens", TOKENS)
def test_a_bias_has_the_loss_and_gradients_of_pytorch(tokens, smoothing):
    x, weight, targets = problem(tokens)
    bias = torch.randn(37, dtype=torch.float64, requires_grad=True)
    ours = cross_entropy(x, weight, targets, smoothing, bias)
    gradients = torch.autograd.grad(ours / tokens, (x, weight, bias))
    logits = F.linear(x, weight, bias)
    theirs = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    expected = torch.autograd.grad(theirs / tokens, (x, weight, bias))
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(gradients, expected)
    with torch.no_grad():
        torch.testing.assert_close(cross_entropy(x, weight, targets, smoothing, bias), ours)
