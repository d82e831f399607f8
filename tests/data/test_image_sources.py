"""Images from folders, lists, arrays and archives: the same pixels, classes and splits."""

from __future__ import annotations

import csv
import gzip
import io
import json
import logging
import os
import shutil
import struct
import tarfile
import zipfile

import numpy as np
import pytest
from PIL import Image

from regard.data.config import ImagesData
from regard.data.images import decoding
from regard.data.images.arrays import read_idx
from regard.data.images.labelled_images import statistics
from regard.data.images.listing import find_images
from regard.data.images.sources import load_images, read_images
from regard.errors import InputError
from regard.inputs.images.reader import ImageReader
from regard.inputs.text import Processor
from regard.recipes.recipe import load
from regard.tasks.classify_images import ClassifyImages
from tests.data.test_images import claims

READER = ImageReader(height=6, width=5)
GREY = ImageReader(height=6, width=5, channels=1, mean=(0.5,), std=(0.5,))


def picture(number: int) -> Image.Image:
    pixels = np.random.default_rng(number).integers(0, 256, (6, 5, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def classes(folder, count=30, names=("cat", "dog")):
    """A folder of folders; image n is of class n % 2."""
    for number in range(count):
        path = folder / names[number % len(names)]
        path.mkdir(parents=True, exist_ok=True)
        picture(number).save(path / f"{number:02}.png")
    return folder


def as_set(pictures):
    values = pictures.values[range(len(pictures))]
    return {(value.tobytes(), label) for value, label in zip(values, pictures.labels, strict=True)}


ALL = {(READER.bytes_of(picture(n)).tobytes(), ("cat", "dog")[n % 2]) for n in range(30)}


def test_a_folder_of_folders_becomes_three_disjoint_splits(tmp_path):
    data = ImagesData(folder=str(classes(tmp_path / "all")), held_out=3, held_out_test=2)
    splits = load_images(data, READER)
    parts = (splits.train, splits.valid, splits.tests["test"])
    assert [len(part) for part in parts] == [25, 3, 2]
    assert set.union(*map(as_set, parts)) == ALL
    again = load_images(data, READER)
    assert again.checksums == splits.checksums
    assert as_set(again.valid) == as_set(splits.valid)
    other = load_images(data.model_copy(update={"seed": 1}), READER)
    assert as_set(other.valid) != as_set(splits.valid)
    assert other.checksums == splits.checksums
    picture(99).save(tmp_path / "all" / "cat" / "02.png")
    assert load_images(data, READER).checksums != splits.checksums


def test_copies_of_an_image_stay_in_one_split(tmp_path):
    folder = classes(tmp_path / "all", 12)
    for copy in range(12):  # the same pixels in another file format, and in the other class
        picture(0).save(folder / "cat" / f"copy{copy}.bmp")
        picture(1).save(folder / "cat" / f"again{copy}.tif")
    for seed in range(8):
        splits = load_images(ImagesData(folder=str(folder), held_out=3, seed=seed), READER)
        pixels = [{pixels for pixels, _ in as_set(part)} for part in (splits.train, splits.valid)]
        assert not pixels[0] & pixels[1]


def test_folders_that_name_splits_are_splits(tmp_path, caplog):
    for split, count in {"train": 12, "val": 4, "test": 6}.items():
        classes(tmp_path / split, count)
    with caplog.at_level(logging.WARNING):
        splits = load_images(ImagesData(folder=str(tmp_path)), READER)
    assert [len(splits.train), len(splits.valid), len(splits.tests["test"])] == [12, 4, 6]
    tested = read_images(str(tmp_path), READER, for_tests=True)
    assert as_set(tested) == as_set(splits.tests["test"])
    assert len(read_images(str(tmp_path), READER)) == 22
    scored = ClassifyImages(Processor(READER)).load_file(str(tmp_path), ImagesData(folder="x"))
    assert len(scored) == 6  # `regard eval --data FOLDER` scores no training images
    assert "6 images of the test split are training images, too" in caplog.text
    vehicles = classes(tmp_path / "vehicles", 8, names=("train", "test"))
    assert {entry.label for entry in find_images(str(vehicles)).files} == {"train", "test"}
    data = ImagesData(folder=str(tmp_path / "train"), test=str(tmp_path / "test"), held_out=2)
    splits = load_images(data, READER)
    assert len(splits.tests["test"]) == 6


def test_a_list_names_paths_labels_captions_and_splits(tmp_path):
    folder = classes(tmp_path / "all", 8)
    rows = [(f"all/{label}/{number:02}.png", label, f"no. {number}")
            for number in range(8) for label in [("cat", "dog")[number % 2]]]  # fmt: skip
    plain, headed, lines = (tmp_path / name for name in ("a.csv", "b.tsv", "c.jsonl"))
    with plain.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    with headed.open("w", newline="") as file:
        writer = csv.writer(file, "excel-tab")
        writer.writerow(["label", "split", "path"])
        writer.writerows([label, "test" if n < 2 else "train", path]
                         for n, (path, label, _) in enumerate(rows))  # fmt: skip
    lines.write_text("".join(
        json.dumps({"file_name": path, "label": label, "caption": caption}) + "\n"
        for path, label, caption in rows
    ))  # fmt: skip
    expected = as_set(read_images(str(folder), READER))
    for file in (plain, headed, lines):
        images = read_images(str(file), READER)
        assert as_set(images) == expected
        assert images.captions == (() if file == headed else tuple((row[2],) for row in rows))
    split = load_images(ImagesData(file=str(headed), held_out=1), READER)
    assert [len(split.train), len(split.valid), len(split.tests["test"])] == [5, 1, 2]
    for text, message in {"x.png\n": "no label", ",cat\n": "no path"}.items():
        plain.write_text(text)
        with pytest.raises(InputError, match=message):
            find_images(str(plain))
    plain.write_text("missing.png,cat\n")
    with pytest.raises(InputError, match=r"missing\.png, line \d+ \(no such file\)"):
        read_images(str(plain), READER)


def test_arrays_and_idx_files_are_read(tmp_path):
    images = np.stack([np.asarray(picture(number)) for number in range(30)])
    labels = np.arange(30) % 2
    names = np.array(["cat", "dog"])
    np.savez(tmp_path / "a.npz", images=images, labels=labels, names=names)
    np.savez(tmp_path / "b.npz", x=images.transpose(0, 3, 1, 2), y=labels[:, None].astype(float))
    assert as_set(read_images(str(tmp_path / "a.npz"), READER)) == ALL
    assert as_set(read_images(str(tmp_path / "b.npz"), READER, ("cat", "dog"))) == ALL
    np.savez(tmp_path / "c.npz", x_train=images[:20], y_train=labels[:20],
             x_test=images[20:], y_test=labels[20:])  # fmt: skip
    data = ImagesData(file=str(tmp_path / "c.npz"), held_out=2, names=("cat", "dog"))
    split = load_images(data, READER)
    assert [len(split.train), len(split.valid), len(split.tests["test"])] == [18, 2, 10]
    grey = images[..., 0]
    for split_name, part in {"train": slice(0, 20), "t10k": slice(20, 30)}.items():
        for kind, values in {"images-idx3": grey[part], "labels-idx1": labels[part]}.items():
            head = bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape)
            packed = gzip.compress(head + values.astype(np.uint8).tobytes())
            (tmp_path / "idx").mkdir(exist_ok=True)
            (tmp_path / "idx" / f"{split_name}-{kind}-ubyte.gz").write_bytes(packed)
    file = tmp_path / "idx" / "train-images-idx3-ubyte.gz"
    assert np.array_equal(read_idx(file), grey[:20])
    for data in (ImagesData(folder=str(tmp_path / "idx")), ImagesData(file=str(file))):
        split = load_images(data, GREY)
        assert [len(split.train), len(split.valid), len(split.tests["test"])] == [18, 2, 10]
        assert np.array_equal(split.tests["test"].values[:, 0], grey[20:])
        assert set(split.train.labels) == {"0", "1"}
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes())[:-3]))
    with pytest.raises(InputError, match="damaged"):
        find_images(str(file))


