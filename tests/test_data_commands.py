"""Your own tables from the command line: columns by name in `train`, `eval` and `data`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.recipes import recipe as recipes
from regard.recipes.recipe import parse_columns
from regard.runs.load import recipe_of_run
from regard.runs.start import with_model_of_run
from tests.commands import is_refused

ROWS = [(f"this film number {n} is {('good', 'bad')[n % 2]}", ("pos", "neg")[n % 2])
        for n in range(24)]  # fmt: skip
SHORT = ("train.steps=2", "train.evaluate_every=2")


@pytest.fixture
def reviews(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{n},{text},{label}" for n, (text, label) in enumerate(ROWS)]
    Path("reviews.csv").write_text("\n".join(["id,body,stars", *lines]))
    Path("usual.csv").write_text("\n".join(["id,sentence,label", *lines]))


@pytest.mark.usefixtures("reviews")
def test_columns_that_are_not_clear_stop_a_training_before_it_begins(regard):
    refused = regard("train", "own/rnn", "data.train=reviews.csv", *SHORT, "-o", "run")
    is_refused(refused, "columns id, body, stars", "add data.text=body data.label=stars")
    assert not Path("run/recipe.yaml").exists()
    is_refused(regard("train", "own/translate", "-o", "run"), "data.train", "add data.train=FILE")


@pytest.mark.usefixtures("reviews")
def test_data_check_names_the_recipe_that_was_meant(regard):
    refused = regard("data", "check", "own/clasify", "data.train=usual.csv")
    is_refused(refused, "recipe own/clasify", "did you mean own/classify?")


@pytest.mark.slow
@pytest.mark.usefixtures("reviews")
def test_a_run_remembers_its_columns_and_eval_takes_others(regard, caplog):
    named = ("data.text=body", "data.label=stars")
    trained = regard("train", "own/rnn", "data.train=reviews.csv", *named, *SHORT, "-o", "run")
    assert trained.code == 0, trained.err
    assert "first line of reviews.csv taken as names of columns: id, body, stars" in caplog.text
    assert recipes.load("run/recipe.yaml").data.columns == parse_columns(named)
    scores = json.loads(regard("eval", "run", "--data", "reviews.csv", "--json").out)
    assert scores["examples"] == 24
    is_refused(regard("eval", "run", "--data", "usual.csv"), "none is called body")
    other = ("data.text=sentence", "data.label=label")
    again = json.loads(regard("eval", "run", *other, "--data", "usual.csv", "--json").out)
    assert (again["examples"], again["accuracy"]) == (24, scores["accuracy"])
    is_refused(regard("eval", "run", *other), "no --data")
    is_refused(regard("eval", "run", "--data", "usual.csv", "train.steps=3"), "data.KEY=COLUMN")
    resumed = regard(
        "train", "own/rnn", "data.train=reviews.csv", *named, "train.steps=3", "-o", "run",
        "--resume",
    )  # fmt: skip
    assert resumed.code == 0, resumed.err


def test_heads_takes_the_columns_of_its_data(regard, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.tsv").write_text(
        "English\tid\tDeutsch\n" + "The dog sleeps.\t7\tDer Hund schläft.\n" * 3
    )
    Path("b.tsv").write_text("Satz\tid\tAntwort\n" + "The dog sleeps.\t7\tDer Hund schläft.\n" * 3)
    is_refused(regard("heads", "tiny/translate", "--data", "b.tsv"), "add data.source=Satz")
    named = ("data.source=Satz", "data.target=Antwort")
    result = regard("heads", "tiny/translate", *named, "--data", "b.tsv", "--json")
    two = regard("heads", "tiny/translate", "--data", "a.tsv", "--json")
    assert (result.code, result.out) == (0, two.out), result.err
    is_refused(regard("heads", "tiny/translate", *named), "no --data")


@pytest.mark.usefixtures("reviews")
def test_data_check_and_sample_read_as_a_training_would(regard):
    result = regard("data", "check", "usual.csv")
    assert (result.code, result.out.splitlines()) == (0, [
        "first line of usual.csv taken as names of columns: id, sentence, label; text from "
        "sentence; not used: id",
        "24 examples can be used",
        "labels: pos 12, neg 12",
    ])  # fmt: skip
    named = json.loads(
        regard("data", "check", "reviews.csv", "data.text=body", "data.label=stars", "--json").out
    )
    assert named["labels"] == {"pos": 12, "neg": 12}
    splits = regard("data", "check", "own/rnn", "data.train=usual.csv", "data.valid=usual.csv")
    assert splits.code == 1
    assert splits.out.startswith("train:\n")
    assert "24 of valid are training examples, too" in splits.out
    sample = regard("data", "sample", "own/rnn", "data.train=usual.csv", "--pairs", "2").out
    assert all(tuple(line.split("\t")) in ROWS for line in sample.splitlines())
    is_refused(regard("data", "check", "usual.csv", "--task", "sing"), "one of translate, rewrite")
    is_refused(regard("data", "check", "data.text=body"), "no file")


def test_an_older_run_keeps_its_first_line_when_it_is_resumed():
    """Its recipe has `header: false` for labels, and no `header` for pairs and texts."""
    for name, line in (("own/rnn", "  header: false\n"), ("own/translate", "")):
        now = recipes.load(name)
        text = recipes.dump(now)
        old = recipe_of_run(text.replace("  header: null\n", line), "recipe.yaml")
        assert old.data.header is False
        assert recipes.changed(old, with_model_of_run(now, old)) == []
        new = recipe_of_run(text, "recipe.yaml")
        assert new.data.header is None
        assert recipes.changed(new, with_model_of_run(now, new)) == []


def test_an_older_mixture_keeps_the_first_lines_of_its_files():
    part = "{train: a.tsv, prefix: 'to German: '}"
    now = recipes.load("own/translate", ["data.kind=mixture", f"data.parts={{a: {part}}}"])
    text = recipes.dump(now)
    old = recipe_of_run(text.replace("      header: null\n", ""), "r.yaml")
    assert old.data.parts["a"].header is False
    assert recipes.changed(old, with_model_of_run(now, old)) == []
    new = recipe_of_run(text, "r.yaml")
    assert new.data.parts["a"].header is None
    assert recipes.changed(new, with_model_of_run(now, new)) == []


def test_data_check_refuses_what_does_not_fit_without_a_traceback(regard, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    is_refused(regard("data", "check", str(tmp_path / "missing.tsv")), "missing.tsv")
    (tmp_path / "set").mkdir()
    table = pa.table({"text": [text for text, _ in ROWS], "label": [label for _, label in ROWS]})
    parquet.write_table(table, tmp_path / "set" / "train.parquet")
    folder = str(tmp_path / "set")
    assert regard("data", "check", folder).code == 0
    is_refused(regard("data", "check", folder, "--task", "sing"), "one of translate, rewrite")
    wrong = ("--task", "translate", "data.text=text")
    is_refused(regard("data", "check", folder, *wrong), "data.text", "source, target")
    is_refused(regard("data", "check", "a", "b", "--task", "tag"), "two files")
