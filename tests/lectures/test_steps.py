"""Attention step by step: every number recomputed in numpy from the JSON alone; page and strip."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.layers import Tap
from regard.models.mode import evaluating
from regard.recipes.shelf import shipped
from regard.runs.load import load
from regard_lectures import show
from regard_lectures.figures.steps import MODELS, words_steps
from regard_lectures.scenes import MOST_WORDS, scenes_of
from regard_lectures.steps import choose_site, record
from tests import tiny_bert, tiny_t5

SENTENCE = "The animal was tired."
TINY = "tiny/translate"


@cache
def translator():
    return load(TINY)


def numbers_of(pipeline: Any, text: str, part: str, layer: int = 0, head: int = 0, **options: Any):
    """What the JSON says, read back."""
    site = choose_site(pipeline.model, part, layer, head)
    recorded = record(
        pipeline.task, pipeline.model, text, site, head, decode=pipeline.decoding(), **options
    )
    return json.loads(json.dumps(recorded.to_json(matrices=True), allow_nan=False)), recorded


def recompute(numbers: dict[str, Any], *, tolerance: float = 2e-5) -> None:
    """Each step from the one before, with nothing but numpy."""
    number = {name: np.array(value) for name, value in numbers.items() if isinstance(value, list)}
    get = number.get

    def close(actual, expected):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=tolerance)

    looked_at = get("memory", number["x"])
    close(number["x"] @ number["w_q"] + get("b_q", 0), get("q_projected", number["q"]))
    close(looked_at @ number["w_k"] + get("b_k", 0), get("k_projected", number["k"]))
    close(looked_at @ number["w_v"] + get("b_v", 0), number["v"])
    close(number["q"] @ number["k"].T, number["scores"])
    close(number["scores"] * numbers["scale"], number["scaled"])
    final = np.where(number["mask"], number["scaled"] + get("bias", 0), -np.inf)
    share = np.exp(final - final.max(1, keepdims=True))
    close(share / share.sum(1, keepdims=True), number["weights"])
    close(number["weights"] @ number["v"], number["sum"])
    wide, head = number["sum"].shape[1], numbers["head"]
    close(number["joined"][:, head * wide : (head + 1) * wide], number["sum"])
    close(number["joined"] @ number["w_o"] + get("b_o", 0), number["out"])
    recompute_sublayers(number, numbers["norm_place"], numbers["activation"], close)


def recompute_sublayers(number, norm_place, activation, close) -> None:
    """Residual connections, norms and feed-forward, as `layers/block.py` describes them."""

    def normed(x, prefix=""):
        weight = f"{prefix}norm_weight"
        if f"{prefix}norm_bias" not in number:  # RMS norm
            return x / np.sqrt(np.square(x).mean(1, keepdims=True) + 1e-6) * number[weight]
        variance = x.var(1, keepdims=True)
        unit = (x - x.mean(1, keepdims=True)) / np.sqrt(variance + 1e-5)
        return unit * number[weight] + number[f"{prefix}norm_bias"]

    close(number["out"], number["change"])
    for prefix in ("", "feed_"):
        stream, given = number[f"{prefix}stream"], number[f"{prefix}given"]
        added = number[f"{prefix}added"]
        close(given, normed(stream, prefix) if norm_place == "pre" else stream)
        close(stream + number[f"{prefix}change"], added)
        close(normed(added, prefix) if norm_place == "post" else added, number[f"{prefix}result"])
    if activation == "ReLU":
        inner = number["feed_given"] @ number["feed_w_1"] + number.get("feed_b_1", 0)
        close(np.maximum(inner, 0), number["feed_hidden"])
    out = number["feed_hidden"] @ number["feed_w_2"] + number.get("feed_b_2", 0)
    close(out, number["feed_change"])


@pytest.mark.parametrize(
    ("part", "layer"), [("encoder", 0), ("decoder", 0), ("decoder", 1), ("cross", 1)]
)
def test_every_number_of_a_translator_follows_from_the_one_before(part, layer):
    numbers, _ = numbers_of(translator(), SENTENCE, part, layer, 3)
    recompute(numbers)
    assert numbers["scale"] == pytest.approx(1 / 4)  # √16
    mask, count = np.array(numbers["mask"]), len(numbers["tokens"])
    if part == "decoder":
        assert (mask == np.tri(count, dtype=bool)).all()
        assert numbers["tokens"][0] == "<s>"
    else:
        assert mask.all()
        assert numbers["key_tokens"] == ["The", "animal", "was", "tired", "."]


def test_the_numbers_are_those_of_the_forward_pass():
    pipeline = translator()
    numbers, _ = numbers_of(pipeline, SENTENCE, "cross", 1, 2, target="Das Tier war müde.")
    source, target = pipeline.vocabulary.source, pipeline.vocabulary.target
    from regard.inputs.arrays import Ragged

    ids = [target.begin, *target.encode("Das Tier war müde.")]
    tap = Tap("decoder.1.cross.*")
    with evaluating(pipeline.model):
        plain = pipeline.model(Ragged.of([source.encode(SENTENCE)]), Ragged.of([ids]), tap)
    for name, site in (
        ("q", "q"),
        ("k", "k"),
        ("v", "v"),
        ("weights", "weights"),
        ("sum", "heads"),
    ):
        recorded = tap.records[f"decoder.1.cross.{site}"][0, 2]
        assert torch.equal(torch.tensor(numbers[name]), recorded), name
    assert torch.equal(torch.tensor(numbers["out"]), tap.records["decoder.1.cross.out"][0])
    recorded = tap.records["decoder.1.cross.scores"][0, 2]
    assert torch.allclose(torch.tensor(numbers["scaled"]), recorded, atol=1e-5)
    assert plain.shape[0] == len(ids)


def test_nothing_is_left_on_the_model():
    pipeline = translator()
    before = pipeline.translate(SENTENCE)
    numbers_of(pipeline, SENTENCE, "encoder")
    assert not any(module._forward_pre_hooks for module in pipeline.model.modules())
    assert pipeline.translate(SENTENCE) == before


@pytest.mark.slow
def test_a_bert_of_theirs(tmp_path):
    tiny_bert.save(tmp_path)
    numbers, _ = numbers_of(load(tmp_path), "the cat sat", "encoder", 1, 1, word="cat")
    recompute(numbers)
    assert numbers["tokens"] == ["[CLS]", "the", "cat", "sat", "[SEP]"]
    assert numbers["row"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_a_t5_of_theirs_adds_its_bias_and_does_not_scale(part, tmp_path):
    tiny_t5.save(tmp_path)
    numbers, steps = numbers_of(load(tmp_path), "the cat <extra_id_0> the mat", part)
    recompute(numbers)
    assert numbers["scale"] == 1
    assert ("bias" in numbers) == (part != "cross")
    names = [scene.name for scene in scenes_of(steps)]
    assert ("+ bias" in names) == (part != "cross")


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"query_key_norm": True}])
def test_rotary_and_normed_queries_are_those_that_meet(settings):
    from regard.inputs.text import Vocabulary
    from regard.models.decoder import Decoder
    from regard.pipeline import Pipeline
    from regard.recipes import recipe as recipes

    changes = [f"model.{name}={value}".lower() for name, value in settings.items()]
    recipe = recipes.load("tiny/generate", ["model.positions=rotary", "model.dim=32",
                          "model.heads=4", "model.kv_heads=2", *changes])  # fmt: skip
    torch.manual_seed(0)
    both = translator().vocabulary
    model = Decoder(recipe.model, both.source.vocab)
    pipeline = Pipeline(model, Vocabulary(both.source, both.source), recipe)
    numbers, _ = numbers_of(pipeline, SENTENCE, "", 1, 2, word="was")
    recompute(numbers)
    said = "normed and turned" if settings else "they are turned"
    assert said in numbers["note"]
    assert "q_projected" in numbers
    assert numbers["row"] == 2


def test_what_is_not_there_is_refused_with_what_is():
    model = translator().model
    with pytest.raises(InputError, match=r"part: got 'middle'|part: got middle, expected encoder"):
        choose_site(model, "middle")
    with pytest.raises(InputError, match=r"layer: got 2, expected 0 to 1 of decoder.self"):
        choose_site(model, "decoder", 2)
    with pytest.raises(InputError, match=r"head: got 8, expected 0 to 7 of encoder.0.self"):
        choose_site(model, "", 0, 8)
    assert choose_site(model, "decoder.1.cross", 0, 7) == "decoder.1.cross"
    with pytest.raises(InputError, match=r"word: got 'cat', expected one of: The animal was"):
        numbers_of(translator(), SENTENCE, "encoder", word="cat")
    with pytest.raises(InputError, match="does not know"):
        show("steps", model=TINY, text="Thinking Machines")
    with pytest.raises(
        InputError, match="step: got 18, expected 1 to 17, or one of x, q, k, v, scores"
    ):
        show("steps", model=TINY, step=18)


def test_a_word_may_be_named_by_its_number_and_is_the_last_by_default():
    numbers, _ = numbers_of(translator(), SENTENCE, "encoder")
    assert numbers["word"] == "tired"
    numbers, _ = numbers_of(translator(), SENTENCE, "encoder", word="1")
    assert numbers["word"] == "animal"
    numbers, _ = numbers_of(translator(), "The dog sees the dog.", "encoder", word="dog")
    assert numbers["row"] == 1
    assert "2 times" in numbers["note"]


def test_the_default_is_the_first_of_the_shelf_that_can_read_the_text():
    numbers = show("steps").numbers
    name = next(name for name in MODELS if name in shipped())
    assert (numbers["model"], numbers["text"]) == (name, MODELS[name])


def test_the_page_is_complete_in_itself_and_has_every_step(tmp_path):
    drawing = show("steps", tmp_path / "steps.html", model=TINY, text=SENTENCE, step="scores")
    page = (tmp_path / "steps.html").read_text()
    assert page.count('<section class="slide"') == 17  # 12 of attention, 5 of the rest of the block
    assert 'data-start="5"' in page
    assert not re.search(r"(src|href)=.?https?:|url\(", page)
    assert "default-src 'none'" in page
    shown = [f"{value:.3f}" for value in drawing.numbers["weights"][drawing.numbers["row"]]]
    assert all(f'<span class="number">{weight}</span>' in page for weight in shown)


@pytest.mark.slow
def test_long_texts_fit_one_screen():
    text = "The animal didn't cross the street because it was too tired."
    _, steps = numbers_of(translator(), text, "cross", 1)
    for scene in scenes_of(steps):
        assert len(scene.rows) <= MOST_WORDS + 2
    recorded = steps.weights[steps.row]
    scene = next(scene for scene in scenes_of(steps) if scene.key == "weights")
    shown = [float(row.number) for row in scene.rows]
    assert "others" in scene.rows[-1].label
    assert len(shown) < len(recorded)
    assert sum(shown) == pytest.approx(1, abs=0.005)  # the sum of what is seen


@pytest.mark.slow
def test_pictures_are_written_as_their_ending_says(tmp_path):
    drawing = show("steps", model=TINY, text=SENTENCE)
    png = drawing.save(tmp_path / "steps.png").read_bytes()
    width, height = np.frombuffer(png[16:24], ">u4")
    assert (width, (height - 1) // 720) == (1280, 17)
    ET.parse(drawing.save(tmp_path / "steps.svg"))
    pdf = drawing.save(tmp_path / "steps.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert len(re.findall(rb"/Type /Page\b", pdf)) == 17
    numbers = json.loads(drawing.save(tmp_path / "steps.json").read_text())
    assert numbers == drawing.numbers
    eighth = show("steps", tmp_path / "one.png", model=TINY, text=SENTENCE, step=8)
    assert tuple(np.frombuffer((tmp_path / "one.png").read_bytes()[16:24], ">u4")) == (1280, 720)
    assert eighth._repr_png_() == (tmp_path / "one.png").read_bytes()
    with pytest.raises(InputError, match=r"\.html, \.png, \.svg, \.pdf or \.json"):
        show("steps", tmp_path / "steps.gif")


def test_details_say_every_step_in_words():
    drawing = show("steps", text=SENTENCE, model=TINY, details=True)
    assert drawing.text.startswith(drawing.caption)
    assert all(scene.explanation in drawing.details for scene in drawing.scenes)


def test_weights_that_differ_are_not_called_equal():
    numbers = {
        "weights": [[0.17, 0.14, 0.39, 0.3]], "mask": [[True] * 4], "row": 0, "word": "pizza",
        "key_tokens": ["we", "ate", "pizza", "."], "layer": "encoder.0.self", "head": 0,
        "model": "m", "text": "t", "note": "",
    }  # fmt: skip
    said = "“pizza” attends to 4 tokens, to none clearly most: 0.14 to 0.39"
    assert words_steps(numbers).title == said


def test_the_masks_of_the_lectures_commands_hide_later_words():
    drawing = show("steps", part="decoder", step="mask", word="3")
    assert not all(drawing.numbers["mask"][drawing.numbers["row"]])