def test_damaged_arrays_are_refused(tmp_path):
    images = np.zeros((3, 4, 4), np.uint8)
    for arrays, message in (
        ({"images": images}, "arrays images"),
        ({"images": images, "labels": np.zeros(2)}, "one label for each image"),
        ({"images": images[0], "labels": np.zeros(4)}, "images x height x width"),
        ({"images": images, "labels": np.array([{}, {}, {}])}, "labels: got Python objects"),
    ):
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(InputError, match=message):
            find_images(str(tmp_path / "a.npz"))
    (tmp_path / "a.npz").write_bytes(b"PK no")
    with pytest.raises(InputError, match="damaged"):
        find_images(str(tmp_path / "a.npz"))
    for file in ("a.txt", "none.csv"):
        (tmp_path / "a.txt").write_text("words")
        with pytest.raises(InputError):
            find_images(str(tmp_path / file))


def test_an_idx_file_of_two_channels_or_of_more_than_it_has_is_refused(tmp_path):
    for shape, message in (
        ((3, 6, 5, 2), "3 x 6 x 5 x 2, expected 1, 3 or 4 channels"),
        ((3, 2**16, 2**15), "a header that claims 6,442,450,944 bytes, expected at most 1"),
        ((2**31, 2**31, 3), "expected at most"),
        ((3, 5), "expected images x height x width"),
    ):
        for kind, sides in {"images-idx3": shape, "labels-idx1": (3,)}.items():
            head = bytes((0, 0, 8, len(sides))) + struct.pack(f">{len(sides)}I", *sides)
            (tmp_path / f"train-{kind}-ubyte").write_bytes(head + bytes(180))
        with pytest.raises(InputError, match=message):
            find_images(str(tmp_path / "train-images-idx3-ubyte"))


