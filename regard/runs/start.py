"""The start of a run: from random weights, from a pretrained folder, or from its own checkpoint.

In: a recipe, and the checkpoint if the run is resumed. Out: a `RunStart`: the recipe completed
with the model config and tokenizer of `start.folder`, or with the encoder of `start.encoder`, and
the weights to copy. A resumed run takes all of that from its own checkpoint, since the folder may
no longer exist.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from regard.checkpoint.folder import Snapshot, folder_name
from regard.config import Config
from regard.data.config import MixtureData
from regard.errors import InputError
from regard.inputs.processor import Processor
from regard.inputs.text import Vocabulary
from regard.layers import freezing
from regard.layers.relative import resized_table
from regard.layers.short import Path, value_at, values_of, with_value
from regard.models import Model, parse_description
from regard.models.config import GIVEN, ModelConfig
from regard.models.load_weights import check_weights
from regard.recipes.overrides import MAY_DIFFER
from regard.recipes.recipe import Recipe
from regard.runs.load import load, outline, recipe_of_run
from regard.runs.locate import UnknownModel
from regard.tasks.labelled_task import LABEL_KEYS, is_labelled, with_task_head
from regard.tasks.specs import TASKS
from regard.train.config import Freeze

KEYS_OF_FOLDER = {"family", "size", "pooler"}
"""Keys of `model` that the folder and the task decide; a recipe's values are ignored. So are those
of all heads except `classes` and `tags`."""

ENCODER_PARTS = ("embed", "encoder")
"""The parts of a model of images that `start.encoder` copies: front and stack."""
COMMANDS = {
    "classify": "regard train own/classify-scratch",
    "tag": "regard train own/classify-scratch task=tag",
}
"""The command that trains a model for a task without a pretrained one."""


@dataclass(frozen=True, eq=False)
class RunStart:
    """What a run starts with."""

    recipe: Recipe
    """The recipe with the model config and the tokens of the folder."""
    vocabulary: Any = None
    """Tokenizers or image reader of the folder; None if they are yet to be learned."""
    vocabularies: tuple[int, ...] = ()
    """Rows of the embedding matrices; empty means the sizes of the vocabularies."""
    config: ModelConfig | None = None
    """Config of the folder's model; None without a folder."""
    weights: dict[str, Tensor] = field(default_factory=dict)
    """Weights of the folder's model."""
    parts: tuple[str, ...] = ()
    """The parts whose weights are copied; empty: all but heads that differ."""

    def prepare(self, model: Any) -> None:
        """Copies the weights into a new model and freezes the parts that `start.freeze` names."""
        self._copy_weights(model)
        if self.recipe.start is not None:
            encoder_alone = self.recipe.start.encoder is not None
            freeze(model, self.recipe.start.freeze, encoder_alone=encoder_alone)

    def _copy_weights(self, model: Any) -> None:
        """Copies all weights except those of heads whose config differs, such as other classes."""
        if self.config is None:
            return
        if self.parts:
            self._copy_parts(model)
            return
        new_heads = tuple(
            f"{head}." for head in model.config.HEADS
            if getattr(self.config, head, None) != getattr(model.config, head, None)
            or (head == "numbers" and _widths(self.config) != _widths(model.config))
        )  # fmt: skip
        state = model.state_dict()
        missing = [
            name for name in state
            if name not in self.weights and not name.startswith((*new_heads, "pooler."))
        ]  # fmt: skip
        if missing:
            raise InputError(f"start.folder has no weights for {missing[0]}")
        new_state = {
            name: _fitted(name, self.weights[name], tensor)
            if name in self.weights and not name.startswith(new_heads)
            else tensor
            for name, tensor in state.items()
        }  # fmt: skip
        model.load_state_dict(new_state)

    def _copy_parts(self, model: Any) -> None:
        """Copies the weights of some parts, which are the same in both models."""
        for part in self.parts:
            prefix = f"{part}."
            weights = {
                name.removeprefix(prefix): weight
                for name, weight in self.weights.items()
                if name.startswith(prefix)
            }
            getattr(model, part).load_state_dict(weights)


def _widths(config: Any) -> tuple[int, ...]:
    """The widths of the hidden layers of a head for numbers; none if it cannot have any."""
    widths: tuple[int, ...] = getattr(config.head, "widths", ())
    return widths


