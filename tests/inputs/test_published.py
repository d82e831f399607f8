from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from regard.data.text.pairs import Pair
from regard.errors import InputError
from regard.inputs.text import Roles, TokensConfig, Vocabulary, learn, read_folder

KINDS = (
    "gpt2",
    "roberta",
    "roberta-prefix",
    "qwen2",
    "llama",
    "llama-3",
    "bert",
    "bert-cased",
    "t5",
)
LOSSLESS = ("gpt2", "roberta", "llama-3")
TEXTS = (
    "The old man's horse doesn't see 3.14 apples, too?",
    "Das Tier überquert die Straße!",
    "  two  spaces   and more ",
    "Šárka a déjà vu: cafe\u0301 und naïve “words” …",
    "東京 und 京都, 大阪?",
    "smile 😀 and 👩‍👩‍👧, flags 🇩🇪!",
    "tab\there\nand a line\r\n\r\nend",
    "ﬁne ½ İstanbul ẞ \u00a0x\u2028y",
    " ",
    "",
)
SPECIALS = {
    "gpt2": "<|endoftext|>",
    "roberta": "<mask>",
    "roberta-prefix": "<mask>",
    "qwen2": "<|im_start|>",
    "llama": "</s>",
    "llama-3": "<|begin_of_text|>",
    "bert": "[MASK]",
    "bert-cased": "[MASK]",
    "t5": "<extra_id_3>",
}


@pytest.fixture(scope="module")
def read(published):
    loaded = {}

    def loaded_once(kind):
        if kind not in loaded:
            vocabulary = read_folder(published(kind))
            assert vocabulary.shared
            loaded[kind] = vocabulary.source
        return loaded[kind]

    return loaded_once


@pytest.mark.parametrize("kind", KINDS)
def test_ids_and_text_are_those_of_transformers(kind, read, published, reference, corpus):
    ours, theirs = read(kind), reference(published(kind))
    assert ours.vocab == len(theirs)
    for text in (*TEXTS, *corpus[::20]):
        ids = theirs.encode(text, add_special_tokens=False)
        assert ours.encode(text) == ids, text
        wrapped = theirs(text)["input_ids"]
        assert ours.template(ids) == wrapped
        for row in (ids, wrapped, wrapped[::-1]):
            assert ours.decode(row) == theirs.decode(row, skip_special_tokens=True), text
    assert ours.encode_batch(list(TEXTS)) == [ours.encode(text) for text in TEXTS]


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_are_wrapped_as_by_transformers(kind, read, published, reference):
    ours, theirs = read(kind), reference(published(kind))
    first, second = TEXTS[0], TEXTS[1]
    both = theirs(first, second, return_token_type_ids=True)
    assert ours.template(ours.encode(first), ours.encode(second)) == both["input_ids"]
    assert ours.token_types(ours.encode(first), ours.encode(second)) == both["token_type_ids"]


