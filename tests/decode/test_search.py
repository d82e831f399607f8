"""Greedy and beam search give what transformers' `generate` gives, on a tiny Marian model."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regard.decode import DecodeConfig, Hypothesis, Symbols, decode
from regard.decode.search import BLOCK, best
from regard.inputs.arrays import Ragged

END, PAD, VOCAB = 0, 23, 24
SYMBOLS = Symbols(begin=PAD, end=END, pad=PAD, banned=(PAD,))


@dataclass
class Prefixes:
    """A state that remembers nothing but what was said: every step computes all of it anew."""

    ids: Tensor  # (rows, length)
    sentences: Tensor  # (rows,)

    def reorder(self, rows):
        self.ids, self.sentences = self.ids[rows], self.sentences[rows]


class Adapter:
    """A transformers model behind our protocol."""

    def __init__(self, model):
        self.model = model

    def encode(self, source, tap=None):
        del tap
        encoder, sentences = self.model.get_encoder(), source.split()
        return [encoder(input_ids=torch.tensor([ids])).last_hidden_state for ids in sentences]

    def start(self, memory, rows, length):
        del length
        self.memory = memory
        sentences = torch.arange(len(memory)).repeat_interleave(rows)
        return Prefixes(torch.zeros(len(sentences), 0, dtype=torch.int64), sentences)

    def step(self, ids, state, tap=None):
        del tap
        state.ids = torch.cat([state.ids, ids[:, None]], dim=1)
        logits = torch.empty(len(ids), VOCAB)
        lengths = torch.tensor([self.memory[i].shape[1] for i in state.sentences.tolist()])
        for length in lengths.unique().tolist():  # sources of one length at a time: no padding
            mine = lengths == length
            hidden = torch.cat([self.memory[i] for i in state.sentences[mine].tolist()])
            logits[mine] = self.model(
                encoder_outputs=(hidden,), decoder_input_ids=state.ids[mine], use_cache=False
            ).logits[:, -1]
        return logits


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    transformers = pytest.importorskip("transformers")
    config = transformers.MarianConfig(
        vocab_size=VOCAB,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_position_embeddings=64,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_start_token_id=PAD,
        forced_eos_token_id=None,
        init_std=0.8,
        tie_word_embeddings=False,
    )
    model = transformers.MarianMTModel(config).eval()
    # Untrained models say one word for ever; with these weights words and lengths vary.
    torch.manual_seed(1)
    layer = model.model.decoder.layers[0]
    with torch.no_grad():
        for linear in (layer.fc2, layer.encoder_attn.out_proj, layer.self_attn.out_proj):
            linear.weight *= 0.05
        model.model.decoder.embed_tokens.weight *= 2
        model.lm_head.weight.normal_(0, 0.5)
        model.final_logits_bias[0, END] = 1.5
    return model


@pytest.fixture(scope="module")
def sentences():
    generator = torch.Generator().manual_seed(1)
    return [
        torch.randint(1, PAD, (length,), generator=generator).tolist()
        for length in (1, 3, 5)
        for _ in range(10)
    ]


def theirs(model, sentences, config: DecodeConfig, prefix=()) -> list[list[tuple]]:
    """(ids, score, finished) from `generate`, sentences of one length at a time: no padding."""
    results = []
    for length in sorted({len(ids) for ids in sentences}):
        group = torch.tensor([ids for ids in sentences if len(ids) == length])
        output = model.generate(
            group,
            attention_mask=torch.ones_like(group),
            decoder_input_ids=torch.tensor([[PAD, *prefix]]).repeat(len(group), 1),
            do_sample=False,
            num_beams=config.beam,
            num_return_sequences=config.n_best,
            length_penalty=config.length_penalty,
            early_stopping={"first": True, "bound": False, "never": "never"}[config.stop],
            max_new_tokens=config.max_length or 2 * length + 10,
            min_new_tokens=config.min_length,
            repetition_penalty=config.repetition_penalty,
            no_repeat_ngram_size=config.no_repeat_ngram,
            suppress_tokens=[PAD],
            return_dict_in_generate=True,
            output_scores=True,
        )
        scores = output.get("sequences_scores", torch.full((len(output.sequences),), torch.nan))
        hypotheses = [
            (*cut(sequence), score)
            for sequence, score in zip(output.sequences.tolist(), scores.tolist(), strict=True)
        ]
        results += [
            hypotheses[i : i + config.n_best] for i in range(0, len(hypotheses), config.n_best)
        ]
    return results


def cut(sequence: list[int]) -> tuple[tuple[int, ...], bool]:
    """Without begin, and without the end and the padding behind it."""
    body = sequence[1:]
    if END in body:
        return tuple(body[: body.index(END)]), True
    return tuple(token for token in body if token != PAD), False


def assert_same(ours: list[list[Hypothesis]], expected: list[list[tuple]], *, scored: bool = True):
    assert len(ours) == len(expected)
    for mine, reference in zip(ours, expected, strict=True):
        assert [(hypothesis.ids, hypothesis.finished) for hypothesis in mine] == [
            hypothesis[:2] for hypothesis in reference
        ]
        if scored:
            assert [hypothesis.score for hypothesis in mine] == pytest.approx(
                [hypothesis[2] for hypothesis in reference], abs=1e-4, rel=1e-6
            )


CONFIGS = [
    {"beam": 1},
    {"beam": 1, "max_length": 4, "min_length": 3},
    {"beam": 1, "repetition_penalty": 1.8},
    {"beam": 1, "no_repeat_ngram": 2},
    {"beam": 2},
    {"beam": 3, "n_best": 2, "length_penalty": 0.0},
    {"beam": 4, "n_best": 4},
    {"beam": 5, "n_best": 5, "length_penalty": 0.6},
    {"beam": 5, "n_best": 3, "length_penalty": 2.0},
    {"beam": 3, "n_best": 3, "length_penalty": -0.5},
    {"beam": 4, "n_best": 4, "stop": "first"},
    {"beam": 4, "n_best": 4, "stop": "first", "length_penalty": 0.0},
    {"beam": 4, "n_best": 4, "stop": "never"},
    {"beam": 4, "n_best": 4, "stop": "never", "length_penalty": 0.0},
    {"beam": 3, "n_best": 3, "stop": "never", "length_penalty": -0.3},
    {"beam": 4, "n_best": 4, "max_length": 3},
    {"beam": 4, "n_best": 4, "max_length": 1},
    {"beam": 4, "n_best": 2, "min_length": 6, "max_length": 9},
    {"beam": 4, "n_best": 4, "no_repeat_ngram": 2},
    {"beam": 4, "n_best": 4, "repetition_penalty": 1.3, "no_repeat_ngram": 1},
]


def max_lengths(sentences):
    """As a task says it: twice what is read, and ten more."""
    return [2 * len(sentence) + 10 for sentence in sentences]


@pytest.mark.slow
@pytest.mark.parametrize("settings", CONFIGS, ids=str)
def test_the_same_hypotheses_as_transformers(model, sentences, settings):
    config = DecodeConfig(**settings)
    ours = decode(
        Adapter(model), Ragged.of(sentences), SYMBOLS, config, max_lengths=max_lengths(sentences)
    )
    assert_same(ours, theirs(model, sentences, config), scored=config.beam > 1)


@pytest.mark.slow
@pytest.mark.parametrize("beam", [1, 4])
def test_a_prefix_is_what_transformers_calls_decoder_input(model, sentences, beam):
    config = DecodeConfig(beam=beam, n_best=beam, max_length=8, no_repeat_ngram=2)
    prefix = (7, 3, 7)
    ours = decode(
        Adapter(model), Ragged.of(sentences), SYMBOLS, config, prefixes=[prefix] * len(sentences)
    )
    assert_same(ours, theirs(model, sentences, config, prefix), scored=beam > 1)


def test_the_comparison_covers_both_ends(model, sentences):
    source, config = Ragged.of(sentences), DecodeConfig(beam=4, n_best=4)
    results = decode(Adapter(model), source, SYMBOLS, config, max_lengths=max_lengths(sentences))
    lengths = {
        len(hypothesis.ids)
        for hypotheses in results
        for hypothesis in hypotheses
        if hypothesis.finished
    }
    assert len(lengths) > 5
    assert any(not hypothesis.finished for hypotheses in results for hypothesis in hypotheses)
    assert len({hypotheses[0].ids for hypotheses in results}) > 15


@given(
    st.lists(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=7, max_size=7), min_size=1),
    st.integers(1, 7),
)
def test_of_equals_the_first_is_best(rows, count):
    scores = torch.tensor(rows)
    values, index = best(scores, count)
    expected = scores.sort(dim=1, descending=True, stable=True)
    assert torch.equal(values, expected.values[:, :count])
    assert torch.equal(index, expected.indices[:, :count])


@given(st.integers(1, 9), st.integers(0, 70), st.integers(0, 2**31))
def test_the_tournament_of_a_large_vocabulary_finds_the_same(count, remainder, seed):
    generator = torch.Generator().manual_seed(seed)
    width = 24 * BLOCK + remainder  # blocks enough for a tournament, and one that is not full
    scores = torch.randint(0, 2000, (3, width), generator=generator).float()  # with equals
    scores[1, torch.randperm(width, generator=generator)[: width - 4]] = -torch.inf
    values, index = best(scores, count)
    expected = scores.sort(dim=1, descending=True, stable=True)
    assert torch.equal(values, expected.values[:, :count])
    known = values > -torch.inf
    assert torch.equal(index[known], expected.indices[:, :count][known])
