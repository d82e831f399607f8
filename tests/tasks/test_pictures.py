"""Batches of images: the same with and without a thread beside the training."""

from __future__ import annotations

from itertools import islice

import pytest
import torch

from regard.data.batch import Cursor
from regard.data.images.augment import augmented
from regard.recipes.recipe import load
from regard.tasks.pictures import ClassifyPictures


def prepared(recipe, *overrides):
    return ClassifyPictures.prepare(load(recipe, overrides)).task


def test_digits_are_changed_as_ever():
    task = prepared("tiny/digits")
    batch, after = next(task.batches(Cursor(2, 3)))
    assert after == Cursor(2, 4)
    index = list(batch.index)
    pixels = torch.from_numpy(task.train.values[index])
    expected = task.reader.normalised(augmented(pixels, index, 0, 2, 0.5))
    assert torch.equal(batch.source.values, expected)
    assert batch.shares is None


@pytest.mark.parametrize("mixing", [[], ["data.mixup=0.5", "data.cutmix=1.0"]], ids=str)
def test_a_thread_prepares_the_same_batches(mixing):
    overrides = ["data.kind=scenes", "data.pairs=60", "data.held_out=5", "data.randaugment=2",
                 "train.batch_tokens=650", *mixing]  # fmt: skip
    beside = prepared("own/images", *overrides)
    alone = prepared("own/images", *overrides, "data.workers=0")
    assert len(beside.options.classes) == 6
    pairs = zip(beside.batches(Cursor(0, 3)), alone.batches(Cursor(0, 3)), strict=False)
    for (one, after), (other, again) in islice(pairs, 6):  # into the next epoch
        assert after == again
        assert one.index == other.index
        assert torch.equal(one.source.values, other.source.values)
        assert (one.shares is None) == (not mixing)
        if mixing:
            assert torch.equal(one.shares, other.shares)
            assert torch.allclose(one.shares.sum(1), torch.ones(len(one.index)))
