from __future__ import annotations

import doctest
import subprocess
import sys
from pathlib import Path
from typing import get_args
from zipfile import ZipFile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import regard.errors
from regard.config import Config
from regard.data.config import DataConfig, FileData, GrammarData, ToyData
from regard.decode.config import DecodeConfig
from regard.errors import InputError
from regard.models import SIZES, Seq2SeqConfig, TransformerConfig
from regard.recipes import recipe
from regard.recipes.keys import expectation
from regard.recipes.recipe import (
    DATA_KINDS,
    FORM,
    KEYS,
    Recipe,
    changed,
    dump,
    load,
    load_form,
    shipped,
    task_of,
    text_of,
)
from regard.runs.compare import FORMAT as COMPARE
from regard.train.config import TrainConfig
from regard.vectors.recipe import FORM as VECTORS

TEXT = """\
version: 2
task: translate
data:
  kind: grammar
  pairs: 100
  held_out: 10
tokens:
  kind: words
  shared: false
model:
  size: tiny
  tied: output
train:
  steps: 50
  learning_rate: 1e-3
decode:
  beam: 2
seed: 3
"""


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def read(in_folder):
    """Reads a text, with overrides."""

    def read(text, *overrides):
        (in_folder / "my.yaml").write_text(text, "utf-8")
        return load("my.yaml", overrides)

    return read


@pytest.fixture
def message(read):
    """What is said about a text, with overrides, or about TEXT with one thing replaced."""

    def message(*overrides, text=TEXT, old="", new=""):
        assert old in text
        with pytest.raises(InputError) as caught:
            read(text.replace(old, new, 1) if old else text, *overrides)
        assert str(caught.value).count("\n") <= 1
        return str(caught.value)

    return message


def test_a_recipe_is_read_typed_and_frozen(read):
    got = read(TEXT)
    assert got.data == GrammarData(pairs=100, held_out=10)
    assert got.model == TransformerConfig(size="tiny", tied="output")
    assert got.train.learning_rate == 1e-3
    assert got.train.betas == (0.9, 0.98)
    assert got.seed == 3
    with pytest.raises(ValidationError):
        got.seed = 4


def test_a_section_with_all_keys_commented_out_takes_its_defaults(read):
    assert read(TEXT.replace("  beam: 2", "  # beam: 2")).decode.beam == 1


def test_the_section_of_decoding_may_be_missing(read):
    assert read(TEXT.replace("decode:\n  beam: 2\n", "")).decode == DecodeConfig()


# Shipped recipes


def test_every_shipped_recipe_loads_describes_itself_and_survives_a_dump(in_folder):
    names = {"tiny/translate", "tiny/copy", "tiny/reverse", "tiny/sort"}
    names |= {"own/translate", "own/base", "own/big"}
    assert set(shipped()) >= names
    for name, description in shipped().items():
        assert text_of(name).startswith(f"# {description}\n")
        assert 20 < len(description) < 100
        form = {"vectors": VECTORS, "compare": COMPARE}.get(task_of(name), FORM)
        got = load_form(form, name)
        (in_folder / "resolved.yaml").write_text(dump(got), "utf-8")
        assert load_form(form, "resolved.yaml") == got


def test_the_papers_recipes_have_the_papers_values():
    base, big = load("own/base"), load("own/big")
    for got in (base, big):
        train = got.train
        assert (train.optimizer, train.betas, train.epsilon) == ("adam", (0.9, 0.98), 1e-9)
        assert (train.schedule, train.warmup, train.label_smoothing) == ("paper", 4000, 0.1)
        assert got.model.norm_place == "post"
        assert got.model.layers == 6
        assert 45_000 <= train.batch_tokens * train.accumulate <= 55_000
    assert (base.model.dim, base.model.hidden, base.model.heads) == (512, 2048, 8)
    assert (big.model.dim, big.model.hidden, big.model.heads) == (1024, 4096, 16)
    assert (base.model.dropout, big.model.dropout) == (0.1, 0.3)
    assert (base.train.steps, big.train.steps) == (100_000, 300_000)


