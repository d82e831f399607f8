"""Batches of images: the same with and without a thread beside the training."""

from __future__ import annotations

from itertools import islice

import pytest
import torch

from regard.data.batch import Cursor
from regard.data.images.augment import augment
from regard.errors import InputError
from regard.models import build
from regard.recipes.recipe import load
from regard.tasks.classify_images import ClassifyImages


def prepared(recipe, *overrides):
    return ClassifyImages.prepare(load(recipe, overrides)).task


def test_digits_are_changed_as_ever():
    task = prepared("tiny/digits")
    batch, after = next(task.batches(Cursor(2, 3)))
    assert after == Cursor(2, 4)
    index = list(batch.index)
    pixels = torch.from_numpy(task.train.values[index])
    expected = task.reader.normalised(augment(pixels, index, 0, 2, 0.5))
    assert torch.equal(batch.source.values, expected)
    assert batch.shares is None


@pytest.mark.parametrize("mixing", [[], ["data.mixup=0.5", "data.cutmix=1.0"]], ids=str)
def test_a_thread_prepares_the_same_batches(mixing):
    overrides = ["data.kind=scenes", "data.pairs=60", "data.held_out=5", "data.randaugment=2",
                 "train.batch_tokens=650", *mixing]  # fmt: skip
    beside = prepared("own/images", *overrides)
    alone = prepared("own/images", *overrides, "data.workers=0")
    assert len(beside.options.head.classes) == 6
    pairs = zip(beside.batches(Cursor(0, 3)), alone.batches(Cursor(0, 3)), strict=False)
    for (batch, after), (same_batch, again) in islice(pairs, 6):  # into the next epoch
        assert after == again
        assert batch.index == same_batch.index
        assert torch.equal(batch.source.values, same_batch.source.values)
        assert (batch.shares is None) == (not mixing)
        if mixing:
            assert torch.equal(batch.shares, same_batch.shares)
            assert torch.allclose(batch.shares.sum(1), torch.ones(len(batch.index)))


RESNET = ["data.kind=scenes", "data.pairs=13", "data.held_out=2", "model.family=resnet",
          "model.block=basic", "model.depths=[1,1]", "model.filters=[8,8]",
          "model.stem_width=8"]  # fmt: skip


def resnet(side, images):
    """A task of a small network, with the model; an image has side / 8 places in the end."""
    words = [*RESNET, f"model.image=[{side},{side}]", f"train.batch_tokens={images * 64}"]
    prepared = ClassifyImages.prepare(load("own/images", words))
    return prepared.task, build(prepared.model)


def test_batch_norm_of_a_single_place_never_sees_a_single_image():
    task, model = resnet(side=8, images=6)
    sizes = []
    for batch, after in task.batches(Cursor()):
        sizes.append(len(batch.index))
        assert task.loss(model.train(), batch).isfinite()
        if after.batch == 0:
            break
    assert sorted(sizes) == [6, 7]


def test_images_of_several_places_are_batched_as_ever():
    task, _ = resnet(side=16, images=6)
    assert task.least == 1
    sizes = [len(batch.index) for batch, _ in islice(task.batches(Cursor()), 3)]
    assert sorted(sizes) == [1, 6, 6]
    assert resnet(side=16, images=1)[0].least == 1


def test_batches_of_one_image_are_refused_for_batch_norm_of_a_single_place():
    message = "train.batch_tokens: got 64, which is one image for family resnet, expected at least"
    with pytest.raises(InputError, match=f"{message} 128: 2 images\nits batch norm cannot"):
        resnet(side=8, images=1)
