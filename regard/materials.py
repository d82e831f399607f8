"""A recipe -> what its model is trained on: a vocabulary, a task with its data, and checksums."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.config import PythonData, TextData
from regard.data.corpus import Corpus, encode, survey
from regard.data.documents import Text, TextFiles, find_files
from regard.data.packing import Packed, Rows, Stream
from regard.data.pages import PythonText
from regard.data.sources import Loaded, load_splits
from regard.errors import InputError
from regard.recipe import Recipe
from regard.tasks import Generate, Translate
from regard.tokens import Vocabulary, learn
from regard.tokens.plain import learn_plain

_logger = logging.getLogger(__name__)

KINDS_OF_ROWS: dict[str, type[Packed] | type[Stream]] = {"packed": Packed, "stream": Stream}


@dataclass(frozen=True, eq=False)
class Materials:
    """What a run is made from."""

    vocabulary: Vocabulary
    task: Any
    checksums: dict[str, str]


def gather(recipe: Recipe, saved: Vocabulary | None = None) -> Materials:
    """Reads or generates the data of a recipe.

    Args:
        recipe: Of the run.
        saved: The vocabulary of a run that goes on; without it one is learned.
    """
    if recipe.task == "translate":
        return _pairs(recipe, saved)
    if recipe.task == "generate":
        return _text(recipe, saved)
    raise InputError(
        f"task: {recipe.task}", got="a recipe to train", expected="translate or generate"
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
        raise InputError("data.kind", got=data.kind, expected="text or python, for task: generate")
    text, valid = _documents(data)
    held_out = 0.0 if valid else data.held_out
    vocabulary = saved
    if vocabulary is None:
        sample = survey(text, held_out=held_out, seed=data.seed).texts
        vocabulary = learn_plain(sample, recipe.tokens, recipe.task)
    train, aside = _corpora(text, valid, vocabulary, held_out, data.seed)
    rows = KINDS_OF_ROWS[data.rows]

    def made(corpus: Corpus) -> Rows:
        return rows(
            corpus,
            length=recipe.model.max_length,
            batch_tokens=recipe.train.batch_tokens,
            seed=recipe.seed,
        )

    task = Generate(vocabulary, made(train), made(aside), smoothing=recipe.train.label_smoothing)
    return Materials(vocabulary, task, train.checksums | aside.checksums)


def _documents(data: TextData | PythonData) -> tuple[Text, Text | None]:
    """The training text, and that to validate with if it is given."""
    if isinstance(data, PythonData):
        return PythonText(), None

    def files(names: tuple[str, ...]) -> TextFiles:
        return TextFiles(find_files(names), data.separator, data.on_bad)

    return files(data.files), files(data.valid) if data.valid else None


def _corpora(
    text: Text, valid: Text | None, vocabulary: Vocabulary, held_out: float, seed: int
) -> tuple[Corpus, Corpus]:
    """The ids of the training and of the validation text."""
    tokenizer, cache = vocabulary.source, cache_folder() / "text"
    corpus = encode(text, tokenizer, cache, begin=True)
    if valid is None:
        return corpus.split(held_out, seed)
    return corpus, encode(valid, tokenizer, cache, begin=True)


def cache_folder() -> Path:
    """Where what can be made again is kept: REGARD_CACHE, else the user's own cache folder."""
    given = os.environ.get("REGARD_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"
