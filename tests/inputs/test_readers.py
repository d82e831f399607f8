"""One reader per modality: no other code asks what a model reads, and any two of them are saved."""

from __future__ import annotations

import ast
import itertools
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import regard
from regard.errors import InputError
from regard.inputs.images.reader import ImageReader
from regard.inputs.processor import Processor, Vocabulary
from regard.inputs.reader import Encoded, Reader
from regard.inputs.readers import READERS, ReaderEntry
from regard.inputs.table.reader import NumberColumn, TableReader
from regard.inputs.text import TokensConfig, learn_plain
from regard.tasks.encoder_task import ENCODER_SYMBOLS
from regard.tasks.specs import TASKS

ROOT = Path(regard.__file__).parent
FREE = ("inputs", "data/images")
"""Folders whose code is about one modality."""
CLASSES = {"Ragged", "Dense", "ImageReader", "TextReader", "Tokenizer", "Reader", "Vocabulary"}
WORDS = "a cat sat on the mat"


def asks_for_a_modality(node: ast.AST) -> bool:
    """Whether a comparison names a modality, or an isinstance a class of one."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
        names = {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}
        return bool(names & CLASSES)
    if not isinstance(node, ast.Compare):
        return False
    sides = [node.left, *node.comparators]
    named = any(isinstance(side, ast.Constant) and side.value in READERS for side in sides)
    return named and any(getattr(side, "attr", "") in ("reads", "modality") for side in sides)


def test_nothing_but_the_readers_asks_what_a_model_reads():
    lines = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted(ROOT.rglob("*.py"))
        if not path.relative_to(ROOT).as_posix().startswith(FREE)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if asks_for_a_modality(node)
    ]
    assert lines == []


def test_the_search_for_such_lines_finds_them():
    asking = ["config.reads == 'images'", "'text' != model.reads", "isinstance(x, Ragged | Dense)"]
    other = ["data.kind == 'text'", "isinstance(x, str)", "config.reads in self.homes"]
    for text, expected in [*((a, True) for a in asking), *((o, False) for o in other)]:
        assert any(map(asks_for_a_modality, ast.walk(ast.parse(text)))) is expected, text


class Digits:
    """A reader of a modality that Regard does not have: whole numbers, as their digits."""

    modality, nouns, key, has_grid, dash_is_item = "digits", "numbers", "number", False, False

    def to_json(self):
        return json.dumps({"reader": "digits"})

    @classmethod
    def from_spec(cls, spec):
        assert spec == {"reader": "digits"}
        return cls()

    def __eq__(self, other):
        return type(self) is type(other)

    def __hash__(self):
        return 0


@pytest.fixture
def readers(monkeypatch):
    """A reader of each modality, one of them our own: a class and one line."""
    monkeypatch.setitem(READERS, "digits", ReaderEntry(f"{__name__}.Digits", "none"))
    return {
        "text": learn_plain([WORDS], TokensConfig(kind="words"), ENCODER_SYMBOLS).source,
        "images": ImageReader(height=4, width=6),
        "table": TableReader(columns=(NumberColumn(name="a", mean=1.0, deviation=0.5),)),
        "digits": Digits(),
    }


def is_same(reader, other):
    if reader is None or reader.modality != "text":
        return reader == other
    return reader.to_json() == other.to_json()


def test_every_combination_of_readers_is_saved_and_loaded(readers):
    assert readers.keys() == READERS.keys()
    for source, target in itertools.product(readers.values(), (None, *readers.values())):
        again = Processor.from_json(Processor(source, target).to_json())
        assert is_same(source, again.source)
        if target is not None:
            assert is_same(target, again.target)
        texts = {side.modality for side in (source, target or source)} == {"text"}
        assert (type(again) is Vocabulary) == texts


def test_a_shared_reader_stays_shared(readers):
    text = readers["text"]
    for reader in readers.values():
        assert Processor.from_json(Processor(reader, reader).to_json()).shared
    two = Processor(text, learn_plain(["b"], TokensConfig(kind="words"), ENCODER_SYMBOLS).source)
    assert not Processor.from_json(two.to_json()).shared


def test_an_unknown_reader_is_refused(readers):
    saved = Processor(readers["images"], readers["text"]).to_json()
    for other in ('"sounds"', "7", '["images"]'):
        with pytest.raises(InputError, match=r"tokenizer\.json"):
            Processor.from_json(saved.replace('"images"', other, 1))


@pytest.mark.parametrize("name", ["text", "images", "table"])
def test_a_reader_has_what_the_protocol_says(name):
    said = {key for key in (*vars(Reader), *Reader.__annotations__) if not key.startswith("_")}
    assert {key for key in said if not hasattr(READERS[name].reader, key)} == set()


def test_an_item_is_read_once_per_verb(monkeypatch):
    """A sentence is tokenized once, an image opened once."""
    translator, digits = regard.load("tiny/translate"), regard.load("small/digits")
    read: list[object] = []
    for reader in (type(translator.reader), ImageReader):
        original = reader.read

        def count(self, items, *rest, original=original, **more):
            read.extend(items)
            return original(self, items, *rest, **more)

        monkeypatch.setattr(reader, "read", count)
    encode = type(translator.reader).encode
    monkeypatch.setattr(
        type(translator.reader),
        "encode",
        lambda self, text: read.append(text) or encode(self, text),
    )
    translator.translate("The dog sleeps.")
    assert read == ["The dog sleeps."]
    read.clear()
    image = np.zeros((8, 8), dtype=np.uint8)
    image[2:6, 3:5] = 255
    digits.classify(image)
    assert len(read) == 1


def test_every_task_names_readers_that_there_are():
    for spec in TASKS.values():
        assert set(spec.homes) <= set(READERS)
    with pytest.raises(KeyError):
        TASKS["translate"].class_for(SimpleNamespace(reads="sounds"))
    assert Encoded("a", [1]).cut == 0
