"""Looking changes nothing, and sees what is there; touching does what it says and no more."""

from __future__ import annotations

import itertools

import pytest
import torch

from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.layers import Edit, Layout, Tap, attention, knock_out, replace, scale_head
from regard.models import TransformerConfig, build

SOURCE, TARGET = (4, 2, 6), (5, 3, 1)
VARIANTS = {
    "plain": {},
    "grouped rotary": {"kv_heads": 2, "positions": "rotary"},
    "buckets": {"positions": "buckets", "norm_place": "post"},
    "additive": {"score": "additive", "kv_heads": 1},
}


def tiny(**fields):
    sizes = {"dim": 16, "heads": 4, "hidden": 24, "dropout": 0.0}
    config = TransformerConfig.model_validate(sizes | fields)
    model = build(config, 11, 11)
    with torch.no_grad():  # biases start at zero, where a lost one would go unseen
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS.keys())
def model(request):
    return tiny(**request.param)


@pytest.fixture
def pair(ragged):
    return ragged(SOURCE), ragged(TARGET, seed=1)


def real(records, name, lengths):
    """What was recorded at a site, row by row, without the padding of the queries."""
    record = records[name]
    axis = record.dim() - 2
    return [row.narrow(axis - 1, 0, n) for row, n in zip(record, lengths, strict=True)]


# Looking


def test_output_with_a_tap_on_every_site_is_bit_identical(model, pair):
    tap = Tap("*")
    assert torch.equal(model(*pair, tap), model(*pair))
    assert set(tap.records) == set(model.sites())


def test_outputs_and_gradients_in_training_are_bit_identical(pair):
    model = tiny(dropout=0.3, attention_dropout=0.2).train()

    def run(tap):
        torch.manual_seed(5)
        model.zero_grad()
        out = model(*pair, tap)
        out.square().sum().backward()
        return [out, *(parameter.grad.clone() for parameter in model.parameters())]

    for plain, tapped in zip(run(None), run(Tap("*")), strict=True):
        assert torch.equal(plain, tapped)


def test_records_hold_no_graph_and_share_no_memory(pair):
    model, tap = tiny(), Tap("*")
    model(*pair, tap)
    assert not any(record.requires_grad for record in tap.records.values())
    before = {site: record.clone() for site, record in tap.records.items()}
    again = Tap("*")
    model(*pair, again)
    for record in again.records.values():
        record.zero_()
    assert all(torch.equal(record, before[site]) for site, record in tap.records.items())


def test_nothing_is_computed_beside_the_kernel_without_a_tap(pair, monkeypatch):
    monkeypatch.setattr(attention, "Product", None)
    model = tiny()
    model(*pair)
    with pytest.raises(TypeError):
        model(*pair, Tap("logits"))


