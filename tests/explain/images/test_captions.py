"""Maps of a caption's words: their test, which can contradict them, the picture and the page."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from regard.draw.sheet import Medium
from regard.errors import InputError
from regard.explain.images.caption_look import CaptionLook
from regard.explain.images.caption_plot import draw_words, title_of, words_of_picture
from regard.explain.images.hiding import Hiding
from regard.explain.maps import AttentionMap
from regard.tasks.trace import Captioned, ImageGrid
from tests.legible import problems

WORDS = ("ring", "above", "star")


def look_with(cells, *, words=WORDS):
    """A look whose words each look at one cell of 4 x 4; “ring” needs cell 5, “star” cell 10."""
    weights = np.full((len(words), 16), 0.01)
    weights[range(len(words)), cells] = 0.85
    names = tuple(f"{row},{column}" for row in range(4) for column in range(4))
    attention = AttentionMap("decoder.0.cross", weights[None], words, names)
    values = torch.linspace(-1, 1, 64).view(1, 8, 8).repeat(3, 1, 1)
    cell = [
        values.view(3, 4, 2, 4, 2)[:, row, :, column].clone()
        for row in range(4)
        for column in range(4)
    ]

    def shares(images):
        parts = images.view(len(images), 3, 4, 2, 4, 2)
        is_as_before = [
            (parts[:, :, n // 4, :, n % 4] == cell[n]).flatten(1).all(1) for n in (5, 10)
        ]
        needed = [0.1 + 0.8 * same.float() for same in is_as_before]
        return torch.stack([needed[0], torch.full((len(images),), 0.7), needed[1]], 1)[
            :, : len(words)
        ]

    pixels = ((values + 1) / 2).numpy().astype(np.float32)
    image = ImageGrid(pixels, (4, 4), 0, "mean")
    return CaptionLook(
        (attention,), title="x.png → ring above star", target="ring above star", image=image,
        captioned=Captioned(values, shares),
    )  # fmt: skip


def test_a_map_is_contradicted_if_the_word_needs_another_place():
    right, wrong = look_with([5, 0, 10]).test(), look_with([0, 5, 3]).test()
    assert right.words("holds") == ["ring", "star"]
    assert right.words("cannot tell") == ["above"]  # it needs no place
    assert wrong.words("holds") == []
    assert "ring, star: needs what it looked at; above: cannot be told" in right.verdict
    ring = right.tests[0]
    assert (ring.before, ring.most) == (pytest.approx(0.9), pytest.approx(0.1))
    assert ring.others == pytest.approx(0.9)  # others never hide the cell looked at most
    assert right.tests[1].random == pytest.approx([0.7] * 20)
    assert len(look_with([5, 0, 10]).test(hiding=Hiding(share=0.1, draws=3)).tests[0].random) == 3


def test_what_the_picture_says_follows_from_the_tests():
    look = look_with([5, 0, 10])
    choice, other = look.choose(), look_with([0, 5, 3])
    said = words_of_picture(choice, look.test())
    assert "✓ 2 need them, ? 1 unclear, ✗ 0 do not" in said
    assert said != words_of_picture(choice, other.test())
    figure = draw_words(look, choice, Medium(), look.test())
    assert problems(figure) == []
    shown = " ".join(text.get_text() for text in figure.texts)
    assert ".90→.10 (.90)" in shown
    many = look_with(range(16), words=tuple(f"word{n}" for n in range(16)))
    object.__setattr__(many, "captioned", None)
    assert problems(draw_words(many, many.choose(), Medium())) == []


def test_files_of_all_formats(tmp_path):
    look = look_with([5, 0, 10])
    for ending in ("png", "svg", "pdf", "html", "gif"):
        assert look.save(tmp_path / f"x.{ending}").stat().st_size > 1000
    with Image.open(io.BytesIO((tmp_path / "x.gif").read_bytes())) as animation:
        assert animation.n_frames == 1 + len(WORDS)
        assert animation.size == (640, 720)
    page = (tmp_path / "x.html").read_text()
    assert "--layer" not in page  # there is one layer, of one head
    data = json.loads(re.search(r'id="data">(.*?)</script>', page).group(1))
    assert data["words"] == list(WORDS)
    assert [np.argmax(weights) for weights in data["maps"]] == [5, 0, 10]
    assert [test["verdict"] for test in data["tests"]] == ["holds", "cannot tell", "holds"]
    assert "http" not in page.replace("http-equiv", "")
    with pytest.raises(InputError, match=r"got \.txt, expected \.html, \.png, \.gif"):
        look.save(tmp_path / "x.txt")
    with pytest.raises(InputError, match="--kind grid"):
        look.test(look.choose("grid"))


def test_a_picture_of_an_image_that_the_model_does_not_know_says_so():
    look = look_with([5, 0, 10])
    assert title_of(look) == look.title
    unfamiliar = replace(look.image, unfamiliar="no drawing as the model knows them: 3% of it")
    strange = replace(look, image=unfamiliar)
    figure = draw_words(strange, strange.choose(), Medium(), strange.test())
    shown = " ".join(text.get_text() for text in figure.texts)
    assert "Do not trust it: no drawing as the model knows them" in " ".join(shown.split())
    assert problems(figure) == []
