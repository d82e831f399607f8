"""The small models on the shelf: each answers at once, on input that it has not seen."""

from __future__ import annotations

import pytest
import torch
from PIL import Image, ImageDraw

from regard.data.sources import load_splits
from regard.data.synthetic.scenes import false_statements, make_scene
from regard.layers import Edit, Tap
from regard.recipes.shelf import shipped
from regard.runs.load import load
from tests.commands import is_refused
from tests.digits import drawings


@pytest.fixture(scope="module")
def model():
    models = {}

    def load_once(name):
        if name not in shipped():
            pytest.skip(f"{name} is not on the shelf")
        if name not in models:
            models[name] = load(name)
        return models[name]

    return load_once


@pytest.mark.parametrize("end", [".", ""])
def test_one_word_flips_the_translation(model, end):
    translator = model("small/translate")
    crossing = "The animal didn't cross the street because it was too"
    tired, wide = translator.translate([f"{crossing} tired{end}", f"{crossing} wide{end}"])
    assert "weil es zu müde war" in tired
    assert "weil sie zu breit war" in wide
    asked = "The teacher asked the class a question, and everyone turned to look at"
    her, him = translator.translate([f"{asked} her{end}", f"{asked} him{end}"])
    assert her.startswith("Die Lehrerin")
    assert him.startswith("Der Lehrer ")


@pytest.mark.parametrize(
    ("name", "thanks", "station"),
    [("small/translate", "danke", "Bahnhof"), ("small/translate-fr", "merci", "gare")],
)
def test_phrases_are_translated_as_people_type_them(model, name, thanks, station):
    translator = model(name)
    answers = translator.translate(["Thank you.", "thank you", "Where is the station?"])
    assert [answer.lower().rstrip(".!") for answer in answers[:2]] == [thanks] * 2
    assert station in answers[2]


def test_everyday_sentences_are_translated(model):
    translator = model("small/translate")
    assert translator.translate("Good morning!") == "Guten Morgen!"
    assert "Hund" in translator.translate("The dog chased another dog.")
    assert "Kuchen" in translator.translate("He hit me with a pie.")
    assert translator.look("I love you.").maps[0].keys
    rounded = translator.quantised().translate("I love you.")
    assert rounded == translator.translate("I love you.") == "Ich liebe dich."


@pytest.mark.slow
def test_the_recurrent_translator_aligns_words_and_needs_its_alignment(model):
    translator = model("tiny/recurrent")
    [seen] = translator.look("The old dog didn't see the cat.").maps
    looked = {
        q: seen.keys[int(w.argmax())] for q, w in zip(seen.queries, seen.weights[0], strict=True)
    }
    assert looked.items() >= {"alte": "old", "Hund": "dog", "sah": "see", "Katze": "cat"}.items()

    pairs = load_splits(translator.recipe.data).splits.tests["combinations"][:20]
    greedy = translator.decoding(beam=1)

    def right(*edits):
        task, texts = translator.task, [pair.source for pair in pairs]
        encoded = task.read(translator.model, texts)
        outputs = task.predict(translator.model, encoded, greedy, tap=Tap(edits=edits))
        return sum(best.text == pair.target for [best], pair in zip(outputs, pairs, strict=True))

    assert right() >= 17
    assert right(Edit("decoder.0.cross.weights", lambda w: torch.ones_like(w) / w.shape[-1])) == 0
    assert right(Edit("decoder.0.recurrent.update", torch.ones_like)) == 0  # the state never moves
    assert right(Edit("encoder.0.recurrent.backward.state", torch.zeros_like)) < 5


def test_a_story_goes_on_and_a_phone_suggests(model):
    writer = model("small/write")
    assert writer.suggest("Hello, how are")[0].word == "you"
    story = writer.generate("Once upon a time", seed=1, max_length=60)
    assert len(story.split()) > 20


def test_a_gap_gets_a_word_and_like_sentences_are_near(model):
    filler = model("small/fill")
    words = [filling.word for filling in filler.fill("She drank a cup of [MASK].", 5)[0]]
    assert words[0] == "coffee"
    assert {"tea", "milk"} <= set(words)
    assert filler.fill("The [MASK] is barking.")[0][0].word == "dog"
    near, far = filler.embed(["The dog is sleeping.", "Tom speaks French."], near="A cat sleeps.")
    assert near.closeness > far.closeness


def test_a_word_is_nearer_to_itself_in_the_same_sense(model):
    stones = ["He threw a rock into the lake.", "She sat down on a big rock by the sea."]
    comparison = model("small/fill").words("rock", [*stones, "He likes to listen to rock music."])
    cosines = comparison.cosines
    assert cosines[0, 1] > 0.7 > 0.6 > max(cosines[0, 2], cosines[1, 2])


STORM = (
    "State authorities dispatched emergency crews Tuesday to survey the damage after an onslaught "
    "of severe weather in Mississippi. Six people were hospitalized after the storm hit Attala "
    "County."
)


