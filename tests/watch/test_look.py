"""From what was seen to pictures: labels, sub-words merged, padding left out."""

from __future__ import annotations

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import regard
from regard.errors import InputError


def wordpiece() -> PreTrainedTokenizerFast:
    pieces = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "the", "play", "##ing", "dog", "##s", "."]
    inner = Tokenizer(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    inner.normalizer = normalizers.Lowercase()
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
    )


def byte_level() -> PreTrainedTokenizerFast:
    pieces = [
        "<pad>",
        "<s>",
        "Ġthe",
        "Ġdog",
        "s",
        "Ġl",
        "Ã",
        "¤",
        "uft",
        ",",
        "Ġplay",
        "ing",
        "<x>",
    ]
    inner = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, []))
    inner.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", bos_token="<s>")


def test_sub_words_are_merged_and_padding_is_left_out(make, tmp_path):
    case, tokenizer = make("bert"), wordpiece()
    inputs = tokenizer(
        ["the playing dogs .", "the dog"], padding=True, return_tensors="pt",
        return_token_type_ids=False,
    )  # fmt: skip
    with torch.no_grad(), regard.watch(case.model) as seen:
        case.model(**inputs)
    look = seen.look(inputs, tokenizer=tokenizer)
    word_map = look.site("encoder.1.self")
    assert word_map.queries == word_map.keys == ("the", "playing", "dogs", ".")
    pieces = seen.weights["bert.encoder.layer.1.attention.self"][0]  # (heads, query, key)
    playing = pieces[:, 1:3].mean(1)
    expected = torch.stack([playing[:, 0], playing[:, 1:3].sum(1), playing[:, 3:5].sum(1)], dim=1)
    torch.testing.assert_close(torch.tensor(word_map.weights[:, 1, :3]).float(), expected)
    second = seen.look(inputs, tokenizer=tokenizer, row=1).site("encoder.0.self")
    assert second.keys == ("the", "dog")
    assert (tmp_path / "look.html") == look.save(tmp_path / "look.html")
    assert "playing" in (tmp_path / "look.html").read_text()


def test_pieces_that_mark_where_words_begin(make):
    case, tokenizer = make("gpt2"), byte_level()
    ids = torch.tensor([[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]])
    with torch.no_grad(), regard.watch(case.model) as seen:
        case.model(ids)
    word_map = seen.look(ids, tokenizer=tokenizer).site("layers.0.self")
    assert word_map.keys == ("<s>", "the", "dogs", "läuft", ",", "playing")


def test_words_as_they_are_and_heads_that_were_chosen(make):
    case = make("llama")
    with torch.no_grad(), regard.watch(case.model, heads=[3], queries=[4, 1]) as seen:
        case.run()
    look = seen.look(list("abcdef"))
    word_map = look.site("layers.1.self")
    assert word_map.queries == ("e", "b")
    assert word_map.keys == tuple("abcdef")
    assert look.note == "of each layer, heads 3"
    expected = seen.weights["model.layers.1.self_attn"][0].double().numpy()
    assert (word_map.weights == expected).all()


@pytest.mark.parametrize("beams", [1, 3])
def test_generated_text_is_labelled_by_what_is_read_and_written(make, beams):
    case = make("marian")
    del case.inputs["decoder_input_ids"]
    with regard.watch(case.model) as seen:
        out = case.model.generate(
            **case.inputs, max_new_tokens=4, min_new_tokens=4, num_beams=beams, do_sample=False,
            return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
    for row in (0, 1):
        source = [f"s{token}" for token in case.inputs["input_ids"][row].tolist()]
        target = [f"t{token}" for token in out.sequences[row].tolist()]
        rows = None if beams == 1 else out.beam_indices[row]
        look = seen.look(source, target, row=row, rows=rows)
        cross_map, self_map = look.site("decoder.1.cross"), look.site("decoder.1.self")
        assert cross_map.queries == self_map.queries == tuple(target[1:])
        assert self_map.keys == tuple(target[:-1])
        assert cross_map.keys == look.site("encoder.0.self").queries == tuple(source)
        with torch.no_grad(), regard.watch(case.model) as forced:
            case.model(
                **{name: value[[row]] for name, value in case.inputs.items()},
                decoder_input_ids=out.sequences[[row], :-1],
            )
        expected = forced.weights["model.decoder.layers.1.encoder_attn"][0]
        torch.testing.assert_close(torch.tensor(cross_map.weights).float(), expected)


def test_a_decoders_output_is_labelled_by_what_looks(make):
    case = make("llama")
    with regard.watch(case.model) as seen:
        out = case.model.generate(
            case.inputs["input_ids"][:1], max_new_tokens=3, min_new_tokens=3, do_sample=False,
            cache_implementation="static",
        )  # fmt: skip
    words = [f"w{token}" for token in out[0].tolist()]
    word_map = seen.look(words).site("layers.0.self")
    assert word_map.queries == word_map.keys == tuple(words[:-1])


def test_what_generate_returns_is_looked_at_as_it_is(make):
    case, tokenizer, ids = make("gpt2"), byte_level(), torch.tensor([[2, 3, 4]])
    with regard.watch(case.model) as seen:
        out = case.model.generate(
            ids, max_new_tokens=2, min_new_tokens=2, do_sample=False, return_dict_in_generate=True,
            suppress_tokens=[*range(13, 40)],
        )  # fmt: skip
    whole, plain = (seen.look(output, tokenizer=tokenizer) for output in (out, out.sequences))
    word_map = whole.site("layers.1.self")
    assert word_map.queries == word_map.keys == plain.site("layers.1.self").queries
    assert word_map.queries[0] == "the"
    assert word_map.queries[1].startswith("dogs")
    assert whole.orientation(word_map)[0] == "the query word"
    with torch.no_grad(), pytest.raises(InputError, match="an output without ids"):
        seen.look(case.model(ids), tokenizer=tokenizer)


def test_a_hypothesis_that_ended_before_others_has_padding_behind_it(make):
    case = make("llama")
    with regard.watch(case.model) as seen:
        out = case.model.generate(
            case.inputs["input_ids"][:1], max_new_tokens=5, min_new_tokens=5, num_beams=2,
            do_sample=False, return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
    words = [f"w{token}" for token in out.sequences[0].tolist()]
    rows = [*out.beam_indices[0].tolist()[:3], -1, -1]  # as if it had three tokens
    word_map = seen.look(words, rows=rows).site("layers.0.self")
    assert word_map.queries == word_map.keys == tuple(words[:8])


@pytest.mark.slow
def test_patches_and_frames_are_numbered(make):
    case = make("whisper")
    with torch.no_grad(), regard.watch(case.model) as seen:
        case.run()
    look = seen.look(target=["<start>", "a", "b", "c"])
    assert look.site("encoder.0.self").keys == tuple("012345")
    assert look.site("decoder.0.cross").queries == ("a", "b", "c", "…")


def test_tokens_that_do_not_fit_are_refused(make):
    case = make("llama")
    with torch.no_grad(), regard.watch(case.model) as seen:
        with pytest.raises(InputError, match="no records"):
            seen.look(list("abcdef"))
        case.run()
    with pytest.raises(InputError, match="got 4, expected 6"):
        seen.look(list("abcd"))
    with pytest.raises(InputError, match="pass tokenizer="):
        seen.look(case.inputs)
