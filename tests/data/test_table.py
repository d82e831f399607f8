"""Tables: what their columns are, rows in splits, and every error of a table that is not one."""

from __future__ import annotations

import csv
import gzip
import random

import numpy as np
import pytest

from regard.data.config import TableData
from regard.data.table.check import check_table
from regard.data.table.columns import plan_table
from regard.data.table.reading import floats
from regard.data.table.sources import load_table, read_rows
from regard.errors import InputError
from regard.inputs.processor import Processor
from regard.inputs.table.reader import number_in
from regard.tasks.predict_table import PredictTable

RANDOM = random.Random(0)
ROWS = [(round(RANDOM.random(), 6), RANDOM.choice("rgb"), RANDOM.choice(["yes", "no"]))
        for _ in range(60)]  # fmt: skip
HEADER = "size,colour,ok"


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Writes a table of `ROWS` in which some rows differ, and returns its name."""
    monkeypatch.chdir(tmp_path)

    def write(
        changes=None, header=HEADER, separator=",", name="t.csv", encoding="utf-8", rows=ROWS
    ):
        lines = [header] if header else []
        lines += [separator.join(map(str, (changes or {}).get(i, row)))
                  for i, row in enumerate(rows)]  # fmt: skip
        (tmp_path / name).write_bytes("".join(f"{line}\n" for line in lines).encode(encoding))
        return name

    return write


def data(file, **settings):
    return TableData(train=file, **{"target": "ok", **settings})


def refused(settings, *words):
    """The error of a table: two lines at most, with these words."""
    with pytest.raises(InputError) as error:
        load_table(settings)
    text = str(error.value)
    assert len(text.splitlines()) <= 2, text
    for word in words:
        assert word in text, text


def test_numbers_are_standardised_and_categories_one_hot(table):
    splits = load_table(data(table(), held_out=5))
    both = np.concatenate([splits.train.inputs, splits.valid.inputs])
    assert both.shape == (60, 4)
    assert splits.classes == ("no", "yes")
    assert splits.reader.inputs == ("size", "colour=b", "colour=g", "colour=r")
    assert splits.train.inputs[:, 0].mean() == pytest.approx(0, abs=1e-6)
    assert splits.train.inputs[:, 0].std() == pytest.approx(1, abs=1e-5)
    assert (both[:, 1:].sum(axis=1) == 1).all()
    by_file = splits.reader.matrix([dict(zip(HEADER.split(","), row, strict=True)) for row in ROWS])
    assert {row.tobytes() for row in by_file} == {row.tobytes() for row in both}
    assert len(splits.valid) == 5


def test_splits_are_a_function_of_the_seed_and_copies_stay_together(table):
    name = table(rows=[*ROWS[:30], *ROWS[:30]])
    first, again = (load_table(data(name, held_out=6, held_out_test=6)) for _ in range(2))
    other = load_table(data(name, held_out=6, held_out_test=6, seed=1))
    assert (first.valid.inputs == again.valid.inputs).all()
    assert not np.array_equal(first.valid.inputs, other.valid.inputs)
    parts = [{row.tobytes() for row in part.inputs}
             for part in (first.train, first.valid, first.tests["test"])]  # fmt: skip
    assert not parts[0] & parts[1]
    assert not parts[0] & parts[2]
    assert not parts[1] & parts[2]
    assert sum(map(len, (first.train, first.valid, first.tests["test"]))) == 60


def test_files_of_other_kinds_of_separators_are_read_alike(table, tmp_path):
    plain = load_table(data(table()))
    semicolons = table(separator=";", header="size;colour;ok", name="s.csv")
    tabs = table(separator="\t", header="size\tcolour\tok", name="t.tsv")
    (tmp_path / "z.csv.gz").write_bytes(gzip.compress((tmp_path / table()).read_bytes()))
    marked = table(name="bom.csv", encoding="utf-8-sig")
    for name in (semicolons, tabs, "z.csv.gz", marked):
        assert (load_table(data(name)).train.inputs == plain.train.inputs).all(), name


@pytest.mark.parametrize(
    ("cells", "classes"),
    [
        (["a", "b"] * 20, True),
        (["0", "1", "2"] * 20, True),
        (["0.0", "1.0"] * 20, True),
        (["1.5", "2"] * 20, False),
        ([str(i % 30) for i in range(300)], False),  # more than 20 whole numbers
        ([str(i) for i in range(12)], False),  # one row of each
    ],
)
def test_what_a_target_is_follows_from_its_cells(table, cells, classes):
    name = table(header="x,y", rows=[(i / 7, cell) for i, cell in enumerate(cells)])
    assert plan_table(TableData(train=name, target="y")).has_classes is classes
    if cells[0] == "0.0":
        assert load_table(TableData(train=name, target="y")).classes == ("0", "1")
    if not cells[0].isalpha():
        as_numbers = load_table(TableData(train=name, target="y", predict="numbers"))
        assert as_numbers.classes == ()
        assert as_numbers.train.numbers.shape == (len(as_numbers.train), 1)


def test_columns_are_named_left_out_or_found(table):
    name = table(header="id,size,code,ok", rows=[(i, s, 10 + i % 3, y)
                                                 for i, (s, _, y) in enumerate(ROWS)])  # fmt: skip
    assert plan_table(data(name)).unread == ("id",)
    as_categories = load_table(data(name, categories=["code"])).reader
    assert as_categories.inputs == ("size", "code=10", "code=11", "code=12")
    assert load_table(data(name, inputs=["code"])).reader.names == ("code",)
    assert load_table(data(name, leave_out=["code"])).reader.names == ("size",)
    assert load_table(data(name, target=4)).reader.target == "ok"
    named = table(header="size,colour,label", name="n.csv")
    assert plan_table(TableData(train=named)).target.name == "label"
    without = load_table(data(table(header="", name="w.csv"), header=False, target=3))
    assert without.reader.names == ("1", "2")
    assert without.reader.target == "3"


BAD_ROWS = {
    "empty": ({7: ("", "r", "no")}, ("t.csv:9", "an empty cell (column size)", "data.on_bad=skip")),
    "no value": ({7: (1, "NA", "no")}, ("t.csv:9", "column colour: NA")),
    "no target": ({7: (1, "r", "?")}, ("t.csv:9", "column ok: ?")),
    "text": ({7: ("big", "r", "no")}, ("t.csv:9: column size: got 'big'", "59 other rows",
                                       "data.categories=[size]")),
    "ragged": ({7: (1, "r")}, ("t.csv:9: wrong number of columns (2, not 3)",)),
    "wide": ({7: (1, "r", "no", 5)}, ("t.csv:9", "(4, not 3)", "quotes")),
    "infinite": ({7: ("inf", "r", "no")}, ("t.csv:9", "'inf'")),
    "underscore": ({7: ("1_0", "r", "no")}, ("t.csv:9", "'1_0'")),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_row_that_cannot_be_read_is_named_or_skipped(table, name, caplog):
    changes, words = BAD_ROWS[name]
    file = table(changes)
    refused(data(file), *words)
    splits = load_table(data(file, on_bad="skip"))
    assert len(splits.train) + len(splits.valid) == 59
    assert "data: 1 row skipped" in caplog.text
    report = check_table(data(file))
    assert report.is_bad
    assert report.usable == 59
    assert "t.csv:9" in report.describe()


BAD_TABLES = {
    "empty": ({"rows": [], "header": ""}, ("got an empty file",)),
    "no rows": ({"rows": []}, ("got no row",)),
    "no header": ({"header": ""}, ("t.csv:1", "names of the columns", "data.header=false")),
    "twice": ({"header": "size,size,ok"}, ("t.csv:1", "'size'", "columns 1, 2")),
    "tabs": ({"separator": "\t", "header": "size\tcolour\tok"}, ("name it .tsv",)),
    "bars": ({"separator": "|", "header": "size|colour|ok"}, ("bars",)),
    "latin": ({"rows": [(1, "grün", "no"), *ROWS], "encoding": "latin-1"},
              ("t.csv:2: not UTF-8", "iconv")),
    "utf-16": ({"encoding": "utf-16"}, ("got UTF-16", "iconv")),
    "kind": ({"name": "t.txt"}, ("expected .csv or .tsv",)),
    "commas": ({"rows": [(str(s).replace(".", ","), c, y) for s, c, y in ROWS], "separator": ";",
                    "header": "size;colour;ok"}, ("t.csv:2", "decimal point")),
    "one class": ({"rows": [(s, c, "yes") for s, c, _ in ROWS]}, ("'yes' in all 60 rows",
                                                                  "two classes")),
    "constant": ({"rows": [(s, c, 3.5) for s, c, _ in ROWS]}, ("'3.5' in all 60 rows",
                                                               "different numbers")),
    "names": ({"rows": [(s, f"Mr {i}", y) for i, (s, _, y) in enumerate(ROWS)]},
              ("60 different texts in 60 rows", "data.leave_out=[colour]")),
    "empty column": ({"rows": [(s, "", y) for s, _, y in ROWS]},
                     ("no value in any row", "data.leave_out=[colour]")),
    "many classes": ({"rows": [(s, c, f"id {i}") for i, (s, c, _) in enumerate(ROWS)]},
                     ("60 different values",)),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_TABLES)
def test_what_is_no_table_is_refused_with_what_to_do(table, name):
    changes, words = BAD_TABLES[name]
    refused(data(table(**changes)), *words)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"target": "okk"}, ("size, colour, ok", "did you mean data.target=ok?")),
        ({"target": None}, ("which one is to be predicted?", "data.target=ok")),
        ({"inputs": ["sise"]}, ("did you mean data.inputs=size?",)),
        ({"leave_out": ["nothing"]}, ("which data.leave_out names",)),
        ({"inputs": ["ok"]}, ("data.inputs", "the column that is predicted")),
        ({"leave_out": ["size", "colour"]}, ("columns to read: got none",)),
        ({"predict": "numbers"}, ("got texts",)),
        ({"target": "size", "predict": "classes"}, ("60 different values",)),
        ({"train": "other.csv"}, ("no such file",)),
        ({"test": "t2.csv"}, ("t2.csv", "no column colour", "is it 'color'?")),
    ],
)
def test_columns_that_are_not_there_are_told_the_nearest(table, settings, words):
    file = table()
    table(header="size,color,ok", name="t2.csv")
    refused(data(file).model_copy(update=settings), *words)


def test_other_files_have_the_categories_of_the_training_data(table):
    file = table()
    table({3: (0.5, "violet", "yes")}, name="other.csv")
    refused(data(file, test="other.csv"), "other.csv:5", "unknown category", "'violet'", "b, g, r")


def test_a_constant_column_is_read_as_zero_and_said(table):
    file = table(rows=[(0.1, c, y) for _, c, y in ROWS])
    assert "always the same: size" in plan_table(data(file)).describe()
    splits = load_table(data(file))
    assert np.abs(splits.train.inputs[:, 0]).max() < 1e-9


def test_rows_to_predict_from_may_have_other_columns_or_no_names(table):
    reader = load_table(data(table())).reader
    turned = table(header="note,colour,size", name="turned.csv",
                   rows=[("a, b".replace(",", ""), c, s) for s, c, _ in ROWS])  # fmt: skip
    plain = table(header="", name="plain.csv", rows=[(s, c) for s, c, _ in ROWS])
    expected = reader.matrix([row[:2] for row in ROWS])
    for name, first_line in ((turned, 2), (plain, 1)):
        rows = read_rows(name, reader)
        assert (reader.matrix(rows) == expected).all()
        assert rows[0].location == f"{name}:{first_line}"
    with pytest.raises(InputError, match="no column colour"):
        read_rows(table(header="size,color", name="o.csv", rows=[r[:2] for r in ROWS]), reader)


def test_names_of_columns_may_be_numbers(table):
    """As pandas names columns; and a row of pixels may have the same numbers as names."""
    pixels = [(i % 3, i % 2, 7 * i % 5, "yes" if i % 3 else "no") for i in range(60)]
    splits = load_table(data(table(header="0,1,2,ok", rows=pixels)))
    expected = splits.reader.matrix([row[:3] for row in pixels])
    assert splits.reader.names == ("0", "1", "2")
    alone = table(header="", name="alone.csv", rows=[row[:3] for row in pixels])
    for name in (table(header="0,1,2,ok", rows=pixels), alone):
        assert (splits.reader.matrix(read_rows(name, splits.reader)) == expected).all(), name


def test_all_that_is_read_fast_is_read_as_one_cell_is():
    cells = ["1", " 2.5", "-3e2", "+.5", "x", "", "inf", "nan", "1_0", "1,5", "٣", "0x1"]
    alone = [number_in(cell) for cell in cells]
    for part in (cells, cells[:4]):
        together = [None if np.isnan(number) else number for number in floats(part)]
        assert together == alone[: len(part)]


def test_a_report_says_what_columns_are(table):
    report = check_table(data(table(rows=[*ROWS, ROWS[0]])))
    assert not report.is_bad
    assert (report.rows, report.copies) == (61, 1)
    counts = {name: sum(row[2] == name for row in [*ROWS, ROWS[0]]) for name in ("yes", "no")}
    assert report.classes == counts
    assert "colour: 3 categories" in report.describe()


def test_quotes_keep_commas_in_cells(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "q.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [["x", "y"], *[(i, "a, b" if i % 2 else "c") for i in range(20)]]
        )
    assert load_table(TableData(train="q.csv", target="y")).classes == ("a, b", "c")


def test_what_is_predicted_from_is_a_long_row_or_a_table(table, tmp_path):
    task = PredictTable(Processor(load_table(data(table())).reader))
    assert task.items_in(",".join(["1.5"] * 200), print) is None  # no name of a file is so long
    (tmp_path / "digit.png").write_bytes(b"\x89PNG")
    with pytest.raises(InputError, match=r"a table is a file of text"):
        task.items_in("digit.png", print)