def test_one_model_does_three_jobs_by_prefix(model):
    jobs = model("small/jobs")
    asked = [
        "Translate EN-DE: This is good.",
        "Is this toxic: You are an idiot.",
        "Is this toxic: You look beautiful today!",
    ]
    assert jobs.generate(asked) == ["Das ist gut.", "yes", "no"]
    headline = jobs.generate(f"Summarize: {STORM}")
    assert "storm" in headline
    assert "Six" in headline


def test_a_writer_without_its_training_text_asks_for_other_text(model, regard):
    model("small/write")
    for verb in ("heads", "eval"):
        is_refused(regard(verb, "small/write"), "shelf/text/", "--data FILE")


def test_a_model_of_clothes_without_its_images_asks_for_others(model, regard):
    model("small/fashion")
    for verb in ("heads", "eval"):
        is_refused(regard(verb, "small/fashion"), "fashion-mnist", "--data FOLDER")


def test_a_translator_without_its_files_asks_for_others(model, regard):
    model("small/translate")
    for verb in ("heads", "eval"):
        is_refused(regard(verb, "small/translate"), "no file shelf/en-de/", "--data FILE")


def test_an_exported_writer_is_said_to_copy(model, tmp_path, caplog):
    model("small/write").export(tmp_path / "hf")
    assert "no_copy" in caplog.text


def test_digits_drawn_by_hand_are_read_at_once(model):
    digits, drawn = model("small/digits"), drawings()
    labels = digits.classify([image for _, image in drawn])
    assert [best.label for best, *_ in labels] == [digit for digit, _ in drawn]
    look = digits.look(drawn[0][1])
    test = look.test(look.choose("rollout"))
    assert test.most < test.before


CLOTHES = {
    "T-shirt": [(110, 40), (170, 40), (245, 85), (220, 125), (195, 110), (195, 250), (85, 250),
                (85, 110), (60, 125), (35, 85)],
    "trouser": [(95, 20), (185, 20), (205, 265), (155, 265), (140, 110), (125, 265), (75, 265)],
    "bag": [(40, 110), (85, 110), (85, 50), (195, 50), (195, 110), (240, 110), (240, 240),
            (40, 240), (40, 110), (100, 110), (180, 110), (180, 65), (100, 65), (100, 110)],
}  # fmt: skip


@pytest.mark.parametrize(("paper", "cloth"), [("white", "darkred"), ("black", "silver")])
@pytest.mark.parametrize("kind", CLOTHES)
def test_clothes_drawn_on_any_paper_are_named(model, kind, paper, cloth):
    image = Image.new("RGB", (280, 280), paper)
    ImageDraw.Draw(image).polygon(CLOTHES[kind], fill=cloth)
    for clothes in (model("small/fashion"), model("small/fashion").quantised()):
        [best, *_] = clothes.classify(image)
        assert best.label == kind


def draw_shapes(size, paper, *shapes):
    """A drawing as of a paint program: each shape is a method of `ImageDraw`, its box, a colour."""
    image = Image.new("RGB", size, paper)
    for method, box, colour in shapes:
        getattr(ImageDraw.Draw(image), method)(box, fill=colour)
    return image


DRAWINGS = {
    "a large red circle to the left of a small blue square": draw_shapes(
        (800, 600), "white", ("ellipse", (80, 150, 380, 450), "red"),
        ("rectangle", (560, 300, 680, 420), "blue"),
    ),
    "a large orange square above a small black circle": draw_shapes(
        (300, 300), "white", ("rectangle", (40, 40, 140, 140), "orange"),
        ("ellipse", (190, 190, 250, 250), "black"),
    ),
    "a large green triangle": draw_shapes(
        (500, 500), "ivory", ("polygon", [(120, 400), (380, 400), (250, 170)], "green"),
    ),
}  # fmt: skip


def test_drawings_are_captioned_and_photographs_are_not_trusted(model, tmp_path, caplog):
    captioner = model("small/caption")
    assert captioner.caption([*DRAWINGS.values()]) == [*DRAWINGS]
    scenes = [make_scene(77, 2, number, unseen_pairs=0.2) for number in range(60)]
    captions = captioner.caption([scene.draw(200) for scene in scenes])
    false = [false_statements(*pair) for pair in zip(scenes, captions, strict=True)]
    assert sum(not statements for statements in false) >= 58
    assert "drawing" not in caplog.text
    look = captioner.look(next(iter(DRAWINGS.values())))
    needed = look.test().words("holds")
    assert {"red", "circle"} & {*needed}  # what it says depends on what it looked at
    assert "a" not in needed
    photo = Image.effect_noise((90, 90), 80).convert("RGB").resize((300, 300))
    photo.save(tmp_path / "photo.png")
    captioner.caption(str(tmp_path / "photo.png"))
    assert "photo.png: no drawing as the model knows them" in caplog.text
