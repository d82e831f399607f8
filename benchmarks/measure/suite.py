"""Our own part of the experiments, to which `benchmarks/` adds other packages."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure.harness import BenchLine, Experiment
from benchmarks.measure.limits import MEMORY, matrix_limit, memory_limit
from benchmarks.measure.ours import WRITTEN, Decode, Encode, Quality, Train
from benchmarks.measure.ours_text import READ, Continue, Embed, Products, TrainText
from benchmarks.measure.results import Bar
from benchmarks.measure.texts import TextWork, random_gpt, random_rows, random_sentences
from benchmarks.measure.work import SAME, Corpus, Work, encoded, from_files, like_multi30k
from regard.cost.count import TRAINING
from regard.data.config import Files
from regard.data.sources import load_splits
from regard.errors import InputError
from regard.inputs.text import learn
from regard.models import BertConfig, GPTConfig, TransformerConfig
from regard.recipes import recipe as recipes
from regard.runtime.files import call_afterwards

OURS, INT8, UNTAPPED = "Regard", "Regard int8", "Regard, not looking"
VOCAB = 16_000
BATCH_TOKENS = 2048
"""Source and target tokens per batch."""
PAIRS = 4000
"""The number of pairs from which batches are made: enough for batches of similar lengths."""
SENTENCES = (1, 32)
"""The numbers of sentences decoded at once."""
LONG = (1024, 4096)
"""The lengths in tokens of the texts whose attention is recorded."""
PROMPTS = (1, 16)
"""The numbers of prompts that a GPT continues at once."""
ONE_PROMPT, INT8_ONE_PROMPT = "Regard, one prompt", "Regard int8, one prompt"
PRODUCTS, READING = "Regard int8, products alone", "Regard, reading its weights alone"
WEIGHT_BYTES = {"float32": 4.0, "float16": 2.0, "int8": 1.0, "q8_0": 34 / 32}
"""Bytes of a weight in memory; q8_0, of llama.cpp, has a 16-bit scale for each 32 weights."""


@dataclass(frozen=True)
class Settings:
    """The settings shared by all experiments of a run."""

    folder: Path
    """The folder of the work files."""
    quick: bool = False
    data: Files | None = None
    """The user's own parallel text; None for random ids."""

    @property
    def base(self) -> TransformerConfig:
        """The paper's base model, 6+6×512; a toy size if `quick`."""
        if self.quick:
            return TransformerConfig(dim=64, heads=4, hidden=128, layers=1, norm_place="post")
        return TransformerConfig(size="base")

    @property
    def gpt(self) -> tuple[GPTConfig, int]:
        """GPT-2 small without dropout, and its vocabulary size; a toy size if `quick`."""
        if self.quick:
            return GPTConfig(dim=64, heads=4, hidden=256, layers=2, dropout=0.0), 400
        return GPTConfig(size="gpt2", dropout=0.0), 50_257

    @property
    def sentence_encoder(self) -> tuple[BertConfig, int]:
        """The sizes of MiniLM (6 layers) and its vocabulary size; a toy size if `quick`."""
        body = BertConfig(layers=6, dim=384, heads=12, hidden=1536, pooler="none", masked=False)
        if self.quick:
            return body.changed(layers=2, dim=64, heads=4, hidden=256), 400
        return body, 30_522

    def corpus(self) -> Corpus:
        """The sentence pairs for the base model."""
        count, vocab = (200, 400) if self.quick else (PAIRS, VOCAB)
        if self.data is None:
            return like_multi30k(count, vocab)
        return from_files(self.data, count, vocab)


@contextmanager
def settings(*, quick: bool, data: Files | None = None) -> Iterator[Settings]:
    """Settings with a temporary folder that is removed afterwards."""
    temporary = tempfile.TemporaryDirectory(prefix="regard-bench-")
    with temporary as folder, call_afterwards(temporary.cleanup):
        yield Settings(Path(folder), quick, data)


def training_base(chosen: Settings) -> Experiment:
    """Training at the paper's base size."""
    corpus = chosen.corpus()
    tokens, count = (256, 2) if chosen.quick else (BATCH_TOKENS, 3)
    config = chosen.base
    batches = corpus.batches(tokens, count)
    work = Work(config.model_dump(), corpus.source_vocab, corpus.target_vocab, batches, tokens)
    sizes = f"{config.encoder.layers}+{config.decoder.layers}×{config.dim}"
    return _training(
        "training-base", f"Training, {sizes}, vocabulary {corpus.target_vocab:,}", work, chosen
    )


