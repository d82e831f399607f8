"""Every figure: its words follow from its numbers, can be read, and state their limits."""

from __future__ import annotations

import json
import re

import pytest

from regard.draw.sheet import TEXT, WIDTH, style, text_width, wrap
from regard.explain.drawing import EDGE
from regard_lectures import FIGURES, own_inputs, show
from tests.lectures.drawn import drawn
from tests.lectures.opposites import OPPOSITES, SHUFFLED
from tests.lectures.shuffled import shuffle
from tests.legible import problems, texts


@pytest.mark.parametrize("name", FIGURES)
def test_words_follow_from_the_numbers_and_can_be_read(name):
    drawing = drawn(name)
    numbers = json.loads(json.dumps(drawing.numbers))
    words = FIGURES[name].words(numbers)
    assert (drawing.title, drawing.caption) == (words.title, words.caption)
    assert problems(drawing.figure) == []
    shown = " ".join(text.get_text() for text, _ in texts(drawing.figure))
    for sentence in (drawing.title, drawing.caption, drawing.limits):
        assert all(word in shown for word in sentence.split()), "cut in the picture"
    assert len(texts(drawing.figure)) > 10
    assert drawing.limits
    with style():
        assert len(wrap(drawing.caption, WIDTH - 2 * EDGE, TEXT)) <= 3
        assert text_width(drawing.limits, TEXT) <= WIDTH - 2 * EDGE, "limits are one line"


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 5, 9, 12])
def test_a_step_alone_can_be_read(step):  # all of them side by side are an overview
    assert problems(show("steps", step=step).figure) == []


def without_digits(text: str) -> str:
    return re.sub(r"[\d.,·⁰¹²³⁴⁵⁶⁷⁸⁹⁻−-]+", "#", text)


@pytest.mark.parametrize("name", FIGURES)
def test_opposite_numbers_get_other_words(name):
    first, second = (FIGURES[name].words(numbers) for numbers in OPPOSITES[name])
    assert without_digits(first.title) != without_digits(second.title)
    assert without_digits(first.caption) != without_digits(second.caption)


@pytest.fixture(scope="session")
def shuffled_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("shuffled")


@pytest.mark.parametrize("name", SHUFFLED)
def test_shuffled_weights_get_other_words(name, shuffled_folder):
    options = dict(SHUFFLED[name])
    model = options["model"]
    usual = show(name, **options)
    options["model"] = shuffle(model, shuffled_folder / model.replace("/", "-"))
    drawing = show(name, **options)
    words = FIGURES[name].words(json.loads(json.dumps(drawing.numbers)))
    assert (drawing.title, drawing.caption) == (words.title, words.caption)
    assert without_digits(drawing.title) != without_digits(usual.title)
    assert problems(drawing.figure) == []


def test_every_figure_says_what_of_your_own_it_takes_or_why_nothing():
    for name, figure in FIGURES.items():
        assert ("--text" in figure.takes) == bool(figure.text), name
        named = re.findall(r"(\w+)=", figure.takes)
        assert set(named) <= set(figure.options), name
        assert figure.takes.startswith("none: ") or figure.text or named, name
        assert f"{name} " in own_inputs()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gallery", "lookup", "steps", "similarity", "layers", "hard"])
def test_figures_of_a_model_that_writes_nonsense_are_drawn_and_claim_nothing(name, shuffled_folder):
    model = {"similarity": "small/digits", "layers": "small/fill", "hard": "tiny/recurrent"}
    shipped = model.get(name, "small/translate")
    options = {"lookup": {"pairs": 4}, "hard": {"text": "The old dog sleeps."}}.get(name, {})
    folder = shuffle(shipped, shuffled_folder / shipped.replace("/", "-"))
    drawing = show(name, model=folder, **options)
    words = FIGURES[name].words(json.loads(json.dumps(drawing.numbers)))
    assert (drawing.title, drawing.caption) == (words.title, words.caption)
    assert problems(drawing.figure) == [] or name == "steps"  # an overview of all steps
    nothing = {
        "gallery": "1 of 4 claims",  # two equal words are equal without positions in any model
        "lookup": "cannot tell", "similarity": "hardly", "hard": "close to tell",
    }  # fmt: skip
    assert nothing.get(name, "") in drawing.title
