"""THE block, against PyTorch's encoder and decoder layers with the same weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.errors import InputError
from regard.kernels.dropout import drawing_from
from regard.layers import (
    Block,
    BlockShape,
    Context,
    Layout,
    Memory,
    Positions,
    Stack,
    plain_context,
    sublayers,
)
from regard.layers.norms import norm

LENGTHS, MEMORY = (3, 5, 1), (4, 2, 6)


def with_memory(ctx: Context) -> Context:
    ctx.memory = Memory(torch.randn(sum(MEMORY), 8), Layout(MEMORY))
    return ctx


@pytest.mark.parametrize("norm_place", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_block_is_pytorchs(norm_place, activation, copy_block, padding):
    shape = BlockShape(dim=8, heads=2, hidden=12, activation=activation, norm_place=norm_place)
    ours = Block(shape, "encoder.0", sublayers(shape, "encoder.0"))
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
    shape = BlockShape(dim=8, heads=2, hidden=12, activation=activation, norm_place=norm_place)
    ours = Block(shape, "decoder.0", sublayers(shape, "decoder.0", cross=True))
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
    shape = BlockShape(dim=8, heads=2, hidden=12, residual=False)
    block, ctx, x = (
        Block(shape, "encoder.0", sublayers(shape, "encoder.0")),
        plain_context((3,)),
        torch.randn(3, 8),
    )
    inner = block.self_attention(block.self_norm(x), ctx)
    torch.testing.assert_close(block(x, ctx), block.feed_forward(block.feed_norm(inner)))


def test_dropout_is_off_in_eval():
    shape = BlockShape(dim=8, heads=2, hidden=12, dropout=0.5, attention_dropout=0.5)
    block, x = Block(shape, "encoder.0", sublayers(shape, "encoder.0")), torch.randn(3, 8)
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
    addresses = [parameter.data_ptr() for parameter in stack.parameters()]
    assert len(addresses) == len(set(addresses)) == 3 * (2 * 6 + 3 * 2 + 4) + 2


def test_attentions_are_named_from_the_input_up():
    stack = Stack(BlockShape(dim=8, heads=2, hidden=12), 2, "decoder", Positions(), cross=True)
    names = [attention.name for attention in stack.attentions()]
    assert names == ["decoder.0.self", "decoder.0.cross", "decoder.1.self", "decoder.1.cross"]
    assert [attention.slot for attention in stack.attentions() if not attention.cross] == [0, 1]


def test_a_norm_inside_stands_on_the_change_and_a_scale_multiplies_it():
    shape = BlockShape(
        dim=8, heads=2, hidden=12, norm_place="inside", norm_places={"feed_forward": "post"}
    )
    parts = sublayers(shape, "encoder.0")
    block = Block(shape, "encoder.0", parts, scales={"feed_forward": 0.5})
    ctx, x = plain_context((3,)), torch.randn(3, 8)
    inner = x + block.self_norm(block.self_attention(x, ctx))
    expected = block.feed_norm(inner + 0.5 * block.feed_forward(inner))
    torch.testing.assert_close(block(x, ctx), expected)


def test_drop_path_takes_whole_texts_past_a_sub_layer_and_keeps_the_mean():
    shape = BlockShape(
        dim=8, heads=2, hidden=12, sublayers=("feed_forward",), norm="none", drop_path=0.25
    )
    block = Block(shape, "encoder.0", sublayers(shape, "encoder.0"))
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
    shape = BlockShape(dim=8, heads=2, hidden=12, drop_path=0.3)
    blocks = Stack(shape, 4, "encoder", Positions()).layers()
    assert [round(block.drop_path, 6) for block in blocks] == [0, 0.1, 0.2, 0.3]


def test_two_sub_layers_of_one_first_word_are_refused():
    shape = BlockShape(dim=8, heads=2, hidden=12, sublayers=("self_attention", "self_convolution"))
    with pytest.raises(InputError, match="a second sub-layer whose norm is self_norm"):
        Block(shape, "encoder.0", sublayers(shape, "encoder.0"))
    strange = BlockShape(dim=8, heads=2, hidden=12, sublayers=("pooling",))
    with pytest.raises(InputError, match="got pooling, expected a name that ends in self_att"):
        sublayers(strange, "encoder.0")
