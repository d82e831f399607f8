"""THE block, against PyTorch's encoder and decoder layers with the same weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.layers import (
    Block,
    BlockShape,
    Context,
    Layout,
    Memory,
    Positions,
    Stack,
    plain_context,
)
from regard.layers.norms import norm

LENGTHS, MEMORY = (3, 5, 1), (4, 2, 6)


def with_memory(ctx: Context) -> Context:
    ctx.memory = Memory(torch.randn(sum(MEMORY), 8), Layout(MEMORY))
    return ctx


@pytest.mark.parametrize("place", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_block_is_pytorchs(place, activation, copy_block, padding):
    shape = BlockShape(dim=8, heads=2, hidden=12, activation=activation, norm_place=place)
    ours = Block(shape, "encoder.0")
    theirs = nn.TransformerEncoderLayer(
        8, 2, 12, 0.0, activation, batch_first=True, norm_first=place == "pre"
    )
    copy_block(ours, theirs)
    ctx, x = plain_context(LENGTHS), torch.randn(sum(LENGTHS), 8)
    expected = theirs(ctx.layout.pad(x), src_key_padding_mask=padding(LENGTHS))
    torch.testing.assert_close(ours(x, ctx), ctx.layout.unpad(expected), rtol=0, atol=1e-5)


@pytest.mark.parametrize("place", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_decoder_block_is_pytorchs(place, activation, copy_block, padding):
    shape = BlockShape(dim=8, heads=2, hidden=12, activation=activation, norm_place=place)
    ours = Block(shape, "decoder.0", cross=True)
    theirs = nn.TransformerDecoderLayer(
        8, 2, 12, 0.0, activation, batch_first=True, norm_first=place == "pre"
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
    shape = BlockShape(dim=8, heads=2, hidden=12, residual=False)
    block, ctx, x = Block(shape, "encoder.0"), plain_context((3,)), torch.randn(3, 8)
    inner = block.self_attention(block.self_norm(x), ctx)
    torch.testing.assert_close(block(x, ctx), block.feed_forward(block.feed_norm(inner)))


def test_dropout_is_off_in_eval():
    shape = BlockShape(dim=8, heads=2, hidden=12, dropout=0.5, attention_dropout=0.5)
    block, x = Block(shape, "encoder.0"), torch.randn(3, 8)
    assert not torch.allclose(block(x, plain_context((3,))), block(x, plain_context((3,))))
    block.eval()
    assert torch.equal(block(x, plain_context((3,))), block(x, plain_context((3,))))


@pytest.mark.parametrize("final", [True, False])
def test_a_stack_is_its_blocks_one_after_another_and_a_last_norm(final):
    shape = BlockShape(dim=8, heads=2, hidden=12)
    stack = Stack(shape, 3, "encoder", Positions(), final_norm=final)
    x = y = torch.randn(sum(LENGTHS), 8)
    for block in stack.blocks:
        y = block(y, plain_context(LENGTHS))
    y = norm("layer", 8)(y) if final else y
    torch.testing.assert_close(stack(x, plain_context(LENGTHS)), y)


def test_no_two_blocks_share_a_weight():
    stack = Stack(BlockShape(dim=8, heads=2, hidden=12), 3, "decoder", Positions(), cross=True)
    places = [parameter.data_ptr() for parameter in stack.parameters()]
    assert len(places) == len(set(places)) == 3 * (2 * 6 + 3 * 2 + 4) + 2


def test_attentions_are_named_from_the_input_up():
    stack = Stack(BlockShape(dim=8, heads=2, hidden=12), 2, "decoder", Positions(), cross=True)
    names = [attention.name for attention in stack.attentions()]
    assert names == ["decoder.0.self", "decoder.0.cross", "decoder.1.self", "decoder.1.cross"]
    assert [attention.layer for attention in stack.attentions()] == [0, 0, 1, 1]
