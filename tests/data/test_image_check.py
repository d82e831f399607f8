"""What `regard data check FOLDER` finds, and what `regard data sample scenes` writes."""

from __future__ import annotations

import json
import logging
import re
import zipfile

import numpy as np
import pytest
from PIL import Image

from regard.data.config import ScenesData
from regard.data.images.check import check_images
from regard.data.synthetic.scenes import RELATIONS, SHAPES, SIZES, make_scene, scene_splits
from regard.inputs.images.reader import ImageReader
from tests.commands import is_refused


def noise(number, size=(12, 8), mode="RGB"):
    pixels = np.random.default_rng(number).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(pixels).convert(mode)


@pytest.fixture
def folder(tmp_path):
    for split, label, number in (
        ("train", "cat", 0), ("train", "cat", 1), ("train", "dog", 2), ("train", "dog", 0),
        ("test", "cat", 5), ("test", "dog", 2),
    ):  # fmt: skip
        path = tmp_path / "all" / split / label
        path.mkdir(parents=True, exist_ok=True)
        noise(number).save(path / f"{number}.{'bmp' if split == 'test' else 'png'}")
    noise(9, (30, 20), "L").save(tmp_path / "all/train/cat/grey.jpg")
    (tmp_path / "all/train/cat/text.png").write_text("words")
    (tmp_path / "all/train/notes.txt").write_text("words")
    return tmp_path / "all"


def test_classes_sizes_copies_and_broken_files_are_found(folder):
    done = []
    report = check_images(str(folder), lambda *numbers: done.append(numbers))
    assert report.images == 7
    assert report.classes == {"cat": 4, "dog": 3}
    assert report.splits == {"test": 2, "train": 5}
    assert (report.smallest, report.median, report.largest) == ((12, 8), (12, 8), (30, 20))
    assert report.modes == {"L": 1, "RGB": 6}
    assert report.formats == {"BMP": 2, "JPEG": 1, "PNG": 4}
    assert (report.same_bytes, report.same_pixels) == (1, 2)
    assert report.across_classes == (("train/cat/0.png", "train/dog/0.png"),)
    assert report.across_splits == (("test/dog/2.bmp", "train/dog/2.png"),)
    assert report.broken == {"train/cat/text.png": "no image"}
    assert report.others == ("train/notes.txt",)
    assert done == [(8, 8)]


def test_the_command_reports_them_and_exits_with_1(regard, folder):
    said = regard("data", "check", str(folder))
    assert said.code == 1
    assert "7 images of 2 classes: cat 4, dog 3" in said.out
    assert "  train/cat/text.png: no image" in said.out
    rows = json.loads(regard("data", "check", str(folder), "--json").out)
    assert rows["broken"] == {"train/cat/text.png": "no image"}
    (folder / "train/cat/text.png").unlink()
    (folder / "train/dog/0.png").unlink()
    (folder / "test/dog/2.bmp").unlink()
    assert regard("data", "check", str(folder)).code == 0
    is_refused(regard("data", "check", str(folder / "test" / "dog")), "got no image")
    is_refused(regard("data", "check", "none"), "none")


@pytest.mark.usefixtures("folder")
def test_arrays_and_lists_are_checked_and_texts_still_are(regard, tmp_path):
    np.savez(tmp_path / "a.npz", images=np.zeros((4, 5, 6), np.uint8), labels=[0, 0, 1, 1])
    report = check_images(str(tmp_path / "a.npz"))
    assert (report.images, report.same_pixels, report.largest) == (4, 3, (6, 5))
    (tmp_path / "list.csv").write_text("path,label\nall/train/cat/0.png,cat\n")
    assert "1 images of 1 classes" in regard("data", "check", "list.csv").out
    (tmp_path / "pairs.tsv").write_text("a b\tc d\n")
    assert "pairs" in regard("data", "check", "pairs.tsv").out


