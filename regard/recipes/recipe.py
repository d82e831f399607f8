"""A recipe: one typed YAML file with all settings of a run.

In: a file, or the name of a recipe that ships with Regard, and overrides such as `train.steps=500`.
Out: a frozen `Recipe`, every value checked. Errors name file, line and key, the value found and
what was expected; `regard/recipes/messages.py` words them.

A recipe is read in three steps: parse strict YAML, apply the overrides, validate. Nothing is
imported, executed or interpolated on the way.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar, Union

from pydantic import (
    Field,
    PlainValidator,
    SerializeAsAny,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from regard.config import Config, NameIn
from regard.data.config import DATA_KINDS, Columns, DataConfig
from regard.decode.config import DecodeConfig
from regard.errors import InputError, did_you_mean, nearest
from regard.inputs.text.config import TokensConfig
from regard.models import version_1
from regard.models.config import ModelConfig
from regard.models.families import CONFIGS, FAMILIES
from regard.recipes.keys import Keys
from regard.recipes.messages import Source, first_fault, override_label
from regard.recipes.overrides import (
    TASKS_WITH_OWN_FORMAT,
    add_implied_values,
    apply_overrides,
    parse,
    replaced_by_size,
)
from regard.recipes.yaml import one_line, read, write
from regard.runtime.files import read_regular
from regard.tasks.specs import TASKS
from regard.train.config import StartConfig, TrainConfig

VERSION = 2
"""The version of recipes that is written."""
LARGEST = 1_000_000
"""Largest size of a recipe file in bytes; a usual recipe has about a thousand."""

_logger = logging.getLogger(__name__)

LIST_HINT = "`regard recipe` lists the shipped ones"


def _validate_model(values: Any, info: ValidationInfo) -> ModelConfig:
    """Validates the `model` section as the config of the family that it names."""
    kind = _any_of(tuple(family.config for family in FAMILIES.values()))
    return kind.validate_python(values, strict=info.context is STRICT or None)


@cache
def _any_of(configs: tuple[type[ModelConfig], ...]) -> TypeAdapter[ModelConfig]:
    union: Any = Annotated[Union[configs], Field(discriminator="family")]  # noqa: UP007
    return TypeAdapter(union)


STRICT = object()
"""Validation context for values from a recipe's text, which are not converted: "no" is not false,
1.0 is not 1, true is not 1."""


class Recipe(Config):
    """All settings of a run."""

    version: Literal[2]
    """Version of the recipe format; recipes of version 1 are read, too."""
    task: Annotated[str, NameIn(TASKS)]
    data: DataConfig
    tokens: TokensConfig
    model: Annotated[SerializeAsAny[ModelConfig], PlainValidator(_validate_model)]
    train: TrainConfig
    decode: DecodeConfig
    start: StartConfig | None = None
    """The trained model that training starts from; without it, weights are initialized randomly."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Seed of the initial weights, dropout and the order of the data."""

    @model_validator(mode="after")
    def _family_fits_the_task(self) -> Recipe:
        entry = TASKS[self.task]
        if not entry.fits(self.model):
            raise PydanticCustomError(
                "sections_disagree",
                "task: {task} needs model.family: {usual}, got {family}",
                {
                    "keys": (("model", "family"), ("task",)),
                    "task": self.task,
                    "usual": entry.family,
                    "family": self.model.family,
                },
            )
        return self

    @model_validator(mode="after")
    def _one_matrix_needs_one_vocabulary(self) -> Recipe:
        model: Any = self.model
        two_vocabularies = len(model.VOCABULARIES) == 2
        if two_vocabularies and model.head.tied == "all" and not self.tokens.shared:
            raise PydanticCustomError(
                "sections_disagree",
                "model.tied: all needs tokens.shared: true (or set model.tied: output)",
                {"keys": (("model", "tied"), ("tokens", "shared"))},
            )
        return self


KEYS = Keys(
    top={name: Recipe.model_fields[name] for name in ("version", "task", "seed")},
    sections={
        "data": DATA_KINDS,
        "tokens": {"": TokensConfig},
        "model": CONFIGS,
        "train": {"": TrainConfig},
        "decode": {"": DecodeConfig},
        "start": {"": StartConfig},
    },
    tags={"data": "kind", "model": "family"},
    nested=("model",),
)
"""All keys of a recipe: those at the top level, and those of each section by its kind."""


AnyRecipe = TypeVar("AnyRecipe", bound=Config)


