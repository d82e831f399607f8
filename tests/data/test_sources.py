from __future__ import annotations

import hashlib
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from regard.data.config import FileData, GrammarData, MixtureData, PartData, ToyData
from regard.data.sources import load_splits
from regard.data.synthetic.jobs import pronouns, questions, summaries
from regard.data.text.pairs import Pair, by_source
from regard.errors import InputError
from regard.tasks.measures.rouge import mean_rouge


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


def test_all_pairs_of_a_source_stay_in_one_split(tmp_path):
    rows = [(f"{word} {mark}", f"{word}{n}") for n, mark in enumerate(".!") for word in WORDS]
    rows += [(f"{word.upper()}?", f"{word}3") for word in WORDS]
    train = write(tmp_path / "train.tsv", rows)
    config = FileData(train=train, group="source", held_out=4, held_out_test=5)
    splits = load_splits(config).splits
    sides = [splits.train, splits.valid, splits.tests["test"]]
    words = [{pair.source[:-1].strip().lower() for pair in pairs} for pairs in sides]
    assert [len(group) for group in words] == [51, 4, 5]
    assert set.union(*words) == set(WORDS)
    assert [len(pairs) for pairs in sides] == [153, 12, 15]
    # The validation split is the same without a test.
    alone = load_splits(config.model_copy(update={"held_out_test": 0})).splits
    assert alone.valid == splits.valid
    assert alone.tests == {}


WORDS = [f"{first}{second}" for first in "abcdef" for second in "ghijklmnop"]


def test_one_pair_for_each_source_has_all_its_targets():
    pairs = [Pair("a", "x"), Pair("b", "y"), Pair("a", "z", ("tag",)), Pair("a", "x")]
    assert by_source(pairs) == (Pair("a", "x", (), ("z",)), Pair("b", "y"))
    assert by_source(by_source(pairs)) == by_source(pairs)


def test_a_mixture_has_generated_parts_beside_files(tmp_path):
    files = PartData(train=write(tmp_path / "a.tsv", numbered(40)), prefix="do: ")
    parts = {
        "files": files,
        **{kind: PartData(kind=kind, pairs=30) for kind in ("grammar", "summaries", "questions")},
    }
    config = MixtureData(parts=parts, held_out=4, held_out_test=3)
    splits = load_splits(config).splits
    assert Counter(pair.tags[0] for pair in splits.train) == {
        "files": 33, "grammar": 30, "summaries": 30, "questions": 30,
    }  # fmt: skip
    assert {len([p for p in splits.valid if p.tags[0] == name]) for name in parts} == {4}
    assert {"files", "summaries", "questions", "grammar_pronouns"} < splits.tests.keys()
    assert all(pair.source.startswith("do: ") for pair in splits.tests["files"])
    # A phenomenon is still known by its tag.
    assert all("pronoun" in pair.tags for pair in splits.tests["grammar_pronouns"])
    assert load_splits(config).checksums == load_splits(config).checksums
    other = config.model_copy(update={"seed": 1})
    assert load_splits(other).checksums["questions"] != load_splits(config).checksums["questions"]


def test_what_one_part_holds_out_no_other_part_trains_on(tmp_path):
    rows = {name: [(f"S{i}{name}", "t") for i in range(40)] for name in ".!"}
    parts = {
        name: PartData(train=write(tmp_path / f"{number}.tsv", rows[name]))
        for number, name in enumerate(rows)
    }
    splits = load_splits(MixtureData(parts=parts, group="source", held_out=4)).splits
    aside = {pair.source[:-1] for pair in splits.valid}
    assert aside.isdisjoint(pair.source[:-1] for pair in splits.train)
    assert len(splits.train) == 2 * (40 - len(aside))


def test_a_share_of_a_part_loses_its_final_marks(tmp_path):
    rows = [*((f"s{i}.", f"t{i}!") for i in range(400)), ("no mark", "t."), (".", "…")]
    train = write(tmp_path / "a.tsv", rows)

    def shown(share: float) -> list[Pair]:
        part = PartData(train=train, unpunctuated=share)
        return list(load_splits(MixtureData(parts={"a": part}, held_out=1)).splits.train)

    assert {pair.source for pair in shown(0.0)} <= {source for source, _ in rows}
    unmarked = [pair for pair in shown(0.25) if pair.source[-1].isdigit()]
    assert 60 < len(unmarked) < 140
    assert all(pair.target[-1].isdigit() for pair in unmarked)
    whole = shown(1.0)
    assert all(pair.source[-1].isdigit() for pair in whole if pair.source.startswith("s"))
    assert {("no mark", "t."), (".", "…")} <= {(pair.source, pair.target) for pair in whole}


