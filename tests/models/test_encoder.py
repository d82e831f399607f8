"""The encoder alone, against PyTorch's layers with the same weights; its sizes, heads, names."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.layers import Tap
from regard.models import BertConfig, build

LENGTHS = (4, 1, 7)


def tiny(**fields):
    sizes = {"dim": 16, "heads": 4, "hidden": 24, "layers": 2, "dropout": 0.0, "max_length": 32}
    return build(BertConfig.model_validate(sizes | fields), 11).eval()


def some_texts(ragged):
    texts = ragged(LENGTHS)
    return texts.typed(torch.arange(sum(LENGTHS)) % 2)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize("norm_place", ["post", "pre"])
def test_it_is_pytorchs_encoder_over_the_sum_of_three_embeddings(norm_place, copy_block, ragged):
    ours = tiny(norm_place=norm_place, norm_epsilon=1e-5).train()
    layer = nn.TransformerEncoderLayer(
        16, 4, 24, 0.0, "gelu", batch_first=True, norm_first=norm_place == "pre"
    )
    theirs = nn.TransformerEncoder(layer, 2, nn.LayerNorm(16) if norm_place == "pre" else None)
    for block, other in zip(ours.encoder.blocks, theirs.layers, strict=True):
        copy_block(block, other)
    texts = some_texts(ragged)
    types = texts.types.split(LENGTHS)
    hidden = ours.hidden(texts).split(LENGTHS)
    for ids, kinds, vectors in zip(texts.split(), types, hidden, strict=True):
        x = ours.embed.weight[ids] + ours.embed.types[kinds]
        x = x + ours.encoder.positions.table[: len(ids)]
        x = F.layer_norm(x, (16,), ours.embed.norm.weight, ours.embed.norm.bias)
        torch.testing.assert_close(vectors, theirs(x[None])[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize(("size", "weights"), [("base", 109_482_240), ("large", 335_141_888)])
def test_named_sizes_have_as_many_weights_as_were_published(size, weights):
    with torch.device("meta"):
        model = build(BertConfig(size=size, masked=False), 30522)
    assert sum(parameter.numel() for parameter in model.parameters()) == weights


@torch.no_grad()
def test_each_head_reads_what_it_should(ragged):
    model = tiny(classes=("a", "b", "c"), tags=("x", "y"), spans=True, next_sentence=True)
    texts = some_texts(ragged)
    hidden = model.hidden(texts)
    firsts = torch.stack([part[0] for part in hidden.split(LENGTHS)])
    pooled = torch.tanh(F.linear(firsts, model.pooler.weight, model.pooler.bias))
    torch.testing.assert_close(model.pooled(texts, hidden), pooled)
    torch.testing.assert_close(model.classify(texts), model.classes(pooled))
    torch.testing.assert_close(model.tag(texts), model.tags(hidden))
    torch.testing.assert_close(model.answer(texts), model.spans(hidden))
    masked = model.masked
    prepared = masked.norm(F.gelu(masked.transform(hidden)))
    logits = prepared @ model.embed.weight.T + masked.vocabulary.bias
    torch.testing.assert_close(model(texts), logits)
    assert model.classify(texts).shape == (3, 3)
    assert model.tag(texts).shape == (12, 2)
    assert model.answer(texts).shape == (12, 2)


@torch.no_grad()
@pytest.mark.parametrize(
    ("pooler", "function"), [("tanh", torch.tanh), ("relu", torch.relu), ("none", None)]
)
def test_the_pooler_is_a_function_of_the_first_token(pooler, function, ragged):
    model = tiny(pooler=pooler)
    texts = some_texts(ragged)
    hidden = model.hidden(texts)
    first = hidden[[0, 4, 5]]
    expected = first if function is None else function(model.pooler(first))
    torch.testing.assert_close(model.pooled(texts, hidden), expected)


@pytest.mark.parametrize(
    ("head", "call"), [("masked", "forward"), ("classes", "classify"), ("tags", "tag"),
                       ("spans", "answer")]
)  # fmt: skip
def test_a_head_that_it_does_not_have_is_refused(head, call, ragged):
    with pytest.raises(InputError, match=f"no head for {head.replace('_', ' ')}"):
        getattr(tiny(masked=False), call)(some_texts(ragged))


@torch.no_grad()
def test_without_types_all_tokens_are_of_the_first_kind(ragged):
    model, ids = tiny(), ragged(LENGTHS)
    zeros = torch.zeros(sum(LENGTHS), dtype=torch.int64)
    assert torch.equal(model(ids), model(ids.typed(zeros)))
    assert not torch.allclose(model(ids), model(ids.typed(zeros + 1)), atol=1e-4)
    assert tiny(token_types=0).embed.types is None


def test_the_masked_heads_matrix_is_the_embedding():
    model = tiny()
    assert model.masked.vocabulary.weight is model.embed.weight


def test_heads_and_sites_have_names_and_others_are_refused(ragged):
    model = tiny()
    assert model.heads()[3:5] == ["encoder.0.self.3", "encoder.1.self.0"]
    assert model.sites()["encoder.1.self.weights"] == 4
    with pytest.raises(InputError, match=r"decoder\.0"):
        model.hidden(some_texts(ragged), Tap("decoder.0.self.weights"))


def test_a_text_of_one_token_among_others_has_its_own_first():
    texts = Ragged.of([[3, 4], [5], [6, 7, 8]])
    assert texts.first_tokens.tolist() == [0, 2, 3]
