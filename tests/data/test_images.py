"""Images of every kind become the same pixels; what is no image is refused in a line or two."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from regard.data.config import DigitsData
from regard.data.images.augment import augment
from regard.data.synthetic import digits
from regard.errors import InputError
from regard.inputs.images import opening
from regard.inputs.images.ink import SHARE, frame_ink
from regard.inputs.images.opening import open_image
from regard.inputs.images.reader import ImageReader
from regard.inputs.text import Processor
from tests.digits import DRAWN, PENS, draw

WHOLE = ImageReader(height=6, width=4, channels=3)
INK = ImageReader(height=8, width=8, channels=1, mean=(0.5,), std=(0.5,), scaling="ink")
GREY = np.tile(np.linspace(0, 255, 12).astype(np.uint8), (18, 1))  # (18, 12)


def as_bytes(image: Image.Image, kind: str = "PNG", **more) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **more)
    return buffer.getvalue()


def test_a_path_bytes_an_image_and_arrays_are_read_alike(tmp_path):
    image = Image.fromarray(np.stack([GREY, GREY // 2, 255 - GREY], axis=2))
    image.save(tmp_path / "it.png")
    pixels = np.asarray(image)
    items = [
        tmp_path / "it.png",
        str(tmp_path / "it.png"),
        (tmp_path / "it.png").read_bytes(),
        image,
        pixels,
        pixels.astype(np.float64) / 255,
        pixels.astype(np.uint16) * 257,
        torch.from_numpy(pixels.copy()).permute(2, 0, 1),
        torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255,
    ]
    first, *others = WHOLE.collate(WHOLE.read(items)).values
    assert first.shape == (3, 6, 4)
    assert first.abs().max() <= 1
    for other in others:
        assert torch.equal(other, first)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "CMYK", "I;16", "I", "F"])
def test_every_mode_is_read(mode):
    grey = Image.fromarray(GREY)
    if mode in ("I;16", "I"):
        image = Image.fromarray(GREY.astype(np.uint16) * 257)
        image = image if mode == "I;16" else image.convert("I")
    elif mode == "F":
        image = Image.fromarray(GREY.astype(np.float32) / 255)
    else:
        image = (grey.convert("RGB") if mode == "CMYK" else grey).convert(mode)
    near = 140 if mode == "1" else 2  # black and white in dots
    pixels = np.asarray(open_image(image).convert("L"), dtype=int)
    assert np.abs(pixels - GREY).mean() < near
    kind = "TIFF" if mode in ("CMYK", "F", "I") else "PNG"
    again = np.asarray(open_image(as_bytes(image, kind)).convert("L"), dtype=int)
    assert np.abs(again - pixels).max() <= 1


def test_an_image_is_turned_as_its_exif_says():
    image = Image.fromarray(GREY)
    exif = Image.Exif()
    exif[0x0112] = 6  # a camera held upright
    turned = open_image(as_bytes(image, "JPEG", exif=exif, quality=95))
    assert turned.size == (18, 12)
    expected = np.asarray(image.rotate(-90, expand=True), dtype=int)
    assert np.abs(np.asarray(turned, dtype=int) - expected).mean() < 3


def claims(width: int, height: int) -> bytes:
    """A PNG of a few bytes that says it is so large."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = b""
    for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 10)), (b"IEND", b"")):
        check = struct.pack(">I", zlib.crc32(kind + data))
        chunks += struct.pack(">I", len(data)) + kind + data + check
    return b"\x89PNG\r\n\x1a\n" + chunks