@dataclass(frozen=True)
class RecipeFormat(Generic[AnyRecipe]):
    """A kind of recipe: its pydantic type, and all keys that it can have."""

    kind: type[AnyRecipe]
    keys: Keys

    def validate(self, values: Any) -> AnyRecipe:
        """Makes a recipe from the values of its text; raises if one has a wrong type or value."""
        return self.kind.model_validate(values, strict=True, context=STRICT)


FORM = RecipeFormat(Recipe, KEYS)


def task_of(name_or_path: str | os.PathLike[str]) -> str:
    """The task of a recipe, without validating the rest; an empty text if it has none."""
    name, text = find_text(os.fspath(name_or_path))
    values = read(text, lambda line: f"{name}:{line}").values
    return str(values.get("task", "")) if isinstance(values, dict) else ""


def load(name_or_path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe and apply overrides to it.

    Args:
        name_or_path: A file, or a shipped recipe's name.
        overrides: Each `section.key=value`, the value as YAML. Some overrides also remove values
            of the file that no longer apply: `data.kind=…` those of the former kind,
            `model.family=…` those that only the former family has, `model.size=…` all sizes (`dim`,
            `heads`, `layers` and so on; a notice says which), and `start.folder=…` those that the
            folder decides.
            `data.train=…` implies `data.kind=files`, `data.files=…` implies `data.kind=text`, and
            `data.folder=…` and `data.file=…` imply `data.kind=images`.

    Raises:
        InputError: A value or key is wrong; the message names file and line.

    Example:
        >>> load("tiny/copy", ["train.steps=5"]).train.steps
        5
    """
    return load_form(FORM, name_or_path, overrides)


def from_text(text: str, name: str, overrides: Sequence[str] = ()) -> Recipe:
    """As `load`, for the text of a recipe; messages use `name` as the file's name."""
    return form_from_text(FORM, text, name, overrides)


def load_form(
    form: RecipeFormat[AnyRecipe],
    name_or_path: str | os.PathLike[str],
    overrides: Sequence[str] = (),
) -> AnyRecipe:
    """`load` for a recipe of any form."""
    name, text = find_text(os.fspath(name_or_path))
    return form_from_text(form, text, name, overrides, notice=True)


def form_from_text(
    form: RecipeFormat[AnyRecipe],
    text: str,
    name: str,
    overrides: Sequence[str] = (),
    *,
    notice: bool = False,
) -> AnyRecipe:
    """`from_text` for a recipe of any form; with `notice`, one of version 1 is reported."""
    document = read(text, lambda line: f"{name}:{line}")
    if not isinstance(document.values, dict):
        got = "an empty file" if document.values is None else "no keys"
        fix = "`regard recipe tiny/translate` prints one to start from"
        raise InputError(name, got=got, expected="a recipe", fix=fix)
    if form is FORM and document.values.get("task") in TASKS_WITH_OWN_FORMAT:
        got, fix = TASKS_WITH_OWN_FORMAT[document.values["task"]]
        expected = "a model that reads text"
        raise InputError(
            f"{name}: task: {document.values['task']}", got=got, expected=expected, fix=fix
        )
    override_values: dict[tuple[str, ...], Any] = {}
    override_texts: dict[tuple[str, ...], str] = {}
    for i, override in enumerate(overrides):
        try:
            path, value = parse(override, form.keys)
        except InputError:
            form_from_text(form, text, name, overrides[:i])  # an earlier fault is reported first
            raise
        override_values[path], override_texts[path] = value, override
    if document.values.get("version") == 1 and notice:
        _logger.warning("%s", version_notice(name))
    values = _complete(document.values, override_values, form)
    try:
        recipe = form.validate(values)
    except ValidationError as error:
        causes = _find_causes(error, document.values, override_values, form)
        source = Source(name, document.lines, override_texts, causes)
        raise first_fault(error, values, source, form.keys) from None
    if isinstance(recipe, Recipe):
        replaced = replaced_by_size(document.values, override_values, recipe.model)
        _report_replaced(name, replaced, recipe)
    return recipe


def _complete(
    values: dict[str, Any], overrides: Mapping[tuple[str, ...], Any], form: RecipeFormat[Any]
) -> dict[str, Any]:
    """The values of a file with overrides, in today's version, with values that follow."""
    complete = add_implied_values(apply_overrides(values, overrides, form.keys))
    if complete.get("version") != 1:
        return complete
    model = complete.get("model")
    config = CONFIGS.get(str(model.get("family"))) if isinstance(model, dict) else None
    if form is FORM and config is not None and isinstance(model, dict):
        used = version_1.upgraded(config, model)
        complete["model"] = {key: value for key, value in model.items()
                             if key in used or ("model", key) in overrides}  # fmt: skip
    return {**complete, "version": VERSION}


def version_notice(name: str) -> str:
    """The notice for a recipe of version 1."""
    return (
        f"{one_line(name)} is a recipe of version 1, read as version {VERSION}: "
        f"`regard recipe --full {one_line(name)}` prints it in today's form"
    )


def _report_replaced(name: str, replaced: Mapping[str, Any], recipe: Recipe) -> None:
    """Logs which values of a file `model.size=…` has replaced, if any."""
    if replaced:
        values = ", ".join(one_line(f"{key} {value}") for key, value in replaced.items())
        size = recipe.model.size
        _logger.warning("model.size=%s replaces %s of %s", size, values, one_line(name))


def parse_columns(overrides: Sequence[str]) -> Columns:
    """Read which columns overrides name, for a file that is not the recipe's own.

    Args:
        overrides: Such as `data.text=sentence`, `data.label=3` or `data.header=false`.

    Raises:
        InputError: An override is not about a column.
    """
    column_keys = {key for kind in DATA_KINDS.values() for key in getattr(kind, "COLUMNS", ())}
    columns: dict[str, Any] = {}
    header: bool | None = None
    for override in overrides:
        path, value = parse(override, KEYS)
        if path == ("data", "header") and isinstance(value, bool | None):
            header = value
        elif path[0] == "data" and path[-1] in column_keys and type(value) in (str, int):
            columns[path[-1]] = value
        else:
            expected = f"data.KEY=COLUMN with {', '.join(sorted(column_keys))}, or data.header=true"
            raise InputError(override_label(override), expected=expected)
    return Columns(columns, header)


def dump(recipe: Config) -> str:
    """Write a recipe as YAML with all values, defaults included; `load` gives an equal recipe."""
    no_start = getattr(recipe, "start", None) is None
    return write(recipe.model_dump(exclude={"start"} if no_start else None))


def changed(old: Config, new: Config) -> list[str]:
    """The dotted keys in which two recipes differ, in the order of the recipe.

    Example:
        >>> changed(load("tiny/copy"), load("tiny/copy", ["train.steps=5", "seed=1"]))
        ['train.steps', 'seed']
    """
    before, after = dict(_dotted(old)), dict(_dotted(new))
    missing = object()  # not None, since a value can be None
    keys = [*after, *(key for key in before if key not in after)]
    differing = [key for key in keys if before.get(key, missing) != after.get(key, missing)]
    # What differs in all parts of a model that have a key is named by the short key.
    same = [key for key in keys if key not in differing and key.startswith("model.")]
    short_only = {_short(key) for key in differing} - {_short(key) for key in same}
    named = [_short(key) if _short(key) in short_only else key for key in differing]
    return list(dict.fromkeys(named))


def _short(key: str) -> str:
    """`model.encoder.dim` -> `model.dim`; other keys as they are."""
    return f"model.{key.rpartition('.')[2]}" if key.startswith("model.") else key


def shipped() -> dict[str, str]:
    """The recipes that ship with Regard: names and descriptions (their first comment line)."""
    texts = {name: file.read_text("utf-8") for name, file in sorted(_shipped_files())}
    return {name: text.partition("\n")[0].lstrip("# ") for name, text in texts.items()}


def text_of(name: str) -> str:
    """The text of a shipped recipe, with its comments.

    Raises:
        InputError: No recipe of that name ships with Regard.
    """
    for shipped_name, file in _shipped_files():
        if shipped_name == name:
            return file.read_text("utf-8")
    raise _unknown_name_error(name)


def check_unused(run: Path, form: RecipeFormat[Any] = FORM) -> None:
    """Refuses a folder for a new run if it holds a run, or a `recipe.yaml` that no run wrote.

    Args:
        run: The folder.
        form: The form of the recipe that the run would write there.

    Raises:
        InputError: The folder is in use.
    """
    from regard.checkpoint.folder import CHECKPOINTS, RECIPE  # not needed to read recipes

    if (run / CHECKPOINTS).is_dir() and any((run / CHECKPOINTS).iterdir()):
        raise InputError(
            f"{run} already holds a run",
            fix="continue it with --resume, or choose another folder with -o",
        )
    path = run / RECIPE
    if path.is_file() and not is_resolved(path, form):
        raise InputError(
            f"{path} was not written by a run, and would be overwritten",
            fix="choose another folder with -o",
        )


def is_resolved(path: Path, form: RecipeFormat[Any] = FORM) -> bool:
    """Whether a run wrote a recipe: it can be read, and has all values, defaults included."""
    try:
        text = read_regular(path, LARGEST).decode("utf-8", "replace")
        return dump(form_from_text(form, text, str(path))) == text
    except InputError:
        return False


def _dotted(recipe: Config) -> Iterator[tuple[str, object]]:
    for section, values in recipe.model_dump().items():
        if section == "model":
            yield from _leaves(values, "model")
        elif isinstance(values, dict):
            yield from ((f"{section}.{key}", value) for key, value in values.items())
        else:
            yield section, values


def _leaves(values: Any, key: str) -> Iterator[tuple[str, object]]:
    """The single values of nested parts by their dotted keys, such as `model.encoder.dim`."""
    nested = isinstance(values, dict) and values
    parts = values.items() if nested else enumerate(values) if _is_block(values) else ()
    if not parts:
        yield key, values
    for name, value in parts:
        yield from _leaves(value, f"{key}.{name}")


def _is_block(values: Any) -> bool:
    """Whether a value is a list of parts."""
    return isinstance(values, tuple) and bool(values) and isinstance(values[0], dict)


def _shipped_files() -> Iterator[tuple[str, Traversable]]:
    for folder in (files("regard") / "recipes").iterdir():
        if folder.is_dir():
            for file in folder.iterdir():
                if file.name.endswith(".yaml"):
                    yield f"{folder.name}/{file.name.removesuffix('.yaml')}", file


def _unknown_name_error(name: str) -> InputError:
    names = sorted(shipped_name for shipped_name, _ in _shipped_files())
    close = [other for other in names if other.endswith(f"/{name}")] or nearest(name, names)
    fix = f"{did_you_mean(close)} {LIST_HINT}" if close else LIST_HINT
    return InputError(f"recipe {name}", got="no such name", expected="a recipe or a file", fix=fix)


def find_text(name: str) -> tuple[str, str]:
    """The name for messages and the text of a recipe: a file if it exists, else a shipped one."""
    path = Path(name)
    if path.is_dir() and name not in shipped():
        run_recipe = path / "recipe.yaml"
        fix = f"did you mean {run_recipe}?" if run_recipe.is_file() else LIST_HINT
        raise InputError(name, got="a folder", expected="a recipe file", fix=fix)
    if path.suffix in (".yaml", ".yml") or (path.exists() and not path.is_dir()):
        return name, _read_file(path)
    return f"{name}.yaml", text_of(name)


def _read_file(path: Path) -> str:
    """The text of a recipe file, of at most `LARGEST` bytes of UTF-8."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        name = str(path.with_suffix(""))
        fix = f"did you mean the shipped recipe {name}?" if name in shipped() else LIST_HINT
        raise InputError(f"{path}: no such file", fix=fix) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if len(content) > LARGEST:
        raise InputError(str(path), got=f"more than {LARGEST:,} bytes", expected="a recipe")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        fix = "save the file as UTF-8"
        raise InputError(
            f"{path}:{line}", got="another encoding", expected="UTF-8", fix=fix
        ) from None


def _find_causes(
    error: ValidationError,
    values: dict[str, Any],
    override_values: Mapping[tuple[str, ...], Any],
    form: RecipeFormat[Any],
) -> dict[tuple[int | str, ...], tuple[str, ...]]:
    """Finds the override that causes each validation error.

    Each override is left out in turn. The cause is the first without which the error disappears
    and no new one appears; otherwise the first without which its message changes.

    Returns:
        Location of the error, as pydantic gives it -> path of the override's key.
    """
    before = {fault["loc"]: fault["msg"] for fault in error.errors(include_url=False)}
    fixed: dict[tuple[int | str, ...], tuple[str, ...]] = {}
    changed: dict[tuple[int | str, ...], tuple[str, ...]] = {}
    for path in override_values:
        other_overrides = {key: value for key, value in override_values.items() if key != path}
        remaining: dict[tuple[int | str, ...], str] = {}
        try:
            form.validate(_complete(values, other_overrides, form))
        except ValidationError as other:
            remaining = {fault["loc"]: fault["msg"] for fault in other.errors(include_url=False)}
        for location in before:
            if location not in remaining and remaining.keys() <= before.keys():
                fixed.setdefault(location, path)
            elif remaining.get(location) != before[location]:
                changed.setdefault(location, path)
    return changed | fixed
