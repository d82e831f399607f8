"""DeiT, DINOv2, ResNet, timm and vit-pytorch: in with the same logits, and out again."""

from __future__ import annotations

import gzip
import json
import os
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import load_file, save_file

from regard.errors import InputError
from regard.hub.images import FILE, read_reader, write_reader
from regard.inputs.arrays import Dense
from regard.inputs.images.reader import ImageReader
from regard.inputs.text import Processor
from regard.models import ViTConfig, build
from regard.pipeline import Pipeline
from regard.recipes import recipe as recipes
from regard.runs.load import import_model, load
from tests.commands import is_refused

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]
SHARED = Path(os.environ.get("REGARD_DATA", "../shared/data")).absolute()
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 48, "image_size": 24, "patch_size": 8}  # fmt: skip
LABELS = {"id2label": {0: "cat", 1: "dog", 2: "cow"}, "label2id": {"cat": 0, "dog": 1, "cow": 2}}
RESNET = {"embedding_size": 8, "hidden_sizes": [8, 16, 32], "depths": [1, 2, 1]}
TIMM = {"layers": 2, "dim": 128, "heads": 2, "hidden": 96, "image": (24, 24), "patch": 8,
        "dropout": 0.0, "final_norm": True}  # fmt: skip
NAMES = ("deit-teacher", "deit", "deit-model", "vit-model", "vit-no-bias", "dinov2",
         "dinov2-classes", "resnet-basic", "resnet-bottleneck")  # fmt: skip


def made(name):
    """A model of theirs with weights away from their plain beginnings."""
    import transformers as t

    torch.manual_seed(0)
    deit = t.DeiTConfig(**SIZES, **LABELS)
    dino = t.Dinov2Config(**SIZES, **LABELS, layerscale_value=0.7)
    bare = t.ViTConfig(**SIZES, **LABELS, qkv_bias=False)
    basic = t.ResNetConfig(**RESNET, **LABELS, layer_type="basic", downsample_in_first_stage=True)
    model = {
        "deit-teacher": lambda: t.DeiTForImageClassificationWithTeacher(deit),
        "deit": lambda: t.DeiTForImageClassification(deit),
        "deit-model": lambda: t.DeiTModel(deit),
        "vit-model": lambda: t.ViTModel(t.ViTConfig(**SIZES)),
        "vit-no-bias": lambda: t.ViTForImageClassification(bare),
        "dinov2": lambda: t.Dinov2Model(dino),
        "dinov2-classes": lambda: t.Dinov2ForImageClassification(dino),
        "resnet-basic": lambda: t.ResNetForImageClassification(basic),
        "resnet-bottleneck": lambda: t.ResNetForImageClassification(
            t.ResNetConfig(**RESNET, **LABELS, layer_type="bottleneck")
        ),
    }[name]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        for key, statistic in model.named_buffers():
            if "running" in key:
                statistic.add_(0.3 * torch.rand_like(statistic))
            elif "tracked" in key:
                statistic.fill_(7)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_theirs_go_in_and_out_with_the_same_outputs(name, tmp_path):
    theirs = made(name)
    theirs.save_pretrained(tmp_path / "theirs")
    ours = load(tmp_path / "theirs")
    pixels = torch.randn(3, 3, 24, 24)
    expected = theirs(pixels)
    if "logits" in expected:
        torch.testing.assert_close(ours.logits(pixels), expected.logits, rtol=0, atol=1e-4)
        assert ours.model.config.classes == ("cat", "dog", "cow")
    else:
        hidden = ours.model.hidden(Dense(pixels))
        last = expected.last_hidden_state.flatten(0, 1)
        torch.testing.assert_close(hidden, last, rtol=0, atol=1e-4)
        if ours.model.config.pooling_layer:
            pooled = ours.model.pooled(Dense(pixels), hidden)
            torch.testing.assert_close(pooled, expected.pooler_output, rtol=0, atol=1e-4)
    ours.export(tmp_path / "again")
    before = load_file(tmp_path / "theirs" / "model.safetensors")
    before = {key: tensor for key, tensor in before.items() if not key.endswith("mask_token")}
    after = load_file(tmp_path / "again" / "model.safetensors")
    if before.keys() != after.keys():  # a model without a head is written with its prefix
        after = {key.partition(".")[2]: tensor for key, tensor in after.items()}
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    again = type(theirs).from_pretrained(tmp_path / "again").eval()
    torch.testing.assert_close(again(pixels)[0], expected[0], rtol=0, atol=1e-5)


@pytest.mark.slow
@torch.no_grad()
def test_positions_are_interpolated_as_theirs_are(tmp_path):
    pixels = torch.randn(2, 3, 40, 32)
    for name in ("vit-no-bias", "deit-teacher", "dinov2-classes"):
        theirs = made(name)
        theirs.save_pretrained(tmp_path / name)
        how = {} if name.startswith("dino") else {"interpolate_pos_encoding": True}
        logits = load(tmp_path / name).model(Dense(pixels))
        torch.testing.assert_close(logits, theirs(pixels, **how).logits, rtol=0, atol=1e-4)


