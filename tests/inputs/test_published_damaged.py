from __future__ import annotations

import base64
import json
import shutil
import struct
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.inputs.text import Roles, Tokenizer, Vocabulary, read_folder, spec
from regard.inputs.text.published import folder
from regard.inputs.text.published.legacy import build_spec
from regard.inputs.text.published.sentencepiece import BPE, Piece, PieceModel, read_pieces
from regard.inputs.text.template import read_template


def message(varint_fields=(), **texts):
    """A protobuf message: numbers by field, then texts by `f<field>`."""
    data = b""
    for number, value in varint_fields:
        data += bytes([number << 3]) + bytes([value])
    for name, value in texts.items():
        data += bytes([int(name[1:]) << 3 | 2, len(value)]) + value
    return data


def piece(text, score=0.0, kind=1):
    number = bytes([2 << 3 | 5]) + struct.pack("<f", score)
    return message(f1=message(((3, kind),), f1=text.encode()) + number)


GOOD = piece("<unk>", kind=2) + piece("▁a", -1.0) + piece("b", -2.0)


def copied(source, to):
    for file in source.iterdir():
        shutil.copy(file, to)
    return to


def test_a_small_model_is_read():
    model = read_pieces(GOOD, "own.model")
    assert [piece.text for piece in model.pieces] == ["<unk>", "▁a", "b"]
    assert [piece.score for piece in model.pieces] == [0.0, -1.0, -2.0]
    assert model.leading_space
    assert model.single_spaces


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "0 pieces"),
        (GOOD[:-1], "truncated"),
        (b"PK\x03\x04 some archive", "no SentencePiece model"),
        (b"\xff" * 40, "unterminated number"),
        (GOOD + piece("b"), "twice"),
        (GOOD + piece("c", float("nan")), "not a number"),
        (GOOD + piece(""), "without text"),
        (piece("a"), "unknown"),
        (GOOD + piece("<unk2>", kind=2), "unknown"),
        (GOOD + message(f2=message(((3, 3),))), "words or characters"),
        (GOOD + message(((2, 1),)), "a number instead of text"),
        (message(f1=message(f1=b"\xff\xfe")), "no SentencePiece model"),
        (b"IQ== 0\nIg== 1\n", "0 pieces"),
    ],
)
def test_a_damaged_model_is_refused_with_its_name(data, told):
    with pytest.raises(InputError, match=told) as refused:
        read_pieces(data, "folder/own.model")
    assert "folder/own.model" in str(refused.value)


@given(data=st.binary(max_size=80) | st.builds(lambda cut, more: GOOD[:cut] + more,
       st.integers(0, len(GOOD)), st.binary(max_size=20)))  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_or_refused(data):
    with suppress(InputError):
        assert read_pieces(data, "own.model").pieces


def test_a_hostile_character_map_is_refused(tmp_path):
    data = GOOD + message(f3=message(f2=b"\xff\xff\xff\x7f" + b"\x01" * 20))
    (tmp_path / "spiece.model").write_bytes(data)
    with pytest.raises(InputError, match=r"spiece\.model"):
        read_folder(tmp_path)


def edited(published, tmp_path, kind, change):
    path = copied(published(kind), tmp_path) / "tokenizer.json"
    spec = json.loads(path.read_text())
    change(spec)
    path.write_text(json.dumps(spec))
    return tmp_path


