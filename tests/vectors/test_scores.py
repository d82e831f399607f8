"""Scores of vectors: by hand, with ties, and on the real sets where they are at hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from regard.errors import InputError
from regard.vectors.questions import own_questions
from regard.vectors.scores import (
    Answered,
    answer,
    evaluate,
    rank,
    read_pairs,
    read_questions,
    spearman,
)
from regard.vectors.store import vectors
from regard.vectors.table import WordVectors
from tests.commands import is_refused, regard  # noqa: F401 (a fixture)

DATA = Path(__file__).parents[3] / "shared/data"
GLOVE = DATA / "glove_100d_20k/glove_100d_20k_f16.npz"
SETS = DATA / "word_similarity"


@pytest.fixture
def square() -> WordVectors:
    """Two steps, each in its own direction: a is to b as c is to d."""
    rows = [[1, 0, 1], [0, 1, 1], [1, 0, -1], [0, 1, -1], [0, 0, 1]]
    return WordVectors(["a", "b", "c", "d", "other"], rows)


def test_spearman_is_the_textbooks_also_with_ties():
    assert spearman([1, 2, 3], [10, 20, 30]) == 1
    assert spearman([1, 2, 3], [3, 2, 1]) == -1
    # ranks 1 2.5 2.5 4 and 1 3 2 4: 4.5 / √(4.5 · 5)
    assert spearman([1, 2, 2, 3], [1, 3, 2, 4]) == pytest.approx(4.5 / (4.5 * 5) ** 0.5)
    # IQ and hours of television, 10 people (the usual worked example): −29/165
    iq = [106, 100, 86, 101, 99, 103, 97, 113, 112, 110]
    hours = [7, 27, 2, 50, 28, 29, 20, 12, 6, 17]
    assert spearman(iq, hours) == pytest.approx(-29 / 165)
    assert spearman([1, 1], [1, 2]) is None


def test_an_analogy_counts_if_the_nearest_other_word_is_the_fourth(square):
    asked = {"s": [("A", "B", "c", "D"), ("a", "b", "c", "other"), ("a", "b", "c", "z")]}
    assert answer(square, asked) == {"s": Answered(right=1, asked=2, outside=1)}
    assert answer(square, {"s": [("x", "y", "z", "w")]})["s"].accuracy is None


def test_similarities_are_ranked_over_known_pairs(square):
    ranked = rank(square, [("a", "b", 9.0), ("A", "c", 1.0), ("a", "d", 0.5), ("a", "z", 3.0)])
    assert (ranked.spearman, ranked.pairs, ranked.outside) == (1, 3, 1)  # 0.5, 0, -0.5
    assert rank(square, [("x", "y", 1.0)]).spearman is None


def test_files_of_questions_and_pairs_are_read_as_the_sets_have_them(tmp_path):
    (tmp_path / "q.txt.gz").write_bytes(gzip.compress(b": family\nboy girl he she\n: x\na b c d\n"))
    assert read_questions(str(tmp_path / "q.txt.gz")) == {
        "family": [("boy", "girl", "he", "she")],
        "x": [("a", "b", "c", "d")],
    }
    for content in (
        "# Word 1\tWord 2\tHuman (mean)\nold\tnew\t1.58\n",
        "Word 1,Word 2,Human (mean)\nold,new,1.58\n",
        "word1\tword2\tPOS\tSimLex999\tconc\nold\tnew\tA\t1.58\t2\n",
        "old new 1.58\n",
    ):
        (tmp_path / "pairs").write_text(content)
        assert read_pairs(str(tmp_path / "pairs")) == [("old", "new", 1.58)]


def test_a_bad_line_is_refused_with_its_number(tmp_path):
    for read, content, said in (
        (read_questions, "a b c d\na b c\n", ":2: got 3 words"),
        (read_questions, ": only a name\n", "no question"),
        (read_pairs, "a\tb\t1\na\tb\tnan\n", ":2"),
        (read_pairs, "a\tb\t1\na\tb\n", ":2"),
        (read_pairs, "a\tb\n", ":1"),
        (read_pairs, "", "empty file"),
    ):
        (tmp_path / "bad").write_text(content)
        with pytest.raises(InputError, match=said):
            read(str(tmp_path / "bad"))


def test_our_own_questions_have_four_different_words_in_each_section():
    sections = own_questions()
    assert {name: len(asked) for name, asked in sections.items()} == dict.fromkeys(sections, 132)
    questions = [question for section in sections.values() for question in section]
    assert all(a != c and b != d and a != b for a, b, c, d in questions)


def test_the_command_scores_the_shelf(regard, tmp_path):  # noqa: F811
    said = regard("eval", "words/glove")
    assert "own questions" in said.out
    assert "of 770 questions (22 with unknown words)" in said.out
    (tmp_path / "pairs.tsv").write_text("car\tbus\t9\ncar\tcat\t2\ncar\tsushi\t1\n")
    said = regard("eval", "words/glove", "--similarity", "pairs.tsv", "--json")
    assert json.loads(said.out) == {
        "similarity": "pairs.tsv", "spearman": 1.0, "pairs": 3, "outside": 0,
    }  # fmt: skip
    is_refused(regard("eval", "words/glove", "--split", "test"), "--split", "--analogies")
    is_refused(regard("eval", "tiny/translate", "--similarity", "pairs.tsv"), "word vectors")
    is_refused(regard("eval", "words/glove", "--analogies", "missing"), "no such file")


@pytest.mark.slow
@pytest.mark.skipif(not GLOVE.exists(), reason="the GloVe file of 20,000 words is not here")
def test_the_published_vectors_have_their_published_score():
    scores = evaluate(vectors(GLOVE), [str(SETS / "questions-words.txt.gz")])
    [whole, *_] = scores.to_json()
    assert (whole["right"] / whole["asked"], whole["asked"]) == (
        pytest.approx(0.676, abs=5e-4),
        12363,
    )
    assert whole["asked"] + whole["outside"] == 19544


@pytest.mark.skipif(not SETS.exists(), reason="the sets of similar words are not here")
def test_the_shelf_scores_as_its_card_says():
    files = [str(SETS / "wordsim353.tsv"), str(SETS / "simlex999.txt")]
    scores = evaluate(vectors("words/glove"), [str(SETS / "questions-words.txt.gz")], files)
    analogies, wordsim, simlex = scores.to_json()
    card = (Path(__file__).parents[2] / "regard/shipped/words/glove/README.md").read_text("utf-8")
    for said in (
        f"{analogies['accuracy']:.1%} of {analogies['asked']:,}",
        f"{wordsim['spearman']:.3f} on {wordsim['pairs']}",
        f"{simlex['spearman']:.3f} on {simlex['pairs']}",
    ):
        assert said in card