def test_recipes_need_only_the_configs_and_are_found_in_a_package_that_is_not_a_folder(tmp_path):
    package = Path(regard.errors.__file__).parent
    with ZipFile(tmp_path / "regard.zip", "w") as archive:
        light = ("recipes", "runtime", "models/families")
        files = [file for folder in light for file in package.glob(f"{folder}/*.py*")]
        files = [file for file in files if file.is_file()]
        files += [package / "__init__.pyi", package / "tasks/__init__.pyi"]
        files += [package / f"tasks/{name}.py" for name in ("__init__", "specs", "verbs")]
        parts = ("short", "grid_config", "recurrent_config", "rows_config", "stages_config")
        files += [package / f"layers/{name}.py" for name in parts]
        files += [package / "models/version_1.py"]
        configs, yaml = package.glob("*/config.py"), package.rglob("*.yaml")
        for file in [*package.glob("*.py"), *files, *configs, *yaml]:
            archive.write(file, file.relative_to(package.parent))
        for file in package.glob("*/config.py"):
            archive.writestr(f"regard/{file.parent.name}/__init__.py", "")
    code = (
        "import sys; sys.path.insert(0, 'regard.zip'); import regard.recipes.recipe as recipe;"
        "assert '.zip' in recipe.__file__; assert 'torch' not in sys.modules;"
        "print(recipe.load('tiny/copy').data.kind, *recipe.shipped())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["copy", *shipped()]


# Which recipe


LIST = "`regard recipe` lists the shipped ones"


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("tiny/translat", f"did you mean tiny/translate? {LIST}"),
        ("translate", f"did you mean own/translate, small/translate or tiny/translate? {LIST}"),
        ("xyz", LIST),
        ("", LIST),
    ],
)
@pytest.mark.usefixtures("in_folder")
def test_an_unknown_name_is_refused_with_the_nearest(name, fix):
    expected = f"recipe {name}: got no such name, expected a recipe or a file\n{fix}"
    if name:
        with pytest.raises(InputError) as caught:
            load(name)
        assert str(caught.value) == expected
    with pytest.raises(InputError) as caught:
        text_of(name)
    assert str(caught.value) == expected


def test_a_file_without_an_extension_is_a_file(in_folder):
    (in_folder / "mine").write_text(TEXT)
    assert load("mine") == load(in_folder / "mine")


def test_a_folder_named_as_a_shipped_recipe_does_not_hide_it(in_folder):
    (in_folder / "tiny/copy").mkdir(parents=True)
    assert load("tiny/copy").data.kind == "copy"


@pytest.mark.usefixtures("in_folder")
def test_a_missing_file_is_refused():
    with pytest.raises(InputError) as caught:
        load("nowhere.yaml")
    assert str(caught.value) == f"nowhere.yaml: no such file\n{LIST}"
    with pytest.raises(InputError) as caught:
        load("tiny/copy.yaml")
    shipped_one = "did you mean the shipped recipe tiny/copy?"
    assert str(caught.value) == f"tiny/copy.yaml: no such file\n{shipped_one}"


def test_a_folder_is_refused_and_a_runs_recipe_is_named(in_folder):
    (in_folder / "run").mkdir()
    with pytest.raises(InputError) as caught:
        load("run")
    assert str(caught.value) == f"run: got a folder, expected a recipe file\n{LIST}"
    inside = in_folder / "run" / "recipe.yaml"
    inside.write_text(TEXT)
    with pytest.raises(InputError) as caught:
        load("run")
    asked = f"did you mean {inside.relative_to(in_folder)}?"
    assert str(caught.value) == f"run: got a folder, expected a recipe file\n{asked}"


def test_a_file_that_cannot_be_read_is_refused(in_folder, monkeypatch):
    (in_folder / "my.yaml").write_text(TEXT)

    usual = Path.open

    def refuse(path, *given, **more):  # this file alone: others are read beside, by other threads
        if path.name == "my.yaml":
            raise PermissionError(13, "Permission denied")
        return usual(path, *given, **more)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError) as caught:
        load("my.yaml")
    assert str(caught.value) == "my.yaml: cannot be read: Permission denied"


