"""Cuts of a network: what passes them, probes and decoders, and the figure that measures them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.data import make_scene
from regard.errors import InputError
from regard.inputs import Dense
from regard.models import build
from regard_lectures import show
from regard_lectures.claims.classifiers import labelled
from regard_lectures.claims.cuts import (
    STRENGTHS,
    cut_vectors,
    fit_probe,
    rebuilding_error,
    train_decoder,
)
from regard_lectures.claims.layers import cnn_config, vit_config
from regard_lectures.figures import slicing
from tests.legible import problems


@pytest.mark.parametrize("config", [cnn_config(1, 32), vit_config(1, 32)])
def test_the_numbers_at_a_cut_are_those_that_the_network_goes_on_with(config):
    model = build(config.changed(classes=("a", "b", "c"))).eval()
    pixels = torch.rand(3, 1, 32, 32)
    cuts = cut_vectors(model, pixels)
    assert list(cuts) == ["pixels", "layer 1", "layer 2", "layer 3", "pooled"]
    assert torch.equal(cuts["pixels"], pixels.flatten(1))
    with torch.no_grad():
        assert torch.allclose(model.classes(cuts["pooled"]), model.classify(Dense(pixels)))


def test_the_probe_is_ridge_regression_with_the_best_strength_for_images_left_out():
    random = np.random.default_rng(0)
    x = random.normal(size=(24, 7))
    labels = tuple("ab"[int(value > 0)] for value in x[:, 0] + random.normal(size=24))
    y = np.array([[label == "a", label == "b"] for label in labels], float)

    def weights(x, y, strength):
        centred = x - x.mean(0)
        return np.linalg.solve(
            centred.T @ centred + strength * np.eye(7), centred.T @ (y - y.mean(0))
        )

    def error_without(strength):
        error = 0.0
        for row in range(24):
            others = np.arange(24) != row
            # the image that is left out is left out of the means, too
            weight = weights(x[others], y[others], strength)
            fitted = (x[row] - x[others].mean(0)) @ weight + y[others].mean(0)
            error += ((y[row] - fitted) ** 2).sum()
        return error

    centred = x - x.mean(0)
    unit = np.trace(centred @ centred.T) / 24
    best = min((unit * factor for factor in STRENGTHS), key=error_without)
    probe = fit_probe(torch.from_numpy(x), labels)
    assert np.allclose(probe.weight, weights(x, y, best))
    right = (x @ probe.weight + probe.bias).argmax(1) == y.argmax(1)
    assert probe.accuracy(torch.from_numpy(x), labels) == pytest.approx(100 * right.mean())


def test_a_decoder_that_answers_the_mean_image_has_an_error_of_100():
    images, vectors = torch.rand(40, 1, 4, 4), torch.randn(40, 6)
    assert rebuilding_error(lambda _: images.mean(0), vectors, images) == pytest.approx(100)
    of_vectors = torch.sigmoid(vectors @ torch.randn(6, 16)).view(40, 1, 4, 4)
    decoder = train_decoder(
        vectors, of_vectors, width=32, steps=150, batch=20, seed=0, on_step=lambda *_: None
    )
    assert rebuilding_error(decoder, vectors, of_vectors) < 50


def test_few_labels_are_apart_from_what_is_measured():
    pixels = np.arange(30)[:, None, None, None] * np.ones((1, 1, 2, 2))
    few, choose, report = slicing.few_labels(labelled(pixels, ["a", "b"] * 15), 4, 0)
    assert sorted(few.labels) == ["a"] * 4 + ["b"] * 4
    numbers = [set(part.values[:, 0, 0, 0].tolist()) for part in (few, choose, report)]
    assert len(set.union(*numbers)) == sum(map(len, numbers)) == 30


def test_the_best_cut_is_chosen_by_other_images_than_it_is_reported_on():
    network = {"cuts": ["pixels", "layer 1", "pooled"], "held": [9, 20, 4], "scratch": [50, 1]}
    run = {
        "CNN": {**network, "chosen": [99, 60, 70], "reused": [5, 90, 65]},
        "ViT": {**network, "chosen": [99, 70, 60], "reused": [5, 80, 80], "scratch": [40, 99]},
    }
    best = slicing.best_of(run)
    assert (best["network"], best["cut"], best["reused"]) == ("CNN", "pooled", 65)  # the smaller
    assert (best["scratch_network"], best["scratch"]) == ("CNN", 1)


@pytest.mark.slow
def test_a_folder_and_an_image_of_ones_own(tmp_path):
    for number in range(48):
        scene = make_scene(0, 0, number, most=1)
        folder = tmp_path / "shapes" / scene.labels["shape"]
        folder.mkdir(parents=True, exist_ok=True)
        scene.draw(24).save(folder / f"{number}.png")
    image = tmp_path / "photo.png"
    make_scene(0, 0, 99, most=3).draw(80).save(image)
    data = str(tmp_path / "shapes")
    drawing = show("slicing", text=str(image), data=data, steps=2, labels=3, tries=1)
    assert problems(drawing.figure) == []
    assert drawing.numbers["own_image"]
    assert drawing.numbers["held_CNN"][0] == 3 * 32 * 32
    assert len(drawing.numbers["new_classes"][0]) == 2


def test_too_few_classes_or_images_or_none_say_what_is_expected(tmp_path):
    with pytest.raises(InputError, match="4 classes or more"):
        slicing.new_classes(["cat", "dog"], 0)
    with pytest.raises(InputError, match="3 or more of each class"):
        slicing.few_labels(labelled(np.zeros((3, 1, 2, 2)), ["a", "a", "b"]), 1, 0)
    with pytest.raises(InputError, match="a folder or file of images with classes"):
        show("slicing", data=str(tmp_path / "none"), steps=1)
