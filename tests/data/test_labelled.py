"""Files with labels: every format gives its examples, every fault its file and line."""

from __future__ import annotations

import gzip
import json

import pytest

from regard.data.config import Columns, LabelledData
from regard.data.text import annotations, records
from regard.data.text.annotations import Excerpt, LabelledText, Question, TaggedWords
from regard.data.text.labelled import labels_in, load_labelled, read_labelled
from regard.errors import InputError

SQUAD = {"data": [{"title": "x", "paragraphs": [{"context": "Anna lives in Paris.", "qas": [
    {"id": "q1", "question": "Where?", "answers": [{"text": "Paris", "answer_start": 14}]},
    {"id": "q2", "question": "Why?", "answers": [], "is_impossible": True}]}]}]}  # fmt: skip
WHERE = Question("Where?", "Anna lives in Paris.", (Excerpt("Paris", 14),))
WHY = Question("Why?", "Anna lives in Paris.", ())


@pytest.fixture
def write(tmp_path):
    def _write(name: str, content: str | bytes) -> str:
        raw = content.encode() if isinstance(content, str) else content
        path = tmp_path / name
        path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
        return str(path)

    return _write


@pytest.mark.parametrize(("name", "text", "expected"), [
    ("a.tsv", "so good\tpos\r\nbad\tneg\n", [("so good", None, "pos"), ("bad", None, "neg")]),
    ("a.tsv.gz", "a\tb\tyes\nc\td\tno", [("a", "b", "yes"), ("c", "d", "no")]),
    ("a.jsonl", '{"text": "x", "label": 1}\n{"text": "y", "pair": "z", "label": "n"}',
     [("x", None, "1"), ("y", "z", "n")]),
])  # fmt: skip
def test_texts_with_classes_are_read(write, name, text, expected):
    examples, skipped = read_labelled(write(name, text), "classify")
    assert examples == [LabelledText(*row) for row in expected]
    assert not skipped


@pytest.mark.parametrize(("name", "text"), [
    ("a.conll", "Anna\tB-per\nlives\tO\n\t\nBob\tB-per\n"),
    ("a.txt", "-DOCSTART- -X- O\n\nAnna NNP B-per\nlives VBZ O\n\n\nBob NNP B-per\n\n"),
    ("emerging.annotated.gz", "Anna\tB-per\nlives\tO\n\nBob\tB-per"),
    ("a.jsonl", '{"words": ["Anna", "lives"], "tags": ["B-per", "O"]}\n'
     '{"words": ["Bob"], "tags": ["B-per"]}'),
])  # fmt: skip
def test_words_with_tags_are_read(write, name, text):
    examples, _ = read_labelled(write(name, text), "tag")
    assert examples == [
        TaggedWords(("Anna", "lives"), ("B-per", "O")),
        TaggedWords(("Bob",), ("B-per",)),
    ]
    assert labels_in(examples) == ("B-per", "O")


@pytest.mark.parametrize("answers", [{"text": "Paris", "start": 14},
                                     {"text": ["Paris"], "answer_start": [14]},
                                     [{"text": "Paris", "start": 14}]])  # fmt: skip
def test_questions_are_read(write, answers):
    assert read_labelled(write("a.json", json.dumps(SQUAD)), "answer")[0] == [WHERE, WHY]
    row = {"question": "Where?", "context": "Anna lives in Paris.", "answers": answers}
    assert read_labelled(write("a.jsonl", json.dumps(row)), "answer")[0] == [WHERE]


@pytest.mark.parametrize(("task", "name", "text", "said"), [
    ("classify", "a.tsv", "a\tpos\nb\n", "a.tsv:2: wrong number of columns"),
    ("classify", "a.tsv", "a\tpos\nb\tc\tneg\n", "a.tsv:2: wrong number of columns (3, not 2)"),
    ("classify", "a.tsv", "a\tpos\n\tneg\n", "a.tsv:2: empty text (column 1)"),
    ("classify", "a.tsv", "a\tpos\nb\t\n", "a.tsv:2: empty label (column 2)"),
    ("classify", "a.csv", 'a,pos\n"b, c"\n', "a.csv:2: wrong number of columns (1, not 2)"),
    ("classify", "a.csv", 'a,pos\n,neg\n', "a.csv:2: empty text (column 1)"),
    ("classify", "a.csv", 'a,pos\n"b"c,neg\n', "a.csv:2: not CSV"),
    ("classify", "a.tsv", "a\tpos\n\nb\tneg", "a.tsv:2: empty line"),
    ("classify", "a.tsv", b"a\tpos\n\xff\tneg\n", "a.tsv:2: not UTF-8 (byte 0xff at 1)"),
    ("classify", "a.txt", "a,pos", "an unknown file suffix"),
    ("classify", "a.jsonl", '{"text": "a"}', "a.jsonl:1: wrong keys ('label'"),
    ("classify", "a.jsonl", '{"text": "a", "label": null}', "a.jsonl:1: wrong keys"),
    ("classify", "a.jsonl", "[]", "a.jsonl:1: not JSON"),
    ("tag", "a.conll", "Anna B-per\nlives\n", "a.conll:2: wrong number of columns"),
    ("tag", "a.jsonl", '{"words": ["a"], "tags": []}', "1 words but 0 tags"),
    ("answer", "a.jsonl", '{"context": "ab", "question": "q", "answers": [{"text": "b", "start": 0}'
     "]}",
     "an answer that is not at its start ('b' at 0)"),
    ("answer", "a.json", '{"data": 3}', "JSON in SQuAD's format"),
    ("classify", "a.tsv", "", "an empty file"),
])  # fmt: skip
def test_problems_are_reported_with_file_and_line(write, task, name, text, said):
    with pytest.raises(InputError) as caught:
        read_labelled(write(name, text), task)
    assert said in str(caught.value)
    assert str(caught.value).count("\n") <= 1


