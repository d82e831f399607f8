from __future__ import annotations

import gzip
import json
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.text import documents, records
from regard.data.text.documents import PIECE, TextFiles, cut, find_files, join_parts
from regard.data.text.pairs import Pair
from regard.errors import InputError
from regard.inputs.text import TokensConfig, learn


@pytest.fixture
def write(tmp_path):
    """Write a file into the test's folder and give its name."""

    def _write(name: str, content: bytes | str) -> str:
        raw = content.encode() if isinstance(content, str) else content
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
        return str(path)

    return _write


def read(*files: str, **options) -> list[str]:
    """All documents, whole."""
    texts, text = [], ""
    for piece in TextFiles(files, **options).pieces(Counter()):
        assert len(piece.text) <= PIECE
        text += piece.text
        if piece.last:
            texts.append(text)
            text = ""
    assert not text
    return texts


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.md"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_file_is_one_document_as_it_stands(write, name, end):
    text = f"First Citizen:{end}Before  we proceed\u2028any further.{end}{end}"
    assert read(write(name, text)) == [text.replace("\r\n", "\n")]


def test_a_byte_order_mark_is_no_text_and_a_lone_carriage_return_is(write):
    assert read(write("a.txt", b"\xef\xbb\xbfone\rtwo\r")) == ["one\rtwo\r"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_separator_line_parts_documents_without_the_blank_lines_around(write, end):
    lines = ["<|endoftext|>", "", "one", "", "more", "", "", "<|endoftext|>", "two <|endoftext|>"]
    lines += [" <|endoftext|> ", "<|endoftext|>", "three"]
    file = write("a.txt", end.join(lines))
    assert read(file, separator="<|endoftext|>") == ["one\n\nmore", "two <|endoftext|>", "three"]


def test_a_blank_line_can_part_documents(write):
    file = write("a.txt", "\n\none\nmore\n\n \t\ntwo\n\n")
    assert read(file, separator="") == ["one\nmore", "two"]


def test_documents_end_with_their_file(write):
    files = write("a.txt", "one\ntwo"), write("b.txt", "three")
    assert read(*files, separator="--") == ["one\ntwo", "three"]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_an_entry_of_jsonl_is_a_document(write, name):
    texts = ["one\ntwo", "a\u2028b", "drei Äpfel"]
    rows = [json.dumps({"id": 1, "text": text.replace("\n", "\r\n")}) for text in texts]
    assert read(write(name, "\n".join(rows)), separator="x") == texts


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
def test_the_first_column_of_a_tsv_line_is_a_document(write, name):
    file = write(name, "Hi.\tHallo!\nHi.\tGrüß Gott!\nGo on.\tWeiter.\nalone\n")
    assert read(file, separator="--") == ["Hi.", "Go on.", "alone"]


def test_a_tsv_line_without_a_text_or_with_an_endless_one_is_named_or_left_out(write):
    file = write("a.tsv", f"one\tx\n\tno source\n{'a' * 70_000}\tlong\ntwo\t{'b' * 70_000}\n")
    with pytest.raises(InputError, match=r"a\.tsv:2: empty"):
        read(file)
    assert read(file, on_bad="skip") == ["one", "two"]


BAD = {
    "not UTF-8": (b"ab\xff\n", "2: not UTF-8 (byte 0xff at 3)"),
    "cut character": (b"ab\xc3\n", "2: not UTF-8 (byte 0xc3 at 3)"),
    "NUL": (b"a\0b\n", r"2: a control character in the text ('\x00')"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_line_stops_with_its_number_or_is_left_out(write, kind):
    line, message = BAD[kind]
    file = write("a.txt", b"one\n" + line + b"two\n")
    with pytest.raises(InputError) as caught:
        read(file)
    assert str(caught.value).startswith(f"{file}:{message}\nfix it")
    assert read(file, on_bad="skip") == ["one\ntwo\n"]
    skipped: Counter[str] = Counter()
    list(TextFiles((file,), on_bad="skip").pieces(skipped))
    assert skipped.total() == 1


def test_a_character_cut_off_by_the_end_of_the_file_is_named(write):
    with pytest.raises(InputError, match=r"a\.txt:2: not UTF-8 \(the file ends within"):
        read(write("a.txt", b"one\ntw\xc3"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "empty line"),
        ('{"text": "  "}', "empty line"),
        ("{", "not JSON"),
        ("[1]", "not JSON (a list, not an object)"),
        ('{"body": "x"}', "wrong keys ('body', not 'text')"),
        ('{"text": 3}', "wrong keys ('text' is not a text)"),
        ('{"text": "\\u0000"}', "a control character"),
        ('{"text": "\\ud800"}', "not UTF-8 (half a character in 'text')"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_bad_jsonl_line_is_named_or_left_out(write, line, message):
    file = write("a.jsonl", f'{{"text": "one"}}\n{line}\n{{"text": "two"}}\n')
    with pytest.raises(InputError) as caught:
        read(file)
    assert str(caught.value).startswith(f"{file}:2: {message}")
    assert read(file, on_bad="skip") == ["one", "two"]


def test_a_problem_closes_the_file(write, monkeypatch):
    streams = []
    opened = records.opened
    monkeypatch.setattr(records, "opened", lambda file: streams.append(opened(file)) or streams[-1])
    with pytest.raises(InputError) as caught:  # noqa: F841 (it holds the frames of the readers)
        read(write("a.jsonl", '{"text": "one"}\n{}\n{"text": "two"}\n'))
    assert [stream.closed for stream in streams] == [True] * 2  # its columns are found out first


def test_an_over_long_jsonl_line_is_not_held(write, monkeypatch):
    monkeypatch.setattr(documents, "ENTRY", 50)
    file = write("a.jsonl", json.dumps({"text": "long " * 99}) + '\n{"text": "short"}')
    with pytest.raises(InputError, match=r":1: over-long \(\d+ characters, at most 50\)"):
        read(file)
    assert read(file, on_bad="skip") == ["short"]


@pytest.mark.parametrize("content", ["", " \n\n", "\ufeff"])
@pytest.mark.parametrize("separator", [None, "", "--"])
def test_an_empty_file_is_a_problem(write, content, separator):
    empty, full = write("a.txt", content), write("b.txt", "text")
    with pytest.raises(InputError, match=r"a\.txt:1: empty file"):
        read(empty, full, separator=separator)
    assert read(empty, full, separator=separator, on_bad="skip") == ["text"]


def test_files_that_cannot_be_read_always_stop(write, tmp_path):
    damaged = write("a.txt.gz", "text " * 999)
    path = tmp_path / "a.txt.gz"
    path.write_bytes(path.read_bytes()[:-9])
    utf16 = write("b.txt", "text".encode("utf-16"))
    for file, message in {
        damaged: "damaged after line 1",
        utf16: "got UTF-16, expected UTF-8",
        str(tmp_path / "none.txt"): "got no such file",
        str(tmp_path): "got a directory",
    }.items():
        with pytest.raises(InputError, match=message):
            read(file, on_bad="skip")
    with pytest.raises(InputError, match="got no such file"):
        TextFiles((str(tmp_path / "none.txt"),)).checksums()


def test_names_folders_and_globs_stand_for_files_in_order(write, tmp_path, monkeypatch):
    names = ["b/2.txt", "b/10.jsonl.gz", "b/c/1.txt.gz", "b/image.png", "a.txt"]
    b2, b10, c1, _, a = [write(name, "text") for name in names]
    assert find_files(str(tmp_path / "b")) == (b10, b2, c1)
    assert find_files([a, str(tmp_path / "*.txt"), str(tmp_path / "**/*.txt")]) == (a, b2)
    monkeypatch.chdir(tmp_path)
    assert find_files("a.txt") == ("a.txt",)
    write("odd[1].txt", "text")
    assert find_files("odd[1].txt") == ("odd[1].txt",)
    with pytest.raises(InputError, match=r"x/\*\.txt: got no text file, expected at least one of"):
        find_files("x/*.txt")


def test_a_line_of_ten_million_characters_is_read_in_little_memory(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("né " * 3_500_000)
    tracemalloc.start()
    pieces = TextFiles((str(file),), separator="").pieces(Counter())
    assert sum(len(piece.text) for piece in pieces) == 10_500_000
    assert tracemalloc.get_traced_memory()[1] < 8_000_000
    tracemalloc.stop()


@given(st.binary(max_size=60), st.integers(1, 7))
@settings(deadline=None, max_examples=50)
def test_lines_read_in_parts_are_the_lines(tmp_path_factory, raw, size):
    path = tmp_path_factory.mktemp("parts") / "a.txt"
    text = raw.decode("utf-8", "ignore").replace("\0", "").removeprefix("\ufeff")
    path.write_bytes(text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "LINE", size + 3)  # a mark at the beginning has three bytes
        texts = read(str(path), on_bad="skip") if text.strip() else []  # blank: refused as empty
    assert texts == ([text.replace("\r\n", "\n")] if text.strip() else [])


@given(st.lists(st.sampled_from(["a", "be", " ", "  ", "\n", "\n\n", "日本", ".", "'s"])))
@settings(deadline=None, max_examples=50)
def test_cut_texts_are_bounded_and_join_to_the_whole(parts):
    text = "".join(parts)
    pieces = list(cut(text, 5))
    assert "".join(pieces) == text
    assert max(map(len, pieces)) <= 5
    if text.strip():
        assert "".join(piece.text for piece in join_parts([*parts, None], 5)) == text
    elif len(text) <= 5:
        assert not list(join_parts([*parts, None], 5))


WORDS = [
    "to be",
    " or ",
    "  not\n",
    "\n\n to",
    "it's",
    " 3.5",
    "!\n",
    " Straße",
    "\t",
    " “so”",
    " be",
    "    deep",
]


@pytest.mark.parametrize("kind", ["words", "characters", "bytes", "bpe", "wordpiece", "unigram"])
def test_a_cut_text_has_the_tokens_of_the_whole(kind):
    sample = "".join(WORDS) * 3 + " to be or not to be, that is the question; whether"
    tokenizer = learn([Pair(sample, sample)], TokensConfig(kind=kind, vocab=320)).source
    random = np.random.default_rng(0)
    for _ in range(20):
        text = "".join(random.choice(WORDS, size=60))
        pieces = list(cut(text, 50))
        assert len(pieces) > 3
        rows = tokenizer.encode_batch(pieces)
        assert [token for row in rows for token in row] == tokenizer.encode(text)
