"""Ids -> vectors."""

from __future__ import annotations

import torch
from torch import nn

from regard.layers import Embed, Positions, sinusoid
from regard.layers.positions import Sinusoidal


def test_an_embedding_is_the_one_hot_vector_times_the_matrix_scaled_by_the_root_of_dim():
    embed = Embed(5, 16)
    nn.init.normal_(embed.weight)
    ids, where = torch.tensor([4, 0, 4]), torch.tensor([0, 1, 2])
    one_hot = torch.nn.functional.one_hot(ids, 5).float()
    expected = one_hot @ embed.weight * 4
    torch.testing.assert_close(embed(ids, where, Positions()), expected)
    with_places = embed(ids, where, Sinusoidal(16, 2, 10))
    torch.testing.assert_close(with_places, expected + sinusoid(3, 16))


def test_dropout_acts_on_embedding_and_position_together():
    embed = Embed(5, 1000, dropout=0.5)
    nn.init.zeros_(embed.weight)
    ids, where, scheme = torch.tensor([1]), torch.tensor([0]), Sinusoidal(1000, 1, 2)
    dropped = embed(ids, where, scheme)[0, 1::2]  # cosines of 0: all ones
    assert set(dropped.tolist()) == {0.0, 2.0}
    assert set(embed.eval()(ids, where, scheme)[0, 1::2].tolist()) == {1.0}
