from __future__ import annotations

import resource

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from regard.cost.count import forward_flops, parameters, shared_parts
from regard.cost.formulas import activation_floats, cache_floats, loss_floats
from regard.errors import InputError
from regard.inputs.arrays import Dense
from regard.layers import VocabularyHead
from regard.models import (
    FAMILIES,
    BertConfig,
    CaptionerConfig,
    GPTConfig,
    Seq2SeqConfig,
    T5Config,
    TransformerConfig,
    build,
)
from regard.models.families.vit import CLASSES, ViTConfig
from regard.models.meta_model import meta_model
from tests.configs import fitting

SMALL = {
    "dim": 32, "heads": 4, "hidden": 48, "encoder": {"layers": 3}, "decoder": {"layers": 2},
}  # fmt: skip
VARIATIONS = [
    {},
    {"norm_place": "post", "bias": False},
    {"norm": "rms", "final_norm": False},
    {"norm": "none", "activation": "gelu", "dropout": 0.0},
    {"kv_heads": 2, "tied": "output"},
    {"positions": "learned", "tied": "none", "max_length": 64},
    {"positions": "buckets", "activation": "gated_silu"},
    {"positions": "rotary", "activation": "gated_gelu", "dropout": 0.0},
    {"score": "additive", "attention_dropout": 0.1},
    {"encoder": {"dim": 24, "heads": 3, "hidden": 40}, "tied": "output", "positions": "rotary"},
]
variations = pytest.mark.parametrize("changes", VARIATIONS, ids=str)


ALONE = {"dim": 32, "heads": 4, "hidden": 48, "layers": 3, "max_length": 64}
GPTS = [
    GPTConfig(**ALONE),
    GPTConfig(**ALONE, kv_heads=2, positions="rotary", norm="rms", activation="gated_silu",
              bias=False, tied=False),
    GPTConfig(**ALONE, head_dim=16, query_key_norm=True, dropout=0.0),
    fitting(GPTConfig, ALONE, decoder={"block": ("attention",)}, embedding_norm=True),
    GPTConfig(**ALONE, window=4),
]  # fmt: skip
BERTS = [
    BertConfig(**ALONE),
    BertConfig(**ALONE, norm_place="pre", token_types=0, pooler="none", hidden_dropout=0.0),
    BertConfig(**ALONE, masked=False, next_sentence=True, classes=("a", "b", "c"),
               tags=("x", "y", "z", "w"), spans=True),
]  # fmt: skip
T5S = [
    T5Config(**SMALL),
    T5Config(**SMALL, head_dim=16, activation="gated_gelu_tanh", tied="inputs",
             scaled_output=False),
]  # fmt: skip
ids = {"ids": lambda config: config.family}
every_family = pytest.mark.parametrize("config", [*GPTS, *BERTS, *T5S], **ids)


def config_of(changes):
    return TransformerConfig.model_validate(SMALL | changes)


@variations
def test_parts_add_up_to_the_parameters_of_the_real_model(changes):
    config = config_of(changes)
    real = build(config, 50, 50)
    parts = parameters(meta_model(config, 50, 50))
    assert parts == parameters(real)
    assert sum(parts.values()) == sum(p.numel() for p in real.parameters())


def test_the_papers_base_has_the_stacks_of_pytorchs_own_transformer():
    parts = parameters(meta_model(TransformerConfig(size="base"), 37000, 37000))
    with torch.device("meta"):
        theirs = nn.Transformer(512, 8, 6, 6, 2048, batch_first=True)
        top_norms = 2 * 2 * 512  # post-norm as published has none at the top
    assert parts.pop("source embedding") == 37000 * 512
    assert sum(parts.values()) == 44_138_496
    assert sum(p.numel() for p in theirs.parameters()) == 44_138_496 + top_norms


def test_shared_matrices_count_once_under_their_first_part():
    sizes = {
        tied: parameters(meta_model(config_of({"tied": tied}), 50, 50))
        for tied in ("all", "output", "none")
    }
    vocabulary = ("source embedding", "target embedding", "output")
    matrix = 50 * 32
    assert [sizes["all"][part] for part in vocabulary] == [matrix, 0, 0]
    assert [sizes["output"][part] for part in vocabulary] == [matrix, matrix, 0]
    assert [sizes["none"][part] for part in vocabulary] == [matrix, matrix, matrix]


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "none"])
def test_a_sketch_of_46_billion_weights_takes_no_memory(positions):
    meta_model(TransformerConfig(), 10, 10)  # imports what it needs
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    config = TransformerConfig(size="big", dim=16384, hidden=65536, positions=positions)
    model = meta_model(config, 37000, 37000)
    assert all(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))
    assert sum(p.numel() for p in model.parameters()) > 45e9
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


