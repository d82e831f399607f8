"""Shifted images and shifted maps, and the figure that compares them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.data import make_scene
from regard.errors import InputError
from regard.models import build
from regard_lectures import show
from regard_lectures.claims.layers import cnn_config, vit_config
from regard_lectures.figures import equivariance
from tests.legible import problems


def test_a_map_is_moved_as_numpy_interpolates():
    maps = torch.randn(2, 3, 4, 9, dtype=torch.float64)
    for cells in (0.25, 0.5, 1, 2.75):
        moved = equivariance.shift_maps(maps, cells)
        columns = np.arange(int(np.ceil(cells)), 9)
        assert moved.shape[-1] == len(columns)
        line = np.interp(columns - cells, np.arange(9), maps[1, 2, 3].numpy())
        assert np.allclose(moved[1, 2, 3].numpy(), line)


def test_an_image_is_moved_both_ways():
    image = torch.arange(5.0).expand(1, 1, 5, 5)
    assert equivariance.shift_images(image, 2)[0, 0, 0].tolist() == [0, 0, 0, 1, 2]
    assert equivariance.shift_images(image, -2)[0, 0, 0].tolist() == [2, 3, 4, 4, 4]


def test_unrelated_maps_and_vectors_are_off_by_100_percent():
    torch.manual_seed(0)
    first, second = torch.randn(2, 20, 8, 10, 10)
    assert equivariance.map_error(first, second, 0.0) == pytest.approx(100, abs=3)
    assert equivariance.map_error(first, first, 0.0) == 0
    p, q = torch.randn(2, 400, 30)
    assert equivariance.pooled_change(p, q, p) == pytest.approx(100, abs=3)
    assert equivariance.pooled_change(p, p, p) == 0


def test_convolutions_without_padding_are_equivariant_for_whole_strides_and_attention_is_not():
    torch.manual_seed(0)
    pixels = 2 * torch.rand(4, 1, 48, 48) - 1
    whole = {}
    for kind, config in (("CNN", cnn_config(1, 48)), ("ViT", vit_config(1, 48))):
        model = build(config.changed(classes=("a", "b"))).eval()
        result = equivariance.measure_model(model, pixels, pixels)
        assert result["shifts"] == list(range(1, 9))
        whole[kind] = dict(zip(result["layers"], result["whole"], strict=True))
    assert list(whole["CNN"]) == ["layer 1", "layer 2", "layer 3"]
    assert max(whole["CNN"].values()) < 0.1
    assert min(whole["ViT"].values()) > 1


@pytest.mark.slow
def test_an_image_and_a_model_of_ones_own(tmp_path):
    image = tmp_path / "photo.png"
    make_scene(0, 0, 99, most=3).draw(80).save(image)
    drawing = show("equivariance", text=str(image), model="small/caption")
    assert problems(drawing.figure) == []
    assert "verdict" not in drawing.numbers
    assert "small/caption: maps off by" in drawing.title


def test_wrong_data_says_what_is_expected(tmp_path):
    with pytest.raises(InputError, match="a folder or file of images with classes"):
        show("equivariance", data=str(tmp_path / "none"), steps=1)
