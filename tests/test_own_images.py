"""From a folder of images to a model that names them, by the commands that a person types."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from PIL import Image

from regard.data.images.decoding import decode
from regard.data.images.listing import ImageFile
from regard.data.synthetic.scenes import make_scene
from regard.inputs.images.reader import ImageReader
from regard.runs.load import load
from tests.commands import is_refused

SMALL = ["model.dim=16", "model.heads=2", "model.hidden=16", "model.layers=1", "train.warmup=2",
         "train.batch_tokens=650", "-q"]  # fmt: skip


def draw(folder, count, first=0):
    for number in range(first, first + count):
        scene = make_scene(0, 0, number, most=1)
        class_folder = folder / scene.labels["shape"]
        class_folder.mkdir(parents=True, exist_ok=True)
        scene.draw(36).save(class_folder / f"{number:03}.png")


@pytest.mark.slow
def test_a_folder_becomes_a_model_that_classifies_images(regard, tmp_path):
    draw(tmp_path / "shapes", 60)
    draw(tmp_path / "others", 12, first=500)
    broken = tmp_path / "shapes" / "circle" / "broken.png"
    broken.write_text("words")
    words = ["train", "own/images", "data.folder=shapes", "train.steps=4", "data.mixup=0.2",
             "train.evaluate_every=2", "train.save_every=2", *SMALL, "-o", "run"]  # fmt: skip
    assert regard(*words).code == 0
    pipeline = load(tmp_path / "run")
    names = sorted(path.name for path in (tmp_path / "shapes").iterdir())
    assert list(pipeline.model.config.classes) == names
    reader = pipeline.processor.source
    assert (reader.height, reader.width, reader.channels) == (32, 32, 3)
    assert all(0.5 < mean < 1 for mean in reader.mean)  # light grounds
    [image] = list((tmp_path / "others" / "star").glob("*.png"))[:1]
    said = regard("classify", "run", str(image), "--json")
    assert set(json.loads(said.out)["classes"]) == set(names)
    (tmp_path / "others" / "star" / "no.png").write_text("words")
    scored = json.loads(regard("eval", "run", "--data", "others", "--json").out)
    assert scored["examples"] == 12
    assert (scored["scored"], scored["of"]) == (12, 13)
    assert scored["left_out"] == {"that cannot be read": 1}
    assert scored["in_training"] == {"about": 0, "of": 12, "unit": "images"}
    seen = json.loads(regard("eval", "run", "--data", "shapes", "--json").out)
    assert seen["in_training"] == {"about": 54, "of": 60, "unit": "images"}
    few = json.loads(regard("eval", "run", "--data", "shapes", "--limit", "9", "--json").out)
    assert (few["examples"], few["of"], few["in_training"]["of"]) == (9, 61, 9)
    row = json.loads(regard("eval", "run", "--json").out)
    assert (row["examples"], row["in_training"]["about"]) == (6, 0)
    is_refused(regard(*words), "already holds a run")
    again = [word.replace("steps=4", "steps=6") for word in words]
    assert regard(*again, "--resume").code == 0
    make_scene(9, 0, 0).draw(36).save(next((tmp_path / "shapes" / "star").glob("*.png")))
    is_refused(regard(*again, "train.steps=8", "--resume"), "other data: shapes changed")


@pytest.mark.parametrize("words", [
    (["data.folder=none"], "none: no such file or folder"),
    (["data.file=none.csv"], "none.csv: no such file or folder"),
    (["data.kind=grammar"], "data.kind"),
    (["data.mixup=-1"], "data.mixup"),
    (["data.folder=one"], "at least two of them"),
    (["data.names=[a]", "data.file=a.npz"], "a name for class 1, too"),
])  # fmt: skip
def test_what_cannot_be_trained_on_is_refused_in_a_line(regard, tmp_path, words):
    overrides, message = words
    (tmp_path / "one" / "cat").mkdir(parents=True)
    for number in range(4):
        make_scene(0, 0, number).draw(16).save(tmp_path / "one" / "cat" / f"{number}.png")
    images = np.random.default_rng(0).integers(0, 256, (20, 8, 8), np.uint8)
    np.savez(tmp_path / "a.npz", images=images, labels=np.arange(20) % 2)
    is_refused(regard("train", "own/images", *overrides, "-o", "run", "-q"), message)


def test_damage_anywhere_in_a_file_is_a_problem_of_that_file_alone(tmp_path):
    """Bytes are changed, cut off and put in; whatever comes of it, the others are read."""
    dice, entries = random.Random(0), []
    for kind, ending in (("PNG", "png"), ("JPEG", "jpg"), ("GIF", "gif"), ("BMP", "bmp"),
                         ("TIFF", "tif"), ("WEBP", "webp"), ("PPM", "ppm")):  # fmt: skip
        file = tmp_path / f"it.{ending}"
        make_scene(0, 0, 1).draw(24).save(file, kind)
        whole = file.read_bytes()
        entries.append(ImageFile(f"whole {kind}", whole, "a"))
        for number in range(25):
            data = bytearray(whole)
            for _ in range(dice.randint(1, 8)):
                data[dice.randrange(len(data))] = dice.randrange(256)
            if number % 5 == 0:
                del data[dice.randrange(len(data)) :]
            entries.append(ImageFile(f"{kind} {number}", bytes(data), "a"))
    reader = ImageReader(height=16, width=16)
    decoded = decode(entries, reader.bytes_of, (3, 16, 16))
    assert not any(name.startswith("whole") for name in decoded.problems)
    assert len(decoded.problems) > 30
    assert len(decoded.files) + len(decoded.problems) == len(entries)
    assert all(len(what) < 200 for what in decoded.problems.values())
    expected = reader.bytes_of(make_scene(0, 0, 1).draw(24))
    assert np.array_equal(decoded.values[0], expected)
    assert Image.fromarray(decoded.values[0].transpose(1, 2, 0)).size == (16, 16)
