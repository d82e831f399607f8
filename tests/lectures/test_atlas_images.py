"""Figures of images: patches as tokens, the sums of the lectures, and learned positions."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

import regard
from regard.errors import InputError
from regard_lectures import FIGURES, results, show
from regard_lectures.figures import chunks, similarity
from tests.legible import problems


def test_the_sums_are_those_of_the_lectures():
    drawn = show("entries")
    numbers = drawn.numbers
    assert problems(drawn.figure) == []
    assert numbers["tokens"] == [128**2, 50_176, 196, 256]
    assert numbers["entries"] == [128**4, 224**4, 38_416, 65_536]
    assert numbers["bytes"][2:] == [153_664, 262_144]  # 150 KB and 256 KB
    assert numbers["all_bytes"][0] == 768 * 2**30  # 768 GB
    assert numbers["all_bytes"][2] // 2**20 == 112
    assert numbers["all_bytes"][3] == 192 * 2**20
    texts = " ".join(
        text.get_text() for text in drawn.figure.findobj() if hasattr(text, "get_text")
    )
    for said in ("38,416", "150 KB", "112 MB", "192 MB", "768 GB", "50,176"):
        assert said in texts


def test_sums_of_ones_own_model_say_what_fits():
    drawn = show("entries", image=64, layers=6, heads=8)
    assert drawn.numbers["all_bytes"][1:3] == [4 * 64**4 * 48, 4 * 16**2 * 48]
    assert "3 GB on pixels, 48 KB on patches; both fit 80 GB" in drawn.title
    assert "only these fit 80 GB" in show("entries").title
    assert "rounded down" in drawn.caption
    huge = show("entries", image=4096, layers=1000, heads=1000)
    assert "neither fits" in huge.title
    assert problems(huge.figure) == []


def test_patches_are_projected_as_the_models_do(tmp_path):
    random = np.random.default_rng(0)
    image = random.integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(image).save(tmp_path / "noise.png")
    drawing = show("patches", text=str(tmp_path / "noise.png"), patch=16, dim=5, seed=3)
    torch.manual_seed(3)
    weight = torch.randn(5, 768) / 768**0.5
    pixels = torch.from_numpy(image).permute(2, 0, 1).float()[None] / 255
    expected = F.conv2d(pixels, weight.view(5, 3, 16, 16), stride=16).flatten(2)[0].T
    assert np.allclose(drawing.numbers["tokens"], expected, atol=1e-4)
    assert (drawing.numbers["patches"], drawing.numbers["grid"]) == (16, [4, 4])
    assert problems(drawing.figure) == []
    with pytest.raises(InputError, match="reads images"):
        show("patches", model="tiny/translate")


def photograph(path: Path, width: int, height: int) -> str:
    """Writes an image of waves of colour."""
    down, right = np.mgrid[0:height, 0:width]
    channels = 128 + 127 * np.sin(right / 30), 128 + 127 * np.cos(down / 40), (down + right) % 256
    Image.fromarray(np.stack(channels, -1).astype(np.uint8)).save(path)
    return str(path)


def test_a_photograph_of_224_pixels_has_14_patches_a_side(tmp_path):
    path = photograph(tmp_path / "photo.png", 224, 224)
    drawing = show("patches", text=path)
    numbers = drawing.numbers
    assert (numbers["grid"], numbers["patches"], numbers["numbers_of_a_patch"]) == (
        [14, 14],
        196,
        768,
    )
    assert "read at its own size" in drawing.caption
    torch.manual_seed(0)
    weight = torch.randn(24, 768) / 768**0.5
    pixels = torch.from_numpy(np.array(Image.open(path))).permute(2, 0, 1)[None] / 255
    expected = F.conv2d(pixels, weight.view(24, 3, 16, 16), stride=16).flatten(2)[0].T
    assert np.allclose(numbers["tokens"], expected, atol=1e-4)
    assert problems(drawing.figure) == []


@pytest.mark.parametrize(
    ("width", "height", "patch", "grid"),
    [(450, 300, 8, [19, 28]), (40, 40, 16, [2, 2]), (2000, 70, 5, [1, 32]), (3, 200, 32, [6, 1])],
)
def test_an_image_that_does_not_fit_is_brought_to_whole_patches_and_it_is_said(
    width, height, patch, grid, tmp_path
):
    drawing = show("patches", text=photograph(tmp_path / "a.png", width, height), patch=patch)
    assert drawing.numbers["grid"] == grid
    done = f"brought from {width} × {height} to {grid[1] * patch} × {grid[0] * patch}"
    assert done in drawing.caption
    assert problems(drawing.figure) == []


@pytest.mark.parametrize(("model", "grid"), [("small/digits", [4, 4]), ("small/fashion", [7, 7])])
def test_patches_are_those_of_a_shipped_model_read_by_its_reader(model, grid, tmp_path):
    path = photograph(tmp_path / "photo.jpg", 90, 70)
    drawing = show("patches", text=path, model=model)
    pipeline = regard.load(model, device="cpu")
    source = pipeline.processor.source
    read = source.collate(source.read([path]))
    front = pipeline.model.embed
    with torch.no_grad():
        expected = front.stem(read.values).flatten(2)[0].T
    assert np.allclose(drawing.numbers["tokens"], expected, atol=1e-5)
    assert drawing.numbers["grid"] == grid
    assert "brought from 90 × 70" in drawing.caption
    assert "convolutions make each cell" in drawing.caption
    assert model in drawing.title
    assert model in drawing.limits
    assert problems(drawing.figure) == []


def test_anything_becomes_tokens():
    drawn = show("anything", dim=7)
    assert problems(drawn.figure) == []
    assert drawn.numbers["chunks"] == [16, 8, 12]
    assert drawn.numbers["numbers_of_a_chunk"] == [192, 129 * 8, 5]
    assert {len(token) for tokens in drawn.numbers["tokens"] for token in tokens} == {7}


def wav(path: Path, samples: np.ndarray, rate: int, channels: int = 1) -> str:
    """Writes samples of 16 bits."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())
    return str(path)


