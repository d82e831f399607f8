"""The gallery: each claim about a sentence is measured in the model that shows it."""

from __future__ import annotations

import json
import re
from functools import cache

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.explain.drawing import Drawing
from regard.inputs.arrays import Ragged
from regard.runs.load import load
from regard.tasks.generate import Suggestion
from regard_lectures import find, show
from regard_lectures.figures import gallery as figure
from regard_lectures.figures import scene_words, scenes_pronoun
from regard_lectures.figures.gallery import MODELS, SCENES, Gallery
from regard_lectures.figures.scene_words import words_gallery
from tests.lectures.opposites.objectives import gallery
from tests.legible import problems


@cache
def drawn(scene: str) -> Drawing:
    return show("gallery", scene=scene)


@cache
def everything() -> Gallery:
    drawing = show("gallery")
    assert isinstance(drawing, Gallery)
    return drawing


def test_every_scene_can_be_asked_for():
    assert find("gallery").options["scene"].choices == ("", *SCENES)
    assert {scene.verb for scene in SCENES.values()} == set(MODELS)


@pytest.mark.slow
def test_two_dogs_are_equal_without_positions_and_different_with_them():
    numbers = drawn("dogs").numbers
    assert numbers["holds"]
    assert numbers["tokens"] == ["The", "dog", "chased", "another", "dog", "."]
    assert max(numbers["apart_without"]) < 1e-3
    assert "equal without positions, different with them" in drawn("dogs").title
    assert min(numbers["apart_with_positions"]) > 30
    # by hand: |a - b| of the two rows of the input, in percent of their length
    model = load("small/translate", device="cpu")
    source = Ragged.of([model.vocabulary.source.encode("The dog chased another dog.")])
    embed, scheme = model.model.source_embed, model.model.encoder.positions
    with torch.inference_mode():
        x = embed(source.ids, torch.arange(len(source.ids)), scheme)
    a, b = x[1], x[4]
    apart = 100 * (a - b).norm() / (0.5 * (a.norm() + b.norm()))
    assert numbers["apart_with_positions"][0] == pytest.approx(float(apart), rel=1e-4)


@pytest.mark.slow
def test_the_positions_are_back_after_they_were_taken_away():
    from regard_lectures.figures.scenes_translated import _without_positions

    model = load("small/translate", device="cpu").model
    before = model.encoder.positions
    with _without_positions(model):
        assert model.encoder.positions is not before
    assert model.encoder.positions is before


@pytest.mark.slow
def test_the_noun_that_her_looks_at_most_is_named_and_its_head_taken_away():
    drawing = drawn("her")
    numbers = drawing.numbers
    assert numbers["word"] == "her"
    assert numbers["noun"] in ("teacher", "class", "question")
    assert f"“{numbers['noun']}”" in numbers["says"]
    pipeline = load("small/translate", device="cpu")
    look = pipeline.look(SCENES["her"].sentence)
    site, _, head = numbers["head"].rpartition(".")
    site_map = look.site(site)
    row = site_map.weights[int(head), site_map.queries.index("her")]
    assert site_map.keys[int(row.argmax())] == numbers["noun"]
    assert float(row.max()) == pytest.approx(numbers["weight"], rel=1e-4)
    # what the picture says of the translation without the head is what comes out
    assert ("translation stays" in numbers["says"]) == (
        numbers["without"] == numbers["translation"]
    )
    # log p of the translation, by hand
    ids = pipeline.vocabulary.target.encode(look.target)
    both = pipeline.vocabulary
    prefix = [both.target.begin, *ids]
    logits = torch.as_tensor(pipeline.logits(both.source.encode(look.source), prefix))
    scores = logits.log_softmax(-1)[range(len(prefix)), [*ids, both.target.end]]
    assert scenes_pronoun._log_probability(pipeline, look.source, look.target) == pytest.approx(
        float(scores.sum()), abs=0.01
    )
    wrong = numbers["noun"] != "teacher" or numbers["without"] == numbers["translation"]
    assert numbers["holds"] != wrong


def test_a_head_whose_removal_changes_nothing_gets_no_tick():
    numbers = gallery(holds=True)["her"]
    assert scene_words.her(numbers).holds
    same = {**numbers, "without": numbers["translation"]}
    verdict = scene_words.her(same)
    assert not verdict.holds
    assert "does not need that head" in verdict.title
    assert not scene_words.her({**numbers, "log_p_lost_of_others": [9.0] * 9}).holds
    class_ = scene_words.her({**numbers, "noun": "class"})
    assert (class_.holds, class_.title) == (False, "“her” looks at “class”, not at “teacher”")
    assert not scene_words.her({**numbers, "is_largest": False}).holds


