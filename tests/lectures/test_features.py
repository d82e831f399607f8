"""What a CNN sees: the filters of its first layer, and what excites its channels."""

from __future__ import annotations

import pytest
import torch

from regard.data import make_scene
from regard.errors import InputError
from regard.layers import cut_patches
from regard.models import ResNetConfig, build
from regard_lectures import show
from regard_lectures.claims.layers import Reach, cnn_config, feature_maps, vit_config
from regard_lectures.figures import exciting, filters
from tests.legible import problems

RESNET = ResNetConfig.model_validate({
    "image": (32, 32), "channels": 3, "unit": "basic", "depths": (1,), "filters": (8,),
    "stem_width": 6,
})  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("scenes")
    for number in range(6):
        make_scene(0, 0, number).draw(48).save(path / f"{number}.png")
    return path


@pytest.mark.parametrize("config", [RESNET, cnn_config(3, 32), vit_config(3, 32)])
def test_the_first_filters_make_what_the_first_layer_does(config):
    model = build(config.changed(classes=("a", "b"))).eval()
    pixels = torch.rand(2, 3, 32, 32)
    weights, stride, padding = filters.first_filters(model)
    got = torch.nn.functional.conv2d(pixels, weights, stride=stride, padding=padding)
    if config is RESNET:
        expected = model.embed.stem.first.convolution(pixels)
    elif hasattr(model.embed, "projection"):
        tokens = model.embed.projection(cut_patches(pixels, 4)) - model.embed.projection.bias
        expected = tokens.transpose(1, 2).reshape(got.shape)
    else:
        convolution = model.encoder.blocks[0].convolution
        expected = convolution(pixels)
        if convolution.bias is not None:
            expected = expected - convolution.bias[:, None, None]
    assert torch.allclose(got, expected, atol=1e-5)


def test_edges_are_directed_blobs_coloured_and_random_filters_neither():
    edge = torch.linspace(-1, 1, 7).tanh().expand(3, 7, 7)
    blob = torch.tensor([1.0, -1.0, 0.0])[:, None, None].expand(3, 7, 7)
    random = torch.randn(400, 3, 7, 7, generator=torch.Generator().manual_seed(1))
    kinds = filters.kinds_of(torch.cat((torch.stack((edge, blob)), random)), 0)
    names = {kind: flags[:2] for kind, flags in kinds.items()}
    assert names == {"smooth": [True, True], "directed": [True, False], "grey": [True, False],
                     "coloured": [False, True]}  # fmt: skip
    for flags in kinds.values():
        assert 4 <= sum(flags[2:]) <= 40  # about 5% of 400


def test_answers_that_differ_are_chosen():
    wave = torch.sin(torch.linspace(0, 6, 30))
    answers = torch.stack((5 * wave, -4 * wave, wave.flip(0) ** 2)).view(3, 5, 6)
    assert filters.different(answers, 2) == [0, 2]


def test_peaks_and_fields_are_those_of_loops():
    maps = torch.randn(3, 4, 5, 6)
    layer = exciting.find_peaks("layer 1", maps, None)
    for image in range(3):
        for channel in range(4):
            row, column = layer.cells[image, channel].tolist()
            assert maps[image, channel, row, column] == maps[image, channel].max()
    picture, reach = torch.rand(3, 20, 20), Reach(side=7, stride=4, start=-3)
    for cell in ((2, 3), (0, 4)):
        field = exciting.field_of(picture, reach, cell)
        assert field.shape == (3, 7, 7)
        for row in range(7):
            y = min(max(reach.start + 4 * cell[0] + row, 0), 19)
            x = [min(max(reach.start + 4 * cell[1] + column, 0), 19) for column in range(7)]
            assert torch.equal(field[:, row], picture[:, y, x])


@pytest.mark.parametrize("stem", [False, True])
def test_before_its_layers_a_vision_transformer_sees_what_gradients_say(stem):
    model = build(vit_config(1, 32, stem=stem).changed(classes=("a", "b"))).eval()
    pixels = torch.rand(64, 1, 32, 32).requires_grad_()
    cells = next(iter(feature_maps(model, pixels).values()))[:, :, 4, 5]
    (gradient,) = torch.autograd.grad((cells * torch.randn(cells.shape)).sum(), pixels)
    seen = gradient.abs().sum((0, 1)) > 0
    reach = exciting.front_reach(model)
    for axis, cell in ((0, 4), (1, 5)):
        pixels_seen = seen.any(1 - axis).nonzero().flatten().tolist()
        assert pixels_seen == list(range(*reach.span(cell, 32)))


def test_grown_inputs_excite_more_than_the_images(folder):
    drawing = show("exciting", text=str(folder), steps=12)
    grown, peaks = drawing.numbers["grown"], drawing.numbers["peaks"]
    assert sum(one_input > peak for one_input, peak in zip(grown, peaks, strict=True)) >= 6
    assert drawing.numbers["images"] == 6
    assert problems(drawing.figure) == []


def test_an_image_of_ones_own_is_filtered_by_any_model(folder):
    drawing = show("filters", text=str(folder / "0.png"), model="small/fashion")
    assert problems(drawing.figure) == []
    assert drawing.numbers["side"] == 3
    assert "coloured" not in drawing.numbers["counts"]  # its images are grey


def test_wrong_input_says_what_is_expected(folder):
    with pytest.raises(InputError, match="a folder of 4 images or more"):
        show("exciting", text=str(folder / "0.png"))
    with pytest.raises(InputError, match="one of 1, 2, 3, 4; 0: the last"):
        show("exciting", text=str(folder), layer=9)
    with pytest.raises(InputError, match="a CNN or a ViT that reads images"):
        show("filters", model="tiny/translate")
