"""The figures of part 6: families, what they are trained on, meanings, fine-tuning."""

from __future__ import annotations

import itertools
import json
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from regard.errors import InputError
from regard_lectures import show
from regard_lectures.figures import finetuning, meanings
from regard_lectures.figures.families import direction
from regard_lectures.figures.meanings import WRITTEN
from regard_lectures.figures.objectives import TEXT
from regard_lectures.figures.senses import Seen, silhouette
from regard_lectures.figures.topics import FRAMES, HOMONYMS, TITLES, TOPICS, sentences
from tests import tiny_bert
from tests.legible import problems

pytestmark = pytest.mark.slow


def later(size):
    """Which keys stand after a query."""
    return np.triu(np.ones((size, size), dtype=int), 1)


@pytest.mark.parametrize(
    "text", [None, "one two", "The King doth wake tonight, and takes his rouse!"]
)
def test_gpt_looks_back_bert_both_ways_and_t5_each_in_its_place(text):
    numbers = show("families", text=text).numbers
    assert np.array_equal(numbers["never_gpt"], later(len(numbers["rows_gpt"])))
    assert not np.any(numbers["never_bert"])
    for family in ("gpt", "bert"):
        assert np.sum(numbers[f"weights_{family}"], 1) == pytest.approx(1, abs=1e-5)
    weights = np.array(numbers["weights_t5"], dtype=float)
    never, border = np.array(numbers["never_t5"]), numbers["decoder_from"]
    assert np.all(np.isnan(weights[:border, border:]))  # an encoder never looks at the decoder
    assert not never[:, :border].any()
    assert np.array_equal(never[border:, border:], later(len(never) - border))
    for part in (weights[:, :border], weights[border:, border:]):
        assert part.sum(1) == pytest.approx(1, abs=1e-5)


def test_each_family_is_asked_for_its_own():
    numbers = show("families").numbers
    tokens = ["<s>", "I", "walk", "my", "dog", "every", "day", "</s>"]
    pairs = itertools.pairwise(tokens)
    assert numbers["rows_gpt"] == [f"{token} → {following}" for token, following in pairs]
    bert = [row.split(" → ") for row in numbers["rows_bert"]]
    assert [row[-1] for row in bert] == tokens  # a hole says what stood there
    assert [row[0] for row in bert if len(row) > 1] == ["<mask>"]
    border = numbers["decoder_from"]
    source = numbers["rows_t5"][:border]
    said = [row.split(" → ")[1] for row in numbers["rows_t5"][border:]]
    [hole] = [index for index, token in enumerate(source) if token == "<0>"]
    assert said[0] == "<0>"
    assert source[:hole] + said[1:-1] + source[hole + 1 :] == tokens[1:]


def test_one_text_is_a_row_holes_and_spans():
    lines = [(name, cells) for name, *cells in show("objectives").numbers["lines"]]
    text = re.findall(r"[\w']+|\.", TEXT)
    assert lines[1] == ("reads", ["<s>", *text])
    assert lines[2] == ("predicts", [*text, "</s>"])
    whole = ["<s>", *text, "</s>"]
    shown = [cells for name, cells in lines if name.startswith("epoch") and cells[0] == "<s>"]
    fates = []
    for cells in shown:
        parts = [cell.split(" → ") for cell in cells]
        assert [part[0] for part in parts] == whole  # what stood there, chosen or not
        chosen = [part for part in parts if len(part) > 1]
        assert len(chosen) == 5  # 15% of 32 tokens
        fates += ["mask" if new == "<mask>" else old == new for old, new in chosen]
    assert set(fates) == {"mask", True, False}  # hidden, left, another token
    assert len(set(map(tuple, shown))) == len(shown) > 1
    assert [name for name, _ in lines[-3:]] == [
        "T5 writes the spans that were removed",
        "reads",
        "writes",
    ]
    (_, source), (_, target) = lines[-2:]  # one draw: another would cut out the same last words
    spans = " ".join(target).removesuffix(" </s>").split("<")[1:]
    assert len(spans) == 2  # 5 tokens in spans of 3
    filled = " ".join(source)
    for span in spans:
        number, _, words = span.strip().partition("> ")
        filled = filled.replace(f"<{number}>", words)
    assert filled.split() == whole[1:]


def test_the_families_picture_shows_who_may_look_and_no_weights_of_fresh_models():
    drawing = show("families")
    for axes, family in zip(drawing.figure.axes, ("gpt", "bert", "t5"), strict=True):
        shown = axes.collections[0].get_array()
        levels = set(np.round(shown.compressed(), 6).tolist())
        assert len(levels) <= 2  # may, or never
        never = np.array(drawing.numbers[f"never_{family}"], dtype=bool)
        assert np.array_equal(shown.filled(1.0).reshape(never.shape) == 0, never)
    assert "not trained and mean nothing" in drawing.details