PROCESSORS = {
    "vit": ("ViT", {"size": {"height": 24, "width": 24}, "resample": 3}),
    "deit": ("DeiT", {"size": {"height": 29, "width": 31}, "crop_size": 24}),
    "deit-larger": ("DeiT", {"size": {"height": 17, "width": 40}, "crop_size": 24}),
    "bit": ("Bit", {"size": {"shortest_edge": 27}, "crop_size": 24}),
    "bit-small": ("Bit", {"size": {"shortest_edge": 21}, "crop_size": 24}),
    "convnext": ("ConvNext", {"size": {"shortest_edge": 24}, "crop_pct": 0.8}),
    "convnext-large": ("ConvNext", {"size": {"shortest_edge": 384}}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROCESSORS)
def test_images_are_prepared_as_theirs_are(name, tmp_path):
    kind, settings = PROCESSORS[name]
    module = kind.lower()
    home = import_module(f"transformers.models.{module}.image_processing_pil_{module}")
    processor = getattr(home, f"{kind}ImageProcessorPil")(**settings)
    processor.save_pretrained(tmp_path)
    side = 384 if name == "convnext-large" else 24
    config = ViTConfig(size="nano", image=(side, side), patch=8)
    reader = read_reader(tmp_path, config).source
    (tmp_path / "again").mkdir()
    write_reader(reader, tmp_path / "again")
    assert read_reader(tmp_path / "again", config).source == reader
    random = np.random.default_rng(0)
    for height, width in ((50, 37), (37, 51), (24, 24), (25, 23), (300, 26), (11, 64), (29, 31)):
        image = Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8))
        expected = processor(image, return_tensors="pt")["pixel_values"]
        values = reader.collate(reader.read([image])).values
        torch.testing.assert_close(values, expected, rtol=0, atol=1e-5)


def saved(model, reader, folder):
    recipe = recipes.load("tiny/digits").model_copy(update={"model": model.config})
    Pipeline(model, Processor(reader), recipe).save(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"distillation": "head"},
        {"pool": "mean", "final_norm": False, "pooled_norm": True},
        {"layer_scale": 1e-5, "attention_bias": "out"},
        {"class_token": False, "pool": "mean"},
    ],
    ids=["plain", "distilled", "mean", "scaled", "patches-alone"],
)
@torch.no_grad()
def test_timms_folders_go_in_and_out(changes, tmp_path, regard):
    """`benchmarks/images.py` compares with what timm itself computes, where timm is installed."""
    config = ViTConfig.model_validate(TIMM | {"classes": ("cat", "dog", "cow")} | changes)
    model = build(config).eval()
    reader = ImageReader(height=24, width=24, resize=27, resample="bicubic", mean=(0.4, 0.5, 0.6))
    saved(model, reader, tmp_path / "ours")
    assert regard("export", "ours", "-o", "timm", "--to", "timm").code == 0
    their = json.loads((tmp_path / "timm" / "config.json").read_text())
    assert their["pretrained_cfg"]["interpolation"] == "bicubic"
    again = load(tmp_path / "timm")
    assert again.processor.source == reader
    assert again.model.config == config
    state = again.model.state_dict()
    assert all(torch.equal(state[key], tensor) for key, tensor in model.state_dict().items())


@torch.no_grad()
def test_weights_of_timm_alone_are_a_model(tmp_path, regard):
    model = build(ViTConfig(**TIMM, classes=("0", "1", "2"))).eval()
    saved(model, ImageReader(height=24, width=24), tmp_path / "ours")
    assert regard("export", "ours", "-o", "timm", "--to", "timm").code == 0
    assert regard("import", "timm/model.safetensors", "-o", "again", "--mean", "0,0,0").code == 0
    again = load(tmp_path / "again")
    assert again.processor.source.mean == (0, 0, 0)
    pixels = torch.randn(2, 3, 24, 24)
    torch.testing.assert_close(again.logits(pixels), model(Dense(pixels)), rtol=0, atol=1e-6)


def test_other_weights_alone_are_refused(tmp_path, regard):
    save_file({"a": torch.zeros(2)}, tmp_path / "a.safetensors")
    refused = regard("import", "a.safetensors", "-o", "x")
    is_refused(refused, "do not say what model", "save_pretrained")
    is_refused(regard("import", "a.safetensors", "-o", "x", "--mean", "half"), "--mean", "numbers")