def training_demo(chosen: Settings) -> Experiment:
    """Training the demo's model on its own data: so small that dispatch overhead dominates."""
    recipe = recipes.load("tiny/translate", [f"data.pairs={PAIRS}", "data.held_out=50"])
    pairs = load_splits(recipe.data).splits.train
    corpus = encoded(pairs, learn(pairs, recipe.tokens))
    tokens, model = recipe.train.batch_tokens, recipe.model
    batches = corpus.batches(tokens, 2 if chosen.quick else 20)
    work = Work(model.model_dump(), corpus.source_vocab, corpus.target_vocab, batches, tokens)
    sizes = f"{'+'.join(map(str, model.stacks.values()))}×{model.dim}"
    return _training("training-demo", f"Training, the demo's {sizes}", work, chosen)


def _training(name: str, title: str, work: Work, chosen: Settings) -> Experiment:
    path = work.save(chosen.folder / f"{name}.json")
    limit = matrix_limit(quick=chosen.quick)
    return Experiment(
        name=name,
        title=title,
        shows="rate",
        unit="real target tokens a second",
        entries=(BenchLine(OURS, Train(path), SAME, work.flops(SAME)),),
        bars=(Bar(OURS, (limit.label,), "peak", 0.8, aim=True),) if name.endswith("base") else (),
        limit=limit,
        weight=6.0,
    )


def decoding_work(chosen: Settings) -> str:
    """Write the work file of all decoding experiments; returns its path."""
    corpus = chosen.corpus()
    work = Work(
        chosen.base.model_dump(),
        corpus.source_vocab,
        corpus.target_vocab,
        {"decode": [corpus.pairs[: max(SENTENCES)]]},
    )
    return work.save(chosen.folder / "decoding.json")


def decoding(chosen: Settings, sentences: int) -> Experiment:
    """Beam search at the paper's base size, in float32 and int8."""
    path = decoding_work(chosen)
    plural = "sentence" if sentences == 1 else "sentences"
    return Experiment(
        name=f"decoding-{sentences}",
        title=f"Decoding {sentences} {plural}, beam 4, {WRITTEN} tokens",
        shows="time",
        unit="milliseconds",
        entries=(
            BenchLine(OURS, Decode(path), str(sentences)),
            BenchLine(INT8, Decode(path, "int8"), str(sentences)),
        ),
        weight=2.0 if sentences == 1 else 6.0,
    )


def quality(chosen: Settings) -> Experiment:
    """The cost of int8 in quality: BLEU of the shipped model in float32 and int8."""
    contender = Quality(pairs=20 if chosen.quick else 500)
    return Experiment(
        name="int8-quality",
        title="The shipped model on held-out pairs",
        shows="work",
        unit="BLEU",
        entries=(BenchLine(OURS, contender, "float32"), BenchLine(INT8, contender, "int8")),
        bars=(Bar(INT8, (OURS,), "points", 0.3),),
        weight=8.0,
    )


def looking(chosen: Settings, tokens: int) -> Experiment:
    """Encoding a long text with and without a tap on one layer."""
    shown = tokens // 16 if chosen.quick else tokens
    looks = {
        "one head": "Regard, one head of a layer",
        "by blocks": "Regard, all its heads by blocks",
        "whole": "Regard, all its heads at once",
    }
    unread = BenchLine("Regard, recorded but not read", Encode(shown, "unread", chosen.quick))
    bars = [
        bar
        for label in looks.values()
        for bar in (
            Bar(label, (UNTAPPED,), "time", 1.1),
            Bar(label, (UNTAPPED,), "all memory", 1.2),
        )
    ]
    return Experiment(
        name=f"looking-{tokens}",
        title=f"Encoding {shown:,} tokens and reading attention weights",
        shows="time",
        unit="milliseconds",
        entries=(
            BenchLine(UNTAPPED, Encode(shown, quick=chosen.quick)),
            *(BenchLine(label, Encode(shown, look, chosen.quick)) for look, label in looks.items()),
            unread,
        ),
        bars=tuple(bars),
        weight=12.0,
    )


def gpt_training(chosen: Settings) -> Experiment:
    """A training step of GPT-2 small."""
    config, vocab = chosen.gpt
    rows, length = (2, 32) if chosen.quick else (4, 256)
    work = TextWork(config.model_dump(), vocab, random_rows(rows, length + 1, vocab))
    path = work.save(chosen.folder / "gpt-training.json")
    flops = TRAINING * work.flops(unread=1) / (rows * length)
    return Experiment(
        name="gpt-training",
        title=f"Training GPT-2, {config.layers}×{config.dim}, {rows}×{length} tokens",
        shows="rate",
        unit="tokens a second",
        entries=(BenchLine(OURS, TrainText(path), flops=flops),),
        limit=matrix_limit(quick=chosen.quick),
        weight=8.0,
    )


