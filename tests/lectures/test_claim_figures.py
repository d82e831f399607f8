"""The figures of claims that train classifiers: what is trained, what is measured, own input."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from regard.draw import SMALLEST, text_width
from regard.draw.sheet import style
from regard.errors import InputError
from regard.inputs import Dense
from regard.models import build
from regard_lectures import show
from regard_lectures.claims import CLAIMS
from regard_lectures.claims.classifiers import labelled, read_splits
from regard_lectures.figures import claims, hunger, idea1, pixels, remedies
from tests.legible import problems


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of images of two classes: bright at the top, or at the bottom."""
    path, random = tmp_path_factory.mktemp("own"), np.random.default_rng(0)
    for name, half in (("top", slice(16)), ("bottom", slice(16, 32))):
        (path / name).mkdir()
        for number in range(9):
            image = random.integers(0, 120, (32, 32, 3))
            image[half] += 120
            Image.fromarray(image.astype(np.uint8)).save(path / name / f"{number}.png")
    return path


@pytest.fixture
def splits(folder):
    return read_splits(str(folder), held_out=1, most=8, seed=0)[0]


# Data.


def test_what_is_not_there_is_an_error_but_fashion_mnist_is_drawn_scenes(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for data in ("", "fashion-mnist"):
        drawn, name = read_splits(data, held_out=2, most=6, seed=0)
        assert (name, drawn.train.values.shape) == ("drawn scenes", (6, 3, 32, 32))
    with pytest.raises(InputError, match="got nosuch, expected a folder or file of images"):
        read_splits("nosuch", held_out=2, most=6, seed=0)
    with pytest.raises(InputError, match="got nosuch, expected a folder or file of images"):
        pixels.read_images_of("nosuch", 0)
    with pytest.raises(InputError, match="another kind of file"):
        read_splits("top/1.png", held_out=2, most=6, seed=0)
    with pytest.raises(InputError, match="expected a folder for each class"):
        read_splits("top", held_out=2, most=6, seed=0)


def test_digits_are_the_included_ones_with_repeated_pixels():
    large, name = read_splits("digits", held_out=2, most=6, seed=1)
    small = pixels.read_images_of("digits", 1)
    assert name == "digits"
    assert (large.train.values[:, :, 1::4, 2::4] == small.train.values).all()
    assert large.tests["test"].labels == small.tests["test"].labels


# Hunger.


def test_the_learning_rate_is_chosen_by_validation_not_by_tests(monkeypatch, splits, tmp_path):
    rates = dict(zip(hunger.RATES, ((90.0, 1.0), (10.0, 3.0), (50.0, 2.0)), strict=True))
    splits = SimpleNamespace(train=splits.train, valid=splits.valid, tests=splits.tests)

    def train(*arguments, **_):
        course, seed = arguments[2:4]

        def accuracy(measured):
            return rates[course.rate][measured is splits.valid] + seed

        return SimpleNamespace(accuracy=accuracy)

    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    monkeypatch.setattr(hunger, "SIZES", (4, 8))
    monkeypatch.setattr(hunger, "train_classifier", train)
    monkeypatch.setattr(hunger, "read_splits", lambda *_, **__: (splits, "own"))
    result = hunger.measure("own", 8, 64, 3, 5)
    assert result["rates"] == {"CNN": [hunger.RATES[1]] * 2, "ViT": [hunger.RATES[1]] * 2}
    assert result["accuracies"]["ViT"] == [[15.0, 16.0, 17.0]] * 2
    few, many = result["parameters"]["CNN"], result["parameters"]["ViT"]
    assert abs(few / many - 1) < 0.1


def test_means_that_nearly_touch_do_not_cross():
    sizes = [100, 1000, 10_000]
    assert hunger.crossing(sizes, [2.0, 1.0, -1.0]) == pytest.approx(1000 * 10**0.5)
    assert hunger.crossing(sizes, [2.0, 0.1, -0.1]) is None
    assert hunger.crossing(sizes, [-2.0, -1.0, 1.0]) is None


def test_too_few_images_for_two_sizes_are_an_error(folder):
    with pytest.raises(InputError, match=r"got 14 to train on, .* expected 1,000 or more"):
        show("hunger", data=str(folder), again="small")


# Remedies.


def test_each_way_has_its_own_remedy_and_the_last_all(monkeypatch, splits):
    seen = []

    def train(*arguments, classes, teacher=None):
        config, images, course = arguments[:3]
        changes = course.changes
        used = {
            "weight_decay": course.weight_decay,
            "drop_path": getattr(config, "drop_path", 0.0),
            "mixup": changes.mixup,
            "randaugment": changes.randaugment,
            "teacher": teacher is not None,
        }
        seen.append((images.labels, {name for name, value in used.items() if value}))
        model = build(config.changed(classes=classes))
        return SimpleNamespace(
            accuracy=len, model=model, task=SimpleNamespace(reader=SimpleNamespace())
        )

    monkeypatch.setattr(remedies, "train_classifier", train)
    accuracies = remedies.train_all(splits, 6, 64, 0, print)
    every = set(remedies.REMEDIES)
    assert [used for _, used in seen] == [
        set(),
        set(),
        *({name} for name in remedies.REMEDIES),
        every,
    ]
    assert len({labels for labels, _ in seen}) == 1  # all see the same images
    assert accuracies[remedies.TEACHER] == 6  # its training images
    assert accuracies[remedies.CNN] == len(splits.tests["test"])


# Idea 1.


def test_attention_between_the_stages_begins_as_the_plain_network():
    networks = []
    for config in idea1.configs(labelled(np.zeros((1, 1, 28, 28), np.uint8), "a")).values():
        torch.manual_seed(3)
        networks.append(build(config.changed(classes=("a", "b"))).eval())
    plain, attending = networks
    image = Dense(torch.rand(2, 1, 28, 28))
    with torch.no_grad():
        assert torch.equal(plain.classify(image), attending.classify(image))
        idea1.gammas(attending)[0].fill_(0.5)
        assert not torch.allclose(plain.classify(image), attending.classify(image))
    assert len(idea1.gammas(attending)) == 2
    assert not hasattr(plain.encoder, "gamma")


# Pixels.


def test_matrices_of_attention_take_memory_of_the_fourth_power_of_the_side():
    whole = [pixels.step_bytes(side, fused=False, seed=0) for side in (16, 32)]
    fused = [pixels.step_bytes(side, fused=True, seed=0) for side in (16, 32)]
    weights = [4 * pixels.LAYERS * pixels.HEADS * side**4 for side in (16, 32)]
    assert all(weight < row < 8 * weight for weight, row in zip(weights, whole, strict=True))
    assert whole[1] - fused[1] > weights[1]
    assert 3 < pixels.exponent(whole) < 4 < whole[1] / fused[1]
    assert pixels.exponent(fused) == pytest.approx(2, abs=0.3)


# Own images.


SHORT = {
    "idea1": {"seen": 64},
    "remedies": {"seen": 64},
    "pixels": {"steps": 1},
    "receptive": {"steps": 1},
}


@pytest.mark.parametrize("name", SHORT)
def test_images_of_ones_own_are_learned(name, folder, monkeypatch):
    monkeypatch.setattr(pixels, "RESOLUTIONS", (4, 8))
    drawing = show(name, data=str(folder), tries=1, **SHORT[name])
    assert folder.name in drawing.limits
    assert drawing.numbers["verdict"] == "cannot tell"  # one seed
    assert problems(drawing.figure) == []


# The table of claims.


@pytest.mark.parametrize("sign", [1, -1, 0])
def test_a_table_of_all_claims_is_legible(sign, monkeypatch):
    random = np.random.default_rng(0)
    differences = {
        name: {part: (sign + 0.2 * random.normal(size=3)).tolist() for part in claim.parts}
        for name, claim in CLAIMS.items()
    }
    monkeypatch.setattr(claims, "differences_of", differences.get)
    drawing = show("claims")
    assert set(drawing.numbers["verdicts"]) == set(CLAIMS)
    assert problems(drawing.figure) == []


def test_parts_without_room_are_counted():
    parts = {"some_part": "holds", "b": "cannot tell", "c": "holds"}
    named = "some part ✓, b ?, c ✓"
    with style():
        width = text_width(named, SMALLEST)
        assert claims.parts_shown(parts, width) == named
        assert claims.parts_shown(parts, width - 1) == "of 3 parts: 2 ✓, 1 ?"
