"""What every family of one stack must hold, in every variation: GPT, BERT, recurrent networks."""

from __future__ import annotations

import itertools
import json
import math

import pytest
import torch
import torch.nn.functional as F

from regard.decode import DecodeConfig, Symbols, decode
from regard.inputs.arrays import Ragged
from regard.kernels import int8
from regard.layers import Edit, Tap, knock_out
from regard.models import FAMILIES, build, describe, rebuild
from regard.models.quantise import quantise
from regard.train.adam import Adam
from tests.configs import fitting

VOCAB = 11
BEGIN, END, PAD = 1, 2, 0
SYMBOLS = Symbols(BEGIN, END, PAD)
LENGTHS = (5, 1, 3, 6)
SIZES = {"dim": 16, "heads": 4, "hidden": 24, "layers": 2, "dropout": 0.1, "max_length": 32}
LLAMA = {"positions": "rotary", "norm": "rms", "activation": "gated_silu", "bias": False,
         "tied": False, "kv_heads": 2, "norm_epsilon": 1e-5}  # fmt: skip
GPT = {
    **{
        f"{positions}-{norm_place}": {"positions": positions, "norm_place": norm_place}
        for positions, norm_place in itertools.product(
            ("sinusoidal", "sinusoidal_halves", "learned", "rotary", "buckets", "none"),
            ("pre", "post"),
        )
    },
    "llama": LLAMA,
    "mistral": LLAMA | {"window": 3},
    "qwen2": LLAMA | {"attention_bias": "qkv", "tied": True},
    "qwen3": LLAMA | {"query_key_norm": True, "head_dim": 6},
    "llama3": LLAMA | {"rotary_scaling": {"kind": "llama3", "factor": 4.0, "original": 8}},
    "window-buckets": {"window": 2, "positions": "buckets", "kv_heads": 1},
    "attention_alone": {"feed_forward": False},
    "untied-biased": {"tied": False, "output_bias": True, "scaled_output": True},
    "additive": {"score": "additive", "positions": "buckets", "embedding_norm": True},
}
HEADS = {"next_sentence": True, "classes": ("a", "b", "c"), "tags": ("x", "y"), "spans": True}
BERT = {
    **{
        f"{norm_place}-{types}-types": {"norm_place": norm_place, "token_types": types, **HEADS}
        for norm_place, types in itertools.product(("post", "pre"), (0, 2))
    },
    "no_pooler": {"pooler": "none", **HEADS},
    "relu_pooler": {"pooler": "relu", "token_types": 0, **HEADS},
    "rotary": {"positions": "rotary", "norm": "rms", "activation": "gated_gelu", **HEADS},
    "window": {"window": 2, "positions": "buckets", **HEADS},
}
LABELS = {"classes": ("a", "b", "c"), "tags": ("x", "y")}
RNN = {
    **{cell: {"cell": cell} for cell in ("rnn", "gru", "gru_before", "lstm")},
    "untied": {"tied": False, "layers": 1},
    "elmo": {"both_ways": True},
    "elmo_gru": {"both_ways": True, "cell": "gru_before", "tied": False},
    "labels": {"cell": "gru", **LABELS},
    "labels_both": {"both_ways": True, "pool": "mean", **LABELS},
}
VARIANTS = {"gpt": GPT, "bert": BERT, "rnn": RNN}
WRITERS = {"gpt": GPT, "rnn": {k: v for k, v in RNN.items() if not k.startswith("labels")}}
FAST = {
    "learned-pre", "rotary-post", "mistral", "qwen3", "additive", "post-2-types", "window",
    "lstm", "gru_before", "elmo", "labels_both",
}  # fmt: skip
"""Each kind of positions, norm, score and heads once; all together they take long."""


def variants(**families):
    """The parameters of a fixture: all of them, the fast ones not marked."""
    return [
        pytest.param(
            (family, name), id=f"{family}-{name}", marks=() if name in FAST else pytest.mark.slow
        )
        for family, names in families.items()
        for name in names
    ]


MODELS = variants(**VARIANTS)


def config_of(family, name, **sizes):
    kind = FAMILIES[family].config
    return fitting(kind, SIZES | sizes, **VARIANTS[family][name])


def fresh(family, name):
    return build(config_of(family, name), VOCAB).eval()


def writes(model):
    return "decoder" in model.config.sides


