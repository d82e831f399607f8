"""Figures that train for minutes: their stored results, what they measure, and what they show."""

from __future__ import annotations

import ast
import inspect
import json
import math
import random
import textwrap
from importlib import import_module

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.inputs import Ragged
from regard.layers import Tap
from regard.models import Decoder, GPTConfig, evaluating
from regard_lectures import FIGURES, results, show
from regard_lectures.figures import (
    depth,
    finetuning,
    hunger,
    laws,
    lengths,
    pixels,
    prompts,
    question,
    recall,
)
from regard_lectures.figures.phrase_scores import causal_weights, scores_apart
from tests.legible import problems, texts

FIGURES_FOLDER = "regard_lectures.figures"
FOLDERS = (FIGURES_FOLDER, "regard_lectures.claims")
QUICK = {"bilinear"}
"""Figures that train at each call, in about a second."""
OTHERWISE = {"orthogonal"}
"""Figures that descend without an optimizer."""
TIMED = {"flops"}
"""Figures whose numbers are times: no two runs have the same."""
STORED = [name for name, figure in FIGURES.items() if figure.measured]


def trains(function, *, classes: bool = False) -> bool:
    """Whether a function, or one of the atlas that it names, takes a step of an optimizer.

    Args:
        function: The function.
        classes: Look into the classes that it names, too.
    """
    waiting, known = [function], set()
    while waiting:
        called = waiting.pop()
        known.add(called)
        tree = ast.parse(textwrap.dedent(inspect.getsource(called)))
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in ("backward", "step"):
                return True
            if isinstance(node, ast.Name):
                named = inspect.unwrap(inspect.getmodule(called).__dict__.get(node.id, len))
                ours = getattr(named, "__module__", "").startswith(FOLDERS)
                runs = inspect.isroutine(named) or (classes and inspect.isclass(named))
                if ours and runs and named not in known:
                    waiting.append(named)
    return False


def test_there_are_such_figures():
    trained = {"heads", "norms", "finetuning", "induction", "laws", "loss", "residuals"}
    trained |= {"meanings", "orthogonal"}
    assert {"long", "prompts", "question", *trained} <= set(STORED)


@pytest.mark.parametrize("name", FIGURES)
def test_what_draws_a_figure_does_not_train(name):
    assert trains(vars(import_module(f"{FIGURES_FOLDER}.{FIGURES[name].module}"))[name]) == (
        name in QUICK
    )


@pytest.mark.parametrize("name", STORED)
def test_what_measures_a_figure_is_a_function_of_its_own(name):
    module = import_module(f"{FIGURES_FOLDER}.{FIGURES[name].module}")
    measure = vars(module).get("measure", vars(module).get(f"measure_{name}"))
    assert trains(measure, classes=True) or name in OTHERWISE


@pytest.mark.parametrize("name", STORED)
def test_the_result_of_the_default_options_ships(name):
    result = results.stored(name, FIGURES[name].read({}))
    assert result is not None
    assert results.stored_checksum(name) == FIGURES[name].settings()  # else: store it again
    assert results.stored(name, {**FIGURES[name].read({}), "seed": 1}) is None


@pytest.mark.parametrize("name", STORED)
def test_a_stored_result_is_drawn_without_training(name, monkeypatch, tmp_path):
    monkeypatch.setattr(torch.optim.Adam, "__init__", None)
    assert results.stored(name, FIGURES[name].read({})) is not None
    drawing = show(name, tmp_path / "figure.png")
    assert problems(drawing.figure) == []
    assert json.loads(json.dumps(drawing.numbers, allow_nan=False)) == drawing.numbers


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in STORED if name not in TIMED])
def test_fresh_and_other_options_train(name, tmp_path, monkeypatch):
    monkeypatch.setattr(prompts, "SIZES", prompts.SIZES[:1])
    monkeypatch.setattr(lengths, "SCHEMES", {"rotary": "rotary", "none": "none"})
    monkeypatch.setattr(lengths, "UNSEEN", 8)
    monkeypatch.setattr(prompts, "UNSEEN", 8)
    monkeypatch.setattr(depth, "DEPTHS", (1, 2))
    monkeypatch.setattr(recall, "LENGTHS", (4, 8))
    monkeypatch.setattr(laws, "UNSEEN", 16)
    monkeypatch.setattr(finetuning, "EXAMPLES", (4, 8))
    monkeypatch.setattr(hunger, "RATES", hunger.RATES[:1])
    monkeypatch.setattr(pixels, "RESOLUTIONS", (4, 8))
    few = {"steps": 3, "pairs": 4, "tries": 1, "seed": 3, "seen": 64, "images": 20, "most": 1000}
    few = {key: value for key, value in few.items() if key in FIGURES[name].options}
    if getattr(FIGURES[name].options.get("data"), "default", "") == "fashion-mnist":
        few["data"] = "digits"
    stored = results.stored(name, FIGURES[name].read({}))
    values = FIGURES[name].read(few)
    path = results.write(tmp_path, name, few, FIGURES[name].result(values), "00000000")
    content = json.loads(path.read_text())
    assert content["options"] == few
    assert content["result"] != stored
    again = FIGURES[name].result(values, fresh=True)
    assert results._rounded(again) == content["result"]  # the same seed, the same numbers
    assert problems(show(name, **few).figure) == []