def test_a_sound_of_ones_own_is_chopped_into_slices_of_time(tmp_path):
    time = np.arange(2 * 16000) / 16000
    tone = 20000 * np.sin(2 * np.pi * np.where(time < 1, 500, 4000) * time)
    drawing = show("anything", text=wav(tmp_path / "tone.wav", np.repeat(tone, 2), 16000, 2))
    tokens = np.array(drawing.numbers["tokens"][0])
    assert drawing.numbers["inputs"] == ["sound"]
    assert len(tokens) == 16
    first, second = tokens[1:7], tokens[9:15]  # within a tone slices are alike, not across
    assert np.ptp(first, axis=0).max() < 0.2 * np.abs(first.mean(0) - second.mean(0)).max()
    assert "A sound" in drawing.title
    assert problems(drawing.figure) == []
    short = show("anything", text=wav(tmp_path / "short.wav", tone[:40], 16000))
    assert problems(short.figure) == []


@pytest.mark.parametrize(("width", "largest"), [(1, 127 / 128), (2, 1), (3, 1), (4, 1)])
def test_samples_of_every_width_are_read(width, largest, tmp_path):
    path = tmp_path / "a.wav"
    low, high = (0, 255) if width == 1 else (-(2 ** (8 * width - 1)), 2 ** (8 * width - 1) - 1)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(width)
        file.setframerate(8000)
        for sample in (low, high):
            file.writeframes(sample.to_bytes(width, "little", signed=width > 1))
    samples, rate, seconds = chunks.read_sound(path.read_bytes(), "a.wav")
    assert samples.tolist() == pytest.approx([-1, largest], abs=1e-4)
    assert (rate, seconds) == (8000, 2 / 8000)


def test_a_table_of_ones_own_is_chopped_into_rows(tmp_path):
    lines = ["city;people;rain, mm", *(f"c{n};{n};{n % 3},5" for n in range(20)), "last;;1,5"]
    (tmp_path / "cities.csv").write_text("\n".join(lines))
    drawing = show("anything", text=str(tmp_path / "cities.csv"))
    assert drawing.numbers["chunks"] == [12]
    assert drawing.numbers["numbers_of_a_chunk"] == [2]
    for said in ("first 12 of 21 rows", "without 1 column (city)", "1 empty cells"):
        assert said in drawing.caption
    torch.manual_seed(0)
    matrix = torch.randn(2, 24).numpy() / 2**0.5
    people = (np.arange(12) - 9.5) / np.arange(20).std()
    rain = np.array([n % 3 + 0.5 for n in range(20)] + [1.5])
    rain = ((rain - rain.mean()) / rain.std())[:12]
    expected = np.stack((people, rain), 1) @ matrix
    assert np.array(drawing.numbers["tokens"][0]) == pytest.approx(expected, abs=1e-3)
    assert problems(drawing.figure) == []


def test_images_and_texts_of_ones_own_are_chopped_too(tmp_path):
    image = show("anything", text=photograph(tmp_path / "a.png", 450, 300))
    assert image.numbers["chunks"] == [40]
    assert "brought from 450 × 300 to 128 × 80" in image.caption
    text = show("anything", text="The dog saw the dog and Donaudampfschifffahrtsgesellschaft.")
    tokens = np.array(text.numbers["tokens"][0])
    assert np.array_equal(tokens[1], tokens[4])
    assert "Equal to an earlier token: 1." in text.caption
    assert [problems(drawing.figure) for drawing in (image, text)] == [[], []]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"a,b\nx,y\n", "got no column of numbers"),
        ("a.csv", b"", "got no column of numbers"),
        ("a.wav", b"RIFFxxxx", "expected an uncompressed .wav file"),
        ("a.png", b"none", "expected an image"),
        ("a.pdf", b"%PDF", "expected an image, .wav, .csv"),
        ("a.txt", b" ", "a text with words"),
    ],
)
def test_what_cannot_be_chopped_is_refused_in_one_line(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        show("anything", text=str(tmp_path / name))
    with pytest.raises(InputError, match="no such file"):
        show("anything", text=str(tmp_path / "none.wav"))


def test_positions_that_are_near_become_alike():
    stored = results.stored("similarity", FIGURES["similarity"].read({}))
    means = similarity.numbers_of(stored)["by_distance"]
    assert means[0] > 0.3
    assert means[0] > means[1] > means[2] > means[3]


def test_cosines_are_those_of_each_two_positions():
    table = torch.randn(6, 4)
    result = similarity._cosines(table, (2, 3))
    for i in range(6):
        for j in range(6):
            expected = F.cosine_similarity(table[i], table[j], dim=0)
            assert result["cosines"][i][j] == pytest.approx(float(expected), abs=1e-4)
    assert len(similarity.numbers_of({**result, "of": "x"})["by_distance"]) == 2
    with pytest.raises(InputError, match="learned"):
        show("similarity", model="tiny/translate")
