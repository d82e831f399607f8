"""The figures of norms and of the feed-forward: what they state is computed again."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import regard
from regard.errors import InputError
from regard_lectures import show
from regard_lectures.figures.batchnorm import normalized
from regard_lectures.figures.feedforward import (
    effect_of,
    feed_forwards,
    hidden_of,
    measure_layer,
    most_active,
    without,
)
from tests.legible import problems

TEXT = "The dog sleeps because it is tired."


def tiny(**options):
    return show("feedforward", model="tiny/translate", **{"text": TEXT, **options})


def test_layer_norm_is_over_the_row_and_batch_norm_over_the_column():
    x = torch.randn(5, 8)
    layer, batch = normalized(x)
    rows = (x - x.mean(1, keepdim=True)) / (x.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    columns = (x - x.mean(0)) / (x.var(0, correction=0) + 1e-5).sqrt()
    torch.testing.assert_close(layer, rows)
    torch.testing.assert_close(batch, columns)


def test_only_batch_norm_of_a_sentence_changes_with_its_neighbours():
    drawing = show("batchnorm", text="She lives in Köln! / Rain, again. / My cat is 3 years old")
    numbers = drawing.numbers
    assert numbers["change_layer"] == 0
    assert numbers["change_batch"] > 0.5
    assert drawing.title == "Batch norm depends on the neighbours in the batch, layer norm not"
    shown = np.array(numbers["batch_norm"][:4]) - np.array(numbers["batch_norm_otherwise"])
    assert np.abs(shown).max() <= numbers["change_batch"]
    assert "“my cat is 3 years” in place of the second" in drawing.caption
    assert "Of sentence 3 the first 5 of 6 words are read." in drawing.caption
    assert problems(drawing.figure) == []


def test_equal_neighbours_change_neither_norm():
    drawing = show("batchnorm", text="The dog runs. / The dog runs!")
    assert drawing.title == "With these neighbours neither norm changes the first sentence"
    assert "Alone in its batch" in drawing.caption
    assert problems(drawing.figure) == []


def test_a_single_sentence_gets_neighbours_and_four_are_refused():
    drawing = show("batchnorm", text="Unfortunately the muddy Donaudampfschifffahrt slept.")
    assert drawing.numbers["words"][:3] == ["unfortunately", "the", "muddy*"]
    assert drawing.numbers["of_the_first_sentence"] == 5
    assert problems(drawing.figure) == []
    with pytest.raises(InputError, match="got 4 sentences, expected 1 to 3"):
        show("batchnorm", text="a b / c d / e f / g h")
    with pytest.raises(InputError, match="2 words or more"):
        show("batchnorm", text="Go / the dog runs")


def test_numbers_of_ones_own_go_through_both_norms_and_alone_in_a_batch():
    drawing = show("batchnorm", text="2 4 9; 1 0 4; 7 7 1")
    x, numbers = np.array([[2, 4, 9], [1, 0, 4], [7, 7, 1]]), drawing.numbers
    for name, axis in (("layer_norm", 1), ("batch_norm", 0)):
        mean, deviation = x.mean(axis, keepdims=True), x.std(axis, keepdims=True)
        assert np.array(numbers[name]) == pytest.approx((x - mean) / deviation, abs=1e-4)
    assert numbers["batch_norm_otherwise"] == [[0, 0, 0]]
    assert numbers["change_layer"] == 0
    assert "Alone in its batch the first row changes" in drawing.caption
    assert "In a batch of 1 batch norm makes every number 0." in drawing.caption
    assert problems(drawing.figure) == []
    alone = show("batchnorm", text="1.5 2 1000")
    assert alone.numbers["batch_norm"] == [[0, 0, 0]]
    assert alone.numbers["batch_norm_otherwise"][0] == pytest.approx([1, 1, 1], abs=1e-4)
    equal = show("batchnorm", text="1 2 3; 1 2 3; 1 2 3")
    assert equal.title == "With these neighbours neither norm changes the first row"


@pytest.mark.parametrize("text", ["1 2; 3", "1; 2", "; ".join(["1 2"] * 9), "1e999 2"])
def test_numbers_that_are_no_batch_are_an_error(text):
    with pytest.raises(InputError, match=r"as many in each row|1 to 8 rows"):
        show("batchnorm", text=text)


def test_the_hidden_units_are_those_of_the_equation():
    layer = feed_forwards(regard.load("tiny/translate", device="cpu"))["encoder.0.feed_forward"]
    x = torch.randn(6, 128)
    with torch.no_grad():
        hidden = hidden_of(layer, x)
        torch.testing.assert_close(hidden, F.relu(x @ layer.into.weight.T + layer.into.bias))
        numbers = measure_layer(layer, x)
    assert numbers["silent"] == pytest.approx((hidden == 0).float().mean(1).tolist())
    assert numbers["out_of_order"] < 1e-6
    assert numbers["units"][0] == int(hidden[0].argmax())
    assert most_active(torch.tensor([[1.0, 3, 2], [9, 8, 0]]), 3) == [1, 0, 2]


def test_words_of_ones_own_share_a_function_and_not_their_units():
    drawing = tiny(part="decoder", layer=1)
    numbers = drawing.numbers
    assert numbers["layer"] == "decoder.1.feed_forward"
    assert numbers["tokens"][0] == "<s>"
    assert f"{np.mean(numbers['silent']):.0%} of 256 units (2 × the width) are 0" in drawing.caption
    assert numbers["share_left"] == pytest.approx(
        numbers["without"][numbers["layer"]] / numbers["with_all"]
    )
    assert problems(drawing.figure) == []


def test_without_a_layer_its_output_is_zero_and_afterwards_all_is_as_before():
    pipeline = regard.load("tiny/translate", device="cpu")
    layer = feed_forwards(pipeline)["decoder.0.feed_forward"]
    x = torch.randn(3, 128)
    before = layer(x)
    with without(layer):
        assert not layer(x).any()
    torch.testing.assert_close(layer(x), before)


def test_an_effect_within_the_noise_of_the_tokens_is_none():
    numbers = {**tiny().numbers, "output_without": "", "output": ""}
    small = {**numbers, "share_left": 0.8, "change": -0.1, "margin": 0.2}
    assert effect_of(small) == "this text cannot tell if the layer matters"
    assert effect_of({**small, "margin": 0.05}) == "the output is less likely without it"
    assert effect_of({**small, "share_left": 0.3, "margin": 0.05}) == "the output needs the layer"
    assert "the output is another" in effect_of({**numbers, "output": "Ein Hund."})


@pytest.mark.slow
@pytest.mark.parametrize("model", ["small/write", "small/fill", "small/jobs"])
def test_every_family_of_texts_has_a_feed_forward(model):
    drawing = show("feedforward", model=model, text="Once upon a time there was a muddy dog.")
    assert 0 < drawing.numbers["with_all"] <= 1
    assert drawing.numbers["out_of_order"] < 1e-5
    assert problems(drawing.figure) == []


def test_models_and_layers_without_a_feed_forward_are_refused():
    with pytest.raises(InputError, match="no feed-forward, expected a Transformer of texts"):
        show("feedforward", model="tiny/recurrent")
    with pytest.raises(InputError, match="a model of images"):
        show("feedforward", model="small/digits")
    with pytest.raises(InputError, match="layer: got 7, expected 0 to 1 of the decoder"):
        tiny(part="decoder", layer=7)
