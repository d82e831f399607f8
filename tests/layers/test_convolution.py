"""The convolution along a text: borders, batches, causality, gradients."""

from __future__ import annotations

import pytest
import torch

from regard.errors import InputError
from regard.layers import Convolution, plain_context
from regard.layers.convolution import GatedConvolution

LENGTHS = (3, 5, 1)


@torch.no_grad()
@pytest.mark.parametrize("norm_kind", ["layer", "batch", "none"])
@pytest.mark.parametrize("causal", [False, True])
def test_a_text_is_read_by_itself(norm_kind, causal):
    layer = Convolution(8, kernel=5, norm_kind=norm_kind, causal=causal).eval()
    x = torch.randn(9, 8)
    alone = [layer(text, plain_context((len(text),))) for text in x.split(LENGTHS)]
    out = layer(x, plain_context(LENGTHS))
    torch.testing.assert_close(out, torch.cat(alone), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("causal", "reached"), [(False, [1, 2, 3]), (True, [2, 3, 4])])
def test_a_token_meets_its_neighbours_or_the_past_alone(causal, reached):
    layer, x = Convolution(8, kernel=3, norm_kind="none", causal=causal), torch.randn(5, 8)
    jacobian = torch.autograd.functional.jacobian(lambda x: layer(x, plain_context((5,))), x)
    acts_on = jacobian.abs().sum((1, 3))[:, 2].nonzero().flatten()  # (out, in): of token 2
    assert acts_on.tolist() == reached


def test_batch_norm_counts_tokens_and_no_padding():
    layer, x = Convolution(8, kernel=1, norm_kind="batch"), torch.randn(9, 8)
    with torch.no_grad():
        inside = torch.nn.functional.glu(layer.into(x), dim=-1)
        inside = inside * layer.depthwise.weight[:, 0, 0] + layer.depthwise.bias
    layer(x, plain_context(LENGTHS))
    torch.testing.assert_close(layer.norm.running_mean, 0.1 * inside.mean(0))


def test_a_kernel_without_a_middle_is_refused_unless_it_looks_back():
    with pytest.raises(InputError, match="kernel: got 4, expected an odd number"):
        Convolution(8, kernel=4)
    assert Convolution(8, kernel=4, causal=True)(torch.randn(3, 8), plain_context((3,))).shape == (
        3,
        8,
    )


@pytest.mark.parametrize(("kernel", "causal"), [(3, False), (5, False), (1, True), (4, True)])
def test_a_gated_convolution_is_that_of_pytorch(kernel, causal):
    layer, x = GatedConvolution(8, kernel=kernel, causal=causal), torch.randn(9, 8)
    weight = layer.into.weight.view(16, kernel, 8).transpose(1, 2)  # (out, in, k)
    sides = (kernel - 1, 0) if causal else (kernel // 2, kernel // 2)
    alone = []
    for text in x.split(LENGTHS):
        rows = torch.nn.functional.pad(text.T, sides)[None]  # (1, dim, length + k - 1)
        halves = torch.nn.functional.conv1d(rows, weight, layer.into.bias)[0].T
        alone.append(halves[:, :8] * halves[:, 8:].sigmoid())
    out = layer(x, plain_context(LENGTHS))
    torch.testing.assert_close(out, torch.cat(alone), rtol=0, atol=1e-6)


def test_batch_norm_of_one_token_uses_the_stored_statistics():
    layer, ctx = Convolution(8, kernel=1, norm_kind="batch"), plain_context((3,))
    layer(torch.randn(3, 8), ctx)
    before = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
    x = torch.randn(1, 8)
    out = layer(x, plain_context((1,)))
    assert all(torch.equal(before[name], tensor) for name, tensor in layer.state_dict().items())
    assert torch.equal(out, layer.eval()(x, plain_context((1,))))
