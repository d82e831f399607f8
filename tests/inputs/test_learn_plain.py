"""Vocabularies of plain text: masks, sentinels, and what stands around a text."""

from __future__ import annotations

import pytest

from regard.inputs.text import TokensConfig, Vocabulary, learn_plain, sentinels_of
from regard.tasks import Fill, Generate, Restore

TEXTS = ["the cat sat on the mat", "a dog ran after the cat, hurriedly!"] * 20
KINDS = ["words", "characters", "bytes", "bpe", "wordpiece", "unigram"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_stands_where_a_hidden_piece_would(kind):
    tokenizer = learn_plain(TEXTS, TokensConfig(kind=kind, vocab=400), Fill.around).source
    mask = tokenizer.specials.mask
    ids = tokenizer.encode("the cat sat")
    pieces = tokenizer.pieces("the cat sat")
    alone = [at for at, (_, word) in enumerate(pieces) if word == 1]
    if len(alone) > 1:  # spelt with several pieces, the space before it perhaps among them
        spaces = [at for at in alone if pieces[at][0] == "▁"]
        alone = [at for at in alone if at not in spaces or kind in ("bpe", "unigram")]
    hidden = [token for at, token in enumerate(ids) if at not in alone]
    hidden.insert(alone[0], mask)
    assert tokenizer.encode_with_specials("the <mask> sat") == hidden


@pytest.mark.parametrize("kind", KINDS)
def test_sentinels_are_found_again_after_saving_and_text_cannot_spell_them(kind):
    vocabulary = learn_plain(TEXTS, TokensConfig(kind=kind, vocab=400), Restore.around)
    again = Vocabulary.from_json(vocabulary.to_json()).source
    sentinels = sentinels_of(again)
    assert len(sentinels) == 50
    assert again.encode_with_specials("<extra_id_7>") == [sentinels[7]]
    assert not set(again.encode("<extra_id_7>")) & set(sentinels)


def test_what_stands_around_a_text_depends_on_the_task():
    config = TokensConfig(kind="words", vocab=64)
    fill, restore, generate = (
        learn_plain(TEXTS, config, task.around).source for task in (Fill, Restore, Generate)
    )
    assert fill.template([9], [8]) == [fill.begin, 9, fill.end, 8, fill.end]
    assert fill.token_types([9], [8]) == [0, 0, 0, 1, 1]
    assert restore.template([9]) == [9, restore.end]
    assert restore.begin == restore.pad  # T5's decoder starts with the padding
    assert generate.template([9]) == [generate.begin, 9]


def test_large_vocabularies_have_as_many_sentinels_as_t5():
    vocabulary = learn_plain(TEXTS, TokensConfig(kind="bpe", vocab=1000), Restore.around)
    assert len(sentinels_of(vocabulary.source)) == 100


@pytest.mark.parametrize("kind", ["words", "characters", "wordpiece", "unigram"])
def test_only_the_word_that_cannot_be_spelled_is_unknown(kind):
    tokenizer = learn_plain(TEXTS, TokensConfig(kind=kind, vocab=400), Generate.around).source
    words = tokenizer.mark_unknown_words(
        "the\x1ccat sat"
    )  # a separator that Python takes for a space
    assert words == [("the", False), ("\x1c", True), ("cat", False), ("sat", False)]
