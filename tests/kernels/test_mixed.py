"""Products of training in bf16 on a CPU: near to those in fp32, and only where asked for."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.nn.functional as F

from regard.kernels.cross_entropy import cross_entropy
from regard.kernels.linear import Linear, linear
from regard.kernels.mixed import LEAST_NUMBERS, product_dtype, products_in

SHORT = torch.bfloat16


def leaves(*shapes):
    torch.manual_seed(0)
    return [torch.randn(shape).requires_grad_() for shape in shapes]


def rounded(x):
    return x.detach().to(SHORT).double()


def near(got, expected):
    """Within the rounding of a bf16 number: 8 bits."""
    assert got.dtype == torch.float32
    got, expected = got.detach().double(), expected.detach()
    torch.testing.assert_close(got, expected, rtol=2**-7, atol=2**-7 * float(expected.std()))


def test_the_factors_are_rounded_and_the_sums_are_not():
    x, weight, bias = leaves((50, 128), (160, 128), (160,))
    with products_in(SHORT):
        y = linear(x, weight, bias)
    near(y, rounded(x) @ rounded(weight).T + bias.double())
    grad = torch.randn_like(y)
    of_x, of_weight, of_bias = torch.autograd.grad(y, (x, weight, bias), grad)
    near(of_x, rounded(grad) @ rounded(weight))
    near(of_weight, rounded(grad).T @ rounded(x))
    assert torch.equal(of_bias, grad.sum(0))  # in 32 bits


def test_a_frozen_matrix_gets_no_gradient():
    x, weight = leaves((5, 128), (160, 128))
    with products_in(SHORT):
        y = linear(x, weight.detach())
    [of_x] = torch.autograd.grad(y.sum(), (x,))
    assert of_x.shape == x.shape


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_and_its_gradients_are_near(smoothing):
    x, weight = leaves((700, 64), (300, 64))
    x, targets = (x / 8).detach().requires_grad_(), torch.randint(300, (700,))
    whole = cross_entropy(x, weight, targets, smoothing)
    expected = torch.autograd.grad(whole, (x, weight))
    with products_in(SHORT):
        loss = cross_entropy(x, weight, targets, smoothing)
    assert loss.item() == pytest.approx(whole.item(), rel=1e-3)
    assert not torch.equal(loss, whole)  # it was computed in another way
    for got, right in zip(torch.autograd.grad(loss, (x, weight)), expected, strict=True):
        assert got.dtype == torch.float32
        assert F.cosine_similarity(got.flatten(), right.flatten(), dim=0) > 0.999


def test_small_matrices_predictions_and_other_threads_stay_in_32_bits():
    layer, x = Linear(128, 160), torch.randn(50, 128)
    plain, small = layer(x), Linear(8, 8)
    assert small.weight.numel() < LEAST_NUMBERS <= layer.weight.numel()
    other = []
    with products_in(SHORT):
        thread = threading.Thread(target=lambda: other.append(layer(x)))
        thread.start()
        thread.join()
        assert torch.equal(small(x[:, :8]), F.linear(x[:, :8], small.weight, small.bias))
        with torch.inference_mode():
            predicted = layer(x)
        assert not torch.equal(layer(x), plain)
    assert torch.equal(other[0], plain)
    torch.testing.assert_close(predicted, plain, rtol=1e-5, atol=1e-5)
    assert product_dtype() is None
    assert torch.equal(layer(x), plain)