@pytest.mark.parametrize("name", SCENES)
def test_every_tick_and_title_is_a_function_of_the_scenes_numbers(name):
    numbers = json.loads(json.dumps([gallery(holds=holds)[name] for holds in (True, False)]))
    yes, no = (scene_words.VERDICTS[name](scene) for scene in numbers)
    assert (yes.holds, no.holds) == (True, False)
    assert yes.title != no.title
    words = [words_gallery(scene) for scene in numbers]
    assert [(w.title, w.caption) for w in words] == [(yes.title, yes.says), (no.title, no.says)]


def test_the_gallery_counts_what_holds():
    right, wrong = gallery(holds=True), gallery(holds=False)
    mixed = {**right, "her": wrong["her"], "walk": {"holds": None, "says": "no model"}}
    words = words_gallery(mixed)
    assert words.title == "5 of 6 claims about these sentences hold in these models"
    assert "does not: her; not drawn: walk" in words.caption
    assert "all 7 claims" in words_gallery(right).title
    assert "does not hold" in words_gallery(wrong).title
    without_expected = {"once": {**right["once"], "expected": None}}
    assert words_gallery(without_expected).title == "No claim of the lectures can be tested here"


def test_wrong_german_of_a_model_is_called_wrong():
    said = scene_words.german(["Die Lehrerin stellte die Klasse eine Frage."])
    assert said == "Its German is wrong: “stellte die Klasse”, right is “stellte der Klasse”."
    right = [
        "Die Lehrerin stellte der Klasse eine Frage, und alle drehten sich zu ihr um.",
        "Ich gehe jeden Tag mit meinem Hund spazieren.",
        "Er half der Krankenschwester.",
    ]
    assert scene_words.german(right) == ""
    assert "mit meinem Hund" in scene_words.german(["Ich gehe meinen Hund spazieren."])
    assert "half der Krankenschwester" in scene_words.german(["Er half den Krankenschwester."])


@pytest.mark.slow
@pytest.mark.parametrize("scene", ["her", "gender", "walk"])
def test_a_picture_with_wrong_german_says_so(scene):
    numbers, caption = drawn(scene).numbers, drawn(scene).caption
    translations = numbers.get("translations", [numbers.get("translation")])
    assert ("Its German is wrong" in caption) == (scene_words.german(translations) != "")
    if any("stellte die Klasse eine Frage" in text for text in translations):
        assert "right is “stellte der Klasse”" in caption


@pytest.mark.slow
def test_her_or_him_makes_a_lehrerin_or_a_lehrer_and_the_verdict_is_that_of_the_numbers():
    numbers = drawn("gender").numbers
    her, him = numbers["translations"]
    assert her.startswith("Die Lehrerin ")
    assert him.startswith("Der Lehrer ")
    assert numbers["margins"][0] > 3 > -3 > numbers["margins"][1]
    assert numbers["weights_on_pronoun"][0] > 0.9 > 0.3 > numbers["weights_on_pronoun"][1]
    # the claim is that one head decides: without it, the noun no longer follows the pronoun
    decides = (numbers["margins_without"][0] > 0) == (numbers["margins_without"][1] > 0)
    assert numbers["holds"] == decides
    assert ("no single head" in drawn("gender").title) != decides
    assert ("no longer follow" in numbers["says"]) == decides


@pytest.mark.slow
def test_what_german_says_in_two_words_is_looked_at_twice():
    numbers = drawn("walk").numbers
    assert numbers["holds"]
    looked = {word: key for word, key, weight in numbers["pairs"] if weight > 0.5}
    assert looked["gehe"] == looked["spazieren"] == "walk"
    assert (looked["Hund"], looked["Tag"], looked["jeden"]) == ("dog", "day", "every")


@pytest.mark.slow
def test_doctor_and_nurse_are_measured_and_the_claim_may_go_both_ways():
    numbers = drawn("nurse").numbers
    writer = load("small/write", device="cpu")
    for text, pair in zip(numbers["texts"], numbers["shown"], strict=True):
        probabilities = {guess.word: guess.probability for guess in writer.suggest(text, 20)}
        assert pair == pytest.approx([probabilities["he"], probabilities["she"]], rel=1e-3)
    odds = np.array(numbers["log_odds"])  # (nouns, beginnings)
    leads = min((odds[0] < 0).sum(), (odds[1] > 0).sum())
    assert numbers["holds"] == (leads >= 4 and (odds[1] - odds[0] > np.log(2)).sum() >= 4)
    turned = {**numbers, "log_odds": odds[::-1].tolist()}
    assert "“he” after “nurse” and “she” after “doctor”" in scene_words.nurse(turned).title
    equal = {**numbers, "log_odds": [odds[0].tolist()] * 2}
    assert not scene_words.nurse(equal).holds
    assert "do not clearly depend" in scene_words.nurse(equal).title


