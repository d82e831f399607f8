"""Images with captions of one's own: several for an image, and everything that can be wrong."""

from __future__ import annotations

import json
from functools import partial
from itertools import chain

import numpy as np
import pytest
import torch

from regard.data.config import ImagesData
from regard.data.images.captioned import CaptionedImages
from regard.data.images.sources import load_images
from regard.data.order import training_batches
from regard.data.synthetic.scenes import make_scene
from regard.errors import InputError
from regard.inputs.arrays import Dense
from regard.inputs.images.reader import ImageReader
from regard.runs.load import load
from tests.commands import is_refused

READER = ImageReader(height=16, width=16)
SMALL = ["model.encoder.image=[16,16]", "model.dim=16", "model.heads=2", "model.hidden=16",
         "model.layers=1", "train.steps=2", "train.warmup=1", "train.batch_tokens=200",
         "train.evaluate_every=2", "train.save_every=2", "-q"]  # fmt: skip


@pytest.fixture
def photos(tmp_path):
    """Twelve images in a folder, with two captions each in `captions.csv`."""
    folder = tmp_path / "photos"
    folder.mkdir()
    lines = ["name,words"]
    for number in range(12):
        scene = make_scene(0, 0, number)
        scene.draw(24).save(folder / f"{number}.png")
        lines += [f"{number}.png,{scene.caption}", f"{number}.png,there is {scene.caption}"]
    (folder / "captions.csv").write_text("\n".join(lines).replace("name,words", "image,caption"))
    return folder


def read(path, **settings):
    return load_images(ImagesData(file=str(path), held_out=2, **settings), READER, captions=True)


def test_an_image_has_all_captions_of_its_rows(photos):
    splits = read(photos / "captions.csv")
    assert (len(splits.train), len(splits.valid)) == (11, 1)
    for captions in splits.train.captions:
        assert captions[1] == f"there is {captions[0]}"
    rows = [
        {"image": f"{number}.png", "captions": [f"one {number}", f"two {number}"], "split": split}
        for number, split in enumerate(["train"] * 8 + ["valid"] * 2 + ["test"] * 2)
    ]
    (photos / "all.jsonl").write_text("\n".join(map(json.dumps, rows)))
    splits = read(photos / "all.jsonl")
    assert [len(part) for part in (splits.train, splits.valid, splits.tests["test"])] == [8, 2, 2]
    assert splits.tests["test"].captions[0] == ("one 10", "two 10")
    (photos / "other.tsv").write_text("what one sees\tphotograph\na thing\t0.png\nred\t1.png\n")
    splits = read(photos / "other.tsv", caption="what one sees", image="photograph")
    assert sorted(splits.train.captions + splits.valid.captions) == [("a thing",), ("red",)]


def captioned(photos, counts=()):
    """Images with captions as ids; the counts of captions of each, or two for each."""
    images = read(photos / "captions.csv").train
    counts = counts or [2] * len(images)
    ids = [[[7] * (1 + row % 3 + n) for n in range(count)] for row, count in enumerate(counts)]
    return CaptionedImages(images, ids, image_tokens=20, begin=1, end=2)


def test_all_captions_of_an_image_are_in_one_batch(photos):
    examples = captioned(photos, counts=[1, 3, 2, 5, 1, 1, 2, 3, 1, 1, 4])
    cut = partial(training_batches, budget=70, seed=3, epoch=1)
    plan = examples.plan(cut, together=True)
    assert sorted(chain(*plan)) == list(range(24))
    batch_of = {row: number for number, index in enumerate(plan) for row in index}
    for image in range(11):
        assert len({batch_of[row] for row in np.flatnonzero(examples.image_of == image)}) == 1
    for index in plan:
        images, rows = examples.images_of(index)
        assert len(images) == len(set(images))
        assert [images[row] for row in rows] == examples.image_of[index].tolist()
        tokens = 20 * len(images) + sum(1 + len(examples.captions[row]) for row in index)
        assert tokens <= 70 or len(images) == 1
    apart = examples.plan(cut, together=False)
    assert apart == training_batches(examples.lengths, 70, 3, 1)
    assert len(apart) > len(plan)


def test_one_caption_for_each_image_makes_the_same_batches_either_way(photos):
    examples = captioned(photos, counts=[1] * 11)
    cut = partial(training_batches, budget=70, seed=3, epoch=1)
    assert examples.plan(cut, together=True) == examples.plan(cut, together=False)


def test_a_batch_has_each_image_once(photos):
    examples = captioned(photos)
    index = [4, 0, 5, 1]  # captions of the images 2, 0, 2, 0
    images, rows = examples.images_of(index)
    pixels = torch.from_numpy(examples.images.values[images])
    batch = examples.batch(index, Dense(pixels))
    assert (images, batch.source.rows, rows) == ([2, 0], (0, 1, 0, 1), (0, 1, 0, 1))
    assert batch.source.keys() == [Dense(pixels).keys()[row] for row in rows]
    half = batch.take([1, 3])
    assert half.source.rows == (0, 0)
    assert torch.equal(half.source.inputs.values, pixels[1:])
    assert half.decoder_input.take([1]).ids.tolist() == [1, *examples.captions[1]]


