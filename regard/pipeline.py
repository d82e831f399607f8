"""A model with all it needs to be used: what `regard.load` and `regard.train` return."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, overload

from torch import Tensor

from regard import recipe as recipes
from regard.data.batch import Ragged
from regard.data.pair import Pair
from regard.decode.config import DecodeConfig
from regard.decode.engine import stream
from regard.errors import InputError
from regard.explain.heads import HeadSummary, summarise
from regard.explain.look import Look
from regard.explain.record import record
from regard.layers import Tap, knock_out
from regard.layers.int8 import quantise
from regard.models import EncoderDecoder, describe, rebuild
from regard.models.mode import evaluating
from regard.recipe import Recipe
from regard.tasks import TASKS, Output, Translate
from regard.tasks.metrics import Scores, score
from regard.tokens import Vocabulary
from regard.train import checkpoint
from regard.train.checkpoint import Snapshot

PRECISIONS = ("fp32", "int8")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How a pipeline does on a set of pairs."""

    loss: float
    perplexity: float
    scores: Scores
    hypotheses: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The numbers, without the hypotheses."""
        return {"loss": self.loss, "perplexity": self.perplexity, **asdict(self.scores)}


class Pipeline:
    """Text in, text out, and everything in between to look at.

    Args:
        model: The plain module.
        vocabulary: Text <-> ids.
        recipe: What it was made by.
        name: What to call it.
    """

    def __init__(
        self, model: EncoderDecoder, vocabulary: Vocabulary, recipe: Recipe, name: str = "model"
    ) -> None:
        self.model, self.vocabulary, self.recipe, self.name = model.eval(), vocabulary, recipe, name
        self.task: Translate = TASKS[recipe.task](vocabulary)
        self.parameters = sum(parameter.numel() for parameter in model.parameters())
        self.precision = "fp32"

    @overload
    def translate(self, texts: str, **decode: Any) -> str: ...
    @overload
    def translate(self, texts: Sequence[str], **decode: Any) -> list[str]: ...
    def translate(self, texts: str | Sequence[str], **decode: Any) -> str | list[str]:
        """The best translation of a sentence, or of each of several.

        Args:
            texts: One sentence or several.
            **decode: What differs from the recipe's `decode`, such as `beam=4`; also
                `prefixes` and `knock_out`.
        """
        if isinstance(texts, str):
            return self.outputs([texts], **decode)[0][0].text
        return [best.text for best, *_ in self.outputs(texts, **decode)]

    def outputs(
        self,
        texts: Sequence[str],
        *,
        prefixes: Sequence[str] | None = None,
        knock_out: Sequence[str] = (),
        **decode: Any,
    ) -> list[list[Output]]:
        """The n best translations of each sentence, with log-probabilities and scores.

        Args:
            texts: Sentences.
            prefixes: How each translation is to begin.
            knock_out: Heads to take away, such as `decoder.1.cross.3`.
            **decode: What differs from the recipe's `decode`.
        """
        tap = self._without(knock_out) if knock_out else None
        return self.task.predict(
            self.model, texts, self.decoding(**decode), prefixes=prefixes, tap=tap
        )

    def stream(
        self, text: str, *, prefix: str = "", knock_out: Sequence[str] = (), **decode: Any
    ) -> Iterator[str]:
        """The translation as it grows, one token more at a time.

        In beam search each is the best beam so far, which may take back what it said.

        Args:
            text: The sentence.
            prefix: How the translation is to begin.
            knock_out: Heads to take away, such as `decoder.1.cross.3`.
            **decode: What differs from the recipe's `decode`.
        """
        longest = self.model.config.max_length
        source = Ragged.of([self.task.source_ids(text, longest)])
        steps = stream(
            self.model,
            source,
            self.task.symbols(),
            self.decoding(**decode),
            prefixes=[self.task.opening(prefix, longest)],
            tap=self._without(knock_out) if knock_out else None,
            limit=longest,
        )
        for step in steps:
            for partial in step.partials[:1]:
                yield self.vocabulary.target.decode(partial.ids)
            for _, hypotheses in step.done:
                yield self.vocabulary.target.decode(hypotheses[0].ids)

    def decoding(self, **changes: Any) -> DecodeConfig:
        """The recipe's way of decoding with some changes, checked."""
        if not changes:
            return self.recipe.decode
        overrides = [f"decode.{key}={json.dumps(value)}" for key, value in changes.items()]
        return recipes.from_text(recipes.dump(self.recipe), "recipe", overrides).decode

    def logits(self, source_ids: Sequence[int], target_ids: Sequence[int]) -> Tensor:
        """Logits of the token after each target token: (target tokens, vocab)."""
        with evaluating(self.model):
            return self.model(Ragged.of([source_ids]), Ragged.of([target_ids]))

    def look(
        self,
        text: str,
        *,
        target: str | None = None,
        knock_out: Sequence[str] = (),
        **decode: Any,
    ) -> Look:
        """The attention of every layer and head while this sentence is translated.

        Args:
            text: The sentence.
            target: A translation to follow instead of searching for one.
            knock_out: Heads to take away, such as `decoder.1.cross.3`.
            **decode: What differs from the recipe's `decode`.
        """
        return record(
            self.model,
            self.task,
            text,
            decode=self.decoding(**decode),
            target=target,
            without=knock_out,
            name=self.name,
        )

    def heads(
        self,
        pairs: Sequence[Pair | tuple[str, str]],
        progress: Callable[[int, int], None] | None = None,
    ) -> list[HeadSummary]:
        """What each head does on these pairs, and what breaks without it."""
        return summarise(self.model, self.task, _pairs(pairs), progress=progress)

    def evaluate(
        self, pairs: Sequence[Pair | tuple[str, str]], *, lowercase: bool = False, **decode: Any
    ) -> Evaluation:
        """Loss, perplexity, BLEU and chrF on pairs, and the translations."""
        pairs = _pairs(pairs)
        encoded = self.task.readable(pairs, self.model.config.max_length)
        measured = self.task.evaluate(self.model, encoded)
        hypotheses = self.translate([pair.source for pair in pairs], **decode)
        scores = score(hypotheses, [pair.target for pair in pairs], lowercase=lowercase)
        return Evaluation(measured["loss"], measured["perplexity"], scores, tuple(hypotheses))

    def quantised(self) -> Pipeline:
        """The same in 8 bits: to decode, score and look into, not to train or save."""
        twin = Pipeline(quantise(self.model), self.vocabulary, self.recipe, self.name)
        twin.parameters, twin.precision = self.parameters, "int8"
        return twin

    def save(self, folder: str | Path) -> Path:
        """Writes a checkpoint folder that `regard.load` reads; nothing in it can run code."""
        folder = Path(folder)
        checkpoint.write_folder(folder, self._snapshot())
        return folder

    def _snapshot(self) -> Snapshot:
        return Snapshot(
            step=0,
            weights=self.model.state_dict(),
            config=describe(self.model),
            tokenizer=self.vocabulary.to_json(),
            recipe=recipes.dump(self.recipe),
        )

    def _without(self, heads: Sequence[str]) -> Tap:
        return Tap(edits=[knock_out(head) for head in heads])

    def __repr__(self) -> str:
        size = f"{self.parameters:,} parameters"
        return f"Pipeline({self.name!r}, {self.recipe.task}, {size}, {self.precision})"


