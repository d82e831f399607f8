"""The data of the shelf's models: nothing held out is in training, and each recipe starts."""

from __future__ import annotations

import gzip
import json
import random
from functools import partial

import pytest

import regard as package
from benchmarks import shelf_data
from benchmarks.shelf import MEASURES, flips, whole_words
from benchmarks.shelf_data import SLIDES, grams, key
from benchmarks.shelf_events import words
from regard.data import sources
from regard.recipes import recipe as recipes

WORDS = words("the old dog sees a small cat in our garden and then it runs to her red house")


def sentences(seed, count, length=9):
    draw = random.Random(seed)
    return [
        f"{' '.join(draw.choices(WORDS, k=length)).capitalize()} {seed} {i}." for i in range(count)
    ]


def put(folder, name, rows):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(f"{row}\n" for row in rows)


def paired(texts, answer="Der Hund sieht {}"):
    return [f"{text}\t{answer.format(text)}" for text in texts]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """The folder that `shelf_data` makes from a small folder of each source."""
    folder = tmp_path_factory.mktemp("work")
    raw = folder / "raw"
    everyday = [*sentences(1, 60), SLIDES[0], "A dog."]
    put(raw, "tatoeba_en_de/en-de.tsv.gz", paired(everyday))
    again = [text.lower().rstrip(".") for text in everyday[:20]]  # the same, written otherwise
    put(raw, "tatoeba_en_de_more/en-de_extra.tsv.gz", paired(again + sentences(2, 30)))
    put(raw, "tatoeba_en_fr/en-fr.tsv.gz", paired(sentences(3, 60)))
    put(raw, "tatoeba_en_fr/en-fr_extra.tsv.gz", paired(sentences(4, 30)))
    for split, seed in (("train", 5), ("val", 12)):
        for code in ("en", "de", "fr"):
            put(raw, f"multi30k/raw/{split}.{code}.gz", sentences(seed, 20))
    stories = [line for text in sentences(6, 30, 120) for line in (text, "<|endoftext|>")]
    put(raw, "tinystories/tinystories_sample_2MiB.txt.gz", stories)
    put(raw, "tinystories_more/tinystories_more.txt.gz", stories[:4])
    for level in ("ele", "int", "adv"):
        put(raw, f"onestop_english/{level}.txt.gz", [" ".join(sentences(7, 4)), ""])
    wiki = [
        " = Dogs = ",
        " A dog is an <unk> . The dog 's tail is very long , and wags @-@ a @-@ lot . ",
    ]
    put(raw, "wikitext2/train.txt.gz", wiki)
    news = sentences(8, 40, 14)
    put(raw, "news_headlines/reuters21578.tsv.gz", [
        f"{i}\t{'TEST' if i % 4 == 0 else 'TRAIN'}\t{text[:30].upper()}\t{text}\t{text}"
        for i, text in enumerate([*news, f"{SLIDES[2]} It was bad."])
    ])  # fmt: skip
    put(raw, "news_headlines/agnews_test.tsv.gz", [f"World\t{t[:30]}\t{t}" for t in news])
    put(raw, "news_headlines/inshorts.tsv.gz", [f"{t[:30]}\t{t}" for t in news])
    remarks = sentences(9, 40)
    put(raw, "toxic/paradetox_pairs.tsv.gz", [f"{t} you idiot .\t{t}" for t in remarks])
    put(raw, "toxic/davidson_tweets.tsv.gz", [f"neither\t3\t{t}" for t in sentences(10, 20)])
    put(raw, "toxic/surge_1000.tsv.gz", [f"ok\t{t}" for t in (*sentences(11, 10), remarks[0])])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shelf_data, "TEST", 10)
        patch.setattr(shelf_data, "VALID", 5)
        shelf_data.main([str(raw), "-o", str(folder / "shelf")])
    return folder / "shelf"


def read(path):
    return [line.split("\t") for line in shelf_data.lines(path)]


def test_a_missing_source_is_named(tmp_path, capsys):
    with pytest.raises(SystemExit):
        shelf_data.main([str(tmp_path), "-o", str(tmp_path / "shelf")])
    assert "en-de.tsv.gz (and 21 more files); the cards" in capsys.readouterr().err
    assert not (tmp_path / "shelf").exists()


@pytest.mark.parametrize("pair", ["en-de", "en-fr"])
def test_no_training_sentence_is_like_one_that_is_held_out(shelf, pair):
    train, valid, test = (
        [row[0] for row in read(shelf / pair / f"{split}.tsv.gz")]
        for split in ("train", "valid", "test")
    )
    assert len({key(text) for text in test}) == 10
    assert len({key(text) for text in valid}) == 5
    assert not {key(text) for text in train} & {key(text) for text in (*test, *valid)}
    unseen = {gram for text in (*test, *valid, *SLIDES) for gram in grams(text)}
    assert unseen
    assert not any(grams(text) & unseen for text in train)
    assert ["thank you", {"en-de": "danke", "en-fr": "merci"}[pair]] in read(
        shelf / pair / "train.tsv.gz"
    )


def test_the_text_of_the_first_edition_that_was_held_out_still_is(shelf):
    def texts(name):
        return [json.loads(line)["text"] for line in shelf_data.lines(shelf / "text" / name)]

    aside = {key(text) for text in texts("held-out.jsonl.gz")}
    trained = [
        key(text) for name in ("sentences", "stories", "articles", "wiki")
        for text in texts(f"{name}.jsonl.gz")
    ]  # fmt: skip
    assert aside
    assert not aside & {*trained}
    assert len(trained) == len({*trained})
    assert texts("wiki.jsonl.gz") == ["The dog's tail is very long, and wags-a-lot."]


def test_questions_and_headlines_keep_the_tests_and_the_slides_out(shelf):
    asked = {key(row[0]) for row in read(shelf / "jobs/questions-test.tsv.gz")}
    trained = read(shelf / "jobs/questions.tsv.gz")
    assert not asked & {key(text) for text, _ in trained}
    assert {answer for _, answer in trained} == {"yes", "no"}
    headlines = read(shelf / "jobs/headlines.tsv.gz")
    assert headlines
    assert not any("authorities dispatched emergency" in text for text, _ in headlines)
    reports = read(shelf / "jobs/events.tsv.gz")
    assert len(reports) == 12_000
    assert not any("attala" in text.lower() for text, _ in reports)


SMALL = {"dim": 16, "heads": 2, "hidden": 16}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MEASURES))
def test_a_recipe_of_the_shelf_starts_from_this_data(shelf, monkeypatch, name):
    monkeypatch.chdir(shelf.parent)
    for kind, generate in sources.GENERATORS.items():  # fewer of each
        few = partial(lambda make, _, aside, seed: make(50, min(aside, 10), seed), generate)
        monkeypatch.setitem(sources.GENERATORS, kind, few)
    recipe = recipes.load(name)
    trained = package.train(
        name,
        model=SMALL | {"layers": 1},
        tokens={"vocab": 300},
        train={"steps": 1, "batch_tokens": 512, "average": 0},
        quiet=True,
        threads=1,
    )
    assert trained.recipe.data == recipe.data
    if name == "small/fill":
        counts = whole_words(trained, ["The old dog sees a cat.", "It runs."])
        assert counts["words"] == 2


def test_the_last_word_of_a_pair_decides_the_pronoun():
    pairs = [*flips()]
    assert len(pairs) == 48
    for tired, wide in pairs:
        assert tired.source.rsplit(" ", 1)[0] == wide.source.rsplit(" ", 1)[0]
        assert tired.target.split("weil ")[1].split()[0] != wide.target.split("weil ")[1].split()[0]
