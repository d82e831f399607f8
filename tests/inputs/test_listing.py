"""The tokens of a text one by one: which characters each stands for, and what is not kept."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library

from regard.errors import InputError
from regard.inputs.text import Token, TokensConfig, learn, learn_plain, read_file
from regard.inputs.text.listing import read_ids, side_by_side, table, tokenize, tokens_of
from regard.inputs.text.spelling import spell
from regard.runtime.units import aligned
from regard.tasks import Fill
from tests.inputs.test_published import KINDS as PUBLISHED
from tests.inputs.test_published import TEXTS as HARD
from tests.inputs.test_tokenizer import KINDS, LEARNED, PAIRS

LOWER = {
    kind: learn(PAIRS, TokensConfig(kind=kind, vocab=400, lowercase=True)).source for kind in KINDS
}
TEXT = st.text(max_size=30) | st.lists(
    st.sampled_from("aTeß.' \u0301\u3000İﬁ東👩‍\t▁#Ġ<"), max_size=12
).map("".join)
relaxed = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def check_places(tokenizer, text):
    """Ids are those of the model, and places are in the text, in order, and leave nothing out."""
    ids, spans = tokenizer.encode_with_spans(text)
    assert ids == tokenizer.encode(text)
    assert len(ids) == len(spans)
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    starts = [start for start, _ in spans]
    assert starts == sorted(starts)
    return ids, spans


def covered(spans):
    return {i for start, end in spans for i in range(start, end)}


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@given(text=TEXT)
@example(text="  The dog's\n\nİstanbul, e\u0301 ﬁ ½ 東京 👩‍👩‍👧 ")
@relaxed
def test_tokens_stand_for_characters_as_typed(kind, lower, text):
    tokenizer = (LOWER if lower else LEARNED)[kind]
    ids, spans = check_places(tokenizer, text)
    letters = {i for i, letter in enumerate(text) if not letter.isspace()}
    everything = kind in ("characters", "bytes", "bpe")
    assert covered(spans) >= (set(range(len(text))) if everything else letters)
    if lower:
        return
    if kind in ("bytes", "bpe"):  # an account of our own: the bytes that each token writes
        assert spans == spell([tokenizer._bytes[token] for token in ids])[1]
        return
    for token, (start, end) in zip(ids, spans, strict=True):
        if token != tokenizer.unknown and start < end:
            spelled = tokenizer._bytes[token].decode()
            added = kind in ("words", "wordpiece") or (kind == "unigram" and start == 0)
            typed = text[start:end].replace("▁", " " if kind == "unigram" else "▁")
            assert typed in (spelled, spelled[1:] if added else spelled)


@pytest.mark.parametrize("kind", KINDS)
@given(text=TEXT)
@relaxed
def test_places_are_the_librarys(kind, text):
    """But for a space that it puts before a text, which stands for no character of it."""
    tokenizer = LEARNED[kind]
    library = Library.from_str(tokenizer.library_json())
    library.encode_special_tokens = True
    theirs = library.encode(text, add_special_tokens=False).offsets
    _, ours = tokenizer.encode_with_spans(text)
    for i, (our_span, their_span) in enumerate(zip(ours, theirs, strict=True)):
        if our_span != their_span:
            assert kind == "unigram"
            assert (i, our_span) == (0, (0, 0))


@pytest.mark.slow
@pytest.mark.parametrize("kind", PUBLISHED)
@given(text=TEXT)
@example(text="  Le cafe\u0301, İstanbul! ﬁ ½ 東京 👩‍👩‍👧 ")
@example(text="▁ ▁x")
@relaxed
def test_tokens_of_published_kinds_stand_for_characters_as_typed(kind, text, read):
    tokenizer = read(kind)
    ids, spans = check_places(tokenizer, text)
    if kind in ("gpt2", "roberta", "llama-3"):
        assert spans == spell([tokenizer.bytes_of(token) for token in ids])[1]
    if kind not in ("bert", "bert-cased"):  # which drop control characters
        letters = {i for i, letter in enumerate(text) if not letter.isspace()}
        assert covered(spans) >= letters


@pytest.mark.parametrize("kind", PUBLISHED)
def test_places_of_published_kinds_are_the_librarys(kind, read, published, corpus):
    tokenizer = read(kind)
    library = Library.from_file(str(published(kind) / "tokenizer.json"))
    library.post_processor = None  # some trim the spaces off
    library.encode_special_tokens = True
    for text in (*HARD[:6], *corpus[::20]):
        theirs = library.encode(text, add_special_tokens=False).offsets
        ours = tokenizer.encode_with_spans(text)[1]
        pieces = tokenizer.tokens(tokenizer.encode(text))
        for piece, (start, end), (first, last) in zip(pieces, ours, theirs, strict=True):
            if (start, end) != (first, last):  # a space of its own, or an accent it left out
                assert start == first
                assert (piece, end) == ("▁", start) or unicodedata.combining(text[last:end])


def test_special_symbols_stand_around_the_text_and_for_no_part_of_it(read):
    text = "The dog"
    tokens = tokens_of(read("bert"), text)
    assert [(token.token, token.start, token.end) for token in tokens if token.special] == [
        ("[CLS]", 0, 0), ("[SEP]", 7, 7)]  # fmt: skip
    assert [token.id for token in tokens] == read("bert").template(read("bert").encode(text))
    written = tokens_of(LEARNED["bpe"], text, target=True)
    begin, end = (Token("<s>", 1, 0, 0, special=True), Token("</s>", 2, 7, 7, special=True))
    assert (written[0], written[-1]) == (begin, end)
    assert not any(token.special for token in tokens_of(LEARNED["bpe"], "</s> <s>"))  # typed: text
    plain = learn_plain(
        ["the dog sees the cat"] * 3, TokensConfig(kind="bpe", vocab=300), Fill.around
    )
    assert [token.special for token in plain.tokens("the dog")] == [True, False, False, True]


LOSSES = {
    "the man's dog": ("words", False, ()),
    "The  dog": ("words", False, ("spaces",)),
    "THE Dog": ("words", True, ("case",)),
    "The zyxw  dog": ("words", False, ()),
    " The dog\n": ("bpe", False, ()),
    "The DOG ": ("wordpiece", True, ("case", "spaces")),
}


@pytest.mark.parametrize("text", LOSSES)
def test_what_is_lost_is_named(text):
    kind, lower, lost = LOSSES[text]
    tokenized = tokenize((LOWER if lower else LEARNED)[kind], text)
    assert tokenized.lost == lost
    assert tokenized.unknown == (("zyxw",) if "zyxw" in text else ())
    assert ("lost: " in table(tokenized)) == bool(lost or tokenized.unknown)
    assert tokenized.decoded == text or lost or tokenized.unknown


def test_accents_and_forms_are_named(read):
    assert tokenize(read("bert"), "Le café").lost == ("accents", "case")
    assert tokenize(read("qwen2"), "Le cafe\u0301").lost == ("forms",)
    assert "characters" in tokenize(read("bert"), "The\u0000 dog").lost


@pytest.mark.parametrize("kind", KINDS)
@given(text=TEXT)
@relaxed
def test_what_is_not_named_survives(kind, text):
    tokenized = tokenize(LEARNED[kind], text)
    if not tokenized.lost and not tokenized.unknown:
        assert tokenized.decoded == text
    assert kind not in ("bytes", "bpe") or tokenized.decoded == text
    lines = table(tokenized).split("\n")
    assert len(lines) == 1 + len(tokenized.tokens) + bool(tokenized.lost or tokenized.unknown)
    assert all(line.isprintable() for line in lines)
    assert json.loads(json.dumps(tokenized.to_json()))["text"] == text


def test_a_line_shows_the_text_of_its_token():
    lines = table(tokenize(LOWER["bytes"], "ẞ")).splitlines()
    assert lines[1].split() == ["\\xc3", str(LOWER["bytes"].encode("ß")[0]), "0-1", "for", "ẞ"]
    assert "unknown: zyxw" in table(tokenize(LEARNED["words"], "The zyxw"))


def test_columns_stand_below_each_other_whatever_letters_they_hold():
    assert aligned([("東京", "1"), ("a", "2"), ("e\u0301", "3")]) == [
        "東京  1", "a     2", "e\u0301     3"]  # fmt: skip


def test_what_begins_together_stands_in_one_line_of_a_comparison(read):
    text = "The man's street."
    tokenizers = LEARNED["words"], LEARNED["characters"], read("gpt2")
    results = [tokenize(tokenizer, text) for tokenizer in tokenizers]
    lines = side_by_side(["words", "letters", "gpt2"], results).splitlines()
    line = next(line for line in lines if line.startswith("man's"))
    assert line.split()[2] == "m"
    assert lines[-1].split() == f"4 tokens 17 tokens {len(results[2].tokens)} tokens".split()
    assert max(map(len, (result.tokens for result in results))) + 2 <= len(lines)


@given(text=TEXT)
@relaxed
def test_a_comparison_shows_each_token_once_and_in_order(text, read):
    names = ["words", "unigram", "gpt2"]
    tokenizers = LEARNED["words"], LEARNED["unigram"], read("gpt2")
    results = [tokenize(tokenizer, text) for tokenizer in tokenizers]
    lines = side_by_side(names, results).split("\n")
    shown = [line for line in lines if not line.startswith(tuple(f"{name} lost" for name in names))]
    ids = [str(token.id) for result in results for token in result.tokens]
    cells = " ".join(shown[1:-1]).split()
    assert not set(ids) - set(cells)
    assert len(shown) >= 2 + max(len(result.tokens) for result in results)


@pytest.mark.parametrize("line", ["x", "-1", "400", "1.5", "９", "9" * 5000, "0x3"])
def test_what_is_no_id_is_refused(line):
    with pytest.raises(InputError, match="expected 0 to "):
        read_ids(LEARNED["words"], f"1 {line}")


def test_ids_have_spaces_or_commas_between():
    assert read_ids(LEARNED["bytes"], " 5, 6,7 8\t") == [5, 6, 7, 8]


def test_a_file_alone_is_read_with_its_unknown_symbol(tmp_path, read, published):
    for kind in ("bert", "gpt2", "t5"):
        file = tmp_path / f"{kind}.json"
        file.write_text((published(kind) / "tokenizer.json").read_text())
        ours, theirs = read_file(file).source, read(kind)
        assert ours.encode_with_spans("The dog ☃") == theirs.encode_with_spans("The dog ☃")
        beside = read_file(published(kind) / "tokenizer.json").source
        assert beside.specials == read(kind).specials
    assert tokenize(read_file(tmp_path / "bert.json").source, "the ☃").unknown == ("☃",)
    file = tmp_path / "own.json"
    file.write_text(LEARNED["words"].to_json())
    assert tokenize(read_file(file).source, "The zyxw").unknown == ("zyxw",)


NO_TOKENIZERS = ("", "[]", "{}", '{"model": 3}', '{"model": {"vocab": [3]}}', "\xff",
                 '{"source": {}, "target": {}}', '{"foreign": 1}')  # fmt: skip


@pytest.mark.parametrize("text", NO_TOKENIZERS)
def test_a_file_that_is_no_tokenizer_is_named(tmp_path, text):
    file = tmp_path / "odd.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"odd\.json|tokenizer\.json"):
        read_file(file)