def test_bad_examples_can_be_skipped_and_are_counted(write):
    file = write("a.conll", "a X\n\nb\n\nc Y\n")
    examples, skipped = read_labelled(file, "tag", on_bad="skip")
    assert [example.words for example in examples] == [("a",), ("c",)]
    assert skipped == {"wrong number of columns": 1}
    with pytest.raises(InputError, match="no usable example"):
        read_labelled(write("b.conll", "b\n"), "tag", on_bad="skip")


def test_a_header_is_found_and_data_header_overrules_it(write):
    file = write("a.tsv", "sentence\tlabel\na\tpos")
    for header, labels in ((None, ["pos"]), (True, ["pos"]), (False, ["label", "pos"])):
        examples, _ = read_labelled(file, "classify", columns=Columns(header=header))
        assert [example.label for example in examples] == labels


def test_validation_examples_share_no_text_with_those_trained_on(write):
    rows = [json.dumps({"question": f"q{i}", "context": f"context {i // 5}"}) for i in range(100)]
    file, few = write("a.jsonl", "\n".join(rows)), write("b.jsonl", "\n".join(rows[:5]))

    def held_out(seed):
        return load_labelled(LabelledData(train=file, held_out=500, seed=seed), "answer")

    splits = held_out(3)
    train, valid = splits.train, splits.valid
    assert len(valid) == 10
    assert len(train) + len(valid) == 100
    assert not {example.context for example in train} & {example.context for example in valid}
    assert held_out(3).valid == valid
    assert held_out(4).valid != valid
    with pytest.raises(InputError, match="a single text"):
        load_labelled(LabelledData(train=few, held_out=2), "answer")


def test_splits_come_from_their_files_with_checksums(write):
    train, valid = write("t.tsv", "a\tx\nb\ty\n"), write("v.tsv", "c\tx\n")
    splits = load_labelled(LabelledData(train=train, valid=valid, test=valid), "classify")
    assert [len(splits.train), len(splits.valid), len(splits.tests["test"])] == [2, 1, 1]
    assert splits.checksums.keys() == {train, valid}


def test_labelled_lines_and_documents_have_a_greatest_length(write, monkeypatch):
    monkeypatch.setattr(records, "LONGEST_LINE", 1000)
    monkeypatch.setattr(annotations, "LONGEST_DOCUMENT", 1000)
    long = "x" * 2000
    for name, task in (("a.tsv.gz", "classify"), ("a.jsonl", "classify"), ("a.conll", "tag")):
        with pytest.raises(InputError, match=r":1: over-long \(more than 1,000 bytes\)"):
            read_labelled(write(name, f"{long}\n"), task)
    with pytest.raises(InputError, match=r"over-long|at most 1,000"):
        read_labelled(write("a.json.gz", json.dumps(SQUAD | {"x": long})), "answer")
    with pytest.raises(InputError, match=r"got more text, expected at most 1,000 characters"):
        read_labelled(write("b.json.gz", "\n" * 2000), "answer")


def test_csv_is_read_as_tsv_is(write):
    texts = write("a.csv", 'text,label\n"good, and ""cheap""",pos\nbad,neg\n')
    examples, _ = read_labelled(texts, "classify")
    assert [(example.text, example.label) for example in examples] == [
        ('good, and "cheap"', "pos"),
        ("bad", "neg"),
    ]
    pairs = read_labelled(write("b.csv", '"a, b",c,yes\n'), "classify")[0]
    assert pairs == [LabelledText("a, b", "c", "yes")]
    tags = read_labelled(write("c.csv", 'Anna,B-per\n",",O\n\nParis,B-loc\n'), "tag")[0]
    assert tags == [TaggedWords(("Anna", ","), ("B-per", "O")), TaggedWords(("Paris",), ("B-loc",))]
