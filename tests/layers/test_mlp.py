"""The feed-forward, against plain PyTorch and the gated ones of `transformers`."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from regard.errors import InputError
from regard.layers import FeedForward
from regard.layers.mlp import ACTIVATIONS


@pytest.mark.parametrize(("name", "function"), [("relu", nn.ReLU()), ("gelu", nn.GELU())])
def test_plain_feed_forward_is_two_linear_layers(name, function):
    ours = FeedForward(4, 6, name)
    theirs = nn.Sequential(nn.Linear(4, 6), function, nn.Linear(6, 4))
    theirs[0].load_state_dict(ours.into.state_dict())
    theirs[2].load_state_dict(ours.out.state_dict())
    x = torch.randn(3, 4)
    torch.testing.assert_close(ours(x), theirs(x))


@pytest.mark.slow
def test_gated_silu_is_llamas():
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaMLP

    theirs = LlamaMLP(LlamaConfig(hidden_size=4, intermediate_size=6, num_attention_heads=2))
    ours = FeedForward(4, 6, "gated_silu", bias=False)
    ours.into.weight.data = torch.cat([theirs.gate_proj.weight, theirs.up_proj.weight]).detach()
    ours.out.weight.data = theirs.down_proj.weight.detach()
    x = torch.randn(3, 4)
    torch.testing.assert_close(ours(x), theirs(x))


def test_gated_gelu_is_t5s_with_the_exact_gelu():
    """T5 1.1 itself takes the tanh approximation, which is within 1e-3 of it."""
    from transformers.models.t5.configuration_t5 import T5Config
    from transformers.models.t5.modeling_t5 import T5DenseGatedActDense

    theirs = T5DenseGatedActDense(
        T5Config(d_model=4, d_ff=6, feed_forward_proj="gated-gelu", dropout_rate=0.0)
    )
    ours = FeedForward(4, 6, "gated_gelu", bias=False)
    ours.into.weight.data = torch.cat([theirs.wi_0.weight, theirs.wi_1.weight]).detach()
    ours.out.weight.data = theirs.wo.weight.detach()
    x = torch.randn(3, 4)
    torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=1e-3)
    theirs.act = nn.GELU()
    torch.testing.assert_close(ours(x), theirs(x))


def test_dropout_acts_on_the_hidden_layer_in_training_only():
    module = FeedForward(4, 400, dropout=0.5, bias=False)
    nn.init.ones_(module.into.weight)
    nn.init.ones_(module.out.weight)
    x = torch.ones(1, 4)
    assert module.eval()(x)[0, 0] == 1600
    out = module.train()(x)[0, 0].item()
    assert out % 8 == 0  # some of 400 units of 4 each, doubled
    assert 1200 < out < 2000
    assert out != 1600


def test_an_unknown_activation_is_refused():
    with pytest.raises(InputError, match="got swish, expected one of relu, gelu"):
        FeedForward(4, 6, "swish")


FUNCTIONS = {
    "relu": lambda x: x.clamp(min=0),
    "gelu": lambda x: x * (1 + torch.erf(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + torch.exp(-x)),
}


@pytest.mark.parametrize("gate", ["", "gated_"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_activation_is_its_formula_plain_and_gated(name, gate):
    ours, x = FeedForward(4, 6, gate + name), 3 * torch.randn(5, 4)
    hidden = x @ ours.into.weight.T + ours.into.bias
    function = FUNCTIONS[name]
    hidden = function(hidden[:, :6]) * hidden[:, 6:] if gate else function(hidden)
    expected = hidden @ ours.out.weight.T + ours.out.bias
    torch.testing.assert_close(ours(x), expected, rtol=1e-4, atol=1e-6)


def test_every_activation_is_under_test():
    assert set(ACTIVATIONS) == {gate + name for gate in ("", "gated_") for name in FUNCTIONS}


def test_the_two_gelus_differ():
    x = torch.tensor([[-2.0, 1.0, 0.5, 3.0]])
    exact, near = (ACTIVATIONS[name][0](x) for name in ("gelu", "gelu_tanh"))
    assert 1e-5 < (exact - near).abs().max() < 1e-3
