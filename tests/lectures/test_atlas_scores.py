"""Soft and hard attention, a learned form, masks, and scores before the softmax: on own input."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import regard
from regard.draw import signed_scale
from regard.errors import InputError
from regard.explain import Board, Words
from regard.vectors.store import vectors
from regard_lectures import FIGURES, show
from regard_lectures.figures import bilinear, hard
from regard_lectures.figures.lookup import sign_test, verdict, words_lookup
from regard_lectures.figures.scores import record, words_scores
from tests.lectures.drawn import drawn
from tests.legible import problems, texts

SENTENCE = "Yesterday, the muddy dog slept on the Geschwindigkeitsbegrenzung; didn't it sleep?"


def test_softmax_says_which_of_ones_own_numbers_wins_or_that_none_does():
    assert show("softmax", text="0 0 5").title.endswith("nearly everything: 0.9867")
    even = show("softmax", text="2 2 2")
    assert even.title == "Softmax: 3 equal numbers get equal shares, 0.3333 each"
    assert "as rounded in the picture 0.9999" in even.caption  # the sum of what is seen
    many = show("softmax", text="1 2 3 4 5 6 7 −8 9 10 11 12")
    assert problems(many.figure) == []
    assert "exp(−x)" not in many.caption  # the slide's mistake is about the slide's numbers


def test_scaling_with_other_keys_says_what_it_measured():
    drawing = show("scaling", keys=2, seed=3)
    ratio = drawing.numbers["gradient_plain"][0] / drawing.numbers["gradient_plain"][-1]
    assert ("vanishes" in drawing.title) == (ratio > 3)
    assert problems(drawing.figure) == []


def test_an_ordinary_sentence_is_masked_with_stand_ins_that_are_marked():
    drawing = show("mask", text=SENTENCE, rule="window")
    assert drawing.numbers["keys"][2] == "muddy*"
    assert drawing.numbers["keys"][1] == "the"
    assert "random numbers stand in: muddy, slept, geschwindigkeitsbegrenzung" in drawing.caption
    assert problems(drawing.figure) == []


def test_masks_have_queries_as_rows_and_grey_cells_where_nothing_may_be_looked_at():
    rows, turned = drawn("mask"), show("mask", rows="keys")
    assert np.allclose(np.sum(rows.numbers["weights"], axis=1), 1)
    assert np.array_equal(np.array(rows.numbers["weights"]).T, turned.numbers["weights"])
    assert "each row, a query," in rows.caption
    assert "each column, a query," in turned.caption
    cells = rows.figure.axes[1].collections[0].get_array()  # the weights as they are drawn
    assert np.array_equal(np.ma.getmaskarray(cells), np.array(rows.numbers["may_look"]) == 0)
    unmasked = show("mask", text="who sees whom", rule="none")
    assert unmasked.title.startswith("Without a mask every query attends to every key")


def test_a_form_is_measured_on_words_that_it_was_not_trained_on():
    seen, unseen = bilinear.split_words(["steep", "hill"], seed=1)
    assert not set(seen) & set(unseen)
    assert not {"steep", "hill"} & {*seen, *unseen}
    words = bilinear.labelled(
        ["blue", "jacket", "hat", "rocky"]
    )  # sorted: blue, hat, jacket, rocky
    assert words.right.nonzero().tolist() == [[1, 0], [2, 0]]
    assert words.same.nonzero().tolist() == [[1, 2], [2, 1]]
    scores = torch.zeros(4, 4)
    scores[1, 0], scores[2, 0], scores[2, 3], scores[0, 2] = 2.0, 1.0, 3.0, 1.0
    assert bilinear.judged(scores, words) == {"adjective": 50, "noun": 100, "turned": 75}


def test_a_learned_form_knows_the_direction_and_the_dot_product_the_topic():
    drawing = drawn("bilinear")
    numbers = drawing.numbers
    assert numbers["plain_turned"] == numbers["shared_turned"] == [50.0] * 3  # symmetric
    assert min(numbers["learned_turned"]) > 80
    assert min(numbers["learned_noun"]) > max(numbers["plain_noun"]) + 20
    assert max(numbers["learned_adjective"]) < max(numbers["plain_adjective"])  # and says so
    said = f"another adjective {np.mean(numbers['learned_adjective']):.0f}%"
    assert said in drawing.caption


def test_ones_own_words_get_their_real_products_and_learned_scores():
    drawing = show("bilinear", text="The Red car: a verdant sky", tries=1, steps=20)
    numbers = drawing.numbers
    assert numbers["words"] == ["the", "red", "car", "sky"]
    unit = {word: vectors("words/glove")[word] for word in ("red", "car")}
    red, car = (vector / np.linalg.norm(vector) for vector in unit.values())
    assert numbers["scores_plain"][1][2] == pytest.approx(float(red @ car), abs=1e-3)
    assert "Without a vector: a, verdant." in drawing.caption
    assert "one seed" in drawing.limits
    with pytest.raises(InputError, match="no vector for fluffy"):
        show("bilinear", text="fluffy sky")
    assert problems(drawing.figure) == []


def test_a_look_up_is_called_better_only_if_the_texts_can_tell():
    numbers = drawn("lookup").numbers
    lookup_numbers = {
        **numbers, "sets": ["softmax", "one head", "all heads"], "exact": [96.0, 98.0, 43.0],
        "gained": [0, 2, 0], "lost": [0, 0, 53], "pairs": 100,
    }  # fmt: skip
    assert sign_test(2, 0) == 0.5
    assert verdict(lookup_numbers, "one head") == "cannot tell"
    caption = words_lookup(lookup_numbers).caption
    assert "too close to tell from 100 texts: one head (98%)" in caption
    many = {**lookup_numbers, "gained": [0, 20, 0], "lost": [0, 1, 53]}
    assert "better than it: one head (98%)" in words_lookup(many).caption


def test_scores_are_those_of_the_steps_and_their_softmax_the_weights():
    text = "The old dog sleeps."
    numbers = show("scores", text=text, part="decoder", layer=1, head=3).numbers
    allowed = np.array(numbers["may_look"], dtype=bool)
    assert np.array_equal(allowed, np.tri(len(allowed), dtype=bool))  # queries are rows
    steps = show(
        "steps", model="tiny/translate", text=text, part="decoder", layer=1, head=3
    ).numbers
    assert numbers["queries"] == steps["tokens"]
    scaled = np.array(steps["scaled"])
    assert np.array(numbers["scores"])[allowed] == pytest.approx(scaled[allowed], abs=1e-4)
    shares = np.where(allowed, np.exp(numbers["scores"]), 0)
    assert np.array(numbers["weights"]) == pytest.approx(
        shares / shares.sum(1, keepdims=True), abs=1e-5
    )


def test_scores_of_any_model_on_a_long_sentence_say_what_is_left_out():
    drawing = show("scores", text=SENTENCE, model="tiny/recurrent")
    assert drawing.numbers["layer"] == "decoder.0.cross"
    assert "Shown: the first 10 of" in drawing.caption
    assert problems(drawing.figure) == []
    writer = show("scores", text="It was cold", model="small/write", layer=2, head=1)
    assert writer.title.startswith("Decoder layer 2, head 1 (self)")
    with pytest.raises(InputError, match="head: got 9"):
        show("scores", head=9)


def test_a_head_with_equal_weights_is_said_to_have_them():
    pipeline = regard.load("tiny/translate", device="cpu")
    _, weights, labels = record(pipeline, "The dog sleeps.", "encoder.0.self", 0)
    even = np.full_like(weights, 1 / weights.shape[1])
    numbers = {
        "layer": "encoder.0.self", "head": 0, "text": "x", "queries": labels[0],
        "keys": labels[1], "scores": np.zeros_like(even).tolist(), "weights": even.tolist(),
        "may_look": np.ones_like(even, dtype=int).tolist(),
    }  # fmt: skip
    assert "nearly equal weights, the largest 0.25" in words_scores(numbers).title


def test_soft_hard_and_location_attention_of_three_seeds():
    drawing = drawn("hard")
    numbers = drawing.numbers
    assert all(len(right) == 3 for right in numbers["right"].values())
    for kind in ("hard", "sampled"):
        table = np.array(numbers["weights"][kind])
        assert set(np.unique(table)) == {0, 1}
        assert np.array_equal(table.sum(1), np.ones(len(table)))
    assert max(numbers["right"]["location"]) < min(numbers["right"]["soft"]) - 20
    assert "location worse" in drawing.title


def test_each_kind_is_trained_on_ones_own_digits(monkeypatch):
    monkeypatch.setattr(hard, "PAIRS", 300)
    monkeypatch.setattr(hard, "UNSEEN", 10)
    drawing = show("hard", text="7 0 7 1", steps=2, tries=1)
    assert drawing.numbers["queries"] == ["1", "7", "0", "7", "end"]
    assert set(drawing.numbers["right"]) == {"soft", "hard", "sampled", "location"}
    assert problems(drawing.figure) == []
    rows = hard.rows_of_symbols(["7", "0", "7", "1"], seed=0)
    assert len({pair.source for pair in rows}) == len(rows) == 310
    assert "7 0 7 1" not in {pair.source for pair in rows}
    with pytest.raises(InputError, match="got 1 symbols, expected 2 to 10"):
        show("hard", text="7")


@pytest.mark.slow
def test_a_sentence_goes_to_a_translator_whose_weights_are_replaced(monkeypatch):
    monkeypatch.setattr(hard, "TRANSLATED", 4)
    monkeypatch.setattr(hard, "OTHERS", 20)
    drawing = show("hard", text="Yesterday the small dog saw an old house.")
    numbers = drawing.numbers
    soft, one = (np.array(numbers["weights"][kind]) for kind in ("soft", "hard"))
    assert numbers["target"] == regard.load("tiny/recurrent").translate(numbers["source"], beam=1)
    assert np.array_equal(soft[0].argmax(), one[0].argmax())  # the first query sees the same
    assert np.array_equal(one.sum(1), np.ones(len(one)))
    assert "Put in place of soft attention" in drawing.title
    assert problems(drawing.figure) == []
    with pytest.raises(InputError, match="expected a recurrent translator"):
        show("hard", text="The dog sleeps.", model="tiny/translate")


def test_the_figures_say_what_of_ones_own_they_take():
    for name in ("softmax", "bilinear", "mask", "lookup", "scores", "hard"):
        assert FIGURES[name].takes.startswith("--text: ")


def test_a_matrix_says_which_rows_are_named_where_a_long_line_takes_their_room():
    with Board(Words("t", "c"), (1, 1, 1), "", limits="") as board:
        board.lines(["a line above"] * 4)
        names = [str(number) for number in range(32)]
        axes = board.matrix(
            0, "M", np.eye(32), signed_scale(1.0), (names, names), ("row", "column")
        )
        [said] = re.findall(
            r"every (\d+)\w\w row named",
            " ".join(text.get_text() for text, _ in texts(board.sheet.figure)),
        )
    assert [label.get_text() for label in axes.get_yticklabels()] == names[:: int(said)]


def test_digits_without_spaces_are_digits_and_unknown_words_are_named(monkeypatch):
    monkeypatch.setattr(hard, "measure_trained", lambda symbols, *_: symbols)
    assert hard.measure("731", "", 1, 1, 0) == ["7", "3", "1"]
    drawing = show("hard", text="The tall man opened the door.")
    assert "Unknown to the model: tall." in drawing.caption


def test_the_mark_of_a_stand_in_stays_where_its_word_is_cut():
    drawing = show("mask", text="Nobody expected the Spanish Inquisition, did they?")
    said = [text.get_text() for text, _ in texts(drawing.figure)]
    assert sum(text.startswith("inqui") and text.endswith("…*") for text in said) == 4
    assert "on the right" not in drawing.caption  # masked cells are grey in both maps