def test_a_large_file_is_refused(in_folder):
    (in_folder / "my.yaml").write_text(TEXT + "#" * 1_000_000)
    with pytest.raises(InputError) as caught:
        load("my.yaml")
    assert str(caught.value) == "my.yaml: got more than 1,000,000 bytes, expected a recipe"


def test_another_encoding_is_refused_with_its_line(in_folder):
    (in_folder / "my.yaml").write_bytes(b"version: 1\n# \xfcber\n")
    with pytest.raises(InputError) as caught:
        load("my.yaml")
    expected = "my.yaml:2: got another encoding, expected UTF-8\nsave the file as UTF-8"
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("text", "got"), [("", "an empty file"), ("# only\n", "an empty file"), ("- 1\n", "no keys")]
)
def test_a_file_without_keys_is_refused(message, text, got):
    fix = "`regard recipe tiny/translate` prints one to start from"
    assert message(text=text) == f"my.yaml: got {got}, expected a recipe\n{fix}"


# Faults in the file

KINDS = (
    "one of grammar, copy, reverse, sort, files, text, python, labelled, table, digits, images, "
    "scenes, tissue, mixture, none"
)
TASKS = (
    "one of translate, rewrite, restore, generate, fill, classify, tag, answer, predict, caption, "
    "embed"
)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "learning_rate:", "learning_rat:",
            "my.yaml:15: train.learning_rat: got an unknown key, expected a key of train\n"
            "did you mean train.learning_rate?",
        ),
        (
            "  beam: 2", "  zzzz: 2",
            "my.yaml:17: decode.zzzz: got an unknown key, expected a key of decode\n"
            "`regard recipe --keys decode` lists the keys of decode",
        ),
        (
            "seed: 3", "steps: 3",
            "my.yaml:18: steps: got an unknown key, expected a key of a recipe\n"
            "did you mean train.steps?",
        ),
        (
            "seed: 3", "qqqq: 3",
            "my.yaml:18: qqqq: got an unknown key, expected a key of a recipe\n"
            "keys of a recipe: version, task, seed, data, tokens, model, train, decode, start",
        ),
        (
            "  pairs: 100", "  max_words: 100",
            "my.yaml:5: data.max_words: got an unknown key, expected a key of data\n"
            "max_words belongs to data.kind: files",
        ),
        ("steps: 50", "steps: abc", "my.yaml:14: train.steps: got 'abc', expected a whole number"),
        ("steps: 50", "steps: 50.0", "my.yaml:14: train.steps: got 50.0, expected a whole number"),
        ("steps: 50", "steps: true", "my.yaml:14: train.steps: got true, expected a whole number"),
        ("steps: 50", "steps: '50'", "my.yaml:14: train.steps: got '50', expected a whole number"),
        (
            "learning_rate: 1e-3", "learning_rate: 0",
            "my.yaml:15: train.learning_rate: got 0, expected a number above 0",
        ),
        (
            "learning_rate: 1e-3", "clip: .inf",
            "my.yaml:15: train.clip: got '.inf', expected a number above 0, or null",
        ),
        (
            "learning_rate: 1e-3", "label_smoothing: 1",
            "my.yaml:15: train.label_smoothing: got 1, expected a number of at least 0 and below 1",
        ),
        (
            "learning_rate: 1e-3", "betas: [0.9, x]",
            "my.yaml:15: train.betas: got [0.9, 'x'], expected two numbers, such as [0.9, 0.98]",
        ),
        ("shared: false", "shared: no", "my.yaml:9: tokens.shared: got 'no', expected true or"),
        ("shared: false", "shared: 0", "my.yaml:9: tokens.shared: got 0, expected true or false"),
        (
            "kind: words", "kind: word",
            "my.yaml:8: tokens.kind: got 'word', expected one of words, characters, bytes, bpe, "
            "wordpiece, unigram\ndid you mean words?",
        ),
        (
            "size: tiny", "size: [tiny]",
            "my.yaml:11: model.size: got ['tiny'], expected one of tiny, small, base, big, or null",
        ),
        (
            "kind: grammar", "kind: gramar",
            "my.yaml:4: data.kind: got 'gramar', expected a known kind\n"
            "did you mean grammar? `regard recipe --keys data` lists all",
        ),
        (
            "kind: grammar", "kind: {a: 1}",
            f"my.yaml:4: data.kind: got keys (a), expected {KINDS}",
        ),
        (
            "  kind: grammar\n", "",
            f"my.yaml:3: data.kind: got nothing, expected {KINDS}\n"
            "add kind: under data:, or data.kind=VALUE as an override",
        ),
        (
            "  kind: grammar\n  pairs: 100\n", "  kind: files\n  train: [a, b, c]\n",
            "my.yaml:5: data.train: got ['a', 'b', 'c'], expected a file name, or two as "
            "[source, target]",
        ),
        (
            "  kind: grammar\n  pairs: 100\n", "  kind: files\n",
            "my.yaml:3: data.train: got nothing, expected a file name, or two as [source, target]\n"
            "add train: under data:, or data.train=VALUE as an override",
        ),
        (
            "version: 2", "version: 3",
            "my.yaml:1: version: got 3, expected 2\nthis Regard reads versions 1 and 2 of recipes",
        ),
        ("version: 2", "version: one", "my.yaml:1: version: got 'one', expected 2"),
        ("version: 2\n", "", "my.yaml: version: got nothing, expected 2\nadd the line version: 2"),
        (
            "task: translate\n", "",
            f"my.yaml: task: got nothing, expected {TASKS}\nadd the line task: translate",
        ),
        (
            "task: translate", "task: translte",
            "my.yaml:2: task: got 'translte', expected a known task\n"
            "did you mean translate? `regard recipe --keys` lists all",
        ),
        (
            "train:\n  steps: 50\n  learning_rate: 1e-3\n", "",
            "my.yaml: train: got nothing, expected keys, such as steps: 2000\n"
            "add the line train: {} for its defaults",
        ),
        (
            "data:\n  kind: grammar\n  pairs: 100\n  held_out: 10\n", "",
            "my.yaml: data: got nothing, expected keys, such as kind: grammar",
        ),
        ("decode:\n  beam: 2\n", "decode: 4\n", "my.yaml:16: decode: got 4, expected keys, such"),
        ("model:\n  size: tiny\n  tied: output\n", "model: tiny\n", "my.yaml:10: model: got 'tiny"),
        ("seed: 3", "seed: {a: 1}", "my.yaml:18: seed: got keys (a), expected a whole number"),
        ("seed: 3", "seed: -1", "my.yaml:18: seed: got -1, expected a whole number of at least 0"),
        ("size: tiny", "dim: 100", "my.yaml:10: model: dim 100 is not a multiple of heads 8"),
        (
            "tied: output", "tied: all",
            "my.yaml:12: model.tied: all needs tokens.shared: true (or set model.tied: output)",
        ),
        (
            "  tied: output\n", "",
            "my.yaml:10: model.tied: all needs tokens.shared: true (or set model.tied: output)",
        ),
    ],
)  # fmt: skip
def test_an_error_is_reported_with_line_and_key(message, old, new, expected):
    said = message(old=old, new=new)
    assert said.startswith(expected)
    assert "more)" not in said


