from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

KINDS = ("gpt2", "roberta", "qwen2", "llama", "llama-3", "bert", "bert-cased", "t5")
TEXT = "The dog 😀 crosses die Straße , doesn ' t it ? 東京 👩‍👩‍👧 ! He 's , we 've . "


def written(tokenizer, ids):
    decoder = tokenizer.stream_decoder()
    return [*(decoder.push(token) for token in ids), decoder.close()]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_step_by_step_is_what_decode_gives(kind, read):
    ours = read(kind)
    for text in (TEXT, TEXT * 12, "😀" * 80, " " * 200, "", "don 't", "a \ufffd b\ufffd"):
        ids = ours.template(ours.encode(text))
        assert "".join(written(ours, ids)) == ours.decode(ids)


@pytest.mark.parametrize("kind", KINDS)
@given(seeds=st.lists(st.integers(0, 10_000), max_size=120))
@example(seeds=[128] * 100)
@settings(max_examples=60, deadline=None)
def test_any_ids_are_written_as_decode_gives_them(kind, seeds, read):
    ids = [seed % read(kind).vocab for seed in seeds]
    assert "".join(written(read(kind), ids)) == read(kind).decode(ids)


@pytest.mark.parametrize("kind", ["gpt2", "llama", "qwen2"])
def test_no_half_character_is_ever_written(kind, read):
    ours = read(kind)
    steps = written(ours, ours.encode("a 😀 é 東 ☃ b"))
    assert "".join(steps) == "a 😀 é 東 ☃ b"
    assert not any("\ufffd" in step for step in steps)
    assert len([step for step in steps if step]) > 3  # and it does not wait for the end


@pytest.mark.parametrize("kind", KINDS)
def test_words_come_as_soon_as_they_are_certain(kind, read):
    ours = read(kind)
    decoder = ours.stream_decoder()
    ids = ours.encode("The street crosses the dog")
    shown = [decoder.push(token) for token in ids]
    assert "".join(shown).split()[:4] == ours.decode(ids).split()[:4]
    assert decoder.close() == "" or kind == "bert-cased"


def test_a_writer_begins_anew_after_its_close(read):
    ours = read("llama")
    decoder = ours.stream_decoder()
    for _ in range(2):
        text = "".join(decoder.push(token) for token in ours.encode("The dog")) + decoder.close()
        assert text == "The dog"


def test_half_a_character_at_the_end_is_written_at_the_close(read):
    ours = read("gpt2")
    ids = ours.encode("a😀")[:-1]
    decoder = ours.stream_decoder()
    assert "".join(decoder.push(token) for token in ids) == "a"
    assert decoder.close() == "\ufffd"
