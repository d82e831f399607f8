"""The memory that a decoder looks at."""

from __future__ import annotations

import pytest
import torch

from regard.layers import Attention, Layout, Memory


@pytest.mark.parametrize("lengths", [(2, 4, 3), (3, 3, 3), (0, 2, 1)])
@pytest.mark.parametrize("chosen", [[0], [2, 0], [1, 2], [2, 1, 0], [1, 1]])
def test_a_selection_is_the_memory_of_those_sentences_alone(lengths, chosen):
    layer = Attention(8, heads=2, name="decoder.0.cross", cross=True)
    sentences = [torch.randn(length, 8) for length in lengths]
    memory = Memory(torch.cat(sentences), Layout(lengths))
    memory.projected[layer.name] = layer.project_memory(memory)
    selected = memory.select(torch.tensor(chosen))
    alone = Memory(torch.cat([sentences[i] for i in chosen]), Layout([lengths[i] for i in chosen]))
    assert torch.equal(selected.x, alone.x)
    assert selected.layout.lengths == alone.layout.lengths
    assert selected.mask.key_lengths == alone.mask.key_lengths
    expected = layer.project_memory(alone)
    for mine, other in zip(selected.projected[layer.name], expected, strict=True):
        for row, length in enumerate(selected.layout.lengths):
            torch.testing.assert_close(mine[row, :, :length], other[row, :, :length])
        assert mine.shape == other.shape
