"""What every family that reads images must hold, in every variation."""

from __future__ import annotations

import json
import math

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load, save

from regard.errors import InputError
from regard.inputs.arrays import Dense
from regard.kernels import int8
from regard.layers import Edit, Tap, knock_out
from regard.layers.grid_config import ANY_SIZE
from regard.layers.tap.without_head import without_head
from regard.models import FAMILIES, build, describe, rebuild
from regard.models.families.swin import VERSION_2
from regard.models.quantise import quantise
from regard.train.optim import Adam

CLASSES = ("a", "b", "c")
SIZES = {"dim": 16, "heads": 4, "hidden": 24, "layers": 2, "dropout": 0.1, "image": (4, 6),
         "patch": 2, "channels": 1, "classes": CLASSES}  # fmt: skip
OTHER_SIZES = {
    "cnn": {"image": (14, 18), "channels": 1, "filters": (6, 8), "kernel": 3, "dense": (16, 12),
            "classes": CLASSES, "dropout": 0.1},
    "resnet": {"image": (32, 48), "channels": 1, "depths": (1, 2), "filters": (8, 12),
               "stem_width": 8, "classes": CLASSES, "dropout": 0.1},
    "swin": {"image": (11, 15), "patch": 2, "channels": 1, "dim": 8, "heads": 2, "hidden": 12,
             "depths": (1, 2), "classes": CLASSES, "dropout": 0.1},
}  # fmt: skip
VARIANTS = {
    "vit": {
        "plain": {},
        "mean": {"pool": "mean"},
        "no_class_token": {"pool": "mean", "class_token": False},
        "colour": {"channels": 3, "image": (8, 4), "patch": 4},
        "rotary-rms": {"positions": "rotary", "norm": "rms", "activation": "gated_silu"},
        "post": {"norm_place": "post", "positions": "sinusoidal"},
        "windows": {"class_token": False, "pool": "mean", "grid_window": 2, "grid_bias": "table"},
        "distilled": {"distillation": "head", "positions": "sinusoidal_2d"},
        "distillation-token": {"distillation": "token", "pool": "mean", "pooled_norm": True},
        "stem": {"stem": "convolution", "stem_width": 5, "pool": "attention", "patch": 2,
                 "class_token": False, "attention_bias": "out"},
        "scaled": {"layer_scale": 0.5, "head_hidden": 9, "pooling_layer": True, "drop_path": 0.1},
    },
    "cnn": {"plain": {}, "colour": {"channels": 3, "filters": (4,)}},
    "resnet": {
        "bottleneck": {},
        "basic": {"block": "basic", "channels": 3, "stride_first": True},
        "stride-in-first": {"stride_in_first": True},
        "attention": {"depths": (1, 1, 1), "filters": (8, 12, 16), "stage_attention": {"heads": 4}},
        "attention-last": {
            "unit": "basic", "stage_attention": {"after": [1], "heads": 3, "positions": "none"}
        },
    },
    "swin": {
        "plain": {"grid_window": 2},
        "masked": {"grid_window": 3, "window_padding": "masked", "channels": 3, "drop_path": 0.1},
        "v2": VERSION_2 | {"grid_window": 2},
        "everywhere": {"encoder": {"block": ("attention", "feed_forward")}, "heads": 4},
    },
}  # fmt: skip
MODELS = [(family, name) for family, names in VARIANTS.items() for name in names]
WRITERS = {"captioner"}
"""Families that write about images: tests/models/test_captioner.py."""


def test_every_family_of_images_is_under_contract():
    of_images = {name for name, family in FAMILIES.items() if family.config.reads == "images"}
    assert set(VARIANTS) | WRITERS == of_images


@pytest.fixture(params=MODELS, ids="-".join)
def model(request):
    """A model whose norms, biases and tables are away from their plain beginnings too."""
    family, name = request.param
    sizes = OTHER_SIZES.get(family, SIZES)
    config = FAMILIES[family].config.model_validate(sizes | VARIANTS[family][name])
    built = build(config).eval()
    with torch.no_grad():
        for parameter in built.parameters():
            large = family in ("vit", "swin")
            parameter.add_((0.2 if large else 0.05) * torch.randn_like(parameter))
        for name, statistic in built.named_buffers():
            if "running" in name:
                statistic.add_(0.2 * torch.rand_like(statistic))
    return built


