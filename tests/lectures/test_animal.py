"""What “it” looks at: the shipped encoder, other models, a person's sentence, shuffled weights."""

from __future__ import annotations

from regard.data.synthetic.grammar.corpus import contests
from regard_lectures import show
from regard_lectures.figures.animal import words_animal
from tests.lectures.drawn import drawn
from tests.lectures.shuffled import shuffle
from tests.legible import problems


def test_it_looks_at_its_noun_and_pronouns_need_the_head():
    numbers = drawn("animal").numbers
    assert numbers["on_noun"] >= 0.8
    assert numbers["chance"] < 0.25
    assert numbers["nearest_noun"] == 0.5  # looking at the nearest noun would not do
    assert numbers["right"] >= 95
    assert numbers["right_without"] <= 60
    assert len(numbers["trainings"]) == 3
    for run in numbers["trainings"]:
        assert run["on_noun"] >= 0.8
        assert run["right"] >= 95
        assert run["right_without"] <= 60
    tired, wide = numbers["sentences"]
    assert "“animal” (tired) and “street” (wide)" in drawn("animal").title
    assert " es " in tired["translation"]
    assert " sie " in wide["translation"]


def test_a_sentence_of_ones_own_is_read_with_its_other_ending():
    drawing = show("animal", text="The dog didn't chase the cat because it was too tired.")
    assert [s["text"].split()[-1] for s in drawing.numbers["sentences"]] == ["tired.", "wide."]
    assert "“dog” (tired)" in drawing.title
    assert problems(drawing.figure) == []


def test_a_shuffled_model_is_not_said_to_find_the_noun(tmp_path):
    drawing = show("animal", model=shuffle("tiny/pronoun", tmp_path / "shuffled"))
    assert drawing.title.startswith("No head of this encoder finds the noun")
    assert drawing.numbers["on_noun"] < 0.5
    assert drawing.title == words_animal(drawing.numbers).title


def test_contests_mean_both_nouns_equally_often():
    drawn_contests = contests(20, 3)
    assert sum(contest.meant for contest in drawn_contests) == 10
    for contest in drawn_contests:
        words = contest.pair.source.lower().rstrip(".").split()
        assert words.index("it") > max(words.index(noun) for noun in contest.nouns)