def test_of_several_errors_the_first_is_reported_and_the_others_counted(message):
    text = TEXT.replace("steps: 50", "steps: x").replace("beam: 2", "beam: 0")
    said = message(text=text, old="pairs: 100", new="pairs: 0")
    bounds = "at least 1 and at most 10000000"
    expected = f"my.yaml:5: data.pairs: got 0, expected a whole number of {bounds} (and 2 more)"
    assert said == expected


def test_a_misspelt_section_comes_before_the_one_that_is_therefore_missing(message):
    said = message(old="train:", new="trian:")
    first = "my.yaml:13: trian: got an unknown key, expected a key of a recipe (and 1 more)"
    assert said == f"{first}\ndid you mean train?"


def test_two_files_given_wrongly_are_one_fault_and_not_one_for_each_way_to_give_them(message):
    said = message(old="kind: grammar\n  pairs: 100", new="kind: files\n  train: 3")
    assert said.endswith("got 3, expected a file name, or two as [source, target]")


def test_faults_of_the_yaml_itself_have_file_and_line(message):
    assert message(text=TEXT + "seed: 4\n").startswith("my.yaml:19: seed: got the same key again")
    assert message(text=TEXT + "\tx: 4\n").startswith("my.yaml:19: cannot be read as YAML")


def test_keys_and_values_with_line_breaks_do_not_break_the_message(message):
    assert message(old="beam:", new='"be\\nam":').startswith("my.yaml:17: 'decode.be\\nam': got")
    assert message(old="kind: words", new='kind: "a\\nb"').startswith(
        "my.yaml:8: tokens.kind: got 'a\\nb'"
    )


