"""`regard eval`: which examples are scored, how many, why not the others, and which were seen."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise

import pytest

from regard.data.text.pairs import Pair
from regard.runs.evaluate import evaluate
from regard.runs.load import load
from regard.runs.train import train
from regard.tasks.measures.report import Selection
from tests.commands import is_refused

WORDS = [f"{a}{b} {c}" for a in "abcdef" for b in "ghijkl" for c in "mnop"]
PAIRS = [(text, text.upper()) for text in WORDS]
RECIPE = """\
version: 1
task: translate
data: {{kind: files, train: train.tsv, held_out: 10, held_out_test: 20, group: {group}}}
tokens: {{kind: bytes}}
model: {{dim: 16, heads: 2, hidden: 16, encoder_layers: 1, decoder_layers: 1, max_length: 16}}
train: {{steps: 2, batch_tokens: 200, schedule: constant, warmup: 0, save_every: 1}}
decode: {{beam: 1, max_length: 4}}
"""
TEXT = """\
version: 1
task: {task}
data: {{kind: text, files: [train.txt], held_out: 0.2, rows: {rows}, separator: ""}}
tokens: {{kind: bytes}}
model: {{family: {family}, dim: 16, heads: 2, hidden: 16, {layers}, max_length: 24}}
train: {{steps: 2, batch_tokens: 200, schedule: constant, warmup: 0}}
decode: {{}}
"""
LABELS = """\
version: 1
task: classify
data: {kind: labelled, train: train.tsv, held_out: 12}
tokens: {kind: bytes}
model: {family: bert, dim: 16, heads: 2, hidden: 16, layers: 1, max_length: 16}
train: {steps: 2, batch_tokens: 200, schedule: constant, warmup: 0}
decode: {}
"""


def tsv(pairs):
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


def rows(said):
    assert said.code == 0, said.err
    return [json.loads(line) for line in said.out.splitlines()]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Runs of a few steps, and their files, to be copied: by kind."""
    root = tmp_path_factory.mktemp("runs")
    texts = [
        " ".join(f"{word} {(n + 17 * i) * 7919 % 1000}" for i, word in enumerate(WORDS[n : n + 30]))
        for n in range(60)
    ]
    kinds = {
        "pairs": (RECIPE.format(group="pair"), "train.tsv", tsv(PAIRS)),
        "sources": (
            RECIPE.format(group="source"),
            "train.tsv",
            tsv([*PAIRS, *((a, b + "!") for a, b in PAIRS)]),
        ),
        "generate": (
            TEXT.format(task="generate", family="gpt", layers="layers: 1", rows="packed"),
            "train.txt",
            "\n\n".join(texts),
        ),
        "stream": (
            TEXT.format(task="generate", family="gpt", layers="layers: 1", rows="stream"),
            "train.txt",
            "\n\n".join(texts),
        ),
        "fill": (
            TEXT.format(task="fill", family="bert", layers="layers: 1", rows="packed"),
            "train.txt",
            "\n\n".join(texts),
        ),
        "classify": (LABELS, "train.tsv", tsv((text, text[0] > "c") for text in WORDS)),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(root / "cache"))
        for kind, (recipe, file, content) in kinds.items():
            folder = root / kind
            folder.mkdir()
            (folder / file).write_text(content)
            (folder / "recipe.yaml").write_text(recipe)
            patch.chdir(folder)
            train("recipe.yaml", "run", quiet=True, threads=1)
    return root


@pytest.fixture
def run(trained, tmp_path, monkeypatch):
    """Copies a run and its files to where commands work."""
    monkeypatch.setenv("REGARD_CACHE", str(trained / "cache"))

    def copy(kind):
        shutil.copytree(trained / kind, tmp_path, dirs_exist_ok=True)
        return tmp_path

    return copy


