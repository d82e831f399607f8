"""Feature maps of models of images, their receptive fields, and the figure that measures them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.inputs import Dense
from regard.models import ResNetConfig, build
from regard_lectures.claims.layers import (
    cnn_config,
    feature_maps,
    framed_in,
    is_convolutional,
    reaches,
    viewers,
    vit_config,
)
from regard_lectures.figures import receptive

RESNET = ResNetConfig.model_validate({
    "image": (32, 32), "channels": 1, "unit": "basic", "depths": (1, 1), "filters": (8, 12),
    "stem_width": 8,
})  # fmt: skip
CONFIGS = {
    "CNN": cnn_config(1, 32),
    "ResNet": RESNET,
    "ViT": vit_config(1, 32),
    "both": vit_config(1, 32, stem=True),
}


@pytest.fixture(scope="module")
def models():
    torch.manual_seed(0)
    return {
        kind: build(config.changed(classes=("a", "b"))).eval() for kind, config in CONFIGS.items()
    }


@pytest.mark.parametrize("kind", CONFIGS)
def test_the_last_maps_give_the_logits_of_the_model(models, kind):
    model, pixels = models[kind], torch.rand(3, 1, 32, 32)
    with torch.no_grad():
        last = list(feature_maps(model, pixels).values())[-1]  # (images, channels, rows, columns)
        expected = model.classify(Dense(pixels))
        if is_convolutional(model):
            pooled = last.mean((2, 3))
        else:
            cells = last.flatten(2).transpose(1, 2)  # (images, cells, dim)
            pooled = model.encoder.final_norm(cells).mean(1)
    assert torch.allclose(model.classes(pooled), expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["CNN", "ResNet"])
def test_the_formula_is_what_changed_pixels_and_gradients_say(kind):
    model = build(CONFIGS[kind].changed(classes=("a", "b"))).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.01)  # with positive weights no ReLU cuts a path
    size, grey = 32, torch.full((1, 1, 32, 32), 0.5)
    random = torch.rand(128, 1, size, size, generator=torch.Generator().manual_seed(0))
    fields = receptive.gradient_fields(model, random, 0)
    raised = grey.repeat(2 * size, 1, 1, 1)  # a row of pixels, then a column, is much brighter
    for at in range(size):
        raised[at, :, at], raised[size + at, :, :, at] = 1e3, 1e3
    with torch.no_grad():
        before, after = feature_maps(model, grey), feature_maps(model, raised)
    for name, reach in reaches(model).items():
        row, column = (side // 2 for side in before[name].shape[2:])
        change = (after[name] - before[name])[:, 0, row, column].abs() > 1e-6
        spans = [torch.arange(*reach.span(cell, size)).tolist() for cell in (row, column)]
        assert change[:size].nonzero()[:, 0].tolist() == spans[0], name
        assert change[size:].nonzero()[:, 0].tolist() == spans[1], name
        expected = np.zeros((size, size), bool)
        expected[np.ix_(*spans)] = True
        assert ((fields[name] > 0) <= expected).all()
        if kind == "CNN":  # of random images a pixel is the largest of its pools at times
            seen = [np.flatnonzero((fields[name] > 0).any(1 - axis)) for axis in (0, 1)]
            assert [side.tolist() for side in seen] == spans
        share = receptive.share_by_formula(reach, (row, column), (size, size))
        assert share == pytest.approx(100 * expected.mean())


def test_attention_reaches_every_pixel_in_its_first_layer(models):
    fields = receptive.gradient_fields(models["ViT"], torch.rand(2, 1, 32, 32), 0)
    assert receptive.share_reached(fields["patches"]) == pytest.approx(100 * 16 / 1024)
    assert receptive.share_reached(fields["layer 1"]) == 100


def test_the_shares_are_those_of_loops():
    field = np.random.default_rng(0).exponential(size=(6, 7)) ** 2
    field[1] = 0
    total, pixels, summed = field.sum(), 0, 0.0
    for value in sorted((float(value) for row in field for value in row), reverse=True):
        if summed >= 0.9 * total:
            break
        pixels, summed = pixels + 1, summed + value
    assert receptive.share_of_most(field) == pytest.approx(100 * pixels / 42)
    assert receptive.share_reached(field) == pytest.approx(100 * 35 / 42)
    assert receptive.share_of_most(np.zeros((2, 2))) == 0


def test_gradients_are_those_of_one_image_and_one_channel_after_another(models):
    model, pixels = models["ResNet"], torch.rand(2, 1, 32, 32)
    field = receptive.gradient_fields(model, pixels, 5)["stem"]
    signs = torch.randint(0, 2, (2, 8), generator=torch.Generator().manual_seed(5)) * 2.0 - 1.0
    total = torch.zeros(32, 32)
    for image, row in zip(pixels, signs, strict=True):
        x = image[None].clone().requires_grad_()
        maps = feature_maps(model, x)["stem"]
        cells = maps[0, :, maps.shape[2] // 2, maps.shape[3] // 2]
        slope = torch.zeros(32, 32)
        for channel, sign in enumerate(row):
            (gradient,) = torch.autograd.grad(cells[channel], x, retain_graph=True)
            slope += sign * gradient[0, 0]
        total += slope.abs() / 2
    assert np.allclose(field, total.numpy(), atol=1e-6)


def test_a_frame_repeats_the_edge_and_may_be_shifted():
    image = np.arange(4).reshape(1, 1, 2, 2)
    framed = framed_in(image, 4)
    assert framed[0, 0, 0].tolist() == [0, 0, 1, 1]
    shifted = framed_in(image, 4, right=1)
    assert shifted[0, 0, 3].tolist() == [2, 2, 2, 3]


def test_a_model_without_images_is_refused():
    with pytest.raises(InputError, match="a CNN or a ViT that reads images"):
        viewers("tiny/translate", None)
