"""A name -> what is to be planned: a recipe, the lengths of its texts, the tokens of its training.

Names on the command line: the Transformer's sizes have their own (`base`), as have GPT's (`gpt2`);
sizes of other families bear the family's (`bert-base`, `t5-small`). Beside them stand models that
are no size here (`gopher`), shipped recipes, and files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from regard import recipe as recipes
from regard.document import write
from regard.errors import InputError
from regard.models.config import BertConfig, ModelConfig
from regard.models.cost import sides
from regard.models.named import NAMED, Named
from regard.recipe import Recipe

LENGTH = 30
"""Tokens of a sentence, where nobody says how many: about the mean of news text in sub-words. A
model of one stack reads texts as long as it can."""

HIDDEN = 0.15
"""The share of a text that an encoder learns to fill, and computes logits of (Devlin et al.)."""

ENOUGH = 20
"""Tokens a parameter, where nobody published how many (Hoffmann et al. 2022, table 3)."""

EXAMPLES = 8
"""In a micro-batch of a model that is planned by its name."""

RECIPES = {"tiny": "tiny/translate", "small": "own/translate", "base": "own/base", "big": "own/big"}
"""The shipped recipe whose vocabulary, training and decoding a size is planned with."""

TASKS = {"gpt": "generate", "bert": "fill", "t5": "translate"}
"""What a named model of a family is for."""


def find(what: str, overrides: Sequence[str]) -> tuple[str, Recipe]:
    """A recipe and its name: a size's, a named model's, or the recipe itself."""
    shipped, path = recipes.shipped(), Path(what)
    if what in NAMED:
        return what, named_recipe(what, NAMED[what], overrides)
    if what in RECIPES or what in shipped or path.suffix in (".yaml", ".yml") or path.exists():
        name = RECIPES.get(what, what)
        return name, recipes.load(name, overrides)
    names = [*RECIPES, *NAMED]
    near = [name for name in names if name.startswith(what.lower())]
    near = near or get_close_matches(what.lower(), [*names, *shipped], n=3)
    raise InputError(
        f"{what}: no such size or recipe",
        expected="a size such as base, gpt2 or bert-base, a recipe or a file",
        fix=f"did you mean {', '.join(near)}?" if near else f"sizes: {', '.join(names)}",
    )


def named_recipe(name: str, named: Named, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of a model that has a name and no file: its sizes, and its training."""
    batch = EXAMPLES * sum(named.lengths)
    train = {"batch_tokens": batch, "accumulate": max(1, named.step_tokens // batch)}
    values = {
        "version": 1,
        "task": TASKS[named.model["family"]],
        "data": {"kind": "none"},
        "tokens": {"kind": "bpe", "vocab": named.vocab},
        "model": named.model,
        "train": train | ({"steps": named.steps} if named.steps else {}),
        "decode": {},
    }
    return recipes.from_text(write(values), name, overrides)


def lengths_of(config: ModelConfig, named: Named | None, length: int | None) -> tuple[int, ...]:
    """Tokens of the texts of an example."""
    longest = config.max_length
    if length is not None:
        if config.positions == "learned" and length > longest:
            raise InputError("length", got=length, expected=f"at most {longest}")
        return (length,) * sides(config)
    if sides(config) == 1:
        return (longest,)
    return named.lengths if named is not None else (min(LENGTH, longest),) * 2


def targets_of(config: ModelConfig, lengths: Sequence[int]) -> int:
    """Tokens of an example whose logits are computed."""
    if isinstance(config, BertConfig):
        return max(1, round(HIDDEN * lengths[0]))
    return lengths[-1]


class Budget(NamedTuple):
    """Tokens of a training, and what that number rests on."""

    tokens: float
    source: str


def budget_of(
    what: str, recipe: Recipe, overrides: Sequence[str], counts: Mapping[str, int]
) -> Budget:
    """The tokens of a training, and what that number rests on."""
    named = NAMED.get(what)
    if named is not None and not any(change.startswith("train.") for change in overrides):
        if not named.steps:
            return Budget(float(ENOUGH * sum(counts.values())), f"{ENOUGH} a parameter")
        return Budget(tokens_of(recipe), named.source)
    step = recipe.train.batch_tokens * recipe.train.accumulate
    return Budget(tokens_of(recipe), f"{recipe.train.steps:,} steps of {step:,}")


def tokens_of(recipe: Recipe) -> float:
    """Tokens that a recipe's training reads, source and target."""
    return float(recipe.train.steps * recipe.train.batch_tokens * recipe.train.accumulate)