def test_an_archive_that_is_packed_too_far_or_claims_too_much_is_refused(tmp_path):
    zeros = bytes(2**25)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(3):
            archive.writestr(f"cat/{number}.bmp", zeros)
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        for number in range(3):
            member = tarfile.TarInfo(f"notes/{number}.txt")
            member.size = len(zeros)
            archive.addfile(member, io.BytesIO(zeros))
    for name in ("a.zip", "a.tar.gz"):
        with pytest.raises(InputError, match="packed to a hundredth at most"):
            find_images(str(tmp_path / name))
    header = tarfile.TarInfo("cat/0.png")
    header.type, header.size = tarfile.XHDTYPE, 2**32  # a header of 4 GiB before the file's own
    (tmp_path / "a.tar").write_bytes(header.tobuf(tarfile.GNU_FORMAT) + bytes(2**12))
    with pytest.raises(InputError, match=r"is damaged: got a part of 4,294,967,296 bytes"):
        find_images(str(tmp_path / "a.tar"))


def test_labels_of_any_length_are_not_taken(tmp_path):
    (tmp_path / "a.csv").write_text(f"a.png,{'9' * 5000}\n")
    with pytest.raises(InputError, match=r"a label: got 999.* at most 1,000 characters"):
        find_images(str(tmp_path / "a.csv"))


