"""Hidden patches: which they are, what replaces them, and what becomes of the class."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.explain.images.hiding import (
    HiddenPatches,
    Hiding,
    HidingReport,
    Mean,
    blurred,
    cover,
    hidden_images,
)
from regard.inputs.arrays import Dense
from tests.explain.images.photos import photo, pipeline


def test_hidden_patches_have_the_mean_colour_and_the_others_stay():
    image = torch.randn(3, 8, 12)
    covered = torch.zeros(1, 4, 6, dtype=torch.bool)
    covered[0, 1, 2] = covered[0, 3, 5] = True
    [hidden] = cover(image, covered, "mean")
    for row in range(4):
        for column in range(6):
            part = (slice(None), slice(2 * row, 2 * row + 2), slice(2 * column, 2 * column + 2))
            mean = image.mean((1, 2))[:, None, None].expand(3, 2, 2)
            expected = mean if covered[0, row, column] else image[part]
            assert torch.equal(hidden[part], expected)


def test_a_blur_keeps_the_mean_of_an_even_image_and_loses_details():
    assert torch.allclose(blurred(torch.full((1, 9, 7), 0.3), 2), torch.full((1, 9, 7), 0.3))
    noise = torch.randn(1, 32, 32)
    assert blurred(noise, 4).std() < 0.1 * noise.std()
    assert torch.isfinite(blurred(torch.randn(1, 1, 6), 2)).all()


def test_most_least_and_others_are_what_they_say():
    weights = np.arange(24.0).reshape(4, 6)
    image = torch.randn(3, 8, 12)
    images = hidden_images(image, weights, Hiding(share=0.25, draws=7, seed=3))
    assert len(images) == 3 + 7
    changed = (images != image)[:, 0, ::2, ::2].flatten(1)  # (images, patches)
    assert changed.sum(1).tolist() == [0, *[6] * 9]
    assert changed[1].nonzero().flatten().tolist() == [18, 19, 20, 21, 22, 23]
    assert changed[2].nonzero().flatten().tolist() == [0, 1, 2, 3, 4, 5]
    assert not changed[3:, 18:].any()  # others: none of those that are looked at most
    assert len({tuple(row.tolist()) for row in changed[3:]}) > 1
    again = hidden_images(image, weights, Hiding(share=0.25, draws=7, seed=3))
    assert torch.equal(images, again)
    assert not torch.equal(images, hidden_images(image, weights, Hiding(0.25, draws=7, seed=4)))


def test_the_probabilities_are_those_of_the_changed_images():
    p = pipeline()
    look = p.look(photo())
    choice = look.choose(kind="rollout")
    test = look.test(choice, Hiding(0.25, "blur", draws=2, seed=1))
    from regard.explain.images.patches import chosen_row, over_patches

    weights = over_patches(look.picture, chosen_row(look, choice))
    reader = p.processor.source
    read = reader.collate(reader.read([photo()])).values[0]
    images = hidden_images(read, weights, Hiding(0.25, "blur", draws=2, seed=1))
    with torch.no_grad():
        shares = p.model(Dense(images)).softmax(1)
    best = int(shares[0].argmax())
    expected = shares[:, best].tolist()
    assert test.label == p.classify(photo())[0].label == "abc"[best]
    assert [test.before, test.most, test.least, *test.random] == pytest.approx(expected, abs=1e-5)
    assert (test.hidden, test.patches) == (6, 24)
    json.dumps(test.to_json(), allow_nan=False)


def test_many_images_are_tested_as_each_alone():
    p = pipeline()
    images = [photo(40, 60), photo(30, 90), photo(8, 12)]
    for kind in ("picture", "rollout"):
        report = p.hide_patches(images, kind=kind, hiding=Hiding(0.3, draws=2))
        for image, test in zip(images[:1], report.tests[:1], strict=True):
            look = p.look(image)
            layer = None if kind == "rollout" else 2
            alone = look.test(look.choose(kind, layer), Hiding(0.3, draws=2))
            assert [test.before, test.most, test.least] == pytest.approx(
                [alone.before, alone.most, alone.least], abs=1e-5
            )
            assert test.random == pytest.approx(alone.random, abs=1e-5)
        assert len(report.tests) == 3
        assert set(report.to_json()["drop"]) == {"most", "random", "least"}
        assert "3 images, 7 of 24 patches hidden" in report.table()
    gone = p.hide_patches(images, knock_out=["encoder.0.self.1"])
    assert gone.tests[0].before != p.hide_patches(images).tests[0].before


def test_the_interval_is_the_usual_one_and_the_verdict_follows_it():
    mean = Mean.of([0.1, 0.2, 0.3, 0.6])
    reach = 1.96 * np.std([0.1, 0.2, 0.3, 0.6], ddof=1) / 2
    assert (mean.mean, mean.low, mean.high) == pytest.approx((0.3, 0.3 - reach, 0.3 + reach))
    assert Mean.of([0.5]) == Mean(0.5, 0.5, 0.5)

    def report(most: float, other: float, images: int = 10) -> HidingReport:
        test = HiddenPatches("a", 10, 2, 0.9, most, (other,), 0.9, "mean", 0)
        return HidingReport("rollout", Hiding(), (test,) * images)

    assert "maps hold" in report(0.1, 0.8).verdict
    assert "too few images to tell" in report(0.1, 0.8, images=9).verdict
    assert "mislead" in report(0.8, 0.1).verdict
    assert "do not hold" in report(0.5, 0.5).verdict
    unsure = HidingReport("rollout", Hiding(), (*report(0.1, 0.8).tests, *report(0.8, 0.1).tests))
    assert "cannot tell" in unsure.verdict


def test_one_image_that_contradicts_its_map_is_said():
    def verdict(most: float, random: tuple[float, ...], times: int = 10) -> str:
        return HiddenPatches("a", 10, 2, 0.9, most, random * times, 0.9, "mean", 0).verdict

    assert "the map holds" in verdict(0.1, (0.8, 0.9))
    assert "cannot tell" in verdict(0.5, (0.4, 0.9))
    assert "cannot tell" in verdict(0.95, (0.95, 0.96))  # outside the draws, but by no margin
    assert "does not hold" in verdict(0.9, (0.4, 0.5))
    assert "cannot tell" in verdict(0.1, (0.8, 0.9), times=4)  # too few draws


def test_settings_that_cannot_be_are_refused():
    for settings in ({"share": 0.6}, {"share": 0.0}, {"fill": "black"}, {"draws": 0}):
        with pytest.raises(InputError):
            Hiding(**settings)
    p = pipeline()
    with pytest.raises(InputError, match="0 to 2"):
        p.hide_patches([photo()], layer=3)
    with pytest.raises(InputError, match="picture or rollout"):
        p.hide_patches([photo()], kind="grid")
    with pytest.raises(InputError, match="one patch"):
        pipeline(patch=4, image=(4, 4)).look(photo()).test()