CHANGES = {
    "no model": lambda spec: spec.pop("model"),
    "a model that is a list": lambda spec: spec.update(model=[]),
    "no vocabulary": lambda spec: spec["model"].pop("vocab"),
    "another type": lambda spec: spec["model"].update(type="Other"),
    "a bad pattern": lambda spec: spec.update(
        normalizer={"type": "Replace", "pattern": {"Regex": "(["}, "content": ""}
    ),
    "an unknown step": lambda spec: spec.update(normalizer={"type": "Magic"}),
    "symbols that are text": lambda spec: spec.update(added_tokens=["<s>"]),
    "a symbol with another's id": lambda spec: spec["added_tokens"][0].update(id=9),
    "a symbol far away": lambda spec: spec["added_tokens"][0].update(id=10**9),
    "an id far away": lambda spec: spec["model"]["vocab"].update(far=4_000_000_000),
    "a negative id": lambda spec: spec["model"]["vocab"].update(far=-1),
    "an unknown template": lambda spec: spec.update(post_processor={"type": "Magic"}),
    "a template without parts": lambda spec: spec.update(
        post_processor={"type": "TemplateProcessing"}
    ),
    "parts that are no objects": lambda spec: spec.update(
        post_processor={"type": "TemplateProcessing", "single": ["A"], "pair": [3, None],
                        "special_tokens": {}}
    ),
    "symbols of a template that are no objects": lambda spec: spec.update(
        post_processor={"type": "TemplateProcessing", "single": [{"SpecialToken": "x"}],
                        "pair": [], "special_tokens": []}
    ),
    "a template that is a number": lambda spec: spec.update(post_processor=3),
    "a merge of nothing": lambda spec: spec["model"].update(merges=[["x", "qqqq"]]),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_damaged_tokenizer_is_refused_with_its_name(change, published, tmp_path, capfd):
    broken = edited(published, tmp_path, "gpt2", CHANGES[change])
    with pytest.raises(InputError, match=r"tokenizer\.json") as refused:
        read_folder(broken)
    assert len(str(refused.value).splitlines()) <= 2
    capfd.readouterr()  # a panic of the library writes to standard error


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 100_000, b'"text"'])
@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "config.json"])
def test_files_that_are_no_json_are_refused(name, content, published, tmp_path):
    copied(published("gpt2"), tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=name.replace(".", r"\.")):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    "settings_",
    [
        {"bos_token": 5},
        {"bos_token": {"content": []}},
        {"added_tokens_decoder": []},
        {"added_tokens_decoder": {"x": {}}},
        {"additional_special_tokens": 3},
        {"extra_special_tokens": {"a": 5}},
        {"add_prefix_space": "yes", "tokenizer_class": 5},
        {"added_tokens_decoder": {"5000000": {"content": "<far>"}}},
    ],
)
def test_odd_settings_are_refused_or_passed_over(settings_, published, tmp_path):
    copied(published("gpt2"), tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings_))
    with suppress(InputError):  # anything else would be a crash
        assert read_folder(tmp_path).source.encode("The dog")


def test_a_file_beyond_all_measure_is_not_read(published, tmp_path, monkeypatch):
    copied(published("gpt2"), tmp_path)
    monkeypatch.setattr(folder, "LARGEST", 1000)
    with pytest.raises(InputError, match="bytes, expected at most 1,000"):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("merges.txt", "#version: 0.2\nabc\n", "line 2"),
        ("merges.txt", "a b c\n", "line 1"),
        ("vocab.json", '{"a": "0"}', "not a whole number"),
        ("vocab.json", '{"a": -1}', "not a whole number"),
        ("vocab.json", '{"a": 0}', "vocab.json|merges.txt"),
    ],
)
def test_damaged_older_files_are_refused(name, content, told, tmp_path):
    (tmp_path / "vocab.json").write_text('{"a": 0, "b": 1, "ab": 2}')
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b\n")
    assert read_folder(tmp_path).source.encode("ab") == [2]
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=told):
        read_folder(tmp_path)


def test_a_vocabulary_without_its_unknown_piece_is_refused(tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\nthe\n")
    with pytest.raises(InputError, match=r"vocab\.txt"):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec.update(foreign=3),
        lambda spec: spec.update(foreign={}),
        lambda spec: spec.update(roles=None),
        lambda spec: spec.update(roles={"king": 1}),
        lambda spec: spec.update(roles={"begin": "1"}),
        lambda spec: spec.update(roles={"begin": 10_000}),
        lambda spec: spec.update(roles={"begin": True}),
        lambda spec: spec.update(vocab=10_000),
        lambda spec: spec.update(vocab=0),
        lambda spec: spec["foreign"]["model"].update(vocab=None),
    ],
)
def test_a_damaged_checkpoint_is_refused(change, published, capfd):
    vocabulary = read_folder(published("gpt2"))
    spec = json.loads(vocabulary.to_json())
    change(spec)
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        Vocabulary.from_json(json.dumps(spec))
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        Vocabulary.from_json(json.dumps({"source": spec, "target": spec}))
    capfd.readouterr()


def test_a_published_tokenizer_is_still_no_vocabulary_of_ours(published):
    text = (published("gpt2") / "tokenizer.json").read_text()
    with pytest.raises(InputError, match="Regard checkpoint"):
        Vocabulary.from_json(text)


