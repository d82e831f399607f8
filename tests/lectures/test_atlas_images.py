"""Figures of images: patches as tokens, the sums of the lectures, and learned positions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from regard.errors import InputError
from regard_lectures import FIGURES, results, show
from regard_lectures.figures import similarity
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


@pytest.mark.slow
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
    assert problems(show("patches", patch=2).figure) == []
    with pytest.raises(InputError, match="divide 64"):
        show("patches", patch=3)
    with pytest.raises(InputError, match="reads images"):
        show("patches", model="tiny/translate")


def test_anything_becomes_tokens():
    drawn = show("anything", dim=7)
    assert problems(drawn.figure) == []
    assert drawn.numbers["chunks"] == [16, 8, 12]
    assert drawn.numbers["numbers_of_a_chunk"] == [192, 129 * 8, 5]


def test_positions_that_are_near_become_alike():
    stored = results.stored("similarity", FIGURES["similarity"].read({}))
    means = stored["by_distance"]
    assert means[0] > 0.3
    assert means[0] > means[1] > means[2] > means[3]


def test_cosines_are_those_of_each_two_positions():
    table = torch.randn(6, 4)
    result = similarity._cosines(table, (2, 3))
    for i in range(6):
        for j in range(6):
            expected = F.cosine_similarity(table[i], table[j], dim=0)
            assert result["cosines"][i][j] == pytest.approx(float(expected), abs=1e-4)
    assert len(result["by_distance"]) == 2
    with pytest.raises(InputError, match="learned"):
        show("similarity", model="tiny/translate")
