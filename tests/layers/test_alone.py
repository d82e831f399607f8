"""A layer used on its own: wrong shapes, heads and sites are named, with what was expected."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
import torch

from regard.errors import InputError
from regard.layers import (
    Attention,
    Block,
    Convolution,
    Edit,
    Embed,
    FeedForward,
    Layout,
    Memory,
    Positions,
    Recurrent,
    SequenceStack,
    Stack,
    Tap,
    knock_out,
    make_sublayers,
    plain_context,
)
from regard.layers.convolution import GatedConvolution

DIM = 32
CONFIG = SequenceStack(dim=DIM, heads=4, hidden=48, dropout=0.0, positions="none")
LAYERS = {
    "encoder.0.self": lambda name: Attention(DIM, 4, name),
    "encoder.0": lambda name: Block(CONFIG, name, make_sublayers(CONFIG, name)),
    "encoder": lambda name: Stack(CONFIG, name),
    "feed_forward": lambda name: FeedForward(DIM, 48, name=name),
    "convolution": lambda name: Convolution(DIM, name, kernel=3),
    "gated_convolution": lambda name: GatedConvolution(DIM, name),
    "recurrent": lambda name: Recurrent(DIM, name),
}
ATTENTIVE = [name for name in LAYERS if name.startswith("encoder")]


@pytest.fixture(params=LAYERS)
def layer(request):
    return LAYERS[request.param](request.param)


@pytest.fixture(params=ATTENTIVE)
def attentive(request):
    return LAYERS[request.param](request.param)


@pytest.mark.parametrize(
    ("shape", "lengths", "said"),
    [
        ((6, DIM), (2, 3), "x: got 6 x 32, expected 5 x 32: 5 tokens (2 + 3) of width 32"),
        ((12, DIM), (3, 3), "x: got 12 x 32, expected 6 x 32: 6 tokens (3 + 3) of width 32"),
        ((3, DIM), (1, 1), "x: got 3 x 32, expected 2 x 32: 2 tokens (1 + 1) of width 32"),
        ((5, 16), (2, 3), "x: got 5 x 16, expected 5 x 32"),
        ((DIM,), (1,), "x: got 32, expected 1 x 32: 1 token of width 32"),
        ((2, 5, DIM), (5, 5), "x: got 2 x 5 x 32, expected 10 x 32"),
        ((2, 5, DIM), (4, 5), "end to end, without padding: ctx.layout.unpad(x)"),
        ((2, DIM), (9,) * 6, "expected 54 x 32: 54 tokens (9 + 9 + 9 + 9 + …) of width 32"),
    ],
)
def test_an_x_that_is_not_the_tokens_of_the_context_is_refused(layer, shape, lengths, said):
    with pytest.raises(InputError) as error:
        layer(torch.zeros(shape), plain_context(lengths))
    assert str(error.value).startswith(f"{layer.name}: x: got ")
    assert said in str(error.value)


def test_what_is_advised_for_a_padded_batch_works(layer):
    ctx, rows = plain_context((4, 5)), torch.randn(2, 5, DIM)
    assert layer(ctx.layout.unpad(rows), ctx).shape == (9, DIM)
    with pytest.raises(InputError, match="x: got list"):
        layer([[0.0] * DIM], plain_context((1,)))


def attend(layer, tap):
    return layer(torch.randn(5, DIM), plain_context((2, 3), tap=tap))


@pytest.mark.parametrize(
    ("tap", "said"),
    [
        (lambda: Tap("*.wieghts"), "no such site: got *.wieghts, expected a site of {}, such as "
         "encoder.0.self.weights"),
        (lambda: Tap("encoder.0.self.all"), "no such site: got encoder.0.self.all"),
        (lambda: Tap(edits=[Edit("*.weight", torch.neg)]), "such as encoder.0.self.weights"),
        (lambda: Tap(edits=[knock_out("encoder.0.self.9")]),
         "no such head: got encoder.0.self.9, expected head 0 to 3"),
        (lambda: Tap("*.weights", heads=[7]), "no such head: got 7, expected 0 to 3"),
    ],
)  # fmt: skip
def test_a_head_or_site_that_the_layer_does_not_have_is_refused(attentive, tap, said):
    with pytest.raises(InputError) as error:
        attend(attentive, tap())
    assert said.format(attentive.name) in str(error.value)


@pytest.mark.parametrize(
    ("tap", "said"),
    [
        (lambda: Tap("decoder.0.cross.weights"), "got decoder.0.cross.weights, expected a site of"),
        (lambda: Tap(edits=[knock_out("encoder.5.self.9")]),
         "got encoder.5.self.9, expected a head of {}, such as encoder."),
        (lambda: Tap("logits"), "got logits, expected a site of"),
    ],
)  # fmt: skip
def test_a_name_that_may_be_another_layers_is_a_warning_once(attentive, tap, said, caplog):
    tap = tap()
    with caplog.at_level(logging.WARNING):
        attend(attentive, tap)
        attend(attentive, tap)
    [line] = caplog.messages
    assert line.startswith("the tap names no site so far: ")
    assert said.format(attentive.name) in line


def test_one_tap_serves_several_layers_in_turn(caplog):
    tap = Tap("a.weights", edits=[knock_out("b.1")])
    a, b = Attention(DIM, 4, "a"), Attention(DIM, 4, "b")
    x, ctx = torch.randn(5, DIM), plain_context((2, 3), tap=tap)
    out = b(a(x, ctx), ctx)
    assert tap.records["a.weights"].shape == (2, 4, 3, 3)
    assert not torch.equal(out, b(a(x, plain_context((2, 3))), plain_context((2, 3))))
    assert [
        "got b.1, expected a head of a, such as a.1" in message for message in caplog.messages
    ] == [True]


def test_a_record_that_is_not_there_names_the_nearest():
    tap = Tap("*.weights")
    with pytest.raises(InputError, match="pass the tap to a model or layer"):
        tap.records["encoder.0.self.weights"]
    attend(LAYERS["encoder"]("encoder"), tap)
    with pytest.raises(KeyError) as error:
        tap.records["encoder.1.self.wieghts"]
    assert str(error.value) == (
        "no such record: got encoder.1.self.wieghts, "
        "expected a site that was recorded, such as encoder.1.self.weights"
    )
    with pytest.raises(InputError, match="no such record"):
        tap.records.part("encoder.0.self.scores")
    assert tap.records.get("encoder.0.self.scores") is None


def test_a_memory_of_another_shape_is_refused():
    cross, ctx = Attention(DIM, 4, "decoder.0.cross", cross=True), plain_context((2, 3))
    x = torch.randn(5, DIM)

    def with_memory(shape, lengths):
        return cross(x, replace(ctx, memory=Memory(torch.randn(shape), Layout(lengths))))

    assert with_memory((7, DIM), (3, 4)).shape == (5, DIM)
    for shape, lengths, said in (
        ((8, DIM), (3, 4), r"the memory: got 8 x 32, expected 7 x 32: 7 tokens \(3 \+ 4\)"),
        ((2, 4, DIM), (4, 4), r"memory\.layout\.unpad\(x\)"),
        ((9, DIM), (3, 3, 3), "got a memory of 3 sequences, expected 2, as x"),
    ):
        with pytest.raises(InputError, match=said):
            with_memory(shape, lengths)
    with pytest.raises(InputError, match=r"got no memory(.|\n)*memory=Memory\(x, Layout"):
        cross(x, ctx)


@pytest.mark.parametrize("lengths", [5, (2, -1), (2.5, 1), "ab"])
def test_lengths_are_whole_numbers(lengths):
    with pytest.raises(InputError, match="the number of tokens of each sequence"):
        plain_context(lengths)
    assert plain_context(torch.tensor([2, 3])).layout.lengths == (2, 3)


@pytest.mark.parametrize(
    ("ids", "where", "said"),
    [
        ([[1, 2, 3]], [0, 1, 2], "got 1 x 3 int64 and 3 int64"),
        ([1, 2, 3], [0, 1], "got 3 int64 and 2 int64"),
        ([1.0, 2.0], [0, 1], "got 2 float32 and 2 int64"),
        ([1, 99], [0, 1], "ids: got 1 to 99, expected 0 to 49"),
        ([1, -1], [0, 1], "ids: got -1 to 1, expected 0 to 49"),
    ],
)
def test_ids_are_one_number_of_the_vocabulary_for_each_token(ids, where, said):
    with pytest.raises(InputError, match=said):
        Embed(50, DIM)(torch.tensor(ids), torch.tensor(where), Positions())


def test_a_layer_with_a_name_without_dots_has_heads_too():
    tap, x = Tap(edits=[knock_out("attention.1")]), torch.randn(5, DIM)
    layer = Attention(DIM, 4)
    ctx = plain_context((2, 3))
    assert not torch.equal(layer(x, replace(ctx, tap=tap)), layer(x, ctx))
    with pytest.raises(InputError, match="a head such as"):
        knock_out(3)


def test_the_checks_do_not_stand_in_the_way_of_fake_tensors_and_counters():
    from torch.utils.flop_counter import FlopCounterMode

    stack = LAYERS["encoder"]("encoder")
    with FlopCounterMode(display=False) as counter:
        stack(torch.randn(5, DIM), plain_context((2, 3)))
    assert counter.get_total_flops() > 0
    x = torch.empty(6, DIM, device="meta")
    assert stack.to("meta")(x, plain_context((3, 3))).shape == (6, DIM)
    with pytest.raises(InputError, match="got 6 x 32"):
        stack(x, plain_context((3, 4)))


@pytest.mark.parametrize(("dim", "heads"), [(64, 0), (64, -4), (0, 1), (64, 5)])
def test_heads_must_divide_the_width(dim, heads):
    with pytest.raises(InputError, match=f"got dim {dim}, heads {heads}.*heads to divide dim"):
        Attention(dim, heads, "encoder.0.self")


def test_a_tap_takes_names():
    with pytest.raises(InputError, match=r"got \['\*.weights'\], expected names, such as"):
        Tap(["*.weights"])