def test_weights_times_values_are_each_heads_output(model, pair):
    tap = Tap("*")
    model(*pair, tap)
    for layer in [*model.encoder.attentions(), *model.decoder.attentions()]:
        lengths = SOURCE if layer.name.startswith("encoder") else TARGET
        values = tap.records[f"{layer.name}.v"].repeat_interleave(4 // layer.kv_heads, dim=1)
        weights, heads, out = (
            real(tap.records, f"{layer.name}.{site}", lengths)
            for site in ("weights", "heads", "out")
        )
        for row in range(len(lengths)):
            torch.testing.assert_close(weights[row] @ values[row], heads[row], rtol=0, atol=1e-5)
            joined = heads[row].transpose(0, 1).flatten(1)  # (query, dim)
            torch.testing.assert_close(layer.out(joined), out[row], rtol=0, atol=1e-5)


def test_weights_are_the_softmax_of_the_scores(model, pair):
    tap = Tap("*.scores", "*.weights")
    model(*pair, tap)
    for name in (layer.name for layer in model.decoder.attentions()):
        scores = real(tap.records, f"{name}.scores", TARGET)
        for row, weights in enumerate(real(tap.records, f"{name}.weights", TARGET)):
            torch.testing.assert_close(scores[row].softmax(-1), weights)
            torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


def test_weights_are_recorded_before_dropout(pair):
    model = tiny(attention_dropout=0.5).train()
    tap = Tap("encoder.0.self.weights")
    model(*pair, tap)
    sums = torch.cat([w.sum(-1).flatten() for w in real(tap.records, tap.sites[0], SOURCE)])
    torch.testing.assert_close(sums, torch.ones_like(sums))


@pytest.mark.slow
@pytest.mark.parametrize("edited", [False, True])
def test_chosen_heads_and_queries_are_a_slice_of_the_whole_record(edited, model, pair):
    sites = ("decoder.*.weights", "decoder.*.scores")
    edits = [Edit("decoder.0.self.scores", lambda x: 2 * x)] if edited else []
    whole = Tap(*sites, edits=edits)
    model(*pair, whole)
    for heads, queries in itertools.product((None, [2], [3, 0]), (None, [0], [4, 1], [-1])):
        part = Tap(*sites, heads=heads, queries=queries, edits=edits)
        model(*pair, part)
        assert len(part.records) == 8
        for site, record in whole.records.items():
            record = record if heads is None else record[:, heads]
            record = record if queries is None else record[:, :, queries]
            torch.testing.assert_close(part.records[site], record)


def test_residuals_and_embeddings_are_what_passes_from_block_to_block(pair):
    model, tap = tiny(), Tap("*")
    model(*pair, tap)
    source, target = (Layout(lengths) for lengths in (SOURCE, TARGET))
    x = model.source_embed(pair[0].ids, source.positions, model.encoder.positions)
    torch.testing.assert_close(tap.records["encoder.embedding"], source.pad(x))
    top = target.unpad(tap.records["decoder.1.residual"])
    logits = model.head(model.decoder.final_norm(top))
    torch.testing.assert_close(tap.records["logits"], target.pad(logits))


@pytest.mark.parametrize(
    ("tap", "message"),
    [
        (Tap("decoder.7.self.weights"), "no such site: got decoder.7.self.weights"),
        (Tap("decoder.0.self.weight"), "as decoder.0.self.weights"),
        (Tap(edits=[Edit("encoder.0.cross.q", torch.neg)]), "no such site"),
        (Tap(edits=[knock_out("decoder.9.cross.0")]),
         "got decoder.9.cross.0, expected a head of this model, such as decoder.[01].cross.0"),
        (Tap(edits=[knock_out("decoder.1")]), "got decoder.1, expected a head of this model"),
        (Tap("*", heads=[4]), "no such head: got 4, expected 0 to 3"),
        (Tap(edits=[knock_out("decoder.0.self.4")]), "no such head: got decoder.0.self.4"),
        (Tap(edits=[scale_head("decoder.*.self.9", 2)]), "no such head"),
        (Tap("decoder.*.weights", queries=[5]), "no such query in decoder.0.self: got 5"),
    ],
)  # fmt: skip
def test_what_the_model_does_not_have_is_refused(tap, message, pair):
    with pytest.raises(InputError, match=message):
        tiny()(*pair, tap)


@pytest.mark.parametrize("head", ["decoder.0.self", "decoder.0.3", "x", "decoder.0.self.first"])
def test_what_is_no_heads_name_is_refused(head):
    with pytest.raises(InputError, match="a head such as"):
        knock_out(head)


# Looking while decoding


def write(model, source, tap, tokens, moves, beams=2):
    """Steps by hand: tokens[t] are fed, then rows move by moves[t] (None: they stay)."""
    logits = []
    with torch.no_grad():
        state = model.start(model.encode(source, tap), beams, len(tokens))
        for ids, rows in zip(tokens, moves, strict=True):
            logits.append(model.step(torch.tensor(ids), state, tap))
            if tap is not None:
                tap.next_step()
            if rows is not None:
                state.reorder(torch.tensor(rows))
    return logits


def line(moves, last):
    """The rows in which the hypothesis that ends in row `last` stood, step by step."""
    rows = [last]
    for move in reversed(moves[:-1]):
        rows.append(rows[-1] if move is None else move[rows[-1]])
    return rows[::-1]


# Three sentences with two rows each; the longest leaves after the second step, the first later.
MOVES = [[1, 0, 3, 3, 4, 5], [0, 1, 3, 2], None, [2, 2], None]
TOKENS = [[1] * 6, [3, 4, 5, 6, 7, 8], [2, 5, 7, 0], [1, 9, 4, 3], [6, 10]]
LENGTHS = (3, 2, 6)
LAST = [(1, 0), (1, 1)]  # (sentence, row) of what is left at the end


@pytest.mark.parametrize(("sentence", "last"), LAST)
def test_steps_followed_back_are_the_records_of_one_forced_pass(model, sentence, last, ragged):
    source, tap = ragged(LENGTHS), Tap("decoder.*", "logits")
    write(model, source, tap, TOKENS, MOVES)
    rows = line(MOVES, last)
    ids = [TOKENS[step][row] for step, row in enumerate(rows)]
    forced = Tap("decoder.*", "logits")
    with torch.no_grad():
        model(Ragged.of([source.split()[sentence]]), Ragged.of([ids]), forced)
    followed = tap.follow(rows)
    assert set(followed) == set(forced.records)
    for site, record in forced.records.items():
        mine = followed[site]
        if ".cross." in site and site.endswith(("weights", "scores")):
            empty = mine[..., LENGTHS[sentence] :]  # the padding of longer neighbours
            assert torch.equal(empty.exp() * empty.ne(0), torch.zeros_like(empty))
            mine = mine[..., : LENGTHS[sentence]]
        if site.endswith(("cross.k", "cross.v")):
            mine = mine[:, : LENGTHS[sentence]]
        torch.testing.assert_close(mine, record[0], rtol=0, atol=1e-5)


def test_a_sentence_that_left_early_can_be_followed_too(model, ragged):
    source, tap = ragged(LENGTHS), Tap("decoder.*.weights")
    write(model, source, tap, TOKENS, MOVES)
    forced = Tap("decoder.*.weights")
    with torch.no_grad():
        model(Ragged.of([source.split()[2]]), Ragged.of([[1, 8]]), forced)
    for site, record in tap.follow([5, 5]).items():
        torch.testing.assert_close(record, forced.records[site][0], rtol=0, atol=1e-5)


def test_a_tap_leaves_the_steps_bit_identical_and_the_encoders_records_in_place(model, ragged):
    tap = Tap("*")
    tapped = write(model, ragged(LENGTHS), tap, TOKENS, MOVES)
    plain = write(model, ragged(LENGTHS), None, TOKENS, MOVES)
    assert all(torch.equal(a, b) for a, b in zip(tapped, plain, strict=True))
    assert all(site.startswith("encoder.") for site in tap.records)
    assert tap.follow([]) == {}


@pytest.mark.parametrize("edited", [False, True])
def test_a_step_has_one_query_which_any_choice_of_queries_records(edited, model, ragged):
    edits = [Edit("decoder.*.weights", torch.clone)] if edited else []
    chosen_tap = Tap("decoder.*.weights", heads=[2], queries=[4], edits=edits)
    whole = Tap("decoder.*.weights", edits=edits)
    for tap in (chosen_tap, whole):
        write(model, ragged(LENGTHS), tap, TOKENS, MOVES)
    for part, step in zip(chosen_tap.steps, whole.steps, strict=True):
        for site, record in step.items():
            torch.testing.assert_close(part[site], record[:, [2]])


# Touching


def run(model, pair, *edits):
    with torch.no_grad():
        return model(*pair, Tap(edits=edits))


@pytest.mark.parametrize("layer", ["encoder.1.self", "decoder.0.self", "decoder.1.cross"])
def test_a_head_knocked_out_is_its_columns_of_the_output_matrix_zeroed(layer, model, pair):
    knocked = run(model, pair, knock_out(f"{layer}.2"))
    layers = {a.name: a for s in (model.encoder, model.decoder) for a in s.attentions()}
    before = run(model, pair)
    with torch.no_grad():
        layers[layer].out.weight[:, 8:12] = 0  # head 2 of width 4
    torch.testing.assert_close(knocked, run(model, pair), rtol=0, atol=1e-5)
    assert not torch.allclose(knocked, before, atol=1e-4)


def test_a_scaled_head_is_its_columns_of_the_output_matrix_scaled(model, pair):
    scaled = run(model, pair, scale_head("decoder.1.self.1", -1.5))
    with torch.no_grad():
        model.decoder.blocks[1].self_attention.out.weight[:, 4:8] *= -1.5
    torch.testing.assert_close(scaled, run(model, pair), rtol=0, atol=1e-5)


def test_a_head_scaled_by_one_changes_nothing(model, pair):
    assert torch.equal(run(model, pair, scale_head("decoder.1.self.1", 1.0)), run(model, pair))


def test_a_pattern_knocks_out_the_same_head_of_several_layers(model, pair):
    several = run(model, pair, knock_out("decoder.*.self.1"))
    one_by_one = run(model, pair, knock_out("decoder.0.self.1"), knock_out("decoder.1.self.1"))
    assert torch.equal(several, one_by_one)


SITES = [
    "encoder.embedding", "encoder.0.self.q", "encoder.1.self.k", "decoder.0.self.v",
    "decoder.0.cross.q", "decoder.1.cross.k", "decoder.0.cross.v", "decoder.0.self.scores",
    "decoder.1.cross.scores", "encoder.0.self.weights", "decoder.0.self.weights",
    "decoder.1.cross.weights", "decoder.0.cross.heads", "encoder.1.self.out",
    "decoder.0.feed_forward", "encoder.0.residual", "decoder.1.residual", "logits",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("site", SITES)
def test_what_was_recorded_put_back_reproduces_the_output(site, model, pair):
    tap = Tap(site)
    with torch.no_grad():
        plain = model(*pair, tap)
    again = run(model, pair, replace(site, tap.records[site]))
    torch.testing.assert_close(again, plain, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("site", SITES)
def test_a_patch_from_another_run_changes_all_that_follows(site, model, pair, ragged):
    """At a site through which everything passes, it makes the other run's output."""
    other = ragged(SOURCE, seed=7), ragged(TARGET, seed=8)
    tap = Tap(site)
    with torch.no_grad():
        target = model(*other, tap)
    patched = run(model, pair, replace(site, tap.records[site]))
    assert not torch.allclose(patched, run(model, pair), atol=1e-4)
    if site in ("logits", "decoder.1.residual"):
        torch.testing.assert_close(patched, target, rtol=0, atol=1e-5)


def test_an_edit_is_recorded_as_it_was_changed(pair):
    model, edit = tiny(), Edit("decoder.0.self.weights", lambda w: w.flip(1))
    tap, plain = Tap("decoder.0.self.weights", edits=[edit]), Tap("decoder.0.self.weights")
    model(*pair, tap)
    model(*pair, plain)
    torch.testing.assert_close(
        tap.records["decoder.0.self.weights"], plain.records["decoder.0.self.weights"].flip(1)
    )


def test_edited_weights_are_what_the_values_are_averaged_with(pair):
    """Every query of one head looks at the first key alone: the head's output is its value."""
    model = tiny()

    def first(weights):
        weights = weights.clone()
        weights[:, 1] = 0
        weights[:, 1, :, 0] = 1
        return weights

    tap = Tap("*.heads", "*.v", edits=[Edit("encoder.0.self.weights", first)])
    model(*pair, tap)
    value = tap.records["encoder.0.self.v"][:, 1, :1]
    out = tap.records["encoder.0.self.heads"][:, 1]
    torch.testing.assert_close(out, value.expand_as(out))


def test_masked_keys_stay_masked_whatever_an_edit_makes_of_the_scores(pair):
    model, edit = tiny(), Edit("decoder.0.self.scores", torch.zeros_like)
    tap = Tap("decoder.0.self.weights", edits=[edit])
    model(*pair, tap)
    even = torch.ones(5, 5).tril() / torch.arange(1, 6)[:, None]
    torch.testing.assert_close(tap.records["decoder.0.self.weights"][0], even.expand(4, 5, 5))


@pytest.mark.parametrize(
    "value", [torch.zeros(3, 4, 9, 9), torch.zeros(2, 4, 5, 5), torch.zeros(3, 2, 5, 5)]
)
def test_a_replacement_of_another_shape_is_refused(value, pair):
    with pytest.raises(InputError, match=r"decoder.0.self.weights: got shape .* \(3, 4, 5, 5\)"):
        run(tiny(), pair, replace("decoder.0.self.weights", value))


def test_a_replacement_may_be_one_for_all_rows(pair):
    even = torch.full((5, 5), 0.2)
    tap = Tap("decoder.0.self.weights", edits=[replace("decoder.0.self.weights", even)])
    tiny()(*pair, tap)
    assert torch.equal(tap.records["decoder.0.self.weights"], even.expand(3, 4, 5, 5))


EDITS = {
    "knock out": [knock_out("decoder.0.self.1"), knock_out("decoder.1.cross.3")],
    "scale": [scale_head("decoder.0.cross.0", 2.0)],
    "scores": [Edit("decoder.*.scores", lambda x: 0.5 * x)],
    "weights": [Edit("decoder.1.cross.weights", lambda x: x.flip(1))],
    "keys": [Edit("decoder.*.k", lambda x: 0.7 * x)],
    "values": [Edit("decoder.*.v", torch.neg)],
    "queries": [Edit("decoder.*.q", lambda x: x + 0.1)],
    "residual": [Edit("decoder.0.residual", lambda x: 1.1 * x)],
    "embedding": [Edit("decoder.embedding", lambda x: x.roll(1, -1))],
    "logits": [Edit("logits", torch.neg)],
    "encoder": [Edit("encoder.0.self.weights", lambda x: x.flip(1)), knock_out("encoder.1.self.0")],
}


@pytest.mark.slow
@pytest.mark.parametrize("edits", EDITS.values(), ids=EDITS.keys())
def test_edits_act_in_steps_as_they_do_in_a_forced_pass(model, edits, ragged):
    source = ragged(LENGTHS)
    logits = write(model, source, Tap(edits=edits), TOKENS, MOVES)
    plain = write(model, source, None, TOKENS, MOVES)
    for sentence, last in LAST:
        rows = line(MOVES, last)
        ids = [TOKENS[step][row] for step, row in enumerate(rows)]
        forced = run(model, (Ragged.of([source.split()[sentence]]), Ragged.of([ids])), *edits)
        stepped = torch.stack([logits[step][row] for step, row in enumerate(rows)])
        torch.testing.assert_close(stepped, forced, rtol=0, atol=1e-5)
        assert not torch.allclose(stepped[-1], plain[-1][last], atol=1e-4)


@pytest.mark.parametrize("site", ["q", "scores", "weights", "heads"])
def test_an_edit_of_cross_attention_sees_each_beam_as_a_row_of_its_own(site, model, ragged):
    """Beams are queries of one row inside; one of them edited leaves the others as they were."""

    def second(x):
        assert x.shape[:3] == (4, 4, 1)  # two sentences of two beams, one query each
        x = x.clone()
        x[1] = 0
        return x

    edit = Edit(f"decoder.0.cross.{site}", second)
    tokens, moves = [[1, 2, 3, 4]], [None]
    edited = write(model, ragged((3, 2)), Tap(edits=[edit]), tokens, moves)[0]
    plain = write(model, ragged((3, 2)), None, tokens, moves)[0]
    changed = (edited - plain).abs().amax(-1) > 1e-4
    assert changed.tolist() == [False, True, False, False]