def begin(recipe: Recipe, snapshot: Snapshot | None) -> RunStart:
    """Determines what a run starts with.

    Args:
        recipe: As the user gave it.
        snapshot: The checkpoint that the run resumes from; None for a new run.

    Raises:
        InputError: The folder's model does not suit the recipe.
    """
    if snapshot is not None:
        old = recipe_of_run(snapshot.recipe, "recipe.yaml")
        config, sizes = parse_description(snapshot.config)
        check_weights(config, sizes, snapshot.weights, f"checkpoint {folder_name(snapshot.step)}")
        return RunStart(
            with_model_of_run(recipe, old), Vocabulary.from_json(snapshot.tokenizer), sizes
        )
    if recipe.start is None:
        return RunStart(recipe)
    with torch.random.fork_rng(devices=[]), _advice_without_model(recipe):
        # Loading must not change how a new head is drawn.
        pretrained = load(recipe.start.source, device="cpu", download=False)
    complete = with_pretrained_model(recipe, pretrained.recipe)
    if recipe.start.encoder is not None:
        return RunStart(
            complete,
            Processor(pretrained.processor.source),
            config=pretrained.model.config,
            weights=pretrained.model.state_dict(),
            parts=ENCODER_PARTS,
        )
    return RunStart(
        complete,
        pretrained.processor,
        tuple(pretrained.model.vocabularies().values()),
        pretrained.model.config,
        pretrained.model.state_dict(),
    )


@contextmanager
def _advice_without_model(recipe: Recipe) -> Iterator[None]:
    """A context in which an unknown folder is reported with the recipe that needs none."""
    try:
        yield
    except UnknownModel as error:
        if recipe.task not in COMMANDS or recipe.start is None or recipe.start.folder is None:
            raise
        fix = f"name a pretrained encoder, such as small/fill; without one: {COMMANDS[recipe.task]}"
        raise InputError(f"start.folder: {error.what}", fix=fix) from None


def outline_of_start(recipe: Recipe) -> tuple[Recipe, tuple[int, ...]]:
    """The recipe as `begin` completes it and the vocabulary sizes, without loading weights.

    Args:
        recipe: As the user gave it; without `start` it is returned unchanged, with no sizes.
    """
    if recipe.start is None:
        return recipe, ()
    with _advice_without_model(recipe):
        base, sizes = outline(recipe.start.source)
    complete = with_pretrained_model(recipe, base)
    return complete, sizes if recipe.start.encoder is None else ()


def with_pretrained_model(recipe: Recipe, base: Recipe) -> Recipe:
    """Completes a recipe with the model and tokens, or the encoder, that it starts from.

    Args:
        recipe: As the user gave it; without `start` it is returned unchanged.
        base: The recipe of the folder's model.

    Raises:
        InputError: The recipe sets a value that the folder decides.
    """
    if recipe.start is None:
        return recipe
    if recipe.start.encoder is not None:
        return _with_encoder(recipe, base.model)
    for key in recipe.tokens.model_fields_set:
        if getattr(recipe.tokens, key) != getattr(base.tokens, key):
            raise InputError(
                f"tokens.{key}",
                got=getattr(recipe.tokens, key),
                expected=f"none: the tokenizer is that of {recipe.start.folder}",
            )
    model = _pretrained_config(recipe, base.model, recipe.start.source)
    try:
        return Recipe.model_validate({**dict(recipe), "model": model, "tokens": base.tokens})
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]["msg"]
        raise InputError(f"start.folder {recipe.start.folder}", got=problem) from None


def _with_encoder(recipe: Recipe, base: ModelConfig) -> Recipe:
    """Completes a recipe with the encoder of another model.

    Args:
        recipe: The recipe; of `model.encoder` it only sets what may differ.
        base: The config of the model whose encoder is used.
    """
    folder = "" if recipe.start is None else recipe.start.source
    sides = base.sides.keys(), recipe.model.sides.keys()
    if base.reads != recipe.model.reads or not all("encoder" in names for names in sides):
        raise InputError(
            "start.encoder",
            got=f"{folder}, a {base.family} model that reads {base.reads}",
            expected=f"a model with an encoder of {recipe.model.reads}",
        )
    encoder = base.model_dump()["encoder"]
    if "dense" in encoder:  # dense layers make one vector of an image: they belong to its classes
        encoder["dense"] = ()
    values = {**recipe.model.model_dump(), "encoder": encoder}
    for path, statement in recipe.model.written().items():
        if path[0] != "encoder":
            continue
        if path[-1] in MAY_DIFFER:
            values = with_value(values, list(path), statement.value)
        else:
            _check_same(recipe.model, base, path, folder)
    try:
        return recipe.model_copy(update={"model": type(recipe.model).model_validate(values)})
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]["msg"]
        raise InputError(f"start.encoder {folder}", got=problem) from None


def with_model_of_run(recipe: Recipe, old: Recipe) -> Recipe:
    """Completes a recipe with the model, tokens, classes and tags of the run that is resumed.

    Args:
        recipe: As the user gave it.
        old: The recipe of the run's checkpoint.
    """
    task_class = TASKS[recipe.task].class_for(recipe.model)
    model = task_class.complete_config(recipe.task, recipe.model, old.model)
    changes: dict[str, Any] = {"model": model, "data": _with_header_of(old.data, recipe.data)}
    return with_pretrained_model(recipe.model_copy(update=changes), old)