@pytest.mark.parametrize("kind", KINDS)
def test_roles_are_those_of_transformers(kind, read, published, reference):
    ours, theirs = read(kind).specials, reference(published(kind))
    assert ours == Roles(
        begin=theirs.bos_token_id,
        end=theirs.eos_token_id,
        pad=theirs.pad_token_id,
        unknown=theirs.unk_token_id,
        classifier=theirs.cls_token_id,
        separator=theirs.sep_token_id,
        mask=theirs.mask_token_id,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_typed_special_symbols_are_text(kind, read, published, reference):
    ours, theirs = read(kind), reference(published(kind))
    symbols = set(theirs.all_special_ids)
    if kind in ("bert", "bert-cased", "t5"):  # "<" may really be unknown to these
        symbols.discard(theirs.unk_token_id)
    typed = f"a{SPECIALS[kind]}b </s><s> [CLS] <unk> {SPECIALS[kind]}"
    assert set(theirs.encode(SPECIALS[kind], add_special_tokens=False)) & symbols
    for text in (typed, *typed.split(), f"\U0010ffff{SPECIALS[kind]}"):
        assert ours.encode(text)
        assert not set(ours.encode(text)) & symbols, text
        assert not set(ours.encode_batch([text])[0]) & symbols


@pytest.mark.parametrize("kind", KINDS)
def test_special_symbols_can_be_meant(kind, read, published, reference):
    ours, theirs = read(kind), reference(published(kind))
    text = f"The dog {SPECIALS[kind]} the street {SPECIALS[kind]}."
    ids = ours.encode_with_specials(text)
    assert ids == theirs.encode(text, add_special_tokens=False)
    assert ids.count(theirs.convert_tokens_to_ids(SPECIALS[kind])) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_keeps_it(kind, read):
    ours = read(kind)
    for vocabulary in (Vocabulary(ours, ours), Vocabulary(ours, read("bert"))):
        again = Vocabulary.from_json(vocabulary.to_json())
        assert again.shared == vocabulary.shared
        for old, new in ((ours, again.source), (vocabulary.target, again.target)):
            assert not new.learned_from_pairs
            assert (new.vocab, new.specials) == (old.vocab, old.specials)
            for text in TEXTS:
                assert new.encode(text) == old.encode(text)
                assert new.decode(new.encode(text)) == old.decode(old.encode(text))
            assert new.template([7], [8]) == old.template([7], [8])
            assert new.to_json() == old.to_json()


def test_one_side_may_be_published_and_the_other_our_own(read, corpus):
    pairs = [Pair(text, text) for text in corpus]
    learned = learn(pairs, TokensConfig(kind="bpe", vocab=400)).source
    again = Vocabulary.from_json(Vocabulary(read("bert"), learned).to_json())
    assert again.source.encode("The dog") == read("bert").encode("The dog")
    assert again.target.encode("The dog") == learned.encode("The dog")


@pytest.mark.parametrize("kind", KINDS)
def test_library_json_is_what_transformers_reads(kind, read, tmp_path):
    from transformers import PreTrainedTokenizerFast

    (tmp_path / "tokenizer.json").write_text(read(kind).library_json())
    theirs = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    for text in TEXTS:
        assert theirs.encode(text, add_special_tokens=False) == read(kind).encode(text)


@pytest.mark.parametrize("kind", LOSSLESS)
@given(text=st.text())
@example(text="  two  spaces\tand\r\nlines\u2028 ")
@example(text="</s><pad>Ġ▁##ing👩‍👩‍👧\x00 <mask><|endoftext|>")
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_text_survives_byte_level_kinds(kind, text, read):
    text = text.replace("\U0010ffff", "")
    assert read(kind).decode(read(kind).encode(text)) == text


@given(text=st.text())
@settings(max_examples=100, deadline=None)
def test_any_text_survives_qwen_but_for_its_composition(text, read):
    text = text.replace("\U0010ffff", "").replace("<think>", "")
    assert read("qwen2").decode(read("qwen2").encode(text)) == unicodedata.normalize("NFC", text)


@given(text=st.text(alphabet=st.characters(exclude_characters="▁\U0010ffff", codec="utf-8")))
@settings(max_examples=100, deadline=None)
def test_any_text_survives_falling_back_to_bytes(text, read):
    # a space before the first word is the tokenizer's own
    assert read("llama").decode(read("llama").encode(text)) == text.removeprefix(" ")


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.text() | st.sampled_from(TEXTS))
@example(text=" é😀 x  東京e\u0301 ")
@settings(max_examples=60, deadline=None)
def test_spans_are_in_order_and_hold_no_spaces_at_their_ends(kind, text, read):
    ids, spans = read(kind).spans(text)
    assert ids == read(kind).encode(text)
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    assert [start for start, _ in spans] == sorted(start for start, _ in spans)
    for start, end in spans:
        assert text[start:end] == text[start:end].strip()


@pytest.mark.parametrize("kind", KINDS)
def test_spans_cover_every_letter_of_ordinary_text(kind, read, corpus):
    for text in (*corpus[::15], "cafe\u0301 ÜBER 東京 x", "x 😀 y"):
        _, spans = read(kind).spans(text)
        covered = {i for start, end in spans for i in range(start, end)}
        assert {i for i, letter in enumerate(text) if not letter.isspace()} <= covered


