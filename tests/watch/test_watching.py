"""Layers by name, edits, watches beside and inside each other, and what is refused."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading

import pytest
import torch
import transformers
from torch import nn

import regard
from regard.errors import InputError
from regard.layers import Edit, replace

LAYER = "model.layers.1.self_attn"
VERSION = transformers.__version__


@pytest.mark.parametrize("asked", [LAYER, "*.1.*", 1, ["*.1.*", LAYER]])
def test_a_layer_is_asked_for_by_name_pattern_or_number(make, asked):
    case = make("llama")
    with torch.no_grad(), regard.watch(case.model, asked) as seen:
        case.run()
    assert list(seen.weights) == [LAYER]


def test_unknown_names_are_refused_with_the_nearest(make):
    model = make("llama").model
    with pytest.raises(InputError, match=rf"got model.layer.1.self_attn.*{LAYER}"):
        regard.watch(model, "model.layer.1.self_attn")
    with pytest.raises(InputError, match="no such layer: got 7"):
        regard.watch(model, knock_out=[(7, 0)])
    for wrong in (5, LAYER, [LAYER], (LAYER, 2), [(LAYER, "2")], [(LAYER, 1.0)], [(LAYER,)]):
        with pytest.raises(InputError, match=r"knock_out: got .*, expected pairs of a layer and a"):
            regard.watch(model, knock_out=wrong)
    for wrong in ("0", ["0"], 1.0, [None]):
        with pytest.raises(InputError, match=r"heads: got .*, expected whole numbers"):
            regard.watch(model, heads=wrong)
        with pytest.raises(InputError, match=r"queries: got .*, expected whole numbers"):
            regard.watch(model, queries=wrong)
    with pytest.raises(InputError, match="one of q, k, v, scores, weights, heads"):
        regard.watch(model, edits=[Edit(f"{LAYER}.weight", lambda x: x)])
    with pytest.raises(
        InputError, match=r"got decoder.7.self, expected one such as decoder.\d.self"
    ):
        regard.watch(model, knock_out=["decoder.7.self.0"])
    with pytest.raises(InputError, match="3 layers of that number"):
        regard.watch(make("bart").model, 1)


PLACES = {
    "gpt2": ("decoder.1.self", "layers.1.self", "transformer.h.1.attn"),
    "llama": ("decoder.1.self", "layers.1.self", LAYER),
    "bert": ("encoder.1.self", "encoder.1.self", "bert.encoder.layer.1.attention.self"),
    "vit": ("encoder.1.self", "layers.1.self", "layers.1.attention"),
    "marian": ("decoder.1.cross", "decoder.1.cross", "model.decoder.layers.1.encoder_attn"),
    "t5": ("decoder.1.cross", "decoder.1.cross", "decoder.block.1.layer.1.EncDecAttention"),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_head_has_one_name_in_every_model(make, name):
    case, (site, shown, path) = make(name), PLACES[name]
    with torch.no_grad():
        with regard.watch(case.model, [], knock_out=[(path, 3)]):
            expected = case.run()
        for given in ([f"{site}.3"], f"{site}.3", [f"{shown}.3"], [f"{path}.3"], [(site, 3)]):
            with regard.watch(case.model, site, knock_out=given) as seen:
                output = case.run()
            assert torch.equal(output, expected), given
            assert list(seen.weights) == [path]
            for layer in (site, shown, 1):
                assert torch.equal(seen.weights[layer], seen.weights[path])
    stack, _, kind = site.split(".")
    other = "encoder" if stack == "decoder" else "decoder"
    for wrong in (f"{other}.1.{kind}.3", f"{stack}.7.{kind}.3", "blocks.1.self.3"):
        with pytest.raises(InputError, match="no such layer: got"):
            regard.watch(case.model, knock_out=[wrong])


def test_weights_are_read_by_number_and_by_place_where_numbers_are_shared(make):
    case = make("gpt2")
    with torch.no_grad(), regard.watch(case.model) as seen:
        case.run()
    names = list(seen.weights)
    for number, name in enumerate(names):
        assert torch.equal(seen.weights[number], seen.weights[name])
        assert torch.equal(seen.joined(number), seen.joined(name))
        assert torch.equal(seen.weights.part(number, [1]), seen.weights.part(name, [1]))
    assert torch.equal(seen.weights[-1], seen.weights[names[-1]])
    for wrong in (len(names), -len(names) - 1):
        with pytest.raises(InputError, match="not recorded"):
            seen.weights[wrong]
    with torch.no_grad(), regard.watch(case.model, layers=1) as seen:
        case.run()
    assert torch.equal(seen.weights[1], seen.weights[names[1]])
    with pytest.raises(InputError, match="not recorded: got 0"):  # it was not watched
        seen.weights[0]
    case = make("bart")
    with torch.no_grad(), regard.watch(case.model) as seen:
        case.run()
    for index, name in enumerate(seen.weights):
        assert torch.equal(seen.weights[index], seen.weights[name])


def test_what_was_seen_is_printed(make):
    case = make("gpt2")
    with torch.no_grad(), regard.watch(case.model, heads=[0, 3]) as seen:
        assert "call the model in the `with`" in repr(seen)
        case.run()
    shape = tuple(seen.weights[0].shape)
    assert repr(seen).startswith("Seen of GPT2LMHeadModel: weights of 2 layers in 1 pass\n")
    assert f"transformer.h.1.attn {shape}" in repr(seen)
    assert "seen.weights[0]" in repr(seen)
    assert "seen.look(" in repr(seen)
    assert f"transformer.h.1.attn {shape}" in repr(seen.weights)
    with torch.no_grad(), regard.watch(case.model, 1, sites=("heads",)) as seen:
        case.run()
    assert 'seen.weights.at(1, "heads")' in repr(seen)


def test_unknown_heads_and_queries_are_refused_when_the_layer_runs(make):
    case = make("llama")
    for options in ({"heads": [4]}, {"queries": [6]}, {"knock_out": [(LAYER, -1)]}):
        with (
            pytest.raises(InputError, match=r"no such .* in model.layers.\d.self_attn"),
            regard.watch(case.model, **options),
        ):
            case.run()
    assert case.model.config._attn_implementation == "sdpa"


def test_a_name_that_was_not_seen_is_refused_with_the_nearest(make):
    case = make("llama")
    with torch.no_grad(), regard.watch(case.model, 1) as seen:
        with pytest.raises(InputError, match="expected a call of the model"):
            seen.weights[LAYER]
        case.run()
    with pytest.raises(InputError, match=f"one such as {LAYER}"):
        seen.weights["model.layers.0.self_attn"]
    with pytest.raises(InputError, match="not recorded"):
        seen.weights.at(LAYER, "heads")


def test_a_replaced_pattern_is_what_the_layer_computes_with(make):
    case = make("llama")
    uniform = torch.full((2, 4, 6, 6), 1 / 6)
    edit = replace(f"{LAYER}.weights", uniform)
    with (
        torch.no_grad(),
        regard.watch(case.model, sites=("weights", "v", "heads"), edits=[edit]) as seen,
    ):
        edited = case.run()
    torch.testing.assert_close(seen.weights[LAYER], uniform)
    values = seen.weights.at(LAYER, "v").repeat_interleave(2, dim=1)
    expected = values.mean(2, keepdim=True).expand(2, 4, 6, 8)
    torch.testing.assert_close(seen.weights.at(LAYER, "heads"), expected)
    assert not torch.allclose(edited, case.run())


@pytest.mark.parametrize("name", ["llama", "t5", "bert"])
@pytest.mark.parametrize("site", ["weights", "scores", "heads", "q", "k", "v"])
def test_an_edit_that_changes_nothing_changes_nothing(make, site, name):
    case = make(name)
    with torch.no_grad():
        plain = case.run()
        with regard.watch(case.model, edits=[Edit(f"*.{site}", torch.clone)]):
            torch.testing.assert_close(case.run(), plain, atol=1e-4, rtol=1e-4)


def test_what_was_recorded_in_one_run_can_be_put_into_another(make):
    case, other = make("llama"), torch.tensor([[9, 8, 7, 6, 5, 4], [1, 2, 3, 4, 5, 6]])
    with torch.no_grad():
        plain = case.run()
        with regard.watch(case.model, sites=("heads",)) as seen:
            case.run()
        edits = [replace(f"{name}.heads", seen.weights.at(name, "heads")) for name in seen.weights]
        case.inputs["input_ids"] = other
        with regard.watch(case.model, edits=edits) as patched:
            case.run()
    assert not torch.equal(plain, case.run())
    assert patched.weights


def test_gradients_flow_through_an_edited_pattern(make):
    case = make("llama")
    half = Edit(f"{LAYER}.weights", lambda weights: weights * 0.5)
    with regard.watch(case.model, edits=[half]):
        case.run().sum().backward()
    assert case.model.model.layers[1].self_attn.q_proj.weight.grad.abs().sum() > 0


def test_edits_of_patterns_are_refused_where_weights_are_dropped(make):
    case = make("bert")
    case.model.train()
    with (
        pytest.raises(InputError, match="dropout of attention weights"),
        regard.watch(case.model, edits=[Edit("*.weights", torch.clone)]),
    ):
        case.run()


def test_the_model_is_as_it_was_after_an_error(make):
    case = make("t5")
    case.model.encoder.config._attn_implementation = "eager"  # not that of the decoder
    names = [case.model.config, case.model.encoder.config, case.model.decoder.config]
    before = [config._attn_implementation for config in names]
    assert set(before) == {"eager", "sdpa"}
    plain = case.run()
    with contextlib.suppress(KeyError), regard.watch(case.model):
        assert torch.equal(case.run(), plain)
        raise KeyError
    assert [config._attn_implementation for config in names] == before
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in case.model.modules())
    assert torch.equal(case.run(), plain)


def test_watches_inside_each_other_see_the_same_and_edits_of_both_act(make):
    case = make("llama")
    names = ["model.layers.0.self_attn", LAYER]
    with torch.no_grad():
        with regard.watch(case.model, knock_out=[(names[0], 0), (names[1], 1)]) as both:
            expected = case.run()
        with regard.watch(case.model, knock_out=[(names[0], 0)]) as outer:
            alone = case.run()
            with regard.watch(case.model.model, knock_out=[(1, 1)]) as inner:
                assert torch.equal(case.run(), expected)
            assert torch.equal(case.run(), alone)
    assert [len(seen.steps) for seen in (outer, inner, both)] == [3, 1, 1]
    for name in names:
        assert torch.equal(outer.steps[1][name], both.weights[name])
        assert torch.equal(inner.weights[name.removeprefix("model.")], both.weights[name])


def test_two_models_of_one_config_may_end_their_watches_in_any_order(make):
    case = make("llama")
    twin = type(case.model)(case.model.config).eval()
    assert twin.config is case.model.config
    first, second = regard.watch(case.model), regard.watch(twin)
    with torch.no_grad():
        plain = case.run(twin)
        seen, other = first.__enter__(), second.__enter__()
        case.run()
        first.__exit__(None, None, None)
        assert torch.equal(case.run(twin), plain)
        second.__exit__(None, None, None)
        assert torch.equal(case.run(twin), plain)
    assert len(seen.steps) == len(other.steps) == 1
    assert not torch.equal(seen.weights[LAYER], other.weights[LAYER])
    assert twin.config._attn_implementation == "sdpa"


def test_a_thread_sees_only_what_it_runs(make):
    case = make("llama")
    with torch.no_grad():
        plain = case.run()
    began, finished = threading.Barrier(2, timeout=60), threading.Barrier(2, timeout=60)
    results = {}

    def work(head: int) -> None:
        with torch.no_grad(), regard.watch(case.model, knock_out=[(LAYER, head)]) as seen:
            began.wait()
            results[head] = [case.run() for _ in range(3)], seen
            finished.wait()

    threads = [threading.Thread(target=work, args=(head,)) for head in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for head, (outputs, seen) in results.items():
        with torch.no_grad(), regard.watch(case.model, knock_out=[(LAYER, head)]):
            expected = case.run()
        assert len(seen.steps) == 3
        assert all(torch.equal(output, expected) for output in outputs)
    assert torch.equal(case.run(), plain)


def test_a_watch_is_entered_once_at_a_time(make):
    case = make("llama")
    watch = regard.watch(case.model)
    with watch, pytest.raises(InputError, match="one `with` at a time"):
        watch.__enter__()
    with torch.no_grad(), watch as seen:
        case.run()
    assert len(seen.steps) == 1


def test_a_backward_pass_that_computes_again_is_not_another_step(make):
    case = make("llama")
    case.model.train()
    case.model.gradient_checkpointing_enable({"use_reentrant": False})

    def gradient() -> torch.Tensor:
        case.model.zero_grad()
        case.run(use_cache=False).square().mean().backward()
        return case.model.model.layers[0].self_attn.q_proj.weight.grad.clone()

    with regard.watch(case.model, knock_out=[(1, 1)]) as seen:
        recomputed = gradient()
    assert len(seen.steps) == 1
    case.model.gradient_checkpointing_disable()
    with regard.watch(case.model, knock_out=[(1, 1)]):
        torch.testing.assert_close(recomputed, gradient())


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda _: nn.Linear(2, 2), "got Linear, expected a model of transformers"),
        (lambda _: "gpt2", "got str"),
        pytest.param(
            lambda model: torch.compile(model, backend="eager"),
            "a compiled model",
            marks=pytest.mark.slow,
        ),
        (nn.Sequential, r'with a model of transformers inside.*\n.*get_submodule\("0"\)'),
    ],
)
def test_what_is_not_a_plain_model_is_refused(make, model, message):
    with pytest.raises(InputError, match=message):
        regard.watch(model(make("llama").model))


def test_a_model_with_attention_of_its_own_is_refused():
    config = transformers.GPTJConfig(
        n_embd=32, n_layer=1, n_head=2, rotary_dim=8, vocab_size=40, bos_token_id=1, eos_token_id=2
    )
    said = f"GPTJModel cannot be watched: got attention code of its own, in transformers {VERSION}"
    with pytest.raises(InputError, match=said):
        regard.watch(transformers.GPTJModel(config))


@pytest.mark.parametrize(
    ("name", "since"), [("Bert", (5, 0)), ("Roberta", (5, 0)), ("T5Encoder", (5, 15))]
)
def test_an_older_transformers_without_a_model_in_its_registry_says_so(name, since):
    sizes = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2}
    if name == "T5Encoder":
        sizes = {"num_layers": 1, "d_model": 16, "num_heads": 2}
    config = getattr(transformers, f"{name.removesuffix('Encoder')}Config")(vocab_size=40, **sizes)
    model = getattr(transformers, f"{name}Model")(config)
    if tuple(map(int, VERSION.split(".")[:2])) >= since:
        assert regard.watch(model)
        return
    with pytest.raises(InputError, match=f"transformers {VERSION}, expected .*\n.*T5 since 5.15"):
        regard.watch(model)


def test_a_layer_that_computes_by_the_functions_name_is_refused(make):
    case = make("gpt2")
    model = case.eager()
    for block in model.transformer.h:
        block.attn.reorder_and_upcast_attn = True
    with pytest.raises(InputError, match='the function is called "eager"'):
        regard.watch(model)


def test_without_transformers_the_way_to_get_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InputError, match=r"pip install 'regard\[hf\]'"):
        regard.watch(nn.Linear(2, 2))


@pytest.mark.slow
def test_regard_itself_does_not_import_transformers():
    code = "import sys, regard; regard.watch; assert 'transformers' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_one_head_and_one_query_may_be_named_without_a_list(make):
    case = make("llama")
    with torch.no_grad(), regard.watch(case.model, LAYER, heads=1, queries=2) as seen:
        case.run()
    with torch.no_grad(), regard.watch(case.model, LAYER, heads=[1], queries=[2]) as listed:
        case.run()
    assert torch.equal(seen.weights[LAYER], listed.weights[LAYER])
