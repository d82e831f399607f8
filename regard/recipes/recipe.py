"""A recipe: one typed YAML file that says everything a run depends on.

Comes in: a file, or the name of a recipe that ships with Regard, and overrides such as
`train.steps=500`. Goes out: a frozen `Recipe`, every value checked. What is wrong is said with
file, line and key, what was got and what was expected; `regard/recipes/messages.py` has the words.

Values go from file to `Recipe` in three steps: read (strict YAML), lay the overrides over it,
validate. Nothing is imported, executed or interpolated on the way.
"""

from __future__ import annotations

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
from regard.data.config import (
    DataConfig,
    DigitsData,
    FileData,
    GrammarData,
    LabelledData,
    MixtureData,
    NoData,
    PythonData,
    TextData,
    ToyData,
)
from regard.decode.config import DecodeConfig
from regard.errors import InputError
from regard.models.config import ModelConfig
from regard.models.families import CONFIGS
from regard.recipes.messages import Keys, Source, closest, first_fault, override_label
from regard.recipes.yaml import read, write
from regard.runtime.files import read_regular
from regard.tasks.entries import TASKS
from regard.tokens.config import TokensConfig
from regard.train.config import StartConfig, TrainConfig

LARGEST = 1_000_000
"""Bytes; a recipe has about a thousand."""

DATA_KINDS: dict[str, type[Config]] = {
    "grammar": GrammarData,
    "copy": ToyData,
    "reverse": ToyData,
    "sort": ToyData,
    "files": FileData,
    "text": TextData,
    "python": PythonData,
    "labelled": LabelledData,
    "digits": DigitsData,
    "mixture": MixtureData,
    "none": NoData,
}
USUAL = "translate"
"""The task whose family a model has, if neither the recipe's task nor the model says which."""
MAY_DIFFER = {"dropout", "hidden_dropout", "attention_dropout", "classes", "tags"}
"""Keys of a model that a recipe can set anew where its weights begin from a folder's."""
FILES = {("data", "train"), ("data", "valid"), ("data", "test"), ("data", "files")}
"""The keys that take one file or several."""
IMPLIED = {"train": "files", "files": "text"}
"""The kind of data that a key of it means, where the kind that there is has no such key."""

LIST = "`regard recipe` lists the shipped ones"


def _of_a_family(values: Any, info: ValidationInfo) -> ModelConfig:
    """The config of the family that the values name."""
    kind = _any_of(tuple(CONFIGS.values()))
    return kind.validate_python(values, strict=info.context is STRICTLY or None)


@cache
def _any_of(configs: tuple[type[ModelConfig], ...]) -> TypeAdapter[ModelConfig]:
    union: Any = Annotated[Union[configs], Field(discriminator="family")]  # noqa: UP007
    return TypeAdapter(union)


STRICTLY = object()
"""The context of a recipe's text: "no" is not false, 1.0 is not 1, true is not 1."""


class Recipe(Config):
    """Everything a run depends on."""

    version: Literal[1]
    """Of the recipe format."""
    task: Annotated[str, NameIn(TASKS)]
    data: DataConfig
    tokens: TokensConfig
    model: Annotated[SerializeAsAny[ModelConfig], PlainValidator(_of_a_family)]
    train: TrainConfig
    decode: DecodeConfig
    start: StartConfig | None = None
    """Where the weights begin; without it they are drawn."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Of the weights, dropout and the order of the data."""

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
        if getattr(self.model, "tied", None) == "all" and not self.tokens.shared:
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
)
"""Every key a recipe can have: at the top, and in each section by its kind."""


AnyRecipe = TypeVar("AnyRecipe", bound=Config)


@dataclass(frozen=True)
class Form(Generic[AnyRecipe]):
    """A kind of recipe: its sections as a type, and every key that they can have."""

    kind: type[AnyRecipe]
    keys: Keys

    def validate(self, values: Any) -> AnyRecipe:
        """The recipe that these values are, as they stand in a text."""
        return self.kind.model_validate(values, strict=True, context=STRICTLY)


FORM = Form(Recipe, KEYS)
OF_THEIR_OWN = {"vectors"}
"""Tasks whose recipes have sections of their own; `task_of` tells, and who trains them reads them
with their own form."""


