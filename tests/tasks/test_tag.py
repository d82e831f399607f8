"""Tagging: labels of words on sub-words, windows, and a batch is its sentences one by one."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.data.text.annotations import TaggedWords
from regard.data.text.windows import batch_of, windows
from regard.errors import InputError
from regard.inputs.text import Roles, Tokenizer, Vocabulary
from regard.tasks import Tag
from regard.tasks.labelled_task import ReadingOptions
from regard.tasks.tag import NO_TAG, join_words, words_in
from tests import tiny_bert

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
INNER = json.loads(tiny_bert.tokenizer().to_str())
TOKENIZER = Tokenizer(INNER, Roles(pad=0, unknown=1, classifier=2, separator=3, mask=4))
VOCABULARY = Vocabulary(TOKENIZER, TOKENIZER)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tags")
    names = {0: "O", 1: "B-x", 2: "I-x"}
    tiny_bert.save(folder, "BertForTokenClassification", id2label=names,
                   label2id={name: number for number, name in names.items()})  # fmt: skip
    return regard.load(folder)


@pytest.mark.parametrize(("words", "firsts"), [
    (["cat", "xyz", "dog"], ["cat", "x", "dog"]),  # xyz is three pieces
    (["Zoë", "naïve", "e\u0301t\u00e9"], ["Z", "n", "e"]),  # accents, composed or not
    (["😀", "cat", "👩‍💻", "dog"], ["[UNK]", "cat", "[UNK]", "dog"]),
    (["don't", "it", "."], ["d", "it", "."]),  # one word, split at its apostrophe
    (["cat", "\u200b", "dog"], ["cat", None, "dog"]),  # dropped by the tokenizer
])  # fmt: skip
def test_a_words_label_is_on_its_first_piece_and_nowhere_else(words, firsts):
    labels = [str(number) for number in range(len(words))]
    task = Tag(VOCABULARY, options=ReadingOptions(longest=40))
    [row] = task.rows([TaggedWords(tuple(words), tuple(labels))], labels, 40)
    marked = {target: TOKENIZER.tokens([token])[0]
              for token, target in zip(row.ids, row.targets, strict=True)
              if target != NO_TAG}  # fmt: skip
    assert [marked.get(number) for number in range(len(words))] == firsts
    assert sum(target != NO_TAG for target in row.targets) == len(marked)


@settings(deadline=None)
@given(st.integers(0, 200), st.integers(2, 40), st.integers(0, 60))
def test_every_token_is_own_to_one_window_that_shows_it(tokens, size, overlap):
    parts = windows(tokens, size, overlap)
    assert [token for window in parts for token in window.own_tokens] == list(range(tokens))
    for window in parts:
        assert window.stop - window.start <= size
        assert set(window.own_tokens) <= set(range(window.start, window.stop))
    for before, after in pairwise(parts):
        assert before.start < after.start <= before.stop


def test_a_long_sentence_has_each_word_asked_once(pipeline):
    words = tuple((tiny_bert.WORDS * 5)[:130])
    example = TaggedWords(words, ("O",) * 130)
    task = Tag(VOCABULARY, [example], labels=("O",), options=ReadingOptions(longest=30, overlap=10))
    assert len(task.train) > 4
    assert max(len(row.ids) for row in task.train) == 30
    assert task.targets(batch_of(task.train, range(len(task.train)))) == 130
    assert [tagged.word for tagged in pipeline.tag(words)] == list(words)
    assert all(tagged.probability > 0.3 for tagged in pipeline.tag(words))


def test_the_loss_is_theirs_summed_over_words(pipeline):
    example = TaggedWords(("xyz", "cat"), ("B-x", "O"))
    task = Tag(
        VOCABULARY, [example], labels=("O", "B-x", "I-x"), options=ReadingOptions(longest=40)
    )
    batch = batch_of(task.train, [0])
    ids = torch.tensor(task.train[0].ids)
    with torch.no_grad():
        logs = pipeline.model.tag(batch.source).log_softmax(1)
        loss = float(task.loss(pipeline.model, batch))
    assert ids.tolist()[1] == TOKENIZER.encode("x")[0]
    assert loss == pytest.approx(-float(logs[1, 1] + logs[4, 0]), rel=1e-5)
    assert task.targets(batch) == 2


def test_a_batch_gives_what_each_sentence_gives_alone(pipeline):
    texts = ["the cat sat", "Zoë lives in Paris .", "so", ""]
    together = pipeline.task.tag(pipeline.model, pipeline.task.read(pipeline.model, texts))
    assert together[-1] == []
    for text, tagged in zip(texts[:-1], together[:-1], strict=True):
        alone = pipeline.tag(text)
        assert [(e.word, e.tag) for e in alone] == [(e.word, e.tag) for e in tagged]
        assert [text[word.start : word.end] for word in tagged] == [word.word for word in tagged]


def test_words_of_a_text_stand_where_they_say():
    text = "  «Zoe\u0308's» cat – U.S. #x, 😀!"
    assert [text[a:b] for a, b in words_in(text)] == [
        "«", "Zoe\u0308's", "»", "cat", "–", "U.S", ".", "#x", ",", "😀", "!"]  # fmt: skip
    joint, spans = join_words(["New", "York"])
    assert [joint[a:b] for a, b in spans] == ["New", "York"]


def test_words_of_several_texts_are_tagged_as_alone_and_texts_are_not_taken_for_words(pipeline):
    several = [["the", "cat", "sat"], ["Anna"]]
    tagged = pipeline.tag(several)
    for words, tags in zip(several, tagged, strict=True):
        assert [word.tag for word in pipeline.tag(words)] == [word.tag for word in tags]
    with pytest.raises(InputError, match="got the word 'the cat', expected one word"):
        pipeline.tag(["the cat", "Anna"])
