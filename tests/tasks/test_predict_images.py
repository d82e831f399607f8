"""Numbers of images: the head of lecture D0, a model that learns drawn tissue, and its commands."""

from __future__ import annotations

import csv
import json
import logging

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import regard as package
from regard.data.batch import Cursor
from regard.data.config import TissueData
from regard.data.images.labelled_images import LabelledImages
from regard.data.synthetic.tissue import tissue_splits
from regard.errors import InputError
from regard.inputs.arrays import Dense
from regard.models.families.images import ClassHead
from regard.models.families.resnet import FAMILY, ResNetConfig
from regard.models.meta_model import meta_model
from regard.models.numbers_head import make_numbers_head
from regard.recipes import recipe as recipes
from regard.tasks.predict_images import PredictImages, in_order
from tests.commands import is_refused

GENES = FAMILY.named["resnet-50-genes"].model
DATA = {"pairs": 320, "held_out": 60, "genes": 3}
SETTINGS = {
    "data": DATA,
    "model": {"image": [40, 40], "depths": [1, 1], "filters": [16, 32], "widths": [24]},
    "train": {
        "steps": 150, "batch_tokens": 2048, "learning_rate": 5e-3, "warmup": 10, "ema": 0.9,
        "evaluate_every": 150,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a small model that was trained on drawn tissue for some seconds."""
    folder = tmp_path_factory.mktemp("tissue") / "run"
    package.train("small/tissue", folder, quiet=True, threads=1, **SETTINGS)
    return folder


@pytest.fixture(scope="module")
def pipeline(run):
    return package.load(run, device="cpu")


def unseen(pipeline, count=80):
    """Tissue of another seed, at the model's size."""
    data = TissueData(pairs=1, held_out=count, genes=3, seed=1)
    return tissue_splits(data, pipeline.processor.source).tests["test"]


@pytest.fixture
def files(tmp_path):
    """A table with two numbers of four images beside it, in the folder where commands run."""
    images = []
    for number in range(4):
        pixels = np.random.default_rng(number).integers(0, 256, (20, 20, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
        images.append(f"{number}.png")
    return images


def write_table(path, names, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names, *rows])


def test_resnet_50_with_the_head_of_the_lecture_has_the_parameters_of_the_sum_by_hand():
    model = meta_model(ResNetConfig.model_validate(GENES))
    # a·b + b of each linear layer, and 2b of the batch norm after it
    head = (2048 * 2048 + 3 * 2048) + (2048 * 1024 + 3 * 1024) + (1024 * 512 + 3 * 512)
    head += (512 * 256 + 3 * 256) + (256 * 306 + 306)
    assert sum(p.numel() for p in model.numbers.parameters()) == head == 7_036_978
    without_classes = 25_557_032 - 1000 * 2049
    assert sum(p.numel() for p in model.parameters()) == without_classes + head == 30_545_010


def test_the_head_computes_what_the_lectures_layers_compute():
    config = ClassHead(numbers=("a", "b", "c"), widths=(8, 6), head_dropout=0.0)
    head = make_numbers_head(config, 10)
    layers: list[nn.Module] = []
    for before, after in ((10, 8), (8, 6)):
        layers += [nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU()]
    theirs = nn.Sequential(*layers, nn.Linear(6, 3))
    with torch.no_grad():
        for ours, other in zip(head.parameters(), theirs.parameters(), strict=True):
            other.copy_(ours)
    x = torch.randn(5, 10, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(head.train()(x), theirs.train()(x), rtol=0, atol=1e-5)
    torch.testing.assert_close(
        head.eval()(x), theirs.eval()(x), rtol=0, atol=1e-5
    )  # new statistics
    dropped = make_numbers_head(config.model_copy(update={"head_dropout": 0.5}), 10)
    layer = dropped.train()[0](x.repeat(200, 1))
    assert 0.7 < float((layer == 0).float().mean()) < 0.8  # half of those that ReLU lets through


@pytest.mark.slow
def test_resnet_50_with_306_numbers_runs_on_an_image_and_every_weight_learns():
    model = FAMILY.build(ResNetConfig.model_validate(GENES))
    images = Dense(torch.randn(2, 3, 64, 64))
    model.train().standardised_numbers(images).square().mean().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    with torch.inference_mode():
        assert model.eval().standardised_numbers(images).shape == (2, 306)


@pytest.mark.slow
def test_a_short_training_predicts_genes_of_unseen_tissue(pipeline):
    scores = pipeline.measure(unseen(pipeline))
    assert scores.overall["r2"] > 0.5
    assert min(row["r2"] for row in scores.by_label.values()) > 0.3
    assert list(scores.by_label) == ["gene 1", "gene 2", "gene 3"]


@pytest.mark.slow
def test_the_head_has_the_means_of_the_training_images_and_answers_in_their_units(pipeline):
    data = TissueData(**DATA)
    train = tissue_splits(data, pipeline.processor.source).train
    head = pipeline.model.config.head
    assert head.number_means == pytest.approx(train.numbers.mean(0))
    assert head.number_deviations == pytest.approx(train.numbers.std(0))
    images = unseen(pipeline, 3)
    values = torch.from_numpy(images.values)
    [answer, *_] = pipeline.predict(values)
    z = pipeline.logits(pipeline.processor.source.normalised(values))[0]
    wanted = train.numbers.mean(0) + train.numbers.std(0) * z.numpy()
    assert [*answer.value.values()] == pytest.approx(wanted.tolist(), rel=1e-4)


@pytest.mark.slow
def test_a_stopped_run_goes_on_as_if_it_had_not_been_stopped(tmp_path):
    few = {"data": {**DATA, "pairs": 128, "held_out": 8}, "model": {"image": [24, 24]}}
    every = {"evaluate_every": 2, "save_every": 2, "schedule": "constant"}
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    models = []
    for folder, steps in ((whole, 4), (stopped, 2), (stopped, 4)):
        resume, settings = (
            folder == stopped and steps == 4,
            {**few, "train": {"steps": steps, **every}},
        )
        pipeline = package.train(
            "small/tissue", folder, quiet=True, threads=1, resume=resume, **settings
        )
        models.append(pipeline.model.state_dict())
    first, _, second = models
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.slow
def test_a_trained_classifier_gives_its_layers_to_a_head_for_numbers(run, tmp_path):
    few = {"data": {**DATA, "pairs": 64, "held_out": 2}}
    barely = {"steps": 1, "evaluate_every": 1, "learning_rate": 1e-30}
    data = {"kind": "digits"}
    model = {
        "family": "resnet", "image": [8, 8], "channels": 1, "unit": "basic", "stem_width": 4,
        "depths": [1], "filters": [8],
    }  # fmt: skip
    classifier = tmp_path / "classifier"
    package.train("own/images", classifier, quiet=True, data=data, model=model, train=barely)
    start = {"start": {"folder": str(classifier)}, "train": barely}
    first = package.train("small/tissue", quiet=True, **few, **start)
    assert first.model.config.head.widths == (128, 64)  # as the recipe has them
    before = package.load(classifier).model
    for ours, theirs in zip(
        first.model.encoder.parameters(), before.encoder.parameters(), strict=True
    ):
        torch.testing.assert_close(ours, theirs)
    start["start"] = {"folder": str(run)}
    other = package.train("small/tissue", quiet=True, **few, **start, model={"widths": [6]})
    assert [layer.linear.out_features for layer in other.model.numbers[:-1]] == [6]


@pytest.mark.slow
def test_predict_reads_images_folders_and_lists(regard, run, files, tmp_path):
    name = str(run)
    line = regard("predict", name, files[0]).out
    assert line.startswith("gene 1 ")
    assert line.count("gene") == 3
    rows = [json.loads(text) for text in regard("predict", name, ".", "--json").out.splitlines()]
    assert [row["file"] for row in rows] == files
    assert list(rows[0]["predicted"]) == ["gene 1", "gene 2", "gene 3"]
    (tmp_path / "list").write_text("0.png\nnone.png\n")
    listed = regard("predict", name, "--input", "list")
    assert listed.out == line + "\n"
    assert "line 2: none.png: no such file" in listed.err
    for item, words in {"none.png": "no such file", "list": "got no image"}.items():
        is_refused(regard("predict", name, item), words)
    is_refused(regard("classify", name, files[0]), "cannot classify", "`regard predict`")
    is_refused(regard("predict", "small/digits", files[0]), "cannot predict", "classify")


@pytest.mark.slow
def test_python_takes_one_image_several_or_a_folder(pipeline, files, tmp_path):
    image = Image.open(tmp_path / files[1])
    several = pipeline.predict([tmp_path / file for file in files])
    assert several == pipeline.predict(str(tmp_path))
    for item in (image, tmp_path / files[1], str(tmp_path / files[1])):
        assert pipeline.predict(item).value == pytest.approx(several[1].value, abs=1e-4)


@pytest.mark.slow
def test_eval_scores_a_table_by_its_names_and_says_what_is_missing(regard, run, files, tmp_path):
    rows = [[file, number, number, -number] for number, file in enumerate(files)]
    names = ["file", "gene 1", "gene 2", "gene 3"]
    write_table(tmp_path / "a.csv", names, rows)
    turned = [[file, c, a, b, "x"] for file, a, b, c in rows]
    write_table(tmp_path / "b.csv", ["file", "gene 3", "gene 1", "gene 2", "who"], turned)
    scores = []
    for table in ("a.csv", "b.csv"):
        scored = json.loads(regard("eval", str(run), "--data", table, "--json").out)
        assert {"loss", "r2", "rmse", "by_label"} <= scored.keys()
        scores.append(scored["by_label"])
    assert scores[0] == scores[1]
    assert "r2" in regard("eval", str(run)).out
    write_table(tmp_path / "c.csv", names[:3], [row[:3] for row in rows])
    is_refused(regard("eval", str(run), "--data", "c.csv"), "c.csv", "gene 3, too, which the model")
    write_table(tmp_path / "d.csv", names, [*rows[:2], [files[2], "tall", 0, 0]])
    is_refused(regard("eval", str(run), "--data", "d.csv"), "d.csv:4: column gene 1", "'tall'")


@pytest.mark.slow
def test_sampled_tissue_is_data_of_ones_own(regard, tmp_path):
    sample = ("data", "sample", "tissue", "data.genes=2", "--pairs", "40", "--side", "24")
    assert regard(*sample, "-o", "slides").code == 0
    is_refused(regard(*sample, "-o", "slides"), "exists already", "-o")
    cells = [*map(json.loads, (tmp_path / "slides/cells.jsonl").read_text().splitlines())]
    assert sum(cells[0]["cells"].values()) == len(cells[0]["objects"])
    report = regard("data", "check", "--task", "predict", "slides")
    assert "40 images with 2 numbers each" in report.out
    assert report.code == 0
    train = ("train", "own/image-numbers", "data.folder=slides", "train.steps=2", "--quiet")
    small = ("model.image=[24,24]", "train.evaluate_every=2", "train.batch_tokens=1024")
    assert regard(*train, *small, "-o", "run").code == 0
    assert regard("predict", "run", "slides/00000.png").out.startswith("gene 1")
    attention = ("model.stage_attention={heads: 4}", "-o", "attending")
    assert regard(*train, *small, *attention).code == 0
    assert regard("look", "attending", "slides/00000.png", "-o", "look.png").code == 0
    other = ("data.kind=scenes", "-o", "bad")
    is_refused(regard("train", "small/tissue", *other), "data.kind", "images or tissue")


def test_a_number_that_is_missing_is_said_before_training(regard, files, tmp_path):
    write_table(tmp_path / "a.csv", ["path", "x"], [[file, ""] for file in files[:1]]
                + [[file, n] for n, file in enumerate(files[1:])])  # fmt: skip
    check = regard("data", "check", "own/image-numbers", "data.file=a.csv")
    assert check.code == 1
    assert "0.png, line 2: no number for x" in check.out
    train = ("train", "own/image-numbers", "data.file=a.csv", "-o", "run", "data.on_bad=stop")
    is_refused(regard(*train), "a.csv: 0.png, line 2 (no number for x", "data.on_bad=skip")
    is_refused(regard(*train, "data.outputs=[y]"), "none is called y")


def test_mixed_images_have_mixed_numbers():
    own, partners = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, -2.0]])
    mixed, shares = PredictImages.mixed(own, partners, torch.tensor([[0.75]]), None)
    assert mixed.tolist() == [[1.5, 1.0]]
    assert shares is None


def test_mixup_changes_what_is_learned_and_nothing_else_does(caplog):
    values = {"data.pairs": 64, "data.held_out": 2, "data.genes": 2}
    changes = [f"{key}={value}" for key, value in values.items()]
    targets = []
    for mixup in (0.0, 0.5):
        recipe = recipes.load(
            "small/tissue", [*changes, "model.image=[16,16]", f"data.mixup={mixup}"]
        )
        with caplog.at_level(logging.ERROR):
            task = PredictImages.prepare(recipe).task
        batch, _ = next(task.batches(Cursor()))
        targets.append(batch.targets.values)
    assert targets[0].shape == targets[1].shape == (64, 2)
    assert not torch.equal(*targets)
    assert targets[1].std() < targets[0].std()  # means of two vary less


def test_numbers_are_found_by_their_names():
    numbers = np.array([[1.0, 2.0, 3.0]])
    images = LabelledImages(np.zeros((1, 3, 4, 4)), ("",), numbers=numbers, outputs=("a", "b", "c"))
    assert in_order(images, ("c", "a")).numbers.tolist() == [[3.0, 1.0]]
    with pytest.raises(InputError, match=r"lack 'd'"):
        in_order(images, ("d",))
