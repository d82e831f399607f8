"""Unusual attention: sinks, caps, windows, half precision, shared layers, flash, foreign code."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

import regard
from regard.errors import InputError

SIZES = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 40, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 39,
}  # fmt: skip
INPUTS = {
    "input_ids": torch.arange(4, 16).view(2, 6),
    "attention_mask": torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]]),
}


def model_of(kind: str, implementation: str = "eager", **more: Any) -> Any:
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**SIZES | more)
    config._attn_implementation = implementation
    return getattr(transformers, f"{kind}Model")(config).eval()


def check_against_its_own(model: Any) -> Any:
    """What is seen is what the model returns as its attentions; and nothing changed."""
    with torch.no_grad():
        plain = model(**INPUTS, output_attentions=True)
        with regard.watch(model) as seen:
            out = model(**INPUTS)
    assert torch.equal(plain.last_hidden_state, out.last_hidden_state)
    for weights, expected in zip(seen.weights.values(), plain.attentions, strict=True):
        torch.testing.assert_close(weights, expected, atol=1e-5, rtol=1e-5)
    return seen


def test_sinks_take_their_share_of_the_weights():
    model = model_of("GptOss", num_local_experts=2, num_experts_per_tok=1)
    for layer in model.layers:
        layer.self_attn.sinks.data.normal_()
    seen = check_against_its_own(model)
    assert all((weights.sum(-1) < 1).all() for weights in seen.weights.values())


def test_capped_scores_and_windows():
    check_against_its_own(model_of("Gemma2", attn_logit_softcapping=0.5, sliding_window=3))


@pytest.mark.skipif(
    transformers.__version__.startswith("4."), reason="ALBERT is not in the registry of 4"
)
def test_a_layer_that_runs_many_times_is_numbered():
    torch.manual_seed(0)
    config = transformers.AlbertConfig(
        embedding_size=16, hidden_size=32, intermediate_size=48, num_attention_heads=4,
        num_hidden_layers=3, vocab_size=40,
    )  # fmt: skip
    config._attn_implementation = "eager"
    seen = check_against_its_own(transformers.AlbertModel(config).eval())
    assert [name.partition("#")[2] for name in seen.weights] == ["", "1", "2"]
    assert seen.look().site("encoder.2.self").heads == 4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_precisions(dtype):
    model = model_of("Llama", "sdpa").to(dtype)
    with torch.no_grad():
        plain = model(**INPUTS).last_hidden_state
        with regard.watch(model) as seen:
            assert torch.equal(model(**INPUTS).last_hidden_state, plain)
        for weights in seen.weights.values():
            torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        with regard.watch(model, edits=[regard.Edit("*.weights", torch.clone)]):
            edited = model(**INPUTS).last_hidden_state
    assert edited.dtype == dtype
    torch.testing.assert_close(edited, plain, atol=0.1, rtol=0.1)


def test_under_autocast_weights_are_still_exact():
    model = model_of("Llama", "sdpa")
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        plain = model(**INPUTS).last_hidden_state
        with regard.watch(model) as seen:
            assert torch.equal(model(**INPUTS).last_hidden_state, plain)
    assert seen.weights["layers.0.self_attn"].dtype == torch.float32


def test_a_mask_of_minus_infinity_leaves_no_nan():
    model = model_of("Llama", "sdpa")
    mask = torch.full((2, 1, 6, 6), float("-inf")).triu(1)
    mask[1, :, :2] = float("-inf")
    with torch.no_grad(), regard.watch(model) as seen:
        model(INPUTS["input_ids"], attention_mask=mask)
    for weights in seen.weights.values():
        assert weights.isfinite().all()
        assert (weights[1, :, :2].sum(-1) == 0).all()
        torch.testing.assert_close(weights[0].sum(-1), torch.ones(4, 6))


def flash(_: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **options: Any) -> Any:
    """What a flash kernel computes, by loops: padding (batch, key), causal at the end, a window."""
    batch, heads, queries, _ = query.shape
    keys, group = key.shape[2], heads // key.shape[1]
    out = torch.zeros(batch, queries, heads, value.shape[-1])
    for b in range(batch):
        for q in range(queries):
            position = keys - queries + q
            first = max(0, position - (options["sliding_window"] or keys) + 1)
            seen = [k for k in range(first, position + 1) if mask is None or mask[b, k]]
            for h in range(heads) if seen else ():
                scores = key[b, h // group, seen] @ query[b, h, q] * options["scaling"]
                out[b, q, h] = scores.softmax(0) @ value[b, h // group, seen]
    return out, None


@pytest.mark.parametrize("padding", ["none", "right", "left"])
def test_flash_attention_has_other_masks(padding):
    masks = transformers.AttentionMaskInterface()
    transformers.AttentionInterface.register("slow_flash", flash)
    transformers.AttentionMaskInterface.register("slow_flash", masks["flash_attention_2"])
    mask = {
        "none": torch.ones(2, 6, dtype=torch.long),
        "right": INPUTS["attention_mask"],
        "left": INPUTS["attention_mask"].flip(1),
    }[padding]
    inputs = {"input_ids": INPUTS["input_ids"], "attention_mask": mask}
    model, usual = (model_of("Mistral", "sdpa", sliding_window=3) for _ in range(2))
    model.config._attn_implementation = "slow_flash"
    with torch.no_grad():
        plain = model(**inputs).last_hidden_state
        with regard.watch(model) as seen, regard.watch(usual) as expected:
            assert torch.equal(model(**inputs).last_hidden_state, plain)
            usual(**inputs)
    real = mask.bool()
    for name, weights in seen.weights.items():
        ours, theirs = (x.transpose(1, 2)[real] for x in (weights, expected.weights[name]))
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    assert model.config._attn_implementation == "slow_flash"


def test_flex_attention_is_refused():
    model = model_of("Llama", "sdpa")
    model.config._attn_implementation = "flex_attention"
    with pytest.raises(InputError, match=r"got attn_implementation=\"flex_attention\""):
        regard.watch(model)


def test_a_function_that_computes_something_else_is_found_out():
    def twice(*inputs: Any, **options: Any) -> Any:
        out, weights = transformers.AttentionInterface()["sdpa"](*inputs, **options)
        return out * 2, weights

    masks = transformers.AttentionMaskInterface()
    transformers.AttentionInterface.register("twice", twice)
    transformers.AttentionMaskInterface.register("twice", masks["sdpa"])
    model = model_of("Llama", "twice")
    with torch.no_grad(), pytest.raises(InputError, match="away from softmax"), regard.watch(model):
        model(**INPUTS)
    with torch.no_grad(), regard.watch(model, [], knock_out=[(0, 1)]):  # needs no weights
        model(**INPUTS)


def test_a_long_input_is_kept_as_what_it_follows_from():
    model = model_of("Llama", "sdpa")
    ids = torch.randint(3, 40, (1, 300))
    with torch.no_grad(), regard.watch(model, 1) as seen:
        model(ids)
    name = "layers.1.self_attn"
    blocks = torch.cat([block for _, block in seen.weights.blocks(name)], dim=2)
    assert torch.equal(seen.weights.part(name, [2], [7]), blocks[:, [2]][:, :, [7]])
    torch.testing.assert_close(seen.weights[name], blocks)
