"""Train short, test long: what the texts are, how they are measured, and which positions hold."""

from __future__ import annotations

import numpy as np
import torch

from regard.inputs.arrays import Ragged
from regard_lectures import show
from regard_lectures.figures import lengths
from tests.legible import problems


def test_in_training_a_pattern_comes_again_and_then_another():
    texts = lengths.draw_texts(200, torch.Generator().manual_seed(0))
    assert texts.shape == (200, lengths.TRAINED + 1)
    turns = 0
    for text in texts.tolist():
        broken = []  # positions whose next token is not the one that followed before
        for position in range(len(text) - 1):
            before = [i for i in range(position) if text[i] == text[position]]
            if before and text[before[-1] + 1] != text[position + 1]:
                broken.append(position)
        assert len(broken) <= 1
        for position in broken:  # there the second pattern begins, with tokens of its own
            assert not set(text[: position + 1]) & set(text[position + 1 :])
        turns += len(broken)
        assert len(set(text)) <= 2 * lengths.PERIODS[1]
    assert 60 < turns < 200


def test_a_part_of_a_long_text_has_a_pattern_of_its_own():
    texts, told = lengths.draw_parts(50, torch.Generator().manual_seed(0))
    assert texts.shape == told.shape == (50, lengths.LONGEST)
    for text, can in zip(texts.tolist(), told.tolist(), strict=True):
        seen: set[int] = set()
        for start in range(0, lengths.LONGEST, lengths.PART):
            part = text[start : start + lengths.PART]
            assert not seen & set(part)
            seen |= set(part)
            for position in range(lengths.PART):
                before = part[position] in part[:position]
                assert can[start + position] == (before and position < lengths.PART - 1)


class Copier:
    """Names the token after the last earlier occurrence of the current one, else token 0."""

    def __call__(self, texts: Ragged) -> torch.Tensor:
        guesses = []
        for text in texts.ids.view(len(texts.lengths), -1).tolist():
            for position, token in enumerate(text):
                earlier = [i for i in range(position) if text[i] == token]
                guesses.append(text[earlier[-1] + 1] if earlier else 0)
        return torch.nn.functional.one_hot(torch.tensor(guesses), lengths.VOCAB).float()


def test_one_who_copies_from_the_text_is_always_right(monkeypatch):
    monkeypatch.setattr(lengths, "UNSEEN", 8)
    assert lengths.further_on(Copier(), 0) == [100] * 8  # type: ignore[arg-type]
    assert lengths.further_apart(Copier(), 0) == [100] * len(lengths.APART)  # type: ignore[arg-type]


def test_relative_positions_hold_on_longer_texts_and_absolute_ones_do_not():
    drawing = show("long")
    numbers = drawing.numbers
    on, apart = (
        {scheme: np.array(numbers[f"further_{test}_{scheme}"]) for scheme in lengths.SCHEMES}
        for test in lengths.TESTS
    )  # (tries, lengths)
    trained = lengths.APART.index(lengths.TRAINED)
    for scheme in ("buckets", "rotary", "learned"):
        assert on[scheme].shape == (3, 8)
        assert on[scheme][:, 0].min() > 95, scheme
        assert apart[scheme][:, trained].min() > 90, scheme
    for scheme in ("rotary", "sinusoidal", "learned"):  # rotary: unless its angles are stretched
        assert on[scheme][:, -1].max() < 20
        assert apart[scheme][:, -1].max() < 60
    for scheme in ("sinusoidal", "learned"):  # just beyond the length of the training
        after = lengths.TRAINED // lengths.PART
        assert on[scheme][:, after].max() < 20 < 90 < on["rotary"][:, after].min()
    assert min(numbers["holds_on_buckets"]) > max(numbers["holds_on_rotary"])
    assert "T5's relative positions hold furthest; rotary longer than absolute" in drawing.title


def test_a_training_that_failed_is_said_and_nothing_is_claimed_of_what_overlaps():
    drawing = show("long")
    spans = {min(drawing.numbers[f"holds_on_{scheme}"]) for scheme in lengths.SCHEMES}
    assert 0 in spans
    assert "0 where training failed" in drawing.caption
    assert "sinusoidal 0 to 32 / 0 to 32" in drawing.caption
    assert "no positions never" in drawing.caption
    numbers = dict(drawing.numbers)
    numbers["holds_on_rotary"] = [48, 128, 48]  # as long as T5's in one training
    words = lengths.words_long(numbers)
    assert "further on cannot tell" in words.title
    numbers["holds_apart_rotary"] = [64, 128, 64]
    assert "cannot tell which positions hold furthest" in lengths.words_long(numbers).title


def test_a_small_training_of_ones_own_is_drawn(monkeypatch):
    monkeypatch.setattr(lengths, "UNSEEN", 4)
    drawing = show("long", steps=2, tries=1)
    assert "2 steps" in drawing.limits
    assert "one seed" in drawing.limits
    assert "cannot tell" in drawing.title
    assert problems(drawing.figure) == []