def test_unsupported_templates_are_refused():
    two = {"type": "BertProcessing", "sep": ["a", 1], "cls": ["b", 2]}
    for processor in (
        {"type": "Sequence", "processors": [two, two]},
        {"type": "Sequence", "processors": 3},
        {"type": "BertProcessing"},
        {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "C", "type_id": 0}}]},
        [],
        "text",
    ):
        with pytest.raises(InputError, match="post-processor"):
            read_template(processor, "tokenizer.json")
    assert read_template(two, "").fill([7], [8]) == ([2, 7, 1, 8, 1], [0, 0, 0, 1, 1])


def whole(**parts):
    """A tokenizer of three words, with other parts."""
    words = {"a": 0, "b": 1, "[UNK]": 2}
    model = {"type": "WordLevel", "vocab": words, "unk_token": "[UNK]"}
    return {"version": "1.0", "added_tokens": [], "model": model, **parts}


def replacing(old, new, kind="String"):
    return {"type": "Replace", "pattern": {kind: old}, "content": new}


def several(steps, kind="normalizers"):
    return {"type": "Sequence", kind: steps}


def compiled(claimed, strings):
    characters = base64.b64encode(struct.pack("<I", claimed) + bytes(4) + strings).decode()
    return {"type": "Precompiled", "precompiled_charsmap": characters}


LONG = "x" * 1_000_000
GROWING = "more than 4,096 times as long"
TEXT = {"Sequence": {"id": "A", "type_id": 0}}


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"normalizer": replacing("a", LONG)}, GROWING),
        ({"normalizer": several([replacing("o", "o" * 10)] * 9)}, GROWING),
        ({"normalizer": several([several([replacing("", "a", "Regex")] * 30)])}, GROWING),
        ({"normalizer": several([{"type": "Prepend", "prepend": "ab"}] * 30)}, GROWING),
        ({"normalizer": compiled(4, LONG.encode())}, GROWING),
        ({"decoder": several([replacing("o", "o" * 10)] * 9, "decoders")}, GROWING),
        ({"normalizer": compiled(0xFFFFFFF0, b"")}, "8 bytes that claims 4,294,967,284"),
        ({"normalizer": several([compiled(0xFFFFFFF0, b"")])}, "that claims 4,294,967,284"),
        ({"normalizer": compiled(7, b"")}, "that claims 11"),
        ({"model": {"type": "WordLevel", "vocab": {LONG: 0}}}, "1,000,000 characters.* 4,096"),
        ({"model": {"type": "Unigram", "vocab": [[LONG, 0.0]]}}, "1,000,000 characters.* 4,096"),
        ({"post_processor": {"type": "TemplateProcessing", "single": [TEXT] * 65, "pair": [TEXT],
                             "special_tokens": {}}}, "more than 64 parts"),
    ],
)  # fmt: skip
def test_what_would_take_memory_or_hours_is_refused_with_its_limit(parts, told, monkeypatch):
    monkeypatch.setattr(spec.Inner, "from_str", lambda _: pytest.fail("it was built"))
    with pytest.raises(InputError, match=told) as caught:
        Tokenizer(whole(**parts), Roles())
    assert len(str(caught.value)) < 600


def test_steps_as_published_ones_have_them_are_no_bombs():
    spaces = [replacing(" {2,}", " ", "Regex"), replacing(" ", "▁")]
    steps = several([*spaces, {"type": "Prepend", "prepend": "▁"}, replacing("``", '"')])
    assert Tokenizer(whole(normalizer=steps), Roles()).vocab == 3


def test_a_long_piece_is_refused_before_it_is_cut_in_all_ways():
    def model(*pieces):
        entries = [Piece("<unk>", kind=2), *(Piece(text) for text in pieces)]
        return PieceModel(tuple(entries), algorithm=BPE)

    long = struct.pack("<B", 10) + b"\xc0\x84\x3d" + LONG.encode()
    size = len(long)
    varint = bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14])
    with pytest.raises(InputError, match=r"a piece of 1,000,000 characters, more than 4,096"):
        read_pieces(GOOD + b"\x0a" + varint + long, "own.model")
    many = [f"{'a' * 4000}{number}" for number in range(20)]
    with pytest.raises(InputError, match=r"takes \d+,\d+,\d+ steps, over 268,435,456"):
        build_spec(model(*many), "own.model")
    claiming = replace(model("a"), characters=b"\xff\xff\xff\xff")
    with pytest.raises(InputError, match="that claims"):
        build_spec(claiming, "own.model")
