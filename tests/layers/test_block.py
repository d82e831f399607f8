"""THE block, against PyTorch's encoder and decoder layers with the same weights."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from regard.kernels.dropout import drawing_from
from regard.layers import (
    Block,
    Context,
    Layout,
    Mask,
    Memory,
    SequenceStack,
    Stack,
    WritingStack,
    make_sublayers,
    plain_context,
)
from regard.layers.norms import norm

LENGTHS, MEMORY = (3, 5, 1), (4, 2, 6)
SIZES = {"dim": 8, "heads": 2, "hidden": 12, "dropout": 0.0, "positions": "none"}


def with_memory(ctx: Context) -> Context:
    ctx.memory = Memory(torch.randn(sum(MEMORY), 8), Layout(MEMORY))
    return ctx


@pytest.mark.parametrize("norm_place", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_block_is_pytorchs(norm_place, activation, copy_block, padding):
    config = SequenceStack(**SIZES, activation=activation, norm_place=norm_place)
    ours = Block(config, "encoder.0", make_sublayers(config, "encoder.0"))
    theirs = nn.TransformerEncoderLayer(
        8, 2, 12, 0.0, activation, batch_first=True, norm_first=norm_place == "pre"
    )
    copy_block(ours, theirs)
    ctx, x = plain_context(LENGTHS), torch.randn(sum(LENGTHS), 8)
    expected = theirs(ctx.layout.pad(x), src_key_padding_mask=padding(LENGTHS))
    torch.testing.assert_close(ours(x, ctx), ctx.layout.unpad(expected), rtol=0, atol=1e-5)


@pytest.mark.parametrize("norm_place", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_decoder_block_is_pytorchs(norm_place, activation, copy_block, padding):
    config = WritingStack(**SIZES, activation=activation, norm_place=norm_place)
    ours = Block(config, "decoder.0", make_sublayers(config, "decoder.0", memory_dim=8))
    theirs = nn.TransformerDecoderLayer(
        8, 2, 12, 0.0, activation, batch_first=True, norm_first=norm_place == "pre"
    )
    copy_block(ours, theirs)
    ctx, x = with_memory(plain_context(LENGTHS, causal=True)), torch.randn(sum(LENGTHS), 8)
    expected = theirs(
        ctx.layout.pad(x),
        ctx.memory.layout.pad(ctx.memory.x),
        tgt_mask=torch.ones(5, 5).triu(1).bool(),
        tgt_key_padding_mask=padding(LENGTHS),
        memory_key_padding_mask=padding(MEMORY),
    )
    torch.testing.assert_close(ours(x, ctx), ctx.layout.unpad(expected), rtol=0, atol=1e-5)


def test_without_the_residual_a_block_is_its_last_sublayer_alone():
    config = SequenceStack(**SIZES, residual=False)
    block, ctx, x = (
        Block(config, "encoder.0", make_sublayers(config, "encoder.0")),
        plain_context((3,)),
        torch.randn(3, 8),
    )
    inner = block.self_attention(block.self_norm(x), ctx)
    torch.testing.assert_close(block(x, ctx), block.feed_forward(block.feed_norm(inner)))


def test_dropout_is_off_in_eval():
    config = SequenceStack(**SIZES | {"dropout": 0.5, "attention_dropout": 0.5})
    block, x = Block(config, "encoder.0", make_sublayers(config, "encoder.0")), torch.randn(3, 8)
    assert not torch.allclose(block(x, plain_context((3,))), block(x, plain_context((3,))))
    block.eval()
    assert torch.equal(block(x, plain_context((3,))), block(x, plain_context((3,))))


@pytest.mark.parametrize("final", [True, False])
def test_a_stack_is_its_blocks_one_after_another_and_a_last_norm(final):
    stack = Stack(SequenceStack(**SIZES, layers=3, final_norm=final), "encoder")
    x = y = torch.randn(sum(LENGTHS), 8)
    for block in stack.blocks:
        y = block(y, plain_context(LENGTHS))
    y = norm("layer", 8)(y) if final else y
    torch.testing.assert_close(stack(x, plain_context(LENGTHS)), y)


def test_no_two_blocks_share_a_weight():
    stack = Stack(WritingStack(**SIZES, layers=3), "decoder", causal=True, memory_dim=8)
    addresses = [parameter.data_ptr() for parameter in stack.parameters()]
    assert len(addresses) == len(set(addresses)) == 3 * (2 * 6 + 3 * 2 + 4) + 2


def test_attentions_are_named_from_the_input_up():
    stack = Stack(WritingStack(**SIZES, layers=2), "decoder", causal=True, memory_dim=8)
    names = [attention.name for attention in stack.attentions()]
    assert names == ["decoder.0.self", "decoder.0.cross", "decoder.1.self", "decoder.1.cross"]
    assert [attention.slot for attention in stack.attentions() if not attention.cross] == [0, 1]


def test_a_norm_inside_stands_on_the_change_and_a_scale_multiplies_it():
    feed_forward = {"kind": "feed_forward", "scale": 0.5, "sublayer_norm_place": "post"}
    config = SequenceStack(**SIZES, norm_place="inside", block=("attention", feed_forward))
    block = Block(config, "encoder.0", make_sublayers(config, "encoder.0"))
    ctx, x = plain_context((3,)), torch.randn(3, 8)
    inner = x + block.self_norm(block.self_attention(x, ctx))
    expected = block.feed_norm(inner + 0.5 * block.feed_forward(inner))
    torch.testing.assert_close(block(x, ctx), expected)


def test_drop_path_takes_whole_texts_past_a_sub_layer_and_keeps_the_mean():
    config = SequenceStack(dim=8, hidden=12, dropout=0.0, block=("feed_forward",), norm="none")
    parts = make_sublayers(config, "encoder.0")
    block = Block(config, "encoder.0", parts, drop_path=0.25)
    lengths = (2, 3) * 400
    x, ctx = torch.randn(2000, 8), plain_context(lengths)
    change = block.feed_forward(x)
    with drawing_from(torch.Generator().manual_seed(3)):
        difference = block(x, ctx) - x
    is_kept = [bool(text.any()) for text in difference.split(lengths)]
    assert 0.7 < sum(is_kept) / len(is_kept) < 0.8
    for text, whole, there in zip(
        difference.split(lengths), change.split(lengths), is_kept, strict=True
    ):
        expected = whole / 0.75 if there else torch.zeros_like(whole)
        torch.testing.assert_close(text, expected, rtol=0, atol=1e-5)
    with drawing_from(torch.Generator().manual_seed(3)):
        assert torch.equal(block(x, ctx) - x, difference)  # the dice are a generator's
    torch.testing.assert_close(block.eval()(x, ctx) - x, change, rtol=0, atol=1e-5)


def test_the_deeper_a_block_the_more_often_it_is_passed():
    blocks = Stack(SequenceStack(**SIZES, layers=4, drop_path=0.3), "encoder").layers()
    assert [round(block.drop_path, 6) for block in blocks] == [0, 0.1, 0.2, 0.3]


def test_two_sub_layers_of_one_first_word_are_refused():
    convolution = {"kind": "convolution", "name": "self_convolution"}
    says = r"block \[self_attention, self_convolution\]: .* names that differ in their first word"
    with pytest.raises(ValidationError, match=says):
        SequenceStack(dim=8, heads=2, block=("attention", convolution))
    with pytest.raises(
        ValidationError, match=r"(?s)block.*'pooling' .* expected tags: 'attention'"
    ):
        SequenceStack(dim=8, block=("pooling",))


@torch.no_grad()
def test_memory_of_another_width_can_be_read_step_by_step_and_at_once():
    config = WritingStack(dim=48, heads=4, hidden=32, layers=2, dropout=0.0, positions="rotary")
    stack = Stack(config, "decoder", causal=True, memory_dim=64).eval()
    memory = Memory(torch.randn(sum(MEMORY), 64), Layout(MEMORY))
    rows, layout = [torch.randn(4, 48) for _ in MEMORY], Layout((4, 4, 4))
    whole = stack(
        torch.cat(rows),
        Context(layout, layout.positions, Mask(causal=True), stack.positions, memory=memory),
    )
    state, step = stack.start(3, 4, rows[0]), Layout((1, 1, 1))
    projected, outputs = stack.project_memory(memory), []
    for time in range(4):
        x = torch.stack([row[time] for row in rows])
        ctx = Context(
            step, step.positions + time, Mask(causal=True), stack.positions,
            memory=projected, cache=state,
        )  # fmt: skip
        outputs.append(stack(x, ctx))
        state.advance((1, 1, 1))
    torch.testing.assert_close(torch.stack(outputs, 1).flatten(0, 1), whole, rtol=0, atol=1e-5)
    widths = [layer.memory_width for layer in stack.attentions() if layer.cross]
    assert widths == [64, 64]
