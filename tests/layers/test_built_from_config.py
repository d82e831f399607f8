"""Blocks of other kinds, from configuration alone, against plain references written out here."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError
from torch import nn

from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.layers import (
    Context,
    GridStack,
    Layout,
    Mask,
    SequenceStack,
    Stack,
    Tap,
    WritingStack,
    plain_context,
)
from regard.layers.context import make_context
from regard.models import BertConfig, GPTConfig, TransformerConfig, build, describe, rebuild
from tests.configs import fitting

LENGTHS = (5, 1, 9)
CONFORMER = {
    "block": (
        {"kind": "feed_forward", "name": "first_feed_forward", "scale": 0.5},
        "attention",
        "convolution",
        {"kind": "feed_forward", "scale": 0.5},
    ),
    "activation": "silu", "norm_place": "pre", "block_norm": True, "kernel": 3,
    "positions": "none", "norm_epsilon": 1e-5,
}  # fmt: skip
SWIN_V2 = {
    "block": ("grid_attention", "feed_forward"), "norm_place": "inside", "score": "cosine",
    "grid_window": 2, "grid_bias": "net", "positions": "none", "norm_epsilon": 1e-5,
    "activation": "gelu", "final_norm": False,
}  # fmt: skip
GRU = {
    "block": ("recurrent",), "norm": "none", "residual": False, "positions": "none",
    "final_norm": False,
}  # fmt: skip
WIDTH = {"dim": 8, "dropout": 0.0}
SIZES = {**WIDTH, "heads": 2, "hidden": 12}


def shaken(module):
    """The module with norms, biases and tables away from their plain beginnings."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module


def same_with_gradients(ours, reference, stack, x):
    """Both give the same, and the same gradients of x and of every weight, in 64 bits."""
    stack.double()
    gradients, wanted = [], torch.randn(len(x), 8)
    for run in (ours, reference):
        given = x.double().requires_grad_()
        out = run(given)
        weights = [given, *stack.parameters()]
        gradients.append([out, *torch.autograd.grad((out * wanted).sum(), weights)])
    for mine, other in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-6)


def conformer_block(block, text):
    """One text (length, dim) through a Conformer block, step by step."""

    def layer_norm(x, norm):
        x = x - x.mean(-1, keepdim=True)
        return x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight + norm.bias

    def swish(x):
        return x * x.sigmoid()

    def feed_forward(x, of):
        return of.out.weight @ swish(of.into.weight @ x + of.into.bias) + of.out.bias

    def attention(x, of):
        q = x @ of.query.weight.T + of.query.bias
        k, v = (x @ of.key_value.weight.T + of.key_value.bias).chunk(2, 1)
        heads = []
        for head in range(2):
            features = slice(4 * head, 4 * head + 4)
            heads.append((q[:, features] @ k[:, features].T / 2).softmax(-1) @ v[:, features])
        return torch.cat(heads, 1) @ of.out.weight.T + of.out.bias

    def convolution(x, of):
        value, gate = (x @ of.into.weight.T + of.into.bias).chunk(2, 1)
        x = value * gate.sigmoid()
        padded = F.pad(x, (0, 0, 1, 1))
        kernel = of.depthwise.weight[:, 0]  # (dim, 3)
        rows = [(padded[t : t + 3] * kernel.T).sum(0) for t in range(len(x))]
        x = layer_norm(torch.stack(rows) + of.depthwise.bias, of.norm)
        return swish(x) @ of.out.weight.T + of.out.bias

    def fed(x, of):
        return torch.stack([feed_forward(token, of) for token in x])

    x = text + 0.5 * fed(layer_norm(text, block.first_norm), block.first_feed_forward)
    x = x + attention(layer_norm(x, block.self_norm), block.self_attention)
    x = x + convolution(layer_norm(x, block.convolution_norm), block.convolution)
    x = x + 0.5 * fed(layer_norm(x, block.feed_norm), block.feed_forward)
    return layer_norm(x, block.block_norm)


