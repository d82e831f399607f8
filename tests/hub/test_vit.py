"""ViTs of transformers, with random weights, go in and out with the same logits."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image

from regard.errors import InputError
from regard.hub.images import FILE
from regard.runs.load import load
from tests.commands import is_refused

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.slow,
]
MEAN, STD = [0.4, 0.5, 0.6], [0.2, 0.3, 0.25]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """A folder of theirs, and the model."""
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        image_size=24, patch_size=8, num_labels=3, id2label={0: "cat", 1: "dog", 2: "cow"},
        label2id={"cat": 0, "dog": 1, "cow": 2},
    )  # fmt: skip
    model = ViTForImageClassification(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    folder = tmp_path_factory.mktemp("theirs") / "vit"
    model.save_pretrained(folder)
    said = {"do_resize": True, "size": {"height": 24, "width": 24}, "resample": 3,
            "image_mean": MEAN, "image_std": STD}  # fmt: skip
    (folder / FILE).write_text(json.dumps(said))
    return folder, model


def test_a_folder_of_theirs_gives_their_logits(theirs):
    folder, model = theirs
    ours = load(folder)
    assert (ours.recipe.task, ours.model.config.classes) == ("classify", ("cat", "dog", "cow"))
    pixels = torch.randn(3, 3, 24, 24)
    with torch.no_grad():
        expected = model(pixels).logits
    torch.testing.assert_close(ours.logits(pixels), expected, rtol=0, atol=1e-4)


def test_images_are_prepared_as_theirs_are(theirs):
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    folder, _ = theirs
    processor = ViTImageProcessorPil.from_pretrained(folder)
    random = np.random.default_rng(0)
    image = Image.fromarray(random.integers(0, 256, (50, 37, 3), dtype=np.uint8))
    expected = processor(image, return_tensors="pt")["pixel_values"]
    reader = load(folder).processor.source
    values = reader.collate(reader.read([image])).values
    torch.testing.assert_close(values, expected, rtol=0, atol=1e-5)


def test_it_goes_back_out_with_the_same_logits(theirs, tmp_path, regard):
    from transformers import ViTForImageClassification

    folder, model = theirs
    assert regard("import", str(folder), "-o", "ours").code == 0
    assert regard("export", "ours", "-o", "again", "--to", "hf").code == 0
    again = ViTForImageClassification.from_pretrained(tmp_path / "again").eval()
    pixels = torch.randn(2, 3, 24, 24)
    with torch.no_grad():
        torch.testing.assert_close(again(pixels).logits, model(pixels).logits, rtol=0, atol=1e-5)
    assert again.config.id2label == {0: "cat", 1: "dog", 2: "cow"}
    assert load(tmp_path / "again").processor == load(folder).processor
    Image.new("RGB", (30, 30), "red").save(tmp_path / "red.png")
    first = regard("classify", "ours", "red.png", "--json").out
    assert json.loads(first) == json.loads(regard("classify", "again", "red.png", "--json").out)


def test_our_digits_are_a_model_of_theirs(digits_run, tmp_path):
    from transformers import ViTForImageClassification

    ours = load(digits_run)
    ours.export(tmp_path / "out")
    theirs = ViTForImageClassification.from_pretrained(tmp_path / "out").eval()
    pixels = torch.randn(4, 1, 8, 8)
    with torch.no_grad():
        expected = theirs(pixels).logits
    torch.testing.assert_close(ours.logits(pixels), expected, rtol=0, atol=1e-4)
    assert load(tmp_path / "out").processor == ours.processor  # ink is found there, too


def test_what_they_do_and_we_do_not_is_refused(theirs, tmp_path, regard):
    folder, _ = theirs
    for change, words in {
        "do_center_crop": ("do_center_crop",),
        "shortest_edge": ("size", "height and width"),
        "other_size": ("3 x 32 x 32", "3 x 24 x 24, as the model reads"),
        "mean": ("mean",),
    }.items():
        said = json.loads((folder / FILE).read_text())
        if change == "do_center_crop":
            said["do_center_crop"] = True
        elif change == "shortest_edge":
            said["size"] = {"shortest_edge": 24}
        elif change == "other_size":
            said["size"] = {"height": 32, "width": 32}
        else:
            said["image_mean"] = [0.5]
        copy = tmp_path / change
        copy.mkdir()
        for name in ("config.json", "model.safetensors"):
            (copy / name).write_bytes((folder / name).read_bytes())
        (copy / FILE).write_text(json.dumps(said))
        is_refused(regard("classify", change, "x.png"), *words)


def test_a_mean_of_patches_has_no_name_there(tmp_path):
    from regard.models import ViTConfig, build
    from regard.pipeline import Pipeline

    model = build(ViTConfig(size="nano", image=(8, 8), patch=4, pool="mean", classes=("a", "b")))
    recipe = load_recipe()
    with pytest.raises(
        InputError, match=r"a vit with model\.pool=mean, .*\n.*model\.pool=first .*--to timm"
    ):
        Pipeline(model, None, recipe).export(tmp_path / "out")


def load_recipe():
    from regard.recipes import recipe as recipes

    return recipes.load("tiny/digits")
