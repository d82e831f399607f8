"""Vision models of transformers: watched bit for bit, their patches named, maps over the image."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.errors import InputError

transformers = pytest.importorskip("transformers")
SIZES: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 24,
    "patch_size": 8,
}  # fmt: skip
NARROW = {"intermediate_size": 48}
MODELS = {
    # name: model, config, its values, and the names of the tokens before the patches
    "vit": ("ViTForImageClassification", "ViTConfig", NARROW, ["[CLS]"]),
    "deit": (
        "DeiTForImageClassificationWithTeacher", "DeiTConfig", NARROW, ["[CLS]", "[DIST]"],
    ),
    "dinov2": ("Dinov2Model", "Dinov2Config", {}, ["[CLS]"]),
    "registers": (
        "Dinov2WithRegistersModel", "Dinov2WithRegistersConfig", {"num_register_tokens": 3},
        ["[CLS]", "[REG1]", "[REG2]", "[REG3]"],
    ),
    "clip": ("CLIPVisionModel", "CLIPVisionConfig", NARROW, ["[CLS]"]),
}  # fmt: skip


def build(name: str) -> Any:
    torch.manual_seed(0)
    model, config, values, _ = MODELS[name]
    config = getattr(transformers, config)(**{**SIZES, **values})
    config._attn_implementation = "sdpa"
    vision_model = getattr(transformers, model)(config).eval()
    with torch.no_grad():
        for parameter in vision_model.parameters():
            parameter.mul_(3.0)
    return vision_model


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_the_output_stays_and_the_patches_have_names(name, tmp_path):
    model, inputs = build(name), {"pixel_values": torch.randn(2, 3, 24, 24)}
    plain = model(**inputs)[0]
    with regard.watch(model) as seen:
        assert torch.equal(model(**inputs)[0], plain)
    look = seen.look(inputs, row=1)
    before = MODELS[name][3]
    assert look.picture.grid == (3, 3)
    assert list(look.maps[0].queries[: len(before) + 2]) == [*before, "0,0", "0,1"]
    first = next(iter(seen.weights.values()))
    assert np.allclose(look.maps[0].weights, first[1].numpy(), atol=1e-6)
    choice = look.choose("rollout")
    assert choice.row == 0
    look.save(tmp_path / "map.png", "rollout")
    look.save(tmp_path / "map.html")
    with regard.watch(model, layers=[], knock_out=[(next(iter(seen.layers)), 1)]):
        assert not torch.equal(model(**inputs)[0], plain)


def test_the_processor_restores_the_colours():
    from types import SimpleNamespace

    model = build("vit")
    pixels = torch.rand(3, 24, 24)
    mean, std = [0.4, 0.5, 0.6], [0.2, 0.3, 0.25]
    values = (pixels - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    with torch.no_grad(), regard.watch(model) as seen:
        model(pixel_values=values[None])
    processor = SimpleNamespace(image_mean=mean, image_std=std)
    look = seen.look(values, processor=processor)
    assert np.allclose(look.picture.pixels, pixels, atol=1e-5)
    assert seen.look({"pixel_values": values[None]}).picture.pixels.max() == 1


@torch.no_grad()
def test_swin_is_watched_by_windows_and_not_drawn_over_the_image():
    torch.manual_seed(0)
    config = transformers.SwinConfig(
        image_size=32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4
    )
    model, values = transformers.SwinModel(config).eval(), torch.randn(1, 3, 32, 32)
    plain = model(values)[0]
    with regard.watch(model) as seen:
        assert torch.equal(model(values)[0], plain)
    weights = next(iter(seen.weights.values()))
    assert weights.shape == (4, 2, 16, 16)  # (windows, heads, query, key)
    with pytest.raises(InputError, match="the whole image"):
        seen.look(values)
