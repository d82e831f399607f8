"""Times at equal multiply-adds, directions of attention, and heads with and without dropout."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard_lectures import show
from regard_lectures.claims import blanks
from regard_lectures.figures import direction, diversity, flops
from tests.legible import problems

# Times at equal multiply-adds.


def test_a_vit_is_matched_to_a_resnet_by_an_independent_count():
    configs, names = flops.matched("", 64)
    vit = configs["ViT"].encoder
    dim, hidden = vit.dim, vit.feed_forward.hidden
    patches, tokens = 64, 65
    layer = tokens * (4 * dim**2 + 2 * dim * hidden) + 2 * tokens**2 * dim
    counted = flops.LAYERS * layer + patches * 3 * 8 * 8 * dim + dim * len(flops.CLASSES)
    assert flops.multiply_adds(configs["ViT"]) == counted
    assert flops.multiply_adds(configs["CNN"]) == pytest.approx(counted, rel=0.01)
    assert names == {"CNN": "ResNet-18", "ViT": "ViT"}


def test_a_convolution_is_beside_a_product_of_equal_arithmetic():
    for stage in range(flops.STAGES):
        x, weights, rows, matrix = flops.operands(stage, 2, (128, 96))
        out = flops.convolve(x, weights)
        assert out.shape == x.shape
        cells = x.shape[0] * x.shape[2] * x.shape[3]
        assert cells * weights.numel() == rows.shape[0] * matrix.numel()
        assert flops.multiply(rows, matrix).shape == rows.shape


def test_the_other_model_is_matched_to_ones_own():
    configs, names = flops.matched("small/fashion", 128)
    counts = [flops.multiply_adds(config) for config in configs.values()]
    assert counts[0] == pytest.approx(counts[1], rel=flops.NEAR)
    assert names["ViT"] == "small/fashion"
    assert configs["CNN"].image == configs["ViT"].image == (28, 28)


@pytest.mark.slow
def test_a_model_of_ones_own_is_timed():
    drawing = show("flops", model="small/fashion", batch=2, rounds=1, tries=1)
    numbers = drawing.numbers
    assert "small/fashion" in drawing.title
    ratio = numbers["seconds"]["training"]["CNN"][0] / numbers["seconds"]["training"]["ViT"][0]
    assert numbers["differences_training"] == pytest.approx([math.log(ratio)])
    assert problems(drawing.figure) == []


def test_what_cannot_be_matched_is_an_error():
    with pytest.raises(InputError, match="a multiple of 8"):
        flops.matched("", 100)
    with pytest.raises(InputError, match="a CNN or a ViT"):
        flops.matched("small/fill", 128)


# Directions.


@pytest.mark.parametrize("known", [blanks.MARK, blanks.PLACE])
@pytest.mark.parametrize("kind", [blanks.BEFORE, blanks.BOTH, blanks.AFTER])
def test_a_text_needs_the_words_that_it_is_said_to_need(known, kind):
    ids, blank, total = blanks.draw_texts(known, kind, 200, torch.Generator().manual_seed(0))
    for row, position, answer in zip(ids.tolist(), blank.tolist(), total.tolist(), strict=True):
        assert row.count(blanks.BLANK) == 1
        assert row[position] == blanks.BLANK
        words = [
            "?" if n == blanks.BLANK else str(n) if n < blanks.DIGITS else f"{n - blanks.DIGITS}*"
            for n in row
        ]
        marked = [index for index, word in enumerate(words) if word.endswith("*")]
        if known == blanks.MARK:
            before = sum(index < position for index in marked)
            assert (before, len(marked)) == ({"before": 2, "both": 1, "after": 0}[kind], 2)
            assert answer == sum(int(words[index][0]) for index in marked)
        else:
            left, right = int(words[position - 1]), int(words[position + 1])
            assert not marked
            assert answer == left + right
            assert (right if kind == "before" else left if kind == "after" else 0) == 0
        read, back = blanks.read_text(words)
        assert (read, back.tolist()) == (known, [row])
        assert blanks.sum_of(known, back) == answer


def test_the_share_before_is_that_of_a_loop():
    rows = torch.rand(5, 2, 3, 7).softmax(-1)  # (texts, layers, heads, key)
    query = torch.tensor([1, 2, 3, 4, 5])
    shares = direction.share_before(rows, query)
    for text, position in enumerate(query.tolist()):
        row = rows[text, 1, 2].tolist()
        before, after = sum(row[:position]), sum(row[position + 1 :])
        assert float(shares[text, 1, 2]) == pytest.approx(before / (before + after))


def test_a_text_of_ones_own_is_shown_by_models_that_read_it(monkeypatch):
    monkeypatch.setattr(direction, "UNSEEN", 20)
    drawing = show("direction", text="2 3* 0 ? 1 4*", steps=2, tries=1)
    assert drawing.numbers["total"] == 7
    weights = drawing.numbers["shown"]["both"]["weights"]
    assert len(weights) == 6
    assert sum(weights) == pytest.approx(1, abs=1e-4)
    assert problems(drawing.figure) == []


def test_an_encoder_looks_to_both_sides_and_a_decoder_back():
    text = "My old dog did not see the cat. / The bank of the river was muddy."
    drawing = show("direction", model="small/fill", text=text)
    assert drawing.title == "small/fill attends to both sides"
    assert problems(drawing.figure) == []
    assert min(show("direction", model="small/write", text=text).numbers["share"]) == 100


@pytest.mark.parametrize("text", ["2 7 ? 1", "", "My dog sleeps", "? 2 3", "1* 2* 3* ?"])
def test_a_text_that_is_not_of_the_task_is_an_error(text):
    with pytest.raises(InputError, match="digits from 0 to 4"):
        show("direction", text=text)


def test_a_model_without_self_attention_over_words_is_an_error():
    with pytest.raises(InputError, match="no self-attention between words"):
        show("direction", model="small/digits")
    with pytest.raises(InputError, match="expected a text of three words or more"):
        show("direction", model="small/fill", text="Go")


# Heads with and without dropout.


def divergence(p, q):
    middle = (p + q) / 2
    return sum(
        float((side * np.log2(side / middle)).sum()) / 2 for side in (p, q)
    )  # the mean of KL(p || m) and KL(q || m)


def test_the_distance_of_heads_leaves_out_padding_and_queries_of_a_single_key():
    torch.manual_seed(0)
    lengths = [4, 2]
    weights = torch.zeros(2, 3, 4, 4)  # (texts, heads, query, key), causal
    for text, length in enumerate(lengths):
        for query in range(length):
            weights[text, :, query, : query + 1] = torch.rand(3, query + 1).softmax(-1)
    weights[1, :, 2:] = 0.25  # rows of padding
    table, _ = diversity.distances(weights, lengths)
    rows = [(0, 1), (0, 2), (0, 3), (1, 1)]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        pairs = [weights[text, [i, j], query, : query + 1].double().numpy() for text, query in rows]
        expected = np.mean([divergence(p, q) for p, q in pairs])
        assert float(table[i, j]) == pytest.approx(expected, rel=1e-5)
        assert float(table[j, i]) == pytest.approx(expected, rel=1e-5)
    assert diversity.mean_distance(table) == pytest.approx(float(table.sum()) / 6)
    same = torch.eye(4).expand(1, 2, 4, 4) * 0.5 + 0.125
    assert diversity.mean_distance(diversity.distances(same, [4])[0]) == pytest.approx(0, abs=1e-9)


def test_heads_of_a_model_of_ones_own_are_compared_on_ones_own_texts():
    drawing = show("diversity", model="small/fill", text="My cat sleeps here. / Rain fell again.")
    numbers = drawing.numbers
    assert numbers["read"] == "2 own texts"
    assert len(numbers["layers"]) == len(numbers["distance"]) == 5
    assert 0 < min(numbers["distance"]) <= max(numbers["distance"]) <= 1
    assert numbers["shown"] in drawing.title
    assert problems(drawing.figure) == []


def test_a_model_of_single_heads_has_none_to_compare():
    with pytest.raises(InputError, match="got one head in each layer"):
        show("diversity", model="tiny/recurrent")