def test_the_measured_shares_are_those_of_the_papers():
    numbers = show("objectives").numbers
    assert numbers["chosen_percent"] == pytest.approx(15, abs=0.1)
    assert numbers["mask_percent"] == pytest.approx(80, abs=1.5)
    assert numbers["other_percent"] == pytest.approx(10, abs=1)
    assert numbers["kept_percent"] == pytest.approx(10, abs=1)
    assert numbers["cut_percent"] == pytest.approx(15, abs=0.1)
    assert numbers["span_mean"] == pytest.approx(3, abs=0.1)
    assert len(numbers["span_lengths"]) > 6  # they are drawn, not all of three


@pytest.mark.parametrize("name", ["families", "objectives"])
@pytest.mark.parametrize(
    "text", ["an extraordinarily uncharacteristic internationalisation", "w " * 12]
)
def test_short_and_long_words_stay_on_the_sheet(name, text):
    drawing = show(name, text=text, seed=3)
    assert problems(drawing.figure) == []
    assert "seed 3" in drawing.text
    assert json.loads(json.dumps(drawing.numbers, allow_nan=False)) == drawing.numbers


@pytest.mark.parametrize("name", ["families", "objectives"])
@pytest.mark.parametrize("text", ["", "alone"])
def test_texts_of_less_than_two_words_are_refused(name, text):
    with pytest.raises(InputError, match=r"--text: got \d+ words, expected two words or more"):
        show(name, text=text)


@pytest.mark.parametrize(("name", "most"), [("families", 12), ("objectives", 36)])
def test_of_a_longer_text_the_first_words_are_shown_and_the_picture_says_so(name, most):
    drawing = show(name, text="w " * 40)
    assert f"Shown: the first {most} of 40 words." in drawing.caption
    assert problems(drawing.figure) == []
    long = "Uncharacteristically extraordinary internationalisations notwithstanding, " * 6
    drawing = show(name, text=long)
    assert re.search(r"Shown: the first \d+ of 30 words\.", drawing.caption)
    assert problems(drawing.figure) == []


@pytest.mark.parametrize(
    ("never", "way"),
    [
        (np.zeros((3, 3)), "both ways"),
        (later(3), "back"),
        (later(3).T, "ahead"),
        (1 - np.eye(3), "at itself alone"),
        (np.triu(np.ones((4, 4)), 1) + np.tril(np.ones((4, 4)), -2), "back in part"),
    ],
)
def test_where_a_model_looks_is_read_off_its_zeros(never, way):
    assert direction(never.astype(bool)) == way


def test_what_each_objective_predicts_is_counted_in_the_lines_shown():
    drawing = show("objectives", text="A man in a green shirt is standing in a small yard.")
    numbers = drawing.numbers
    lines = {name: cells for name, *cells in numbers["lines"]}
    assert numbers["predicted_gpt"] == len(lines["predicts"]) == 14
    assert numbers["predicted_bert"][0] == sum("→" in cell for cell in lines["epoch 0"])
    assert f"GPT predicts {numbers['predicted_gpt']} tokens" in drawing.caption
    assert "in 1 span." in drawing.caption
    assert "as published" in drawing.title


def test_the_words_of_a_topic_alone_tell_it():
    vocabulary = {
        name: {
            word for words in vars(topic).values() for phrase in words for word in phrase.split()
        }
        for name, topic in TOPICS.items()
    }
    frames = {word for frame in FRAMES + TITLES for word in frame.split()}
    for name, words in vocabulary.items():
        others = set().union(*(vocabulary[other] for other in vocabulary if other != name))
        assert not words & (others | frames | set(HOMONYMS))
    drawn = sentences(400, 1, TITLES)
    assert len({text for text, _ in drawn}) == 400
    for word, topics in HOMONYMS.items():
        used = {topic for text, topic in drawn if word in text.split()}
        assert used == set(topics)
    assert all(set(text.split()) & vocabulary[topic] for text, topic in drawn)


def test_every_written_sentence_has_its_word_once():
    for word, senses in WRITTEN.items():
        for sense in senses:
            for name, texts in {word: sense.sentences, **sense.others}.items():
                assert all(text.split().count(name) == 1 for text in texts)


