"""Vectors -> logits over the vocabulary."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.layers import VocabularyHead


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_logits_are_the_scaled_vector_times_the_matrix_plus_a_bias(bias, scale):
    head, x = VocabularyHead(4, 9, bias=bias, scale=scale), torch.randn(5, 4)
    if bias:
        assert not head.bias.any()  # before training no entry is ahead
        nn.init.normal_(head.bias)
    expected = (x * scale) @ head.weight.T + (head.bias if bias else 0)
    torch.testing.assert_close(head(x), expected)
    wanted = torch.tensor([0, 8, 3, 3, 1])
    loss = F.cross_entropy(expected, wanted, reduction="sum", label_smoothing=0.1)
    torch.testing.assert_close(head.loss(x, wanted, 0.1), loss)


def test_a_tied_matrix_is_the_embeddings_own():
    matrix = nn.Parameter(torch.randn(9, 4))
    head = VocabularyHead(4, 9, matrix, bias=True, scale=0.5)
    assert head.weight is matrix
    head.loss(torch.randn(3, 4), torch.tensor([1, 2, 3])).backward()
    assert matrix.grad.any()
    assert head.bias.grad.any()
