"""Learning from a teacher: the losses of DeiT's paper, and a run that knows its teacher."""

from __future__ import annotations

import json

import pytest
import torch
import torch.nn.functional as F

from regard.data.batch import Batch
from regard.errors import InputError
from regard.inputs.arrays import Dense, Ragged
from regard.inputs.images.reader import ImageReader
from regard.inputs.text import Processor
from regard.models import CNNConfig, ViTConfig, build
from regard.models.families.images import ClassHead
from regard.runs.load import load
from regard.runs.train import train
from regard.tasks.classify_images import ClassifyImages, ImageOptions
from regard.tasks.teacher import Teacher
from tests.commands import is_refused

CLASSES = ("a", "b", "c")
READER = ImageReader(height=8, width=8, channels=1, mean=(0.4,), std=(0.3,))
CNN = {"image": (12, 12), "channels": 3, "filters": (4,), "kernel": 3, "dense": (8,),
       "classes": ("c", "a", "b")}  # fmt: skip
DEIT = {"dim": 16, "heads": 2, "hidden": 24, "layers": 1, "image": (8, 8), "patch": 4,
        "channels": 1, "classes": CLASSES, "distillation": "head", "dropout": 0.0}  # fmt: skip


def teacher(**how):
    reader = ImageReader(height=12, width=12, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))
    return Teacher(build(CNNConfig(**CNN)), reader, **how)


def test_a_teacher_of_another_size_reads_the_same_pixels_with_its_classes_in_our_order():
    taught = teacher()
    taught.check(CLASSES)
    source = Dense(torch.randn(4, 1, 8, 8))
    grey = source.values * 0.3 + 0.4
    pixels = F.interpolate(grey, (12, 12), mode="bilinear", antialias=True).expand(-1, 3, -1, -1)
    normalised = taught.reader.normalised(pixels)
    with torch.no_grad():
        expected = taught.model(Dense(normalised))[:, [1, 2, 0]]
    torch.testing.assert_close(taught.logits(source, READER), expected)
    assert not taught.logits(source, READER).requires_grad


@pytest.mark.parametrize("distillation", ["hard", "soft"])
def test_the_loss_is_the_papers(distillation):
    how = {"distillation": distillation, "weight": 0.3, "temperature": 2.0}
    model, taught = build(ViTConfig(**DEIT)), teacher(**how)
    task = ClassifyImages(
        Processor(READER), options=ImageOptions(head=ClassHead(classes=CLASSES), smoothing=0.1)
    )
    task.learn_from(taught)
    source, ids = Dense(torch.randn(5, 1, 8, 8)), torch.tensor([0, 1, 2, 0, 1])
    batch = Batch(source, Ragged(ids, (1,) * 5), tuple(range(5)))
    logits, distilled = model.class_logits(source)
    assert not torch.equal(logits, distilled)
    answers = taught.logits(source, READER)
    if distillation == "hard":
        other = F.cross_entropy(distilled, answers.argmax(1), reduction="sum")
    else:  # 4 Σ q log(q / p)
        q, p = (answers / 2).softmax(1), (distilled / 2).softmax(1)
        other = 4 * (q * (q / p).log()).sum()
    expected = (
        0.7 * F.cross_entropy(logits, ids, reduction="sum", label_smoothing=0.1) + 0.3 * other
    )
    torch.testing.assert_close(task.loss(model, batch), expected)
    torch.testing.assert_close(model(source), (logits + distilled) / 2)


def test_other_classes_are_refused():
    with pytest.raises(InputError, match="without d"):
        teacher().check(("a", "b", "d"))


SHORT = {"steps": 6, "evaluate_every": 3, "save_every": 3}
OVER = ("train.steps=6", "train.evaluate_every=3", "train.save_every=3")


@pytest.mark.slow
def test_a_run_knows_its_teacher(tmp_path, regard):
    small = {"family": "cnn", "filters": [4], "kernel": 3, "dense": [12]}
    for seed in (0, 1):
        train(
            "tiny/digits", tmp_path / f"cnn{seed}", quiet=True, model=small, seed=seed, train=SHORT
        )
    loaded = load(tmp_path / "cnn0")
    assert loaded.model.config.family == "cnn"
    deit = ("train", "tiny/digits", *OVER, "model.distillation=head", "train.teacher=cnn0",
            "train.ema=0.9", "train.layer_decay=0.8", "-o", "deit")  # fmt: skip
    assert regard(*deit).code == 0
    whole = {p.name: p.read_bytes() for p in (tmp_path / "deit/checkpoints/00000006").iterdir()}
    facts = json.loads(whole["training.json"])
    assert len(facts["data"]["teacher"]) == 64
    # cut after three steps, and continued
    for name in ("00000006",):
        for file in (tmp_path / "deit/checkpoints" / name).iterdir():
            file.unlink()
        (tmp_path / "deit/checkpoints" / name).rmdir()
    assert regard(*deit, "--resume").code == 0
    again = (tmp_path / "deit/checkpoints/00000006/model.safetensors").read_bytes()
    assert again == whole["model.safetensors"]
    for file in (tmp_path / "deit/checkpoints/00000006").iterdir():
        file.unlink()
    (tmp_path / "deit/checkpoints/00000006").rmdir()
    (tmp_path / "cnn0").rename(tmp_path / "other")
    (tmp_path / "cnn1").rename(tmp_path / "cnn0")
    is_refused(regard(*deit, "--resume"), "teacher changed since the run began")
    text = ("train", "tiny/copy", *OVER, "train.teacher=cnn0", "-o", "text")
    is_refused(regard(*text), "train.teacher", "a classifier of images")