# Prompts.


def test_a_prompt_shows_one_rule_and_may_name_it():
    rules, data = prompts.draw_rules(0), torch.Generator().manual_seed(1)
    text, chosen = prompts.draw_prompts(rules, 40, data, named=None)
    assert text.shape == (40, 1 + 2 * prompts.LETTERS)
    for row, rule in zip(text.tolist(), chosen.tolist(), strict=True):
        letters, coloured = row[1::2], row[2::2]
        assert sorted(letters) == list(range(prompts.LETTERS))
        for letter, both in zip(letters, coloured, strict=True):
            colour = int(rules[rule, letter])
            assert both == prompts.LETTERS + prompts.COLOURS * letter + colour
    first = text[:, 0]
    assert first[1::2].tolist() == [prompts.BLANK] * 20
    assert first[::2].tolist() == (prompts.NAMES + chosen[::2]).tolist()


def test_the_best_possible_guess_is_that_of_a_loop_over_the_rules():
    rules, data = prompts.draw_rules(0), torch.Generator().manual_seed(1)
    text, chosen = prompts.draw_prompts(rules, 30, data, named=False)
    best = prompts.best_by_shots(rules, text)
    for shots in (0, 2, 7):
        shares = []
        for row, rule in zip(text.tolist(), chosen.tolist(), strict=True):
            letters = row[1::2]
            fits = [
                other
                for other in range(prompts.RULES)
                if all(rules[other, letter] == rules[rule, letter] for letter in letters[:shots])
            ]
            said = [int(rules[other, letters[shots]]) for other in fits]
            shares.append(max(said.count(colour) for colour in range(4)) / len(said))
        assert best[shots] == pytest.approx(100 * sum(shares) / len(shares), rel=1e-5)


def test_written_steps_are_partial_sums():
    data = torch.Generator().manual_seed(0)
    for row in prompts.draw_sums(20, data, written=True).tolist():
        digits, answers = row[: prompts.TERMS], row[prompts.TERMS + 1 :]
        assert row[prompts.TERMS] == prompts.EQUALS
        assert answers == [sum(digits[:end]) % 10 for end in range(2, prompts.TERMS + 1)]
    short = prompts.draw_sums(20, torch.Generator().manual_seed(0), written=False)
    assert short.shape[1] == prompts.TERMS + 2
    assert (short[:, : prompts.TERMS].sum(1) % 10 == short[:, -1]).all()


def test_examples_help_and_written_steps_help():
    drawing = show("prompts")
    numbers = drawing.numbers
    best = numbers["best_possible"]
    for size in numbers["sizes"]:
        shares = np.mean(numbers[f"right_by_examples_{size}"], 0)
        assert shares[-1] > shares[2] > shares[0] + 15
        # no better than the best, up to the noise of the measurement
        noise = 300 * math.sqrt(0.25 / prompts.UNSEEN)
        assert all(share < bound + noise for share, bound in zip(shares, best, strict=True))
    assert np.min(numbers["right_by_name"]) > 90
    gains = np.array(numbers["sums_with_steps"]) - numbers["sums_at_once"]
    assert np.min(gains) > 30
    assert "help at every size" in drawing.title
    assert "no effect of size was seen" in drawing.caption


def test_size_matters_only_if_every_training_of_the_large_model_is_better():
    numbers = {"sizes": ["small", "large"], "sums_at_once": [[10, 10], [10, 10]],
               "sums_with_steps": [[99, 99], [99, 99]],
               "right_by_examples_small": [[40] * 7 + [90], [40] * 7 + [80]],
               "right_by_examples_large": [[40] * 7 + [95], [40] * 7 + [88]]}  # fmt: skip
    assert "no effect of size was seen" in prompts.words_prompts(numbers).title
    numbers["right_by_examples_large"] = [[40] * 7 + [95], [40] * 7 + [93]]
    words = prompts.words_prompts(numbers)
    assert "size matters for rules, not for sums" in words.title
    assert "small ones 9 points below at 7" in words.caption


