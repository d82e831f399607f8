"""The figures of part 3: look-up beside attention, costs of scores and heads, a head's question."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from matplotlib.text import Text
from torch.utils.flop_counter import FlopCounterMode

import regard
from regard.data.synthetic.grammar import corpus as grammar
from regard.data.text.pairs import Pair
from regard.errors import InputError
from regard.layers import Attention, DotScore
from regard.models.mode import evaluating
from regard_lectures import show
from regard_lectures.figures.costs import attention_flops, words_costs
from regard_lectures.figures.endings import asked_of
from regard_lectures.figures.growth import restricted, words_growth
from regard_lectures.figures.lookup import look_up, nearest
from regard_lectures.figures.pair import fresh_scores, shared_words
from regard_lectures.timing import peak_bytes
from tests.legible import problems, texts


def test_a_look_up_has_one_key_and_none_where_nothing_may_be_looked_at():
    weights = torch.tensor([[[[0.2, 0.5, 0.3], [0.0, 0.0, 0.0]], [[0.9, 0.1, 0.0], [0, 0.4, 0.6]]]])
    assert nearest(weights).tolist() == [[[[0, 1, 0], [0, 0, 0]], [[1, 0, 0], [0, 0, 1]]]]
    changed = look_up("decoder.0.self", 1).change(weights)
    assert torch.equal(changed[:, 0], weights[:, 0])
    assert torch.equal(changed[:, 1], nearest(weights[:, 1]))


@pytest.mark.slow
def test_the_look_up_is_an_argmax_in_place_of_the_softmax(monkeypatch):
    drawing = show("lookup", model="tiny/translate", pairs=6, head="encoder.0.self.2")
    numbers = drawing.numbers
    soft, hard = (np.array(numbers[f"weights_{name}"]) for name in ("softmax", "nearest"))
    assert np.array_equal(hard.argmax(1), soft.argmax(1))
    assert np.array_equal(hard.sum(1), np.ones(len(hard)))
    assert set(np.unique(hard)) == {0, 1}
    pipeline = regard.load("tiny/translate", device="cpu")
    pairs = grammar.splits(pairs=2000, held_out=6, seed=0).tests["combinations"]
    batch = pipeline.task.encode(pairs).batch(range(6))

    def loss() -> float:
        with evaluating(pipeline.model):
            logits = pipeline.model(*batch.sides)
        return float(F.cross_entropy(logits, batch.targets.ids))

    def attend(_self, q, k, v, mask, *_):
        """For each query, the value of the allowed key with the largest product."""
        allowed = mask.dense(q.shape[2], k.shape[2])
        scores = q @ k.transpose(-2, -1)
        scores = scores if allowed is None else scores.masked_fill(~allowed, float("-inf"))
        best = scores.argmax(-1)[..., None].expand(*q.shape)
        return v.gather(2, best)

    assert numbers["sets"] == ["softmax", "one head", "encoder", "decoder", "cross", "all heads"]
    assert numbers["loss"][0] == pytest.approx(loss(), abs=1e-4)
    monkeypatch.setattr(DotScore, "attend", attend)
    assert numbers["loss"][-1] == pytest.approx(loss(), abs=1e-4)
    texts = [pair.source for pair in pairs]
    right = [a == b.target for a, b in zip(pipeline.translate(texts, beam=1), pairs, strict=True)]
    assert numbers["exact"][-1] == pytest.approx(100 * np.mean(right))


@pytest.mark.slow
def test_a_look_up_takes_own_sentences_and_pairs(tmp_path):
    (tmp_path / "pairs.tsv").write_text(
        "The dog sleeps.\tDer Hund schläft.\nI sleep.\tIch schlafe.\n"
    )
    drawing = show(
        "lookup", text="The dog sleeps.", model="tiny/translate", data=str(tmp_path / "pairs.tsv")
    )
    assert drawing.numbers["pairs"] == 2
    assert drawing.numbers["translations"][0] == "Der Hund schläft."
    assert problems(drawing.figure) == []
    with pytest.raises(InputError, match="no such site"):
        show("lookup", model="tiny/translate", head="encoder.9.self.0", pairs=2)


def test_the_peak_of_a_call_is_what_it_had_at_once():
    def call():
        first = torch.ones(1000)
        del first
        return torch.ones(500) + torch.ones(500)

    assert peak_bytes(call) == 3 * 500 * 4


@pytest.mark.parametrize("heads", [1, 4])
def test_heads_of_a_share_of_the_width_multiply_as_many_numbers_as_one(heads):
    x = torch.randn(1, 12, 32)
    theirs = torch.nn.MultiheadAttention(32, heads, batch_first=True, bias=False)
    with FlopCounterMode(display=False) as counted:
        theirs(x, x, x)
    assert attention_flops(Attention(32, heads), 12) == counted.get_total_flops()


@pytest.mark.slow
def test_additive_scores_are_slower_and_larger_than_dot_products():
    drawing = show("costs", length=128, dim=16, heads=4, rounds=3)
    numbers = drawing.numbers
    assert numbers["lengths"] == [32, 64, 128]
    pairs = np.array(numbers["lengths"]) ** 2
    assert np.all(np.array(numbers["bytes_additive"]) >= 2 * 16 * 4 * pairs)  # before, after tanh
    assert np.all(np.array(numbers["bytes_dot_product"]) >= 2 * 4 * pairs)  # scores and weights
    assert numbers["bytes_dot_product_fused"][-1] < numbers["bytes_dot_product"][-1]
    assert numbers["additive_over_dot_bytes"] > 5
    assert numbers["additive_over_dot_seconds"][0] > 3
    assert len(set(numbers["flops_heads_narrow"])) == 1
    single, double, fourfold = numbers["flops_heads_full"]
    assert (double, fourfold) == (2 * single, 4 * single)
    assert f"{numbers['additive_over_dot_bytes']:.1f} × the memory" in drawing.caption
    with pytest.raises(InputError, match="heads: got 6, expected a power of 2"):
        show("costs", heads=6)


def test_times_that_differ_by_less_than_their_spread_get_no_verdict():
    numbers = {
        "rounds": 9, "dim": 64, "lengths": [256], "heads": [1, 8], "additive_over_dot_bytes": 57.0,
        "additive_over_dot_seconds": [80.0, 70.0, 95.0], "seconds_heads_narrow": [[1.3, 0.9, 1.7]],
    }  # fmt: skip
    words = words_costs(numbers)
    assert words.title == "Additive scores take 80 × the time of dot products"  # nothing of heads
    assert "0.9 to 1.7 × the time of one of 512: these times cannot tell" in words.caption
    numbers |= {"additive_over_dot_seconds": [1.3, 0.9, 1.7]}
    assert "cannot tell" in words_costs(numbers).title
    numbers |= {"additive_over_dot_seconds": [80.0, 80.0, 80.0], "rounds": 1}
    assert "cannot tell" in words_costs(numbers).title


def test_costs_of_our_own_sizes_can_be_read():
    drawing = show("costs", length=64, dim=4, heads=4, rounds=1)
    assert "At 64 tokens" in drawing.caption
    assert "4 heads of 4 take" in drawing.caption
    assert problems(drawing.figure) == []


def test_exponents_with_overlapping_ranges_are_not_told_apart():
    numbers = {
        "rounds": 5, "lengths": [4096], "attention_over_recurrent": [[1.0, 0.5, 2.0]],
        "attention_is_slower_from": 4096,
        "exponent_of_time": {"attention": [1.5, 1.1, 1.9], "recurrent": [1.0, 0.9, 1.2]},
    }  # fmt: skip
    words = words_growth(numbers)
    assert words.title == "Attention's time cannot be told to grow faster than a recurrent layer's"
    assert "cannot tell which of them is slower at 4,096" in words.caption
    numbers["attention_over_recurrent"] = [[3.0, 2.8, 3.1]]
    assert (
        "takes longer from 4,096 tokens on: at 4,096, 2.8 to 3.1 ×" in words_growth(numbers).caption
    )


@torch.no_grad()
def test_restricted_attention_is_attention_with_a_mask():
    q, k, v = torch.randn(3, 24, 8)
    block = torch.arange(24) // 4
    near = (block[:, None] - block == 0) | (block[:, None] - block == 1)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, near)
    torch.testing.assert_close(restricted(q, k, v, 4), expected, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_the_cost_of_attention_grows_with_the_square_of_the_length():
    numbers = show("growth", length=4096, dim=32, rounds=3).numbers
    time = numbers["exponent_of_time"]
    assert time["attention"][0] == pytest.approx(2, abs=0.35)
    assert time["recurrent"][0] == pytest.approx(1, abs=0.25)
    stored, fused = (
        math.log2(numbers[f"bytes_{kind}"][-1] / numbers[f"bytes_{kind}"][-3]) / 2
        for kind in ("attention_stored_weights", "attention")
    )
    assert stored == pytest.approx(2, abs=0.1)
    assert fused < 1.3  # buffers of a fixed size, and a result of n rows
    assert numbers["steps_in_turn"]["recurrent"] == 4096
    assert numbers["longest_path"] == {
        "recurrent": 4096, "convolution": 2048, "attention": 1, "restricted_attention": 127,
        "attention_stored_weights": 1,
    }  # fmt: skip


def test_an_adjective_is_found_with_its_ending_and_the_words_before():
    asked = asked_of(Pair("I saw a small dog yesterday.", "Ich sah gestern einen kleinen Hund."))
    assert (asked.noun, asked.before, asked.stem) == (4, "Ich sah gestern einen", "klein")
    assert asked.ending == "en"
    assert asked.forms()[2] == "Ich sah gestern einen kleiner"
    assert asked_of(Pair("The dog is small.", "Der Hund ist klein.")) is None
    assert asked_of(Pair("The small dog saw a small cat.", "Der kleine Hund sah eine …")) is None


@pytest.mark.slow
def test_the_head_that_asks_for_adjectives_and_the_endings_without_it():
    drawing = show("question", model="tiny/translate", pairs=8)
    numbers = drawing.numbers
    pipeline = regard.load("tiny/translate", device="cpu")
    asked = [
        question for question in map(asked_of, grammar.sample(320, 0)) if question is not None
    ][:8]
    head = numbers["head"]
    weights, endings = [], []
    for question in asked:
        table = pipeline.look(question.source, beam=1).site(head.rpartition(".")[0])
        words = re.findall(r"[\w-]+|[^\w\s]", question.source)[
            question.noun - 1 : question.noun + 1
        ]
        [noun] = [
            n for n in range(1, len(table.queries)) if [*table.queries[n - 1 : n + 1]] == words
        ]
        weights.append(table.weights[int(head[-1]), noun, noun - 1])
        # The endings one by one, each word a token of this model.
        target = pipeline.vocabulary.target
        ids = [target.encode(form)[-1] for form in question.forms()]
        before = [target.begin, *target.encode(question.before)]
        source = pipeline.vocabulary.source.encode(question.source)
        logits = pipeline.logits(source, before)[-1]
        endings.append(
            int(logits[ids].argmax()) == ("e", "en", "er", "es", "em").index(question.ending)
        )
    assert max(numbers["weight"]) == pytest.approx(np.mean(weights), abs=1e-4)
    assert numbers["failed_with_all"] == pytest.approx(100 * (1 - np.mean(endings)))
    assert numbers["heads"] == [f"encoder.0.self.{n}" for n in range(8)]
    said = "not clearly more" if not numbers["stands_out"] else ": clearly more"
    assert said in drawing.caption
    assert "tiny/translate: 0.7M parameters" in drawing.limits


@pytest.mark.slow
def test_a_sentence_of_other_words_is_read_by_a_translator_and_unknown_words_are_marked():
    text = "The old xylophone saw a small cat, which nobody in this house had ever seen before."
    drawing = show("question", model="tiny/translate", pairs=4, text=text)
    assert "xylophone" in drawing.numbers["unknown"]
    assert "* unknown to the model: " in drawing.caption
    shown = " ".join(item.get_text() for item, _ in texts(drawing.figure))
    assert "10 of 16 words" in shown
    assert "xylophone*" in shown
    assert problems(drawing.figure) == []


@pytest.mark.parametrize("text", [None, "The old dog sleeps / today the old dog sleeps a lot"])
def test_scores_of_words_elsewhere_stay_with_relative_positions_alone(text):
    drawing = show("pair", text=text, seed=1)
    numbers = drawing.numbers
    for scheme in ("rotary", "buckets"):
        assert numbers[f"largest_difference_{scheme}"] < 1e-5
    for scheme in ("sinusoidal", "learned"):
        assert numbers[f"largest_difference_{scheme}"] > 0.01
        first, second = np.array(numbers[f"scores_{scheme}"])
        assert np.abs(first - second).max() <= numbers[f"largest_difference_{scheme}"] + 1e-6
    assert problems(drawing.figure) == []
    assert "stay with buckets and rotary, change with sinusoidal and learned" in drawing.title


def test_scores_without_positions_are_products_of_the_words_alone():
    shared = shared_words("I walk my dog every day / every single day I walk my dog")
    assert (shared.words, shared.starts, shared.run) == (["I", "walk", "my", "dog"], (0, 3), 4)
    plain = fresh_scores(shared, "none", 0)
    assert plain.shape == (2, 4, 4, 4)
    assert torch.allclose(plain[0], plain[1], atol=1e-6)


def test_the_second_half_of_a_single_sentence_is_moved_to_the_front():
    drawing = show("pair", text="The grandmother's unbelievably old neighbour didn't come home.")
    numbers = drawing.numbers
    assert numbers["sentences"][1].startswith("neighbour didn't come home. The grandmother's")
    assert (numbers["words"][0], numbers["starts"]) == ("The", [0, 4])
    assert max(numbers["largest_difference_rotary"], numbers["largest_difference_buckets"]) < 1e-5
    assert problems(drawing.figure) == []


def test_the_largest_change_that_is_said_is_the_largest_that_is_drawn():
    drawing = show("pair", text="Every dog barks now. / Now every dog barks", seed=2, head=3)
    numbers = drawing.numbers
    before, after = np.array(numbers["scores_sinusoidal"])
    query, key = np.unravel_index(np.abs(before - after).argmax(), before.shape)
    words = numbers["words"]
    assert (
        f"{words[query]} → {words[key]} from {before[query, key]:.2f}".replace("-", "−")
        in drawing.caption
    )
    cells = {text.get_text() for text in drawing.figure.findobj(Text)}
    expected = f"{before[query, key]:.2f}\n{after[query, key]:.2f}".replace("-", "−")
    assert expected in cells


@pytest.mark.slow
def test_a_trained_models_scores_are_those_of_the_steps():
    text = "The dog sleeps. / I know that the dog sleeps."
    numbers = show("pair", text=text, model="tiny/translate", head=2).numbers
    assert numbers["words"] == ["dog", "sleeps."]  # The and the are two words of this model
    for row, sentence in enumerate(part.strip() for part in text.split("/")):
        steps = show("steps", model="tiny/translate", text=sentence, part="encoder", head=2).numbers
        start = numbers["starts"][row]
        scaled = np.array(steps["scaled"])[start : start + 2, start : start + 2]
        assert np.array(numbers["scores_tiny/translate"])[row] == pytest.approx(scaled, abs=1e-4)
    with pytest.raises(InputError, match="two sentences that share two words"):
        show("pair", text="one sentence")
    with pytest.raises(InputError, match="head: got 9"):
        show("pair", head=9)


def test_a_word_that_is_another_token_in_the_second_sentence_is_left_out():
    drawing = show("pair", text="Dogs are always happy at home.", model="small/translate", head=1)
    assert drawing.numbers["words"] == ["are", "always"]  # at the start no space stands before it
    assert "Left out, another token there: Dogs." in drawing.caption
    assert problems(drawing.figure) == []


def test_words_that_a_model_does_not_know_are_said():
    text = "The dog sleeps on a zebra / I know that the dog sleeps on a zebra"
    drawing = show("pair", text=text, model="tiny/translate")
    assert "Unknown to tiny/translate: zebra." in drawing.caption
    assert "the first 4 of 5 shared words" in drawing.caption
    assert "change in tiny/translate" in drawing.title
    assert problems(drawing.figure) == []