# Overrides


def test_overrides_are_read_as_the_file_is(read):
    got = read(TEXT, "train.steps=7", "train.learning_rate=5e-4", "tokens.lowercase=true", "seed=9")
    assert (got.train.steps, got.train.learning_rate) == (7, 5e-4)
    assert got.tokens.lowercase
    assert got.seed == 9
    assert changed(read(TEXT), got) == [
        "tokens.lowercase", "train.steps", "train.learning_rate", "seed",
    ]  # fmt: skip


def test_the_last_of_two_overrides_counts_and_spaces_do_not_matter(read):
    assert read(TEXT, "train.steps=7", " train.steps = 8 ").train.steps == 8


def test_null_and_lists_can_be_given(read):
    got = read(TEXT, "train.clip=null", "train.betas=[0.8, 0.9]")
    assert got.train.clip is None
    assert got.train.betas == (0.8, 0.9)


def test_an_override_can_fill_a_section_that_the_file_does_not_have(read):
    assert read(TEXT.replace("decode:\n  beam: 2\n", ""), "decode.beam=5").decode.beam == 5


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("train.steps=abc", "got 'abc', expected a whole number of at least 1"),
        ("train.steps=", "got null, expected a whole number of at least 1"),
        ("decode.top_p=2", "got 2, expected a number above 0 and at most 1"),
        ("tokens.shared=off", "got 'off', expected true or false"),
        (
            "data.kind=cpy",
            "got 'cpy', expected a known kind\n"
            "did you mean copy? `regard recipe --keys data` lists all",
        ),
        (
            "model.size=bse",
            "got 'bse', expected one of tiny, small, base, big, or null\ndid you mean base?",
        ),
        ("version=3", "got 3, expected 2\nthis Regard reads versions 1 and 2 of recipes"),
        ("train.steps", "got no value, expected train.steps=VALUE"),
        ("=3", "got an empty key, expected key=value, as in train.steps=500"),
        ("train.=3", "got an empty key, expected key=value, as in train.steps=500"),
        ("", "got an empty key, expected key=value, as in train.steps=500"),
        (
            "train={steps: 3}",
            "got a whole section, expected one key of it, as in train.steps=VALUE",
        ),
        ("train.step=4", "got an unknown key, expected a key of train\ndid you mean train.steps?"),
        (
            "trian.step=4",
            "got an unknown key, expected a key of a recipe\ndid you mean train.steps?",
        ),
        ("steps=4", "got an unknown key, expected a key of a recipe\ndid you mean train.steps?"),
        ("sed=4", "got an unknown key, expected a key of a recipe\ndid you mean seed?"),
        (
            "model.shared=true",
            "got an unknown key, expected a key of model\ndid you mean tokens.shared?",
        ),
        (
            "train.betas.0=1",
            "got an unknown key, expected a key of train\ndid you mean train.betas?",
        ),
        (
            "qqqq.zzzz=1",
            "got an unknown key, expected a key of a recipe\n"
            "keys of a recipe: version, task, seed, data, tokens, model, train, decode, start",
        ),
        (
            "data.valid=x.tsv",
            "got an unknown key, expected a key of data\nvalid belongs to data.kind: files",
        ),
        (
            "data.train=*.tsv",
            "got an anchor or alias, expected plain YAML\nquote a value that begins with & or *",
        ),
        ("data.train=2014", "got 2014, expected a file name, or two as [source, target]"),
        ("data.train=a,b,c", "got ['a', 'b', 'c'], expected a file name, or two as"),
        ("train.betas=[1", "cannot be read as YAML: expected ',' or ']', but got '<stream end>'\n"),
        ("train.steps={a: 1, a: 2}", "a: got the same key again, expected each key once"),
        ("model.dim=100", "dim 100 is not a multiple of heads 8"),
        ("model.tied=all", "model.tied: all needs tokens.shared: true (or set model.tied: output)"),
    ],
)
def test_a_wrong_override_is_named(message, override, expected):
    assert message(override).startswith(f"override {override}: {expected}")


