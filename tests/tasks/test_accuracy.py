"""Scores against the definitions of those who compare by them, written anew as plain loops."""

from __future__ import annotations

import random

import pytest

from regard.tasks.measures.accuracy import (
    answer_scores,
    class_scores,
    entities,
    entity_scores,
    exact_match,
    normalise_answer,
    overlap,
)


def conlleval_chunks(tags):
    """conlleval's own two functions, rule by rule."""
    chunks, begun = set(), None
    previous, previous_type = "O", ""
    for index, tag in enumerate([*tags, "O"]):
        letter, _, kind = tag.partition("-")
        ends = (
            previous in ("E", "S")
            or (previous in ("B", "I") and letter in ("B", "S", "O"))
            or (previous != "O" and previous_type != kind)
        )
        starts = (
            letter in ("B", "S")
            or (previous in ("E", "S", "O") and letter in ("E", "I"))
            or (letter != "O" and previous_type != kind)
        )
        if ends and begun is not None:
            chunks.add((begun[1], begun[0], index))
            begun = None
        if starts:
            begun = (index, kind)
        previous, previous_type = letter, kind
    return chunks


def test_entities_are_those_of_conlleval_for_every_order_of_tags():
    dice = random.Random(0)
    tags = ["O", *(f"{letter}-{kind}" for letter in "BIES" for kind in "xy")]
    for _ in range(3000):
        row = dice.choices(tags, k=dice.randint(1, 7))
        assert {(e.kind, e.first, e.last) for e in entities(row)} == conlleval_chunks(row), row


def test_entity_scores_by_hand():
    wanted = [["B-per", "I-per", "O", "B-loc"], ["O", "B-loc"]]
    predicted = [["B-per", "O", "O", "B-loc"], ["B-per", "B-loc"]]
    scores = entity_scores(wanted, predicted)
    assert scores.overall["precision"] == pytest.approx(50)  # 2 of 4
    assert scores.overall["recall"] == pytest.approx(200 / 3)  # 2 of 3
    assert scores.overall["f1"] == pytest.approx(400 / 7)
    assert scores.overall["accuracy"] == pytest.approx(400 / 6)
    assert scores.by_label["loc"] == {"precision": 100, "recall": 100, "f1": 100, "count": 2}
    assert scores.by_label["per"]["f1"] == 0


def test_bilou_is_bioes_and_tags_of_every_word_have_only_an_accuracy():
    assert entities(["B-x", "L-x", "U-x"]) == entities(["B-x", "E-x", "S-x"])
    assert entity_scores([["NOUN", "VERB"]], [["NOUN", "NOUN"]]).overall == {"accuracy": 50.0}


def test_class_scores_by_hand():
    scores = class_scores(list("aaabbc"), list("aabbbb"), ["a", "b", "c", "never"])
    assert scores.overall["accuracy"] == pytest.approx(400 / 6)
    assert scores.by_label["a"]["f1"] == pytest.approx(80)
    assert scores.by_label["b"]["f1"] == pytest.approx(100 * 4 / 6)
    assert scores.overall["f1"] == pytest.approx((80 + 400 / 6 + 0) / 3)


def test_answers_are_compared_as_squad_does():
    assert normalise_answer(" The  Eiffel-Tower, an icon! ") == "eiffeltower icon"
    assert exact_match("the Cat.", ["dog", "cat"]) == 1
    assert overlap("the big red cat", ["red cat", "dog"]) == pytest.approx(2 * 2 / 5)
    assert (overlap("", []), overlap("x", []), exact_match("", [])) == (1, 0, 1)
    scores = answer_scores(["cat", "", "dog"], [["a cat"], [], ["cow"]])
    assert scores.overall["exact"] == pytest.approx(200 / 3)
    assert scores.by_label["unanswerable"] == {"exact": 100, "f1": 100, "count": 1}