def test_all_are_scored_and_none_of_a_held_out_split_was_seen(regard, run):
    run("pairs")
    said = regard("eval", "run", "--allow-unknown")
    assert said.out.splitlines()[-1] == "scored all 13 pairs"
    [row] = rows(regard("eval", "run", "--allow-unknown", "--json"))
    assert row["in_training"] == {"about": 0, "of": 13, "unit": "pairs", "sources_alone": 0}
    assert (row["scored"], row["of"], row["left_out"]) == (13, 13, {})


def test_of_a_file_what_was_seen_and_what_is_too_long_is_said(regard, run):
    folder = run("pairs")
    p = load(folder / "run")
    test_pairs = p.task.examples(p.recipe, _own())["test"]
    outside = {
        pair.source for pair in (*test_pairs, *p.task.examples(p.recipe, _own("valid"))["valid"])
    }
    seen = [pair for pair in PAIRS if pair[0] not in outside][:30]
    new = [(pair.source, pair.target) for pair in test_pairs]
    long = [("a " * 40, "x"), ("a", "x" * 40)]
    (folder / "test.tsv").write_text(tsv([*new, *((a.title(), b) for a, b in seen), *long]))
    lines = regard("eval", "run", "--data", "test.tsv", "--allow-unknown").out.splitlines()
    assert lines[-2:] == [
        "scored 43 of 45 pairs: 2 longer than the model reads (16 tokens)",
        "warning: about 30 of 43 pairs were in the training data of this model",
    ]
    [row] = rows(regard("eval", "run", "--data", "test.tsv", "--allow-unknown", "--json"))
    assert row["sentences"] == row["scored"] == 43
    assert row["of"] == 45
    assert row["in_training"]["about"] == 30
    (folder / "others.tsv").write_text(tsv((source, "zz") for source, _ in seen))
    said = regard("eval", "run", "--data", "others.tsv", "--allow-unknown").out
    assert said.endswith(
        "warning: the source of about 30 of 30 pairs was in the training data of this model\n"
    )


def _own(split=None):
    return Selection(split)


def test_a_limit_takes_evenly_spread_examples(regard, run, monkeypatch):
    folder = run("pairs")
    p = load(folder / "run")
    decoded = []
    predict = type(p.task).predict
    monkeypatch.setattr(
        type(p.task),
        "predict",
        lambda self, model, encoded, *a, **k: (
            decoded.extend(text.item for text in encoded) or predict(self, model, encoded, *a, **k)
        ),
    )
    said = regard("eval", "run", "--split", "train", "--limit", "5", "--allow-unknown")
    assert said.out.splitlines()[-2] == (
        "scored 5 of 121 pairs: 116 beyond --limit 5 (those scored are evenly spread)"
    )
    assert "about 5 of 5 pairs" in said.out
    every = p.task.examples(p.recipe, _own("train"))["train"]
    numbers = [[pair.source for pair in every].index(source) for source in decoded]
    bounds = (0, 24, 48, 72, 96, 121)  # one of each of equal parts, but not every n-th
    assert all(low <= n < high for n, (low, high) in zip(numbers, pairwise(bounds), strict=True))
    assert len({high - low for low, high in pairwise(numbers)}) > 1
    is_refused(regard("eval", "run", "--limit", "0"), "--limit")
    decoded.clear()
    p.evaluate(PAIRS, limit=3, allow_unknown=True)
    assert len(decoded) == 3
    first = [*decoded]
    decoded.clear()
    p.evaluate(PAIRS, limit=3, allow_unknown=True)
    assert decoded == first  # always the same
    with pytest.raises(Exception, match="limit"):
        p.evaluate(PAIRS, limit=0)


def test_pairs_of_one_source_are_merged_and_counted(regard, run):
    folder = run("sources")
    (folder / "test.tsv").write_text(tsv([("new a", "A"), ("new a", "B"), ("new a", "B"),
                                          ("new b", "C")]))  # fmt: skip
    said = regard("eval", "run", "--data", "test.tsv", "--allow-unknown")
    assert said.out.splitlines()[-1] == (
        "scored 2 of 4 pairs: 2 merged with another of the same source"
    )
    [row] = rows(regard("eval", "run", "--allow-unknown", "--json"))
    assert row["in_training"]["about"] == row["in_training"]["sources_alone"] == 0