@pytest.fixture
def images(model):
    shape = (model.config.channels, *model.config.image)
    return Dense(torch.randn(5, *shape, generator=torch.Generator().manual_seed(1)))


def tokens_of(config):
    """The number of vectors of an image: tokens, or places of a CNN's last map."""
    return config.encoder.grid[0] * config.encoder.grid[1] + config.encoder.front.tokens_before


def close(actual, expected, atol=1e-5):
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


@torch.no_grad()
def test_a_batch_is_its_images_one_by_one(model, images):
    together, hidden = model(images), model.hidden(images)
    assert together.shape == (5, len(CLASSES))
    tokens = tokens_of(model.config)
    assert hidden.shape == (5 * tokens, model.config.dim)
    for i in range(5):
        single = images.take([i])
        close(model(single)[0], together[i])
        close(model.hidden(single), hidden.split(tokens)[i])


@torch.no_grad()
def test_every_pixel_matters_to_its_own_image_alone(model, images):
    before = model(images)
    for down, right in ((0, 0), (3, 1), (model.config.image[0] - 1, model.config.image[1] - 1)):
        values = images.values.clone()
        values[2, :, down, right] += 1
        after = model(Dense(values))
        close(after[[0, 1, 3, 4]], before[[0, 1, 3, 4]])
        if model.config.family != "cnn":  # its max-pooling may take another pixel
            assert (after[2] - before[2]).abs().max() > 1e-4


def test_the_layout_is_known_beforehand_and_is_what_is_read(model, images):
    layout = model.embed.layout(images)
    config = model.config
    assert (layout.grid, layout.prefix) == (config.encoder.grid, config.encoder.front.tokens_before)
    assert layout.lengths == (tokens_of(config),) * 5
    assert sum(layout.lengths) == len(model.hidden(images))


def test_images_of_a_size_that_does_not_fit_are_refused(model):
    height, width = model.config.image
    other = Dense(torch.zeros(2, 4 - model.config.channels, height, width))
    with pytest.raises(InputError, match="channels, height, width"):
        model(other)
    wrong = Dense(torch.zeros(2, model.config.channels, height, width + 1))
    patch = getattr(model.config, "patch", 0)
    if model.config.family in ("resnet", "swin"):
        assert model(wrong).shape == (2, len(CLASSES))
        return
    with pytest.raises(InputError, match="channels, height, width") as refused:
        model(wrong)
    if patch and model.config.positions.kind in ANY_SIZE:
        assert f"multiples of {patch}: {height} x " in str(refused.value)
    if patch and model.config.positions.kind not in ANY_SIZE:  # rotary and plain sinusoids
        larger = Dense(torch.zeros(2, model.config.channels, height, width + patch))
        with pytest.raises(InputError, match="channels, height, width"):
            model(larger)


@torch.no_grad()
def test_images_of_other_sizes_have_their_own_positions(model):
    """Of any whole number of patches, one by one as in a batch."""
    config = model.config
    if config.family == "cnn" or (config.family == "vit" and config.positions.kind not in ANY_SIZE):
        pytest.skip("it reads images of one size")
    by = getattr(config, "patch", 7)
    height, width = config.image[0] + 2 * by, config.image[1] + by
    images = Dense(torch.randn(3, config.channels, height, width))
    together = model(images)
    for i in range(3):
        close(model(images.take([i]))[0], together[i])
    values = images.values.clone()
    values[1, :, -1, -1] += 2
    after = model(Dense(values))
    close(after[[0, 2]], together[[0, 2]])
    assert (after[1] - together[1]).abs().max() > 1e-4


@torch.no_grad()
def test_a_tap_on_everything_leaves_the_output_bit_identical(model, images):
    tap = Tap("*")
    assert torch.equal(model(images, tap), model(images))
    assert set(tap.records) == set(model.sites())
    if getattr(model.config, "grid_window", 1) is None:
        weights = tap.records["encoder.0.self.weights"]
        assert weights.shape == (5, 4, model.config.max_length, model.config.max_length)
        close(weights.sum(-1), torch.ones(weights.shape[:3]))


