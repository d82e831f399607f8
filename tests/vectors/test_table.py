"""What vectors answer, compared with sums done by hand, and with the lectures' examples."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.errors import InputError
from regard.vectors.projection import pca, tsne
from regard.vectors.store import vectors
from regard.vectors.table import WordVectors
from tests.commands import is_refused, regard  # noqa: F401 (a fixture)


@pytest.fixture(scope="module")
def glove() -> WordVectors:
    return vectors("words/glove")


@pytest.fixture
def plane() -> WordVectors:
    """Words in a plane: their cosines can be read off."""
    rows = [[1, 0], [2, 2], [0, 3], [-1, 0], [0, 0]]
    return WordVectors(["east", "northeast", "north", "west", "nowhere"], rows)


def test_neighbours_are_by_cosine_and_the_word_is_left_out(plane):
    neighbours = plane.nearest("east")
    assert [neighbour.word for neighbour in neighbours] == ["northeast", "north", "nowhere", "west"]
    assert [neighbour.cosine for neighbour in neighbours] == pytest.approx([0.5**0.5, 0, 0, -1])
    assert plane.nearest([0.0, 9.0], 1)[0].word == "north"


def test_an_analogy_is_a_sum_of_vectors_of_length_one_without_its_own_words(plane):
    [best, *_] = plane.analogy("east - west + north", 1)  # (2, 1) / √5
    assert best.word == "northeast"
    assert best.cosine == pytest.approx(3 / 10**0.5)
    assert plane.analogy(["east", "-", "west", "+", "north"], 1) == [best]


def test_signs_and_words_take_turns(plane):
    for terms in ("", "east -", "east west", "- east", ["east", "+"]):
        with pytest.raises(InputError, match="king - man"):
            plane.analogy(terms)
    assert WordVectors(["-", "+"], [[1, 0], [0, 1]]).analogy(["-", "+", "+"], 3) == []


def test_a_difference_is_compared_with_another(plane):
    difference = plane.difference("east", "west", "northeast", "nowhere")
    assert difference.cosine == pytest.approx(0.5**0.5)
    assert difference.lengths == pytest.approx((2, 1))
    assert plane.difference("east", "west", "west", "east").cosine == pytest.approx(-1)


def test_the_odd_one_is_farthest_from_the_mean_of_the_others(plane):
    assert plane.odd(["east", "west", "northeast", "north"])[0].word == "west"
    with pytest.raises(InputError, match="three or more"):
        plane.odd(["east", "west", "east"])


def test_unknown_words_are_named_together_with_the_nearest_spelling(glove):
    with pytest.raises(InputError) as error:
        glove.analogy("kingg - man + womann")
    assert "'kingg', 'womann'" in str(error.value)
    assert "king for 'kingg', woman for 'womann'" in str(error.value)
    assert glove.nearest("Tower", 1) == glove.nearest("tower", 1)  # as a person types it


def test_words_and_rows_must_fit():
    with pytest.raises(InputError, match="one row per word"):
        WordVectors(["a"], [[1.0], [2.0]])
    with pytest.raises(InputError, match="'a' twice"):
        WordVectors(["a", "a"], [[1.0], [2.0]])


def test_the_lectures_examples_as_they_come_out(glove):
    assert glove.analogy("king - man + woman", 1)[0].word == "queen"
    assert glove.analogy("hitler + italy - germany", 1)[0].word == "mussolini"
    sushi = [neighbour.word for neighbour in glove.analogy("sushi - japan + germany")]
    assert sushi[0] == "cheese"  # the slide says bratwurst
    assert "bratwurst" not in sushi
    assert [neighbour.word for neighbour in glove.nearest("tower", 4)] == [
        "towers", "building", "dome", "spire",
    ]  # fmt: skip
    difference = glove.difference("mother", "father", "woman", "man")
    assert difference.cosine > 0.6 > 0.15 > difference.by_chance
    assert glove.odd(["breakfast", "lunch", "table", "dinner"])[0].word == "table"


def test_the_shelf_has_its_size_its_words_and_a_card(glove):
    from regard.recipes.shelf import shipped

    assert (len(glove), glove.dim) == (8046, 100)
    folder = shipped()["words/glove"]
    files = {file.name: len(file.read_bytes()) for file in folder.iterdir()}
    assert sum(files.values()) < 2_000_000
    card = (folder / "README.md").read_text("utf-8")
    for said in ("PDDL", "7a718f3734332fa2", "643e2ced98981626", "74.1% of 5,595", "bad at"):
        assert said in card


def test_pca_finds_the_plane_that_points_lie_in():
    draw = np.random.default_rng(0)
    flat = draw.normal(size=(40, 2)) * [3, 1]
    turned = flat @ np.linalg.qr(draw.normal(size=(6, 6)))[0][:2]
    points, share = pca(turned)
    assert share == pytest.approx(1)
    apart = np.linalg.norm(flat[:, None] - flat[None], axis=2)
    assert np.linalg.norm(points[:, None] - points[None], axis=2) == pytest.approx(apart)
    assert pca(np.ones((3, 1)))[0].shape == (3, 2)


def test_tsne_keeps_groups_together_and_is_the_same_each_time():
    draw = np.random.default_rng(1)
    centres = draw.normal(size=(3, 20)) * 4
    rows = np.concatenate([centre + draw.normal(size=(12, 20)) for centre in centres])
    points = tsne(rows, 8.0, steps=400)
    nearest = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(nearest, np.inf)
    assert (nearest.argmin(1) // 12 == np.arange(36) // 12).all()
    assert (points == tsne(rows, 8.0, steps=400)).all()


def test_the_command_answers_and_signs_are_words(regard):  # noqa: F811
    said = regard("vectors", "words/glove", "analogy", "king", "-", "man", "+", "woman", "--json")
    assert json.loads(said.out)["analogy"][0]["word"] == "queen"
    assert regard("vectors", "words/glove", "nearest", "-", "--top", "3").out.count("\n") == 3
    said = regard("vectors", "words/glove", "nearest", "tower", "dog", "--top", "1")
    assert said.out.split() == ["tower:", "towers", "0.847", "dog:", "cat", "0.880"]
    said = regard("vectors", "words/glove", "difference", "mother", "father", "woman", "man")
    assert "0.632" in said.out
    assert regard("vectors", "words/glove", "odd", "cat", "dog", "car").out.startswith("car")
    said = regard("vectors", "words/glove", "map", "cat", "dog", "car", "-o", "m.png", "--json")
    assert [json.loads(line)["word"] for line in said.out.splitlines()] == ["cat", "dog", "car"]


def test_the_command_refuses_in_two_lines(regard):  # noqa: F811
    ask = ("vectors", "words/glove")
    is_refused(regard(*ask, "nearest", "towwer"), "'towwer'", "tower")
    is_refused(regard(*ask, "nearest"), "one or more")
    is_refused(regard(*ask, "difference", "a", "b", "c"), "four")
    is_refused(regard(*ask, "farthest", "tower"), "nearest")
    is_refused(regard(*ask, "map", "cat", "dog", "-o", "m.jpeg"), ".png or .svg")
    is_refused(regard(*ask, "map", "cat", "dog", "--method", "umap"), "pca or tsne")
    is_refused(regard("vectors", "words/glvoe", "nearest", "a"), "words/glove")
    is_refused(regard("vectors", "tiny/translate", "nearest", "a"), "transformer")
    is_refused(regard("generate", "words/glove", "a"), "regard vectors")
    is_refused(regard("tokens", "words/glove", "a"), "regard vectors")
