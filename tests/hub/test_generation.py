"""What a folder says of decoding is done here as transformers does it, and written back."""

import json
import logging
import warnings

import pytest
import torch
import transformers

import regard
from regard.decode.config import DecodeConfig
from regard.decode.filters import Symbols
from regard.decode.search import BeamSearch, Request
from regard.errors import InputError
from regard.hub.generation import read_decoding, write_decoding

VOCAB, WRITTEN = 23, 8
BOTH = {
    "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24,
    "vocab_size": VOCAB, "max_position_embeddings": 40, "init_std": 0.6,
}  # fmt: skip
BEHIND = {
    "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24,
    "vocab_size": VOCAB, "max_position_embeddings": 40, "initializer_range": 0.6,
}  # fmt: skip
SOURCES = [[5, 6, 7], [9, 4, 12, 20, 8], [3], [17, 17, 4, 6]]


def bart():
    torch.manual_seed(0)
    return transformers.BartForConditionalGeneration(transformers.BartConfig(**BOTH)).eval()


def marian():
    torch.manual_seed(0)
    config = transformers.MarianConfig(
        **BOTH, pad_token_id=22, decoder_start_token_id=22, eos_token_id=0
    )
    return transformers.MarianMTModel(config).eval()


def llama():
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**BEHIND)).eval()


def t5():
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=VOCAB, d_model=16, d_kv=8, d_ff=24, num_layers=1, num_heads=2,
        decoder_start_token_id=0, initializer_factor=8.0,
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config).eval()


def theirs(model, source, **how):
    """What transformers writes, up to what ends it."""
    given = torch.tensor([source])
    ids = model.generate(given, attention_mask=torch.ones_like(given), **how)[0].tolist()
    ids = ids[1:] if model.config.is_encoder_decoder else ids[len(source) :]
    ends = model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    return ids[: next((i for i, token in enumerate(ids) if token in ends), None)]


CASES = {
    "bart-as-it-is": (bart, {}),
    "marian-as-it-is": (marian, {}),
    "t5-as-it-is": (t5, {}),
    "llama-as-it-is": (llama, {}),
    "forced-begin": (bart, {"forced_bos_token_id": 0}),
    "forced-begin-alone": (bart, {"forced_bos_token_id": 7, "forced_eos_token_id": None}),
    "no-forced-end": (bart, {"forced_eos_token_id": None}),
    "min-length": (bart, {"min_length": 6}),
    "min-new-tokens": (llama, {"min_new_tokens": 5}),
    "several-ends": (llama, {"eos_token_id": [2, 11, 4, 5]}),
    "another-end": (t5, {"eos_token_id": 9}),
    "another-begin": (bart, {"decoder_start_token_id": 8}),
    "many-ends": (llama, {"eos_token_id": list(range(2, 20))}),
    "ends-among-bad-words": (
        llama,
        {"eos_token_id": [2, 11, 4, 5], "bad_words_ids": [[2], [11], [4], [5], [7]]},
    ),
    "never-these": (bart, {"suppress_tokens": [4, 10, 11, 15], "bad_words_ids": [[6], [7]]}),
    "all-at-once": (marian, {"no_repeat_ngram_size": 2, "repetition_penalty": 1.3}),
}
SEARCHES = {
    "greedy": {},
    "beam": {"num_beams": 3},
    "short": {"num_beams": 4, "length_penalty": -1.0},
    "never": {"num_beams": 3, "early_stopping": "never"},
    "first": {"num_beams": 3, "early_stopping": True},
}


PLAIN = [(case, search) for case in CASES for search in ("greedy", "beam")]
FINER = [(case, search) for case in ("bart-as-it-is", "forced-begin", "many-ends")
         for search in ("short", "never", "first")]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("case", "search"), [*PLAIN, *FINER])
def test_a_folder_without_a_tokenizer_is_decoded_as_it_says(case, search, tmp_path):
    make, settings = CASES[case]
    model = make()
    for name, value in {"max_new_tokens": WRITTEN, **SEARCHES[search], **settings}.items():
        setattr(model.generation_config, name, value)
    model.save_pretrained(tmp_path / "theirs")
    pipeline = regard.load(tmp_path / "theirs")
    expected = [theirs(model, source) for source in SOURCES]
    assert pipeline.generate(SOURCES) == expected
    out = pipeline.export(tmp_path / "ours")
    again = type(model).from_pretrained(out).eval()
    assert [theirs(again, source) for source in SOURCES] == expected
    assert regard.load(out).recipe.decode == pipeline.recipe.decode


def test_what_is_written_is_what_was_read(tmp_path):
    config = DecodeConfig(
        beam=3, stop="never", length_penalty=0.5, banned=(3, 4), forced_begin=0, forced_end=2,
        begin=5, ends=(2, 6), min_length=2, max_length=9, no_repeat_ngram=3,
    )  # fmt: skip
    said = write_decoding(config, {"eos_token_id": [2, 6], "decoder_start_token_id": 5}, 40)
    (tmp_path / "config.json").write_text('{"num_beams": 7}')
    (tmp_path / "generation_config.json").write_text(json.dumps(said))
    assert read_decoding(tmp_path, VOCAB, 40, paired=True) == config


