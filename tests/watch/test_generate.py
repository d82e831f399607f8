"""Watching `generate`: the same tokens, a step for each, and steps that join to the whole."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import regard
from regard.errors import InputError

LEFT = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1]])
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "beam": {"num_beams": 3, "do_sample": False},
    "sample": {"do_sample": True},
    "static": {"do_sample": False, "cache_implementation": "static"},
}


def generate(case: Any, **options: Any) -> Any:
    torch.manual_seed(3)
    inputs = {k: v for k, v in case.inputs.items() if k != "decoder_input_ids"}
    return case.model.generate(
        **inputs,
        max_new_tokens=5,
        min_new_tokens=5,
        return_dict_in_generate=True,
        output_scores=True,
        **options,
    )


@pytest.mark.slow
@pytest.mark.parametrize("search", list(SEARCHES))
@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "t5", "marian", "whisper"])
def test_the_same_tokens_with_the_same_scores(make, name, search):
    case = make(name, LEFT)
    plain = generate(case, **SEARCHES[search])
    with regard.watch(case.model) as seen:
        watched = generate(case, **SEARCHES[search])
    assert torch.equal(plain.sequences, watched.sequences)
    assert all(torch.equal(a, b) for a, b in zip(plain.scores, watched.scores, strict=True))
    encoder = name in ("t5", "marian", "whisper")  # runs by itself, before the first step
    assert len(seen.steps) == len(watched.scores) + encoder


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral"])
def test_joined_steps_are_what_one_pass_over_the_output_shows(make, name, cache):
    case = make(name, LEFT)
    with regard.watch(case.model) as seen:
        out = generate(case, do_sample=False, cache_implementation=cache)
    read = out.sequences[:, :-1]  # the last token was written, and not read
    mask = torch.cat([LEFT, LEFT.new_ones(2, read.shape[1] - 6)], dim=1)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    with torch.no_grad(), regard.watch(case.model) as whole:
        case.model(input_ids=read, attention_mask=mask, position_ids=positions)
    for layer in whole.weights:
        joined = seen.joined(layer)
        assert (joined[..., read.shape[1] :] == 0).all()  # room of a static cache
        joined = joined[..., : read.shape[1]]
        torch.testing.assert_close(joined, whole.weights[layer], atol=1e-5, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama", "t5", "marian"])
def test_beams_are_followed_along_the_ancestors_of_a_hypothesis(make, name):
    case = make(name, LEFT)
    with regard.watch(case.model) as seen:
        out = generate(case, num_beams=4, num_return_sequences=2, do_sample=False)
    assert len(set(out.beam_indices[1].tolist())) > 1  # or this would test nothing
    for i in range(4):
        tokens = out.sequences[i : i + 1, :-1]
        inputs = {"input_ids": case.inputs["input_ids"][[i // 2]]}
        inputs["attention_mask"] = LEFT[[i // 2]]
        if name == "llama":
            inputs["input_ids"] = tokens
            more = LEFT.new_ones(1, tokens.shape[1] - 6)
            inputs["attention_mask"] = torch.cat([inputs["attention_mask"], more], dim=1)
            inputs["position_ids"] = (inputs["attention_mask"].cumsum(-1) - 1).clamp(min=0)
        else:
            inputs["decoder_input_ids"] = tokens
        with torch.no_grad(), regard.watch(case.model) as whole:
            case.model(**inputs)
        for layer in whole.weights:
            if not layer.startswith(("encoder", "model.encoder")):
                joined = seen.joined(layer, rows=out.beam_indices[i])
                torch.testing.assert_close(joined, whole.weights[layer], atol=1e-5, rtol=1e-5)


def test_beams_are_not_joined_as_if_rows_stayed(make):
    case = make("llama", LEFT)
    with regard.watch(case.model) as seen:
        out = generate(case, num_beams=4, do_sample=False)
    assert any(len(set(rows)) > 1 for rows in out.beam_indices.tolist())
    with pytest.raises(InputError, match=r"rows=out.beam_indices"):
        seen.joined("model.layers.1.self_attn")


def test_passes_that_do_not_continue_each_other_are_not_joined(make):
    case = make("llama")
    with torch.no_grad(), regard.watch(case.model) as seen:
        case.run()
        case.run()
    assert len(seen.steps) == 2
    with pytest.raises(InputError, match="do not continue each other"):
        seen.joined("model.layers.1.self_attn")


def test_a_head_is_knocked_out_at_every_step(make):
    case = make("llama", LEFT)
    plain = generate(case, do_sample=False)
    heads = [("*", head) for head in range(4)]
    with regard.watch(case.model, "*.0.*", sites=("heads",), knock_out=heads) as seen:
        out = generate(case, do_sample=False)
    assert not torch.equal(plain.scores[0], out.scores[0])
    assert len(seen.steps) == 5
    for step in seen.steps:
        assert (step.at("model.layers.0.self_attn", "heads") == 0).all()