def test_keys_that_disagree_blame_the_override_and_not_the_file(message):
    text = TEXT.replace("shared: false", "shared: true").replace("tied: output", "tied: all")
    said = message("tokens.shared=false", text=text)
    assert said.startswith(
        "override tokens.shared=false: model.tied: all needs tokens.shared: true"
    )


def test_a_section_that_is_wrong_in_the_file_stays_wrong_under_an_override(message):
    said = message("decode.beam=3", old="decode:\n  beam: 2\n", new="decode: 4\n")
    assert said.startswith("my.yaml:16: decode: got 4, expected keys, such as beam: 1")
    said = message("data.kind=copy", text="data: 4\n")
    assert said.startswith("my.yaml:1: data: got 4, expected keys, such as kind: grammar")


def test_another_kind_of_data_leaves_the_former_kinds_keys_behind(read):
    assert read(TEXT, "data.kind=copy").data == ToyData(kind="copy", pairs=100, held_out=10)
    got = read(TEXT, "data.kind=files", "data.train=x.tsv").data
    assert got == FileData(train="x.tsv", held_out=10)


def test_another_family_leaves_what_only_the_former_has_behind():
    config = load("tiny/copy", ["model.family=seq2seq", "model.cell=lstm"]).model
    sizes = {"encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0, "tied": "all"}
    assert config == Seq2SeqConfig(dim=64, cell="lstm", **sizes)
    with pytest.raises(InputError, match="heads belongs to kind: attention"):
        load("tiny/copy", ["model.family=seq2seq", "model.heads=4"])


def test_a_training_file_implies_data_of_kind_files(read):
    assert read(TEXT, "data.train=x.tsv").data == FileData(train="x.tsv", held_out=10)
    got = read(TEXT, "data.valid=v.tsv", "data.train=x.tsv", "data.held_out=20").data
    assert got == FileData(train="x.tsv", valid="v.tsv", held_out=20)


def test_another_kind_does_not_hide_unknown_keys_or_new_overrides(message):
    said = message("data.kind=copy", old="pairs: 100", new="piars: 100")
    assert said.startswith("my.yaml:5: data.piars: got an unknown key")
    said = message("data.train=x.tsv", "data.pairs=5")
    first = "override data.pairs=5: got an unknown key, expected a key of data"
    kinds = "grammar or copy or reverse or sort or scenes or tissue"
    assert said == f"{first}\npairs belongs to data.kind: {kinds}"
    said = message("data.train=x.tsv", "data.kind=copy")
    assert said.startswith("override data.train=x.tsv: got an unknown key")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a.en,a.de", ("a.en", "a.de")),
        (" a.en , a.de", ("a.en", "a.de")),
        ("[a.en, a.de]", ("a.en", "a.de")),
        ("'a,b.tsv'", "a,b.tsv"),
        ("a.tsv", "a.tsv"),
        ("'2014'", "2014"),
    ],
)
def test_one_or_two_files_can_be_given(read, value, expected):
    for key in ("train", "valid", "test"):
        got = read(TEXT, "data.train=x", f"data.{key}={value}")
        assert getattr(got.data, key) == expected


def test_a_comma_is_only_special_for_files(message):
    said = message("train.betas=0.9,0.98")
    assert said.startswith("override train.betas=0.9,0.98: got '0.9,0.98', expected two numbers")


# Writing and comparing


