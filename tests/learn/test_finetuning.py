"""A pretrained folder learns a rule in seconds: a class by a keyword, capitals, what follows.

The folder is a random BERT of transformers: what matters is that its weights, tokenizer and shape
are taken, that a new head learns, what is frozen stays, and a run that was stopped goes on exactly.
"""

from __future__ import annotations

import json
import random
import shutil

import pytest
import torch
from safetensors.torch import load_file

import regard
from regard.checkpoint import run as checkpoint
from regard.errors import InputError
from tests import tiny_bert

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.slow,
]
PLAIN = ["the", "a", "cat", "dog", "sat", "ran", "movie", "film", "was", "red", "blue", "green"]
TRAIN = {"steps": 80, "batch_tokens": 600, "learning_rate": 3e-3, "warmup": 5,
         "schedule": "constant", "label_smoothing": 0.0,
         "evaluate_every": 40, "save_every": 40}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("pretrained") / "bert"
    tiny_bert.save(path)
    return path


def sentiment(path, count=300):
    dice = random.Random(0)
    with path.open("w") as file:
        for _ in range(count):
            words = dice.choices(PLAIN, k=dice.randint(2, 7))
            good = dice.random() < 0.5
            told = dice.choice(["good", "great"] if good else ["bad", "awful"])
            words.insert(dice.randrange(len(words) + 1), told)
            file.write(f"{' '.join(words)}\t{'pos' if good else 'neg'}\n")
    return path


def names(path, count=250):
    dice = random.Random(1)
    with path.open("w") as file:
        for _ in range(count):
            for _ in range(dice.randint(2, 7)):
                name = dice.random() < 0.3
                letters = "".join(dice.choices("abcdefg", k=dice.randint(2, 3)))
                word = letters.capitalize() if name else dice.choice([letters, *PLAIN])
                file.write(f"{word} {'B-name' if name else 'O'}\n")
            file.write("\n")
    return path


def asked(dice, length, rule):
    """A question whose answer is the word after `marker`, or the only colour."""
    words = dice.choices(PLAIN if rule == "marker" else PLAIN[:9], k=length)
    place = dice.randrange(length - 1)
    if rule == "marker":
        words[place] = "marker"
    else:
        words[place + 1] = dice.choice(PLAIN[9:])
    start = len(" ".join(words[: place + 1])) + 1
    return {"question": "where is it ?", "context": " ".join(words),
            "answers": {"text": [words[place + 1]], "start": [start]}}  # fmt: skip


