"""Images with numbers from tables: which numbers, of which images, and what a wrong cell says."""

from __future__ import annotations

import json
import logging
import re

import numpy as np
import pytest

from regard.data.config import Columns, ImagesData
from regard.data.images.numbered import find_numbered
from regard.data.images.sources import load_images, read_images
from regard.errors import InputError
from tests.data.test_image_sources import READER, picture


def photos(folder, table, name="outputs.csv", count=6):
    """A folder with pictures 0.png, 1.png, … and a table of this text."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        picture(number).save(folder / f"{number}.png")
    (folder / name).write_text(table)
    return folder


ROWS = "\n".join(f"{n}.png,{n / 4},{-n}" for n in range(6))
TABLE = f"path,height,weight\n{ROWS}\n"


@pytest.mark.parametrize("named", [(), ("height", "weight"), (2, 3)])
def test_the_numbers_stand_beside_the_pixels_of_their_image(tmp_path, named):
    images = read_images(str(photos(tmp_path, TABLE)), READER, outputs=named)
    assert images.outputs == ("height", "weight")
    for row, number in enumerate(images.numbers):
        index = round(4 * number[0])
        assert number.tolist() == [index / 4, -index]
        assert images.values[row].tobytes() == READER.bytes_of(picture(index)).tobytes()


def test_columns_are_read_in_the_order_in_which_they_are_named(tmp_path):
    listing = find_numbered(str(photos(tmp_path, TABLE) / "outputs.csv"), ("weight", "height"))
    assert listing.outputs == ("weight", "height")
    assert listing.files[3].numbers == (-3.0, 0.75)


def test_paths_splits_and_row_numbers_are_no_numbers_to_predict(tmp_path):
    table = "id;split;file;a\n1;train;0.png;1\n2;test;1.png;2\n3;train;2.png;1e3\n"
    data = ImagesData(file=str(photos(tmp_path, table) / "outputs.csv"))
    splits = load_images(data, READER, numbers=True)
    assert splits.train.outputs == ("a",)
    assert splits.tests["test"].numbers.tolist() == [[2.0]]
    assert sorted([*splits.train.numbers.flat, *splits.valid.numbers.flat]) == [1.0, 1000.0]


def test_rows_of_json_lines(tmp_path):
    rows = [{"image": f"{n}.png", "a": n, "b": str(n)} for n in range(6)]
    photos(tmp_path, "\n".join(map(json.dumps, rows)), "outputs.jsonl")
    listing = find_numbered(str(tmp_path))
    assert [file.numbers for file in listing.files] == [(n, n) for n in range(6)]


def test_a_number_changes_the_checksum_of_the_data(tmp_path):
    data = ImagesData(folder=str(photos(tmp_path, TABLE)))
    before = load_images(data, READER, numbers=True).checksums
    assert load_images(data, READER, numbers=True).checksums == before
    (tmp_path / "outputs.csv").write_text(TABLE.replace("0.25,", "0.26,"))
    assert load_images(data, READER, numbers=True).checksums != before


@pytest.mark.parametrize(
    ("old", "new", "outputs", "message"),
    [
        ("0.5,", "tall,", (), r"outputs.csv:4: column height.*'tall'.*expected a number"),
        ("0.5,", '"0,5",', (), r"outputs.csv:4: column height.*with a point: 3.5"),
        ("0.5,", "inf,", (), r"outputs.csv:4: column height.*'inf'"),
        ("2.png,", ",", (), r"outputs.csv:4.*no path.*the path of an image"),
        ("path,", "path,", ("heigth",), r"has the columns.*none is called heigth.*=height"),
        ("path,", "path,", ("height", "height"), r"columns of numbers.*height twice"),
        ("path,height,weight", "what,height,weight", (), r"none of paths.*data\.image="),
    ],
)
def test_a_wrong_cell_is_named_with_its_line_and_what_to_do(tmp_path, old, new, outputs, message):
    folder = photos(tmp_path, TABLE.replace(old, new, 1))
    with pytest.raises(InputError) as raised:
        find_numbered(str(folder), outputs)
    assert re.search(message, str(raised.value), re.DOTALL), str(raised.value)
    assert len(str(raised.value).splitlines()) <= 2


@pytest.mark.parametrize("on_bad", ["skip", "stop"])
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0.5,", ",", "2.png, line 4 (no number for height: fill it in, or leave the row out)"),
        ("0.5,", "NA,", "2.png, line 4 (no number for height: fill it in, or leave the row out)"),
        ("2.png,", "9.png,", "9.png, line 4"),
    ],
)
def test_a_row_without_image_or_number_is_left_out_or_stops(
    tmp_path, caplog, on_bad, old, new, message
):
    folder = photos(tmp_path, TABLE.replace(old, new, 1))
    data = ImagesData(folder=str(folder), on_bad=on_bad)
    if on_bad == "stop":
        with pytest.raises(InputError, match=r"data check.* lists all") as raised:
            load_images(data, READER, numbers=True)
        assert message in str(raised.value)
        return
    with caplog.at_level(logging.WARNING):
        splits = load_images(data, READER, numbers=True)
    assert "1 of 6 files" in caplog.text
    assert message in caplog.text
    assert len(splits.train) + len(splits.valid) == 5


def test_a_folder_needs_a_table_and_validation_images_the_same_columns(tmp_path):
    picture(0).save(tmp_path / "0.png")
    with pytest.raises(InputError, match=r"folder without a table.*outputs\.csv"):
        find_numbered(str(tmp_path))
    with pytest.raises(InputError, match="no such file"):
        find_numbered(str(tmp_path / "none.csv"))
    train, valid = photos(tmp_path / "a", TABLE), photos(tmp_path / "b", TABLE.replace("ght", "t"))
    data = ImagesData(folder=str(train), valid=str(valid))
    with pytest.raises(InputError, match=r"heit, weit.*height, weight, as in"):
        load_images(data, READER, numbers=True)


def test_of_tables_in_which_nothing_is_named_the_column_of_paths_may_be(tmp_path):
    folder = photos(tmp_path, TABLE.replace("path", "where"))
    listing = find_numbered(str(folder), (), Columns({"image": "where"}))
    assert listing.outputs == ("height", "weight")
    assert np.shape([file.numbers for file in listing.files]) == (6, 2)