def test_a_dump_keeps_floats_pairs_none_and_unicode(in_folder):
    overrides = ["data.train=[tränen 日本.en, 'no']", "data.valid='1e-3'", "train.clip=null"]
    overrides += [
        "train.epsilon=1e-9",
        "train.learning_rate=0.1234567890123456",
        "train.patience=3",
    ]
    got = load("tiny/translate", overrides)
    (in_folder / "resolved.yaml").write_text(dump(got), "utf-8")
    assert load("resolved.yaml") == got
    assert got.data.train == ("tränen 日本.en", "no")
    assert got.data.valid == "1e-3"


OWN = load("own/translate")


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(first=st.text(), second=st.text(), rate=st.floats(min_value=1e-300, max_value=1e300))
def test_any_file_name_and_number_survive_a_dump(first, second, rate):
    data = FileData(train=(first, second), valid=first)
    train = TrainConfig(learning_rate=rate)
    got = OWN.model_copy(update={"data": data, "train": train})
    values = recipe.read(dump(got), str).values
    assert Recipe.model_validate(values, strict=True) == got


def test_what_changed_is_named_in_the_order_of_the_recipe():
    old = load("tiny/translate")
    assert changed(old, old) == []
    new = load("tiny/translate", ["train.learning_rate=1", "model.dim=64", "train.clip=null"])
    assert changed(old, new) == ["model.dim", "train.learning_rate", "train.clip"]
    other = changed(old, load("tiny/translate", ["data.train=x"]))
    assert {"data.kind", "data.train", "data.valid", "data.pairs"} <= set(other)
    assert "data.held_out" not in other


# What is known about keys agrees with the sections


def test_the_kinds_of_data_are_those_of_its_config():
    union, _ = get_args(DataConfig)
    kinds = {
        kind: config
        for config in get_args(union)
        for kind in get_args(config.model_fields["kind"].annotation)
    }
    assert kinds == DATA_KINDS


def test_the_names_of_sizes_are_those_of_the_config():
    names, _ = get_args(TransformerConfig.model_fields["size"].annotation)
    assert list(get_args(names)) == list(SIZES)


def test_every_key_of_a_recipe_is_known_and_can_be_expected_in_words():
    assert {*KEYS.top, *KEYS.sections} == set(Recipe.model_fields)
    for section, kinds in KEYS.sections.items():
        for config in kinds.values():
            assert issubclass(config, Config)
            for name, field in config.model_fields.items():
                assert (section, name) in KEYS
                assert expectation(field)


def test_sections_that_disagree_are_refused_in_python_too():
    values = load("tiny/translate").model_dump()
    values["model"]["head"]["tied"] = "all"
    with pytest.raises(ValidationError, match=r"tied: all needs tokens\.shared: true"):
        Recipe.model_validate(values)


def test_the_docstring_examples_run():
    results = doctest.testmod(recipe)
    assert results.attempted
    assert not results.failed


@pytest.mark.parametrize(
    ("overrides", "wrong"),
    [
        ("model.dropout=0.2 model.heads=7", "model.heads=7"),
        ("model.dim=128 model.heads=7", "model.heads=7"),  # 128 goes well with the file's 4
        ("model.dim=66 model.heads=7", "model.dim=66"),  # wrong with any heads that are named
        ("model.heads=7 model.kv_heads=5", "model.heads=7"),
        ("tokens.lowercase=true tokens.kind=bpe tokens.vocab=100", "tokens.kind=bpe"),
        ("model.tied=all tokens.shared=false", "tokens.shared=false"),  # tied is all already
        ("train.steps=-1 model.dim=-3", "train.steps=-1"),
        ("model.dim=-3 train.steps=-1", "model.dim=-3"),
        ("train.warmup=x train.lr=1", "train.warmup=x"),
        ("train.warmup=3 train.lr=1", "train.lr=1"),
    ],
)
def test_the_override_that_is_wrong_is_blamed(overrides, wrong):
    with pytest.raises(InputError) as caught:
        load("tiny/copy", overrides.split())
    assert str(caught.value).startswith(f"override {wrong}: ")


def test_a_share_of_a_text_is_not_taken_for_a_number_of_pairs():
    data = load("own/generate", ["data.train=my.tsv"]).data
    assert data.kind == "files"
    assert data.held_out == FileData.model_fields["held_out"].default
    assert load("own/generate", ["data.files=other.txt"]).data.held_out == 0.05
