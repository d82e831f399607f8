"""Pictures of attention over images: legible at every shape, with the numbers of the test."""

from __future__ import annotations

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