def test_scenes_are_written_with_all_that_is_true_of_them(regard, tmp_path):
    said = regard("data", "sample", "scenes", "--pairs", "6", "-o", "some", "--side", "64",
                  "data.objects=3")  # fmt: skip
    assert said.code == 0
    rows = [
        json.loads(line) for line in (tmp_path / "some/captions.jsonl").read_text().splitlines()
    ]
    assert [line.split("\t")[2] for line in said.out.splitlines()] == [
        row["caption"] for row in rows
    ]
    assert len(rows) == 6
    for row in rows:
        image = np.asarray(Image.open(tmp_path / "some" / row["path"]))
        mask = np.asarray(Image.open(tmp_path / "some" / row["mask"]))
        assert image.shape == (64, 64, 3)
        assert set(np.unique(mask)) == set(range(len(row["objects"]) + 1))
        for number, thing in enumerate(row["objects"], 1):
            down, right = np.nonzero(mask == number)
            if thing["shape"] != "triangle":  # whose centre of mass is lower
                assert right.mean() / 64 == pytest.approx(thing["x"], abs=0.02)
                assert down.mean() / 64 == pytest.approx(thing["y"], abs=0.02)
            inside = np.abs(image[mask == number].astype(int) - thing["rgb"]).max(axis=1)
            assert np.median(inside) == 0
            assert f"{thing['size']} {thing['colour']} {thing['shape']}" in row["caption"]
        assert row["label"] == row["objects"][0]["shape"]
    is_refused(regard("data", "sample", "scenes", "-o", "some"), "exists already")
    is_refused(regard("data", "sample", "scenes", "--split", "tset"), "train, valid, test")
    is_refused(regard("data", "sample", "tiny/copy", "-o", "none"), "no images")
    # What was written can be trained on: the folder has a list
    assert "6 images of" in regard("data", "check", "some").out
    assert regard("data", "sample", "tiny/digits", "--pairs", "3", "-o", "digits").code == 0
    assert np.asarray(Image.open(tmp_path / "digits/00000.png")).max() == 255


def test_scenes_are_what_their_captions_say():
    scenes = [make_scene(1, 0, number, most=3) for number in range(300)]
    assert scenes == [make_scene(1, 0, number, most=3) for number in range(300)]
    assert scenes[0] != make_scene(2, 0, 0, most=3)
    assert {len(scene.objects) for scene in scenes} == {1, 2, 3}
    assert {scene.labels["shape"] for scene in scenes} == set(SHAPES)
    assert {relation for scene in scenes for relation in scene.relations} == set(RELATIONS)
    for scene in scenes:
        radii = [relation.radius for relation in scene.objects]
        assert radii == sorted(radii, reverse=True)
        first = scene.objects[0]
        for other, relation in zip(scene.objects[1:], scene.relations, strict=True):
            assert {
                "left of": first.x < other.x, "right of": first.x > other.x,
                "above": first.y < other.y, "below": first.y > other.y,
            }[relation]  # fmt: skip
            apart = np.hypot(first.x - other.x, first.y - other.y)
            assert apart > first.radius + other.radius
        for relation in scene.objects:
            low, high = SIZES[relation.size]
            assert low <= relation.radius <= high
            assert relation.radius < relation.x < 1 - relation.radius


@pytest.mark.parametrize("label", ["shape", "colour", "object", "count", "relation"])
def test_scenes_have_the_class_that_was_asked_for(label):
    reader = ImageReader(height=16, width=24)
    data = ScenesData(pairs=40, held_out=5, label=label)
    splits = scene_splits(data, reader)
    assert splits.train.values.shape == (40, 3, 16, 24)
    assert [len(splits.valid), len(splits.tests["test"])] == [5, 5]
    for name, scene, caption in zip(
        splits.train.labels, splits.train.scenes, splits.train.captions, strict=True
    ):
        assert name == scene.labels[label]
        assert caption == (scene.caption,)
    assert splits.checksums == scene_splits(data, reader).checksums
    other = scene_splits(data.model_copy(update={"seed": 3}), reader)
    assert splits.checksums != other.checksums


HOSTILE = "\x1b[31m\x07\x7f\x9b2J"
"""Red letters, a bell, and an empty screen, on a terminal that obeys."""


def hostile_files(folder):
    """The same two classes, with names that control a terminal, in three kinds of file."""
    labels = [f"cat{HOSTILE}", f"dog{HOSTILE}"] * 3
    for number in range(6):
        noise(number).save(folder / f"{number}.png")
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        for number, label in enumerate(labels):
            content = (folder / f"{number}.png").read_bytes()
            archive.writestr(f"{label}/{number}{HOSTILE}.png", content[: None if number else 9])
        archive.writestr(f"notes{HOSTILE}.txt", "words")
    rows = "".join(f"{number}.png,{label}\n" for number, label in enumerate(labels))
    (folder / "a.csv").write_text(rows)
    images = np.stack([np.asarray(noise(number)) for number in range(6)])
    np.savez(folder / "a.npz", images=images, labels=np.array(labels))


@pytest.mark.parametrize("file", ["a.zip", "a.csv", "a.npz"])
def test_names_and_labels_cannot_control_a_terminal(regard, tmp_path, file, caplog):
    hostile_files(tmp_path)
    said = [regard("data", "check", file, *more) for more in ((), ("--json",))]
    assert r"cat\\x1b[31m" in said[1].out
    with caplog.at_level(logging.WARNING):
        said.append(regard("data", "sample", "own/images", f"data.file={file}"))
    assert "cat" in said[2].out
    assert file != "a.zip" or "1 of 6 files" in caplog.text
    printed = "".join(result.out + result.err for result in said) + "".join(caplog.messages)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", printed)