def is_elmo(model):
    """Its loss is that of two networks, of which only one gives logits."""
    return writes(model) and model.config.bidirectional


def make(family, name):
    """A model whose norms, biases and tables are away from their plain beginnings too."""
    model = fresh(family, name)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


@pytest.fixture(params=MODELS)
def model(request):
    return make(*request.param)


@pytest.fixture(params=variants(**WRITERS))
def gpt(request):
    return make(*request.param)


@pytest.fixture
def rows(ragged):
    return ragged(LENGTHS).split()


def as_texts(rows):
    """Rows of ids; the second half of each is a second sentence."""
    types = [int(2 * position >= len(row)) for row in rows for position in range(len(row))]
    return Ragged.of(rows).typed(torch.tensor(types))


def outputs(model, rows, tap=None):
    """All that a model gives for rows of ids, by the head's name, cut into one part a row."""
    if writes(model):
        tensors = {"logits": model(Ragged.of(rows), tap)}
    else:
        texts = as_texts(rows)
        hidden = model.hidden(texts, tap)
        tensors = {
            "hidden": hidden,
            "classes": model.classify(texts, tap),
            "tags": model.tag(texts, tap),
        }
        if model.config.family == "bert":
            tensors |= {
                "masked": model(texts, tap),
                "next_sentence": model.next_sentence(model.pooled(texts, hidden)),
                "spans": model.answer(texts, tap),
            }
    of_texts = [1] * len(rows)
    return {
        name: out.split(of_texts if name in ("next_sentence", "classes") else [*map(len, rows)])
        for name, out in tensors.items()
    }


def close(actual, expected, atol=1e-5):
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


def test_the_families_of_one_stack_are_under_contract():
    assert set(VARIANTS) <= set(FAMILIES)
    for heads in HEADS:
        assert all(heads in fields for fields in BERT.values())


@torch.no_grad()
def test_a_ragged_batch_is_its_texts_one_by_one(model, rows):
    together = outputs(model, rows)
    for number, row in enumerate(rows):
        for name, (alone,) in outputs(model, [row]).items():
            close(alone, together[name][number])


@torch.no_grad()
def test_a_longer_neighbour_does_not_change_a_text(model, rows, ragged):
    [longer] = ragged((20,), seed=5).split()
    before, after = outputs(model, rows), outputs(model, [longer, *rows])
    for name, parts in before.items():
        close(torch.cat(after[name][1:]), torch.cat(parts))


@torch.no_grad()
def test_a_token_acts_on_its_own_text_alone_and_not_on_the_past(model, rows):
    """The batch stands there once for each change."""
    before = outputs(model, rows)
    looks_back = writes(model)
    cells = ((0, 0), (0, 3), (1, 0), (2, 2), (3, 5))
    changed = [list(ids) for _ in cells for ids in rows]
    for number, (row, position) in enumerate(cells):
        ids = changed[number * len(rows) + row]
        ids[position] = (ids[position] + 1) % VOCAB
    after = outputs(model, changed)
    for number, (row, position) in enumerate(cells):
        copies = slice(number * len(rows), (number + 1) * len(rows))
        for name, parts in after.items():
            others = [i for i in range(len(rows)) if i != row]
            close([parts[copies][i] for i in others], [before[name][i] for i in others])
            if looks_back:
                close(parts[copies][row][:position], before[name][row][:position])
        by_token = "logits" if looks_back else "hidden"
        change = (after[by_token][copies][row] - before[by_token][row]).abs().amax(1)
        reached = change > 1e-5
        window = getattr(model.config, "window", None)
        reach = len(rows[row]) if window is None else model.config.layers * (window - 1)
        forward = model.config.family == "rnn" and not model.config.bidirectional
        first = position if looks_back or forward else max(position - reach, 0)
        assert reached.nonzero().flatten().tolist() == [
            *range(first, min(position + reach + 1, len(rows[row])))
        ]


@torch.no_grad()
def test_steps_from_the_first_token_are_one_pass(gpt, ragged):
    ids = ragged((7,) * 3, seed=1).ids.view(3, 7)
    state = gpt.start(None, 3, 7)
    stepped = torch.stack([gpt.step(column, state) for column in ids.T], dim=1)
    close(stepped, gpt(Ragged(ids.flatten(), (7,) * 3)).view(3, 7, VOCAB))