@pytest.mark.parametrize("kind", ["generate", "stream", "fill"])
def test_of_plain_text_passages_are_scored(regard, run, kind):
    folder = run(kind)
    said = regard("eval", "run", "--json")
    [whole] = rows(said)
    assert whole["scored"] == whole["of"] > 20
    assert whole["in_training"]["about"] == 0
    [limited] = rows(regard("eval", "run", "--json", "--limit", "7"))
    assert (limited["scored"], limited["of"]) == (7, whole["of"])
    assert limited["tokens"] <= 7 * 25 < whole["tokens"]
    assert "beyond --limit 7" in next(iter(limited["left_out"]))
    assert "scored 7 of " in regard("eval", "run", "--limit", "7").out
    [same] = rows(regard("eval", "run", "--json", "--limit", "100000"))
    assert same == whole
    (folder / "copy.txt").write_text("new words\n" + (folder / "train.txt").read_text()[:2000])
    said = regard("eval", "run", "--data", "copy.txt").out
    assert "% of the text was in the training data of this model, in passages of 128" in said


def test_texts_that_are_cut_off_are_counted(regard, run):
    folder = run("classify")
    (folder / "test.tsv").write_text(tsv([("new", "True"), ("very " * 9, "False"), *_labelled()]))
    said = regard("eval", "run", "--data", "test.tsv").out.splitlines()
    assert said[-2] == "scored all 14 texts; the end of 1 is cut off, as the model reads them"
    assert "examples were in the training data of this model" in said[-1]
    [row] = rows(regard("eval", "run", "--data", "test.tsv", "--limit", "4", "--json"))
    assert (row["scored"], row["of"], row["examples"]) == (4, 14, 4)
    [scores] = rows(regard("eval", "run", "--json"))
    assert scores["in_training"]["about"] == 0
    assert scores["scored"] == scores["examples"] > 5


def _labelled():
    return [(text.upper(), str(text[0] > "c")) for text in WORDS[::12]]


def test_a_model_without_a_record_is_scored_as_before(regard, run):
    folder = run("pairs")
    p = load(folder / "run")
    p.seen = None
    p.save(folder / "old")
    assert not (folder / "old" / "seen.bin").exists()
    said = regard("eval", "old", "--allow-unknown", "--split", "train", "--limit", "4")
    assert "training data" not in said.out
    assert evaluate(load(folder / "old"), limit=2).notes["test"].to_json()["in_training"] is None


def test_the_record_stays_with_the_model(regard, run):
    folder = run("pairs")
    first, second = sorted((folder / "run" / "checkpoints").iterdir())
    record = (second / "seen.bin").read_bytes()
    assert (first / "seen.bin").read_bytes() == record
    load(folder / "run").save(folder / "copy", store="int8")
    assert regard("export", "run", "--store", "fp16", "-o", "half").code == 0
    again = regard("train", "recipe.yaml", "-o", "run", "--resume", "-q", "train.steps=3")
    assert again.code == 0, again.err
    for model_name in ("copy", "half", "run/checkpoints/00000003"):
        assert (folder / model_name / "seen.bin").read_bytes() == record
    damaged = folder / "copy" / "seen.bin"
    damaged.write_bytes(record[:-1] + b"\xff")
    is_refused(regard("eval", "copy"), "seen.bin: checksum differs")


def test_progress_is_by_the_length_of_what_is_translated(run):
    folder = run("pairs")
    p, shares = load(folder / "run"), []
    p.task.rows_at_once = 2
    sets = {"x": [("a", "b"), ("a" * 14, "b"), ("a", "b"), ("a" * 14, "b")]}
    given = {name: [Pair(*pair) for pair in pairs] for name, pairs in sets.items()}
    evaluate(p, given, on_progress=lambda share, _: shares.append(round(share, 3)))
    assert shares == [round(4 / 34, 3), 1.0]
