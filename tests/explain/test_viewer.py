"""The page of a look in a browser: on a projector and on a phone, from one view to another."""

from __future__ import annotations

import numpy as np
import pytest

from regard.explain.look import Look
from regard.explain.maps import AttentionMap
from tests.browser import CHROMIUM, Browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
]

SOURCE = [
    "The",
    "animal",
    "didn't",
    "cross",
    "the",
    "street",
    "because",
    "it",
    "was",
    "too",
    "wide",
    ".",
]
TARGET = [
    "Das",
    "Tier",
    "überquerte",
    "die",
    "Straße",
    "nicht",
    ",",
    "weil",
    "sie",
    "zu",
    "breit",
    "war",
    ".",
    "</s>",
]
AWAY = "decoder.1.cross.2"
PICK = """const select = viewers[0].selects.view;
select.value = "{}"; select.dispatchEvent(new Event("change"));"""
PICTURE = "return viewers[0].canvas.toDataURL();"


def look() -> Look:
    random, maps = np.random.default_rng(0), []
    for layer in range(2):
        weights = random.random((4, len(TARGET), len(SOURCE))) ** 4
        weights /= weights.sum(-1, keepdims=True)
        site = f"decoder.{layer}.cross"
        maps.append(AttentionMap(site, weights, tuple(TARGET), tuple(SOURCE)))
    title = f"{' '.join(SOURCE)} → {' '.join(TARGET)}"
    return Look(tuple(maps), title=title, model="tiny/translate", knocked_out=(AWAY,))


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return look().save(tmp_path_factory.mktemp("page") / "look.html", layer="decoder.1")


def box(browser, selector):
    side = "const b = document.querySelector('{}').getBoundingClientRect();"
    return browser.run(side.format(selector) + "return [b.left, b.top, b.right, b.bottom];")


def test_on_a_projector_the_whole_map_is_above_the_fold(browser, page):
    browser.open(page, 1280, 720)
    _, top, _, bottom = box(browser, ".stage")
    assert bottom <= 720
    assert bottom - top > 400
    assert box(browser, ".below")[3] <= 720


def test_on_a_phone_text_is_as_wide_as_the_window_and_the_map_comes_first(browser, page):
    browser.open(page, 390, 844)
    left, top, right, _ = box(browser, ".facts p")
    assert right - left > 340
    assert browser.run("return document.documentElement.scrollWidth") == 390
    _, first, _, bottom = box(browser, ".stage")
    assert first < 844 / 2
    assert bottom <= min(844, top)


def test_a_view_leaves_nothing_behind_in_the_next(browser, page):
    browser.open(page, 1280, 720)
    fresh = browser.run(PICTURE)
    browser.run(PICK.format("positions"))
    browser.settle()
    distances = browser.run(PICTURE)
    browser.run(PICK.format("sentence"))
    browser.settle()
    browser.run(PICK.format("matrix"))
    browser.settle()
    assert browser.run(PICTURE) == fresh  # no frame as thick as the lines of the sentence
    browser.run("viewers[0].state.pinned = 3; viewers[0].hover(3, 4);")
    browser.settle()
    assert browser.run(PICTURE) != fresh
    browser.run(PICK.format("positions"))
    browser.settle()
    assert browser.run(PICTURE) == distances  # no highlight of a word among heads


def test_a_head_that_was_taken_away_shows_no_weights(browser, page):
    browser.open(page, 1280, 720)
    weights = look().site("decoder.1.cross").weights
    layer = "viewers[0].tab.layers[1]"
    assert browser.run(f"return Math.max(...{layer}.table(2))") == 0
    mean = browser.run(f"return [...{layer}.table(null)]")
    np.testing.assert_allclose(mean, weights[[0, 1, 3]].mean(0).ravel(), atol=1e-4)
    assert browser.run(f"return {layer}.headName(null)") == "mean over 3 of 4 heads"
    browser.run("viewers[0].set({ head: 2 });")
    assert "knocked out" in browser.run("return viewers[0].facts.textContent")
