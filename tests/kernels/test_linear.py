"""The product of few rows: whichever way it takes, x Wᵀ + b."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from regard.kernels import linear as ways
from regard.kernels.linear import (
    COMPILED_ROWS,
    LARGE,
    MAX_TURNED_ROWS,
    MAX_TURNED_ROWS_LARGE,
    ONE_DNN_ELEMENTS,
    SHARED,
    Linear,
    linear,
    linear_activation,
)
from regard.layers.mlp import ACTIVATIONS


@pytest.fixture(params=["oneDNN", "MKL"])
def _library(request, monkeypatch):
    if request.param == "oneDNN" and not torch.backends.mkldnn.is_available():
        pytest.skip("this PyTorch has no oneDNN")
    monkeypatch.setattr(ways, "one_dnn", lambda: request.param == "oneDNN")


@pytest.mark.usefixtures("_threads", "_library")
@pytest.mark.parametrize(
    "rows",
    [
        0,
        1,
        2,
        MAX_TURNED_ROWS,
        MAX_TURNED_ROWS + 1,
        16,
        COMPILED_ROWS + 1,
        MAX_TURNED_ROWS_LARGE,
        MAX_TURNED_ROWS_LARGE + 1,
    ],
)
@pytest.mark.parametrize(("out", "into"), [(7, 5), (257, 256), (1025, 1024)])
@pytest.mark.parametrize("biased", [True, False])
def test_every_way_gives_the_same_product(rows, out, into, biased):
    assert SHARED <= 257 * 256
    assert max(LARGE, ONE_DNN_ELEMENTS) <= 1025 * 1024
    x, weight = torch.randn(rows, into), torch.randn(out, into) / into**0.5
    bias = torch.randn(out) if biased else None
    expected = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    with torch.inference_mode():
        product = linear(x, weight, bias)
    assert product.is_contiguous()
    torch.testing.assert_close(product, expected.float(), rtol=0, atol=1e-5)


@pytest.mark.usefixtures("_threads", "_library")
@pytest.mark.parametrize("name", ["relu", "gelu", "gelu_tanh", "silu"])
@pytest.mark.parametrize("rows", [0, 3, COMPILED_ROWS + 1, 200])
def test_an_activation_function_in_the_same_pass_is_the_function_of_the_product(name, rows):
    function, _ = ACTIVATIONS[name]
    layer, x = Linear(512, ONE_DNN_ELEMENTS // 512), 4 * torch.randn(rows, 512)
    with torch.inference_mode():
        out = linear_activation(layer, x, function)
        expected = function(F.linear(x.double(), layer.weight.double(), layer.bias.double()))
    torch.testing.assert_close(out, expected.float(), rtol=0, atol=1e-5)


@pytest.mark.usefixtures("_threads")
def test_a_matrix_that_is_a_view_is_multiplied_too():
    weight, x = torch.randn(256, 300).t(), torch.randn(1, 256)
    with torch.inference_mode():
        torch.testing.assert_close(linear(x, weight), x @ weight.t(), rtol=0, atol=1e-4)


def test_training_goes_the_plain_way_bit_for_bit():
    layer, x = Linear(256, 300), torch.randn(1, 256)
    assert torch.equal(layer(x), F.linear(x, layer.weight, layer.bias))
