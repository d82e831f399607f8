"""Several translators on the same data: trained, measured, continued, and on one page."""

from __future__ import annotations

import json

import pytest

from regard.data.text.pairs import Pair
from regard.errors import InputError
from regard.runs import compare
from regard.runs.compare import bleu_by_length, load_recipes, parse_entries
from tests.commands import is_refused

SMALL = [
    "data.kind=copy", "data.pairs=60", "data.held_out=10", "data.longest=14",
    "train.steps=4", "train.batch_tokens=200", "train.evaluate_every=2", "seed=0",
    "train.log_every=2",
]  # fmt: skip
TWO = ["tiny/recurrent model.dim=16", "tiny/convolutional model.dim=16"]


@pytest.mark.slow
def test_models_are_compared_continued_and_asked(regard, tmp_path, monkeypatch):
    trained = []
    train = compare.train

    def stopping(recipe, run, **options):
        if len(trained) == 1:
            raise KeyboardInterrupt
        trained.append(run.name)
        return train(recipe, run, **options)

    monkeypatch.setattr(compare, "train", stopping)
    with pytest.raises(KeyboardInterrupt):
        compare.compare([*TWO, *SMALL], tmp_path / "both", quiet=True)
    monkeypatch.setattr(compare, "train", train)
    metrics = (tmp_path / "both" / "tiny-recurrent-model.dim=16" / "metrics.jsonl").read_bytes()
    result = regard("compare", *TWO, *SMALL, "-o", "both", "--quiet")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[0].split("  ")[0] == "model"
    assert [line.split("  ")[0] for line in result.out.splitlines()[1:]] == TWO
    again = (tmp_path / "both" / "tiny-recurrent-model.dim=16" / "metrics.jsonl").read_bytes()
    assert again == metrics, "a finished model is not trained again"

    page = (tmp_path / "both" / "compare.html").read_text()
    assert all(values in page for values in TWO)
    assert "decoder.0.cross" in page
    assert (tmp_path / "both" / "compare.png").stat().st_size > 10_000
    results = json.loads(regard("compare", "both", "--json").out)["results"]
    assert list(results) == TWO
    for values in results.values():
        assert [step for step, _ in values["curve"]] == [2, 4]
        assert sum(count for _, count, _ in values["by_length"]) == 10
    said = regard("compare", "both", "--text", "1 2 3")
    assert said.out.startswith("1 2 3\n  tiny/recurrent model.dim=16: ")
    assert compare.read_comparison("both").translations(["1 2 3"]).keys() == set(TWO)
    is_refused(regard("compare", *TWO, *SMALL, "train.steps=6", "-o", "both"), "another comparison")


def test_a_listed_comparison_has_names_and_common_overrides():
    entries, overrides = parse_entries(["tiny/compare", "train.steps=7"])
    assert list(entries) == [
        "one fixed vector", "recurrence with attention", "convolutions with attention",
        "Transformer",
    ]  # fmt: skip
    assert overrides == ["train.steps=7"]
    recipes = load_recipes(entries, overrides)
    assert {recipe.train.steps for recipe in recipes.values()} == {7}
    assert {recipe.data.longest for recipe in recipes.values()} == {50}
    assert [recipe.model.family for recipe in recipes.values()] == [
        "seq2seq", "seq2seq", "convs2s", "transformer",
    ]  # fmt: skip
    assert recipes["one fixed vector"].model.attention.kind == "none"


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        (["tiny/recurrent"], "got 1 recipe"),
        (["tiny/recurrent", "tiny/translate"], "train.steps differs"),
        (["tiny/recurrent", "tiny/generate"], "task: generate"),
        (["tiny/recurrent", "tiny/recurrent data.pairs=5"], "data.pairs differs"),
        (["tiny/recurrent", ""], "an empty entry"),
        (["tiny/recurrent", "tiny/recurrent 'model.dim=16"], "No closing quotation"),
        ([f"tiny/recurrent model.dim={2 * dim}" for dim in range(4, 10)], "at most 5"),
    ],
)
def test_recipes_that_cannot_be_compared_are_refused(entries, told):
    with pytest.raises(InputError, match=told):
        load_recipes({entry: entry for entry in entries})


def test_bleu_is_counted_by_tens_of_words():
    pairs = [Pair("a " * words, "x y z w v") for words in (1, 10, 11, 20, 35)]
    rows = bleu_by_length(pairs, ["x y z w v"] * 4 + ["other"])
    assert [(most, count) for most, count, _ in rows] == [(10, 2), (20, 2), (40, 1)]
    assert [round(bleu) for *_, bleu in rows] == [100, 100, 0]


def test_what_is_no_comparison_is_refused(regard, tmp_path):
    is_refused(regard("compare", "tiny/recurrent", "tiny/translate"), "no -o", "add -o")
    is_refused(regard("train", "tiny/compare", "-o", "run"), "regard compare")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "compare.json").write_text('{"models": 3}')
    is_refused(regard("compare", "broken"), "models")
    is_refused(regard("compare", "", "tiny/recurrent", "-o", "new"), "an empty entry")
    is_refused(regard("compare", 'tiny/recurrent "', "-o", "new"), "No closing quotation")


def test_data_without_test_sentences_is_refused_before_the_training(regard, tmp_path):
    (tmp_path / "pairs.tsv").write_text("".join(f"a {n}\tb {n}\n" for n in range(9)))
    files = ("data.kind=files", "data.train=pairs.tsv", "data.held_out=2", "train.steps=4",
             "train.batch_tokens=200")  # fmt: skip
    result = regard("compare", *TWO, *files, "-o", "both")
    is_refused(result, "data without test sentences", "data.held_out_test")
    assert not (tmp_path / "both").exists()
