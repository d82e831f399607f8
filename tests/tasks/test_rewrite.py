"""Several tasks as text to text: order, resuming, losses by part, and recipes of it."""

from __future__ import annotations

import json

import pytest
import torch

from regard.checkpoint import run as checkpoint
from regard.data.batch import Cursor
from regard.errors import InputError
from regard.recipes import recipe as recipes
from regard.runs.evaluate import evaluate
from regard.runs.train import train
from regard.tasks.measures.report import Selection
from regard.tasks.rewrite import Rewrite

RECIPE = """\
version: 1
task: rewrite
data:
  kind: mixture
  held_out: 4
  parts:
    copy: {{train: {folder}/copy.tsv, prefix: "copy: ", weight: 1}}
    upper: {{train: {folder}/upper.tsv, prefix: "upper: ", weight: 3}}
tokens: {{kind: words, vocab: 64}}
model: {{dim: 16, heads: 2, hidden: 16, encoder_layers: 1, decoder_layers: 1, max_length: 16}}
train: {{steps: 6, batch_tokens: 60, schedule: constant, warmup: 0, save_every: 3}}
decode: {{}}
"""


@pytest.fixture
def recipe(tmp_path):
    words = [f"{a} {b}" for a in "abcdef" for b in "ghijk"]
    (tmp_path / "copy.tsv").write_text("".join(f"{word}\t{word}\n" for word in words))
    (tmp_path / "upper.tsv").write_text("".join(f"{word}\t{word.upper()}\n" for word in words[:20]))
    path = tmp_path / "mixed.yaml"
    path.write_text(RECIPE.format(folder=tmp_path))
    return path


def test_batches_are_in_proportion_and_can_be_entered_anywhere(recipe):
    task = Rewrite.prepare(recipes.load(recipe)).task
    assert task.mixture.counts == [11, 34]
    going = task.batches(Cursor())
    past = [next(going) for _ in range(12)]
    assert past[-1][1].epoch >= 1
    again = task.batches(past[6][1])
    for batch, cursor in past[7:]:
        other, same = next(again)
        assert same == cursor
        assert torch.equal(batch.source.ids, other.source.ids)


@pytest.mark.slow
def test_a_mixture_is_trained_resumed_and_asked_and_each_part_is_measured(recipe, tmp_path):
    train(recipe, tmp_path / "whole", quiet=True, threads=1)
    train(recipe, tmp_path / "run", quiet=True, threads=1, train={"steps": 3})
    pipeline = train(recipe, tmp_path / "run", quiet=True, threads=1, resume=True)
    whole, resumed = (checkpoint.latest(tmp_path / name)[1] for name in ("whole", "run"))
    assert whole.step == resumed.step == 6
    assert all(torch.equal(whole.weights[name], resumed.weights[name]) for name in whole.weights)
    assert pipeline.recipe.model.family == "t5"
    assert isinstance(pipeline.generate("upper: a g", max_length=4), str)
    task = Rewrite.prepare(pipeline.recipe, pipeline.vocabulary).task
    assert {"loss", "perplexity", "loss_copy", "loss_upper"} == task.evaluate(pipeline.model).keys()


def test_what_is_wrong_in_a_part_is_said_with_its_line(recipe):
    recipe.write_text(recipe.read_text().replace('prefix: "copy: "', "prefx: a"))
    with pytest.raises(InputError, match=r"mixed\.yaml:\d+: data\.parts.*sets of pairs"):
        recipes.load(recipe)


def test_a_family_that_cannot_do_the_task_is_refused_with_its_line(recipe):
    with pytest.raises(InputError, match=r"task: rewrite needs model\.family: t5, got bert"):
        recipes.from_text(
            recipe.read_text().replace("model: {dim", "model: {family: bert, dim")
            .replace("encoder_layers: 1, decoder_layers: 1, ", ""), "mixed.yaml")  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "weight: 3",
            "weight: -3",
            r"data\.parts\.upper\.weight: got -3, expected a number above 0",
        ),
        ("weight: 1", "weight: 0", r"data\.parts\.copy\.weight: got 0, expected a number above 0"),
        ("weight: 3", "weight: much", r"data\.parts\.upper\.weight: got 'much', expected a number"),
        ('prefix: "copy: "', "prefix: 4", r"data\.parts\.copy\.prefix: got 4, expected text"),
    ],
)
def test_a_fault_in_a_part_names_the_part_and_the_key(recipe, old, new, said):
    recipe.write_text(recipe.read_text().replace(old, new))
    with pytest.raises(InputError, match=said):
        recipes.load(str(recipe))


def test_where_sources_are_groups_each_is_scored_once_with_all_its_targets(tmp_path):
    rows = [f"{word}\t{target}" for word in "abcdefghijklmnopqrst" for target in (word, word * 2)]
    (tmp_path / "p.tsv").write_text("\n".join(rows) + "\n")
    text = RECIPE.format(folder=tmp_path).replace("copy.tsv", "p.tsv").replace("upper.tsv", "p.tsv")
    text = text.replace("held_out: 4", "held_out: 2\n  held_out_test: 2\n  group: source")
    path = tmp_path / "grouped.yaml"
    path.write_text(text)
    pipeline = train(path, tmp_path / "run", quiet=True, threads=1, train={"steps": 1})
    sets = pipeline.task.examples(pipeline.recipe, Selection())
    assert {name: [len(pair.references) for pair in pairs] for name, pairs in sets.items()} == {
        "copy": [2],
        "upper": [2],
    }
    scores = evaluate(pipeline, sets, tmp_path / "out").to_json()
    assert [entry["sentences"] for entry in scores] == [1, 1]
    assert all(entry["rouge"].keys() == {"rouge1", "rouge2", "rougeL"} for entry in scores)
    written = json.loads((tmp_path / "out" / "copy.jsonl").read_text().splitlines()[0])
    assert len(written["references"]) == 2
    asked = Selection(files=str(tmp_path / "p.tsv"))
    examples = pipeline.task.examples(pipeline.recipe, asked)
    assert [len(pairs) for pairs in examples.values()] == [20]
