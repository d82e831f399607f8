"""The page of attention over an image in a browser, on a projector and on a phone."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.browser import CHROMIUM, Browser
from tests.explain.images.photos import photo, pipeline

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
]
READING = "return document.querySelector('.reading').textContent;"
POINT = """const box = viewers[0].map.getBoundingClientRect();
const clientY = box.top + box.height * ({row} + 0.5) / 4;
const clientX = box.left + box.width * ({column} + 0.5) / 6;
viewers[0].map.dispatchEvent(new PointerEvent("{event}", {{ clientX, clientY, bubbles: true }}));"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="module")
def look():
    return pipeline().look(photo())


@pytest.fixture(scope="module")
def page(look, tmp_path_factory):
    return look.save(tmp_path_factory.mktemp("page") / "map.html", layer=1)


def test_nothing_is_asked_of_the_network(page):
    text = page.read_text()
    assert "default-src 'none'" in text
    assert not re.search(r"https?://", text)
    assert "data:image/png;base64," in text


@pytest.mark.parametrize("size", [(1280, 720), (390, 844)])
def test_a_patch_that_is_pointed_at_shows_where_it_looks(browser, page, look, size):
    browser.open(page, *size)
    assert browser.run("return document.documentElement.scrollWidth") <= size[0]
    box = "const b = viewers[0].map.getBoundingClientRect(); return [b.top, b.bottom, b.width];"
    top, bottom, width = browser.run(box)
    assert top > 0
    assert bottom <= size[1]
    assert width > 300
    weights = look.site("encoder.1.self").weights.mean(0)
    assert browser.run(READING).startswith("[CLS] looks most at patch")
    before = browser.run("return viewers[0].map.toDataURL();")
    browser.run(POINT.format(row=2, column=3, event="pointermove"))
    token = 1 + 2 * 6 + 3
    best = int(weights[token, 1:].argmax())
    assert f"Patch 2,3 looks most at patch {best // 6},{best % 6}" in browser.run(READING)
    assert browser.run("return viewers[0].map.toDataURL();") != before
    shown = browser.run(f"return [...viewers[0].layer.row(null, {token})];")
    assert np.allclose(shown, weights[token], atol=1e-4)
    browser.run('viewers[0].map.dispatchEvent(new PointerEvent("pointerleave"));')
    assert browser.run("return viewers[0].map.toDataURL();") == before


def test_a_tap_holds_a_patch_and_layers_heads_and_rollout_can_be_chosen(browser, page, look):
    browser.open(page, 390, 844)
    browser.run(POINT.format(row=0, column=5, event="click"))
    browser.run('viewers[0].map.dispatchEvent(new PointerEvent("pointerleave"));')
    assert browser.run(READING).startswith("Patch 0,5")
    browser.run("viewers[0].set({ site: 'encoder.2.self', head: 3 });")
    assert "(layer 2, head 3)" in browser.run(READING)
    shown = browser.run("return [...viewers[0].layer.row(3, 0)];")
    assert np.allclose(shown, look.site("encoder.2.self").weights[3, 0], atol=1e-4)
    browser.run("viewers[0].set({ site: 'rollout' });")
    from regard.explain.images.patches import rollout

    whole = rollout([m.weights.mean(0) for m in look.maps])
    shown = browser.run("return [...viewers[0].layer.row(null, 6)];")
    assert np.allclose(shown, whole[6], atol=1e-4)
    browser.run("document.getElementById('class').click();")
    assert browser.run(READING).startswith("[CLS]")
    browser.run("document.getElementById('original').click();")
    browser.settle()
    assert browser.run(READING).startswith("The original.")


def test_the_test_is_on_the_page(page, look):
    text = page.read_text()
    test = look.test(look.choose(layer=1))
    for value in (test.before, test.most, test.others, test.least):
        assert f"{value:.3f}" in text
    assert test.verdict in text


def test_a_mean_of_patches_has_its_button(browser, tmp_path):
    page = pipeline(pool="mean", class_token=False).look(photo()).save(tmp_path / "map.html")
    browser.open(page, 1280, 720)
    assert browser.run("return document.getElementById('class').textContent") == "Mean of patches"
    assert browser.run(READING).startswith("The mean patch looks most at")


def test_many_tokens_keep_the_means_alone(monkeypatch, look):
    from regard.explain.images import page

    monkeypatch.setattr(page, "MOST_BYTES", 25 * 25 * 4)
    text = page.image_page(look, look.choose())
    assert '"heads":1' in text
    assert '"heads":4' not in text
