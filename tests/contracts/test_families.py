"""What every family must hold, in every variation: run over a small model of each."""

from __future__ import annotations

import itertools
import json

import pytest
import torch
import torch.nn.functional as F

from regard.inputs.arrays import Ragged
from regard.layers import Tap
from regard.models import FAMILIES, build, describe, rebuild
from regard.train.adam import Adam
from tests.configs import fitting

VOCAB = 11
SOURCE, TARGET = (4, 2, 6, 1), (5, 3, 1, 6)
SIZES = {"dim": 16, "heads": 4, "hidden": 24, "dropout": 0.1, "max_length": 32}
TRANSFORMER = {
    **{
        f"{positions}-{norm_place}": {"positions": positions, "norm_place": norm_place}
        for positions, norm_place in itertools.product(
            ("sinusoidal", "learned", "rotary", "buckets", "none"), ("pre", "post")
        )
    },
    "gelu": {"activation": "gelu"},
    "gated_gelu": {"activation": "gated_gelu"},
    "grouped": {"kv_heads": 2},
    "one_key": {"kv_heads": 1, "positions": "rotary"},
    "rms": {"norm": "rms", "bias": False, "activation": "gated_silu"},
    "tied_output": {"tied": "output"},
    "untied": {"tied": "none", "norm_place": "post", "final_norm": True},
    "plain_dot": {"score": "dot", "positions": "buckets", "norm": "rms", "bias": False},
    "additive": {"score": "additive"},
    "additive_grouped": {"score": "additive", "kv_heads": 2, "positions": "buckets"},
    "attention_dropout": {"attention_dropout": 0.2},
    "halves": {"positions": "sinusoidal_halves", "embedding_norm": True, "output_bias": True},
    "window": {"window": 2, "query_key_norm": True},
    "narrow_heads": {"head_dim": 6, "positions": "rotary", "attention_bias": "qkv"},
    "shared_inputs": {"tied": "inputs", "scaled_embedding": False, "hidden_dropout": 0.0},
    "uneven_depth": {"encoder_layers": 1, "decoder_layers": 3},
}
T5 = {
    "plain": {},
    "gated": {"activation": "gated_gelu_tanh", "tied": "inputs", "scaled_output": False},
    "narrow_heads": {"head_dim": 3, "buckets": 8, "farthest": 6},
}
SEQ2SEQ = {
    **{
        f"{cell}-{attention}": {"cell": cell, "attention": attention}
        for cell, attention in itertools.product(
            ("rnn", "gru", "lstm"), ("additive", "dot", "none")
        )
    },
    "sutskever": {"cell": "lstm", "attention": "none", "context": "first", "encoder": "backward"},
    "last_word": {"last_word": True, "encoder": "forward", "cell": "gru_before"},
    "location": {"attention": "location", "cell": "lstm"},
    "hard": {"hard_attention": True},
    "sampled": {"hard_attention": "sampled", "attention": "dot"},
    "deep": {"encoder_layers": 3, "decoder_layers": 2},
    "deep_lstm": {"cell": "lstm", "decoder_layers": 3, "tied": "output"},
    "deep_fixed": {"attention": "none", "decoder_layers": 2, "tied": "none"},
}
CONVS2S = {
    "convolutions": {},
    "wide_kernel": {"kernel": 5, "encoder_layers": 3, "decoder_layers": 1, "heads": 1},
    "without_positions": {"positions": "none", "norm": "rms", "bias": False, "tied": "none"},
}
VARIANTS = {"transformer": TRANSFORMER, "t5": T5, "seq2seq": SEQ2SEQ, "convs2s": CONVS2S}
ALONE = {"gpt", "bert", "rnn"}
"""Families of one stack: tests/contracts/test_one_stack.py."""
OF_IMAGES = {"vit", "cnn", "resnet", "swin"}
"""Families that read images: tests/contracts/test_image_families.py."""
OF_BOTH = {"captioner"}
"""Families that read images and write texts: tests/models/test_captioner.py."""
OF_TABLES = {"mlp"}
"""Families that read rows of a table: tests/models/test_mlp.py."""
FAST = {
    "learned-pre", "rotary-post", "rms", "additive_grouped", "window", "plain",
    "convolutions", "gru-additive", "lstm-none", "rnn-dot", "deep_lstm",
    "sutskever", "last_word", "location", "hard",
}  # fmt: skip
"""Each kind of positions, norm, score and heads once; all together they take long."""
MODELS = [
    pytest.param(
        (family, name), id=f"{family}-{name}", marks=() if name in FAST else pytest.mark.slow
    )
    for family, variants in VARIANTS.items()
    for name in variants
]


def test_every_family_is_under_contract():
    assert set(VARIANTS) | ALONE | OF_IMAGES | OF_BOTH | OF_TABLES == set(FAMILIES)


@pytest.fixture(params=MODELS)
def model(request):
    family, name = request.param
    config = fitting(FAMILIES[family].config, SIZES, **VARIANTS[family][name])
    return build(config, VOCAB, VOCAB).eval()


@pytest.fixture
def pair(ragged):
    return ragged(SOURCE), ragged(TARGET, seed=1)


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-5)


@torch.no_grad()
def steps(model, source, rows, beams=1):
    """The logits of whole rows of tokens, one step at a time: (rows, steps, vocab)."""
    state = model.start(model.encode(source), beams, rows.shape[1])
    return torch.stack([model.step(ids, state) for ids in rows.T], dim=1)