@torch.no_grad()
@pytest.mark.parametrize("lengths", [(3, 1, 5), (4, 4, 4)], ids=["uneven", "even"])
def test_prompts_and_steps_are_one_pass_whatever_way_the_rows_take(gpt, ragged, lengths):
    """Each row is read at once, then beams part, move, and leave, the longest too."""
    past = ragged(lengths, seed=2).split()
    state = gpt.start(None, len(past), max(lengths) + 5)
    logits = gpt.read(Ragged.of(past), state)
    random = torch.Generator().manual_seed(3)
    for order in ([0, 0, 1, 1, 2, 2], [1, 0, 3, 2, 4, 4], [3, 2, 0, 0], [1, 0], [1, 1]):
        whole = outputs(gpt, past)["logits"]
        close(logits, torch.stack([part[-1] for part in whole]))
        state.reorder(torch.tensor(order))
        ids = torch.randint(VOCAB, (len(order),), generator=random)
        past = [[*past[row], token] for row, token in zip(order, ids.tolist(), strict=True)]
        logits = gpt.step(ids, state)
    close(logits, torch.stack([part[-1] for part in outputs(gpt, past)["logits"]]))


@torch.no_grad()
def test_a_tap_on_everything_changes_no_bit_and_its_weights_give_the_output(model, rows):
    tap, plain = Tap("*"), outputs(model, rows)
    for name, parts in outputs(model, rows, tap).items():
        assert torch.equal(torch.cat(parts), torch.cat(plain[name]))
    assert set(tap.records) == set(model.sites())
    stack = model.decoder if writes(model) else model.encoder
    real = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]  # (batch, query)
    for layer in stack.attentions():
        weights = tap.records[f"{layer.name}.weights"]
        v = tap.records[f"{layer.name}.v"].repeat_interleave(4 // layer.kv_heads, dim=1)
        close((weights @ v).transpose(1, 2)[real],
              tap.records[f"{layer.name}.heads"].transpose(1, 2)[real])  # fmt: skip
        sums = weights.sum(-1).transpose(1, 2)[real]
        close(sums, torch.ones_like(sums))


@torch.no_grad()
def test_a_tap_changes_no_bit_of_prompts_and_steps(gpt, ragged):
    prompts, ids = ragged((3, 1, 5), seed=2), torch.tensor([4, 5, 6])
    states = [gpt.start(None, 3, 8) for _ in range(2)]
    tap = Tap("*")
    assert torch.equal(gpt.read(prompts, states[0], tap), gpt.read(prompts, states[1]))
    sites = set(gpt.sites())
    if is_elmo(gpt):  # what reads from the end takes no part in decoding
        sites = {site for site in sites if ".backward." not in site}
    assert set(tap.records) == sites
    assert tap.records["logits"].shape == (3, 1, VOCAB)
    assert torch.equal(gpt.step(ids, states[0], tap), gpt.step(ids, states[1]))


@torch.no_grad()
def test_an_edit_of_the_logits_acts_on_the_first_token_after_a_prompt_too(gpt):
    only = F.one_hot(torch.tensor(7), VOCAB).float()
    tap = Tap(edits=[Edit("logits", lambda logits: only.expand_as(logits))])
    [[hypothesis]] = decode(
        gpt, None, SYMBOLS, DecodeConfig(max_length=3), prompts=[[5, 6]], tap=tap
    )
    assert hypothesis.ids == (7, 7, 7)


@torch.no_grad()
def test_a_head_that_is_knocked_out_is_one_whose_output_columns_are_zero(model, rows):
    if model.config.family == "rnn":
        assert not model.heads()
        return
    head = model.heads()[5]  # the second of the upper layer
    layer, _, number = head.rpartition(".")
    edited = outputs(model, rows, Tap(edits=[knock_out(head)]))
    before = outputs(model, rows)
    stack = model.decoder if writes(model) else model.encoder
    [attention] = [module for module in stack.attentions() if module.name == layer]
    columns = slice(int(number) * attention.head_dim, (int(number) + 1) * attention.head_dim)
    attention.out.weight[:, columns] = 0
    for name, parts in outputs(model, rows).items():
        close(torch.cat(edited[name]), torch.cat(parts))
        assert not torch.allclose(torch.cat(edited[name]), torch.cat(before[name]), atol=1e-4)


def losses(model, rows, wanted):
    """The loss of every head at once, with easy targets, as PyTorch counts it."""
    if is_elmo(model):
        return model.loss(Ragged.of(rows), wanted) / len(wanted)
    tensors = {name: torch.cat(parts) for name, parts in outputs(model, rows).items()}
    tensors.pop("hidden", None)
    return sum(
        F.cross_entropy(out, wanted[: len(out)] % out.shape[1]) for out in tensors.values()
    ) / len(tensors)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_and_its_gradients_are_those_of_the_logits(model, rows, ragged, smoothing):
    wanted = ragged((sum(LENGTHS),), seed=2).ids
    if is_elmo(model) or not hasattr(model, "head" if writes(model) else "masked"):
        pytest.skip("tests/models/test_rnn.py")
    if writes(model):
        ours = model.loss(Ragged.of(rows), wanted, smoothing)
        logits = model(Ragged.of(rows))
    else:
        hidden = model.hidden(as_texts(rows))
        ours, logits = model.masked.loss(hidden, wanted, smoothing), model(as_texts(rows))
    theirs = F.cross_entropy(logits, wanted, reduction="sum", label_smoothing=smoothing)
    close(ours, theirs, atol=1e-4)
    weights = [*model.parameters()]
    gradients = [torch.autograd.grad(loss, weights, allow_unused=True) for loss in (ours, theirs)]
    for mine, expected in zip(*gradients, strict=True):
        assert (mine is None) == (expected is None)
        if mine is not None:
            close(mine, expected, atol=1e-3)


@pytest.mark.slow
def test_the_loss_of_one_batch_falls_and_every_weight_takes_part(model, rows, ragged):
    model.train()
    wanted = ragged((sum(LENGTHS),), seed=2).ids
    optimizer = Adam(model.parameters(), lr=1e-2)
    seen = []
    for _ in range(30):
        loss = losses(model, rows, wanted)
        seen.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        if sum(seen[-3:]) / 3 < 0.7 * seen[0]:
            break  # more steps would show nothing more
        optimizer.step()
    assert sum(seen[-3:]) / 3 < 0.7 * seen[0]
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


@pytest.mark.parametrize("variant", MODELS)
@torch.no_grad()
def test_the_first_loss_is_that_of_an_even_guess(variant, ragged):
    (family, name), vocab = variant, 60
    model = build(config_of(family, name, dim=64, hidden=128), vocab).eval()
    if name.startswith("labels"):
        return  # it predicts no token
    texts, wanted = ragged((9,) * 12, vocab), ragged((108,), vocab, seed=2).ids
    logits = model(texts)
    assert F.cross_entropy(logits, wanted).item() == pytest.approx(math.log(vocab), abs=0.3)


def test_dropout_is_off_in_eval_and_on_in_training(model, rows):
    name = "logits" if writes(model) else "classes"
    first, again = (torch.cat(outputs(model, rows)[name]) for _ in range(2))
    assert torch.equal(first, again)
    model.train()
    first, again = (torch.cat(outputs(model, rows)[name]) for _ in range(2))
    assert not torch.equal(first, again)


@torch.no_grad()
def test_what_describe_says_builds_the_same_model_again(model, rows):
    again = rebuild(json.loads(json.dumps(describe(model)))).eval()
    assert again.config == model.config
    again.load_state_dict(model.state_dict())
    expected = outputs(model, rows)
    for name, parts in outputs(again, rows).items():
        assert torch.equal(torch.cat(parts), torch.cat(expected[name]))


@pytest.mark.slow
@pytest.mark.skipif(
    int8.ENGINE not in torch.backends.quantized.supported_engines, reason="needs x86 with AVX2"
)
@torch.no_grad()
def test_a_twin_in_8_bits_is_near_and_does_not_mix_the_texts_of_a_batch(model, rows):
    twin = quantise(model)
    exact, together = outputs(model, rows), outputs(twin, rows)
    for name, parts in together.items():
        whole, size = torch.cat(exact[name]), torch.cat(exact[name]).norm()
        assert (torch.cat(parts) - whole).norm() < 0.15 * size
        for number, row in enumerate(rows):
            # the product of queries and keys is in 32 bits, and a last bit may round another way
            close(outputs(twin, [row])[name][0], parts[number], atol=0.05 * whole.std().item())


def next_logits(model, ids):
    with torch.no_grad():
        return model(Ragged.of([ids]))[-1]


def greedily(model, prompt, steps, processors=()):
    """Token by token, reading everything again each time."""
    ids = list(prompt)
    for _ in range(steps):
        scores = next_logits(model, ids)[None]
        for process in processors:
            scores = process(torch.tensor([ids]), scores)
        token = int(scores.argmax())
        if token == END:
            break
        ids.append(token)
    return tuple(ids[len(prompt) :])


def by_beams(model, prompt, width, steps):
    """The best hypothesis of a beam search that reads everything again each time."""
    beams, finished = [(0.0, ())], []
    for step in range(1, steps + 1):
        options = sorted(
            ((total + gain, ids, token)
             for total, ids in beams
             for token, gain in enumerate(
                 next_logits(model, [*prompt, *ids]).log_softmax(0).tolist())),
            reverse=True,
        )[: 2 * width]  # fmt: skip
        ended = [step == steps or token == END for _, _, token in options]
        for (total, ids, token), over in zip(options[:width], ended, strict=False):
            if over:
                finished.append((total / step, ids if token == END else (*ids, token)))
        going = [option for option, over in zip(options, ended, strict=True) if not over]
        beams = [(total, (*ids, token)) for total, ids, token in going][:width]
        finished = sorted(finished, reverse=True)[:width]
        if not beams or (len(finished) == width and beams[0][0] / steps <= finished[-1][0]):
            break
    return finished[0]


PROMPTS = [[BEGIN, 5, 6, 7, 5, 6], [BEGIN], [BEGIN, 9, 4]]


def test_greedy_decoding_of_prompts_is_a_loop_that_reads_everything_again(gpt):
    results = decode(gpt, None, SYMBOLS, DecodeConfig(max_length=8), prompts=PROMPTS)
    for prompt, [best] in zip(PROMPTS, results, strict=True):
        assert best.ids == greedily(gpt, prompt, 8)


@pytest.mark.slow
def test_beam_search_of_prompts_is_a_loop_that_reads_everything_again(gpt):
    config = DecodeConfig(beam=3, max_length=6, stop="never")
    results = decode(gpt, None, SYMBOLS, config, prompts=PROMPTS)
    for prompt, [best] in zip(PROMPTS, results, strict=True):
        score, ids = by_beams(gpt, prompt, 3, 6)
        assert best.ids == ids
        assert best.score == pytest.approx(score, abs=1e-4)


REPEATS = {"repetition_penalty": 4.0, "no_repeat_ngram": 2}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama", "buckets-pre", "learned-post"])
@pytest.mark.parametrize("chosen", [("repetition_penalty",), ("no_repeat_ngram",), tuple(REPEATS)])
def test_what_was_read_counts_as_said_before_in_each_text_by_itself(name, chosen):
    from transformers import NoRepeatNGramLogitsProcessor, RepetitionPenaltyLogitsProcessor

    gpt = make("gpt", name)
    theirs = {
        "repetition_penalty": RepetitionPenaltyLogitsProcessor(REPEATS["repetition_penalty"]),
        "no_repeat_ngram": NoRepeatNGramLogitsProcessor(REPEATS["no_repeat_ngram"]),
    }
    prompts = [[BEGIN, 5, 6, 7, 5, 6, 3, 4, 3], [BEGIN], [9, 4, 9], [3, 3]]
    asked = {key: REPEATS[key] for key in chosen}
    config = DecodeConfig(max_length=12, banned=(END,), **asked)
    results = decode(gpt, None, SYMBOLS, config, prompts=prompts)

    def no_end(ids, scores):
        del ids
        return scores.index_fill(1, torch.tensor([END]), -torch.inf)

    processors = [*(theirs[key] for key in chosen), no_end]
    for prompt, [best] in zip(prompts, results, strict=True):
        assert best.ids == greedily(gpt, prompt, 12, processors)
    assert any(
        best.ids != greedily(gpt, prompt, 12, [no_end])
        for prompt, [best] in zip(prompts, results, strict=True)
    )
    beams = config.model_copy(update={"beam": 3})
    together = decode(gpt, None, SYMBOLS, beams, prompts=prompts)
    for prompt, [best] in zip(prompts, together, strict=True):
        [[alone]] = decode(gpt, None, SYMBOLS, beams, prompts=[prompt])
        assert best.ids == alone.ids
