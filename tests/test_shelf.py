"""What ships with Regard: every entry is small, has a card, and the card says what is so."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from regard.cost.count import parameters
from regard.data import sources
from regard.errors import InputError
from regard.models.meta_model import meta_model
from regard.recipes import recipe as recipes
from regard.recipes.shelf import CARD, bytes_of, card_of, is_model, shipped
from regard.runs.load import load, outline
from tests.commands import is_refused

ROOT = Path(__file__).parent.parent
MOST, MOST_IN_ALL = 9_000_000, 53_000_000
DIGEST = "ab" * 32
CARD_TEXT = """---
title: A model
license: CC0-1.0
language: [en]
recipe: null
parameters: 3
bytes: 12
summary: a small one
training: a minute
data:
  - name: words
    origin: https://example.org
    attribution: somebody
    license: CC0-1.0
    sha256: {digest}
scores:
  - name: accuracy
    value: 1
    on: all of it
weaknesses: [everything else]
---
# Prose
"""


def card(folder: Path, change: str = "", into: str = "") -> Path:
    text = CARD_TEXT.replace("{digest}", DIGEST)
    assert change in text
    (folder / CARD).write_text(text.replace(change, into, 1))
    return folder


@pytest.mark.parametrize("name", sorted(shipped()))
def test_the_card_of_every_entry_is_complete_and_its_size_is_right(name):
    entry = shipped()[name]
    card = card_of(entry)
    assert card.bytes == bytes_of(entry) <= MOST
    assert card.prose.startswith(f"# {name}")
    assert (card.recipe in recipes.shipped()) if is_model(entry) else card.recipe is None
    if is_model(entry):
        recipe, sizes = outline(name)
        assert card.parameters == sum(parameters(meta_model(recipe.model, *sizes)).values())


def test_the_shelf_is_small():
    assert sum(map(bytes_of, shipped().values())) <= MOST_IN_ALL


def test_every_file_of_the_shelf_is_packaged():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = settings["package-data"]["regard"]
    assert "shipped/**/*" in patterns
    for file in (ROOT / "regard/shipped").rglob("*"):
        name = str(file.relative_to(ROOT / "regard"))
        assert file.is_dir() or any(fnmatchcase(name, pattern) for pattern in patterns), name


@pytest.mark.slow
def test_the_generated_data_of_a_card_are_what_its_command_prints():
    [data] = card_of(shipped()["tiny/translate"]).data
    pairs = sources.load_splits(recipes.load("tiny/translate").data).splits.train
    lines = "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)
    assert data.sha256 == hashlib.sha256(lines.encode()).hexdigest()
    assert data.origin == f"regard data sample tiny/translate --pairs {len(pairs)}"


def test_a_card_beside_a_checkpoint_does_not_disturb_it(tmp_path):
    folder = load("tiny/translate").save(tmp_path / "x")
    card(folder)
    assert load(folder).translate("The dog sleeps.") == "Der Hund schläft."


def test_a_card_is_read_and_shown(tmp_path, regard):
    shown_card = card_of(card(tmp_path))
    assert shown_card.scores[0].value == 1
    assert shown_card.prose == "# Prose"
    lines = shown_card.describe().splitlines()
    assert lines[0] == "A model"
    assert "accuracy    1, all of it" in lines
    shown = regard("ls", "tiny/translate")
    assert re.search(r"^BLEU +99.4, 500 sentences", shown.out, re.M)
    entry = json.loads(regard("ls", "tiny/translate", "--json").out)
    assert entry["data"][0]["license"] == "Apache-2.0"


@pytest.mark.parametrize(
    ("change", "into", "said"),
    [
        ("---\n", "", "got no facts, expected YAML"),
        ("training: a minute\n", "", "training: got nothing, expected a value"),
        ("bytes: 12", "bytes: many", "bytes: got 'many', expected a valid integer"),
        (DIGEST, "abc", "sha256"),
        ("weaknesses: [everything else]", "weaknesses: []", "weaknesses"),
        ("title: A model", "title: A model\nmood: good", "mood: got an unknown key"),
        ("title: A model", "title: !x A model", "README.md:2"),
    ],
)
def test_a_card_that_lacks_something_is_refused(tmp_path, change, into, said):
    with pytest.raises(InputError, match=re.escape(said)):
        card_of(card(tmp_path, change, into))


def test_an_entry_without_a_card_is_listed_without_a_score(regard, tmp_path, monkeypatch):
    (tmp_path / "shelf/words/few").mkdir(parents=True)
    (tmp_path / "shelf/words/few/config.json").write_text('{"family": "vectors"}')
    (tmp_path / "shelf/words/few/model.safetensors").write_bytes(b"x" * 1_500_000)
    entry = tmp_path / "shelf/words/few"
    with pytest.raises(InputError, match="no such file"):
        card_of(entry)
    monkeypatch.setattr("regard.runs.list.shipped", lambda: {"words/few": entry})
    assert regard("ls").out.splitlines()[1].split() == [
        "words/few", "shipped", "(vectors)", "1.5", "MB", "vectors",
    ]  # fmt: skip
    card(entry)
    table = regard("ls").out.partition("\n\n")[2]
    assert table.splitlines()[1].split() == ["words/few", "accuracy", "1", "all", "of", "it"]


def test_ls_names_only_verbs_that_a_model_does_not_refuse(regard):
    lines = map(json.loads, regard("ls", "--json").out.splitlines())
    rows = {row["name"]: row["verbs"] for row in lines if row["kind"] == "shipped"}
    assert rows["small/digits"] == ["classify", "embed", "look", "heads"]
    assert "words" in rows["small/write"]


def test_ls_of_a_misspelt_name_names_the_nearest(regard):
    is_refused(regard("ls", "tiny/transalte"), "did you mean tiny/translate?")
    is_refused(regard("ls", "tiny/copy"), "is a recipe, not a model")
    is_refused(regard("ls", "nowhere"), "no such folder")
    is_refused(regard("ls", "smal"), "no such folder", "did you mean small?")
