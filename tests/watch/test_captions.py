"""A model of transformers that captions images: its words, and where in the image they looked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.errors import InputError
from regard.explain.images.caption_look import CaptionLook
from tests.their_captioners import VOCAB, build, save

transformers = pytest.importorskip("transformers")
WORDS = ["<start>", "a", "red", "bird", "sits"]
CROSS = "decoder.transformer.h.1.crossattention"


@pytest.fixture(scope="module")
def model() -> Any:
    return build("deit-wide")


@pytest.fixture
def inputs() -> dict[str, torch.Tensor]:
    return {
        "pixel_values": torch.randn(2, 3, 24, 24),
        "decoder_input_ids": torch.randint(VOCAB, (2, len(WORDS) - 1)),
    }


@torch.no_grad()
def test_cross_attention_of_every_layer_is_theirs_and_no_bit_changes(model, inputs):
    plain = model(**inputs).logits
    with regard.watch(model) as seen:
        assert torch.equal(model(**inputs).logits, plain)
    model.set_attn_implementation("eager")
    theirs = model(**inputs, output_attentions=True)
    model.set_attn_implementation("sdpa")
    for layer in range(2):
        weights = seen.weights[f"decoder.{layer}.cross"]
        assert weights.shape == (2, 2, 4, 11)  # 9 patches, [CLS] and [DIST]
        torch.testing.assert_close(weights, theirs.cross_attentions[layer], rtol=0, atol=1e-5)
    assert torch.equal(seen.weights[CROSS], seen.weights["decoder.1.cross"])
    with regard.watch(model, knock_out=["decoder.1.cross.1"]):
        assert not torch.equal(model(**inputs).logits, plain)


@torch.no_grad()
def test_each_word_has_a_map_of_the_image(model, inputs, tmp_path):
    with regard.watch(model) as seen:
        model(**inputs)
    mean, std = [0.4, 0.5, 0.6], [0.2, 0.3, 0.25]
    processor = SimpleNamespace(image_mean=mean, image_std=std)
    look = seen.look(inputs["pixel_values"], WORDS, row=1, processor=processor)
    assert isinstance(look, CaptionLook)
    assert look.image.grid == (3, 3)
    scale, shift = (torch.tensor(numbers).view(3, 1, 1) for numbers in (std, mean))
    colours = (inputs["pixel_values"][1] * scale + shift).clamp(0, 1)
    assert np.allclose(look.image.pixels, colours, atol=1e-6)
    cross = look.site("decoder.1.cross")
    assert [*cross.queries] == WORDS[1:]
    assert [*cross.keys[:3]] == ["[CLS]", "[DIST]", "0,0"]
    [first, *_] = look.word_maps(look.choose(layer=1))  # the mean over heads
    weights = seen.weights[CROSS][1, :, 0, 2:].mean(0).view(3, 3)
    assert np.allclose(first / first.sum(), weights / weights.sum(), atol=1e-5)
    for ending in ("png", "gif", "html"):
        look.save(tmp_path / f"words.{ending}", layer=1, head=0)
        assert (tmp_path / f"words.{ending}").stat().st_size > 1000
    assert "bird" in look._repr_html_()
    with pytest.raises(InputError, match="a map of the image for each word"):
        look.test()


@torch.no_grad()
def test_cross_attention_alone_is_enough(model, inputs):
    with regard.watch(model, "*.crossattention", heads=[1]) as seen:
        model(**inputs)
    assert [*seen.weights] == [CROSS.replace("1", "0"), CROSS]
    look = seen.look(inputs["pixel_values"], WORDS)
    assert look.image.grid == (3, 3)
    assert look.maps[0].weights.shape == (1, 4, 11)
    with regard.watch(model, "*.attn") as seen:  # sees no patches
        model(**inputs)
    assert seen.look(inputs["pixel_values"], WORDS).picture is None


@pytest.mark.parametrize("beams", [1, 3])
def test_what_it_writes_is_joined(tmp_path, beams):
    from transformers import AutoTokenizer

    model = save("vit", tmp_path, max_new_tokens=6, suppress_tokens=[VOCAB - 1])
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    pixels = {"pixel_values": torch.randn(1, 3, 24, 24)}
    how = {"num_beams": beams, "return_dict_in_generate": True, "output_scores": True}
    with regard.watch(model) as seen:
        out = model.generate(**pixels, **how)
    rows = out.beam_indices[0] if beams > 1 else None
    assert seen.joined(CROSS, rows).shape == (1, 2, 6, 10)
    look = seen.look(pixels, out, tokenizer=tokenizer, rows=rows)
    written = "".join(look.site("decoder.0.cross").queries).replace(" ", "")
    assert written == tokenizer.decode(out.sequences[0, 1:]).replace(" ", "")
