"""Files of other programs: read right, and refused where they are cut, damaged or hostile."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from regard.errors import InputError
from regard.vectors.files import read_file
from regard.vectors.store import save, vectors
from regard.vectors.table import WordVectors

WORDS = ["the", "Straße", "name@domain.com", "\u00a0", "2"]
ROWS = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


def text(header: bool, end: str = "\n") -> bytes:
    lines = [
        f"{word} {' '.join(map(str, row.tolist()))}" for word, row in zip(WORDS, ROWS, strict=True)
    ]
    return (end.join([*(["5 3"] if header else []), *lines]) + end).encode()


def binary(newline: bytes = b"") -> bytes:
    rows = [w.encode() + b" " + r.tobytes() + newline for w, r in zip(WORDS, ROWS, strict=True)]
    return b"5 3\n" + b"".join(rows)


def npz(**arrays: object) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


GOOD = {
    "word2vec text": text(header=True),
    "GloVe text": text(header=False),
    "fastText, a space before each line's end": text(header=True, end=" \n"),
    "Windows": text(header=True, end="\r\n"),
    "word2vec binary as gensim has it": binary(),
    "word2vec binary as word2vec.c has it": binary(b"\n"),
    "npz": npz(words=np.array(WORDS), vectors=ROWS),
}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
@pytest.mark.parametrize("name", GOOD)
def test_each_format_gives_the_words_and_numbers_that_are_in_it(name, packed, tmp_path):
    if name == "npz" and packed:
        pytest.skip("it is packed as it is")
    path = tmp_path / "vectors"  # what a file is, its bytes tell
    path.write_bytes(gzip.compress(GOOD[name]) if packed else GOOD[name])
    table = read_file(path)
    assert table.words == WORDS
    assert (table.vectors == ROWS).all()


def test_words_with_spaces_are_read_as_the_840b_file_has_them(tmp_path):
    (tmp_path / "glove.txt").write_text(", 1 2 3\n. . 4 5 6\nat name@domain.com 7 8 9\n")
    table = read_file(tmp_path / "glove.txt")
    assert table.words == [",", ". .", "at name@domain.com"]
    assert table["at name@domain.com"].tolist() == [7, 8, 9]


@pytest.mark.parametrize("ending", [".txt", ".vec", ".bin", ".npz", ""])
def test_what_is_saved_is_read_back(ending, tmp_path):
    table = WordVectors(WORDS, ROWS)
    save(table, tmp_path / f"out{ending}")
    again = vectors(tmp_path / f"out{ending}")
    assert again.words == WORDS
    assert (again.vectors == ROWS).all()


def test_half_precision_takes_half_the_room(tmp_path):
    save(WordVectors(WORDS, ROWS), tmp_path / "half", half=True)
    assert vectors(tmp_path / "half").vectors == pytest.approx(ROWS, rel=1e-3)
    assert vectors(tmp_path / "half").about["stored"] == "fp16"
    with pytest.raises(InputError, match="a folder or"):
        save(WordVectors(WORDS, ROWS), tmp_path / "half.txt", half=True)


@pytest.mark.parametrize(
    "name", ["word2vec text", "GloVe text", "fastText, a space before each line's end"]
)
def test_a_text_cut_anywhere_is_refused_with_its_line_or_read_up_to_a_line(name, tmp_path):
    whole, path = GOOD[name], tmp_path / "cut.txt"
    for length in range(len(whole) - 1):
        path.write_bytes(whole[:length])
        # Without a header nobody knows how many rows were to come. Where all rows are there, the
        # last number may have lost digits, which is said.
        lines = whole[:length].count(b"\n")
        whole_rows = length == len(whole) - 1 or whole[:length].endswith(b"\n")
        full = lines == 5 if name == "GloVe text" else lines == 6
        with contextlib.suppress(InputError):
            table = read_file(path)
            if (last := len(table) - 1) == 0:
                continue
            assert table.words[:last] == WORDS[:last]
            assert (table.vectors[:last] == ROWS[:last]).all()
            if name != "GloVe text":
                assert len(table) == 5
            elif whole_rows or full:
                assert len(table) == lines


def test_a_last_line_without_an_end_is_read_with_a_warning(tmp_path, caplog):
    (tmp_path / "a.txt").write_bytes(b"cat 1 0\ndog 0 1")
    assert len(read_file(tmp_path / "a.txt")) == 2
    assert "a.txt:2: the last line has no line end" in caplog.text


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_a_binary_file_cut_anywhere_is_refused_with_its_word(packed, tmp_path):
    path = tmp_path / "cut.bin"
    for length in range(4, len(binary())):
        cut = binary()[:length]
        path.write_bytes(gzip.compress(cut) if packed else cut)
        with pytest.raises(InputError, match=r"cut\.bin"):
            read_file(path)
    cut = binary()[: binary().index(b"Stra") + 15]
    path.write_bytes(gzip.compress(cut) if packed else cut)
    with pytest.raises(InputError, match="word 2 of 5"):
        read_file(path)


def test_a_cut_archive_is_refused(tmp_path):
    whole, path = GOOD["npz"], tmp_path / "cut.npz"
    for length in (3, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"cut\.npz"):
            read_file(path)
    path.write_bytes(gzip.compress(text(header=True) * 1000)[:-20])
    with pytest.raises(InputError):
        read_file(path)


def member(name: str, data: bytes, archive: Path) -> None:
    with zipfile.ZipFile(archive, "a") as zipped:
        zipped.writestr(name, data)


def array(shape: tuple[int, ...], kind: str = "<f4") -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": kind, "fortran_order": False, "shape": shape}
    )
    return buffer.getvalue()


BAD = {
    "10^12 words": (b"1000000000000 100\na 1\n", "memory"),
    "10^9 numbers": (b"2 1000000000\na 1\n", "numbers"),
    "a negative count": (b"-5 100\na 1\n", "1 or more"),
    "a negative dimension": (b"5 -100\na 1\n", "1 or more"),
    "a huge number": (b"9" * 4000 + b" 3\na 1\n", "header"),
    "nan": (b"2 2\na 1 nan\nb 1 2\n", ":2"),
    "inf": (b"a 1 2\nb 1 inf\n", ":2"),
    "too large for 32 bits": (b"a 1 2\nb 1 1e300\n", ":2"),
    "a word twice": (b"a 1 2\nb 1 2\na 3 4\n", "'a' again"),
    "a row too many": (b"1 2\na 1 2\nb 1 2\n", "one more row"),
    "a row too few": (b"3 2\na 1 2\nb 1 2\n", ":4"),
    "two lines as one": (b"a 1 2\nb 1 2 c 3 4\n", ":2"),
    "a short row": (b"a 1 2\nb 1\nc 1 2\n", ":2"),
    "no UTF-8": (b"a 1 2\n\xff\xfe 1 2\n", "UTF-8"),
    "an empty line inside": (b"a 1 2\n\nb 1 2\n", "empty line"),
    "no word": (b"a 1 2\n 1 2\n", ":2"),
    "empty": (b"", "empty file"),
    "something else": (b"%PDF-1.4 and more\n", "word2vec"),
    "a line without end": (b"a " * 2**20, "line"),
    "nan in binary": (b"1 1\na " + struct.pack("<f", float("nan")), "nan"),
    "more after a binary": (binary() + b"xyz", "the end of the file"),
    "objects": (npz(words=np.array(["a", None], object), vectors=ROWS[:2]), "could run code"),
    "other names": (npz(a=ROWS), "words and vectors"),
    "words as numbers": (npz(words=np.arange(5), vectors=ROWS), "texts"),
    "too few words": (npz(words=np.array(["a"]), vectors=ROWS), "one row per word"),
    "npz with nan": (npz(words=np.array(["a"]), vectors=np.array([[np.nan]])), "row 1"),
    "npz with a word twice": (npz(words=np.array(["a", "a"]), vectors=ROWS[:2]), "'a' twice"),
}


@pytest.mark.parametrize("name", BAD)
def test_damaged_and_hostile_files_are_refused_with_their_place(name, tmp_path):
    content, said = BAD[name]
    path = tmp_path / "bad"
    path.write_bytes(content)
    with pytest.raises(InputError, match=said):
        read_file(path)
    if not content.startswith(b"PK"):
        path.write_bytes(gzip.compress(content))
        with pytest.raises(InputError):
            read_file(path)


def test_an_archive_that_claims_more_than_it_holds_is_refused_before_memory_is_taken(tmp_path):
    path = tmp_path / "bomb.npz"
    member("words.npy", array((10**9,), "<U1000"), path)
    member("vectors.npy", array((10**9, 10**6)), path)
    with pytest.raises(InputError, match="bytes"):
        read_file(path)


def test_what_is_no_regular_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="a named pipe"):
        read_file(tmp_path / "pipe")
    with pytest.raises(InputError, match="no such file"):
        read_file(tmp_path / "missing")


def test_files_that_gensim_wrote_are_read(tmp_path):
    models = pytest.importorskip("gensim.models", reason="gensim is not installed")
    theirs = models.KeyedVectors(3)
    theirs.add_vectors(WORDS[:3], ROWS[:3])
    for is_binary in (False, True):
        theirs.save_word2vec_format(str(tmp_path / "theirs"), binary=is_binary)
        table = read_file(tmp_path / "theirs")
        assert table.words == WORDS[:3]
        assert (table.vectors == ROWS[:3]).all()
