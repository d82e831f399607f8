"""Random changes of images: pure functions of (seed, epoch, image), checked beside Pillow."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from regard.data.batch import Batch
from regard.data.config import ImageData
from regard.data.images import changes, randaugment
from regard.data.images.changes import COLUMNS, change_batch
from regard.data.images.randaugment import OPERATIONS
from regard.data.order import uniforms
from regard.inputs.arrays import Dense, Ragged
from regard.tasks.labelled_task import class_loss

VALUES = np.random.default_rng(0).integers(0, 256, (20, 3, 16, 12), dtype=np.uint8)
SMOOTH = np.stack([
    np.asarray(Image.fromarray(image.transpose(1, 2, 0)).resize((20, 20), Image.Resampling.BICUBIC))
    for image in VALUES[:8]
]).transpose(0, 3, 1, 2)  # fmt: skip
EVERYTHING = ImageData(
    shift=2, crop=0.5, flip=True, colour=0.4, randaugment=2, erase=0.5, mixup=0.4, cutmix=1.0
)
ONE_BY_ONE = [
    {"shift": 3}, {"crop": 0.3}, {"flip": True}, {"colour": 0.5}, {"randaugment": 3},
    {"erase": 1.0}, {"mixup": 0.8}, {"cutmix": 1.0},
]  # fmt: skip


def test_random_numbers_depend_on_seed_epoch_and_example_alone():
    numbers = uniforms(3, 5, [7, 1, 4], 6)
    assert numbers.shape == (3, 6)
    assert np.array_equal(numbers[1], uniforms(3, 5, [1], 6)[0])
    assert np.array_equal(numbers[:, :4], uniforms(3, 5, [7, 1, 4], 4))
    many = uniforms(0, 0, range(2000), 10)
    assert 0 <= many.min() < many.max() < 1
    assert abs(many.mean() - 0.5) < 0.01
    assert abs(np.corrcoef(many.T) - np.eye(10)).max() < 0.08
    assert abs(np.corrcoef(many[:, 0], uniforms(0, 1, range(2000), 1)[:, 0])[0, 1]) < 0.08
    counts = np.histogram(many, 10, (0, 1))[0]
    assert counts.min() > 1800


@pytest.mark.parametrize("settings", [*ONE_BY_ONE, EVERYTHING.model_dump()], ids=str)
@pytest.mark.parametrize("kind", ["bytes", "floats", "grey"])
def test_an_image_is_changed_alike_in_every_batch(settings, kind):
    data = ImageData(**settings)
    values = {"bytes": VALUES, "floats": changes.as_floats(VALUES), "grey": VALUES[:, :1]}[kind]
    together = change_batch(values, [4, 9, 2], data, seed=1, epoch=3)
    alone = change_batch(values, [9], data, seed=1, epoch=3)
    assert np.array_equal(together.pixels[1], alone.pixels[0])
    if together.partners is not None:
        assert together.partners[1] == alone.partners[0]
        assert together.shares[1] == alone.shares[0]
    assert together.pixels.shape == (3, *values.shape[1:])
    floats = changes.as_floats(together.pixels)
    assert floats.dtype == np.float32
    assert 0 <= floats.min() <= floats.max() <= 1
    rows = list(range(20))
    first = changes.as_floats(change_batch(values, rows, data, 1, 3).pixels)
    for other in (change_batch(values, rows, data, 1, 4), change_batch(values, rows, data, 2, 3)):
        assert not np.allclose(changes.as_floats(other.pixels), first, atol=0.02)


def test_without_changes_the_bytes_are_returned():
    assert np.array_equal(change_batch(VALUES, [3, 1], ImageData(), 0, 0).pixels, VALUES[[3, 1]])


def dice_with(**columns):
    dice = np.full((1, COLUMNS), 0.5)
    for name, value in columns.items():
        dice[0, int(name[1:])] = value
    return dice


def test_shift_and_flip_move_whole_pixels():
    data = ImageData(shift=2, flip=True)
    pixels = VALUES[:1]
    down = changes.shift_crop_flip(pixels, dice_with(_0=0.99, _6=0.9), data)  # reads 2 rows lower
    assert np.array_equal(down[:, :, :-2], pixels[:, :, 2:])
    assert np.array_equal(down[:, :, -1], pixels[:, :, -1])
    flipped = changes.shift_crop_flip(pixels, dice_with(_6=0.1), data)
    assert np.array_equal(flipped, pixels[..., ::-1])


def test_a_crop_is_what_pillow_cuts_out_and_scales():
    data = ImageData(crop=0.25)
    dice = dice_with(_2=0.0, _4=0.5, _5=0.5)  # a quarter of the area, square, in the middle
    cropped = changes.shift_crop_flip(SMOOTH[:1], dice, data)[0]
    image = Image.fromarray(SMOOTH[0].transpose(1, 2, 0))
    theirs = image.resize((20, 20), Image.Resampling.BILINEAR, box=(5, 5, 15, 15))
    ours = cropped[:, 2:-2, 2:-2].transpose(1, 2, 0) * 255  # theirs does not see beyond the box
    assert np.abs(ours - np.asarray(theirs, float)[2:-2, 2:-2]).max() <= 1


def test_colours_change_as_the_equations_say():
    pixels = changes.as_floats(VALUES[:1])
    half = changes.change_colours(pixels, np.array([[0.0, 0.5, 0.5]]), 0.5)
    assert np.allclose(half, pixels / 2, atol=1e-6)
    grey = changes.change_colours(pixels, np.array([[0.5, 0.5, 0.0]]), 1.0)
    assert np.allclose(grey, changes.grey(pixels), atol=1e-6)
    flat = changes.change_colours(pixels, np.array([[0.5, 0.0, 0.5]]), 1.0)
    assert np.ptp(flat) < 1e-6
    assert np.allclose(changes.change_colours(pixels, np.full((1, 3), 0.5), 0.9), pixels, atol=1e-6)


def test_a_rectangle_is_erased_in_the_share_of_images_that_was_asked_for():
    pixels = np.ones((400, 1, 16, 16), np.float32)
    dice = uniforms(0, 0, range(400), 5)
    erased = changes.erase_rectangles(pixels, dice, 0.3, np.zeros((1, 1, 1), np.float32))
    gone = 1 - erased.mean(axis=(1, 2, 3))
    assert 0.22 < (gone > 0).mean() < 0.38
    assert gone[gone > 0].min() >= 0.01
    assert gone.max() < 0.4


def test_mixup_and_cutmix_mix_pixels_and_shares_alike():
    zeros, ones = np.zeros((500, 1, 16, 16), np.float32), np.ones((500, 1, 16, 16), np.float32)
    partners = np.arange(500)
    dice = uniforms(0, 0, range(500), 4)
    for data in (ImageData(mixup=0.8), ImageData(cutmix=1.0), ImageData(mixup=1, cutmix=1)):
        mixed = changes.mix(ones, zeros, partners, dice, data)
        assert np.allclose(mixed.pixels.mean(axis=(1, 2, 3)), mixed.shares, atol=1e-5)
        assert abs(mixed.shares.mean() - 0.5) < 0.05
        pasted = np.isin(mixed.pixels, (0, 1)).all(axis=(1, 2, 3)).mean()  # not blended
        expected = 0.5 if data.mixup and data.cutmix else float(data.cutmix > 0)
        assert pasted == pytest.approx(expected, abs=0.1)
    draws = np.random.default_rng(0).beta(0.3, 0.3, 4000)
    ours = changes.beta_quantiles(0.3)[(uniforms(1, 0, range(4000), 1)[:, 0] * 2**14).astype(int)]
    assert np.allclose(np.quantile(ours, [0.2, 0.5, 0.8]), np.quantile(draws, [0.2, 0.5, 0.8]),
                       atol=0.06)  # fmt: skip


def pil(operation, image, strength):
    """What Pillow computes for an operation of RandAugment."""
    width, height = image.size
    factor = 1 + 0.9 * strength
    enhance = {"brightness": ImageEnhance.Brightness, "colour": ImageEnhance.Color,
               "contrast": ImageEnhance.Contrast, "sharpness": ImageEnhance.Sharpness}  # fmt: skip
    if operation in enhance:
        return enhance[operation](image).enhance(factor)
    plain = {
        "identity": lambda: image,
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "equalize": lambda: ImageOps.equalize(image),
        "posterize": lambda: ImageOps.posterize(image, 8 - round(4 * abs(strength))),
        "solarize": lambda: ImageOps.solarize(image, math.ceil(255 * (1 - abs(strength)))),
        "rotate": lambda: image.rotate(30 * strength, fillcolor=(128,) * 3),
    }
    if operation in plain:
        return plain[operation]()
    shift = math.trunc(150 / 331 * width * strength)
    matrix = {
        "shear_x": (1, 0.3 * strength, -0.3 * strength * height / 2, 0, 1, 0),
        "shear_y": (1, 0, 0, 0.3 * strength, 1, -0.3 * strength * width / 2),
        "translate_x": (1, 0, shift, 0, 1, 0),
        "translate_y": (1, 0, 0, 0, 1, shift),
    }[operation]
    return image.transform(image.size, Image.Transform.AFFINE, matrix, fillcolor=(128,) * 3)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("strength", [-0.6, 0.3, 1.0])
def test_operations_are_those_of_pillow(operation, strength):
    changed = OPERATIONS[operation](SMOOTH.copy(), np.full(len(SMOOTH), strength))
    for ours, pixels in zip(changed, SMOOTH, strict=True):
        image = Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
        theirs = np.asarray(pil(operation, image, strength), dtype=int)
        apart = np.abs(ours.transpose(1, 2, 0).astype(int) - theirs)
        if operation in ("rotate", "shear_x", "shear_y"):  # exactly between two pixels
            assert (apart.max(axis=2) > 0).mean() < 0.02
        else:
            assert apart.max() <= (1 if operation in ("sharpness", "contrast") else 0)


def test_equal_and_grey_images_pass_through_every_operation():
    flat = np.full((3, 3, 9, 9), 77, np.uint8)
    for name, operation in OPERATIONS.items():
        for pixels in (flat, flat[:, :1], VALUES[:3, :1], VALUES[:3, :, :2, :2]):
            changed = operation(pixels.copy(), np.array([-1.0, 0.5, 1.0]))
            assert changed.shape == pixels.shape, name
            assert changed.dtype == np.uint8, name
    dice = uniforms(0, 0, range(3), 8)
    assert np.array_equal(randaugment.randaugment(flat, dice, 0, 9), flat)


def test_the_loss_of_mixed_classes_is_smoothed_cross_entropy():
    logits = torch.randn(4, 5)
    shares = torch.rand(4, 5).softmax(1)

    class Model:
        def classify(self, source):
            return logits[: len(source)]

    batch = Batch(Dense(torch.zeros(4, 1)), Ragged.of([[0]] * 4), (0, 1, 2, 3), shares=shares)
    wanted = 0.9 * shares + 0.1 / 5
    by_hand = -(wanted * logits.log_softmax(1)).sum()
    assert class_loss(Model(), batch, 0.1) == pytest.approx(float(by_hand), rel=1e-6)
    hard = Batch(Dense(torch.zeros(4, 1)), Ragged.of([[0]] * 4), (0, 1, 2, 3))
    as_shares = torch.zeros(4, 5)
    as_shares[:, 0] = 1
    same = Batch(hard.source, hard.targets, hard.index, shares=as_shares)
    assert torch.allclose(class_loss(Model(), hard, 0.1), class_loss(Model(), same, 0.1))
    assert torch.equal(batch.take([2, 0]).shares, shares[[2, 0]])