def _pairs(pairs: Sequence[Pair | tuple[str, str]]) -> list[Pair]:
    """Pairs of (source, target) as `Pair`s; at least one."""
    if not pairs:
        raise InputError("pairs", got="none", expected="at least one (source, target)")
    return [pair if isinstance(pair, Pair) else Pair(*pair) for pair in pairs]


def load(place: str | Path, *, precision: str = "fp32") -> Pipeline:
    """Loads a run (its best checkpoint, else its last), one checkpoint, or a shipped model.

    Args:
        place: The folder, or the shipped model's name.
        precision: `fp32`, or `int8` for matrices in 8 bits, which decode faster.

    Example:
        >>> load("tiny/translate").translate("The animal was tired.")
        'Das Tier war müde.'
    """
    if precision not in PRECISIONS:
        raise InputError("precision", got=precision, expected=" or ".join(PRECISIONS))
    pipeline = _load(place)
    return pipeline.quantised() if precision == "int8" else pipeline


def _load(place: str | Path) -> Pipeline:
    path = Path(place)
    if path.exists():
        return _from_snapshot(checkpoint.read(checkpoint.find(path)), str(place))
    model = shipped().get(str(place))
    if model is None:
        known = ", ".join(shipped()) or "none"
        raise InputError(
            f"no folder {place}", fix=f"name a run, a checkpoint, or a shipped model ({known})"
        )
    with as_file(model) as folder:
        return _from_snapshot(checkpoint.read(folder), str(place))


def shipped() -> dict[str, Traversable]:
    """The models in the package, by name."""
    root = files("regard").joinpath("shipped")
    if not root.is_dir():
        return {}
    return {
        f"{size.name}/{model.name}": model
        for size in sorted(root.iterdir(), key=lambda entry: entry.name)
        if size.is_dir()
        for model in sorted(size.iterdir(), key=lambda entry: entry.name)
    }


def _from_snapshot(snapshot: Snapshot, name: str) -> Pipeline:
    model = rebuild(snapshot.config)
    try:
        model.load_state_dict(snapshot.weights)
    except RuntimeError as error:
        raise InputError(
            f"{name}: the weights do not fit config.json", got=str(error).splitlines()[-1].strip()
        ) from error
    vocabulary = Vocabulary.from_json(snapshot.tokenizer)
    return Pipeline(
        model, vocabulary, recipes.from_text(snapshot.recipe, f"{name}/recipe.yaml"), name
    )