PNG = as_bytes(Image.fromarray(GREY))
BAD = {
    "empty": (b"", "got an empty file"),
    "text": (b"a line of text\n", "got no image"),
    "cut": (PNG[: len(PNG) // 2], "is damaged"),
    "huge": (claims(60_000, 60_000), "at most 67,108,864 pixels"),
    "large": (claims(9_000, 9_000), "9,000 x 9,000 pixels"),
    "svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "got no image"),
    "eps": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "got no image"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_whole_image_is_refused_by_name(tmp_path, name):
    data, message = BAD[name]
    file = tmp_path / f"{name}.png"
    file.write_bytes(data)
    for item in (file, data):
        with pytest.raises(InputError) as raised:
            WHOLE.read([item])
        assert message in str(raised.value)
        assert len(str(raised.value).splitlines()) <= 2
    with pytest.raises(InputError, match=name):
        WHOLE.read([file])


def test_places_that_are_no_files_are_refused(tmp_path):
    for path, message in {
        tmp_path / "none.png": "no such file",
        tmp_path: "got a folder",
        "a\0b.png": "got no path",
        "": "got a folder",
    }.items():
        with pytest.raises(InputError, match=message):
            INK.read([path])


def test_a_file_larger_than_any_image_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "MOST_BYTES", 100)
    (tmp_path / "it.png").write_bytes(PNG + b" " * 100)
    with pytest.raises(InputError, match="at most 100"):
        INK.read([tmp_path / "it.png"])


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (3, "expected a path, bytes, a Pillow image or an array"),
        (np.zeros((2, 2, 2, 2)), "height x width"),
        (np.zeros((0, 3)), "at least one pixel"),
        (np.full((3, 3), 2.0), "pixels from 2 to 2"),
        (np.full((3, 3), np.nan), "expected 0 to 1"),
        (np.full((3, 3), -1), "pixels from -1 to -1"),
        (np.zeros((3, 3), dtype=complex), "complex128 numbers"),
    ],
)
def test_other_items_are_refused(item, message):
    with pytest.raises(InputError, match=message):
        open_image(item)


def test_an_image_without_ink_is_refused(tmp_path):
    Image.new("RGB", (30, 30), "white").save(tmp_path / "white.png")
    with pytest.raises(InputError, match=r"white\.png: got one colour"):
        INK.read([tmp_path / "white.png"])


@pytest.mark.parametrize("number", range(0, len(DRAWN), 3))
def test_a_drawing_is_read_alike_whatever_its_size_pen_and_colours(number):
    _, strokes = DRAWN[number]
    usual = frame_ink(draw(strokes, 300, 20, dark=True), 8)
    assert usual.mean() == pytest.approx(SHARE, abs=0.02)
    for side, width in PENS:
        for dark in (True, False):
            drawn = frame_ink(draw(strokes, side, width, dark=dark), 8)
            assert np.abs(drawn - usual).mean() < 0.12
            assert np.corrcoef(drawn.ravel(), usual.ravel())[0, 1] > 0.85


def test_a_drawing_is_read_alike_wherever_it_stands_and_in_any_colour():
    drawn = draw(DRAWN[6][1], 120, 8, dark=True)
    usual = frame_ink(drawn, 8)
    page = Image.new("RGB", (400, 260), (250, 240, 200))
    page.paste((20, 30, 120), (230, 90), mask=drawn.point(lambda value: 255 - value))
    assert np.abs(frame_ink(page, 8) - usual).mean() < 0.03
    for ink in ("black", "white"):  # on nothing
        clear = Image.new("RGBA", drawn.size, (0, 0, 0, 0))
        clear.paste(ink, mask=drawn.point(lambda value: 255 - value))
        assert np.abs(frame_ink(clear, 8) - usual).mean() < 0.03


def test_a_reader_passes_through_json_and_damage_is_named():
    again = Processor.from_json(Processor(INK).to_json())
    assert again.source == INK
    assert again.target is None
    assert again.vocabulary_sizes == ()
    for change, message in {
        '"height":8': '"height":0',
        '"std":[0.5]': '"std":[0.0]',
        '"scaling":"ink"': '"scaling":"run"',
        '"reader":"images"': '"reader":"images","code":"x"',
    }.items():
        damaged = INK.to_json().replace(change, message)
        assert damaged != INK.to_json()
        with pytest.raises(InputError, match=r"tokenizer\.json"):
            Processor.from_json(damaged)


