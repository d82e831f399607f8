"""Recurrent networks: Regard beside a step-by-step loop, JoeyNMT, and nn.LSTM in a plain loop."""

from __future__ import annotations

from benchmarks.measure.harness import BenchLine, Experiment
from benchmarks.measure.ours import WRITTEN, Decode, Train
from benchmarks.measure.ours_text import TrainText
from benchmarks.measure.results import Bar
from benchmarks.measure.suite import OURS, Settings
from benchmarks.measure.texts import TextWork, random_rows
from benchmarks.measure.work import RANDOM, SAME, Corpus, Work, like_multi30k
from benchmarks.peers import joey, step_by_step, torch_lstm
from regard.models.families.rnn import RNNConfig
from regard.models.families.seq2seq import Seq2SeqConfig

LOOP, JOEY, LSTM = "step-by-step loop", "JoeyNMT (recurrent)", "nn.LSTM"
VOCAB = 8_000
BATCH_TOKENS = 3200
"""Source and target tokens of a batch."""


def _model(chosen: Settings) -> Seq2SeqConfig:
    """A GRU with additive attention; a toy size if `quick`."""
    return Seq2SeqConfig(dim=32 if chosen.quick else 384, dropout=0.1)


def _corpus(chosen: Settings) -> Corpus:
    return like_multi30k(200, 400) if chosen.quick else like_multi30k(4000, VOCAB)


def training(chosen: Settings) -> Experiment:
    """Steps of the recurrent translator, on batches of similar lengths and on random ones."""
    config, corpus = _model(chosen), _corpus(chosen)
    tokens, count = (256, 2) if chosen.quick else (BATCH_TOKENS, 2)
    batches = corpus.batches(tokens, count)
    work = Work(config.model_dump(), corpus.source_vocab, corpus.target_vocab, batches, tokens)
    path = work.save(chosen.folder / "recurrent-training.json")
    flops = {case: work.flops(case) for case in (SAME, RANDOM)}
    lines = (
        BenchLine(f"{LOOP}, {SAME}", step_by_step.Train(path), SAME, flops[SAME]),
        BenchLine(f"{LOOP}, {RANDOM}", step_by_step.Train(path), RANDOM, flops[RANDOM]),
        BenchLine(f"{JOEY}, {SAME}", joey.Train(path), SAME, flops[SAME]),
    )
    return Experiment(
        name="recurrent-training",
        title=f"Training a GRU with additive attention, {config.dim} wide, vocabulary "
        f"{corpus.target_vocab:,}",
        shows="rate",
        unit="real target tokens a second",
        entries=(BenchLine(OURS, Train(path), SAME, flops[SAME]), *lines),
        bars=(
            Bar(OURS, (f"{LOOP}, {SAME}",), "speed", 1.5),
            Bar(OURS, (f"{LOOP}, {RANDOM}",), "speed", 1.5),
            Bar(OURS, (f"{JOEY}, {SAME}",), "speed", 1.0),
        ),
        weight=30.0,
    )


def decoding(chosen: Settings, sentences: int) -> Experiment:
    """Greedy decoding of so many sentences at once: the same weights, the same tokens."""
    config, corpus = _model(chosen), _corpus(chosen)
    pairs = {"decode": [corpus.pairs[:32]]}
    work = Work(config.model_dump(), corpus.source_vocab, corpus.target_vocab, pairs)
    path = work.save(chosen.folder / "recurrent-decoding.json")
    plural = "" if sentences == 1 else "s"
    return Experiment(
        name=f"recurrent-decoding-{sentences}",
        title=f"A GRU with attention, {config.dim} wide: {sentences} sentence{plural}, greedy, "
        f"{WRITTEN} tokens",
        shows="time",
        unit="milliseconds",
        entries=(
            BenchLine(OURS, Decode(path, beam=1), str(sentences)),
            BenchLine(LOOP, step_by_step.Decode(path, WRITTEN), str(sentences)),
        ),
        bars=(Bar(OURS, (LOOP,), "speed", 1.5),),
        weight=1.0,
    )


def language_model(chosen: Settings) -> Experiment:
    """A step of an LSTM language model, on full rows without padding."""
    dim, vocab, (count, length) = (32, 400, (2, 32)) if chosen.quick else (384, 8_000, (24, 128))
    config = RNNConfig(dim=dim, layers=2, dropout=0.1)
    work = TextWork(config.model_dump(), vocab, random_rows(count, length + 1, vocab))
    path = work.save(chosen.folder / "recurrent-language.json")
    return Experiment(
        name="recurrent-language",
        title=f"Training an LSTM language model, 2×{dim}, {count}×{length} tokens",
        shows="rate",
        unit="tokens a second",
        entries=(BenchLine(OURS, TrainText(path)), BenchLine(LSTM, torch_lstm.Train(path))),
        bars=(Bar(OURS, (LSTM,), "speed", 1.0),),
        weight=8.0,
    )