def test_a_silhouette_is_that_of_the_definition():
    torch.manual_seed(0)
    kinds = torch.randn(5, 4) + 1, torch.randn(3, 4)
    points = [(kind, vector) for kind in (0, 1) for vector in kinds[kind]]
    scores = []
    for kind, vector in points:
        apart = {0: [], 1: []}
        for other, another in points:
            if another is not vector:
                apart[other].append(1 - float(F.cosine_similarity(vector, another, dim=0)))
        a, b = np.mean(apart[kind]), np.mean(apart[1 - kind])
        scores.append((b - a) / max(a, b))
    assert silhouette(*kinds) == pytest.approx(np.mean(scores), abs=1e-5)


def test_a_word_is_one_vector_before_the_first_layer_and_several_after_it():
    drawing = show("meanings", steps=3, seed=1, word="bank", tries=1)
    assert problems(drawing.figure) == []
    assert "seed 1" in drawing.text
    assert "“bank”" in drawing.title
    assert "one vector for “bank”" in drawing.caption
    numbers = drawing.numbers
    for word in HOMONYMS:
        [line] = numbers["silhouettes"][word]
        assert line[0] == 0
        assert len(line) == 3
    assert numbers["cosine_between"][0] == pytest.approx(1, abs=1e-5)
    assert max(numbers["cosine_between"][1:]) < 1 - 1e-3


def test_a_word_parts_into_its_meanings():
    drawing = show("meanings")
    numbers = drawing.numbers
    for word in HOMONYMS:
        for line in numbers["silhouettes"][word]:
            assert line[0] == 0 < line[2]
            assert line[2] > 0.6
    assert numbers["cosine_same"][2] > numbers["cosine_between"][2] + 0.2
    assert numbers["towards_their_like"] > 0.95
    assert np.max(numbers["silhouettes"]["not trained"]) < 0.3
    assert numbers["groups_as_far_apart"] < 0.01
    assert "separate by meaning" in drawing.title


OWN_SENTENCES = (
    "The Crane lifted the steel. A crane stood on the site! / A white crane flew away; "
    "The crane ate a fish in the shallow water."
)


def test_the_meanings_of_ones_own_sentences_are_shown():
    drawing = show("meanings", text=OWN_SENTENCES, tries=1)
    assert problems(drawing.figure) == []
    numbers = drawing.numbers
    assert (numbers["word"], numbers["sentences"]) == ("crane", [2, 2])
    assert numbers["groups_tried"] == 6
    assert list(numbers["silhouettes"]) == ["crane", "not trained"]
    # with two sentences each, a third of all groupings are as far apart at least
    assert numbers["groups_as_far_apart"] >= 1 / 3
    assert "separate by meaning" not in drawing.title.replace("do not separate by", "")
    assert "small/fill" in drawing.limits


@pytest.mark.parametrize(
    ("text", "word", "said"),
    [
        ("One crane. Two. / Three cranes. Four.", "", "a word of every sentence: none"),
        ("A crane lifts. / A crane flies. A crane eats.", "", "1 and 2 sentences"),
        ("A crane lifts. A crane stands.", "", "got 2 sentences"),
        (OWN_SENTENCES, "steel", "got 'steel', expected a word of every sentence"),
    ],
)
def test_sentences_without_the_word_in_two_meanings_are_refused(text, word, said):
    with pytest.raises(InputError) as refused:
        meanings.read_own(text, word)
    assert said in str(refused.value)


def test_a_word_of_which_there_are_no_sentences_is_refused_with_the_way_to_give_some():
    with pytest.raises(
        InputError, match="word: got 'crane', expected model or bank\\nor sentences"
    ):
        show("meanings", word="crane")


def test_the_chance_of_a_silhouette_counts_all_groupings():
    far = torch.tensor([[[1.0, 0.0]] * 4]), torch.tensor([[[0.0, 1.0]] * 4])
    nothing = far[0][:, :0], far[1][:, :0]
    assert Seen(far, nothing).by_chance(0) == (70, 2 / 70)  # itself, and the two swapped
    alike = far[0], far[0]
    assert Seen(alike, nothing).by_chance(0) == (70, 1.0)
    assert Seen(far, nothing).near() is None


def test_the_meanings_of_ones_own_model_are_those_of_its_layers(tmp_path, monkeypatch):
    texts = [
        text
        for senses in WRITTEN.values()
        for sense in senses
        for group in (sense.sentences, *sense.others.values())
        for text in group
    ]
    monkeypatch.setattr(
        tiny_bert, "WORDS", sorted({word for text in texts for word in text.split()})
    )
    tiny_bert.save(tmp_path / "bert")
    drawing = show("meanings", model=str(tmp_path / "bert"))
    assert problems(drawing.figure) == []
    numbers = drawing.numbers
    assert numbers["silhouettes"]["model"][0][0] == 0
    assert len(numbers["silhouettes"]["bank"][0]) == 3
    assert len(numbers["silhouettes"]["not trained"]) == 3  # new weights of three seeds
    assert numbers["sentences"] == [8, 8]
    assert "16 English sentences" in drawing.text


