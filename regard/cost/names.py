"""Resolves the name given to `regard plan` to a recipe, text lengths and a token budget.

A name can be a size of the Transformer (`base`) or of GPT (`gpt2`), a size of another family with
its prefix (`bert-base`, `t5-small`), a published model that is not a size of a family here
(`gopher`), a shipped recipe, a recipe file, or a model's folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from regard.cost.count import RELATIVE
from regard.errors import NEAREST, InputError, did_you_mean, nearest
from regard.inputs.text.config import BYTES_AND_SPECIAL
from regard.layers.grid_config import IMAGE_TOKENS, Convolutions
from regard.layers.stages_config import GridStages
from regard.models.config import ModelConfig
from regard.models.families import FAMILIES, PublishedModel
from regard.recipes import recipe as recipes
from regard.recipes.recipe import Recipe
from regard.recipes.yaml import write
from regard.runs.load import outline
from regard.runs.locate import is_cached
from regard.runs.start import outline_of_start
from regard.runtime.units import aligned

SENTENCE_LENGTH = 30
"""The default number of tokens of a sentence, about the mean of news text in sub-words. For a model
of a single stack, the default is its maximal length."""

MASKED_SHARE = 0.15
"""The share of tokens that are masked in training an encoder, and need logits (Devlin et al.)."""

TOKENS_PER_PARAMETER = 20
"""Training tokens per parameter if none are published (Hoffmann et al. 2022, table 3)."""

EXAMPLES_PER_BATCH = 8
"""Examples in a micro-batch of a model that is planned by its name."""

RECIPES = {"tiny": "tiny/translate", "small": "own/translate", "base": "own/base", "big": "own/big"}
"""The shipped recipe whose vocabulary, training and decoding a size is planned with."""

OTHER_MODELS = {
    "gopher": PublishedModel(
        {"family": "gpt", "dim": 16384, "heads": 128, "hidden": 65536, "layers": 80,
         "max_length": 2048, "norm": "rms", "positions": "none"},
        vocab=32000,
        lengths=(2048,),
        step_tokens=1536 * 2048,
        steps=95_367,
        source="Rae et al. 2021: 300 G tokens",
        flops=6.31e23,
        flops_source="Rae et al. 2021, with a third more for recomputing",
    ),
    "xlnet-large": PublishedModel(
        {"family": "bert", "size": "large", "pooler": "none", "token_types": 0,
         "positions": "none", "embedding_norm": False},
        vocab=32000,
        step_tokens=2048 * 512,
        steps=500_000,
        source="Yang et al. 2019, first version",
    ),
}  # fmt: skip
"""Published models of other families, counted as the most similar family here."""

WITH_RELATIVE_POSITIONS = frozenset({"gopher", "xlnet-large"})
"""Published models in which each layer has a matrix for relative positions, dim × dim (as in
Transformer-XL), which no family here has. It is counted as parameters; the FLOPs are without it,
since its product with the positions is the same for all texts of a batch."""


class FoundRecipe(NamedTuple):
    """The recipe and the vocabulary sizes to plan with."""

    name: str
    """The name of the recipe."""
    recipe: Recipe
    """The recipe, completed from the pretrained model that it starts from, if any."""
    vocabularies: tuple[int, ...]
    """The sizes of the vocabularies: of source and target, or of the only one."""
    vocabularies_from: str
    """Where the sizes come from."""


def published_models() -> dict[str, PublishedModel]:
    """The published models by name; families of a single stack come first."""
    families = sorted(FAMILIES.values(), key=lambda family: family.config.has_target)
    return {name: model for f in families for name, model in f.named.items()} | OTHER_MODELS


def relative_positions(what: str, config: ModelConfig) -> dict[str, int]:
    """The parameters of the matrices for relative positions, for a model that has them."""
    if what not in WITH_RELATIVE_POSITIONS:
        return {}
    return {RELATIVE: sum(config.stacks.values()) * config.first.dim**2}


def unit_of(config: ModelConfig) -> str:
    """What the cost is counted for: `image` of convolutions alone, `row` of a table, or `token`."""
    is_counted_whole = isinstance(config.first, Convolutions | GridStages)
    has_only_convolutions = is_counted_whole and len(config.sides) == 1
    return "image" if has_only_convolutions else str(getattr(config.first, "counted_as", "token"))


def unit_tokens(config: ModelConfig) -> int:
    """What a unit counts in `train.batch_tokens`."""
    return IMAGE_TOKENS if unit_of(config) == "image" else 1


def find(what: str, overrides: Sequence[str], vocab: int | None = None) -> FoundRecipe:
    """The recipe that a name means: that of a size, of a published model, a recipe or a folder.

    Args:
        what: The name.
        overrides: Changes of the recipe, such as `model.dim=1024`.
        vocab: The size of each vocabulary; None: that of the folder, model or recipe.
    """
    if is_folder(what):
        recipe, sizes = outline(what)
        if overrides:
            recipe = recipes.from_text(recipes.dump(recipe), what, overrides)
        sizes = (vocab,) * len(recipe.model.VOCABULARIES) if vocab is not None else sizes
        return FoundRecipe(what, recipe, sizes, "--vocab" if vocab is not None else "the folder's")
    name, recipe = _find_by_name(what, overrides)
    recipe, sizes = outline_of_start(recipe)
    if vocab is not None:
        return FoundRecipe(name, recipe, (vocab,) * len(recipe.model.VOCABULARIES), "--vocab")
    if sizes:
        return FoundRecipe(name, recipe, sizes, "start.folder's")
    max_vocab = BYTES_AND_SPECIAL if recipe.tokens.kind == "bytes" else recipe.tokens.vocab
    source = "its own" if what in published_models() else "the recipe's maximum"
    return FoundRecipe(name, recipe, (max_vocab,) * len(recipe.model.VOCABULARIES), source)


def is_folder(what: str) -> bool:
    """Whether a name means a model's folder, on disk or in the Hugging Face cache.

    Names of sizes, published models and shipped recipes have precedence.
    """
    if what in {*published_models(), *RECIPES, *recipes.shipped()}:
        return False
    return Path(what).is_dir() or (not Path(what).exists() and is_cached(what))


def _find_by_name(what: str, overrides: Sequence[str]) -> tuple[str, Recipe]:
    """The name and the recipe of a published model, a size, a shipped recipe or a file."""
    shipped, path, published = recipes.shipped(), Path(what), published_models()
    if what in published:
        return what, published_recipe(what, published[what], overrides)
    if what in RECIPES or what in shipped or path.suffix in (".yaml", ".yml") or path.exists():
        name = RECIPES.get(what, what)
        return name, recipes.load(name, overrides)
    names = [*RECIPES, *published]
    close_names = [name for name in names if name.startswith(what.lower())]
    close_names = close_names or nearest(what, [*names, *shipped])
    raise InputError(
        f"{what}: no such size or recipe",
        expected="a size such as base, gpt2 or bert-base, a recipe, a file or a model's folder",
        fix=did_you_mean(close_names[:NEAREST], "regard plan"),
    )


def listing() -> str:
    """The names of sizes and published models as text, a line for each family, then recipes."""
    rows = [("the paper's", ", ".join(RECIPES))]
    rows += [(name, ", ".join(family.named)) for name, family in FAMILIES.items() if family.named]
    rows += [("others", ", ".join(OTHER_MODELS)), ("recipes", "as `regard recipe` lists them")]
    return "\n".join(aligned(rows))


def published_recipe(name: str, published: PublishedModel, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of a published model that has no recipe file: its sizes and its training."""
    batch = EXAMPLES_PER_BATCH * sum(published.lengths)
    train = {"batch_tokens": batch, "accumulate": max(1, published.step_tokens // batch)}
    values = {
        "version": recipes.VERSION,
        "task": FAMILIES[published.model["family"]].task,
        "data": {"kind": "none"},
        "tokens": {"kind": "bpe", "vocab": published.vocab},
        "model": published.model,
        "train": train | ({"steps": published.steps} if published.steps else {}),
        "decode": {},
    }
    return recipes.from_text(write(values), name, overrides)


def lengths_of(
    recipe: Recipe, published: PublishedModel | None, length: int | None
) -> tuple[int, ...]:
    """The number of tokens of each text of an example: of source and target, or of the only one.

    Args:
        recipe: The recipe.
        published: The published model, if it is one.
        length: The length that the user gave; None: that of the model or recipe.
    """
    config, longest = recipe.model, recipe.model.max_length
    if length is not None and unit_of(config) == "image":
        raise InputError(
            "--length", got=length, expected="none for convolutions", fix="change model.image"
        )
    if length is not None and unit_of(config) == "row":
        fix = "change model.features, the numbers of a row"
        raise InputError("--length", got=length, expected="none for tables", fix=fix)
    if length is not None:
        if (
            getattr(getattr(config.first, "positions", None), "kind", None) == "learned"
            and length > longest
        ):
            raise InputError("length", got=length, expected=f"at most {longest}")
        return (length,) * (1 + config.has_target)
    if not config.has_target:
        max_text_length = recipe.data.longest if recipe.data.kind == "labelled" else None
        return (min(longest, max_text_length or longest),)
    if published is not None:
        return published.lengths
    source = longest if hasattr(config.first, "grid") else min(SENTENCE_LENGTH, longest)
    return source, min(SENTENCE_LENGTH, config.last.front.max_length)


def targets_of(config: ModelConfig, lengths: Sequence[int]) -> int:
    """The number of tokens of an example whose logits are computed in training."""
    if "decoder" in config.sides:
        return lengths[-1]
    if hasattr(config.first, "grid"):
        return 1
    return max(1, round(MASKED_SHARE * lengths[0]))


class Budget(NamedTuple):
    """The number of training tokens or, for convolutions, images, and where it comes from."""

    tokens: float
    source: str


def budget_of(
    what: str, recipe: Recipe, overrides: Sequence[str], counts: Mapping[str, int]
) -> Budget:
    """The number of training tokens, and where the number comes from.

    Args:
        what: The name that is planned.
        recipe: Its recipe.
        overrides: Changes of the recipe; one of `train.` replaces a published budget.
        counts: The number of parameters of each part.
    """
    published, size = published_models().get(what), unit_tokens(recipe.model)
    changes_training = any(change.startswith("train.") for change in overrides)
    without_recipe = recipe.data.kind == "none" and is_folder(what)
    if not changes_training and (without_recipe or (published is not None and not published.steps)):
        tokens = TOKENS_PER_PARAMETER * sum(counts.values())
        rule = f"{TOKENS_PER_PARAMETER} a parameter"
        return Budget(float(tokens), rule + (", a rule for texts" if size > 1 else ""))
    tokens_or_images = tokens_of(recipe) / size
    if not changes_training and published is not None:
        return Budget(tokens_or_images, published.source)
    step = recipe.train.batch_tokens * recipe.train.accumulate // size
    unit = unit_of(recipe.model)
    counted = "" if unit == "token" else f" {unit}s"
    return Budget(tokens_or_images, f"{recipe.train.steps:,} steps of {step:,}{counted}")


def tokens_of(recipe: Recipe) -> float:
    """The number of tokens that a recipe's training reads, of source and target together."""
    return float(recipe.train.steps * recipe.train.batch_tokens * recipe.train.accumulate)