@pytest.mark.parametrize("changes", [{"dim": 2**40}, {"hidden": 10**30}])
def test_a_model_beyond_64_bits_is_refused(changes):
    with pytest.raises(InputError, match="below 2\\^63 bytes"):
        meta_model(TransformerConfig.model_validate(changes), 100, 100)


@every_family
def test_parts_of_every_family_add_up(config):
    vocabularies = [50] * (1 + config.has_target)
    real = build(config, *vocabularies)
    parts = parameters(meta_model(config, *vocabularies))
    assert parts == parameters(real)
    assert sum(parts.values()) == sum(p.numel() for p in real.parameters())


def test_parts_that_share_a_matrix_say_whose_it_is():
    assert shared_parts(meta_model(GPTS[0], 50)) == {"output": "embedding"}
    assert shared_parts(meta_model(GPTS[1], 50)) == {}
    assert shared_parts(meta_model(BERTS[0], 50)) == {"output": "embedding"}
    assert shared_parts(meta_model(T5S[1], 50, 50)) == {"target embedding": "source embedding"}


def test_a_sketch_of_gpt3_draws_nothing_and_takes_no_memory():
    model = meta_model(GPTConfig(size="gpt3"), 50257)
    assert all(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))
    assert sum(parameters(model).values()) == 174_604_259_328


def run(model, config, ragged):
    """Everything that a model of a config computes of three examples."""
    if config.has_target:
        return [model(ragged((7, 7, 7), 50), ragged((9, 9, 9), 50))]
    if config.family == "gpt":
        return [model(ragged((9, 9, 9), 50))]
    texts = ragged((9, 9, 9), 50)
    hidden = model.hidden(texts)
    if model.masked is not None:
        return [model.masked(hidden[:12])]  # four tokens of each text
    pooled = model.pooled(texts, hidden)
    heads = (model.next_sentence, model.classes), (model.tags, model.spans)
    return [
        head(x).sum() for x, group in zip((pooled, hidden), heads, strict=True) for head in group
    ]


@pytest.mark.slow
@every_family
def test_flops_of_every_family_are_those_that_torch_counts(config, ragged):
    model = build(config, *[50] * (1 + config.has_target))
    lengths = (7, 9) if config.has_target else (9,)
    # The counter does not know the fused kernel of the CPU; the plain one is the same products.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as forward:
        run(model, config, ragged)
    counted = forward_flops(model, *lengths, targets=4 if config.family == "bert" else None)
    assert 3 * sum(counted.values()) == forward.get_total_flops()


@pytest.mark.slow
@variations
def test_flops_are_those_that_torch_counts_and_backward_is_twice_as_many(changes, ragged):
    config = config_of(changes)
    model = build(config, 50, 50)
    source, target = ragged((7, 7, 7), 50), ragged((9, 9, 9), 50)
    # The counter does not know the fused kernel of the CPU; the plain one is the same products.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as forward:
        logits = model(source, target)
    with FlopCounterMode(display=False) as backward:
        logits.sum().backward()
    assert 3 * sum(forward_flops(model, 7, 9).values()) == forward.get_total_flops()
    assert backward.get_total_flops() == 2 * forward.get_total_flops()