@pytest.mark.slow
def test_two_nouns_of_ones_own_are_compared():
    text = "My uncle thought that / My aunt thought that"
    drawing = show("gallery", scene="nurse", text=text)
    assert drawing.numbers["nouns"] == ["uncle", "aunt"]
    assert problems(drawing.figure) == []
    with pytest.raises(InputError, match="two beginnings that differ in one word"):
        show("gallery", scene="nurse", text="The dog sleeps.")


@pytest.mark.slow
@pytest.mark.parametrize("scene", ["once", "hello"])
def test_the_writer_goes_on_as_in_the_lectures(scene):
    numbers = drawn(scene).numbers
    assert numbers["holds"]
    if scene == "once":
        assert numbers["words"] == ["upon", "a", "time"]
        assert [guesses[0][0] for guesses in numbers["suggestions"]] == numbers["words"]
    else:
        assert numbers["suggestions"][0][0] == "you"
    assert problems(drawn(scene).figure) == []


class Writer:
    """A stand-in for a model that suggests words: always the same ones after a text."""

    name = "small/write"

    def suggest(self, text: str, top: int) -> list[Suggestion]:
        words = {"Once": "upon", "Once upon": "a", "Once upon a": "time", "Hello, how are": "you"}
        first = words.get(text, "the")
        return [Suggestion(word, 0.5 / 2**n) for n, word in enumerate([first, *"bcdefgh"])][:top]


def test_the_next_words_are_read_back_in():
    scenes = figure.scenes_written
    drawing = scenes.once(Writer(), "Once")  # type: ignore[arg-type]
    assert drawing.numbers["words"] == ["upon", "a", "time"]
    assert drawing.numbers["holds"]
    there = scenes.once(Writer(), "There")  # type: ignore[arg-type]
    assert there.numbers["holds"] is None  # the lectures say nothing of it
    hello = scenes.hello(Writer(), "Hello, how are")  # type: ignore[arg-type]
    assert hello.numbers["holds"]
    assert "“you” 50%, “b” 25%, “c” 12%" in hello.caption
    assert problems(drawing.figure) == problems(hello.figure) == []


def test_a_scene_without_its_model_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(figure, "MODELS", {"translate": (), "suggest": ("small/other",)})
    with pytest.raises(InputError, match="no such verb"):
        show("gallery", scene="once")
    with pytest.raises(InputError, match=r"scene once: got no small/other on the shelf"):
        figure._draw("once", None, {})
    shown = figure._shown("hello", None, {})
    assert (shown.mark, shown.drawing) == ("–", None)
    assert "small/other" in shown.says


def test_a_model_that_cannot_show_the_scene_is_named():
    with pytest.raises(InputError) as error:
        show("gallery", scene="once", model="tiny/translate")
    assert "got tiny/translate, which cannot suggest" in str(error.value)
    assert str(error.value).endswith("model=small/write")
    with pytest.raises(InputError, match="walk or once or hello or nurse"):
        show("gallery", scene="twice")


@pytest.mark.slow
def test_all_scenes_are_one_page_one_picture_and_one_document(tmp_path):
    drawing = everything()
    assert problems(drawing.figure) == []
    for scene in drawing.scenes:
        assert scene.drawing is None or problems(scene.drawing.figure) == []
    page = drawing.save(tmp_path / "all.html").read_text()
    assert page.count('<section class="slide"') == 1 + len(SCENES)
    pictures = sum(scene.drawing is not None for scene in drawing.scenes)
    assert page.count("data:image/svg+xml;base64,") == 1 + pictures
    document = drawing.save(tmp_path / "all.pdf").read_bytes()
    assert len(re.findall(rb"/Type /Page[^s]", document)) == 1 + pictures
    assert drawing.save(tmp_path / "all.png").stat().st_size > 1000
    numbers = drawing.numbers
    assert json.loads(json.dumps(numbers, allow_nan=False)) == numbers
    assert list(numbers) == list(SCENES)


@pytest.mark.slow
def test_a_sentence_of_ones_own_stands_in_every_scene_it_fits():
    text = "The nurse saw the doctor and the doctor thanked her."
    drawing = show("gallery", text=text)
    assert isinstance(drawing, Gallery)
    marks = {scene.name: scene.mark for scene in drawing.scenes}
    assert {scene.sentence for scene in drawing.scenes} == {text}
    assert all(marks[name] != "–" for name in ("dogs", "her", "gender", "walk"))
    assert drawing.numbers["dogs"]["word"] == "doctor"
    with pytest.raises(InputError, match="no word twice"):
        show("gallery", scene="dogs", text="The dog sleeps.")
    with pytest.raises(InputError, match="no pronoun"):
        show("gallery", scene="her", text="The dog sleeps.")


@pytest.mark.slow
def test_a_model_that_does_not_know_the_words_says_so():
    with pytest.raises(InputError, match="another"):
        show("gallery", scene="dogs", model="tiny/translate")
    drawing = show("gallery", scene="dogs", model="tiny/translate", text="The dog chased the dog.")
    assert drawing.numbers["holds"]
