from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library

from regard.data.text.pairs import Pair
from regard.errors import InputError
from regard.inputs.text import Roles, Tokenizer, TokensConfig, Vocabulary, learn

KINDS = ("words", "characters", "bytes", "bpe", "wordpiece", "unigram")
SENTENCES = (
    ("The animal didn't cross the street, because it was too tired.",
     "Das Tier überquerte die Straße nicht, weil es zu müde war."),
    ("Didn't the man's dog bark?", "Hat der Hund des Mannes nicht gebellt?"),
    ('He said "yes" (twice): at 10:30!', "„Ja“, sagte er (zweimal) um 10:30 Uhr!"),
    ("The well-known dogs bark; the street is 3.5 miles long…", "Die Hunde bellen … nicht."),
)  # fmt: skip
PAIRS = [Pair(source, target) for source, target in SENTENCES]
TEXTS = [text for pair in SENTENCES for text in pair]
QUOTED = Pair("' \" „ “ ” « » ‘ ’ ‚ ( ) , . a - b well-known 3.5", "'a' \"b\" „a“ a' b' /")
WITH_QUOTES = {kind: learn([QUOTED], TokensConfig(kind=kind, vocab=300)).source for kind in KINDS}
LEARNED = {kind: learn(PAIRS, TokensConfig(kind=kind, vocab=400)).source for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_ordinary_sentences_survive_there_and_back(kind):
    for text in (*TEXTS[:6], "", "Das Tier"):
        assert LEARNED[kind].decode(LEARNED[kind].encode(text)) == text


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@given(seeds=st.lists(st.integers(0, 10_000), max_size=30))
@settings(max_examples=150, deadline=None)
def test_ids_one_by_one_are_written_as_decode_gives_them(kind, seeds):
    ours = WITH_QUOTES[kind]
    ids = [seed % ours.vocab for seed in seeds]
    writer = ours.stream_decoder()
    assert "".join([*map(writer.push, ids), writer.close()]) == ours.decode(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_written_before_the_end(kind):
    writer, ids = LEARNED[kind].stream_decoder(), LEARNED[kind].encode("The dog didn't bark twice.")
    assert sum(bool(writer.push(token)) for token in ids) > 3


@pytest.mark.parametrize("kind", ["bytes", "bpe"])
@given(text=st.text())
@example(text="  two  spaces\tand\r\nlines\u2028 ")
@example(text="</s><pad>Ġ▁##ing👩‍👩‍👧\x00")
@settings(max_examples=200, deadline=None)
def test_any_text_survives_bytes_and_bpe(kind, text):
    ids = LEARNED[kind].encode(text)
    assert LEARNED[kind].decode(ids) == text
    assert all(token >= 4 for token in ids)


@given(text=st.text(alphabet=sorted(set("".join(TEXTS)))))
@settings(deadline=None)
def test_text_of_known_characters_survives_characters(text):
    assert LEARNED["characters"].decode(LEARNED["characters"].encode(text)) == text


@pytest.mark.parametrize("kind", KINDS)
def test_special_symbols_have_the_fixed_ids(kind):
    tokenizer = LEARNED[kind]
    assert (tokenizer.pad, tokenizer.begin, tokenizer.end, tokenizer.unknown) == (0, 1, 2, 3)
    assert tokenizer.tokens([0, 1, 2, 3]) == ["<pad>", "<s>", "</s>", "<unk>"]
    body = tokenizer.encode("the dog")
    assert tokenizer.decode([1, *body, 2, 0, 0]) == "the dog"


@pytest.mark.parametrize("kind", KINDS)
def test_typed_special_symbols_are_plain_text(kind):
    texts = ["</s> <pad> <s><unk></s>", "the</s>dog"]
    pairs = [Pair(text, text) for text in texts * 5]  # learned from text that holds them
    tokenizer = learn(pairs, TokensConfig(kind=kind, vocab=400)).source
    reloaded = Tokenizer.from_json(tokenizer.to_json())
    for text in texts:
        for ids in (
            tokenizer.encode(text),
            reloaded.encode(text),
            tokenizer.encode_batch([text])[0],
        ):
            assert ids
            assert not set(ids) & {0, 1, 2, 3}, (text, ids)
    assert "".join(tokenizer.decode(tokenizer.encode(texts[0])).split()) == "</s><pad><s><unk></s>"


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_encoded_like_single_texts(kind):
    assert LEARNED[kind].encode_batch(TEXTS) == [LEARNED[kind].encode(text) for text in TEXTS]
    assert LEARNED[kind].encode_batch([]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_of_one_word_have_one_number(kind):
    text = "The dog's street, (3.5 miles)."
    words = ["The", "dog's", "street", ",", "(", "3.5", "miles", ")", "."]
    tokenizer = LEARNED[kind]
    pieces = tokenizer.pieces(text)
    assert [piece for piece, _ in pieces] == tokenizer.tokens(tokenizer.encode(text))
    numbers = [number for _, number in pieces]
    assert numbers == sorted(numbers)
    if kind in ("words", "characters", "bytes", "wordpiece"):
        assert sorted(set(numbers)) == list(range(len(words)))
    for number in set(numbers):
        spelled = "".join(piece for piece, at in pieces if at == number).strip("▁")
        if "<unk>" not in spelled and kind in ("characters", "bytes", "bpe", "unigram"):
            assert spelled in words or all(not letter.isalnum() for letter in spelled)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(deadline=None)
def test_words_of_any_ids_cover_all_ids_in_order(kind, data):
    tokenizer = LEARNED[kind]
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab - 1), max_size=20))
    words, index = tokenizer.words(ids)
    assert len(index) == len(ids)
    assert index == sorted(index)
    assert set(index) == set(range(len(words)))
    assert len(tokenizer.tokens(ids)) == len(ids)
    tokenizer.decode(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_words_from_ids_are_the_words_of_the_text(kind):
    tokenizer = LEARNED[kind]
    ids = tokenizer.encode("Das Tier überquerte die Straße")
    words, index = tokenizer.words([1, *ids, 2])
    assert words == ["<s>", "Das", "Tier", "überquerte", "die", "Straße", "</s>"]
    assert index[0] == 0
    assert index[-1] == 6
    assert [number for _, number in tokenizer.pieces("Das Tier überquerte die Straße")] == [
        number - 1 for number in index[1:-1]
    ]


def test_a_space_belongs_to_the_word_after_it():
    assert LEARNED["characters"].pieces("a b ") == [("a", 0), ("▁", 1), ("b", 1), ("▁", 1)]
    assert LEARNED["characters"].words(LEARNED["characters"].encode("  ")) == (["  "], [0, 0])


def test_half_a_character_is_shown_as_its_byte():
    ids = LEARNED["bytes"].encode("ß\n")
    assert LEARNED["bytes"].tokens(ids) == ["\\xc3", "\\x9f", "\\n"]
    assert LEARNED["bytes"].words(ids[:1]) == (["�"], [0])
    assert LEARNED["bytes"].words(ids) == (["ß"], [0, 0, 0])
    cut = LEARNED["bytes"].encode("漢")[:2] + LEARNED["bytes"].encode(" ab")
    assert LEARNED["bytes"].words(cut) == (["�", "�", "ab"], [0, 1, 2, 2, 2])


def test_a_piece_over_two_marks_makes_them_one_word():
    pairs = [Pair("what?! who?! why?!", "was?! wer?!")] * 3
    tokenizer = learn(pairs, TokensConfig(kind="bpe", vocab=300)).source
    assert ("?!", 1) in tokenizer.pieces("why?!")
    assert tokenizer.words(tokenizer.encode("why?! who"))[0] == ["why", "?!", "who"]


@pytest.mark.parametrize("kind", ["words", "characters", "wordpiece", "unigram"])
def test_unknown_words_are_named_once_in_order(kind):
    text = "the 漢字 dog Ω, 漢字 Ω"
    assert LEARNED[kind].unknown_words(text) == ["漢字", "Ω"]
    assert LEARNED[kind].unknown in LEARNED[kind].encode(text)
    assert LEARNED[kind].unknown_words("the dog") == []


@pytest.mark.parametrize("kind", ["bytes", "bpe"])
def test_bytes_know_every_word(kind):
    assert LEARNED[kind].unknown_words("the 漢字 dog Ω") == []


def test_words_keep_the_most_frequent_equals_in_alphabetical_order():
    pairs = [Pair("b b a d c c", "c")]
    tokenizer = learn(pairs, TokensConfig(kind="words", vocab=8)).source
    assert tokenizer.vocab == 8
    assert tokenizer.tokens(range(4, 8)) == ["c", "b", "a", "d"]
    assert tokenizer.unknown_words("d e") == ["e"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("vocab", [8, 20, 270, 50_000])
def test_a_vocabulary_is_never_larger_than_its_setting(kind, vocab):
    if kind == "bpe" and vocab < 260:
        return
    tokenizer = learn(PAIRS, TokensConfig(kind=kind, vocab=vocab)).source
    assert tokenizer.vocab == 260 if kind == "bytes" else tokenizer.vocab <= vocab
    tokenizer.decode(tokenizer.encode(TEXTS[0]))


@pytest.mark.parametrize("kind", KINDS)
def test_one_short_sentence_is_enough(kind):
    tokenizer = learn([Pair("a", "b")], TokensConfig(kind=kind)).source
    assert tokenizer.decode(tokenizer.encode("a b")) == "a b".replace(
        " ", "" if kind == "characters" else " "
    )


@pytest.mark.parametrize("kind", KINDS)
def test_lowercase_is_part_of_the_vocabulary(kind):
    vocabulary = learn(PAIRS, TokensConfig(kind=kind, vocab=400, lowercase=True))
    for tokenizer in (vocabulary.source, Vocabulary.from_json(vocabulary.to_json()).source):
        assert tokenizer.decode(tokenizer.encode("DAS Tier")) == "das tier"
    assert vocabulary.source.unknown_words("Das TIER") == []


def test_bpe_too_small_for_the_bytes_is_refused():
    with pytest.raises(ValueError, match="need 260"):
        TokensConfig(kind="bpe", vocab=259)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shared", [True, False])
def test_a_vocabulary_survives_json(kind, shared):
    vocabulary = learn(PAIRS, TokensConfig(kind=kind, vocab=400, shared=shared))
    again = Vocabulary.from_json(vocabulary.to_json())
    assert again.shared == vocabulary.shared == shared
    assert again.to_json() == vocabulary.to_json()
    for side in ("source", "target"):
        old, new = getattr(vocabulary, side), getattr(again, side)
        assert old.vocab == new.vocab
        for text in TEXTS:
            assert new.encode(text) == old.encode(text)
            assert new.decode(old.encode(text)) == old.decode(old.encode(text))


def test_separate_vocabularies_are_learned_from_one_side_each():
    vocabulary = learn(PAIRS, TokensConfig(kind="words", shared=False))
    assert vocabulary.source.unknown_words("dog Hund") == ["Hund"]
    assert vocabulary.target.unknown_words("dog Hund") == ["dog"]


@pytest.mark.parametrize("kind", KINDS)
def test_hugging_face_reads_a_shared_vocabulary(kind):
    library = Library.from_str(LEARNED[kind].to_json())
    assert library.get_vocab_size() == LEARNED[kind].vocab
    for text in TEXTS:
        assert library.encode(text).ids == LEARNED[kind].encode(text)


@pytest.mark.parametrize("kind", ["words", "wordpiece"])
def test_how_words_are_joined_and_what_is_banned_is_data_that_a_checkpoint_keeps(kind):
    spec = json.loads(LEARNED[kind].library_json())
    ids = LEARNED[kind].encode("„Ja“, sagte er (zweimal) um 10:30 Uhr!")
    apart = Tokenizer(spec, Roles(unknown=3))
    assert apart.decode(ids).startswith("„ Ja “")
    assert not apart.specials.banned
    joined = Tokenizer(spec, Roles(unknown=3, banned=(0, 3)), sentences=True)
    for tokenizer in (joined, Tokenizer.from_json(joined.to_json())):
        assert tokenizer.decode(ids) == "„Ja“, sagte er (zweimal) um 10:30 Uhr!"
        assert tokenizer.specials == Roles(unknown=3, banned=(0, 3))
        assert not tokenizer.learned_from_pairs
    assert LEARNED[kind].learned_from_pairs


@pytest.mark.parametrize("banned", [3, ["3"], [True], [-1], [999_999], None])
def test_what_is_banned_is_refused_unless_it_is_ids(banned):
    spec = json.loads(Tokenizer(json.loads(LEARNED["bpe"].to_json()), Roles()).to_json())
    spec["roles"]["banned"] = banned
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        Tokenizer.from_json(json.dumps(spec))


def test_only_what_is_learned_here_is_decoded_as_sentences():
    spec = json.loads(Tokenizer(json.loads(LEARNED["words"].to_json()), Roles()).to_json())
    spec["sentences"] = True
    assert Tokenizer.from_json(json.dumps(spec)).decode([]) == ""
    spec["foreign"]["normalizer"] = {"type": "NFC"}  # saved without its roles it would be refused
    with pytest.raises(InputError, match="normalizer NFC"):
        Tokenizer.from_json(json.dumps(spec))


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_may_have_the_character_that_symbols_are_hidden_with(kind):
    pairs = [Pair("a \U0010ffff b < / s >", "b \U0010ffff a")] * 4
    tokenizer = learn(pairs, TokensConfig(kind=kind, vocab=400)).source
    for text in ("\U0010ffff", "a \U0010ffff b", "\U0010ffff</s>", "\U0010ffff<unk>"):
        ids = tokenizer.encode(text)
        assert "".join(tokenizer.words(ids)[0]).startswith(text.split()[0][0])
        assert not {0, 1, 2} & set(ids)
    assert tokenizer.decode(tokenizer.encode("a \U0010ffff b")) == "a \U0010ffff b"


@pytest.mark.parametrize("kind", KINDS)
def test_a_piece_is_found_by_its_name(kind):
    ours = LEARNED[kind]
    assert [ours.id_of(ours.symbol(token)) for token in range(ours.vocab)] == [*range(ours.vocab)]
    assert ours.id_of("no such piece") is None
    small = Tokenizer(json.loads(ours.to_json()), Roles(unknown=3), vocab=9)
    assert [small.id_of(ours.symbol(token)) for token in (8, 9)] == [8, None]


LEARN_ELSEWHERE = """
import hashlib, sys
from regard.data.text.pairs import Pair
from regard.inputs.text import TokensConfig, learn
pairs = [Pair(f"{w} {w}ing un{w} {w[::-1]}", f"ge{w}t {w}en") for w in sys.argv[2].split()]
for kind in ("words", "characters", "bytes", "bpe", "wordpiece", "unigram"):
    text = learn(pairs * 2, TokensConfig(kind=kind, vocab=int(sys.argv[1]), shared=False)).to_json()
    print(kind, hashlib.sha256(text.encode()).hexdigest())
"""


@pytest.mark.slow
def test_every_process_learns_the_same_vocabulary():
    words = "walk talk über stra laufen bell hund katz tier mann frau kind baum haus"
    command = [sys.executable, "-c", LEARN_ELSEWHERE, "300", words]
    runs = {
        subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(3)
    }
    assert len(runs) == 1
    assert runs.pop().count("\n") == len(KINDS)


def damaged(**sections: object) -> str:
    spec = json.loads(LEARNED["words"].to_json())
    return json.dumps({**spec, **sections})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"source": {}, "target": {}}',
        '{"source": {}}',
        LEARNED["bpe"].to_json()[:-20],
        damaged(model={"type": "WordLevel"}),
        damaged(model={"type": ["WordLevel"]}),
        damaged(model=None),
        damaged(
            model={"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "<unk>"}, added_tokens=[]
        ),
        damaged(pre_tokenizer={"type": "Split", "pattern": {"Regex": "(["}}),
        damaged(pre_tokenizer=None),
        damaged(decoder={"type": "Replace", "pattern": {"Regex": "(["}, "content": ""}),
        damaged(normalizer={"type": "Replace", "pattern": {"Regex": "(["}, "content": ""}),
        damaged(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
        damaged(added_tokens="none"),
        damaged(truncation={"max_length": 2, "strategy": "LongestFirst", "stride": 0}),
        LEARNED["words"].to_json().replace('"unk_token":"<unk>"', '"unk_token":"nope"'),
        LEARNED["unigram"].to_json().replace('"unk_id":3', '"unk_id":5'),
        LEARNED["unigram"].to_json().replace('"Isolated"', '"Nope"'),
        LEARNED["bpe"].to_json().replace('"merges":[', '"merges":[["x","漢"],'),
        LEARNED["words"].to_json().replace('"<pad>":0', '"<pad>":999'),
        LEARNED["bpe"].to_json().replace('"Ġ":', '"漢":'),
    ],
)
def test_a_damaged_file_is_a_user_error(text):
    with pytest.raises(InputError) as caught:
        Vocabulary.from_json(text)
    assert len(str(caught.value).splitlines()) <= 2
    assert str(caught.value).startswith("tokenizer.json: got ")


def test_a_panic_of_the_library_is_a_user_error_but_an_interrupt_is_not(monkeypatch):
    class PanicException(BaseException):
        pass

    class Broken:
        raised: type[BaseException] = PanicException

        @staticmethod
        def from_str(_text):
            raise Broken.raised("called `Result::unwrap()` on an `Err` value")

    monkeypatch.setattr("regard.inputs.text.spec.Inner", Broken)
    with pytest.raises(InputError, match="cannot be read"):
        Tokenizer.from_json(LEARNED["words"].to_json())
    Broken.raised = KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        Tokenizer.from_json(LEARNED["words"].to_json())


def test_text_that_is_not_unicode_is_a_user_error():
    def learned(text):
        return learn([Pair(text, "a")], TokensConfig())

    for use in (LEARNED["bpe"].encode, LEARNED["words"].pieces, learned):
        with pytest.raises(InputError, match="at character 3"):
            use("ab\udcff")
    with pytest.raises(InputError, match="not valid Unicode"):
        LEARNED["bpe"].encode_batch(["ok", "\ud800"])


def test_nothing_to_learn_from_is_a_user_error():
    with pytest.raises(InputError, match="no training pairs"):
        learn([], TokensConfig())