def test_the_folds_part_the_digits_evenly_and_always_the_same():
    tests = []
    for fold in range(5):
        splits = digits.splits(DigitsData(fold=fold))
        again = digits.splits(DigitsData(fold=fold))
        parts = (splits.train, splits.valid, splits.tests["test"])
        assert sum(map(len, parts)) == 1797
        assert np.array_equal(again.train.values, splits.train.values)
        for part in parts:
            counts = [part.labels.count(name) for name in digits.CLASSES]
            assert max(counts) - min(counts) <= max(2, 0.1 * max(counts))
        tests.append({values.tobytes() for values in parts[2].values})
        assert splits.train.values.shape[1:] == (1, 8, 8)
        assert splits.train.values.max() == 1
    assert len(set.union(*tests)) >= 1790  # few are alike
    digest = "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22"
    assert splits.checksums == {"digits": digest}


def test_an_image_is_changed_as_seed_epoch_and_number_say_alone():
    images = torch.from_numpy(digits.splits(DigitsData()).train.values[:6])
    changed = augment(images, [4, 9, 2, 7, 0, 1], seed=3, epoch=5, by=1.0)
    alone = augment(images[[2]], [2], seed=3, epoch=5, by=1.0)
    assert torch.equal(changed[[2]], alone)
    assert changed.min() >= 0
    assert changed.max() <= 1
    for other in (augment(images, [4, 9, 2, 7, 0, 1], 3, 6, 1.0),
                  augment(images, [4, 9, 2, 7, 0, 1], 4, 5, 1.0)):  # fmt: skip
        assert not torch.allclose(other, changed, atol=0.05)
    assert augment(images, range(6), 0, 0, 0.0) is images


def shirt(paper: str, cloth: str, side: int = 280) -> Image.Image:
    """A T-shirt in the middle of a sheet, with room around it."""
    image = Image.new("RGB", (side, side), paper)
    points = [(110, 70), (170, 70), (230, 110), (205, 140), (190, 130), (190, 230), (90, 230),
              (90, 130), (75, 140), (50, 110)]  # fmt: skip
    ImageDraw.Draw(image).polygon([(x * side / 280, y * side / 280) for x, y in points], fill=cloth)
    return image


OBJECT = ImageReader(height=28, width=28, channels=1, mean=(0.5,), std=(0.5,), scaling="object")


@pytest.mark.parametrize(("paper", "cloth"), [("white", "black"), ("black", "white")])
def test_an_object_on_any_plain_background_fills_the_frame_light_on_dark(paper, cloth):
    [pixels] = OBJECT.pixels(shirt(paper, cloth))
    assert pixels.shape == (28, 28)
    assert pixels.max() == pytest.approx(1)
    assert pixels[[0, 0, -1, -1], [0, -1, 0, -1]].max() == 0
    assert (pixels[:, [0, -1]] > 0.1).any()  # its sleeves reach both sides
    assert abs(pixels - OBJECT.pixels(shirt("white", "black", 140))[0]).mean() < 0.03


def test_a_pale_object_keeps_its_shade_and_an_image_of_the_models_size_is_left_alone():
    assert OBJECT.pixels(shirt("white", "silver"))[0].max() == pytest.approx(63 / 255, abs=0.01)
    small = Image.fromarray(np.full((28, 28), 200, np.uint8))
    assert (OBJECT.pixels(small) == np.float32(200) / np.float32(255)).all()
    assert (OBJECT.bytes_of(np.asarray(small)) == 200).all()
    assert np.array_equal(
        OBJECT.bytes_of(shirt("white", "red")),
        np.rint(255 * OBJECT.pixels(shirt("white", "red"))).astype(np.uint8),
    )


def test_an_object_that_is_not_there_is_said_and_so_are_colours():
    with pytest.raises(InputError, match="one colour"):
        OBJECT.pixels(Image.new("RGB", (60, 60), "white"))
    with pytest.raises(ValueError, match="one channel"):
        ImageReader(height=28, width=28, channels=3, scaling="object")


@pytest.mark.parametrize("compression", ["tiff_lzw", "tiff_adobe_deflate", "jpeg", "lzma"])
def test_a_damaged_tiff_is_an_error_of_ours_alone(capfd, compression):
    stream = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(stream, "TIFF", compression=compression)
    whole = stream.getvalue()
    assert open_image(whole).size == (50, 40)
    with pytest.raises(InputError, match="is damaged: got decoder error"):
        open_image(whole[:30] + b"\xff" * 40 + whole[70:])
    assert capfd.readouterr() == ("", "")
