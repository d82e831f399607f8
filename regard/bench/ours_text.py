"""What is measured of the models of one stack, as their user runs them: GPT-2 and sentence vectors.

As in `ours`, nothing is written for speed: a step of the one trainer, the one engine, the reader
that `embed` asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class TrainText:
    """A step of training on the rows of a work file; the case is not used. Work: tokens."""

    work: str
    packages: ClassVar = ("torch",)

    def prepare(self, threads: int) -> None:
        """A model with fresh weights, the trainer, and the batch as it is fed it."""
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
        # Ids are given: the vocabulary is never asked.
        task = Generate(learn_plain(["a b"], TokensConfig(kind="words"), Generate.around))
        self.batch = Batch(
            Ragged.of([row[:-1] for row in work.texts]),
            Ragged.of([row[1:] for row in work.texts]),
            tuple(range(len(work.texts))),
        )
        never, tokens = 10**9, self.batch.wanted.ids.numel()
        config = TrainConfig(steps=never, log_every=never, batch_tokens=tokens)
        job = Job(model, task, config, work.config.dim, {}, "", "", threads=threads)
        self.trainer = Trainer(job)
        self.progress = TrainingProgress(never, quiet=True)
        self.at = Cursor()
        model.train()

    def measure(self, case: str) -> float:
        """One step."""
        del case
        self.trainer.step(iter([(self.batch, self.at)]), self.progress)
        return self.batch.wanted.ids.numel()


@dataclass
class GoOn:
    """Greedy decoding that always writes as many tokens; the case: after how many prompts at once.

    Work: tokens that were written.
    """

    work: str
    precision: str = "float32"
    packages: ClassVar = ("torch",)

    def prepare(self, threads: int) -> None:
        """A model with random weights, and prompts."""
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
        self.symbols = Symbols(begin=work.end, end=work.end, pad=work.end)  # GPT-2 has one for all
        self.config = DecodeConfig(min_length=work.written, max_length=work.written)

    def written(self, count: int) -> list[list[int]]:
        """What follows the first `count` prompts, all in one batch."""
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
        """Goes on with as many prompts as the case says."""
        rows = self.written(int(case))
        assert all(len(ids) == self.settings.written for ids in rows)
        return sum(map(len, rows))


@dataclass
class Embed:
    """A vector for each sentence of a work file; the case is not used. Work: sentences."""

    work: str
    packages: ClassVar = ("torch",)

    def prepare(self, threads: int) -> None:
        """A model with random weights, and sentences that are ids already."""
        from regard.bench.texts import TextWork
        from regard.models import build
        from regard.runtime.device import setup

        setup(threads, 0)
        work = TextWork.read(self.work)
        self.model = build(work.config, work.vocab).eval()
        self.count, self.reader = len(work.texts), _reader(work.texts)

    def vectors(self) -> Tensor:
        """Mean-pooled, of length 1: (sentences, dim)."""
        found: Tensor = self.reader.embed(self.model, [""] * self.count)
        return found

    def measure(self, case: str) -> float:
        """Embeds all of them."""
        del case
        return len(self.vectors())


def _reader(sentences: Any) -> Any:
    """The reader behind `embed`, with sentences that it need not read: no tokenizer is timed."""
    from regard.tasks.fill import Fill
    from regard.tasks.reader import Read, Reader
    from regard.tokens import TokensConfig, learn_plain

    ready = [Read(list(ids), [0] * len(ids)) for ids in sentences]

    class Ready(Reader):
        def read(self, texts: Any, longest: int, *, symbols: bool = False) -> list[Read]:
            del texts, longest, symbols
            return ready

    return Ready(learn_plain(["a b"], TokensConfig(kind="words"), Fill.around))
