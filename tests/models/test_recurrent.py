"""The recurrent translator against plain loops, written out here, and what a tap sees and edits."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.decode.config import DecodeConfig
from regard.decode.engine import decode
from regard.decode.filters import Symbols
from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.kernels import int8
from regard.kernels.dropout import drawing_from
from regard.layers import Edit, Mask, Tap, knock_out, replace
from regard.layers.scores import attend_unfused, hardmax
from regard.layers.tap.without_head import without_head
from regard.models import Seq2SeqConfig, build
from regard.models.meta_model import meta_model
from regard.models.quantise import quantise

VOCAB, DIM = 11, 8
SOURCE, TARGET = (4, 2, 6, 1), (5, 3, 1, 6)
WHOLE = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
VARIANTS = [
    {"attention": "additive"},
    {"attention": "dot"},
    {"attention": "additive", "encoder_layers": 2, "decoder_layers": 2},
    {"attention": "location"},
    {"attention": "additive", "last_word": True, "encoder": "forward"},
    {"attention": "dot", "hard_attention": True, "encoder": "backward"},
]
CELLS = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}
WEIGHTS = "decoder.0.cross.weights"


def make(**fields):
    config = Seq2SeqConfig(dim=DIM, dropout=0.0, **fields)
    model = build(config, VOCAB, VOCAB).eval()
    with torch.no_grad():  # away from plain beginnings, and sharp enough to tell weights apart
        for parameter in model.parameters():
            parameter.add_(0.4 * torch.randn_like(parameter))
    return model


@pytest.fixture
def pair(ragged):
    return ragged(SOURCE), ragged(TARGET, seed=1)


def close(actual, expected, atol=1e-6):
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


def their(kind, layer, **sizes):
    """PyTorch's module with a layer's weights."""
    weights = dict(layer.named_parameters())
    module = kind(**sizes).to(next(iter(weights.values())))
    for name, parameter in module.named_parameters():
        weight = weights[name if name in weights else f"{name}_l0"]
        parameter.data = weight.data
    return module


def encoded(model, ids):
    """One sentence through PyTorch's own layers: (length, dim)."""
    x = model.source_embed.weight[ids] * DIM**0.5
    direction = model.config.encoder.recurrent.direction
    both, backward = direction == "both", direction == "backward"
    for block in model.encoder.layers():
        cells = block.recurrent.cells
        sizes = {"input_size": DIM, "hidden_size": DIM // (1 + both), "bidirectional": both}
        x, _ = their(WHOLE[model.config.cell], cells, **sizes)(x.flip(0) if backward else x)
        x = x.flip(0) if backward else x
    return x


def begun(model, h):
    """What each layer of the decoder holds at first: s_0 = tanh(W backward_1), or of forward_n."""
    direction = model.config.encoder.recurrent.direction
    read = {"both": h[0, DIM // 2 :], "backward": h[0], "forward": h[-1]}[direction]
    first = (model.decoder.first.weight @ read + model.decoder.first.bias).tanh()
    states = 2 if model.config.cell == "lstm" else 1
    return first.view(model.config.decoder.layers, states, DIM)


def logits_of(model, states, contexts, y):
    """E tanh(W_o [s; c; y]), each token by itself."""
    read = model.decoder.readout
    tops = [
        torch.tanh(read.weight @ torch.cat((s, c, e)) + read.bias)
        for s, c, e in zip(states, contexts, y, strict=True)
    ]
    return torch.stack(tops) @ model.head.weight.T


def plainly(model, source, target, alignment=None):
    """Bahdanau's equations for one pair, a token at a time; also the weights (query, key)."""
    h, y = encoded(model, source), model.target_embed.weight[target] * DIM**0.5
    look, cell = model.decoder.blocks[0].cross_attention, CELLS[model.config.cell]
    layers = [
        their(cell, block.recurrent.cells, input_size=DIM * (1 + (n == 0)), hidden_size=DIM)
        for n, block in enumerate(model.decoder.layers())
    ]
    layer_states = [tuple(state) for state in begun(model, h)]
    rows, states, contexts = [], [], []
    for token in y:
        query = (
            torch.cat((layer_states[0][0], token)) if model.config.last_word else layer_states[0][0]
        )
        q, keys = look.query.weight @ query, look.key_value.weight[: len(h)]  # p_i
        if model.config.attention.kind != "location":
            keys = [look.key_value.weight @ h_i for h_i in h]
        if model.config.attention.kind == "additive":
            e = torch.stack([look.score.vector[0] @ (q + key).tanh() for key in keys])
        else:
            e = torch.stack([q @ key for key in keys])
        alpha = e.softmax(0) if alignment is None else alignment(e)
        if model.config.hard_attention:
            alpha = torch.eye(len(e))[e.argmax()]
        context = sum(weight * h_i for weight, h_i in zip(alpha, h, strict=True))
        x = torch.cat((token, context))
        for number, layer in enumerate(layers):
            before = tuple(tensor[None] for tensor in layer_states[number])
            new = layer(x[None], before if model.config.cell == "lstm" else before[0])
            layer_states[number] = tuple(
                tensor[0] for tensor in (new if isinstance(new, tuple) else (new,))
            )
            x = layer_states[number][0]
        rows.append(alpha)
        states.append(x)
        contexts.append(context)
    return logits_of(model, states, contexts, y), torch.stack(rows)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("fields", VARIANTS, ids=str)
def test_it_is_a_plain_loop_over_each_sentence(cell, fields, pair):
    model = make(cell=cell, **fields)
    tap = Tap(WEIGHTS)
    with torch.no_grad():
        logits = model(*pair, tap).split(TARGET)
        for row, (source, target) in enumerate(zip(*(s.split() for s in pair), strict=True)):
            expected, weights = plainly(model, source, target)
            close(logits[row], expected, atol=2e-6)
            close(tap.records[WEIGHTS][row, 0, : len(target), : len(source)], weights)


@pytest.mark.parametrize("cell", CELLS)
@torch.no_grad()
def test_without_attention_it_is_pytorchs_recurrence_fed_the_context(cell, pair):
    model = make(cell=cell, attention="none", encoder_layers=2)
    logits = model(*pair).split(TARGET)
    for row, (source, target) in enumerate(zip(*(side.split() for side in pair), strict=True)):
        h, y = encoded(model, source), model.target_embed.weight[target] * DIM**0.5
        context = torch.cat((h[-1, : DIM // 2], h[0, DIM // 2 :])).expand(len(target), DIM)
        cells = model.decoder.blocks[0].recurrent.cells
        layer = their(WHOLE[cell], cells, input_size=2 * DIM, hidden_size=DIM)
        first = tuple(tensor[None] for tensor in begun(model, h)[0])
        states, _ = layer(torch.cat((y, context), 1), first if cell == "lstm" else first[0])
        close(logits[row], logits_of(model, states, context, y), atol=2e-6)


@pytest.mark.parametrize("encoder", ["both", "backward"])
@torch.no_grad()
def test_the_context_as_first_state_alone_is_a_language_model_that_begins_with_it(encoder, pair):
    model = make(cell="lstm", attention="none", context="first", encoder=encoder, decoder_layers=2)
    logits = model(*pair).split(TARGET)
    for row, (source, target) in enumerate(zip(*(side.split() for side in pair), strict=True)):
        x = model.target_embed.weight[target] * DIM**0.5
        first = begun(model, encoded(model, source))
        for block, (h, c) in zip(model.decoder.layers(), first, strict=True):
            layer = their(nn.LSTM, block.recurrent.cells, input_size=DIM, hidden_size=DIM)
            x, _ = layer(x, (h[None], c[None]))
        top = (x @ model.decoder.readout.weight.T + model.decoder.readout.bias).tanh()
        close(logits[row], top @ model.head.weight.T, atol=2e-6)


def test_the_gradient_of_hard_attention_is_that_of_soft():
    """Straight-through: d out / d scores as if the weights were the softmax."""
    scores, values = torch.randn(2, 1, 3, 4, requires_grad=True), torch.randn(2, 1, 4, 5)
    wanted = torch.randn(2, 1, 3, 5)
    hard = hardmax(scores.softmax(-1))
    assert sorted(hard.unique().tolist()) == [0.0, 1.0]
    assert torch.equal(hard.argmax(-1), scores.argmax(-1))
    grads = [
        torch.autograd.grad(((weights @ values) * wanted).sum(), scores)[0]
        for weights in (hard, scores.softmax(-1))
    ]
    close(*grads)


def test_gradients_are_those_of_the_plain_loop(pair):
    model = make(cell="gru").double()
    weights = [*model.parameters()]
    wanted = torch.randn(sum(TARGET), VOCAB, dtype=torch.float64)
    ours = torch.autograd.grad((model(*pair) * wanted).sum(), weights)
    layer = model.decoder.blocks[0].recurrent.cells
    plain = []
    for source, target in zip(*(side.split() for side in pair), strict=True):
        h, y = model.encode(Ragged.of([source])).x, model.target_embed.weight[target] * DIM**0.5
        look, state, rows = model.decoder.blocks[0].cross_attention, begun(model, h)[0, 0], []
        for token in y:
            e = (look.query(state[None]) + look.key_value(h)).tanh() @ look.score.vector[0]
            context = e.softmax(0) @ h
            into = layer.weight_ih_l0 @ torch.cat((token, context)) + layer.bias_ih_l0
            r, z, n = into.chunk(3)
            u_r, u_z, u_n = (layer.weight_hh_l0 @ state + layer.bias_hh_l0).chunk(3)
            r, z = (r + u_r).sigmoid(), (z + u_z).sigmoid()
            state = (1 - z) * (n + r * u_n).tanh() + z * state
            rows.append(logits_of(model, [state], [context], [token])[0])
        plain.append(torch.stack(rows))
    theirs = torch.autograd.grad((torch.cat(plain) * wanted).sum(), weights)
    for mine, expected in zip(ours, theirs, strict=True):
        close(mine, expected, atol=1e-9)


@torch.no_grad()
def test_a_uniform_alignment_is_the_mean_of_the_source(pair):
    model = make(cell="lstm")

    def even(weights):
        return (weights > 0).float() / (weights > 0).sum(-1, keepdim=True).clamp(min=1)

    logits = model(*pair, Tap(edits=[Edit(WEIGHTS, even)])).split(TARGET)
    for row, (source, target) in enumerate(zip(*(side.split() for side in pair), strict=True)):
        expected, _ = plainly(model, source, target, lambda e: torch.ones_like(e) / len(e))
        close(logits[row], expected, atol=2e-6)


@torch.no_grad()
def test_a_recorded_alignment_can_be_put_into_another_run(pair):
    model, other = make(), make()
    tap = Tap("*")
    model(*pair, tap)
    edits = [replace(site, tap.records[site]) for site in (WEIGHTS, "decoder.0.cross.v")]
    seen = Tap(WEIGHTS, "decoder.0.cross.heads", edits=edits)
    other(*pair, seen)
    close(seen.records[WEIGHTS], tap.records[WEIGHTS])
    real = torch.arange(max(TARGET)) < torch.tensor(TARGET)[:, None]
    heads = (recorder.records["decoder.0.cross.heads"][:, 0][real] for recorder in (seen, tap))
    close(*heads)


@torch.no_grad()
@pytest.mark.parametrize("fields", [{}, {"cell": "lstm", "decoder_layers": 2},
                                    {"cell": "gru_before", "hard_attention": True},
                                    {"attention": "location", "encoder": "backward"}])  # fmt: skip
def test_an_edit_that_changes_nothing_changes_nothing(fields, pair):
    """It takes the long way: all queries again at every token."""
    model = make(**fields)
    tap, plain = Tap("*", edits=[Edit("*", lambda value: value)]), Tap("*")
    close(model(*pair, tap), model(*pair, plain), atol=1e-5)
    assert set(tap.records) == set(plain.records) == set(model.sites())
    for site, value in plain.records.items():
        close(tap.records[site], value, atol=1e-5)


@torch.no_grad()
def test_an_update_gate_that_is_shut_keeps_the_first_state(pair):
    model = make()
    shut = Edit("decoder.0.recurrent.update", torch.ones_like)  # h = h as it was
    tap = Tap("decoder.0.recurrent.state", edits=[shut])
    memory = model.encode(pair[0])
    model(*pair, tap)
    first = begun(model, memory.x[:4])[0, 0]
    for state in tap.records["decoder.0.recurrent.state"][0, : TARGET[0]]:
        close(state, first)


@torch.no_grad()
def test_a_head_that_is_away_gives_no_context(pair):
    model = make()
    assert model.heads() == ["decoder.0.cross.0"]
    edited = model(*pair, Tap(edits=[knock_out("decoder.0.cross.0")]))
    close(without_head(model, model.heads())(*pair), edited)
    model.decoder.blocks[0].recurrent.cells.weight_ih_l0[:, DIM:] = 0
    model.decoder.readout.weight[:, DIM : 2 * DIM] = 0
    close(model(*pair), edited)


@torch.no_grad()
def test_weights_times_values_are_the_context_and_sites_say_their_shapes(pair):
    model, tap = make(), Tap("*")
    model(*pair, tap)
    shapes = {site: tuple(value.shape) for site, value in tap.records.items()}
    assert shapes[WEIGHTS] == shapes["decoder.0.cross.scores"] == (4, 1, 6, 6)
    assert shapes["decoder.0.recurrent.update"] == (4, 6, DIM)
    assert shapes["encoder.0.recurrent.backward.update"] == (4, 6, DIM // 2)
    real = torch.arange(6) < torch.tensor(TARGET)[:, None]
    heads = (tap.records[WEIGHTS] @ tap.records["decoder.0.cross.v"])[:, 0][real]
    close(heads, tap.records["decoder.0.cross.heads"][:, 0][real])
    sums = tap.records[WEIGHTS].sum(-1)[:, 0][real]
    close(sums, torch.ones_like(sums))


SYMBOLS = Symbols(pad=0, begin=1, end=2)
SENTENCES = [[5, 6, 7], [8], [3, 9, 4, 10, 5]]
SEARCHES = {
    "greedy": DecodeConfig(max_length=7),
    "beam": DecodeConfig(beam=4, n_best=3, max_length=7),
    "sample": DecodeConfig(sample=True, n_best=3, max_length=7),
}


@torch.no_grad()
@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("fields", [{}, {"cell": "lstm", "decoder_layers": 2},
                                    {"attention": "none"},
                                    {"attention": "none", "context": "first", "encoder": "forward"},
                                    {"hard_attention": True, "last_word": True}])  # fmt: skip
@pytest.mark.parametrize("prefixes", [None, [[4], [], [3, 5]]], ids=["free", "prefixes"])
def test_it_decodes_as_it_reads_whole_sentences(search, fields, prefixes):
    model, config = make(**fields), SEARCHES[search]
    together = decode(model, Ragged.of(SENTENCES), SYMBOLS, config, prefixes=prefixes)
    for row, (sentence, hypotheses) in enumerate(zip(SENTENCES, together, strict=True)):
        prefix = None if prefixes is None else [prefixes[row]]
        [alone] = decode(model, Ragged.of([sentence]), SYMBOLS, config, prefixes=prefix)
        assert [hypothesis.ids for hypothesis in hypotheses] == [
            hypothesis.ids for hypothesis in alone
        ]
        for hypothesis in hypotheses:
            read = Ragged.of([(SYMBOLS.begin, *hypothesis.ids)])
            table = model(Ragged.of([sentence]), read).log_softmax(1)
            said = torch.tensor([*hypothesis.ids, SYMBOLS.end][: len(hypothesis.rows)])
            whole = float(table[: len(said)].gather(1, said[:, None]).sum())
            assert hypothesis.logprob == pytest.approx(whole, abs=1e-4)


def test_sampled_attention_takes_each_source_token_as_often_as_its_softmax_says():
    torch.manual_seed(0)
    scores, values = torch.randn(1, 1, 1, 4), torch.eye(4)[None, None]

    def attend(count, choice="sampled"):
        rows = scores.expand(1, 1, count, 4)
        empty = torch.zeros(1, 1, count, 1), torch.zeros(1, 1, 4, 1)
        return attend_unfused(lambda *_: rows, *empty, values, Mask(), None, 0.0, choice=choice)

    drawn = attend(20_000)[0, 0]
    assert set(drawn.unique().tolist()) == {0.0, 1.0}
    assert (drawn.sum(-1) == 1).all()
    close(drawn.mean(0), scores.softmax(-1)[0, 0, 0], atol=0.02)
    assert torch.equal(attend(3, "best")[0, 0].argmax(-1), scores.argmax(-1)[0, 0].expand(3))


@pytest.mark.parametrize("score", ["additive", "dot"])
def test_sampled_attention_is_drawn_in_training_only_from_the_trainings_generator(pair, score):
    model = make(attention=score, hard_attention="sampled")
    assert model.config.summary.endswith(f"sampled hard {score} attention")
    best = make(attention=score, hard_attention=True)
    best.load_state_dict(model.state_dict())
    with torch.no_grad():
        assert torch.equal(model(*pair), best(*pair))  # in use it is the best token
        model.train()

        def trained(seed):
            with drawing_from(torch.Generator().manual_seed(seed)):
                return model(*pair)

        assert torch.equal(trained(1), trained(1))
        assert not torch.equal(trained(1), trained(2))
    loss = model(*pair).square().sum()
    names, grads = [], torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    for (name, _), grad in zip(model.named_parameters(), grads, strict=True):
        if "cross_attention" in name:
            assert grad is not None
            names += [name] * bool(grad.abs().sum())
    assert names  # gradients reach the scores through the draw


@torch.no_grad()
@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_a_tap_followed_along_a_beam_shows_the_alignment_of_the_hypothesis(search):
    model, tap = make(), Tap("decoder.*")
    config = SEARCHES[search]
    results = decode(model, Ragged.of(SENTENCES), SYMBOLS, config, tap=tap)
    assert results == decode(model, Ragged.of(SENTENCES), SYMBOLS, config)
    for sentence, hypotheses in zip(SENTENCES, results, strict=True):
        for hypothesis in hypotheses:
            whole, fed = Tap("decoder.*"), (SYMBOLS.begin, *hypothesis.ids)[: len(hypothesis.rows)]
            model(Ragged.of([sentence]), Ragged.of([fed]), whole)
            for site, value in tap.follow(hypothesis.rows).items():
                expected = whole.records[site][0]
                close(value[..., : expected.shape[-2], : expected.shape[-1]], expected, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("attention", ["additive", "none"])
def test_rows_go_back_to_a_mark(attention):
    model = make(attention=attention, cell="lstm")
    state = model.start(model.encode(Ragged.of(SENTENCES)), 1, 9)
    model.step(torch.tensor([1, 1, 1]), state)
    mark = state.mark()
    first = model.step(torch.tensor([5, 6, 7]), state)
    state.rewind(mark)
    assert not torch.equal(model.step(torch.tensor([3, 3, 3]), state), first)
    state.rewind(mark)
    assert torch.equal(model.step(torch.tensor([5, 6, 7]), state), first)


def test_parameter_names_stay():
    """They are what checkpoints are made of."""
    both = [f"{kind}_{part}_l0" for kind in ("weight", "bias") for part in ("ih", "hh")]
    backward = [f"{name}_reverse" for name in both]
    model = build(Seq2SeqConfig(dim=8, decoder_layers=2), 9, 9)
    assert sorted(model.state_dict()) == sorted(
        [
            "source_embed.weight",
            "target_embed.weight",
            "head.weight",
            *(f"encoder.blocks.0.recurrent.cells.{name}" for name in (*both, *backward)),
            *(f"decoder.blocks.{n}.recurrent.cells.{name}" for n in (0, 1) for name in both),
            "decoder.blocks.0.cross_attention.query.weight",
            "decoder.blocks.0.cross_attention.key_value.weight",
            "decoder.blocks.0.cross_attention.score.vector",
            *(f"decoder.{part}.{kind}" for part in ("first", "readout")
              for kind in ("weight", "bias")),
        ]
    )  # fmt: skip


def test_site_names_stay():
    gates = ("reset", "update", "candidate", "state")
    recurrent = "recurrent", *(f"recurrent.{gate}" for gate in gates)
    cross = (f"cross.{site}" for site in ("q", "k", "v", "scores", "weights", "heads", "out"))
    model = build(Seq2SeqConfig(dim=8), 9, 9)
    assert set(model.sites()) == {
        *(f"encoder.0.{site}" for site in recurrent),
        *(f"encoder.0.recurrent.backward.{gate}" for gate in gates),
        *(f"decoder.0.{site}" for site in (*recurrent, *cross)),
        *("encoder.embedding", "encoder.0.residual", "decoder.embedding", "decoder.0.residual"),
        *("decoder.readout", "logits"),
    }
    assert not build(Seq2SeqConfig(dim=8, attention="none"), 9, 9).heads()


@pytest.mark.skipif(
    int8.ENGINE not in torch.backends.quantized.supported_engines, reason="needs x86 with AVX2"
)
@torch.no_grad()
@pytest.mark.parametrize("attention", ["additive", "none"])
def test_a_twin_in_8_bits_is_near(attention, pair):
    model = build(Seq2SeqConfig(dim=32, attention=attention), VOCAB, VOCAB).eval()
    exact, near = model(*pair), quantise(model)(*pair)
    assert not torch.equal(near, exact)
    assert (near - exact).norm() < 0.1 * exact.norm()


def test_other_kinds_of_numbers_and_the_meta_device():
    model, ids = make(), torch.tensor([3, 4, 5])
    half = model.to(torch.bfloat16)
    assert half(Ragged(ids, (2, 1)), Ragged(ids, (1, 2))).dtype == torch.bfloat16
    drawn = meta_model(model.config, VOCAB, VOCAB)
    assert {name: tensor.shape for name, tensor in drawn.state_dict().items()} == {
        name: tensor.shape for name, tensor in model.state_dict().items()
    }


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="needs an even dim, got 7"):
        Seq2SeqConfig(dim=7)
    with pytest.raises(ValueError, match="no part of this model has hard_attention"):
        Seq2SeqConfig(hard_attention=True, attention="none")
    with pytest.raises(ValueError, match="no part of this model has context"):
        Seq2SeqConfig(context="first")
    with pytest.raises(InputError, match="vocabularies of 5 and 6"):
        build(Seq2SeqConfig(dim=8), 5, 6)