@pytest.mark.parametrize("kind", KINDS)
def test_a_word_is_cut_out_of_a_text_by_its_spans(kind, read):
    text = "The  Café crosses\tdie Straße!"
    spans = read(kind).spans(text)[1]
    for word in ("The", "Café", "crosses", "die", "Straße"):
        begin = text.index(word)
        inside = [
            (start, end)
            for start, end in spans
            if begin <= start < end and end <= begin + len(word)
        ]
        assert text[inside[0][0] : inside[-1][1]] == word, (kind, word, spans)


def test_each_piece_of_a_character_covers_all_of_it(read):
    for kind in ("gpt2", "llama"):
        ids, spans = read(kind).spans("a😀")
        assert spans[-1] == (1, 2)
        assert spans.count((1, 2)) == 4, (kind, read(kind).tokens(ids))


def test_a_space_that_only_the_tokenizer_sees_covers_nothing(read):
    for kind in ("llama", "roberta-prefix", "t5"):
        ids, spans = read(kind).spans("😀")
        assert read(kind).tokens(ids)[0] == "▁"
        assert spans[0] == (0, 0)
        assert spans[1] == (0, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_name_the_word_they_belong_to(kind, read):
    text = "The crosses street."
    pieces = read(kind).pieces(text)
    assert [piece for piece, _ in pieces] == read(kind).tokens(read(kind).encode(text))
    by_word = {}
    for piece, word in pieces:
        by_word.setdefault(word, []).append(piece.replace("▁", "").replace("##", ""))
    spelled = ["".join(by_word[word]) for word in sorted(by_word)]
    assert spelled == (["the"] if kind == "bert" else ["The"]) + ["crosses", "street", "."]


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_spelled_from_ids_alone(kind, read):
    ours = read(kind)
    ids = ours.template(ours.encode("The street, too"))
    words, index = ours.words(ids)
    symbols = [token for token in ours.template([]) if token in ids]
    plain = [word for word in words if word not in ours.tokens(symbols)]
    assert plain == (["the"] if kind == "bert" else ["The"]) + ["street", ",", "too"]
    assert len(index) == len(ids)
    assert sorted(set(index)) == list(range(len(words)))
    for token, at in zip(ids, index, strict=True):
        if token in symbols:
            assert words[at] == ours.tokens([token])[0]


def test_unknown_words_are_named_once(read):
    for kind in ("bert", "t5"):
        assert read(kind).unknown_words("the ☃ dog ж ☃") == ["☃", "ж"]
        assert read(kind).unknown_words("the dog") == []
    assert read("gpt2").unknown_words("the ☃ dog ж ☃") == []


def test_ids_that_no_piece_has_are_shown_and_spell_nothing(read):
    ours = read("t5")
    beyond = ours.vocab + 5
    assert ours.tokens([beyond]) == [f"<{beyond}>"]
    assert ours.decode([beyond]) == ""
    assert ours.words([*ours.encode("The street"), beyond])[0] == ["The", "street"]


def test_a_role_that_is_missing_is_named(read):
    assert read("gpt2").pad == read("gpt2").end
    with pytest.raises(InputError, match="the begin symbol"):
        _ = read("t5").begin
    assert read("bert").begin == read("bert").specials.classifier
    assert read("bert").end == read("bert").specials.separator


def test_the_decoder_starts_with_the_id_in_the_models_config(published, tmp_path):
    for file in published("t5").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = {"model_type": "t5", "decoder_start_token_id": 0}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert read_folder(tmp_path).target.begin == 0


def test_text_that_is_no_unicode_is_refused(read):
    for method in ("encode", "encode_with_specials", "spans", "pieces"):
        with pytest.raises(InputError, match="not valid Unicode"):
            getattr(read("gpt2"), method)("half \ud83d")


def test_a_folder_without_a_tokenizer_gives_none(tmp_path):
    assert read_folder(tmp_path) is None
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert read_folder(tmp_path) is None
