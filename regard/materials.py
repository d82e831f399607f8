"""A recipe -> what its model is trained on: a vocabulary, a task with its data, and checksums."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from regard.data.config import LabelledData, MixtureData, PythonData, TextData
from regard.data.corpus import Corpus, encode, survey
from regard.data.documents import Text, TextFiles, find_files
from regard.data.labelled import labels_in, load_labelled, texts_in
from regard.data.packing import Packed, Stream
from regard.data.pages import PythonText
from regard.data.sources import Loaded, load_splits
from regard.errors import InputError
from regard.models import BertConfig
from regard.recipe import Recipe
from regard.tasks import (
    Answer,
    Classify,
    Fill,
    Generate,
    Restore,
    Rewrite,
    Tag,
    Translate,
)
from regard.tasks.fill import Holes, corruption, room
from regard.tasks.generate import opens
from regard.tasks.supervised import Course, headed
from regard.tokens import Vocabulary, learn, only_foreign
from regard.tokens.plain import learn_plain

_logger = logging.getLogger(__name__)

KINDS_OF_ROWS: dict[str, type[Packed] | type[Stream]] = {"packed": Packed, "stream": Stream}
MakeRows = partial[Packed | Stream]
"""Makes rows of some length from a corpus."""


@dataclass(frozen=True, eq=False)
class Materials:
    """What a run is made from."""

    vocabulary: Vocabulary
    task: Any
    checksums: dict[str, str]
    recipe: Recipe | None = None
    """With what the data decides, the names of classes and tags; None: as it was."""


def gather(recipe: Recipe, saved: Vocabulary | None = None) -> Materials:
    """Reads or generates the data of a recipe.

    Args:
        recipe: Of the run.
        saved: The vocabulary of a run that goes on; without it one is learned.
    """
    if recipe.task in ("translate", "rewrite"):
        return _pairs(recipe, saved)
    if recipe.task in TEXT_TASKS:
        return _text(recipe, saved)
    if recipe.task in LABELLED_TASKS:
        return _labelled(recipe, saved)
    raise InputError(
        f"task: {recipe.task}",
        got="a recipe to train",
        expected=f"translate, rewrite, {', '.join(TEXT_TASKS)}",
    )


def _pairs(recipe: Recipe, saved: Vocabulary | None) -> Materials:
    loaded = load_splits(recipe.data)
    for problem, count in loaded.skipped.items():
        _logger.warning("data: %d pairs skipped: %s", count, problem)
    _warn_of_overlap(loaded)
    vocabulary = saved or learn(loaded.splits.train, recipe.tokens)
    task = Translate(
        vocabulary,
        loaded.splits.train,
        loaded.splits.valid,
        batch_tokens=recipe.train.batch_tokens,
        smoothing=recipe.train.label_smoothing,
        seed=recipe.seed,
    )
    longest = recipe.model.max_length
    if task.longest() > longest:
        raise InputError(
            "the data has a sentence longer than the model can read",
            got=f"{task.longest()} tokens",
            expected=f"at most model.max_length={longest}",
            fix="raise model.max_length, or lower data.max_words with data.on_bad=skip",
        )
    if isinstance(recipe.data, MixtureData):
        weights = {name: part.weight for name, part in recipe.data.parts.items()}
        mixed = Rewrite(task, loaded.splits.train, loaded.splits.valid, weights)
        return Materials(vocabulary, mixed, loaded.checksums)
    return Materials(vocabulary, task, loaded.checksums)


def _warn_of_overlap(loaded: Loaded) -> None:
    """Says how many pairs that are to be scored were trained on."""
    known = {(pair.source, pair.target) for pair in loaded.splits.train}
    for name, pairs in {"valid": loaded.splits.valid, **loaded.splits.tests}.items():
        seen = sum((pair.source, pair.target) in known for pair in pairs)
        if seen:
            _logger.warning("data: %d of %d %s pairs are in train, too", seen, len(pairs), name)


def _text(recipe: Recipe, saved: Vocabulary | None) -> Materials:
    data = recipe.data
    if not isinstance(data, TextData | PythonData):
        raise InputError(
            "data.kind", got=data.kind, expected=f"text or python, for task: {recipe.task}"
        )
    text, valid = _documents(data)
    held_out = 0.0 if valid else data.held_out
    vocabulary = saved
    if vocabulary is None:
        sample = survey(text, held_out=held_out, seed=data.seed).texts
        vocabulary = learn_plain(sample, recipe.tokens, recipe.task)
    # A writer learns what documents begin with; the others have symbols of their own around rows.
    begin = recipe.task == "generate" and opens(only_foreign(vocabulary))
    train, aside = _corpora(text, valid, vocabulary, held_out, data.seed, begin=begin)
    made = partial(
        KINDS_OF_ROWS[data.rows], batch_tokens=recipe.train.batch_tokens, seed=recipe.seed
    )
    task = TEXT_TASKS[recipe.task](recipe, vocabulary, train, aside, made)
    return Materials(vocabulary, task, train.checksums | aside.checksums)


def _generate(
    recipe: Recipe, vocabulary: Vocabulary, train: Corpus, valid: Corpus, made: MakeRows
) -> Generate:
    length, smoothing = recipe.model.max_length, recipe.train.label_smoothing
    rows = (made(corpus, length=length) for corpus in (train, valid))
    return Generate(vocabulary, *rows, smoothing=smoothing)


def _fill(
    recipe: Recipe, vocabulary: Vocabulary, train: Corpus, valid: Corpus, made: MakeRows
) -> Fill:
    pairs = isinstance(recipe.model, BertConfig) and recipe.model.next_sentence
    if pairs and made.func is not Packed:
        raise InputError(
            "model.next_sentence: true",
            got="data.rows: stream",
            expected="data.rows: packed, for a pair is cut from one document",
        )
    length, tokenizer = room(recipe.model.max_length, pairs=pairs), only_foreign(vocabulary)
    holes = (
        Holes(
            made(corpus, length=length),
            corruption(tokenizer, corpus, recipe.seed, pairs=pairs, spare=train),
        )
        for corpus in (train, valid)
    )
    return Fill(vocabulary, *holes, smoothing=recipe.train.label_smoothing)


def _restore(
    recipe: Recipe, vocabulary: Vocabulary, train: Corpus, valid: Corpus, made: MakeRows
) -> Restore:
    length = Restore(vocabulary).room(recipe.model.max_length)
    rows = (made(corpus, length=length) for corpus in (train, valid))
    smoothing, seed = recipe.train.label_smoothing, recipe.seed
    return Restore(vocabulary, *rows, smoothing=smoothing, seed=seed)


TEXT_TASKS: dict[str, Callable[..., Any]] = {
    "generate": _generate,
    "fill": _fill,
    "restore": _restore,
}
"""The tasks that learn from plain text."""


def _labelled(recipe: Recipe, saved: Vocabulary | None) -> Materials:
    data, model = recipe.data, recipe.model
    if not isinstance(data, LabelledData):
        raise InputError("data.kind", got=data.kind, expected=f"labelled, for task: {recipe.task}")
    assert isinstance(model, BertConfig)  # a recipe sees to it
    splits = load_labelled(data, recipe.task)
    for problem, count in splits.skipped.items():
        _logger.warning("data: %d examples skipped: %s", count, problem)
    vocabulary = saved
    if vocabulary is None:
        texts = [text for example in splits.train for text in texts_in(example)]
        vocabulary = learn_plain(texts, recipe.tokens, "fill")
    if recipe.task != "answer":
        key = {"classify": "classes", "tag": "tags"}[recipe.task]
        names = getattr(model, key) or labels_in(splits.train)
        if len(names) < 2:
            got = f"{names[0]!r} alone" if names else "none"
            raise InputError(f"{key} in {data.train}", got=got, expected="at least two of them")
        model = model.model_copy(update={key: names})
    model = headed(recipe.task, model)
    task = LABELLED_TASKS[recipe.task](
        vocabulary,
        splits.train,
        splits.valid,
        labels=model.classes or model.tags,
        course=Course(
            longest=min(model.max_length, data.longest or model.max_length),
            overlap=data.overlap,
            unanswerable=data.unanswerable,
            batch_tokens=recipe.train.batch_tokens,
            smoothing=recipe.train.label_smoothing,
            seed=recipe.seed,
        ),
    )
    settled = recipe.model_copy(update={"model": model})
    return Materials(vocabulary, task, splits.checksums, settled)


LABELLED_TASKS: dict[str, type[Classify] | type[Tag] | type[Answer]] = {
    "classify": Classify,
    "tag": Tag,
    "answer": Answer,
}
"""The tasks that learn from labels."""


def _documents(data: TextData | PythonData) -> tuple[Text, Text | None]:
    """The training text, and that to validate with if it is given."""
    if isinstance(data, PythonData):
        return PythonText(), None

    def files(names: tuple[str, ...]) -> TextFiles:
        return TextFiles(find_files(names), data.separator, data.on_bad)

    return files(data.files), files(data.valid) if data.valid else None


def _corpora(
    text: Text,
    valid: Text | None,
    vocabulary: Vocabulary,
    held_out: float,
    seed: int,
    *,
    begin: bool,
) -> tuple[Corpus, Corpus]:
    """The ids of the training and of the validation text."""
    tokenizer, cache = vocabulary.source, cache_folder() / "text"
    corpus = encode(text, tokenizer, cache, begin=begin)
    if valid is None:
        return corpus.split(held_out, seed)
    return corpus, encode(valid, tokenizer, cache, begin=begin)


def cache_folder() -> Path:
    """Where what can be made again is kept: REGARD_CACHE, else the user's own cache folder."""
    given = os.environ.get("REGARD_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"
