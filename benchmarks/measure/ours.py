"""The contenders of this package: training, decoding, encoding with taps, as users run them.

There is no code for benchmarks only: `Train` runs steps of the ordinary trainer, `Decode` the
ordinary decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from regard.errors import InputError
from regard.models import TransformerConfig

if TYPE_CHECKING:
    from regard.data.batch import Batch
    from regard.inputs.arrays import Ragged
    from regard.layers import Tap
    from regard.models.config import ModelConfig
    from regard.train.loop import Trainer

BEAM = 4
WRITTEN = 30
"""The number of tokens of every translation."""

SITE = "encoder.0.self.weights"


def _by_blocks(tap: Tap) -> None:
    """The largest weight of each query in all heads, computed block by block."""
    for _, weights in tap.records.blocks(SITE):
        weights.amax(-1)


def reading_time(tokens: int) -> float:
    """The minimum duration in seconds of a turn that encodes a text of so many tokens."""
    return 2.0 if tokens >= 1024 else 0.2


LOOKS: dict[str, tuple[dict[str, Any], Callable[[Tap], object]] | None] = {
    "nothing": None,
    "one head": ({"heads": (0,)}, lambda tap: tap.records[SITE]),
    "by blocks": ({}, _by_blocks),
    "whole": ({}, lambda tap: tap.records[SITE]),
    "unread": ({}, lambda tap: tap.records),
}
"""By name: the options of a tap at `SITE`, and how its record is read. A long record is computed
when it is read, so its cost shows only then; `unread` measures the cost without reading."""


def ready_model(config: ModelConfig, *vocab: int, precision: str = "float32") -> Any:
    """A model with random weights for inference, in float32 or int8."""
    from regard.models import build

    return in_precision(build(config, *vocab).eval(), precision)


def in_precision(model: Any, precision: str) -> Any:
    """The model itself for float32, a copy in 8 bits for int8."""
    if precision == "float32":
        return model
    from regard.models.quantise import quantise

    return quantise(model)


NEVER = 10**9
"""A step that is never reached."""


def make_trainer(model: Any, task: Any, batch_tokens: int, threads: int) -> Trainer:
    """The ordinary trainer of a model, without logs."""
    from regard.train.config import TrainConfig
    from regard.train.loop import Trainer
    from regard.train.state import Job

    config = TrainConfig(steps=NEVER, log_every=NEVER, batch_tokens=batch_tokens)
    job = Job(model, task, config, model.config.dim, {}, "", "", threads=threads)
    model.train()
    return Trainer(job)


def train_on(trainer: Trainer, batches: Sequence[Batch[Ragged]]) -> int:
    """Run one step per batch; returns the number of target tokens."""
    from regard.data.batch import Cursor
    from regard.train.log import TrainingProgress

    progress, start = TrainingProgress(NEVER, quiet=True), Cursor()
    for batch in batches:
        trainer.step(iter([(batch, start)]), progress)
    return sum(batch.targets.ids.numel() for batch in batches)


@dataclass
class Train:
    """Training steps on the batches of a work file; the case selects them. Work: real targets."""

    work: str
    packages: ClassVar = ("torch",)

    def prepare(self, threads: int) -> None:
        """Build a model with initial weights, the trainer, and the batches."""
        from benchmarks.measure.work import Work
        from regard.data.text.encoded import make_batch
        from regard.data.text.pairs import Pair
        from regard.inputs.text import TokensConfig, learn
        from regard.models import build
        from regard.runtime.device import setup
        from regard.tasks.translate import Translate

        setup(threads, 0)
        work = Work.read(self.work)
        model = build(work.config, work.source_vocab, work.target_vocab)
        words = learn([Pair("a", "b")], TokensConfig(kind="words"))  # unused: ids are given
        task = Translate(words, smoothing=0.1)
        self.trainer = make_trainer(model, task, work.batch_tokens, threads)
        self.batches = {
            case: [
                make_batch(
                    [source for source, _ in pairs],
                    [target for _, target in pairs],
                    range(len(pairs)),
                    work.begin,
                    work.end,
                )
                for pairs in batches
            ]
            for case, batches in work.batches.items()
        }

    def measure(self, case: str) -> float:
        """Run one step per batch; returns the number of target tokens."""
        return train_on(self.trainer, self.batches[case])


@dataclass
class Decode:
    """Decoding with outputs of exactly 30 tokens; the case is the number of sentences.

    Work: sentences.
    """

    work: str
    precision: str = "float32"
    beam: int = BEAM
    packages: ClassVar = ("torch",)

    def prepare(self, threads: int) -> None:
        """Build a model with random weights, and the source sentences."""
        from benchmarks.measure.work import Work
        from regard.decode import DecodeConfig, Symbols
        from regard.runtime.device import setup

        setup(threads, 0)
        work = Work.read(self.work)
        sizes = work.source_vocab, work.target_vocab
        self.model = ready_model(work.config, *sizes, precision=self.precision)
        self.symbols = Symbols(work.begin, work.end, work.pad, (work.pad, work.begin))
        self.config = DecodeConfig(beam=self.beam, min_length=WRITTEN, max_length=WRITTEN)
        self.sources = [source for batch in work.batches["decode"] for source, _ in batch]

    def measure(self, case: str) -> float:
        """Translate as many sentences as the case says, in one batch."""
        hypotheses = self.hypotheses(int(case))
        assert all(len(ids) == WRITTEN for ids, _ in hypotheses)
        return len(hypotheses)

    def hypotheses(self, count: int) -> list[tuple[list[int], float]]:
        """Tokens and log-probability for each of the first `count` sentences, in one batch."""
        from regard.decode import decode
        from regard.inputs.arrays import Ragged

        source = Ragged.of(self.sources[:count])
        hypotheses = decode(self.model, source, self.symbols, self.config)
        return [(list(best[0].ids), best[0].logprob) for best in hypotheses]


@dataclass
class Encode:
    """Encoding one long text with or without a tap; the case is not used. Work: tokens."""

    tokens: int
    look: str = "nothing"
    quick: bool = False
    packages: ClassVar = ("torch",)

    @property
    def shortest(self) -> float:
        """The minimum duration of a turn: short texts are encoded repeatedly for precision."""
        return reading_time(self.tokens)

    def prepare(self, threads: int) -> None:
        """Build the model and random tokens."""
        import torch

        from regard.inputs.arrays import Ragged
        from regard.runtime.device import setup

        if self.look not in LOOKS:
            raise InputError("look", got=self.look, expected=f"one of {', '.join(LOOKS)}")
        setup(threads, 0)
        self.model = ready_model(reader_config(self.tokens, quick=self.quick), 1000, 1000)
        self.source = Ragged(torch.randint(4, 1000, (self.tokens,)), (self.tokens,))

    def measure(self, case: str) -> float:
        """Encode the text once and read what was recorded."""
        del case
        from regard.layers import Tap
        from regard.models.mode import evaluating

        look = LOOKS[self.look]
        with evaluating(self.model):
            if look is None:
                self.model.encode(self.source)
            else:
                asked, read = look
                tap = Tap(SITE, **asked)
                self.model.encode(self.source, tap)
                read(tap)
        return self.tokens


@dataclass
class Attend:
    """One attention layer, 512 wide with 8 heads, over one text, no gradients. Work: tokens.

    The case is not used.
    """

    tokens: int
    causal: bool = False
    packages: ClassVar = ("torch",)

    def prepare(self, threads: int) -> None:
        """Build the layer and its input."""
        import torch

        from regard.layers import Attention, plain_context
        from regard.runtime.device import setup

        setup(threads, 0)
        self.layer = Attention(512, heads=8).eval()
        self.x = torch.randn(self.tokens, 512)
        self.context = plain_context((self.tokens,), causal=self.causal)

    def measure(self, case: str) -> float:
        """Run the layer once."""
        del case
        import torch

        with torch.inference_mode():
            self.layer(self.x, self.context)
        return self.tokens


@dataclass
class Quality:
    """BLEU of a shipped model on held-out pairs; the case is the precision. Work: BLEU."""

    model: str = "tiny/translate"
    pairs: int = 500
    packages: ClassVar = ("sacrebleu",)

    def prepare(self, threads: int) -> None:
        """Load the model and the held-out pairs."""
        from regard.data.sources import pairs_of
        from regard.runs.load import load
        from regard.runtime.device import setup

        setup(threads, 0)
        self.pipeline = load(self.model, device="cpu")
        self.held_out = pairs_of(self.pipeline.recipe.data, "valid")[: self.pairs]

    def measure(self, case: str) -> float:
        """Translate all pairs and return BLEU."""
        from regard.runs.load import load

        if case == "float32":
            return self.pipeline.evaluate(self.held_out).scores.bleu
        options: dict[str, Any] = {"precision": case}
        return load(self.model, device="cpu", **options).evaluate(self.held_out).scores.bleu


def reader_config(tokens: int, *, quick: bool) -> TransformerConfig:
    """A config of the paper's base size for texts of so many tokens; only the encoder is used."""
    if quick:
        return TransformerConfig(
            dim=64, heads=4, hidden=128, decoder={"layers": 1}, norm_place="post", max_length=tokens
        )
    return TransformerConfig(size="base", decoder={"layers": 1}, max_length=tokens)