def _with_header_of(old: Any, data: Any) -> Any:
    """The recipe's data without headers that the run did not look for, as `recipe_of_run` says."""
    if isinstance(data, MixtureData) and isinstance(old, MixtureData):
        parts = {
            name: _with_header_of(old.parts.get(name), part) for name, part in data.parts.items()
        }
        return data.model_copy(update={"parts": parts})
    if getattr(old, "header", None) is False and getattr(data, "header", 0) is None:
        return data.model_copy(update={"header": False})
    return data


def _pretrained_config(recipe: Recipe, base: Any, folder: str) -> ModelConfig:
    """The config of the folder's model with the recipe's changes and the head for its task."""
    ignored = {*KEYS_OF_FOLDER, *recipe.model.HEADS} - MAY_DIFFER
    values = base.model_dump()
    own_values: dict[Path, Any] = {}
    for path, statement in recipe.model.written().items():
        key = str(path[-1])
        if key in MAY_DIFFER or (key in base.RESIZABLE and statement.source == GIVEN):
            own_values[statement.origin] = statement.value
        elif key not in ignored:
            _check_same(recipe.model, base, path, folder)
    if not is_labelled(recipe.task):
        return _with_values(base, values, own_values)
    if "decoder" in base.sides:
        raise InputError(
            f"task: {recipe.task}",
            got=f"{folder}, a {base.family} model, to start from",
            expected="an encoder: BERT, RoBERTa, DistilBERT",
        )
    # Names of classes or tags come from the recipe, else from the data.
    for key in LABEL_KEYS:
        if key in base.HEADS:
            values = with_value(values, [key], ())
    if "pooling_layer" in type(base.head).model_fields:  # it belongs to a task of the pretraining
        values = with_value(values, ["pooling_layer"], value=False)
    return with_task_head(recipe.task, _with_values(base, values, own_values))


def _fitted(name: str, weight: Tensor, present: Tensor) -> Tensor:
    """A trained weight for a new model: biases by offset are interpolated for other windows."""
    if name.endswith(".score_bias.table") and weight.shape != present.shape:
        return resized_table(weight, (math.isqrt(len(present)) + 1) // 2)
    return weight


def _check_same(model: ModelConfig, base: ModelConfig, path: Path, folder: str) -> None:
    """Refuses a value of a recipe that is another in the folder's model.

    Args:
        model: The recipe's config.
        base: The config of the folder's model.
        path: The path of a value that the recipe has set.
        folder: The folder's name.
    """
    key, wanted = str(path[-1]), value_at(model, path)
    elsewhere = [
        value for _, value in values_of(base, key)
    ]  # if the folder's model has other parts
    expected = value_at(base, path, next(iter(elsewhere), None))
    is_section = isinstance(wanted, Config) or key == "block"  # its values are checked one by one
    if is_section or wanted == expected:
        return
    statement = model.origins[path]
    by_size = f" by model.size: {model.size}" if statement.source == 1 else ""
    raise InputError(
        f"model.{'.'.join(map(str, statement.origin))}",
        got=f"{wanted}{by_size}",
        expected=f"{expected}, as in {folder}",
        fix=f"only {', '.join(sorted({*MAY_DIFFER, *base.RESIZABLE}))} may be set beside start",
    )


def _with_values(base: Any, values: dict[str, Any], own_values: Mapping[Path, Any]) -> Any:
    """The config of the folder's model with the values of a recipe that may differ."""
    for origin, value in own_values.items():
        values = with_value(values, origin, value)
    return type(base).model_validate(values)


def freeze(model: Model, what: Freeze, *, encoder_alone: bool = False) -> None:
    """Freezes a part of a model: no gradients, no optimizer state, no dropout.

    Args:
        model: A model of any family.
        what: The value of `start.freeze`.
        encoder_alone: Whether only the encoder comes from a trained model.

    Raises:
        InputError: The model has fewer layers, or no trainable parameter would be left.
    """
    if what == "none":
        return
    depths = model.depths()
    if encoder_alone:  # the embedding of what the model writes is no part of the encoder
        depths[0] = [part for part in depths[0] if part is not getattr(model, "target_embed", None)]
    layers = len(depths) - 2  # without the embeddings (first) and the final norm (last)
    number = {"embeddings": 0, "all": layers}.get(str(what), what)
    if not isinstance(number, int) or not 0 <= number <= layers:
        expected = f"0 to {layers}, the {model.reader}'s layers"
        raise InputError("start.freeze", got=what, expected=expected)
    frozen = depths if what == "all" else depths[: 1 + number]
    for part in (part for depth in frozen for part in depth):
        freezing.freeze(part)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError("start.freeze", got=what, expected="some parameters left to train")