def test_what_is_no_caption_is_not_learned(regard, photos):
    """The rest of a sentence after a comma, a number, an object: none of them goes unnoticed."""
    for header in ("image,caption\n", ""):
        rows = "".join(f"{number}.png,a ring, on white\n" for number in range(12))
        (photos / "commas.csv").write_text(header + rows)
        with pytest.raises(InputError, match=r"3, not 2.*path and a caption\n.*stands in quotes"):
            read(photos / "commas.csv")
    for caption in ({"en": "a ring"}, ["a ring", 5]):
        rows = [{"image": f"{number}.png", "caption": caption} for number in range(12)]
        (photos / "objects.jsonl").write_text("\n".join(map(json.dumps, rows)))
        said = "objects.jsonl:1: a caption: got"
        with pytest.raises(InputError, match=said):
            read(photos / "objects.jsonl")
        is_refused(regard("data", "check", "photos/objects.jsonl"), said)


@pytest.mark.usefixtures("photos")
def test_own_captions_train_a_model_that_is_scored_by_all_of_them(regard, tmp_path):
    words = ["train", "tiny/caption", "data.folder=photos", "data.held_out=2", *SMALL, "-o", "run"]
    result = regard(*words)
    assert result.code == 0, result.err
    captions = load(tmp_path / "run").processor.target
    assert not captions.unknown_words("there is a red circle")
    row = json.loads(regard("eval", "run", "--data", "photos/captions.csv", "--json").out)
    assert row["images"] == 12
    assert 0 <= row["bleu_4"] <= 100
    assert 0 <= row["cider_d"] <= 10
    table = regard("eval", "run", "--data", "photos/captions.csv").out
    assert "CIDEr-D" in table


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("gone.png,a red circle", "captions.csv: gone.png, line 26 (no such file"),
        ("3.png,   ", "captions.csv: 3.png, line 26 (an empty caption)"),
        ("broken.png,a red circle", "captions.csv: broken.png, line 26 (no image"),
        (",a red circle", "captions.csv:26: got no path"),
        ("3.png,a caf\xe9", "captions.csv:26"),
        ("3.png,a ring, a star", "captions.csv:26: wrong number of columns"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_else_is_lost(photos, line, words, caplog):
    (photos / "broken.png").write_text("words")
    table = photos / "captions.csv"
    table.write_bytes(table.read_bytes() + f"\n{line}\n".encode("latin-1"))
    with pytest.raises(InputError) as error:
        read(table, on_bad="stop")
    assert words in str(error.value), str(error.value)
    if "(" in words:
        splits = read(table)
        assert len(splits.train) + len(splits.valid) == 12
        assert words.partition(": ")[2] in caplog.text


def test_what_has_no_captions_is_refused_with_what_to_do(regard, photos, tmp_path, caplog):
    words = ["train", "tiny/caption", *SMALL, "-o", "run"]
    (photos / "labels.csv").write_text("path,kind,size\n0.png,ring,3\n1.png,star,4\n")
    is_refused(regard(*words, "data.file=photos/labels.csv"), "which is the caption?")
    (photos / "extra.png").write_bytes((photos / "0.png").read_bytes())
    load_images(ImagesData(folder=str(photos), held_out=2), READER, captions=True)
    assert "extra.png (no caption)" in caplog.text
    (photos / "captions.csv").rename(tmp_path / "moved.csv")
    (photos / "labels.csv").unlink()
    is_refused(regard(*words, "data.folder=photos"), "captions.csv")
    splits = "0.png,a ring,train\n0.png,a thing,test\n"
    (photos / "two.csv").write_text(f"image,caption,split\n{splits}")
    is_refused(regard(*words, "data.file=photos/two.csv"), "two.csv:3: got 0.png in test")


def test_data_check_counts_captions_and_names_what_is_wrong(regard, photos):
    (photos / "extra.png").write_bytes((photos / "0.png").read_bytes())
    for what in (["photos/captions.csv"], ["photos"], ["tiny/caption", "data.folder=photos"]):
        result = regard("data", "check", *what)
        assert "24 captions, 2 for each image; 4 to " in result.out, result.err
        is_folder = what != ["photos/captions.csv"]
        assert ("extra.png: no caption" in result.out) == is_folder
        assert result.code == is_folder
    row = json.loads(regard("data", "check", "photos/captions.csv", "--json").out)
    assert row["captions"]["captions"] == 24
    assert row["captions"]["repeated"] == 0
