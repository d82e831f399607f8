"""Looking at Swin: windows joined into one map of the image, through shifts and merges."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.explain.images.hiding import Hiding
from regard.explain.images.patches import chosen_row, over_patches, picture_of
from regard.inputs.arrays import Dense
from regard.inputs.images.reader import ImageReader
from regard.inputs.processor import Processor
from regard.models import SwinConfig, build
from regard.pipeline import Pipeline
from regard.recipes import recipe as recipes
from tests.explain.images.photos import photo

SIZES = {"dim": 8, "heads": 2, "hidden": 12, "patch": 2, "channels": 3, "image": (26, 38),
         "depths": (2, 2), "grid_window": 4, "classes": ("a", "b", "c")}  # fmt: skip


@pytest.fixture(scope="module")
def swin():
    """A classifier of images in 13 x 19 patches, then 7 x 10 cells."""
    torch.manual_seed(0)
    model = build(SwinConfig.model_validate(SIZES)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.4 * torch.randn_like(parameter))
    processor = Processor(ImageReader(height=26, width=38))
    return Pipeline(model, processor, recipes.load("tiny/digits"), "random")


@pytest.fixture(scope="module")
def look(swin):
    return swin.look(photo())


def field_of_gradients(swin, layer, cell):
    """The patches whose pixels change a cell of a layer's output: (13, 19)."""
    from regard.layers import Edit, Tap

    images = torch.randn(1, 3, 26, 38, requires_grad=True)
    seen = []
    keep = Edit(f"encoder.{layer}.residual", lambda x: seen.append(x) or x)
    swin.model.hidden(Dense(images), Tap(edits=[keep]))
    weight = torch.randn(seen[0].shape[-1])
    [gradient] = torch.autograd.grad((seen[0][0, cell] * weight).sum(), images)
    return gradient[0].abs().sum(0).view(13, 2, 19, 2).sum((1, 3)) > 0


@pytest.mark.parametrize(
    ("layer", "cell", "grid"),
    [(0, (5, 7), (13, 19)), (1, (5, 7), (13, 19)), (1, (12, 18), (13, 19)),
     (2, (1, 2), (7, 10)), (3, (6, 9), (7, 10)), (3, (0, 4), (7, 10))],
)  # fmt: skip
def test_a_joined_map_is_zero_outside_the_field_that_gradients_measure(
    swin, look, layer, cell, grid
):
    choice = look.choose("rollout", layer=layer, word=f"{cell[0]},{cell[1]}")
    joined = over_patches(picture_of(look, choice), chosen_row(look, choice))
    assert joined.shape == (13, 19)
    assert joined.sum() == pytest.approx(1)
    field = field_of_gradients(swin, layer, cell[0] * grid[1] + cell[1])
    assert np.array_equal(joined > 0, field.numpy())
    assert not field.all()


def test_a_joined_map_is_that_of_a_plain_loop(look):
    """One patch of the last layer, followed down a head of it and the means of the others."""
    rows = np.zeros((7, 10))
    rows[2, 3] = 1
    grids = [(13, 19), (13, 19), (7, 10), (7, 10)]
    for layer in (3, 2, 1, 0):
        m = look.maps[layer]
        weights = m.weights[1] if layer == 3 else m.weights.mean(0)
        tokens = grids[layer][0] * grids[layer][1]
        if rows.size != tokens:  # a cell divides its weight among those that were merged
            finer = np.zeros((13, 19))
            for (i, j), value in np.ndenumerate(rows):
                cells = finer[2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
                cells += value / cells.size
            rows = finer
        flat = np.zeros(tokens)
        for query, value in enumerate(rows.flat):
            half = weights[query] / 2
            half[query] += 0.5
            flat += value * half / half.sum()
        rows = flat.reshape(grids[layer])
    choice = look.choose("rollout", layer=3, head=1, word="2,3")
    joined = over_patches(picture_of(look, choice), chosen_row(look, choice))
    np.testing.assert_allclose(joined, rows, atol=1e-6)


def test_joined_maps_are_tested_by_hiding_and_wrong_choices_refused(swin, look, tmp_path):
    hiding = Hiding(draws=2)
    assert look.test(look.choose("rollout"), hiding).patches == 13 * 19
    assert look.test(look.choose("maps"), hiding).patches == 7 * 10
    assert len(swin.hide_patches([photo()], kind="rollout", hiding=hiding).tests) == 1
    with pytest.raises(InputError, match="draw a picture"):
        look.save(tmp_path / "map.html", "rollout", hiding=False)
    with pytest.raises(InputError, match="--head"):
        look.choose("rollout", layer=0, head=3)


@pytest.mark.slow
def test_maps_of_stages_are_drawn(look, tmp_path):
    choice = look.choose("rollout", layer=3, word="2,3", head=1)
    assert choice.name == "attention rollout, encoder layers 0-3 (self), head 1 of the last"
    assert look.save_choice(tmp_path / "map.png", choice).stat().st_size > 1000
    assert look.save(tmp_path / "maps.png", "maps", hiding=False).stat().st_size > 1000
    assert "layer 3" in look.save(tmp_path / "map.html", layer=3, hiding=False).read_text()