# Question.


def test_an_ending_agrees_with_the_noun_after_its_adjective():
    draw = random.Random(0)
    for _ in range(20):
        example = question.draw_example(draw)
        phrases = example.tokens[1 : example.tokens.index("=")]
        assert len(example.ids()) == len(example.tokens) - 1
        for ending in example.endings:
            stem, said = example.tokens[ending.position : ending.position + 2]
            adjectives = [example.tokens[position] for position in ending.adjectives]
            noun = next(
                word
                for word in phrases[ending.adjectives[-1] :]  # `start` is missing in front
                if word in question.NOUNS
            )
            assert noun == example.tokens[ending.noun]
            assert said == question.ENDINGS[question.NOUNS[noun]]
            assert stem[:-1] in [question.STEMS[word] for word in adjectives]


def test_dropped_heads_are_zero_and_the_spared_one_stays():
    torch.manual_seed(0)
    heads = torch.ones(500, question.HEADS, 2, 3)
    outputs = question.drop_others(heads)[:, :, 0, 0]  # (batch, heads)
    assert outputs[:, question.SPARED].all()
    others = outputs[:, 1:]
    assert (others == others[:, :1]).all()  # all together
    assert float(others.mean()) == pytest.approx(1 - question.DROPPED, abs=0.05)
    outputs = question.drop_one(heads)[:, :, 0, 0]
    assert set(outputs.sum(1).tolist()) == {question.HEADS - 1.0, float(question.HEADS)}
    assert 1 - float(outputs.mean()) == pytest.approx(
        question.ONE_DROPPED / question.HEADS, abs=0.02
    )


def test_only_the_head_found_by_its_question_is_needed_in_each_training():
    numbers = show("question").numbers
    wrong = dict(zip(numbers["heads"], numbers["wrong"], strict=True))
    weight = dict(zip(numbers["heads"], numbers["weight"], strict=True))
    first = {head: value for head, value in weight.items() if ".0." in head}
    assert numbers["head"] == max(first, key=first.__getitem__)
    assert numbers["wrong_with_all"] < 3
    assert wrong.pop(numbers["head"]) >= 40
    assert max(wrong.values()) < 6
    assert numbers["stands_out"] == [True] * 3
    assert min(numbers["wrong_without"]) >= 40
    assert max(numbers["others"]) < 6


def test_phrases_of_ones_own_are_read_at_once_by_the_stored_head():
    drawing = show("question", text="Wild Bird, old small house!")
    tokens, weights = drawing.numbers["tokens"], np.array(drawing.numbers["map"])
    assert tokens == ["start", "wild", "bird", "old", "small", "house"]
    assert weights.sum(1) == pytest.approx(1, abs=1e-4)
    assert weights[2].argmax() == 1  # bird looks at wild
    assert weights[5, 3:5].sum() > 0.5  # house looks at old and small
    assert np.triu(weights, 1).max() == 0
    assert problems(drawing.figure) == []
    cut = show("question", text="old small house, " * 5)
    assert "the first 12 of 15 words" in " ".join(item.get_text() for item, _ in texts(cut.figure))


def test_two_tables_hold_all_scores_of_a_head_of_layer_0():
    torch.manual_seed(0)
    config = GPTConfig(layers=2, dim=16, heads=2, hidden=16, positions="buckets", max_length=64)
    model = Decoder(config, 9)
    ids, text = [3, 5, 8], [5, 3, 3, 8, 5, 5]
    tap = Tap("decoder.0.self.weights")
    with evaluating(model):
        model.hidden(Ragged.of([text]), tap)
    tables = scores_apart(model, "decoder.0.self.1", ids, 8)
    weights = causal_weights(tables, [ids.index(token) for token in text])
    wanted = tap.records["decoder.0.self.weights"][0, 1].numpy()
    assert np.array(weights) == pytest.approx(wanted, abs=1e-5)


def test_a_question_of_other_words_is_for_a_translator():
    assert question.read_phrases("The old dog sleeps.") is None
    assert question.read_phrases("purple dog") is None
    with pytest.raises(InputError, match="an adjective before a noun"):
        question.read_phrases("dog old")