def test_without_a_limit_theirs_is_that_of_the_model_and_not_20(tmp_path):
    said = write_decoding(DecodeConfig(), {}, 40)
    assert said["max_length"] == 40
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "generation_config.json").write_text(json.dumps(said))
    assert read_decoding(tmp_path, VOCAB, 40, paired=True) == DecodeConfig()


def test_a_short_text_is_not_asked_to_be_long(tmp_path):
    model = bart()
    model.generation_config.min_length = 9
    model.save_pretrained(tmp_path)
    given = torch.tensor([SOURCES[0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = model.generate(given, max_new_tokens=5)[0, 1:].tolist()
    assert [*regard.load(tmp_path).generate(SOURCES[0], max_length=5), 2] == expected


@pytest.mark.parametrize("wrong", [{"begin": 99}, {"ends": [99]}, {"ends": [-3]}, {"banned": [99]},
                                   {"forced_end": 99}])  # fmt: skip
def test_an_id_that_there_is_not_is_refused(wrong, tmp_path):
    bart().save_pretrained(tmp_path)
    [name] = wrong
    with pytest.raises(InputError, match=rf"{name}: got -?\d+, expected ids from 0 to 22"):
        regard.load(tmp_path).generate(SOURCES, **wrong)


def test_older_folders_say_it_in_their_config(tmp_path):
    (tmp_path / "config.json").write_text('{"num_beams": 7, "eos_token_id": 2, "max_length": 12}')
    config = read_decoding(tmp_path, VOCAB, 40, paired=True)
    assert (config.beam, config.ends, config.max_length) == (7, (2,), 11)


def test_an_id_that_the_model_cannot_write_has_no_role(tmp_path):
    ids = {"eos_token_id": [50256, 3], "suppress_tokens": [99, 4], "decoder_start_token_id": 999}
    (tmp_path / "config.json").write_text(json.dumps(ids))
    config = read_decoding(tmp_path, VOCAB, 40, paired=True)
    assert (config.ends, config.banned, config.begin) == ((3,), (4,), None)


@pytest.mark.parametrize(
    "said",
    [
        {"num_beams": "many"}, {"num_beams": 0}, {"num_beams": 2.5}, {"repetition_penalty": 0},
        {"do_sample": True, "temperature": 0.0}, {"do_sample": True, "top_k": -1},
        {"bad_words_ids": 5}, {"bad_words_ids": [5]},
        {"eos_token_id": "x"}, {"eos_token_id": [[2]]},
        {"early_stopping": "perhaps"}, {"early_stopping": []}, {"max_new_tokens": "x"},
        {"max_new_tokens": -1}, {"max_new_tokens": float("inf")}, {"suppress_tokens": 3},
        {"no_repeat_ngram_size": -1},
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_value_is_said_with_its_file(said, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "generation_config.json").write_text(json.dumps(said))
    with pytest.raises(InputError, match=r"generation_config\.json.*got "):
        read_decoding(tmp_path, VOCAB, 40, paired=True)


@pytest.mark.parametrize(
    "said",
    [
        {"encoder_repetition_penalty": 9.0}, {"exponential_decay_length_penalty": [1, 3.0]},
        {"begin_suppress_tokens": [3]}, {"bad_words_ids": [[3, 4]]},
        {"sequence_bias": [[[3], 1.0]]}, {"typical_p": 0.5}, {"min_length": 4},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_not_heeded_is_said(said, tmp_path, caplog):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "generation_config.json").write_text(json.dumps(said))
    with caplog.at_level(logging.WARNING):
        read_decoding(tmp_path, VOCAB, 40, paired=False)
    assert next(iter(said)) in caplog.text


def test_what_does_nothing_is_not_worth_a_word(tmp_path, caplog):
    said = transformers.GenerationConfig(eos_token_id=2).to_dict()
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "generation_config.json").write_text(json.dumps(said))
    read_decoding(tmp_path, VOCAB, 40, paired=True)
    assert not caplog.text


def test_sampled_rows_that_end_wait_for_the_others_without_a_tokenizer(tmp_path):
    model = llama()
    model.generation_config.eos_token_id = list(range(0, VOCAB, 2))
    model.save_pretrained(tmp_path)
    pipeline = regard.load(tmp_path)
    assert len(pipeline.generate(SOURCES, sample=True, n_best=5, max_length=9)) == len(SOURCES)


def test_an_end_among_bad_words_still_ends(tmp_path):
    said = {"eos_token_id": [2, 11], "bad_words_ids": [[2], [7]], "suppress_tokens": [11]}
    (tmp_path / "config.json").write_text(json.dumps(said))
    assert read_decoding(tmp_path, VOCAB, 40, paired=False).banned == (7, 11)


def test_beams_go_on_however_many_ends_are_likelier():
    symbols = Symbols(begin=0, end=2, pad=0, other_ends=(3, 4))
    search = BeamSearch([Request(0, (), 5, key=0)], symbols, DecodeConfig(beam=2, stop="never"))
    choice = search.choose(torch.tensor([[0.0, 1.0, 9.0, 8.0, 7.0, 6.0, 5.0]] * 2))
    assert choice.ids.tolist() == [5, 6]
