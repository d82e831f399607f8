"""Where a run begins: from nothing, from a pretrained folder, or from its own checkpoint.

In: a recipe, and the checkpoint if the run goes on. Out: a `Beginning`, the recipe with what the
folder decides (its model, its tokenizer) and the weights to copy. A run that goes on asks its own
checkpoint instead: the folder may be gone by then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from regard.errors import InputError
from regard.layers import Dropout
from regard.layers.attention import Attention
from regard.models import Model, understood
from regard.models.config import ModelConfig
from regard.recipes import recipe as recipes
from regard.recipes.recipe import MAY_DIFFER, Recipe
from regard.runs.load import check_weights, load, outline
from regard.tasks.entries import TASKS
from regard.tasks.labelled import NAMES, headed, is_labelled
from regard.tokens import Vocabulary
from regard.train.checkpoint.folder import folder_name
from regard.train.checkpoint.run import Snapshot
from regard.train.config import Freeze

DECIDED = {"family", "size", "pooler"}
"""Keys that the folder and the task decide, whatever a recipe says; and all heads without names."""


@dataclass(frozen=True, eq=False)
class Beginning:
    """What a run starts with."""

    recipe: Recipe
    """With the model and the tokens of the folder."""
    vocabulary: Any = None
    """What makes items into what the model reads; None: to be learned."""
    vocabularies: tuple[int, ...] = ()
    """How many entries the model's matrices have; none: as many as the vocabulary."""
    config: ModelConfig | None = None
    weights: dict[str, Tensor] = field(default_factory=dict)
    """Of the folder's model, whose config that is."""

    def prepare(self, model: Any) -> None:
        """Copies the weights into a new model and freezes what is to stay as it is."""
        self._copy(model)
        if self.recipe.start is not None:
            freeze(model, self.recipe.start.freeze)

    def _copy(self, model: Any) -> None:
        """All but the heads that differ: two classes of another name are other classes."""
        if self.config is None:
            return
        differing = tuple(
            f"{head}." for head in model.config.HEADS
            if getattr(self.config, head, None) != getattr(model.config, head, None)
        )  # fmt: skip
        state = model.state_dict()
        missing = [
            name for name in state
            if name not in self.weights and not name.startswith((*differing, "pooler."))
        ]  # fmt: skip
        if missing:
            raise InputError(f"start.folder has no weights for {missing[0]}")
        taken = {
            name: self.weights[name] if name in self.weights and not name.startswith(differing)
            else tensor
            for name, tensor in state.items()
        }  # fmt: skip
        model.load_state_dict(taken)


def begin(recipe: Recipe, snapshot: Snapshot | None) -> Beginning:
    """Finds out what a run starts with.

    Args:
        recipe: As it was given.
        snapshot: The checkpoint that the run goes on from.

    Raises:
        InputError: The folder cannot be what the recipe wants.
    """
    if snapshot is not None:
        old = recipes.from_text(snapshot.recipe, "recipe.yaml")
        config, sizes = understood(snapshot.config)
        check_weights(config, sizes, snapshot.weights, f"checkpoint {folder_name(snapshot.step)}")
        return Beginning(continued(recipe, old), Vocabulary.from_json(snapshot.tokenizer), sizes)
    if recipe.start is None:
        return Beginning(recipe)
    with torch.random.fork_rng(devices=[]):  # a new head is drawn by the seed alone
        found = load(recipe.start.folder, device="cpu", download=False)
    return Beginning(
        settled(recipe, found.recipe),
        found.processor,
        tuple(found.model.vocabularies().values()),
        found.model.config,
        found.model.state_dict(),
    )


def sketched(recipe: Recipe) -> tuple[Recipe, tuple[int, ...]]:
    """A recipe as `begin` settles it, and the sizes of its folder's vocabularies, without weights.

    Args:
        recipe: As it was given; one without a start stays as it is, and has no sizes yet.
    """
    if recipe.start is None:
        return recipe, ()
    base, sizes = outline(recipe.start.folder)
    return settled(recipe, base), sizes


def settled(recipe: Recipe, base: Recipe) -> Recipe:
    """A recipe with the model and tokens of what it begins from, and the changes it asks for.

    Args:
        recipe: As it was given; one without a start stays as it is.
        base: That of the folder.
    """
    if recipe.start is None:
        return recipe
    for key in recipe.tokens.model_fields_set:
        if getattr(recipe.tokens, key) != getattr(base.tokens, key):
            raise InputError(
                f"tokens.{key}",
                got=getattr(recipe.tokens, key),
                expected=f"none: the tokenizer is that of {recipe.start.folder}",
            )
    model = _started(recipe, base.model, recipe.start.folder)
    try:
        return Recipe.model_validate({**dict(recipe), "model": model, "tokens": base.tokens})
    except ValidationError as error:
        said = error.errors(include_url=False)[0]["msg"]
        raise InputError(f"start.folder {recipe.start.folder}", got=said) from None


def continued(recipe: Recipe, old: Recipe) -> Recipe:
    """A recipe with what the run that goes on has settled: its model, tokens, classes and tags.

    Args:
        recipe: As it was given.
        old: Of the run's checkpoint.
    """
    model = TASKS[recipe.task].kind.settled(recipe.task, recipe.model, old.model)
    return settled(recipe.model_copy(update={"model": model}), old)


def _started(recipe: Recipe, base: Any, folder: str) -> ModelConfig:
    """The model of a folder with what the recipe changes, and the head of its task."""
    decided = {*DECIDED, *recipe.model.HEADS} - MAY_DIFFER
    given = {key: getattr(recipe.model, key) for key in recipe.model.model_fields_set - decided}
    values = base.model_dump()
    for key, value in given.items():
        if key not in MAY_DIFFER and value != values.get(key):
            raise InputError(
                f"model.{key}",
                got=value,
                expected=f"{values.get(key)}, as in {folder}",
                fix=f"with start.folder, model has only {', '.join(sorted(MAY_DIFFER))}",
            )
    if not is_labelled(recipe.task):
        return type(base).model_validate(values | given)
    if base.shape != "encoder":
        raise InputError(
            f"task: {recipe.task}",
            got=f"{folder}, a {base.family} model, to begin from",
            expected="an encoder: BERT, RoBERTa, DistilBERT",
        )
    # named by the data, if the recipe does not
    values |= {key: () for key in NAMES if key in base.HEADS}
    return headed(recipe.task, type(base).model_validate(values | given))


def freeze(model: Model, what: Freeze) -> None:
    """Keeps a part of a model as it is: no gradients, nothing in the optimizer, no dropout.

    Dropout is there to keep weights from leaning on each other; weights that do not learn would
    only have their output blurred.

    Args:
        model: Any family.
        what: As `start.freeze` says.

    Raises:
        InputError: There are fewer layers, or nothing would be left to learn.
    """
    if what == "none":
        return
    depths = model.depths()
    layers = len(depths) - 2  # between what embeds and what stands on top
    number = {"embeddings": 0, "all": layers}.get(str(what), what)
    if not isinstance(number, int) or not 0 <= number <= layers:
        expected = f"0 to {layers}, the {model.reader}'s layers"
        raise InputError("start.freeze", got=what, expected=expected)
    frozen = depths if what == "all" else depths[: 1 + number]
    for part in (part for depth in frozen for part in depth):
        part.requires_grad_(requires_grad=False)
        for inner in part.modules():
            if isinstance(inner, Dropout):
                inner.p = 0.0
            elif isinstance(inner, Attention):
                inner.dropout = 0.0
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError("start.freeze", got=what, expected="something left to learn")
