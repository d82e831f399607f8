"""Tables of every format: which line has the names, which column is what, and what is asked."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from regard.data import checks
from regard.data.config import Columns, FileData, LabelledData, TextData
from regard.data.images.listing import find_images, has_images
from regard.data.sources import few_pairs, load_splits
from regard.data.text import arrow, records, tables
from regard.data.text.annotations import Excerpt, LabelledText, Question, TaggedWords
from regard.data.text.documents import TextFiles
from regard.data.text.files import load_pairs
from regard.data.text.label_check import check_labelled
from regard.data.text.labelled import load_labelled, read_labelled
from regard.data.text.roles import DOCUMENTS, PAIRS, TEXTS
from regard.errors import InputError

GOOD, BAD = "a joy to watch", "dull and far too long"
REVIEWS = [LabelledText(GOOD, None, "1"), LabelledText(BAD, None, "0")]


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def _write(name: str, content: str | bytes) -> str:
        raw = content.encode() if isinstance(content, str) else content
        Path(name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
        return name

    return _write


def classify(file, **named):
    return read_labelled(file, "classify", columns=Columns(named))[0]


@pytest.mark.parametrize(("name", "text"), [
    ("id first.csv", f"id,sentence,label\n7,{GOOD},1\n8,{BAD},0\n"),
    ("label first.csv", f"label,text\n1,{GOOD}\n0,{BAD}\n"),
    ("five columns.tsv", f"id\ttext\tdate\tlabel\turl\n1\t{GOOD}\tx\t1\ty\n2\t{BAD}\tx\t0\ty\n"),
    ("upper case and blanks.csv", f" Review Text , Sentiment \n{GOOD},1\n{BAD},0\n"),
    ("mark.csv", f"\ufefftext,label\n{GOOD},1\n{BAD},0\n"),
    ("quotes.csv", f'"text","label"\n"{GOOD}","1"\n"{BAD}","0"\n'),
    ("semicolons.csv", f"text;label\n{GOOD};1\n{BAD};0\n"),
    ("packed.csv.gz", f"idx,sentence,label\n0,{GOOD},1\n1,{BAD},0\n"),
    ("windows.tsv", f"sentence\tlabel\r\n{GOOD}\t1\r\n{BAD}\t0\r\n"),
    ("an index without a name.csv", f",text,label\n0,{GOOD},1\n1,{BAD},0\n"),
    ("below blank lines.csv", f"\n , \ntext,label\n{GOOD},1\n{BAD},0\n"),
    ("an empty column.csv", f"text,label,\n{GOOD},1,\n{BAD},0,\n"),
    ("one left.csv", f"id,beschreibung,label\n0,{GOOD},1\n1,{BAD},0\n"),
    ("no header.tsv", f"{GOOD}\t1\n{BAD}\t0\n"),
    ("keys.jsonl", "".join(json.dumps({"id": 1, "sentence": text, "label": label}) + "\n"
                           for text, label in ((GOOD, 1), (BAD, 0)))),
    ("nested.jsonl", "".join(json.dumps({"data": {"text": text}, "label": label}) + "\n"
                             for text, label in ((GOOD, 1), (BAD, 0)))),
])  # fmt: skip
def test_columns_with_usual_names_are_found(write, name, text):
    assert classify(write(name, text)) == REVIEWS


@pytest.mark.parametrize(("text", "named"), [
    (f"id,body,stars\n7,{GOOD},1\n8,{BAD},0\n", {"text": "body", "label": "stars"}),
    (f"id, Body ,STARS\n7,{GOOD},1\n8,{BAD},0\n", {"text": "body", "label": "stars"}),
    (f"größe,naïve Spalte\n1,{GOOD}\n0,{BAD}\n", {"text": "naïve Spalte", "label": "größe"}),
    (f"x,{GOOD},y,z,1\nx,{BAD},y,z,0\n", {"text": 2, "label": 5}),
    (f"text,text,label\nx,{GOOD},1\ny,{BAD},0\n", {"text": 2, "label": "label"}),
    (f"0,1\n{GOOD},1\n{BAD},0\n", {"text": "0", "label": "1"}),
    (f"label,text,body\n1,x,{GOOD}\n0,x,{BAD}\n", {"text": "body"}),
])  # fmt: skip
def test_columns_are_named_or_numbered(write, text, named):
    assert classify(write("a.csv", text), **named) == REVIEWS


@pytest.mark.parametrize(("name", "text", "named", "said"), [
    ("a.csv", f"id,body,stars\n7,{GOOD},1\n8,{BAD},0\n9,{BAD},0\n", {},
     "a.csv has the columns id, body, stars: which is the text, which the label?\n"
     "add data.text=body data.label=stars"),
    ("a.csv", f"phrase,emotion\n{GOOD},1\n{BAD},0\n{BAD},0\n", {},
     "which is the text, which the label?\nadd data.text=phrase data.label=emotion"),
    ("a.csv", f"title,text,sentence,label\nx,y,{GOOD},1\n", {"label": "labl"},
     "none is called labl, which data.label names\ndid you mean data.label=label?"),
    ("a.csv", f"1,{GOOD},x,y,pos\n2,{BAD},x,y,neg\n3,z,x,y,neg\n", {},
     "a.csv has 5 columns without names (the first line: 1, a joy to watch, x, y, pos): "
     "which is the text, which the label?\nadd data.text=2 data.label=5"),
    ("a.csv", f"text,text,label\nx,{GOOD},1\n", {"text": "text"},
     "several are called text\nuse the number: data.text=1 or data.text=2"),
    ("a.csv", f"review,comment,label\nx y z,{GOOD},1\n", {}, "which is the text?\nadd data.text="),
    ("a.jsonl", json.dumps({"id": 1, "body": GOOD, "stars": 5}), {},
     "a.jsonl has the columns id, body, stars: which is the text, which the label?"),
    ("a.csv", f"id,body,stars\n7,{GOOD},1\n", {"text": 9}, "none is called 9"),
])  # fmt: skip
def test_columns_that_are_not_clear_are_asked_for(write, name, text, named, said):
    with pytest.raises(InputError) as caught:
        classify(write(name, text), **named)
    assert said in str(caught.value)
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize("text", [
    "German,Deutsch\ndog,Hund\ncat,Katze\n",
    "English,Englisch\ndog,Hund\ncat,Katze\n",
    "question,question\ndog,chien\ncat,chat\n",
    "Source,Quelle\ndog,Hund\ncat,Katze\n",
    "Hi.,Hallo.\nI am here now.,Ich bin jetzt hier.\nWe were at home.,Wir waren zu Hause.\n",
])  # fmt: skip
def test_a_pair_of_words_is_no_header(write, text):
    pairs, _ = load_pairs(write("a.csv", text), 9, "stop")
    assert len(pairs) == 3


@pytest.mark.parametrize(
    "first",
    ["id,en,de", "de_text,id,en", "source,idx,target", ",input,output", "line,English,German"],
)
def test_a_header_of_pairs_is_found_whatever_the_number_of_columns(write, first):
    cells = {"line": "7", "id": "7", "idx": "7", "": "7"}
    rows = [",".join(cells.get(name, f"{name} side of {number}") for name in first.split(","))
            for number in range(3)]  # fmt: skip
    pairs, _ = load_pairs(write("a.csv", "\n".join([first, *rows])), 9, "stop")
    assert len(pairs) == 3
    sides = [name for name in first.split(",") if name not in cells]
    assert (pairs[0].source, pairs[0].target) == tuple(f"{name} side of 0" for name in sides)


def test_labels_below_a_word_that_is_none_make_a_header(write):
    """Without known names; a rare label of a first example is kept."""
    rows = [f"this is text number {number},{('pos', 'neg')[number % 2]}" for number in range(20)]
    file = write("a.csv", "\n".join(["statement,polarity", *rows]))
    with pytest.raises(InputError, match=r"columns statement, polarity: which.*\n.*header=false"):
        classify(file)
    assert len(read_labelled(file, "classify", columns=Columns(header=False))[0]) == 21
    for first in ("Great!,rare", "A good one,rare", "pos,neg"):
        assert len(classify(write("b.csv", "\n".join([first, *rows])))) == 21


SIDES = "".join(f"Wo ist Buch {number}?\tWhere is book {number}?\n" for number in range(4))


@pytest.mark.parametrize(
    "first", ["Deutsch\tEnglisch", "Eingabe\tAusgabe", "A\tB", "wrong\tright", "col1\tcol2", "0\t1"]
)
def test_single_words_above_sentences_are_asked_for(write, first):
    file = write("a.tsv", f"{first}\n{SIDES}")
    said = (
        f"begins with {', '.join(first.split())}: are these names of columns.*\n.*header=true; if"
    )
    with pytest.raises(InputError, match=said):
        load_pairs(file, 9, "stop")
    with pytest.raises(InputError, match=said):
        load_pairs(file, 9, "stop", Columns({"source": 1, "target": 2}))
    for header, count in ((True, 4), (False, 5)):
        assert len(load_pairs(file, 9, "stop", Columns(header=header))[0]) == count
    assert len(load_pairs(write("b.tsv", SIDES + first), 9, "stop")[0]) == 5


@pytest.mark.parametrize(("task", "text", "said"), [
    ("classify", f"1,{GOOD},pos\n2,{BAD},neg\n3,{GOOD},pos\n", "text=2 data.label=3"),
    ("classify", f"u1,{GOOD},pos\nu2,{BAD},neg\nu3,{GOOD},pos\n", "text=2 data.label=3"),
    ("classify", f"pos,{GOOD}\nneg,{BAD}\nneg,{BAD} x\n", "text=2 data.label=1"),
    ("classify", f"Satz,Klasse\n{GOOD},pos\n{BAD},neg\n{BAD} x,neg\n",
     "text=Satz data.label=Klasse; if the first line is an example, data.header=false"),
    ("tag", "1,Anna,PER\n2,sleeps,O\n\n1,Bob,PER\n", "words=2 data.tags=3"),
    ("tag", "Wort,Etikett\n" + "Anna,noun\nsleeps,verb\n\n" * 5,
     "words=Wort data.tags=Etikett; if"),
    ("answer", "Anna is in Rome.,Where is Anna?,Rome\n",
     "context=1 data.question=2 data.answers=3"),
    ("answer", "text,q,a\n" + "Anna is in Rome.,Where is Anna?,Rome\n" * 3,
     "context=text data.question=q data.answers=a; if"),
])  # fmt: skip
def test_columns_in_another_order_are_asked_for(write, task, text, said):
    """Ids, labels before texts and unknown names are never read as texts in silence."""
    with pytest.raises(InputError) as caught:
        read_labelled(write("a.csv", text), task)
    assert f"add data.{said}" in str(caught.value)


def test_a_sentence_a_line_is_no_word_with_its_tag(write):
    file = write("a.csv", "sentence,tags\nAnna sleeps,NOUN VERB\nBob runs,NOUN VERB\n")
    with pytest.raises(
        InputError, match=r"a\.csv:2: .*'Anna sleeps' is a sentence: one word a line"
    ):
        read_labelled(file, "tag")


def test_a_first_word_with_a_rare_tag_is_an_example(write):
    text = "Yes,INTJ\n" + "Anna,NOUN\nsleeps,VERB\n" * 5
    assert read_labelled(write("a.csv", text), "tag")[0][0].labels[0] == "INTJ"


@pytest.mark.parametrize(("name", "separated"), [
    ("a.csv", "commas separate them, not tabs"), ("a.tsv", "tabs separate them, not vertical bars"),
])  # fmt: skip
def test_another_separator_is_named(write, name, separated):
    sign = "\t" if name == "a.csv" else "|"
    with pytest.raises(InputError, match=separated):
        classify(write(name, f"text{sign}label\n{GOOD}{sign}1\n"))


def test_three_columns_without_names_are_described(write):
    """They may be an author, a text and a label as well."""
    file = write("a.csv", f"Ann,{GOOD},pos\nBob,{BAD},neg\n")
    said = f"{file} has no names of columns, taken as text, pair, label"
    assert check_labelled(file, "classify").columns == said
    assert checks.summary(LabelledData(train=file), "classify").startswith(said)
    assert classify(file)[0] == LabelledText("Ann", GOOD, "pos")
    assert check_labelled(write("b.csv", f"{GOOD},pos\n{BAD},neg\n"), "classify").columns == ""


def test_plain_text_from_a_table_without_sure_names(write):
    rows = f"One,{GOOD}\nTwo,{BAD}\nThree,{GOOD}\n"
    with pytest.raises(InputError, match=r"which is the text\?\nadd data.text=story; if the first"):
        texts(write("a.csv", "title,story\n" + rows))
    with pytest.raises(InputError, match="begins with title, text: are these names"):
        texts(write("b.csv", "title,text\n" + rows))
    said = checks.summary(TextData(files=(write("c.csv", rows),)), "generate")
    assert said == (
        "c.csv has no names of columns: it is read as plain text; data.text=NUMBER reads a column"
    )


def test_words_with_tags_may_have_a_header_or_numbers(write):
    expected = [TaggedWords(("Anna", "lives"), ("B-per", "O"))]
    rows = "Anna\tNNP\tB-per\nlives\tVBZ\tO\n"
    headed = write("a.tsv", "token\tpos\tner\n" + rows)
    with pytest.raises(InputError, match=r"which is the tags\?\nadd data.tags="):
        read_labelled(headed, "tag")
    named = Columns({"tags": "ner"})
    assert read_labelled(headed, "tag", columns=named)[0] == expected
    assert read_labelled(write("c.tsv", "word\ttag\nAnna\tB-per\nlives\tO"), "tag")[0] == expected
    plain = write("a.conll", rows.replace("\t", " "))
    assert read_labelled(plain, "tag")[0] == expected
    by_number = read_labelled(plain, "tag", columns=Columns({"words": 1, "tags": 2}))[0]
    assert by_number == [TaggedWords(("Anna", "lives"), ("NNP", "VBZ"))]


def test_questions_may_come_from_csv_with_the_answer_as_text(write):
    text = "id,context,question,answer\n1,Anna lives in Paris.,Where?,Paris\n2,Paris.,Why?,\n"
    assert read_labelled(write("a.csv", text), "answer")[0] == [
        Question("Where?", "Anna lives in Paris.", (Excerpt("Paris", 14),)),
        Question("Why?", "Paris.", ()),
    ]
    twice = write("b.csv", "context,question,answer\nParis is Paris.,Where?,Paris\n")
    with pytest.raises(InputError, match="'Paris' occurs 2 times: its start is needed"):
        read_labelled(twice, "answer")
    start = write("c.csv", "context,question,answer,answer_start\nParis is Paris.,Where?,Paris,9\n")
    assert read_labelled(start, "answer")[0][0].answers == (Excerpt("Paris", 9),)
    row = '{"context": "Paris is Paris.", "question": "Where?", "answer": "Paris", "start": %s}'
    for number in ("[9]", "1e400", '"nine"'):
        with pytest.raises(InputError, match="'start' should be a whole number"):
            read_labelled(write("d.jsonl", row % number), "answer")


def test_rows_of_another_width_and_empty_cells_name_the_column(write):
    file = write("a.csv", f"id,sentence,label\n1,{GOOD},1\n2,,0\n3,x\n4,y,\n")
    examples, skipped = read_labelled(file, "classify", on_bad="skip")
    assert examples == REVIEWS[:1]
    assert skipped == {"empty text": 1, "wrong number of columns": 1, "empty label": 1}
    with pytest.raises(InputError, match=r"a\.csv:3: empty text \(sentence\)"):
        classify(file)
    missing = write("a.jsonl", '{"body": "x", "label": 1}\n{"label": 2}\n{"body": 3, "label": 1}\n')
    _, skipped = read_labelled(
        missing, "classify", columns=Columns({"text": "body"}), on_bad="skip"
    )
    assert skipped == {"wrong keys": 2}
    with pytest.raises(InputError, match=r"a\.jsonl:2: wrong keys \('label', not 'body'\)"):
        classify(missing, text="body")


def test_a_header_that_cannot_be_read_is_an_error(write):
    file = write("a.csv", b"gr\xf6\xdfe,text\n1,x\n")
    with pytest.raises(InputError, match=r"a\.csv:1: not UTF-8: got a header that cannot be read"):
        classify(file, label="größe")


def test_a_header_alone_has_no_examples(write):
    with pytest.raises(
        InputError, match=r"no usable example.*\nbelow the names of columns is noth"
    ):
        classify(write("a.csv", "sentence,label\n"))
    assert check_labelled("a.csv", "classify").is_bad


def texts(file, **named):
    from collections import Counter

    return [piece.text for piece in TextFiles((file,), columns=Columns(named)).pieces(Counter())]


def test_plain_text_is_read_from_the_named_or_usual_column(write):
    rows = f"1,{GOOD}\n2,{BAD}\n3,{GOOD}\n"
    assert texts(write("a.csv", "id,text\n" + rows)) == [GOOD, BAD, GOOD]
    assert texts(write("b.csv", "id,body\n" + rows), text="body") == [GOOD, BAD, GOOD]
    assert texts(write("c.csv", rows)) == [rows]  # no header: a text as it stands
    assert texts(write("d.tsv", f"en\tde\n{GOOD}\tx y z w\n")) == [GOOD]
    assert texts(write("e.tsv", f"{GOOD}\tx\n")) == [GOOD]
    assert texts(write("f.jsonl", json.dumps({"id": 1, "content": GOOD}))) == [GOOD]
    with pytest.raises(InputError, match=r"a, b: which is the text\?\nadd data.text=b"):
        texts(write("g.jsonl", json.dumps({"a": "x", "b": GOOD})))
    plain, headed = TextFiles(("c.csv",)).settings(), TextFiles(("a.csv",)).settings()
    assert plain["read"] == [[False, False]]  # as before there were columns: old caches stay valid
    assert headed["read"] != plain["read"]


def test_all_readers_agree_on_what_a_header_is(write):
    file = write("a.csv", f"id,sentence,label\n1,{GOOD},1\n2,{BAD},0\n")
    assert tables.has_header(file, TEXTS, "")
    assert tables.has_header(file, DOCUMENTS, "")
    assert tables.has_header(file, PAIRS, "")


# Parquet and folders of `datasets`, written here as `save_to_disk` writes them


def hugging(features: dict[str, object]) -> dict[bytes, bytes]:
    return {b"huggingface": json.dumps({"info": {"features": features}}).encode()}


CLASSES = {"text": {"dtype": "string", "_type": "Value"},
           "label": {"names": ["bad", "good"], "_type": "ClassLabel"}}  # fmt: skip


def reviews(count: int, start: int = 0):
    import pyarrow as pa

    numbers = range(start, start + count)
    table = pa.table({"text": [f"text number {n}" for n in numbers],
                      "label": pa.array([n % 2 for n in numbers], pa.int64())})  # fmt: skip
    return table.replace_schema_metadata(hugging(CLASSES))


def save_to_disk(folder: Path, table, shards: int = 1) -> None:
    import pyarrow as pa

    folder.mkdir(parents=True)
    size = -(-table.num_rows // shards)
    names = [f"data-{shard:05}-of-{shards:05}.arrow" for shard in range(shards)]
    for shard, name in enumerate(names):
        with pa.ipc.new_stream(str(folder / name), table.schema) as stream:
            stream.write_table(table.slice(shard * size, size))
    (folder / "state.json").write_text(
        json.dumps({"_data_files": [{"filename": name} for name in names], "_split": None})
    )
    (folder / "dataset_info.json").write_text(json.dumps({"features": CLASSES}))


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    """A folder of three splits, as `DatasetDict.save_to_disk` writes it."""
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    save_to_disk(tmp_path / "all" / "train", reviews(40), shards=3)
    save_to_disk(tmp_path / "all" / "validation", reviews(6, 40))
    save_to_disk(tmp_path / "all" / "test", reviews(4, 46))
    splits = {"splits": ["train", "validation", "test"]}
    Path("all/dataset_dict.json").write_text(json.dumps(splits))
    return "all"


def test_the_splits_of_a_dataset_folder_are_taken(dataset):
    splits = load_labelled(LabelledData(train=dataset), "classify")
    assert [len(splits.train), len(splits.valid), len(splits.tests["test"])] == [40, 6, 4]
    assert splits.train[13] == LabelledText("text number 13", None, "good")  # its class's name
    assert splits.checksums.keys() == {"all/train", "all/validation", "all/test"}
    again = load_labelled(LabelledData(train=dataset), "classify")
    assert again.checksums == splits.checksums
    Path("all/train/data-00001-of-00003.arrow").unlink()
    with pytest.raises(InputError, match=r"data-00001-of-00003\.arrow: got no such file"):
        load_labelled(LabelledData(train=dataset), "classify")


def test_one_split_of_a_folder_is_a_table(dataset):
    assert len(classify("all/test")) == 4
    with pytest.raises(InputError, match="the splits train, valid, test, expected one of them"):
        classify(dataset)
    assert arrow.split_to_score(dataset) == "all/test"
    assert arrow.split_to_score("all/test") == "all/test"


def test_files_outside_of_a_folder_are_not_read(dataset):
    state = {"_data_files": [{"filename": "../train/data-00000-of-00003.arrow"}]}
    Path(dataset, "test/state.json").write_text(json.dumps(state))
    with pytest.raises(InputError, match="expected files of the folder"):
        classify("all/test")


def test_parquet_files_as_on_the_hub_are_splits(tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.chdir(tmp_path)
    Path("hub/data").mkdir(parents=True)
    for number in range(2):
        parquet.write_table(
            reviews(10, 10 * number), f"hub/data/train-0000{number}-of-00002.parquet"
        )
    parquet.write_table(reviews(4, 20), "hub/data/test-00000-of-00001.parquet")
    splits = load_labelled(LabelledData(train="hub"), "classify")
    assert [len(splits.train) + len(splits.valid), len(splits.tests["test"])] == [20, 4]
    assert len(classify("hub/data/train-*.parquet")) == 20
    assert checks.summary(TextData(files=("hub",)), "generate") == ""
    assert len(texts("hub/data/test-*.parquet")) == 4


def test_a_parquet_file_alone_may_be_a_split_in_a_folder_of_any_name(tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.chdir(tmp_path)
    for folder, train in (("hub", "train.parquet"), ("hub [1]", "train-00000-of-00001.parquet")):
        Path(folder).mkdir()
        parquet.write_table(reviews(20, 0), f"{folder}/{train}")
        parquet.write_table(reviews(4, 20), f"{folder}/validation.parquet")
        splits = load_labelled(LabelledData(train=folder), "classify")
        assert [len(splits.train), len(splits.valid)] == [20, 4]


def test_times_that_python_does_not_have_are_no_obstacle(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    monkeypatch.chdir(tmp_path)
    times = pa.array([1, 2], pa.timestamp("ns"))
    parquet.write_table(pa.table({"a": [GOOD, BAD], "at": times, "b": ["1", "0"]}), "t.parquet")
    with pytest.raises(InputError, match=r"(?s)columns a, at, b: .*add data\.text=a data\.label=b"):
        classify("t.parquet")
    assert classify("t.parquet", text="a", label="b") == REVIEWS
    with pytest.raises(InputError, match=r"t\.parquet cannot be read"):
        classify("t.parquet", text="a", label="at")


def test_parquet_has_nulls_numbers_and_objects(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    monkeypatch.chdir(tmp_path)
    nulls = pa.table({"text": [GOOD, None, BAD, ""], "label": [1.0, 0.0, 0.0, None]})
    parquet.write_table(nulls, "a.parquet")
    examples, skipped = read_labelled("a.parquet", "classify", on_bad="skip")
    assert (examples, skipped) == (REVIEWS, {"empty text": 2})
    with pytest.raises(InputError, match=r"a\.parquet:2: empty text"):
        classify("a.parquet")
    parquet.write_table(pa.table({"translation": [{"de": "Hallo", "en": "Hi"}]}), "b.parquet")
    with pytest.raises(InputError, match=r"translation\.de, translation\.en: which is the source"):
        load_pairs("b.parquet", 9, "stop")
    data = FileData(train="b.parquet", source="translation.en", target="translation.de")
    assert [(pair.source, pair.target) for pair in few_pairs(data, 5)] == [("Hi", "Hallo")]
    twice = pa.Table.from_arrays([pa.array([GOOD]), pa.array([BAD])], names=["text", "text"])
    parquet.write_table(twice, "e.parquet")
    with pytest.raises(InputError, match="several columns called text"):
        classify("e.parquet")
    parquet.write_table(pa.table({"text": [1, 2], "label": [1, 2]}), "c.parquet")
    with pytest.raises(InputError, match="'text' is not a text"):
        classify("c.parquet")
    tags = pa.table({"tokens": [["Anna", "lives"]], "ner_tags": [[1, 0]]})
    names = {"ner_tags": {"feature": {"names": ["O", "B-per"], "_type": "ClassLabel"}}}
    parquet.write_table(tags.replace_schema_metadata(hugging(names)), "d.parquet")
    assert read_labelled("d.parquet", "tag")[0] == [TaggedWords(("Anna", "lives"), ("B-per", "O"))]


def test_images_are_read_from_tables(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    rows = [{"bytes": b"first", "path": "1.png"}, {"bytes": None, "path": "x/2.png"}]
    table = pa.table({"image": rows, "label": [0, 1]}).replace_schema_metadata(
        hugging({"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}})
    )
    save_to_disk(Path("pictures"), table)
    assert has_images("pictures")
    files = find_images("pictures").files
    assert [(file.name, file.label) for file in files] == [("1.png", "cat"), ("x/2.png", "dog")]
    assert files[0].source == b"first"
    Path("a.csv").write_text("id,photo,species\n1,x.png,cat\n")
    named = Columns({"image": "photo", "label": "species"})
    assert [file.label for file in find_images("a.csv", named).files] == ["cat"]
    with pytest.raises(InputError, match=r"which is the image, which the label\?"):
        find_images("a.csv")


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_a_damaged_table_is_a_user_error(write, name):
    pytest.importorskip("pyarrow")
    for content in (b"", b"PAR1nonsense", b"\xff" * 400, b"ARROW1" + b"\0" * 90):
        with pytest.raises(InputError, match="cannot be read") as caught:
            classify(write(name, content))
        assert len(str(caught.value).splitlines()) == 1


def test_without_pyarrow_the_extra_is_named(write, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"no pyarrow.*\npip install 'regard\[tables\]'"):
        classify(write("a.parquet", b"PAR1"))


def test_batches_are_read_one_after_another(tmp_path, monkeypatch):
    """The first rows come without the others: a table may be larger than memory."""
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.chdir(tmp_path)
    parquet.write_table(reviews(2000), "a.parquet", row_group_size=500)
    save_to_disk(Path("folder"), reviews(2000))
    given = []
    slices = arrow._open_file

    def counted(path):
        schema, batches = slices(path)
        return schema, lambda columns: (given.append(1) or batch for batch in batches(columns))

    monkeypatch.setattr(arrow, "_open_file", counted)
    for path in ("a.parquet", "folder"):
        given.clear()
        next(arrow.rows(path))
        assert len(given) == 1
        assert len(list(arrow.rows(path))) == 2000


# What is said before a training


def test_one_line_says_what_is_worth_a_look(write):
    rows = "".join(f"text number {n},{('pos', 'neg')[n % 2]}\n" for n in range(10))
    train = write("train.csv", f"text,label\n{rows}text number 1,neg\ntext number 2,neg\nx,rare\n")
    valid = write("valid.csv", "text,label\ntext number 3,neg\ny,pos\n")
    line = checks.summary(LabelledData(train=train, valid=valid), "classify")
    assert line == (
        "first line of train.csv taken as names of columns: text, label; duplicates: 1; "
        "the same text with another label: 1; a label seen once: rare; "
        "first line of valid.csv taken as names of columns: text, label; "
        "1 examples of valid are training examples, too"
    )
    clean = write("clean.tsv", "".join(f"text number {n}\t{n % 2}\n" for n in range(10)))
    assert checks.summary(LabelledData(train=clean), "classify") == ""


@pytest.mark.parametrize(("data", "said"), [
    (FileData(train="train.tsv"), "data.train: got train.tsv: no such file\nadd data.train=FILE"),
    (FileData(train="reviews.csw"), "did you mean data.train=reviews.csv?"),
    (FileData(train="no/x.tsv"), "there is no folder no either"),
    (TextData(files=("my.txt",)), "data.files: got my.txt: no such file\nadd data.files=FILE"),
])  # fmt: skip
def test_a_missing_file_names_the_key_to_add(write, data, said):
    write("reviews.csv", "a,b\n")
    with pytest.raises(InputError) as caught:
        checks.summary(data, "translate")
    assert said in str(caught.value)


@pytest.mark.parametrize(("name", "text", "task"), [
    ("a.csv", "id,sentence,label\n1,x y z,pos\n", "classify"),
    ("a.csv", "en,de\nx y z,u v w\n", "translate"),
    ("a.tsv", "x y\tz\n", "translate"),
    ("a.jsonl", '{"words": ["a"], "tags": ["b"]}', "tag"),
    ("a.jsonl", '{"context": "a", "question": "b", "answers": {"text": [], "answer_start": []}}',
     "answer"),
    ("a.json", "{}", "answer"),
])  # fmt: skip
def test_the_task_of_a_file_is_guessed_by_its_names(write, name, text, task):
    assert checks.guess_task(write(name, text), Columns()) == task
    assert checks.guess_task(name, Columns({"label": "x"})) in ("classify", "answer")


def test_a_report_of_labels_counts_them(write):
    report = check_labelled(write("a.tsv", "a\tx\nb\tx\na\tx\nc\n"), "classify")
    assert (report.examples, report.duplicates, report.labels) == (3, 1, {"x": 3})
    assert report.problems == {"wrong number of columns": 1, "one label only": 1}
    assert "a.tsv:4: wrong number of columns (1, not 2)" in report.describe()


def test_pairs_of_a_mixture_have_their_own_columns(write):
    from regard.data.config import MixtureData, PartData

    first = write("a.csv", "n,quelle,ziel\n" + "".join(f"{n},a {n},b {n}\n" for n in range(20)))
    second = write("b.tsv", "".join(f"c {n}\td {n}\n" for n in range(20)))
    parts = {"one": PartData(train=first, source="quelle", target="ziel"),
             "two": PartData(train=second)}  # fmt: skip
    loaded = load_splits(MixtureData(parts=parts, held_out=2))
    assert {pair.source[0] for pair in loaded.splits.train} == {"a", "c"}
    assert "first line of a.csv" in checks.summary(MixtureData(parts=parts), "rewrite")


def test_a_file_of_cells_is_separated_by_semicolons_only_if_all_lines_are():
    assert records._delimiter([b"a;b", b"c, d;e"]) == ";"
    assert records._delimiter([b"a,b;c", b"d,e"]) == ","
    assert records._delimiter([b"a;b", b"c"]) == ","