def questions(path, rule, shortest, longest, count=400):
    dice = random.Random(2)
    rows = [asked(dice, dice.randint(shortest, longest), rule) for _ in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def right_of(pipeline, length, rule, count):
    dice, right = random.Random(9), 0
    for _ in range(count):
        row = asked(dice, length, rule)
        [best] = pipeline.answer(row["question"], row["context"])
        right += best.start == row["answers"]["start"][0]
    return right / count


def recipe(tmp_path, task, folder, file, train=TRAIN, **more):
    values = {
        "version": 2,
        "task": task,
        "start": {"folder": str(folder), **more.pop("start", {})},
        "data": {"kind": "labelled", "train": str(file), "held_out": 30, **more.pop("data", {})},
        "train": train,
        **more,
    }
    path = tmp_path / f"{task}.yaml"
    path.write_text(json.dumps(values))
    return path


def learn(*args, **more):
    out = more.pop("out", None)
    return regard.train(recipe(*args, **more), out, quiet=True, threads=1)


def test_a_class_is_learned_from_a_keyword_and_the_run_needs_its_folder_no_more(folder, tmp_path):
    copy = tmp_path / "copied"
    shutil.copytree(folder, copy)
    file = sentiment(tmp_path / "train.tsv")
    learn(tmp_path, "classify", copy, file, out=tmp_path / "run")
    shutil.rmtree(copy)
    p = regard.load(tmp_path / "run")
    assert p.model.config.classes == ("neg", "pos")
    assert p.model.masked is None
    best = [p.classify(f"the {word} cat sat")[0].label for word in ("good", "awful", "great")]
    assert best == ["pos", "neg", "pos"]
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    metrics = [json.loads(line) for line in lines]
    assert max(line.get("validation_accuracy", 0) for line in metrics) > 95


def test_capitals_are_tagged_by_their_first_piece(folder, tmp_path):
    p = learn(tmp_path, "tag", folder, names(tmp_path / "train.conll"))
    found = p.tag("The cat Abc, the dog Fé!")
    assert [each.word for each in found] == ["The", "cat", "Abc", ",", "the", "dog", "Fé", "!"]
    assert {each.word for each in found if each.tag == "B-name"} >= {"Abc", "Fé"}
    assert found[1].tag == found[5].tag == "O"


@pytest.mark.slow
def test_the_word_after_a_marker_is_the_answer(folder, tmp_path):
    file = questions(tmp_path / "train.jsonl", "marker", 3, 6)
    settings = {**TRAIN, "steps": 240, "learning_rate": 4e-3}
    p = learn(tmp_path, "answer", folder, file, train=settings, model={"dropout": 0.0})
    assert right_of(p, 5, "marker", 60) > 0.6  # one of four, by chance


def test_an_answer_is_found_in_a_text_four_times_as_long_as_the_model_reads(folder, tmp_path):
    file = questions(tmp_path / "train.jsonl", "colour", 4, 60)
    p = learn(tmp_path, "answer", folder, file, model={"dropout": 0.0})
    [best] = p.answer("where is it ?", "a cat ran,  green the dog")
    assert (best.text, best.start, best.end) == ("green", 12, 17)
    assert right_of(p, 160, "colour", 10) >= 0.9


@pytest.mark.parametrize(("freeze", "moved"), [("all", []), (1, ["encoder.blocks.1."]),
                                               ("embeddings", ["encoder.blocks."])])  # fmt: skip
def test_what_is_frozen_stays_bit_for_bit_and_has_no_state(folder, tmp_path, freeze, moved):
    before = regard.load(folder).model.state_dict()
    settings = {**TRAIN, "steps": 3}
    p = learn(tmp_path, "classify", folder, sentiment(tmp_path / "train.tsv", 60), train=settings,
              start={"freeze": freeze}, out=tmp_path / "run")  # fmt: skip
    after = p.model.state_dict()
    heads = ("pooler.", "classes.")
    for name, tensor in after.items():
        learns = name.startswith((*moved, *heads))
        assert learns or torch.equal(tensor, before[name]), name
    learned = [n for n in after if n.startswith(tuple(moved))] if moved else []
    assert all(not torch.equal(after[n], before[n]) for n in learned if n.endswith("weight"))
    [last] = sorted((tmp_path / "run" / "checkpoints").iterdir())[-1:]
    state = load_file(last / "training.safetensors")
    kept = {key.removeprefix("optimizer.").rpartition(".")[0] for key in state}
    assert {n for n in after if n.startswith((*moved, *heads))} <= kept
    assert not [n for n in kept if n.startswith("embed.")]


def test_nothing_left_to_learn_and_too_many_layers_are_refused(folder, tmp_path):
    file = sentiment(tmp_path / "train.tsv", 60)
    with pytest.raises(InputError, match=r"start\.freeze: got 3, expected 0 to 2"):
        learn(tmp_path, "classify", folder, file, start={"freeze": 3})


def test_a_stopped_run_goes_on_bit_for_bit_without_the_folder(folder, tmp_path):
    copy = tmp_path / "copied"
    shutil.copytree(folder, copy)
    file = sentiment(tmp_path / "train.tsv", 100)
    short = {**TRAIN, "steps": 6, "save_every": 6, "evaluate_every": 6}
    long = {**short, "steps": 12}
    whole = learn(tmp_path, "classify", copy, file, train=long, out=tmp_path / "whole")
    learn(tmp_path, "classify", copy, file, train=short, out=tmp_path / "half")
    shutil.rmtree(copy)
    again = recipe(tmp_path, "classify", copy, file, train=long)
    regard.train(again, tmp_path / "half", resume=True, quiet=True, threads=1)
    ends = [checkpoint.latest(tmp_path / run)[1].weights for run in ("whole", "half")]
    assert whole.model.config.classes
    assert ends[0].keys() == ends[1].keys()
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    other = recipe(tmp_path, "classify", copy, file, train=long, model={"dropout": 0.3})
    with pytest.raises(InputError, match="dropout changed"):
        regard.train(other, tmp_path / "half", resume=True, quiet=True, threads=1)


def test_a_new_head_is_drawn_by_the_seed_and_an_equal_one_is_kept(folder, tmp_path):
    file = sentiment(tmp_path / "train.tsv", 60)
    nothing = {**TRAIN, "steps": 1, "learning_rate": 1e-12, "warmup": 0}
    runs = [tmp_path / name for name in ("one", "two", "other", "kept", "renamed")]
    for run, seed in zip(runs[:3], (0, 0, 1), strict=True):
        learn(tmp_path, "classify", folder, file, train=nothing, seed=seed, out=run)
    learn(tmp_path, "classify", runs[0], file, train=nothing, seed=5, out=runs[3])
    renamed = tmp_path / "renamed.tsv"
    renamed.write_text(file.read_text().replace("\tpos", "\tyes").replace("\tneg", "\tno"))
    learn(tmp_path, "classify", runs[0], renamed, train=nothing, seed=5, out=runs[4])
    one, two, other, kept, anew = (regard.load(run).model.classes.weight for run in runs)
    assert torch.equal(one, two)
    assert not torch.allclose(one, other, atol=1e-3)
    torch.testing.assert_close(one, kept)
    assert not torch.allclose(one, anew, atol=1e-3)


def test_a_model_key_that_the_folder_decides_is_refused(folder, tmp_path):
    file = sentiment(tmp_path / "train.tsv", 60)
    with pytest.raises(InputError, match=r"model\.layers: got 5, expected 2"):
        learn(tmp_path, "classify", folder, file, model={"layers": 5})


def test_a_classifier_is_learned_from_nothing_as_well(tmp_path):
    path = tmp_path / "scratch.yaml"
    file = sentiment(tmp_path / "train.tsv")
    path.write_text(json.dumps({
        "version": 2, "task": "classify", "tokens": {"kind": "words", "vocab": 100}, "decode": {},
        "model": {"dim": 32, "heads": 2, "hidden": 64, "max_length": 32},
        "data": {"kind": "labelled", "train": str(file)}, "train": TRAIN}))  # fmt: skip
    p = regard.train(path, tmp_path / "run", quiet=True, threads=1)
    assert p.classify("the good cat")[0].label == "pos"
    same = regard.train(path, tmp_path / "run", resume=True, quiet=True, threads=1)
    assert same.model.config == p.model.config
