"""Ids -> vectors."""

from __future__ import annotations

import torch
from torch import nn

from regard.layers import Embed, Positions, sinusoid
from regard.layers.positions import Learned, Sinusoidal


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


def test_types_are_added_and_the_norm_comes_before_the_dropout():
    """dropout(norm(E[id] + PE(where) + T[type])), against BERT's own."""
    from transformers.models.bert.configuration_bert import BertConfig
    from transformers.models.bert.modeling_bert import BertEmbeddings

    config = BertConfig(vocab_size=7, hidden_size=8, max_position_embeddings=5, type_vocab_size=2)
    theirs = BertEmbeddings(config).eval()
    nn.init.normal_(theirs.LayerNorm.weight)
    nn.init.normal_(theirs.LayerNorm.bias)
    embed = Embed(7, 8, scaled=False, types=2, norm=nn.LayerNorm(8, eps=1e-12))
    scheme = Learned(8, 2, 5)
    embed.weight.data = theirs.word_embeddings.weight.data
    embed.types.data = theirs.token_type_embeddings.weight.data
    embed.norm.load_state_dict(theirs.LayerNorm.state_dict())
    scheme.table.data = theirs.position_embeddings.weight.data
    ids, types, where = torch.tensor([4, 0, 6]), torch.tensor([0, 1, 1]), torch.arange(3)
    embedded = embed(ids, where, scheme, types)
    torch.testing.assert_close(embedded, theirs(ids[None], types[None])[0])
    torch.testing.assert_close(embed(ids, where, scheme), theirs(ids[None])[0])  # all of the first


def test_without_a_scale_or_types_it_is_the_row_itself():
    embed = Embed(5, 16, scaled=False)
    ids = torch.tensor([4, 0, 4])
    assert torch.equal(embed(ids, ids, Positions()), embed.weight[ids])
    assert {name for name, _ in embed.named_parameters()} == {"weight"}