def test_logits_have_a_row_for_each_target_token(model, pair):
    assert model(*pair).shape == (sum(TARGET), VOCAB)


@pytest.mark.slow
def test_the_loss_of_one_batch_falls_and_every_weight_takes_part(model, pair, ragged):
    model.train()
    wanted = ragged(TARGET, seed=2).ids
    optimizer = Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        loss = F.cross_entropy(model(*pair), wanted)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        if sum(losses[-3:]) / 3 < 0.7 * losses[0]:
            break  # more steps would show nothing more
        optimizer.step()
    assert sum(losses[-3:]) / 3 < 0.7 * losses[0]
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@torch.no_grad()
def test_a_batch_is_its_sentences_one_by_one(model, pair):
    """Each sentence is padded differently in the batch, and not at all by itself."""
    together = model(*pair).split(TARGET)
    for source, target, logits in zip(*(side.split() for side in pair), together, strict=True):
        close(model(Ragged.of([source]), Ragged.of([target])), logits)


@torch.no_grad()
def test_a_longer_neighbour_does_not_change_a_sentence(model, pair, ragged):
    source, target = pair[0].split(), pair[1].split()
    longer = ragged((20,), seed=5).ids.tolist()
    more = model(Ragged.of([longer, *source]), Ragged.of([longer, *target]))[20:]
    close(more, model(*pair))


@torch.no_grad()
def test_a_target_token_does_not_see_the_future(model, pair):
    """The batch stands there once for each of its tokens, with that one changed."""
    source, target = pair
    before = model(*pair)
    cells = [(row, position) for row, length in enumerate(TARGET) for position in range(length)]
    changed = target.split() * len(cells)
    for number, (row, position) in enumerate(cells):
        ids = [*changed[number * len(TARGET) + row]]
        ids[position] = (ids[position] + 1) % VOCAB
        changed[number * len(TARGET) + row] = ids
    afters = model(Ragged.of(source.split() * len(cells)), Ragged.of(changed))
    for (row, position), after in zip(cells, afters.split(sum(TARGET)), strict=True):
        token = sum(TARGET[:row]) + position
        close(after[:token], before[:token])
        end = sum(TARGET[: row + 1])
        close(after[end:], before[end:])
        assert not torch.allclose(after[token], before[token], atol=1e-4)


@torch.no_grad()
def test_every_source_token_matters_to_its_own_sentence_alone(model, pair):
    source, target = pair
    before = model(*pair).split(TARGET)
    ids = source.split()
    ids[2][5] = (ids[2][5] + 1) % VOCAB
    after = model(Ragged.of(ids), target).split(TARGET)
    for row in (0, 1, 3):
        close(after[row], before[row])
    assert not torch.allclose(after[2], before[2], atol=1e-5)


@torch.no_grad()
def test_cached_is_uncached(model, ragged):
    source, rows = ragged(SOURCE), ragged((7,) * 4, seed=1).ids.view(4, 7)
    whole = model(source, Ragged(rows.flatten(), (7,) * 4)).view(4, 7, VOCAB)
    close(steps(model, source, rows), whole)


def test_beams_that_share_a_memory_are_rows_with_one_each(model, ragged):
    source, rows = ragged(SOURCE), ragged((4,) * 12, seed=1).ids.view(12, 4)
    repeated = Ragged.of([ids for ids in source.split() for _ in range(3)])
    close(steps(model, source, rows, beams=3), steps(model, repeated, rows))


@torch.no_grad()
def test_rows_that_move_and_sentences_that_leave_keep_their_past(model, ragged):
    """Whatever way a row has taken, its logits are those of its own tokens in one pass."""
    source = ragged(SOURCE)
    beams, number = 2, list(range(len(SOURCE)))  # the sentences that are left
    past = [[] for _ in range(8)]
    generator = torch.Generator().manual_seed(3)
    state = model.start(model.encode(source), beams, 6)
    for leaving in (None, 2, None, 0, 3):  # the longest, the first, the last
        ids = torch.randint(VOCAB, (len(past),), generator=generator)
        past = [[*row, token] for row, token in zip(past, ids.tolist(), strict=True)]
        logits = model.step(ids, state)
        read = Ragged.of([source.split()[number[row // beams]] for row in range(len(past))])
        whole = model(read, Ragged.of(past)).view(len(past), -1, VOCAB)
        close(logits, whole[:, -1])
        stay = [i for i, sentence in enumerate(number) if sentence != leaving]
        order = [
            i * beams + parent
            for i in stay
            for parent in torch.randint(beams, (beams,), generator=generator).tolist()
        ]
        number = [number[i] for i in stay]
        past = [past[row] for row in order]
        state.reorder(torch.tensor(order))


def test_a_tap_on_everything_leaves_the_output_bit_identical(model, pair):
    tap = Tap("*")
    assert torch.equal(model(*pair, tap), model(*pair))
    assert set(tap.records) == set(model.sites())


def test_dropout_is_off_in_eval_and_on_in_training(model, pair):
    assert torch.equal(model(*pair), model(*pair))
    model.train()
    assert not torch.equal(model(*pair), model(*pair))


@torch.no_grad()
def test_what_describe_says_builds_the_same_model_again(model, pair):
    again = rebuild(json.loads(json.dumps(describe(model)))).eval()
    assert again.config == model.config
    assert not torch.equal(again(*pair), model(*pair))  # fresh weights
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(*pair), model(*pair))