@torch.no_grad()
def test_edits_act(model, images):
    plain = model(images)
    if model.heads():
        gone = model(images, Tap(edits=[knock_out("encoder.1.self.2")]))
        assert not torch.allclose(gone, plain)
        close(without_head(model, ["encoder.1.self.2"])(images), gone)
    scaled = Edit("encoder.0.residual", lambda x: x * torch.arange(x.shape[-1]))
    assert not torch.allclose(model(images, Tap(edits=[scaled])), plain)


@torch.no_grad()
def test_what_describe_says_builds_the_same_model_again(model, images):
    again = rebuild(json.loads(json.dumps(describe(model)))).eval()
    assert again.config == model.config
    again.load_state_dict(load(save(model.state_dict())))
    assert torch.equal(again(images), model(images))


def test_dropout_is_off_in_eval_and_on_in_training(model, images):
    assert torch.equal(model(images), model(images))
    model.train()
    assert not torch.equal(model(images), model(images))


def test_the_loss_of_one_batch_falls_and_every_weight_takes_part(model, images):
    model.train()
    wanted = torch.tensor([0, 1, 2, 0, 1])
    optimizer = Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        loss = F.cross_entropy(model(images), wanted)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        if losses[-1] < 0.5 * losses[0]:
            break
        optimizer.step()
    assert losses[-1] < 0.7 * losses[0]
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


@pytest.mark.parametrize("name", ["plain", "mean"])
@torch.no_grad()
def test_the_first_loss_is_about_that_of_an_even_guess(name):
    fields = SIZES | VARIANTS["vit"][name] | {"dim": 64, "hidden": 128}
    fresh = build(FAMILIES["vit"].config.model_validate(fields)).eval()
    images = Dense(torch.randn(30, 1, 4, 6))
    loss = F.cross_entropy(fresh(images), torch.arange(30) % 3).item()
    assert loss == pytest.approx(math.log(3), abs=0.5)


@pytest.mark.skipif(
    int8.ENGINE not in torch.backends.quantized.supported_engines, reason="needs x86 with AVX2"
)
@torch.no_grad()
def test_a_twin_in_8_bits_is_near_and_does_not_mix_the_images_of_a_batch(model, images):
    twin = quantise(model)
    exact, together = model(images), twin(images)
    assert (together - exact).norm() < 0.2 * exact.norm()
    for i in range(5):
        close(twin(images.take([i]))[0], together[i], atol=0.05 * exact.std().item())


def test_parameters_have_the_names_that_checkpoints_hold():
    model = build(FAMILIES["vit"].config.model_validate(SIZES | {"layers": 1}))
    block = [
        f"{part}.{kind}"
        for part in ("self_attention.query", "self_attention.key_value", "self_attention.out",
                     "self_norm", "feed_forward.into", "feed_forward.out", "feed_norm")
        for kind in ("weight", "bias")
    ]  # fmt: skip
    golden = [
        "embed.first",
        "embed.projection.weight",
        "embed.projection.bias",
        "encoder.positions.table",
        *(f"encoder.blocks.0.{name}" for name in block),
        "encoder.final_norm.weight",
        "encoder.final_norm.bias",
        "classes.weight",
        "classes.bias",
    ]
    assert sorted(model.state_dict()) == sorted(golden)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"patch": 5}, "no whole patches of 5; 5 x 5 would fit"),
        ({"patch": 3, "stem": "convolution", "image": (6, 6)}, "a patch of 2, 4, 8"),
        ({"distillation": "head", "pool": "mean"}, "needs pool: first"),
        ({"positions": "sinusoidal_2d", "dim": 6, "heads": 1}, "needs dim / 4 whole"),
        ({"class_token": False}, "pool: first needs class_token"),
        ({"max_length": 9}, "no part of this model has max_length"),
    ],
)
def test_configs_that_do_not_fit_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        FAMILIES["vit"].config.model_validate(SIZES | fields)