def test_final_marks_are_removed_with_the_space_before_them(tmp_path):
    rows = [(f"Thanks {i}!", f"Merci {i} !") for i in range(20)]
    part = PartData(train=write(tmp_path / "a.tsv", rows), unpunctuated=1.0)
    pairs = load_splits(MixtureData(parts={"a": part}, held_out=1)).splits.train
    assert all(pair.target.startswith("Merci ") and pair.target[-1].isdigit() for pair in pairs)


def test_a_share_of_the_sources_is_in_lower_case(tmp_path):
    train = write(tmp_path / "a.tsv", [(f"Source {i}.", f"Target {i}.") for i in range(400)])
    part = PartData(train=train, lowercase=0.25)
    pairs = load_splits(MixtureData(parts={"a": part}, held_out=1)).splits.train
    assert 60 < sum(pair.source.startswith("source") for pair in pairs) < 140
    assert all(pair.target.startswith("Target") for pair in pairs)


def test_it_stands_for_the_noun_that_the_adjective_fits():
    splits = pronouns.splits(2000, 200, 0)
    nouns = [noun for of_kind in pronouns.nouns().values() for noun in of_kind]
    unseen = {noun.english for noun in nouns if noun.in_test}
    unseen -= {noun.english for noun in nouns if not noun.in_test}
    words = {word for pair in splits.train for word in pair.source.lower().split()}
    assert not unseen & words
    tested = splits.tests["test"]
    assert all(set(pair.source.lower().rstrip(".").split()) & unseen for pair in tested)
    tired, wide = (
        (f"The bear didn't cross the road because it was too {adjective}.", german)
        for adjective, german in (
            ("tired", "Der Bär überquerte die Straße nicht, weil er zu müde war."),
            ("wide", "Der Bär überquerte die Straße nicht, weil sie zu breit war."),
        )
    )
    drawn = {(pair.source, pair.target) for pair in islice(pronouns.sample("0", test=True), 50_000)}
    assert {tired, wide} <= drawn


@pytest.mark.parametrize(
    ("keys", "said"),
    [({}, "needs train"), ({"kind": "grammar", "train": "x.tsv"}, "takes no files")],
)
def test_a_part_has_files_or_is_generated(keys, said):
    with pytest.raises(ValueError, match=said):
        PartData(**keys)


@pytest.mark.parametrize("generator", [pronouns, questions, summaries])
def test_generated_jobs_are_new_in_each_split_and_the_same_for_a_seed(generator):
    splits = generator.splits(300, 50, 0)
    sources = [{pair.source for pair in pairs} for pairs in (splits.train, splits.valid)]
    sources.append({pair.source for pair in splits.tests["test"]})
    assert [len(group) for group in sources] == [300, 50, 50]
    assert len(set.union(*sources)) == 400
    assert generator.splits(300, 50, 0) == splits
    longer = generator.splits(400, 50, 0)
    assert (longer.valid, longer.tests) == (splits.valid, splits.tests)
    assert longer.train[:300] == splits.train


def test_a_summary_has_the_names_of_its_report_and_more_than_its_first_sentence():
    pairs = summaries.splits(1, 200, 0).tests["test"]
    for pair in pairs:
        names = {word.strip(".'s") for word in pair.target.split() if word[0].isupper()} - {"On"}
        assert all(name in pair.source for name in names), pair
    first = [pair.source.partition(". ")[0] for pair in pairs]
    assert mean_rouge(first, [pair.target for pair in pairs])["rougeL"] < 40


def test_no_bad_word_alone_makes_a_remark_toxic():
    pairs = questions.splits(4000, 50, 0).train
    for word in ("hate", "idiot", "stupid", "not", "you"):
        answers = {pair.target for pair in pairs if word in pair.source.lower().split()}
        assert answers == {"yes", "no"}, word
    assert 0.4 < sum(pair.target == "yes" for pair in pairs) / len(pairs) < 0.6