def vit_pytorch(x, weights, heads):
    """The forward pass of early vit-pytorch, as plain products."""

    def linear(x, name):
        return F.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))

    def normed(x, name):
        return F.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"])

    patch = int((weights["patch_to_embedding.weight"].shape[1] // x.shape[1]) ** 0.5)
    n, c, h, w = x.shape
    x = x.view(n, c, h // patch, patch, w // patch, patch).permute(0, 2, 4, 3, 5, 1)
    x = linear(x.reshape(n, -1, patch * patch * c), "patch_to_embedding")
    x = torch.cat((weights["cls_token"].expand(n, -1, -1), x), 1) + weights["pos_embedding"]
    dim = x.shape[-1]
    for layer in range(2):
        before = f"transformer.layers.{layer}."
        qkv = linear(normed(x, f"{before}0.fn.norm"), f"{before}0.fn.fn.to_qkv").chunk(3, -1)
        q, k, v = (part.view(n, -1, heads, dim // heads).transpose(1, 2) for part in qkv)
        weighed = ((q @ k.mT) * dim**-0.5).softmax(-1) @ v
        x = x + linear(weighed.transpose(1, 2).reshape(n, -1, dim), f"{before}0.fn.fn.to_out")
        inner = F.gelu(linear(normed(x, f"{before}1.fn.norm"), f"{before}1.fn.fn.net.0"))
        x = x + linear(inner, f"{before}1.fn.fn.net.2")
    return linear(F.gelu(linear(x[:, 0], "mlp_head.0")), "mlp_head.2")


@pytest.mark.parametrize("channels", [1, 3])
def test_vit_pytorch_is_read_with_its_quirks(channels, tmp_path, regard):
    torch.manual_seed(0)
    dim, shapes = 16, {"pos_embedding": (1, 5, 16), "cls_token": (1, 1, 16)}
    linears = {"patch_to_embedding": (dim, channels * 9), "mlp_head.0": (20, dim),
               "mlp_head.2": (4, 20)}  # fmt: skip
    for layer in range(2):
        before = f"transformer.layers.{layer}."
        shapes[f"{before}0.fn.fn.to_qkv.weight"] = (3 * dim, dim)
        linears |= {f"{before}0.fn.fn.to_out": (dim, dim), f"{before}1.fn.fn.net.0": (24, dim),
                    f"{before}1.fn.fn.net.2": (dim, 24)}  # fmt: skip
        for name in (f"{before}0.fn.norm", f"{before}1.fn.norm"):
            shapes |= {f"{name}.weight": (dim,), f"{name}.bias": (dim,)}
    for name, shape in linears.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    weights = {name: 0.5 * torch.randn(shape) for name, shape in shapes.items()}
    torch.save(weights, tmp_path / "vit.pth")
    assert regard("import", "vit.pth", "-o", "ours", "--heads", "4").code == 0
    images = torch.randn(3, channels, 6, 6)
    expected = vit_pytorch(images, weights, heads=4)
    torch.testing.assert_close(load(tmp_path / "ours").logits(images), expected, rtol=0, atol=1e-4)
    is_refused(regard("import", "vit.pth", "-o", "other", "--heads", "3"), "--heads", "divides 16")


def idx(file):
    """The array of a gzipped IDX file."""
    data = gzip.decompress(file.read_bytes())
    count = data[3]
    shape = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i]) for i in range(count)]
    return np.frombuffer(data, np.uint8, offset=4 + 4 * count).reshape(shape)


@pytest.mark.slow
def test_a_real_checkpoint_of_vit_pytorch_reads_mnist():
    folder = SHARED / "weights" / "vit-mnist"
    if not (folder / "vit_mnist.pth").is_file() or not (SHARED / "mnist").is_dir():
        pytest.skip("../shared/data has no weights/vit-mnist or no mnist")
    mnist = import_model(folder / "vit_mnist.pth", heads=8, mean=(0.1307,), std=(0.3081,))
    golden = np.load(folder / "golden.npz")
    images = idx(SHARED / "mnist" / "t10k-images-idx3-ubyte.gz")[:2000]
    labels = idx(SHARED / "mnist" / "t10k-labels-idx1-ubyte.gz")[:2000]
    assert labels[:16].tolist() == golden["labels"].tolist()
    reader = mnist.processor.source
    pixels = reader.collate(reader.read(list(images[:16]))).values
    logits = mnist.logits(pixels).numpy()
    np.testing.assert_allclose(logits, golden["logits_first16"], rtol=0, atol=1e-4)
    classes = [best.label for best, *_ in mnist.classify(list(images), top=1)]
    right = sum(int(name) == label for name, label in zip(classes, labels.tolist(), strict=True))
    assert 100 * right / 2000 == pytest.approx(97.15)


def test_an_older_reader_has_no_resize():
    spec = {"reader": "images", "height": 8, "width": 8, "channels": 1, "mean": [0.5], "std": [0.5]}
    assert ImageReader.from_spec(spec).resize is None
    with pytest.raises(InputError, match="resize"):
        ImageReader.from_spec(spec | {"resize": 0})


def test_their_file_without_a_crop_size_is_refused(tmp_path):
    (tmp_path / FILE).write_text(json.dumps({"do_center_crop": True}))
    with pytest.raises(InputError, match="do_center_crop"):
        read_reader(tmp_path, ViTConfig(size="nano", image=(24, 24), patch=8))