def floats_kept(model, loss):
    """Numbers that autograd keeps of a training step, counted by their storages."""
    stored = {}
    weights = {p.untyped_storage().data_ptr() for p in (*model.parameters(), *model.buffers())}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            stored[storage.data_ptr()] = (storage.nbytes() // 4, tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss()
    matrix = next(head for head in model.modules() if isinstance(head, VocabularyHead)).weight
    return sum(count for count, _ in stored.values()) - matrix.numel()  # W's gradient


def translation_floats(model, source, target):
    return floats_kept(model, lambda: model.loss(source, target, target.ids, 0.1))


@variations
def test_kept_floats_are_near_what_autograd_keeps(changes, ragged):
    config = config_of(changes | {"dim": 64, "hidden": 512})
    lengths = (20, 19, 20, 21) * 4  # uneven, and 20 on average
    model, source, target = build(config, 50, 50), ragged(lengths, 50), ragged(lengths, 50, seed=1)
    measured = translation_floats(model, source, target)
    assert activation_floats(config, 20, 20) * len(lengths) == pytest.approx(measured, rel=0.08)


@pytest.mark.parametrize("config", [*GPTS, *BERTS[:2], *T5S], **ids)
def test_kept_floats_of_every_family_are_near_what_autograd_keeps(config, ragged):
    hidden = {"hidden": 512} if config.first.feed_forward else {}
    config = config.changed(dim=64, **hidden)
    lengths, targets = (20, 19, 20, 21) * 4, None
    texts, model = ragged(lengths, 50), build(config, *[50] * (1 + config.has_target))
    if config.has_target:
        measured = translation_floats(model, texts, texts)
    elif config.family == "gpt":
        measured = floats_kept(model, lambda: model.loss(texts, texts.ids))
    else:
        targets, hidden = 3, torch.arange(0, 48)

        def loss():
            return model.masked.loss(model.hidden(texts)[hidden], texts.ids[hidden])

        measured = floats_kept(model, loss)
    estimate = activation_floats(config, *[20] * (1 + config.has_target), targets=targets) * len(
        lengths
    )
    assert estimate == pytest.approx(measured, rel=0.08)


RECURRENT = [
    {"cell": "gru"}, {"cell": "lstm"}, {"cell": "rnn"}, {"attention": "dot"},
    {"attention": "none", "cell": "lstm"}, {"layers": 3},
    {"attention": "none", "context": "first", "encoder": {"direction": "forward"}},
    {"attention": "location"}, {"cell": "gru_before"}, {"hard_attention": True},
    {"last_word": True},
]  # fmt: skip


@pytest.mark.parametrize("fields", RECURRENT, ids=str)
def test_what_a_recurrent_translator_keeps_holds_and_is_made_of(fields, ragged):
    config, lengths = Seq2SeqConfig(dim=64, **fields), (20, 19, 20, 21) * 4
    model, texts = build(config, 50, 50), ragged(lengths, 50)
    measured = translation_floats(model, texts, texts)
    assert activation_floats(config, 20, 20) * len(lengths) == pytest.approx(measured, rel=0.15)
    counts = parameters(model)
    assert sum(counts.values()) == sum(p.numel() for p in model.parameters())
    assert {"encoder recurrence", "decoder recurrence", "decoder readout"} <= set(counts)
    with torch.inference_mode():
        state = model.start(model.encode(ragged((20,), 50)), 3, 9)
    rows = [tensor for states in state.cache.states for tensor in states]
    memory = [tensor for pair in state.memory.projected.values() for tensor in pair]
    floats = sum(tensor.numel() for tensor in (*rows, *(memory or [state.memory.x])))
    assert cache_floats(config, rows=3, length=9, source=20) == floats


@pytest.mark.parametrize("changes", [{}, {"positions": "buckets"}, {"attention_dropout": 0.1}])
def test_kept_floats_grow_with_the_square_of_the_length_only_without_the_fused_kernel(
    changes, ragged
):
    config = config_of(changes | {"dim": 16, "hidden": 16})
    source, target = ragged((64, 63), 50), ragged((64, 63), 50, seed=1)
    measured = translation_floats(build(config, 50, 50), source, target)
    assert activation_floats(config, 64, 64) * 2 == pytest.approx(measured, rel=0.1)


def test_kept_floats_are_near_the_peak_of_a_training_step(ragged):
    config, vocab = TransformerConfig(size="tiny"), 2000
    model = build(config, vocab, vocab)
    lengths = (20, 19, 20, 21) * 8
    source, target = ragged(lengths, vocab), ragged(lengths, vocab, seed=1)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        model.loss(source, target, target.ids, 0.1).backward()
    now = peak = 0
    for event in watched.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    floats = activation_floats(config, 20, 20) * len(lengths)
    estimate = 4 * (floats + loss_floats(config, vocab, sum(lengths)))
    assert estimate == pytest.approx(peak, rel=0.1)


@pytest.mark.parametrize("kv_heads", [None, 2])
def test_the_cache_is_as_large_as_counted(kv_heads, ragged):
    config = config_of({"kv_heads": kv_heads})
    model = build(config, 50, 50).eval()
    with torch.inference_mode():
        state = model.start(model.encode(ragged((7,), 50)), rows=3, length=11)
    shared = [tensor for pair in state.memory.projected.values() for tensor in pair]
    floats = sum(tensor.numel() for tensor in (*state.cache.layers, *shared))
    assert cache_floats(config, rows=3, length=11, source=7) == floats


@pytest.mark.parametrize("config", GPTS[:3], **ids)
def test_the_cache_of_a_decoder_alone_is_as_large_as_counted(config):
    state = build(config, 50).start(None, rows=3, length=11)
    floats = sum(tensor.numel() for tensor in state.layers)
    assert cache_floats(config, rows=3, length=11) == floats
    assert cache_floats(BERTS[0], rows=3, length=11) == 0


@pytest.mark.parametrize(
    ("size", "count"),
    [("Ti", 5_717_416), ("S", 22_050_664), ("B", 86_567_656), ("L", 304_326_632)],
)
def test_vits_have_as_many_parameters_as_published(size, count):
    """As timm counts them, with ImageNet's 1,000 classes, in patches of 16."""
    config = ViTConfig(size=size, classes=CLASSES)
    counts = parameters(meta_model(config))
    assert sum(counts.values()) == count
    assert counts["patch embedding"] == config.dim * (3 * 16 * 16 + 1)


def test_flops_of_an_image_are_those_of_a_profiler():
    config = ViTConfig(size="nano", image=(8, 8), patch=2, channels=1, classes=("a", "b", "c"))
    model = build(config).eval()
    math = sdpa_kernel(SDPBackend.MATH)
    with math, FlopCounterMode(display=False) as counter, torch.no_grad():
        model(Dense(torch.zeros(1, 1, 8, 8)))
    assert (
        sum(forward_flops(model, config.max_length, targets=1).values())
        == counter.get_total_flops()
    )


@pytest.mark.parametrize(
    ("family", "sizes"),
    [
        ("cnn", {"image": (14, 18), "filters": (6, 8), "filter_side": 3, "dense": (16, 12)}),
        ("resnet", {"image": (32, 48), "depths": (1, 2), "filters": (8, 12), "stem_width": 8}),
        (
            "resnet",
            {
                "image": (32, 48),
                "depths": (1, 1),
                "filters": (8, 12),
                "unit": "basic",
                "stage_attention": {"after": [0, 1], "heads": 4},
            },
        ),
        ("vit", {"size": "nano", "image": (8, 8), "patch": 2, "stem": "convolution"}),
        ("swin", {"image": (16, 32), "patch": 2, "dim": 8, "heads": 2, "hidden": 12}),
    ],
)
def test_flops_of_convolutions_are_those_of_a_profiler(family, sizes):
    config = FAMILIES[family].config.model_validate({**sizes, "channels": 1, "classes": CLASSES})
    model = build(config).eval()
    math = sdpa_kernel(SDPBackend.MATH)
    with math, FlopCounterMode(display=False) as counter, torch.no_grad():
        model(Dense(torch.zeros(1, 1, *config.image)))
    assert (
        sum(forward_flops(model, config.max_length, targets=1).values())
        == counter.get_total_flops()
    )


def test_a_bridge_is_counted_for_every_patch(ragged):
    sides = {"encoder": {"image": (16, 16), "patch": 8, "dim": 24, "heads": 2}, "decoder": ALONE}
    config = CaptionerConfig(**sides, bridge=True)
    model = build(config, 50).eval()
    math = sdpa_kernel(SDPBackend.MATH)
    with math, FlopCounterMode(display=False) as counter, torch.no_grad():
        model(Dense(torch.zeros(1, 3, 16, 16)), ragged((5,), 50))
    counts = forward_flops(model, config.max_length, 5)
    assert sum(counts.values()) == counter.get_total_flops()
    assert counts["bridge"] == 2 * 4 * 24 * 32
    assert parameters(model)["bridge"] == 25 * 32
    state = model.start(model.encode(Dense(torch.zeros(1, 3, 16, 16))), rows=3, length=11)
    shared = [tensor for pair in state.memory.projected.values() for tensor in pair]
    floats = sum(tensor.numel() for tensor in (*state.cache.layers, *shared))
    assert cache_floats(config, rows=3, length=11, source=4) == floats