def task_of(name_or_path: str | os.PathLike[str]) -> str:
    """The task of a recipe, before anything else in it is looked at; empty if it has none."""
    name, text = _find(os.fspath(name_or_path))
    values = read(text, lambda line: f"{name}:{line}").values
    return str(values.get("task", "")) if isinstance(values, dict) else ""


def load(name_or_path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe and lay overrides over it.

    Args:
        name_or_path: A file, or a shipped recipe's name.
        overrides: Each `section.key=value`, the value as YAML. `data.kind=…` takes the keys of
            the former kind away, `data.train=…` implies `data.kind=files` and `data.files=…`
            `data.kind=text`, `model.family=…` takes away what only the former family has,
            `model.size=…` takes away what the former size had given, and
            `start.folder=…` what the folder decides.

    Raises:
        InputError: Something in it is not as it should be, with file and line.

    Example:
        >>> load("tiny/copy", ["train.steps=5"]).train.steps
        5
    """
    return load_form(FORM, name_or_path, overrides)


def from_text(text: str, name: str, overrides: Sequence[str] = ()) -> Recipe:
    """The same for a recipe's text; `name` is what messages call it."""
    return form_from_text(FORM, text, name, overrides)


def load_form(
    form: Form[AnyRecipe], name_or_path: str | os.PathLike[str], overrides: Sequence[str] = ()
) -> AnyRecipe:
    """`load` for a recipe of any form."""
    name, text = _find(os.fspath(name_or_path))
    return form_from_text(form, text, name, overrides)


def form_from_text(
    form: Form[AnyRecipe], text: str, name: str, overrides: Sequence[str] = ()
) -> AnyRecipe:
    """`from_text` for a recipe of any form."""
    document = read(text, lambda line: f"{name}:{line}")
    if not isinstance(document.values, dict):
        got = "an empty file" if document.values is None else "no keys"
        fix = "`regard recipe tiny/translate` prints one to start from"
        raise InputError(name, got=got, expected="a recipe", fix=fix)
    if form is FORM and document.values.get("task") in OF_THEIR_OWN:
        raise InputError(
            f"{name}: task: {document.values['task']}",
            got="word vectors",
            expected="a model that reads text",
            fix="`regard train` takes it; then `regard vectors RUN nearest WORD`",
        )
    given: dict[tuple[str, ...], Any] = {}
    typed: dict[tuple[str, ...], str] = {}
    for place, override in enumerate(overrides):
        try:
            path, value = _parse(override, form.keys)
        except InputError:
            form_from_text(
                form, text, name, overrides[:place]
            )  # what is wrong before it is said first
            raise
        given[path], typed[path] = value, override
    values = _completed(_lay_over(document.values, given, form.keys))
    try:
        return form.validate(values)
    except ValidationError as error:
        blamed = _to_blame(error, document.values, given, form)
        source = Source(name, document.lines, typed, blamed)
        raise first_fault(error, values, source, form.keys) from None


def dump(recipe: Config) -> str:
    """Write a recipe with every value spelled out; `load` reads an equal one back."""
    nowhere = getattr(recipe, "start", None) is None
    return write(recipe.model_dump(exclude={"start"} if nowhere else None))


def changed(old: Config, new: Config) -> list[str]:
    """The dotted keys in which two recipes differ, in the order of the recipe.

    Example:
        >>> changed(load("tiny/copy"), load("tiny/copy", ["train.steps=5", "seed=1"]))
        ['train.steps', 'seed']
    """
    before, after = dict(_dotted(old)), dict(_dotted(new))
    missing = object()  # unlike None, which is a value
    keys = [*after, *(key for key in before if key not in after)]
    return [key for key in keys if before.get(key, missing) != after.get(key, missing)]


def shipped() -> dict[str, str]:
    """The recipes that come with Regard: name to description, its first comment line."""
    texts = {name: file.read_text("utf-8") for name, file in sorted(_shipped_files())}
    return {name: text.partition("\n")[0].lstrip("# ") for name, text in texts.items()}


def text_of(name: str) -> str:
    """The text of a shipped recipe, comments and all.

    Raises:
        InputError: No recipe of that name ships with Regard.
    """
    for known, file in _shipped_files():
        if known == name:
            return file.read_text("utf-8")
    raise _unknown_name(name)


def check_unused(run: Path, form: Form[Any] = FORM) -> None:
    """Refuses a folder for a new run that holds one, or a `recipe.yaml` that somebody wrote.

    Args:
        run: The folder.
        form: Of the recipe that the run would write there.
    """
    from regard.train.checkpoint.folder import CHECKPOINTS, RECIPE  # a recipe needs no run

    if (run / CHECKPOINTS).is_dir() and any((run / CHECKPOINTS).iterdir()):
        raise InputError(
            f"{run} already holds a run",
            fix="go on with --resume, or choose another folder with -o",
        )
    path = run / RECIPE
    if not path.is_file():
        return
    try:
        text = read_regular(path, LARGEST).decode("utf-8", "replace")
        ours = dump(form_from_text(form, text, str(path))) == text
    except InputError:
        ours = False
    if not ours:
        raise InputError(
            f"{path} is not of a run, and would be overwritten",
            fix="choose another folder with -o",
        )


def _dotted(recipe: Config) -> Iterator[tuple[str, object]]:
    for section, values in recipe.model_dump().items():
        if isinstance(values, dict):
            yield from ((f"{section}.{key}", value) for key, value in values.items())
        else:
            yield section, values


def _shipped_files() -> Iterator[tuple[str, Traversable]]:
    for folder in (files("regard") / "recipes").iterdir():
        if folder.is_dir():
            for file in folder.iterdir():
                if file.name.endswith(".yaml"):
                    yield f"{folder.name}/{file.name.removesuffix('.yaml')}", file


def _unknown_name(name: str) -> InputError:
    names = sorted(known for known, _ in _shipped_files())
    near = [known for known in names if known.endswith(f"/{name}")] or closest(name, names)
    fix = f"did you mean {' or '.join(near)}? {LIST}" if near else LIST
    return InputError(f"recipe {name}", got="no such name", expected="a recipe or a file", fix=fix)


def _find(name: str) -> tuple[str, str]:
    """The label and the text of a recipe: a file if there is one, else a shipped recipe."""
    path = Path(name)
    if path.is_dir() and name not in shipped():
        inside = path / "recipe.yaml"
        fix = f"did you mean {inside}?" if inside.is_file() else LIST
        raise InputError(name, got="a folder", expected="a recipe file", fix=fix)
    if path.suffix in (".yaml", ".yml") or (path.exists() and not path.is_dir()):
        return name, _read_file(path)
    return f"{name}.yaml", text_of(name)


def _read_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        plain = str(path.with_suffix(""))
        known = plain in shipped()
        fix = f"did you mean the shipped recipe {plain}?" if known else LIST
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


def _parse(override: str, keys: Keys = KEYS) -> tuple[tuple[str, ...], Any]:
    """`train.steps=500` -> `(("train", "steps"), 500)`."""
    what = override_label(override)
    key, equals, text = override.partition("=")
    path = tuple(key.strip().split("."))
    if not all(path):
        raise InputError(what, got="an empty key", expected="key=value, as in train.steps=500")
    if len(path) == 1 and path[0] in keys.sections:
        expected = f"one key of it, as in {path[0]}.{next(iter(keys.fields(path[0])))}=VALUE"
        raise InputError(what, got="a whole section", expected=expected)
    if path not in keys:
        raise InputError(what, got="an unknown key", expected=keys.home(path), fix=keys.help(path))
    if not equals:
        raise InputError(what, got="no value", expected=f"{key.strip()}=VALUE")
    if path in FILES and "," in text and text.lstrip()[0] not in "[{'\"":
        # A convenience in a shell, where brackets need quotes.
        return path, tuple(part.strip() for part in text.split(","))
    return path, read(text, lambda _: what).values


def _lay_over(
    values: dict[str, Any], given: Mapping[tuple[str, ...], Any], keys: Keys = KEYS
) -> dict[str, Any]:
    """The values of a file with overrides over them."""
    # A section without keys (all of them commented out) takes its defaults.
    merged = {
        key: dict(value or {}) if key in keys.sections and isinstance(value, dict | None) else value
        for key, value in values.items()
    }
    if ("start", "folder") in given and "start" not in values:
        merged |= _without_a_beginning_of_its_own(merged)
    for section, replace in (("data", _without_former_kind), ("model", _without_former_model)):
        mine = {path[1]: value for path, value in given.items() if path[0] == section}
        if mine and isinstance(merged.get(section, {}), dict):
            merged[section] = replace(merged.get(section, {}), mine)
    for path, value in given.items():
        inside = merged if len(path) == 1 else merged.setdefault(path[0], {})
        if isinstance(inside, dict):  # else the file is wrong there, which validation says
            inside[path[-1]] = value
    return merged


def _to_blame(
    error: ValidationError,
    values: dict[str, Any],
    given: Mapping[tuple[str, ...], Any],
    form: Form[Any],
) -> dict[tuple[int | str, ...], tuple[str, ...]]:
    """For each place where values disagree, the override that is the wrong one.

    It is the first without which they agree; else the first without which they disagree otherwise.
    """
    found = {each["loc"]: each["msg"] for each in error.errors(include_url=False)}
    mended: dict[tuple[int | str, ...], tuple[str, ...]] = {}
    changed: dict[tuple[int | str, ...], tuple[str, ...]] = {}
    for path in given:
        rest = {other: value for other, value in given.items() if other != path}
        left: dict[tuple[int | str, ...], str] = {}
        try:
            form.validate(_completed(_lay_over(values, rest, form.keys)))
        except ValidationError as other:
            left = {each["loc"]: each["msg"] for each in other.errors(include_url=False)}
        for place in found:
            if place not in left and left.keys() <= found.keys():
                mended.setdefault(place, path)
            elif left.get(place) != found[place]:
                changed.setdefault(place, path)
    return changed | mended


def _completed(values: dict[str, Any]) -> dict[str, Any]:
    """The values with those that others decide: the model's family by the task or the start."""
    if "start" in values:
        values = {"tokens": {}, "model": {}, "decode": {}, **values}
    model, task = values.get("model"), values.get("task")
    config = CONFIGS.get(str(model.get("family"))) if isinstance(model, dict) else None
    if config is not None and config.reads != "text":  # there is nothing to say of tokens
        values = {"tokens": {}, "decode": {}, **values}
    if not isinstance(model, dict) or "family" in model:
        return values
    if str(task) in OF_THEIR_OWN:
        return values
    usual = TASKS.get(str(task), TASKS[USUAL]).family
    return {**values, "model": {"family": usual, **model}}


def _without_a_beginning_of_its_own(values: Mapping[str, Any]) -> dict[str, Any]:
    """The sections of a recipe from nothing that a folder decides once it begins from that."""
    model = values.get("model")
    if not isinstance(model, dict):
        return {"tokens": {}}
    return {"tokens": {}, "model": {k: v for k, v in model.items() if k in MAY_DIFFER}}


def _without_former_kind(data: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Data of another kind: without the keys that only the former kind has."""
    old = data.get("kind")
    before = DATA_KINDS.get(str(old), Config).model_fields
    implied = (kind for key, kind in IMPLIED.items() if key in given and key not in before)
    new = given.get("kind") or next(implied, old)
    if new == old:
        return data
    had, has = (DATA_KINDS.get(str(kind), Config).model_fields for kind in (old, new))
    return {key: value for key, value in data.items() if key in has or key not in had} | {
        "kind": new
    }


def _without_former_model(model: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """A model of another family or size: without what only the former family or size says."""
    usual = TASKS[USUAL].family
    old, new = str(model.get("family", usual)), str(given.get("family", usual))
    if "family" in given and new != old and {old, new} <= set(CONFIGS):
        had, has = CONFIGS[old].model_fields, CONFIGS[new].model_fields
        model = {key: value for key, value in model.items() if key in has or key not in had}
    return _without_former_size(model, given)


def _without_former_size(model: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """A model of another size: without the values that are only what the former size gives.

    A resolved recipe spells those out; left in, they would outvote the new size.
    """
    if "size" not in given or given["size"] == model.get("size"):
        return model
    config = CONFIGS.get(str(model.get("family")), CONFIGS[TASKS[USUAL].family])
    old, new = (config.SIZES.get(str(section.get("size")), {}) for section in (model, given))
    usual = {key: field.default for key, field in config.model_fields.items()} | old
    sized = {*old, *new}
    return {k: v for k, v in model.items() if k not in sized or v != usual[k]}