def test_a_model_that_is_no_encoder_is_refused():
    with pytest.raises(InputError, match=r"tiny/translate, a transformer, expected a BERT's"):
        show("meanings", model="tiny/translate")
    with pytest.raises(InputError, match="no folder nowhere"):
        show("meanings", model="nowhere")


def test_what_is_frozen_does_not_learn():
    drawing = show("finetuning", steps=3, tries=1, seed=2)
    assert problems(drawing.figure) == []
    assert "seed 2" in drawing.text
    assert "one draw of labels cannot tell" in drawing.title
    numbers = drawing.numbers
    dim, classes = 64, len(TOPICS)
    head = dim * dim + dim + classes * dim + classes  # pooler, and the new last layer
    assert numbers["parameters_encoder_frozen"] == head
    block = 4 * (dim * dim + dim) + 2 * dim * 128 + dim + 128 + 4 * dim  # and two norms
    assert numbers["parameters_half_frozen"] == head + block
    assert numbers["parameters_all_of_it_learns"] > head + 2 * block
    assert numbers["parameters_from_scratch"] == numbers["parameters_all_of_it_learns"]


def test_pretraining_saves_labels():
    drawing = show("finetuning")
    numbers = drawing.numbers
    scratch = np.mean(numbers["accuracy_from_scratch"], 1)
    for way in ("all_of_it_learns", "half_frozen", "encoder_frozen"):
        line = np.mean(numbers[f"accuracy_{way}"], 1)
        assert line[1] > scratch[1] + 20  # eight labelled titles
        assert line[-1] > 95
    assert scratch[0] < 50
    assert scratch[-1] > scratch[1] + 20  # it is the labels that are missing, not the ability
    assert "pretraining helps" in drawing.title


def own_table(folder, count=24, labels=("good", "bad")):
    """A table of texts whose label is one of their words."""
    rows = [f"{labels[n % len(labels)]} film number {n},{labels[n % len(labels)]}"
            for n in range(count)]  # fmt: skip
    path = folder / "own.csv"
    path.write_text("text,label\n" + "\n".join(rows) + "\n")
    return str(path)


def test_labels_of_ones_own_are_learned_by_ones_own_encoder(tmp_path, monkeypatch):
    words = ["good", "bad", "film", "number", *map(str, range(24))]
    monkeypatch.setattr(tiny_bert, "WORDS", words)
    tiny_bert.save(tmp_path / "bert")
    monkeypatch.setattr(finetuning, "EXAMPLES", (4, 8))
    data = own_table(tmp_path)
    drawing = show("finetuning", data=data, model=str(tmp_path / "bert"), steps=400, tries=2)
    assert problems(drawing.figure) == []
    numbers = drawing.numbers
    assert numbers["labels"] == ["bad", "good"]
    assert numbers["examples"] == [4, 8]
    assert numbers["tested"] == 10
    assert np.shape(numbers["accuracy_from_scratch"]) == (2, 2)
    assert "own.csv" in drawing.limits
    assert "20 steps" in drawing.limits
    parameters = [numbers[f"parameters_{way}"] for way in
                  ("all_of_it_learns", "half_frozen", "encoder_frozen")]  # fmt: skip
    assert parameters == sorted(parameters, reverse=True)


def test_tables_without_texts_or_labels_enough_are_refused(tmp_path):
    with pytest.raises(InputError, match="got 12 texts with 2 labels, expected 20 texts or more"):
        finetuning.read_own(own_table(tmp_path, 12))
    with pytest.raises(InputError, match="24 texts with 1 labels"):
        finetuning.read_own(own_table(tmp_path, labels=("good",)))
    with pytest.raises(InputError, match=r"nowhere\.csv"):
        finetuning.read_own("nowhere.csv")


def test_the_pool_has_every_label_and_shares_no_text_with_the_test(tmp_path):
    texts = finetuning.read_own(own_table(tmp_path, 40, ("a", "b", "c", "d")))
    test, pool = finetuning._split(texts, 0)
    assert {text.label for text in pool} == set("abcd")
    assert len(test) == 16
    assert not {text.text for text in test} & {text.text for text in pool}
