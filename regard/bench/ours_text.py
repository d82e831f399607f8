"""The contenders of this package with a single stack: GPT-2 and sentence embeddings.

As in `ours`, there is no code for benchmarks only: the ordinary trainer, the ordinary decoder, and
the reader behind `embed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class TrainText:
    """A training step on the rows of a work file; the case is not used. Work: tokens."""

    work: str
    packages: ClassVar = ("torch",)

    def prepare(self, threads: int) -> None:
        """Build a model with initial weights, the trainer, and the batch."""
        from regard.bench.texts import TextWork
        from regard.data.batch import Batch, Cursor
        from regard.data.input import Ragged
        from regard.models import build
        from regard.runtime.device import setup
        from regard.tasks.generate import Generate
        from regard.tokens import TokensConfig, learn_plain
        from regard.train.config import TrainConfig
        from regard.train.log import TrainingProgress
        from regard.train.trainer import Job, Trainer

        setup(threads, 0)
        work = TextWork.read(self.work)
        model = build(work.config, work.vocab)
        # The vocabulary is unused, since ids are given.
        task = Generate(learn_plain(["a b"], TokensConfig(kind="words"), Generate.around))
        self.batch = Batch(
            Ragged.of([row[:-1] for row in work.texts]),
            Ragged.of([row[1:] for row in work.texts]),
            tuple(range(len(work.texts))),
        )
        never, tokens = 10**9, self.batch.targets.ids.numel()
        config = TrainConfig(steps=never, log_every=never, batch_tokens=tokens)
        job = Job(model, task, config, work.config.dim, {}, "", "", threads=threads)
        self.trainer = Trainer(job)
        self.progress = TrainingProgress(never, quiet=True)
        self.at = Cursor()
        model.train()

    def measure(self, case: str) -> float:
        """Run one step; returns the number of target tokens."""
        del case
        self.trainer.step(iter([(self.batch, self.at)]), self.progress)
        return self.batch.targets.ids.numel()


@dataclass
class GoOn:
    """Greedy decoding of a fixed number of tokens; the case is the number of prompts in a batch.

    Work: generated tokens.
    """

    work: str
    precision: str = "float32"
    packages: ClassVar = ("torch",)

    def prepare(self, threads: int) -> None:
        """Build a model with random weights, and the prompts."""
        from regard.bench.texts import TextWork
        from regard.decode import DecodeConfig, Symbols
        from regard.models import build
        from regard.runtime.device import setup

        setup(threads, 0)
        self.settings = work = TextWork.read(self.work)
        self.model = build(work.config, work.vocab).eval()
        if self.precision == "int8":
            from regard.layers.kernels.int8 import quantise

            self.model = quantise(self.model)
        self.symbols = Symbols(begin=work.end, end=work.end, pad=work.end)  # the only one of GPT-2
        self.config = DecodeConfig(min_length=work.written, max_length=work.written)

    def written(self, count: int) -> list[list[int]]:
        """The generated ids for the first `count` prompts, decoded in one batch."""
        from regard.decode import decode

        found = decode(
            self.model,
            None,
            self.symbols,
            self.config,
            prompts=self.settings.texts[:count],
            limit=self.model.config.max_length,
        )
        return [list(best.ids) for [best] in found]

    def measure(self, case: str) -> float:
        """Continue as many prompts as the case says; returns the number of generated tokens."""
        rows = self.written(int(case))
        assert all(len(ids) == self.settings.written for ids in rows)
        return sum(map(len, rows))


@dataclass
class Embed:
    """A vector for each sentence of a work file; the case is not used. Work: sentences."""

    work: str
    packages: ClassVar = ("torch",)

    def prepare(self, threads: int) -> None:
        """Build a model with random weights, and the tokenized sentences."""
        from regard.bench.texts import TextWork
        from regard.models import build
        from regard.runtime.device import setup

        setup(threads, 0)
        work = TextWork.read(self.work)
        self.model = build(work.config, work.vocab).eval()
        self.count, self.reader = len(work.texts), _reader(work.texts)

    def vectors(self) -> Tensor:
        """The mean-pooled sentence vectors of length 1: (sentences, dim)."""
        found: Tensor = self.reader.embed(self.model, [""] * self.count)
        return found

    def measure(self, case: str) -> float:
        """Embed all sentences; returns their number."""
        del case
        return len(self.vectors())


def _reader(sentences: Any) -> Any:
    """The reader behind `embed` with tokenized sentences, so that tokenization is not timed."""
    from regard.tasks.fill import Fill
    from regard.tasks.reader import EncodedText, Reader
    from regard.tokens import TokensConfig, learn_plain

    ready = [EncodedText(list(ids), [0] * len(ids)) for ids in sentences]

    class Ready(Reader):
        def read(self, texts: Any, longest: int, *, symbols: bool = False) -> list[EncodedText]:
            del texts, longest, symbols
            return ready

    return Ready(learn_plain(["a b"], TokensConfig(kind="words"), Fill.around))
