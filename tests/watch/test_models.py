"""What must hold for every kind of model: looking changes nothing, and what is seen is true."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import regard

pytestmark = pytest.mark.slow
SITES = ("q", "k", "v", "scores", "weights", "heads")
CAUSAL = ("gpt2", "llama", "mistral", "qwen2", "qwen3")


def state(model: Any) -> tuple[Any, ...]:
    """Everything of a model that watching might leave changed."""
    modules = list(model.named_modules())
    names = [getattr(getattr(m, "config", None), "_attn_implementation", None) for _, m in modules]
    hooks = [(len(m._forward_hooks), len(m._forward_pre_hooks)) for _, m in modules]
    return names, hooks, [sorted(vars(m)) for _, m in modules], model.config.to_dict()


def test_looking_leaves_every_bit_of_the_output(case):
    before = state(case.model)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            plain = case.run()
            with regard.watch(
                case.model, sites=("q", "k", "v", "scores", "weights", "heads")
            ) as seen:
                watched = case.run()
            again = case.run()
        assert torch.equal(plain, watched)
        assert torch.equal(plain, again)
        assert seen.weights
        assert state(case.model) == before


@pytest.mark.parametrize("name", CAUSAL)
def test_a_batch_padded_on_the_left_is_left_alone_too(make, name):
    case = make(name, torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1]]))
    with torch.no_grad():
        plain = case.run()
        with regard.watch(case.model) as seen:
            assert torch.equal(case.run(), plain)
    for weights in seen.weights.values():
        assert (weights[1, :, :, :2] == 0).all()
        assert (weights[1, :, :2].sum(-1) == 0).all()  # nothing to look at: 0, and not NaN
        torch.testing.assert_close(weights[1, :, 2:].sum(-1), torch.ones(4, 4))


def test_weights_are_those_of_the_models_own_slow_way(case):
    with torch.no_grad():
        with regard.watch(case.model) as seen:
            case.run()
        out = case.eager()(**case.inputs, output_attentions=True)
    theirs = [*(out.get("encoder_attentions") or out.get("attentions") or ())]
    if "decoder_attentions" in out:
        both = zip(out.decoder_attentions, out.cross_attentions, strict=True)
        theirs += [weights for pair in both for weights in pair]
    assert len(theirs) == len(seen.weights)
    for name, expected in zip(seen.weights, theirs, strict=True):
        torch.testing.assert_close(seen.weights[name], expected, atol=1e-5, rtol=1e-5, msg=name)


def test_weights_times_values_are_the_heads_output(case):
    with torch.no_grad(), regard.watch(case.model, sites=("v", "weights", "heads")) as seen:
        case.run()
    for name, weights in seen.weights.items():
        values = seen.weights.at(name, "v")
        values = values.repeat_interleave(weights.shape[1] // values.shape[1], dim=1)
        heads = seen.weights.at(name, "heads")
        torch.testing.assert_close(weights @ values, heads, atol=1e-5, rtol=1e-5)


def test_training_is_left_alone_bit_for_bit(case):
    def gradients() -> list[torch.Tensor]:
        torch.manual_seed(1)
        case.model.zero_grad()
        case.run().square().mean().backward()
        return [p.grad.clone() for p in case.model.parameters() if p.grad is not None]

    case.model.train()
    plain = gradients()
    with regard.watch(case.model) as seen:
        watched = gradients()
    assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))
    for weights in seen.weights.values():  # before dropout
        assert not weights.requires_grad
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:3]))


def test_a_knocked_out_head_adds_nothing_to_the_output_projection(case):
    with torch.no_grad():
        with regard.watch(case.model) as seen:
            plain = case.run()
        for layer in seen.weights:
            with regard.watch(case.model, layers=[], knock_out=[(layer, 1)]):
                without = case.run()

            def silence(_: Any, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
                (x,) = inputs
                x = x.clone()
                x[..., x.shape[-1] // 4 : x.shape[-1] // 2] = 0.0  # head 1 of 4
                return (x,)

            handle = case.projection_of(layer).register_forward_pre_hook(silence)
            expected = case.run()
            handle.remove()
            assert torch.equal(without, expected), layer
            assert not torch.equal(without, plain), layer


def test_only_what_was_asked_for_is_recorded(case):
    with torch.no_grad():
        with regard.watch(case.model) as seen:
            case.run()
        name = list(seen.weights)[-1]
        with regard.watch(case.model, layers=name, heads=[3, 0], queries=[-1, 2]) as partial:
            case.run()
    assert list(partial.weights) == [name]
    expected = seen.weights[name][:, [3, 0]][:, :, [-1, 2]]
    torch.testing.assert_close(partial.weights[name], expected)
    assert torch.equal(seen.weights.part(name, [3], [2]), seen.weights[name][:, [3]][:, :, [2]])


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "bert"])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_the_function_a_model_had_is_the_one_it_uses(make, implementation, name):
    case = make(name)
    model = case.model if implementation == "sdpa" else case.eager()
    with torch.no_grad():
        plain = case.run(model)
        with regard.watch(model) as seen:
            assert torch.equal(case.run(model), plain)
    assert seen.weights
