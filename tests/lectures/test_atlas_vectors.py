"""Figures about vectors with input of one's own: words, inputs, directions, layers, embeddings."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from PIL import Image

from regard import load, vectors
from regard.errors import InputError
from regard_lectures import FIGURES, show
from regard_lectures.bank import FEWEST, contexts_of, read_bank
from regard_lectures.figures import orthogonal
from regard_lectures.figures.constructed import smallest_full, written_in, written_sample
from regard_lectures.figures.contexts import words_layers
from regard_lectures.figures.embedding import multiplied
from regard_lectures.figures.similarity import numbers_of, words_similarity
from tests.lectures.drawn import drawn
from tests.legible import problems


def test_a_sentence_of_ones_own_is_looked_up_with_stand_ins_that_are_marked():
    drawing = show("onehot", text="The old dog didn't see Xyzzyx!", word=3)
    numbers = drawing.numbers
    assert numbers["words"] == ["the", "old", "dog", "didn't*", "see", "xyzzyx*"]
    assert numbers["row"] == pytest.approx(vectors("words/glove")["dog"][: len(numbers["row"])])
    assert "didn't, xyzzyx" in drawing.caption
    assert problems(drawing.figure) == []
    long = show("onehot", text="one two three four five six seven eight nine ten one two three")
    assert "the first 12 of 13 words" in long.caption
    assert problems(long.figure) == []


# Inputs.


def test_the_image_of_the_lecture_rises_by_tenths_of_255():
    numbers = drawn("inputs").numbers
    assert numbers["image"] == [math.floor(255 * tenth / 10 + 1e-9) for tenth in range(1, 10)]


def test_numbers_of_ones_own_are_scaled_and_the_column_that_dominates_is_named():
    drawing = show("inputs", text="1 100 5; 2 -100 5; 3 50 5; 4 7 5")
    assert np.mean(drawing.numbers["scaled"], axis=0) == pytest.approx(0, abs=1e-12)
    assert np.std(drawing.numbers["scaled"], axis=0) == pytest.approx([1, 1, 0])
    assert "column 2 dominates" in drawing.title
    assert "does not dominate" in show("inputs", text="1 2; 2 1; 3 2").title
    assert "no distances" in show("inputs", text="3.5 7").title
    with pytest.raises(InputError, match="rows of 2 and 3 numbers, expected as many in each row"):
        show("inputs", text="1 2; 3 4 5")
    with pytest.raises(InputError, match="got 'x' among numbers"):
        show("inputs", text="1 x")


def test_categories_of_ones_own_get_an_order_from_numbers_unless_there_are_two():
    drawing = show("inputs", text="Red, dark green, Red, ultramarine violet, blue, pink")
    assert drawing.numbers["categories"] == [
        "Red", "dark green", "ultramarine violet", "blue", "pink",
    ]  # fmt: skip
    assert "give them an order" in drawing.title
    assert "3 times as far from “blue”" in drawing.caption  # of those in the picture
    assert "both give no order" in show("inputs", text="M F").title
    assert problems(drawing.figure) == []


def test_a_word_and_an_image_of_ones_own_become_vectors(tmp_path):
    table = vectors("words/glove")
    drawing = show("inputs", text="Dog.")
    assert drawing.numbers["index"] == table.words.index("dog") + 1
    assert drawing.numbers["embedding"] == pytest.approx(table["dog"].tolist())
    assert "no vector" in show("inputs", text="xyzzyx").title
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "mine.png")
    drawing = show("inputs", text=str(tmp_path / "mine.png"))
    assert "30 × 20 pixels is a vector of 1,800 numbers" in drawing.title
    top, left = drawing.numbers["corner"]
    shown = pixels[top : top + 3, left : left + 3].reshape(9, 3)
    assert np.array_equal(drawing.numbers["pixels"], shown)
    assert problems(drawing.figure) == []


# Analogies.


def test_questions_of_ones_own_are_judged_by_the_answers_one_expects():
    right = show("analogies", text="paris - france + germany = berlin, Tokyo − Japan + Italy")
    assert right.title == "1 of 1 answers are as expected"
    assert right.numbers["asked"][1]["answers"][0] == "rome"
    assert "“rome” is hardly nearer than “milan”" in right.caption
    wrong = show("analogies", text="paris - france + germany = munich")
    assert "0 of 1" in wrong.title
    assert "berlin instead of munich" in wrong.caption


def test_a_sentence_asks_for_the_neighbours_of_its_rarer_words():
    drawing = show("analogies", text="The muddy dog saw the river and my brother.")
    assert [asked["question"] for asked in drawing.numbers["asked"]] == ["dog", "saw", "river"]
    assert drawing.numbers["asked"][0]["answers"][0] == "cat"
    assert "No vector: muddy" in drawing.caption
    assert "the first 3 of" in drawing.caption
    assert problems(drawing.figure) == []
    with pytest.raises(InputError, match="no vector of 'xyzzyx'"):
        show("analogies", text="xyzzyx")


# Orthogonal directions.


@pytest.mark.parametrize(("dim", "count"), [(4, 12), (16, 144), (64, 2112)])
def test_the_constructed_directions_are_as_many_and_as_orthogonal_as_the_theorem_says(dim, count):
    rows = written_sample(dim, 10_000, seed=0)
    assert len(rows) == count == written_in(dim, 1 / math.sqrt(dim) + 1e-9)
    cosines = (rows @ rows.T).abs()
    assert torch.diagonal(cosines) == pytest.approx(1, abs=1e-5)
    assert float(cosines.fill_diagonal_(0).max()) == pytest.approx(1 / math.sqrt(dim), abs=1e-5)


def test_directions_of_89_to_91_degrees_are_computed():
    drawing = show("orthogonal", degrees=1.0)
    numbers = drawing.numbers
    assert numbers["written_dimension"] == smallest_full(math.sin(math.radians(1))) == 4096
    assert numbers["written"] == 4096 * 2049
    assert numbers["inside_written"] == 1 > 0.8 > numbers["inside_random"]
    assert numbers["widest_written"] == pytest.approx(math.degrees(math.asin(1 / 64)), abs=1e-3)
    assert "89° to 91°" in drawing.title
    assert "too many" in drawing.caption


def test_no_set_is_larger_than_the_bound():
    reach = math.sin(math.radians(15))
    assert orthogonal.bound(4, 0.5) == 12  # met by 12 directions in 4 dimensions
    for dim in (4, 8, 16, 24, 32):
        assert written_in(dim, reach) <= orthogonal.bound(dim, reach)
    assert orthogonal.bound(64, 0.5) is None
    rows = orthogonal._pushed(9, 8, 60)
    assert orthogonal._largest(rows) >= 0.999 / 8  # a simplex: N + 1 directions have 1 / N


# Similarity.


def test_borders_are_named_as_the_reason_only_if_they_are_alike():
    said = drawn("similarity")
    assert said.numbers["by_distance"][-1] > said.numbers["by_distance"][0] > 0.3
    assert "borders are alike" in said.caption
    of_digits = show("similarity", model="small/digits")
    assert abs(of_digits.numbers["by_distance"][0]) < 0.1
    assert "hardly more alike" in of_digits.title
    assert "borders are not alike" in of_digits.caption
    cosines = np.eye(9).tolist()
    numbers = numbers_of({"of": "x", "grid": [3, 3], "cosines": cosines})
    assert numbers["by_distance"] == [0] * len(numbers["by_distance"])
    assert "too small to compare borders" in words_similarity(numbers).caption


# Layers.


def test_common_words_have_real_contexts_and_others_are_refused_by_name():
    assert 50_000 < len(read_bank()) < 100_000
    for word in ("bank", "model", "king", "muddy", "teacher", "play", "rich"):
        contexts = contexts_of(word, "")
        assert contexts.total >= FEWEST
        assert all(word in sentence.lower() for sentence in contexts.with_word)
        assert not any(f" {word} " in sentence.lower() for sentence in contexts.others)
    with pytest.raises(
        InputError, match=r"'xyzzyx', which is in 0 of the .* expected a word of 12"
    ):
        contexts_of("xyzzyx", "")
    with pytest.raises(InputError, match="bank=FILE"):
        show("layers", text="We saw the ornithorhynchus", model="small/fill")


def test_the_bank_of_the_river_is_nearest_to_a_bank():
    drawing = show("layers", text="The bank of the river was muddy.", word="bank")
    numbers = drawing.numbers
    assert numbers["nearest"][-1][0]["word"] == "bank"
    assert "[bank] of the river" in numbers["nearest"][-1][0]["sentence"]
    assert "takes on its context" in drawing.title
    assert problems(drawing.figure) == []
    alike = {**numbers, "elsewhere_least": [1.0, 0.85], "elsewhere_largest": [1.0, 0.9]}
    assert "hardly takes on" in words_layers(alike).title
    assert "cannot tell" in words_layers({**numbers, "contexts": 1}).title
    other_tokens = {**numbers, "cosine_the_word_elsewhere": [0.2] * 6}
    assert "other tokens" in words_layers(other_tokens).title


# Embedding × √d.


def test_without_the_factor_words_drown_and_the_translation_fails():
    drawing = show("embedding", text="The old dog sleeps.", model="tiny/translate")
    numbers = drawing.numbers
    embed = load("tiny/translate", device="cpu").model.embeds()[0]
    ids = load("tiny/translate", device="cpu").vocabulary.source.encode("The old dog sleeps.")
    rows = embed.weight[ids].norm(dim=1).tolist()
    assert numbers["lengths"][0] == pytest.approx(rows)
    assert numbers["lengths"][1] == pytest.approx([row * math.sqrt(128) for row in rows])
    assert numbers["lengths"][2] == pytest.approx([8.0] * len(rows))  # √(d / 2)
    at = numbers["factors"].index(numbers["root"])
    assert numbers["probability"][at] == numbers["probability_length_kept"][at]
    assert numbers["probability"][0] < 0.1 < 0.8 < numbers["probability"][at]
    assert "fails" in drawing.title
    assert problems(drawing.figure) == []


def test_another_factor_is_taken_back_and_models_without_it_are_refused():
    model = load("tiny/translate", device="cpu").model
    before = [embed.scale for embed in model.embeds()]
    with multiplied(model.embeds(), 1.0, 2.0):
        assert [embed.scale for embed in model.embeds()] == [1.0, 1.0]
    assert [embed.scale for embed in model.embeds()] == before
    assert not any(embed._forward_hooks for embed in model.embeds())
    with pytest.raises(InputError, match="no positions that are added"):
        show("embedding", model="tiny/recurrent", text="The old dog sleeps.")


def test_each_of_these_figures_says_what_it_takes():
    for name in ("onehot", "inputs", "analogies", "layers", "embedding"):
        assert "--text" in FIGURES[name].takes
    for name in ("orthogonal", "similarity"):
        assert "none else" in FIGURES[name].takes


def test_a_word_that_a_sentence_has_twice_is_one_row_of_the_matrix():
    drawing = show("onehot", text="The dog sees the cat.", word=4)
    assert drawing.numbers["words"] == ["the", "dog", "sees", "cat"]
    assert "“cat” is row 4" in drawing.title


def test_far_positions_are_compared_with_neighbours():
    cosines = np.full((9, 9), 0.5)
    numbers = numbers_of({"of": "", "grid": [3, 3], "cosines": cosines.tolist()})
    assert "about as alike as neighbours (0.50)" in words_similarity(numbers).caption
