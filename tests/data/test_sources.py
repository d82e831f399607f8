from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from regard.data.config import FileData, GrammarData, ToyData
from regard.data.pair import Pair
from regard.data.sources import load_splits
from regard.errors import InputError


def write(path: Path, pairs: list[tuple[str, str]]) -> str:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return str(path)


def numbered(count: int, start: int = 0) -> list[tuple[str, str]]:
    return [(f"s{i}", f"t{i}") for i in range(start, start + count)]


def test_files_become_the_three_splits(tmp_path):
    names = {
        name: write(tmp_path / f"{name}.tsv", numbered(count, start))
        for name, count, start in (("train", 30, 0), ("valid", 4, 100), ("test", 3, 200))
    }
    loaded = load_splits(FileData(**names))
    assert loaded.splits.train == tuple(Pair(*row) for row in numbered(30))
    assert loaded.splits.valid == tuple(Pair(*row) for row in numbered(4, 100))
    assert loaded.splits.tests == {"test": tuple(Pair(*row) for row in numbered(3, 200))}
    assert loaded.skipped == {}
    assert loaded.checksums == {
        name: hashlib.sha256(Path(name).read_bytes()).hexdigest() for name in names.values()
    }


def test_without_a_validation_file_pairs_are_set_aside_by_seed(tmp_path):
    train = write(tmp_path / "train.tsv", numbered(100))
    parts = [load_splits(FileData(train=train, held_out=7, seed=seed)).splits for seed in (0, 0, 1)]
    assert parts[0] == parts[1]
    assert parts[0].valid != parts[2].valid
    assert len(parts[0].valid) == 7
    assert parts[0].tests == {}
    assert set(parts[0].train) | set(parts[0].valid) == {Pair(*row) for row in numbered(100)}
    assert not set(parts[0].train) & set(parts[0].valid)


@pytest.mark.parametrize(
    ("pairs", "held_out", "expected"), [(100, 500, 10), (5, 500, 1), (2, 1, 1)]
)
def test_at_most_a_tenth_and_at_least_one_is_set_aside(tmp_path, pairs, held_out, expected):
    train = write(tmp_path / "train.tsv", numbered(pairs))
    splits = load_splits(FileData(train=train, held_out=held_out)).splits
    assert (len(splits.train), len(splits.valid)) == (pairs - expected, expected)


def test_copies_of_held_out_pairs_are_not_trained_on(tmp_path):
    train = write(tmp_path / "train.tsv", numbered(40) * 3)
    splits = load_splits(FileData(train=train, held_out=4, seed=-3)).splits
    assert len(set(splits.valid)) == len(splits.valid) == 4
    assert not set(splits.train) & set(splits.valid)
    assert len(splits.train) == 36 * 3


def test_too_few_pairs_to_set_any_aside_is_a_user_error(tmp_path):
    train = write(tmp_path / "train.tsv", numbered(1) * 5)
    with pytest.raises(InputError, match=r"at least 2 different pairs\n.*data\.valid"):
        load_splits(FileData(train=train))


def test_skipped_lines_are_counted_over_all_files(tmp_path):
    train = write(tmp_path / "train.tsv", [*numbered(20), ("", "x")])
    test = write(tmp_path / "test.tsv", [*numbered(2, 50), ("a b c", "x"), ("", "y")])
    config = FileData(train=train, test=test, on_bad="skip", max_words=2)
    assert load_splits(config).skipped == {"empty source": 2, "over-long": 1}
    with pytest.raises(InputError, match=r"train\.tsv:21: empty source"):
        load_splits(FileData(train=train, test=test, max_words=2))


def test_two_aligned_files_are_both_summed(tmp_path):
    files = tuple(str(tmp_path / name) for name in ("en.txt", "de.txt"))
    for name in files:
        Path(name).write_text("".join(f"{name[-6:]} {i}\n" for i in range(20)), encoding="utf-8")
    assert set(load_splits(FileData(train=files)).checksums) == set(files)


@pytest.mark.parametrize(
    "config",
    [
        GrammarData(pairs=300, held_out=20),
        ToyData(kind="reverse", pairs=200, held_out=20, symbols=10, longest=6),
    ],
)
def test_generated_data_has_a_checksum_of_settings_and_text(config):
    loaded = load_splits(config)
    assert len(loaded.splits.train) == config.pairs
    assert loaded.splits.valid
    assert loaded.skipped == {}
    assert loaded.checksums == load_splits(config).checksums
    assert set(loaded.checksums) == {config.kind}
    other = load_splits(config.model_copy(update={"seed": 1}))
    assert other.checksums != loaded.checksums
