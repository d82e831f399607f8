"""Recurrent networks of one stack against PyTorch's own layers, and what a tap sees and edits."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.decode.config import DecodeConfig
from regard.decode.engine import decode
from regard.decode.filters import Symbols
from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.layers import Edit, Tap
from regard.models import RNNConfig, build

VOCAB, DIM, LENGTHS = 11, 8, (5, 1, 3, 6)
KINDS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
LABELS = {"classes": ("a", "b", "c"), "tags": ("x", "y")}


def make(**fields):
    model = build(RNNConfig(dim=DIM, layers=2, dropout=0.0, **fields), VOCAB).eval()
    with torch.no_grad():  # away from plain beginnings
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def close(actual, expected, atol=2e-6):
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


def theirs(model, cells_of, width, inputs=None):
    """PyTorch's module of two layers with the weights of the model's."""
    network = KINDS[model.config.cell](inputs or width, width, 2, bidirectional=inputs is not None)
    stack = getattr(model, model.reader)
    for number, block in enumerate(stack.layers()):
        for name, weight in cells_of(block.recurrent).named_parameters():
            getattr(network, name.replace("_l0", f"_l{number}")).data = weight.data
    return network


@pytest.mark.parametrize("cell", KINDS)
@torch.no_grad()
def test_a_language_model_is_pytorchs_layers_and_the_embedding_again(cell, ragged):
    model, texts = make(cell=cell), ragged(LENGTHS)
    layers = theirs(model, lambda recurrent: recurrent.cells, DIM)
    for ids, logits in zip(texts.split(), model(texts).split(LENGTHS), strict=True):
        states, _ = layers(model.embed.weight[ids] * DIM**0.5)
        close(logits, states @ model.embed.weight.T + model.head.bias)


@pytest.mark.parametrize("cell", KINDS)
def test_elmo_is_two_language_models_with_one_embedding(cell, ragged):
    model, texts, wanted = make(cell=cell, both_ways=True), ragged(LENGTHS), ragged(LENGTHS, seed=1)
    half = DIM // 2
    forward = theirs(model, lambda recurrent: recurrent.cells, half)
    backward = theirs(model, lambda recurrent: recurrent.backward_cells, half)
    total = 0.0
    with torch.no_grad():
        hidden, logits = model.hidden(texts).split(LENGTHS), model(texts).split(LENGTHS)
        rows = zip(texts.split(), wanted.split(), hidden, logits, strict=True)
        for ids, after, vectors, said in rows:
            x, y = (model.embed.weight[tokens] * half**0.5 for tokens in (ids, after))
            states, behind = forward(x)[0], backward(x.flip(0))[0].flip(0)
            close(vectors, torch.cat((states, behind), 1))
            close(said, states @ model.head.weight.T + model.head.bias)
            # the network that reads from the end sees what follows, and predicts the text
            behind = backward(y.flip(0))[0].flip(0)
            for state, right in ((states, after), (behind, ids)):
                scores = state @ model.head.weight.T + model.head.bias
                total += F.cross_entropy(scores, torch.tensor(right), reduction="sum") / 2
    close(model.loss(texts, wanted.ids), total, atol=1e-4)


@pytest.mark.parametrize("pool", ["last", "mean"])
@torch.no_grad()
def test_a_classifier_and_tagger_of_both_ways_is_pytorchs_bidirectional_network(pool, ragged):
    model, texts = make(cell="gru", both_ways=True, pool=pool, **LABELS), ragged(LENGTHS)
    layers = theirs(model, lambda recurrent: recurrent.cells, DIM // 2, DIM)
    tags = model.tag(texts).split(LENGTHS)
    for ids, classes, tag_logits in zip(texts.split(), model.classify(texts), tags, strict=True):
        states, last = layers(model.embed.weight[ids] * DIM**0.5)
        pooled = states.mean(0) if pool == "mean" else last[-2:].flatten()
        close(classes, model.classes(pooled))
        close(tag_logits, model.tags(states))


def test_a_token_that_is_predicted_is_not_seen():
    """The gradient of each network's states in the loss reaches no token that it predicts."""
    model = make(both_ways=True)
    ids = torch.tensor([3, 4, 5, 6, 7])
    x = model.embed(torch.stack((ids[:-1], ids[1:]), 1), ids[:-1], model.decoder.positions)
    x.retain_grad()
    ctx = model._context(Ragged(ids[:-1], (4,)))
    states = model.decoder(x, ctx)
    half = DIM // 2
    states[1, :half].sum().backward(retain_graph=True)  # it predicts ids[2]
    assert x.grad[:2, :half].any(1).all()
    assert not x.grad[2:].any()
    assert not x.grad[:, half:].any()
    x.grad = None
    states[1, half:].sum().backward()  # it has read ids[2:], and predicts ids[1]
    assert x.grad[1:, half:].any(1).all()
    assert not x.grad[:1].any()
    assert not x.grad[:, :half].any()


SYMBOLS = Symbols(begin=1, end=2, pad=0)
PROMPTS = [[1, 5, 6, 7, 5], [1], [1, 9, 4]]


@pytest.mark.parametrize("fields", [{"cell": "lstm"}, {"cell": "gru_before", "both_ways": True}])
@torch.no_grad()
def test_an_edit_of_a_gate_acts_on_prompts_steps_and_whole_texts_alike(fields):
    """The edit is felt at each step of a beam as if the whole text were read at once."""
    model, gate = make(**fields), "forget" if fields["cell"] == "lstm" else "update"
    tap = Tap(
        "decoder.0.recurrent.state", edits=[Edit(f"decoder.0.recurrent.{gate}", torch.zeros_like)]
    )
    config = DecodeConfig(beam=3, n_best=2, max_length=5)
    results = decode(model, None, SYMBOLS, config, prompts=PROMPTS, tap=tap)
    assert results != decode(model, None, SYMBOLS, config, prompts=PROMPTS)
    for prompt, hypotheses in zip(PROMPTS, results, strict=True):
        for hypothesis in hypotheses:
            text = [*prompt, *hypothesis.ids]
            table = model(Ragged.of([text]), Tap(edits=tap.edits))[len(prompt) - 1 :].log_softmax(1)
            said = torch.tensor([*hypothesis.ids, SYMBOLS.end][: len(hypothesis.rows)])
            whole = float(table[: len(said)].gather(1, said[:, None]).sum())
            assert hypothesis.logprob == pytest.approx(whole, abs=1e-4)


@torch.no_grad()
def test_a_forget_gate_that_is_shut_leaves_the_last_token_alone(ragged):
    """c = i ⊙ g of one token. The state before it also acts through U, so U is 0 here."""
    model = make(cell="lstm")
    for block in model.decoder.layers():
        block.recurrent.cells.weight_hh_l0.zero_()
    shut = Tap(edits=[Edit("decoder.*.recurrent.forget", torch.zeros_like)])
    texts = ragged(LENGTHS)
    alone = torch.cat([model(Ragged.of([[token]])) for token in texts.ids.tolist()])
    close(model(texts, shut), alone)
    assert not torch.allclose(model(texts), alone, atol=1e-3)


def test_a_reader_without_a_head_says_how_to_train_one(ragged):
    model = make(classes=LABELS["classes"])
    with pytest.raises(InputError, match=r"no head for tags\ntrain one: own/rnn"):
        model.tag(ragged(LENGTHS))
