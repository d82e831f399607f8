"""The recurrent decoder layer with attention: its state after rows of different lengths."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from regard.layers import KVCache, Layout, Memory, RecurrentState, SequenceStack, plain_context
from regard.layers.recurrent_attention import AttentionCell
from regard.layers.recurrent_config import AttentiveContext

DIM, LENGTHS, MEMORY = 6, (4, 1, 0, 3), (2, 5, 3, 4)


def context(lengths, memory, block):
    start = block.recurrent.start(len(lengths), memory.x)
    states = [tuple(torch.full_like(tensor, 0.5) for tensor in start)]
    empty = KVCache(0, len(lengths), 0, 0, 0)
    ctx = replace(plain_context(lengths), memory=memory, cache=RecurrentState(states, empty))
    return ctx, states


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_each_row_keeps_the_state_after_its_own_last_token(cell):
    torch.manual_seed(0)
    config = SequenceStack(
        dim=DIM, block=("recurrent",), norm="none", residual=False, cell=cell, positions="none",
        dropout=0.0,
    )  # fmt: skip
    attention = AttentiveContext(kind="additive")
    block = AttentionCell(config, "decoder.0", memory_dim=DIM, attention=attention)
    rows = [torch.randn(length, DIM) for length in LENGTHS]
    whole = Memory(torch.randn(sum(MEMORY), DIM), Layout(MEMORY))
    ctx, states = context(LENGTHS, whole, block)
    block(torch.cat(rows), ctx)
    for row, x in enumerate(rows):
        alone, expected = context((len(x),), whole.select(torch.tensor([row])), block)
        for token in x:  # one token at a time
            block(token[None], replace(alone, layout=Layout((1,)), positions=torch.zeros(1).long()))
        for state, single_state in zip(states[0], expected[0], strict=True):
            torch.testing.assert_close(state[row], single_state[0])
