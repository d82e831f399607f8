"""Swin: windows and merges equal plain loops; sizes; configs; images of any size."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from regard.cost.count import forward_flops, parameters
from regard.errors import InputError
from regard.inputs.arrays import Dense
from regard.inputs.images.reader import ImageReader
from regard.inputs.processor import Processor
from regard.layers import Tap
from regard.layers.relative import resized_table
from regard.models import SwinConfig, build
from regard.models.families.swin import VERSION_2
from regard.models.meta_model import meta_model
from regard.pipeline import Pipeline
from regard.recipes import recipe as recipes
from regard.runs.start import begin

CLASSES = tuple(map(str, range(1000)))
SIZES = {"dim": 8, "heads": 2, "hidden": 12, "patch": 1, "channels": 1, "image": (17, 23),
         "dropout": 0.0, "classes": ("a", "b", "c")}  # fmt: skip


def made(**changes):
    """A model whose norms, biases and tables are away from their plain beginnings."""
    torch.manual_seed(0)
    model = build(SwinConfig.model_validate(SIZES | changes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def plain_block(block, image, size, shift):
    """The block's attention and feed-forward on an image (rows, columns, dim), cell by cell."""
    rows, columns, dim = image.shape
    of = block.self_attention
    normed = block.self_norm(image)
    q = of.query(normed.view(-1, dim)).view(rows, columns, of.heads, of.head_dim)
    height, width = (-(-side // size) * size for side in (rows, columns))
    filled = F.pad(normed, (0, 0, 0, width - columns, 0, height - rows)).view(-1, dim)
    k, v = of.key_value(filled).view(height, width, 2, of.heads, of.head_dim).unbind(2)

    def window(i, end):  # windows begin `shift` rows and columns later; the first are cut off
        start = (i - shift) // size * size + shift
        return range(max(0, start), min(end, start + size))

    out = torch.zeros_like(image)
    for i in range(rows):
        for j in range(columns):
            keys = [(a, b) for a in window(i, height) for b in window(j, width)]
            offsets = [(i - a + size - 1) * (2 * size - 1) + j - b + size - 1 for a, b in keys]
            scores = torch.stack([(k[a, b] * q[i, j]).sum(-1) for a, b in keys])  # (key, head)
            scores = scores * of.head_dim**-0.5 + of.score_bias.table[offsets]
            values = torch.stack([v[a, b] for a, b in keys])  # (key, head, head_dim)
            heads = (scores.softmax(0)[..., None] * values).sum(0)
            out[i, j] = of.out(heads.flatten())
    x = image + out
    feed = block.feed_forward
    return x + feed.out(F.gelu(feed.into(block.feed_norm(x))))


@torch.no_grad()
def test_shifted_windows_and_merges_are_the_plain_ones_on_a_grid_of_17_by_23():
    model = made(depths=(2, 1), grid_window=4)
    pixels = torch.randn(1, 1, 17, 23)
    tap = Tap("encoder.*")
    model.hidden(Dense(pixels), tap)
    first, second = model.encoder.blocks[:2]
    image = tap.records["encoder.embedding"].view(17, 23, 8)
    for block, shift in ((first, 0), (second, 2)):
        image = plain_block(block, image, 4, shift)
    out = tap.records["encoder.1.residual"].view(17, 23, 8)
    torch.testing.assert_close(out, image, rtol=0, atol=1e-5)
    filled = F.pad(image, (0, 0, 0, 1, 0, 1))
    [merge] = model.encoder.merges
    merged = torch.stack([
        torch.stack([
            merge.reduction(merge.norm(torch.cat([filled[2 * i, 2 * j], filled[2 * i + 1, 2 * j],
                filled[2 * i, 2 * j + 1], filled[2 * i + 1, 2 * j + 1]])))
            for j in range(12)])
        for i in range(9)])  # fmt: skip
    after = tap.records["encoder.2.merge"].view(9, 12, 16)
    torch.testing.assert_close(after, merged, rtol=0, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("version", [{}, VERSION_2], ids=["v1", "v2"])
def test_a_tap_has_the_sites_of_every_stage_and_changes_no_bit(version):
    model = made(depths=(1, 2, 1), grid_window=3, **version)
    images = Dense(torch.randn(2, 1, 13, 10))
    tap = Tap("*")
    assert torch.equal(model(images, tap), model(images))
    assert tap.records.keys() == model.sites().keys()
    shapes = [(2, 2, 130, 9), (2, 4, 35, 9), (2, 4, 35, 9), (2, 8, 12, 9)]
    weights = [tap.records[f"encoder.{layer}.self.weights"] for layer in range(4)]
    assert [tuple(weight.shape) for weight in weights] == shapes
    assert [tap.layouts[f"encoder.{i}.self"].grid for i in (0, 1, 3)] == [(13, 10), (7, 5), (4, 3)]
    assert tap.records["encoder.1.merge"].shape == (2, 35, 16)


@pytest.mark.parametrize(
    ("size", "millions", "multiply_adds"),
    [("T", 28.3, 4.5), ("S", 49.6, 8.7), ("B", 87.8, 15.4), ("V2-T", 28.3, 5.9)],
)
def test_sizes_are_the_published_ones(size, millions, multiply_adds):
    model = meta_model(SwinConfig(size=size, classes=CLASSES))
    assert sum(parameters(model).values()) / 1e6 == pytest.approx(millions, abs=0.06)
    flops = sum(forward_flops(model, 64).values())
    assert flops / 2e9 == pytest.approx(multiply_adds, abs=0.06)


def test_a_table_of_biases_is_interpolated_for_other_windows():
    table = torch.randn(49, 3)
    torch.testing.assert_close(resized_table(table, 4), table)
    larger = resized_table(table, 7).view(13, 13, 3)  # every second offset is one of the old ones
    torch.testing.assert_close(larger[::2, ::2].flatten(0, 1), table, rtol=0, atol=1e-5)


def test_a_training_may_start_with_other_windows(tmp_path):
    trained = recipes.load("small/swin")
    before = build(trained.model)
    reader = ImageReader(height=8, width=8, channels=1, mean=(0.5,), std=(0.5,))
    folder = tmp_path / "before"
    Pipeline(before, Processor(reader), trained, "random").save(folder)
    values = {"start.folder": str(folder), "model.family": "swin", "model.grid_window": 3}
    recipe = recipes.load("tiny/digits", [f"{key}={value}" for key, value in values.items()])
    start = begin(recipe, None)
    after = build(start.recipe.model)
    start.prepare(after)
    tables = [model.encoder.blocks[0].self_attention.score_bias.table for model in (before, after)]
    torch.testing.assert_close(tables[1], resized_table(tables[0], 3))
    assert torch.equal(after.embed.projection.weight, before.embed.projection.weight)
    with pytest.raises(InputError, match=r"got \(1, 1\), expected \(2, 2\)"):
        begin(recipes.load("tiny/digits", [f"start.folder={folder}", "model.family=swin",
                                           "model.depths=[1,1]"]), None)  # fmt: skip


def test_windows_are_not_shifted_where_one_covers_the_grid():
    model = made(depths=(2, 2), grid_window=4, image=(8, 8))
    assert [model.config.encoder.shifts(*at) for at in ((0, (8, 8)), (1, (4, 4)))] == [True, False]
    assert model.config.encoder.shifts(1, (5, 9))  # of a larger image
    fixed = made(depths=(2, 2), image=(8, 8), **VERSION_2).config.encoder
    assert not fixed.shifts(1, (5, 9))
    never = made(depths=(2, 2), image=(8, 8), shifted=False).config.encoder
    assert not never.shifts(0, (8, 8))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"stage_heads": (2, 3)}, "a stage 16 wide is not a multiple of its heads 3"),
        ({"stage_heads": (2,)}, "1 stage_heads, but 2 depths"),
        ({"heads": 3}, "dim 8 is not a multiple of heads 3"),
        ({"layers": 4}, "no part of this model has layers"),
        ({"depths": (999, 999)}, "at most 1000 blocks"),
    ],
)
def test_configs_that_do_not_fit_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        SwinConfig.model_validate(SIZES | fields)


def test_an_image_of_other_channels_is_told_what_would_fit():
    with pytest.raises(InputError, match="1 x H x W of any height and width would fit"):
        made()(Dense(torch.zeros(1, 3, 8, 8)))