def test_a_conformer_block_is_the_plain_one():
    stack = shaken(Stack(SequenceStack(**SIZES, **CONFORMER, layers=1), "encoder"))
    [block] = stack.layers()
    same_with_gradients(
        lambda x: stack(x, plain_context(LENGTHS)),
        lambda x: torch.cat([conformer_block(block, text) for text in x.split(LENGTHS)]),
        stack,
        torch.randn(sum(LENGTHS), 8),
    )


def swin_block(block, picture, shift):
    """One picture (rows, columns, dim) through a Swin-V2 block with windows of 2 x 2."""
    height, width, _ = picture.shape
    of = block.self_attention
    lengths = of.query_norm.scale[:, 0].clamp(max=math.log(100)).exp()
    q = picture @ of.query.weight.T + of.query.bias
    k, v = (picture @ of.key_value.weight.T + of.key_value.bias).chunk(2, -1)
    out = torch.zeros_like(picture)
    for i in range(height):
        for j in range(width):
            # Neighbours: those whose square, counted from the shifted corner, is the same.
            square = (i + shift) // 2, (j + shift) // 2
            near = [
                (a, b)
                for a in range(height)
                for b in range(width)
                if ((a + shift) // 2, (b + shift) // 2) == square
            ]
            heads = []
            for head in range(2):
                features = slice(4 * head, 4 * head + 4)
                scores = []
                for a, b in near:
                    offset = 8 * torch.tensor([i - a, j - b]).float()
                    offset = offset.sign() * (offset.abs() + 1).log2() / math.log2(8)
                    bias = 16 * of.score_bias.net(offset.to(picture))[head].sigmoid()
                    cosine = F.cosine_similarity(q[i, j, features], k[a, b, features], dim=0)
                    scores.append(cosine * lengths[head] + bias)
                weights = torch.stack(scores).softmax(0)
                heads.append(
                    sum(w * v[a, b, features] for w, (a, b) in zip(weights, near, strict=True))
                )
            out[i, j] = of.out(torch.cat(heads))
    x = picture + block.self_norm(out)
    feed = block.feed_forward
    return x + block.feed_norm(feed.out(F.gelu(feed.into(x))))


@pytest.mark.parametrize("grid", [(4, 4), (3, 5), (1, 4)])
def test_swin_v2_blocks_are_the_plain_ones(grid):
    """Squares, then squares moved by one; also in pictures that they do not fill."""
    stack = shaken(Stack(GridStack(**SIZES, **SWIN_V2, layers=2), "encoder"))
    size = grid[0] * grid[1]
    layout = Layout((size, size), grid=grid)

    def reference(x):
        pictures = x.view(2, *grid, 8)
        for number, block in enumerate(stack.layers()):
            pictures = torch.stack([swin_block(block, picture, number) for picture in pictures])
        return pictures.view(-1, 8)

    same_with_gradients(
        lambda x: stack(x, Context(layout, layout.positions, Mask(), stack.positions)),
        reference,
        stack,
        torch.randn(2 * size, 8),
    )


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("both_ways", [False, True])
def test_a_recurrent_layer_is_pytorchs(cell, both_ways):
    direction = "both" if both_ways else "forward"
    config = SequenceStack(**WIDTH, **GRU, layers=1, cell=cell, direction=direction)
    stack = shaken(Stack(config, "encoder"))
    [block] = stack.layers()
    kinds = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
    theirs = kinds[cell](8, 4 if both_ways else 8, bidirectional=both_ways)
    names = dict(block.recurrent.cells.named_parameters())
    for name, parameter in names.items():  # the same tensors, so that gradients meet
        setattr(theirs, name, parameter)
    same_with_gradients(
        lambda x: stack(x, plain_context(LENGTHS)),
        lambda x: torch.cat([theirs(text)[0] for text in x.split(LENGTHS)]),
        stack,
        torch.randn(sum(LENGTHS), 8),
    )


def test_a_gru_is_the_formula():
    stack = shaken(Stack(SequenceStack(**WIDTH, **GRU, layers=1), "decoder", causal=True))
    cells = stack.layers()[0].recurrent.cells

    def reference(x):
        outputs = []
        for text in x.split(LENGTHS):
            h = x.new_zeros(8)
            for token in text:
                x_r, x_z, x_n = (cells.weight_ih_l0 @ token + cells.bias_ih_l0).chunk(3)
                h_r, h_z, h_n = (cells.weight_hh_l0 @ h + cells.bias_hh_l0).chunk(3)
                z, r = (x_z + h_z).sigmoid(), (x_r + h_r).sigmoid()
                h = (1 - z) * (x_n + r * h_n).tanh() + z * h
                outputs.append(h)
        return torch.stack(outputs)

    x = torch.randn(sum(LENGTHS), 8)
    same_with_gradients(lambda x: stack(x, plain_context(LENGTHS)), reference, stack, x)


# Whole models, where the configuration is a family's

MIXED = {"block": ("recurrent", "attention", "convolution", "feed_forward"), "kernel": 4}
DECODERS = {
    "gru": GRU | {"cell": "gru"}, "lstm": GRU | {"cell": "lstm"}, "rnn": GRU | {"cell": "rnn"},
    "convolution": {"block": ("convolution", "feed_forward"), "kernel": 3},
    "mixed": MIXED, "conformer": CONFORMER,
    "inside": {
        "norm_place": "inside",
        "block": ("attention", {"kind": "feed_forward", "sublayer_norm_place": "post"}),
    },
    "cosine": {"score": "cosine", "positions": "rotary"},
}  # fmt: skip


@pytest.fixture(params=DECODERS)
def gpt(request):
    config = fitting(GPTConfig, SIZES, layers=2, max_length=32, decoder=DECODERS[request.param])
    return shaken(build(config, 11)).eval()


@torch.no_grad()
def test_decoding_in_pieces_is_reading_at_once_whatever_way_the_rows_take(gpt):
    past, random = [[1, 2, 3], [4], [5, 6, 7, 8, 9]], torch.Generator().manual_seed(3)
    state = gpt.start(None, 3, 16)
    logits = gpt.read(Ragged.of(past), state)
    for order in ([0, 0, 1, 1, 2, 2], [1, 0, 3, 2, 4, 4], [3, 2, 0, 0], [1, 0], [1, 1]):
        alone = [gpt(Ragged.of([row]))[-1] for row in past]
        torch.testing.assert_close(logits, torch.stack(alone), rtol=0, atol=1e-4)
        state.reorder(torch.tensor(order))
        ids = torch.randint(11, (len(order),), generator=random)
        mark = state.mark()
        gpt.step((ids + 1) % 11, state)  # another way, taken back
        gpt.step(ids, state)
        state.rewind(mark)
        past = [[*past[row], token] for row, token in zip(order, ids.tolist(), strict=True)]
        logits = gpt.step(ids, state)


@torch.no_grad()
def test_no_token_acts_on_the_past_or_on_another_text(gpt):
    rows = [[1, 2, 3, 4], [5], [6, 7, 8, 9, 10, 0]]
    before = gpt(Ragged.of(rows)).split([4, 1, 6])
    changed = [list(row) for row in rows]
    changed[2][3] = 1
    after = gpt(Ragged.of(changed)).split([4, 1, 6])
    for mine, other in (
        (after[0], before[0]),
        (after[1], before[1]),
        (after[2][:3], before[2][:3]),
    ):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-5)
    assert not torch.allclose(after[2][3:], before[2][3:], atol=1e-4)


