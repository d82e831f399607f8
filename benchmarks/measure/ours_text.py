"""The contenders of this package with a single stack: GPT-2 and sentence embeddings.

As in `ours`, there is no code for benchmarks only: the ordinary trainer, the ordinary decoder, and
the reader behind `embed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from benchmarks.measure.ours import in_precision, make_trainer, ready_model, train_on

if TYPE_CHECKING:
    from torch import Tensor

    from benchmarks.measure.texts import TextWork


@dataclass
class TrainText:
    """A training step on the rows of a work file; the case is not used. Work: tokens."""

    work: str
    packages: ClassVar = ("torch",)

    def prepare(self, threads: int) -> None:
        """Build a model with initial weights, the trainer, and the batch."""
        from benchmarks.measure.texts import TextWork
        from regard.data.batch import Batch
        from regard.inputs.arrays import Ragged
        from regard.inputs.text import TokensConfig, learn_plain
        from regard.models import build
        from regard.runtime.device import setup
        from regard.tasks.generate import Generate

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
        self.trainer = make_trainer(model, task, self.batch.targets.ids.numel(), threads)

    def measure(self, case: str) -> float:
        """Run one step; returns the number of target tokens."""
        del case
        return train_on(self.trainer, [self.batch])


READ = "read"
"""The case of `Continue` that reads the weights and does nothing with them."""


@dataclass
class Continue:
    """Greedy decoding of a fixed number of tokens; the case is the number of prompts in a batch.

    Work: generated tokens.
    """

    work: str
    precision: str = "float32"
    packages: ClassVar = ("torch",)

    def prepare(self, threads: int | None) -> None:
        """Load or build the model, and the prompts."""
        from benchmarks.measure.texts import TextWork
        from regard.decode import DecodeConfig, Symbols
        from regard.runtime.device import setup

        setup(threads, 0)
        self.settings = work = TextWork.read(self.work)
        self.model = text_model(work, self.precision)
        self.symbols = Symbols(begin=work.end, end=work.end, pad=work.end)  # the only one of GPT-2
        self.config = DecodeConfig(min_length=work.written, max_length=work.written)

    def written(self, count: int) -> list[list[int]]:
        """The generated ids for the first `count` prompts, decoded in one batch."""
        from regard.decode import decode

        hypotheses = decode(
            self.model,
            None,
            self.symbols,
            self.config,
            prompts=self.settings.texts[:count],
            limit=self.model.config.max_length,
        )
        return [list(best.ids) for [best] in hypotheses]

    def measure(self, case: str) -> float:
        """Continue as many prompts as the case says; returns the number of generated tokens.

        The case `READ` only reads the matrices in 32 bits, where they are in memory, and counts as
        one token.
        """
        self.answer: list[int] | None = None
        if case == READ:
            named = self.model.named_parameters()
            for name, weight in named:
                if weight.dim() == 2 and not name.endswith("positions.table"):
                    weight.detach().sum()
            return 1.0
        rows = self.written(int(case))
        assert all(len(ids) == self.settings.written for ids in rows)
        self.answer = rows[0]
        return sum(map(len, rows))


def text_model(work: TextWork, precision: str) -> Any:
    """The model of a work file for inference: with its weights, or with random ones."""
    if not work.weights:
        return ready_model(work.config, work.vocab, precision=precision)
    from pathlib import Path

    from regard.hub.folder import read_model

    return in_precision(read_model(Path(work.weights)).eval(), precision)


@dataclass
class Products:
    """The matrix products of a decoding step and nothing else; the case is the number of rows.

    Each matrix of the model that the work file names, also that of the output, is multiplied by
    random rows. Work: steps × rows, as if each gave a token.
    """

    work: str
    precision: str = "float32"
    packages: ClassVar = ("torch",)

    def prepare(self, threads: int) -> None:
        """Write a text, which loads what decoding uses, and note the matrices it multiplies."""
        writer = Continue(self.work, self.precision)
        writer.prepare(threads)
        self.layers: dict[Any, int] = {}  # layers with a matrix, and the width of their input
        hooks = [
            layer.register_forward_hook(self._keep)
            for layer in writer.model.modules()
            if hasattr(layer, "weight")
        ]
        writer.written(1)
        for hook in hooks:
            hook.remove()
        weights = sum(layer.weight.numel() for layer in self.layers)
        assert weights == writer.settings.matrix_weights(), weights

    def _keep(self, layer: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Remember a layer that computes x Wᵀ: its input and output have the sides of W."""
        x = inputs[0]
        if layer in self.layers or x.dim() != 2:
            return
        if layer.weight.shape == (output.shape[1], x.shape[1]):
            self.layers[layer] = x.shape[1]

    def measure(self, case: str) -> float:
        """Run all products once; returns the number of rows."""
        import torch

        rows = int(case)
        with torch.inference_mode():
            inputs = {width: torch.randn(rows, width) for width in self.layers.values()}
            for layer, width in self.layers.items():
                layer(inputs[width])
        return rows


@dataclass
class Embed:
    """A vector for each sentence of a work file; the case is not used. Work: sentences."""

    work: str
    packages: ClassVar = ("torch",)

    def prepare(self, threads: int) -> None:
        """Build a model with random weights, and the tokenized sentences."""
        from benchmarks.measure.texts import TextWork
        from regard.inputs.reader import Encoded
        from regard.inputs.text import TokensConfig, learn_plain
        from regard.runtime.device import setup
        from regard.tasks.embed import Embed
        from regard.tasks.encoder_task import ENCODER_SYMBOLS

        setup(threads, 0)
        work = TextWork.read(self.work)
        self.model = ready_model(work.config, work.vocab)
        # Tokenized before, so that tokenization is not timed.
        self.sentences = [Encoded("", list(ids), [0] * len(ids)) for ids in work.texts]
        self.task = Embed(learn_plain(["a b"], TokensConfig(kind="words"), ENCODER_SYMBOLS))

    def vectors(self) -> Tensor:
        """The mean-pooled sentence vectors of length 1: (sentences, dim)."""
        vectors: Tensor = self.task.embed(self.model, self.sentences)
        return vectors

    def measure(self, case: str) -> float:
        """Embed all sentences; returns their number."""
        del case
        return len(self.vectors())
