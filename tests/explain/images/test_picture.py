"""Pictures of attention over images: legible at every shape, with the numbers of the test."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from regard.draw.sheet import style
from regard.explain.heads import ImageHeadSummary
from regard.explain.plot import draw
from regard.explain.plot_reports import draw_heads, draw_report
from tests.explain.images.photos import photo, pipeline
from tests.legible import problems, texts

SHAPES = {
    "small": {},
    "square": {"image": (28, 28), "patch": 2},
    "wide": {"image": (8, 48), "patch": 4},
    "tall": {"image": (48, 8), "patch": 4},
    "mean": {"pool": "mean", "class_token": False},
    "deep": {"layers": 12, "heads": 8},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["picture", "rollout", "maps"])
def test_every_picture_can_be_read(shape, kind):
    look = pipeline(**SHAPES[shape]).look(photo())
    choice = look.choose(kind)
    test = look.test(choice)
    figure = draw(look, choice, test)
    assert problems(figure) == []
    said = " ".join(text.get_text() for text, _ in texts(figure))
    assert f"{test.most:.2f}" in said
    assert f"{test.others:.2f}" in said


def test_a_patch_is_asked_and_the_original_is_shown():
    look = pipeline().look(photo(), original=True)
    choice = look.choose(word="1,2")
    assert not look.testable(choice)
    figure = draw(look, choice)
    assert problems(figure) == []
    said = [text.get_text() for text, _ in texts(figure)]
    assert any("the row of patch 1,2: 25 weights" in text for text in said)
    assert "the original" in said


def test_every_ending_is_written(tmp_path):
    look = pipeline().look(photo())
    for ending in ("png", "svg", "pdf", "html"):
        for kind in ("picture", "rollout", "maps"):
            assert look.save(tmp_path / f"{kind}.{ending}", kind, hiding=False).stat().st_size
    look.save(tmp_path / "paper.png", paper=True)
    look.save(tmp_path / "details.png", details=True)


def test_pictures_of_many_images_can_be_read():
    with style():
        assert problems(draw_report(pipeline().hide_patches([photo(), photo(9, 9)]))) == []
        random = np.random.default_rng(0)
        heads = [
            ImageHeadSummary(f"encoder.{layer}.self.{head}", *random.random(5).tolist())
            for layer in range(12)
            for head in range(12)
        ]
        assert problems(draw_heads(heads, "100 images")) == []
        assert problems(draw_heads(heads[:2], "1 image")) == []


def test_heads_without_an_effect_are_not_said_to_cost_something():
    def heads(effect: float) -> list[ImageHeadSummary]:
        return [ImageHeadSummary(f"encoder.0.self.{n}", 3.0 + n, 1, 0, 1, effect) for n in (0, 1)]

    def shown(effect: float) -> str:
        return " ".join(text.get_text() for text, _ in texts(draw_heads(heads(effect), "9 images")))

    assert "No head costs 0.01 nats or more if it is removed" in shown(0.004)
    assert "Removing encoder layer 0, head 0 (self) costs most, 0.20 nats" in shown(0.2)
    assert "Layers and heads count from 0" in shown(0.2)


def test_maps_say_what_hiding_says_and_from_where_layers_count():
    look = pipeline().look(photo())
    choice = look.choose("maps")
    test = replace(look.test(choice), before=0.95, most=0.95, random=(0.94,) * 20)
    shown = " ".join(text.get_text() for text, _ in texts(draw(look, choice, test)))
    assert "0.95 → 0.95; others → 0.94 (0.94 to 0.94): cannot tell." in " ".join(shown.split())
    assert "by layer and head, from 0" in shown