@torch.no_grad()
def test_a_tap_on_everything_changes_no_bit_and_sees_every_site(gpt):
    texts, tap = Ragged.of([[1, 2, 3, 4], [5], [6, 7, 8, 9, 10, 0]]), Tap("*")
    assert torch.equal(gpt(texts, tap), gpt(texts))
    assert set(tap.records) == set(gpt.sites())


def test_a_model_of_other_blocks_is_described_and_built_again(gpt):
    twin = rebuild(describe(gpt))
    assert twin.config == gpt.config
    twin.load_state_dict(gpt.state_dict())
    texts = Ragged.of([[1, 2, 3]])
    assert torch.equal(twin.eval()(texts), gpt(texts))


def test_every_weight_of_other_blocks_learns(gpt):
    gpt.train()
    texts = Ragged.of([[1, 2, 3, 4], [5, 6]])
    gpt.loss(texts, torch.tensor([2, 3, 4, 5, 6, 7])).backward()
    assert all(weight.grad is not None for weight in gpt.parameters())


@torch.no_grad()
@pytest.mark.parametrize(
    "fields",
    [
        CONFORMER,
        CONFORMER | {"convolution_norm": "batch"},
        GRU | {"direction": "both", "cell": "lstm"},
    ],
    ids=["conformer", "batch norm", "both ways"],
)
def test_a_ragged_batch_through_an_encoder_is_its_texts_one_by_one(fields):
    config = fitting(BertConfig, SIZES, layers=2, token_types=0, encoder=fields)
    bert = shaken(build(config, 11)).eval()
    rows = [[1, 2, 3, 4], [5], [6, 7, 8, 9, 10, 0]]
    alone = torch.cat([bert.hidden(Ragged.of([row])) for row in rows])
    together = bert.hidden(Ragged.of(rows))
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-5)