def gpt_decoding(chosen: Settings, prompts: int) -> Experiment:
    """GPT-2 small continuing prompts with greedy decoding, in float32 and int8.

    Prompts are short, so that nearly all time is spent on writing: for one prompt each token reads
    every weight once, and the memory's bandwidth is the limit.
    """
    path, work = gpt_decoding_work(chosen, prompts)
    case, size = str(prompts), work.matrix_weights()
    ours, int8 = Continue(path), Continue(path, "int8")
    lines: tuple[BenchLine, ...]
    bars: tuple[Bar, ...]
    if prompts == 1:
        fp32_reads, int8_reads = (size * WEIGHT_BYTES[kind] for kind in ("float32", "int8"))
        lines = (
            BenchLine(OURS, ours, case, reads=fp32_reads),
            BenchLine(READING, ours, READ, reads=fp32_reads),
            BenchLine(INT8, int8, case, reads=int8_reads),
            BenchLine(PRODUCTS, Products(path, "int8"), case, reads=int8_reads),
        )
        bars = (
            Bar(OURS, (MEMORY,), "peak", 0.85),
            Bar(OURS, (READING,), "speed", 0.85, aim=True),
            Bar(INT8, (PRODUCTS,), "speed", 0.85),
        )
    else:
        lines = (
            BenchLine(OURS, ours, case),
            BenchLine(INT8, int8, case),
            BenchLine(ONE_PROMPT, ours, "1"),
            BenchLine(INT8_ONE_PROMPT, int8, "1"),
        )
        bars = (
            Bar(OURS, (ONE_PROMPT,), "speed", 4.5),
            Bar(INT8, (OURS,), "speed", 1.3),
            Bar(INT8, (INT8_ONE_PROMPT,), "speed", 2.0),
        )
    what = "1 prompt" if prompts == 1 else f"{prompts} prompts"
    return Experiment(
        name=f"gpt-decoding-{prompts}",
        title=f"GPT-2, {what} of {len(work.texts[0])} tokens, greedy, {work.written} more",
        shows="rate",
        unit="new tokens a second",
        entries=lines,
        bars=bars,
        limit=memory_limit(quick=chosen.quick) if prompts == 1 else None,
        weight=4.0 if prompts == 1 else 8.0,
    )


def gpt_decoding_work(chosen: Settings, prompts: int) -> tuple[str, TextWork]:
    """The work file of continuing so many prompts, and its content; all have the same weights."""
    config, vocab = chosen.gpt
    written = 16 if chosen.quick else 64 if prompts == 1 else 32
    weights = random_gpt(chosen.folder / "gpt2", config, vocab)
    texts = random_rows(max(PROMPTS), 8, vocab)
    work = TextWork(config.model_dump(), vocab, texts, written, end=vocab - 1, weights=weights)
    return work.save(chosen.folder / f"gpt-decoding-{prompts}.json"), work


def embedding(chosen: Settings) -> Experiment:
    """Sentence embeddings with the sizes of MiniLM."""
    config, vocab = chosen.sentence_encoder
    sentences = random_sentences(50 if chosen.quick else 1000, vocab)
    work = TextWork(config.model_dump(), vocab, sentences)
    path, flops = work.save(chosen.folder / "embedding.json"), work.flops() / len(sentences)
    return Experiment(
        name="embedding",
        title=f"Embedding {len(sentences):,} sentences, {config.layers}×{config.dim}",
        shows="rate",
        unit="sentences a second",
        entries=(BenchLine(OURS, Embed(path), flops=flops),),
        limit=matrix_limit(quick=chosen.quick),
        weight=4.0,
    )


Makers = dict[str, Callable[[Settings], Experiment]]
"""Functions that create experiments, by name."""


def select(experiments: Makers, only: Sequence[str]) -> list[Callable[[Settings], Experiment]]:
    """Select experiments by name or by the beginning of a name; all if `only` is empty.

    Raises:
        InputError: If a string in `only` matches no experiment.
    """
    for name in only:
        if not any(known.startswith(name) for known in experiments):
            raise InputError("--only", got=name, expected=f"one of {', '.join(experiments)}")
    # A complete name selects only that experiment, even if other names begin with it.
    beginnings = tuple(name for name in only if name not in experiments)
    return [
        make
        for name, make in experiments.items()
        if not only or name in only or name.startswith(beginnings)
    ]