def test_archives_are_read_without_unpacking_them(tmp_path):
    folder = classes(tmp_path / "all")
    with tarfile.open(tmp_path / "a.tar.xz", "w:xz") as archive:
        archive.add(folder, "some/all")
        link = tarfile.TarInfo("some/all/cat/out.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for path in folder.rglob("*.png"):
            archive.write(path, path.relative_to(folder))
    for name in ("a.tar.xz", "a.zip"):
        assert as_set(read_images(str(tmp_path / name), READER)) == ALL
    (tmp_path / "a.tar.xz").write_bytes((tmp_path / "a.tar.xz").read_bytes()[:200])
    with pytest.raises(InputError, match="damaged"):
        find_images(str(tmp_path / "a.tar.xz"))


def test_broken_files_are_skipped_and_named_once(tmp_path, caplog):
    folder = classes(tmp_path / "all")
    (folder / "cat" / "text.png").write_text("words")
    (folder / "cat" / "cut.jpg").write_bytes((folder / "cat" / "00.png").read_bytes()[:60])
    Image.new("RGB", (1, 1)).save(folder / "dog" / "dot.png")
    (folder / "dog" / "empty.gif").write_bytes(b"")
    (folder / "dog" / "bomb.png").write_bytes(claims(50_000, 50_000))
    (folder / "dog" / "large.png").write_bytes(claims(10_000, 10_000))
    (folder / "README.txt").write_text("words")
    (folder / "cat" / ".hidden.png").write_text("words")
    picture(50).save(tmp_path / "outside.png")
    (folder / "dog" / "link.png").symlink_to(tmp_path / "outside.png")
    (folder / "loop").symlink_to(tmp_path)
    (folder / "cat" / "same.png").symlink_to(folder / "cat" / "00.png")
    listing = find_images(str(folder))
    assert listing.others == ["README.txt"]
    assert listing.problems == {
        "loop": "a link to a folder", "dog/link.png": "a link out of the folder",
    }  # fmt: skip
    data = ImagesData(folder=str(folder), held_out=3)
    with caplog.at_level(logging.WARNING):
        splits = load_images(data, READER)
    assert set.union(as_set(splits.train), as_set(splits.valid)) == ALL
    [line] = caplog.messages
    assert line.startswith(f"data: 8 of 39 files in {folder} skipped: loop (a link to a folder)")
    assert line.endswith("and 5 more")
    with pytest.raises(InputError, match="and 5 more"):
        load_images(data.model_copy(update={"on_bad": "stop"}), READER)


def test_a_file_replaces_the_folder_of_the_recipe():
    assert load("own/images").data.folder == "images"
    data = load("own/images", ["data.file=a.npz"]).data
    assert (data.folder, data.file) == (None, "a.npz")
    data = load("tiny/digits", ["data.folder=mine"]).data
    assert (data.kind, data.folder, data.shift) == ("images", "mine", 0)
    with pytest.raises(InputError, match="one of them"):
        load("own/images", ["data.file=a.npz", "data.folder=mine"])


def test_names_that_are_not_utf_8_are_spelled_out(tmp_path):
    folder = classes(tmp_path / "all", 4)
    picture(0).save(os.fsdecode(os.fsencode(folder / "cat") + b"/\xff\n.png"))
    names = [entry.name for entry in find_images(str(folder)).files]
    assert r"cat/\udcff\n.png" in names
    assert len(read_images(str(folder), READER)) == 5


def test_what_has_no_classes_is_refused(tmp_path):
    for folder, message in {
        "none": "no such file or folder",
        "empty": "no image",
        "flat": "no folders",
        "one": "'cat' alone",
    }.items():
        if folder != "none":
            (tmp_path / folder).mkdir()
        if folder == "flat":
            picture(0).save(tmp_path / folder / "a.png")
        if folder == "one":
            classes(tmp_path / folder, 10, names=("cat",))
        with pytest.raises(InputError, match=message):
            load_images(ImagesData(folder=str(tmp_path / folder)), READER)


def test_images_that_do_not_fit_in_memory_are_decoded_when_asked_for(tmp_path, monkeypatch):
    data = ImagesData(folder=str(classes(tmp_path / "all")), held_out=3)
    in_memory = load_images(data, READER)
    monkeypatch.setattr(decoding, "MOST_KEPT", 100)
    lazy = load_images(data, READER)
    assert not isinstance(lazy.train.values, np.ndarray)
    assert lazy.train.values.shape == in_memory.train.values.shape
    for rows in ([5, 1, 1], slice(2, 4), np.array([0])):
        assert np.array_equal(lazy.train.values[rows], in_memory.train.values[rows])
    assert statistics(lazy.train.values) == statistics(in_memory.train.values)
    assert lazy.checksums == in_memory.checksums
    assert lazy.train.values[[]].shape == (0, 3, 6, 5)


@pytest.fixture
def lazy(monkeypatch):
    monkeypatch.setattr(decoding, "MOST_KEPT", 100)


@pytest.mark.usefixtures("lazy")
def test_an_image_that_is_replaced_while_it_is_used_is_refused_by_name(tmp_path):
    folder = classes(tmp_path / "all")
    values = read_images(str(folder), READER).values
    before = values[range(30)]
    file = folder / "cat" / "02.png"
    later = file.stat().st_mtime_ns + 10**9
    os.utime(file, ns=(later, later))
    assert np.array_equal(values[range(30)], before)  # touched, with the same content
    old = file.read_bytes()
    picture(99).save(file)
    assert np.array_equal(values[[0, 2]], before[[0, 2]])  # others are as they were
    for rows in ([1], slice(0, 4), range(30)):
        with pytest.raises(InputError, match=r"cat/02\.png has changed since it was first read: "):
            values[rows]
    with pytest.raises(InputError, match=r"cat/02\.png has changed"):
        values.subset([5, 1])[[1]]
    file.write_bytes(old)
    assert np.array_equal(values[range(30)], before)
    file.unlink()
    with pytest.raises(InputError, match=r"cat/02\.png: no such file"):
        values[[1]]


@pytest.mark.usefixtures("lazy")
@pytest.mark.parametrize("name", ["all.zip", "all.tar", "all.npz"])
def test_images_of_one_file_are_in_memory_and_stay_as_they_were(name, tmp_path):
    file = tmp_path / name
    if name == "all.npz":
        np.savez(file, images=[np.asarray(picture(n)) for n in range(6)], labels=[0, 1] * 3)
    else:
        shutil.make_archive(str(tmp_path / "all"), name[4:], classes(tmp_path / "folder", 6))
    values = read_images(str(file), READER).values
    before = values[range(6)]
    file.write_bytes(b"something else")
    assert np.array_equal(values[range(6)], before)


def test_mean_and_deviation_are_those_of_the_pixels():
    values = np.random.default_rng(0).integers(0, 256, (40, 3, 6, 5), dtype=np.uint8)
    mean, deviation = statistics(values)
    floats = values / 255
    assert mean == pytest.approx(floats.mean(axis=(0, 2, 3)), abs=1e-4)
    assert deviation == pytest.approx(floats.std(axis=(0, 2, 3)), abs=1e-4)
    assert statistics(np.zeros((2, 1, 3, 3), np.uint8)) == ((0.0,), (0.01,))


def test_large_photographs_are_decoded_at_a_part_of_their_size(tmp_path):
    left = np.tile(np.linspace(0, 255, 1600).astype(np.uint8), (1200, 1))
    Image.fromarray(left).convert("RGB").save(tmp_path / "large.jpg", quality=95)
    quick, whole = READER.bytes_of(tmp_path / "large.jpg"), READER.pixels(tmp_path / "large.jpg")
    assert np.abs(quick / 255 - whole).max() < 0.02


def test_transparency_is_put_on_white():
    clear = Image.new("RGBA", (5, 6), (255, 0, 0, 0))
    half = Image.new("RGBA", (5, 6), (0, 0, 0, 128))
    assert (READER.pixels(clear) == 1).all()
    assert READER.pixels(half).mean() == pytest.approx(0.5, abs=0.01)
    palette = clear.convert("P")
    palette.info["transparency"] = palette.getpixel((0, 0))
    assert (GREY.pixels(palette) == 1).all()


def test_of_an_animation_the_first_frame_is_read(tmp_path):
    frames = [Image.new("RGB", (5, 6), colour) for colour in ("black", "white")]
    frames[0].save(tmp_path / "it.gif", save_all=True, append_images=frames[1:])
    assert READER.pixels(tmp_path / "it.gif").max() == 0