def test_a_decoder_with_a_memory_looks_at_it_where_its_block_says():
    block = ("recurrent", "attention", "convolution", "cross_attention", "feed_forward")
    config = WritingStack(**SIZES, **MIXED | {"block": block}, layers=1)
    stack = Stack(config, "decoder", causal=True, memory_dim=8)
    order = [step.part for step in stack.layers()[0].order]
    assert order == [
        "recurrent", "self_attention", "convolution", "cross_attention", "feed_forward",
    ]  # fmt: skip
    with pytest.raises(ValidationError, match="needs a cross_attention"):
        WritingStack(**SIZES, **MIXED)


def test_sublayers_of_version_1_get_a_look_at_the_memory_before_the_last_feed_forward():
    names = ("recurrent", "self_attention", "convolution", "feed_forward")
    named = ("cross_attention", "self_attention", "feed_forward")
    for sublayers, encoder, decoder in (
        (names, names, (*names[:-1], "cross_attention", "feed_forward")),
        (named, named[1:], named),
    ):
        config = TransformerConfig(**SIZES, sublayers=sublayers, layers=1)
        model = build(config, 11, 11)
        for stack, expected in ((model.encoder, encoder), (model.decoder, decoder)):
            assert tuple(step.part for step in stack.layers()[0].order) == expected


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"block": ("self_attention",)}, "'self_attention' .* expected tags: 'attention'"),
        ({"block": ("feed_forward", {"kind": "attention", "name": "convolution"})},
         "name convolution: it must end in self_attention"),
        ({"block": ()}, r"block \[\]: at least one sub-layer"),
        ({"block": ("feed_forward", "feed_forward")}, "differ in their first word"),
        ({"block": ("attention", {"kind": "feed_forward", "sublayer_norm_place": "below"})}, "pre"),
        ({"block": ("attention", {"kind": "feed_forward", "scales": 0.5})}, "scales"),
        ({"block": ("recurrent",), "direction": "both", "dim": 9},
         "direction: both needs an even dim, got 9"),
    ],
)  # fmt: skip
def test_blocks_that_cannot_be_are_refused(fields, says):
    with pytest.raises(ValidationError, match=says):
        fitting(BertConfig, SIZES, encoder=fields)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"sublayers": ("attention", "pooling")}, "'pooling' .* expected tags: 'attention'"),
        ({"sublayers": ()}, r"block \[\]: at least one sub-layer"),
        ({"sublayers": ("feed_forward", "feed_forward")}, "differ in their first word"),
        ({"scales": {"convolution": 0.5}}, "convolution"),
        ({"norm_places": {"feed_forward": "below"}}, "pre"),
        ({"sublayers": ("self_attention", "recurrent"), "both_ways": True, "dim": 9, "heads": 3},
         "direction: both needs an even dim, got 9"),
    ],
)  # fmt: skip
def test_blocks_of_version_1_that_cannot_be_are_refused(fields, says):
    with pytest.raises(ValidationError, match=says):
        fitting(BertConfig, SIZES, **fields)


def test_windows_need_a_grid():
    stack = Stack(GridStack(**SIZES, **SWIN_V2, layers=1), "encoder")
    with pytest.raises(InputError, match="got tokens in no grid, expected a grid"):
        stack(torch.randn(4, 8), make_context(Layout((4,)), stack.positions, causal=False))
