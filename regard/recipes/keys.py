"""All keys that a recipe can have: the values that each takes, and which one was probably meant.

In: the configs of the sections. Out: expectations in words, advice for an unknown key, and the list
of all keys. Everything is derived from the fields of the configs, so that there is no second list
of what is allowed.
"""

from __future__ import annotations

import operator
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import NonNegativeInt, PositiveInt
from pydantic.fields import FieldInfo

from regard.config import Config, NameIn
from regard.data.config import Column, Files, Parts
from regard.errors import InputError, did_you_mean, nearest
from regard.layers.short import STRUCTURE, PartField, homes_of, part_field, short_fields
from regard.models.config import GIVEN, ModelConfig
from regard.models.version_1 import OLD_KEYS
from regard.recipes.yaml import Path, shown
from regard.runtime.units import aligned
from regard.train.config import Freeze

_WORDS: dict[Any, str] = {
    bool: "true or false",
    bool | Literal["sampled"]: "true, false or sampled",
    int: "a whole number",
    float: "a number",
    str: "text",
    tuple[PositiveInt, PositiveInt]: "height and width, such as [8, 8]",
    tuple[float, float]: "two numbers, such as [0.9, 0.98]",
    tuple[str, ...]: "a list of names",
    tuple[int, ...]: "a list of whole numbers",
    tuple[float, ...]: "a list of numbers",
    tuple[PositiveInt, ...]: "a list of whole numbers, such as [6, 16]",
    tuple[NonNegativeInt, ...]: "a list of whole numbers from 0, such as [0, 1]",
    tuple[Column, ...]: "a list of columns",
    Column: "the name of a column, or its number",
    Files: "a file name, or two as [source, target]",
    Freeze: "none, embeddings, all, or a number of layers",
    Parts: "sets of pairs by name, each with train, prefix, weight",
}


LIST_KEYS = "regard recipe --keys"
"""The command that lists the keys of a recipe, or of the section that follows."""
MANY_KEYS = 12
"""A message lists the keys of a section only if they are at most so many."""
_OTHER_NAMES = {
    "steps": "max_steps num_steps iterations max_iters epochs num_train_epochs",
    "batch_tokens": "batch_size bs per_device_train_batch_size",
    "accumulate": "grad_accum gradient_accumulation gradient_accumulation_steps",
    "optimizer": "optim optimiser",
    "learning_rate": "lr rate max_lr peak_lr",
    "schedule": "scheduler lr_scheduler lr_schedule",
    "warmup": "warmup_steps",
    "epsilon": "eps adam_epsilon",
    "weight_decay": "wd l2",
    "label_smoothing": "smoothing label_smoothing_factor",
    "clip": "grad_clip clip_norm gradient_clipping max_grad_norm",
    "log_every": "log_interval logging_steps",
    "evaluate_every": "eval_every eval_interval eval_steps",
    "save_every": "save_steps save_interval",
    "patience": "early_stopping",
    "dim": "d_model hidden_size embed_dim embedding_dim n_embd width",
    "heads": "n_heads num_heads n_head num_attention_heads",
    "kv_heads": "n_kv_heads num_kv_heads num_key_value_heads",
    "hidden": "d_ff ffn_dim feed_forward_dim intermediate_size mlp_dim",
    "layers": "n_layers num_layers n_layer depth num_hidden_layers",
    "encoder.layers": "num_encoder_layers",
    "decoder.layers": "num_decoder_layers",
    "max_length": "max_len seq_len block_size context_length max_new_tokens max_tokens "
    "max_position_embeddings",
    "activation": "act act_fn activation_function hidden_act",
    "dropout": "dropout_rate p_drop dropout_p",
    "tied": "tie_embeddings tie_weights tie_word_embeddings",
    "vocab": "vocab_size vocabulary n_vocab",
    "beam": "num_beams beam_size beam_width",
    "n_best": "num_return_sequences nbest",
    "sample": "do_sample sampling",
    "no_repeat_ngram": "no_repeat_ngram_size",
    "seed": "random_seed manual_seed",
}
"""Names that other libraries give to a key, for advice."""


def _other_names(name: str) -> list[str]:
    """The keys that other libraries call so."""
    return [key for key, names in _OTHER_NAMES.items() if name.lower() in names.split()]


def expectation(field: FieldInfo) -> str:
    """The values that a field takes, in words: `a number above 0`, `one of pre, post`."""
    choices, part = choices_of(field), part_field(field)
    if part is not None:
        words = _part_words(part)
    elif choices:
        words = f"one of {', '.join(choices)}" if len(choices) > 1 else choices[0]
    else:
        words = " ".join([_WORDS[_type_without_none(field)], *_bounds(field)])
    return f"{words}, or null" if NoneType in get_args(field.annotation) else words


def _part_words(part: PartField) -> str:
    """What a field that holds parts takes, in words."""
    kinds = ", ".join(kind for kind in part.classes if kind)
    if part.many:
        return f"a list of {kinds}, or of keys with such a kind"
    if len(part.classes) > 1:
        return f"one of {kinds}, or keys with such a kind"
    [config] = part.classes.values()
    return f"keys: {', '.join(key for key in config.model_fields if key != 'kind')}"


def _type_without_none(field: FieldInfo) -> Any:
    """The type of a field when it is not None."""
    options = get_args(field.annotation)
    if NoneType not in options:
        return field.annotation
    return reduce(operator.or_, [option for option in options if option is not NoneType])


def choices_of(field: FieldInfo) -> list[str]:
    """The names that a field takes; empty if it takes other values than names."""
    part = part_field(field)
    if part is not None:
        return [kind for kind in part.classes if kind] if not part.many else []
    inner = _type_without_none(field)
    name_tables = [list(note.table) for note in field.metadata if isinstance(note, NameIn)]
    literals = get_args(inner) if get_origin(inner) is Literal else ()
    return name_tables[0] if name_tables else [str(choice) for choice in literals]


_BOUNDS = {"ge": "of at least", "gt": "above", "le": "at most", "lt": "below"}


def _bounds(field: FieldInfo) -> list[str]:
    """The bounds of a number in words, as a list of at most one phrase."""
    phrases = [
        f"{words} {getattr(bound, name)}"
        for bound in field.metadata
        for name, words in _BOUNDS.items()
        if hasattr(bound, name)
    ]
    return [" and ".join(phrases)] if phrases else []


@dataclass(frozen=True)
class Keys:
    """All keys that a recipe can have.

    Attributes:
        top: The keys at the top level, outside sections.
        sections: For each section its configs by kind; a section without kinds has one, `""`.
        tags: For each section with kinds, the key that selects the kind.
        nested: The sections whose configs have parts, and may be written in the short form.
    """

    top: Mapping[str, FieldInfo]
    sections: Mapping[str, Mapping[str, type[Config]]]
    tags: Mapping[str, str]
    nested: Container[str] = ()

    def __contains__(self, path: Path) -> bool:
        if len(path) == 1:
            return path[0] in self.top
        section, *names = path
        if section in self.nested:
            fields = self.fields(section)
            *sections, name = names
            known = name in fields or (not sections and name in OLD_KEYS)
            parts = [part for part in sections if not part.isdigit()]  # of a block: its index
            return known and all(part in fields and part_field(fields[part]) for part in parts)
        return len(names) == 1 and names[0] in self.fields(section)

    def fields(self, section: str, kind: str | None = None) -> dict[str, FieldInfo]:
        """The fields of a section, of one kind or of all kinds together."""
        kinds = self.sections.get(section, {})
        configs = [kinds[kind]] if kind is not None and kind in kinds else kinds.values()
        return {
            name: f for config in configs for name, f in self.fields_of(section, config).items()
        }

    def fields_of(self, section: str, config: type[Config]) -> dict[str, FieldInfo]:
        """The keys that one kind of a section takes, those of parts included."""
        return short_fields(config) if section in self.nested else config.model_fields

    def home(self, path: Path, kind: str | None = None) -> str:
        """What was expected instead of an unknown key."""
        if path[0] not in self.sections:
            return "a key of a recipe"
        if kind is None or path[-1] not in self.fields(path[0], kind):
            return f"a key of {path[0]}"
        return "a key of a part that this model has"  # known, but of a part that it has not

    def origin(self, section: str, values: dict[str, Any], location: Sequence[int | str]) -> Path:
        """The key at which a value of a nested section was written.

        Args:
            section: The section, such as `model`.
            values: Its values, in the short form.
            location: Where pydantic found the value: keys, indices, and kinds of parts between.
        """
        config = self.sections[section].get(str(values.get(self.tags[section])))
        if config is None or not issubclass(config, ModelConfig):
            return (section,)
        resolved = config.resolve(values)
        node: Any = resolved.values
        path: tuple[int | str, ...] = ()
        for step in location:
            inside = isinstance(node, dict) and step in node
            if inside or (isinstance(node, tuple) and step in range(len(node))):
                node, path = node[step], (*path, step)
        while path:
            statement = resolved.origins.get(path)
            if statement is not None and statement.source == GIVEN:
                return (section, *map(str, statement.origin))
            path = path[:-1]
        return (section,)

    def help(self, path: Path, kind: str | None = None) -> str:
        """Advice for an unknown key: the keys that were probably meant, else the known keys."""
        section = path[0]
        name = path[-1] if section in self.nested else path[min(1, len(path) - 1)]
        if len(path) > 1:
            advice = self._similar_key_advice(path, kind)
        else:
            advice = self._similar_top_key_advice(name)
        if advice is not None:
            return advice
        names = {name, *_other_names(name)}
        elsewhere = [
            f"{other}.{key}"
            for other in self.sections
            for key in self.fields(other)
            if key in names
        ]
        if elsewhere:
            return f"did you mean {' or '.join(elsewhere)}?"
        if section not in self.sections:
            return f"keys of a recipe: {', '.join([*self.top, *self.sections])}"
        section_fields = self.fields(section, kind)
        if len(section_fields) > MANY_KEYS:
            return f"`{LIST_KEYS} {section}` lists the keys of {section}"
        return f"keys of {section}: {', '.join(section_fields)}"

    def listing(self, section: str | None = None) -> str:
        """All keys as text, each with the values that it takes and its default.

        Args:
            section: List only the keys of this section.

        Raises:
            InputError: There is no such section.
        """
        if section is not None and section not in self.sections:
            expected = f"a section: {', '.join(self.sections)}"
            raise InputError(f"--keys {section}", got="no such section", expected=expected)
        rows = [] if section else [_row(name, field) for name, field in self.top.items()]
        for name in self.sections if section is None else [section]:
            rows += self._rows(name)
        return "\n".join(aligned(rows))

    def _rows(self, section: str) -> list[tuple[str, str]]:
        """The rows of a section's keys; a key that kinds define differently has several."""
        kinds = self.sections[section]
        meanings: dict[str, dict[str, list[str]]] = {}
        for kind, config in kinds.items():
            defaults = getattr(config, "DEFAULTS", {})
            for key, field in self.fields_of(section, config).items():
                if key == "kind" and section in self.nested:
                    continue  # named where a part is chosen
                path = key
                if key in STRUCTURE and key not in config.model_fields:
                    path = f"SIDE.{key}" if key in ("front", "block") else f"SIDE.block.{key}"
                name, text = _row(f"{section}.{path}", field, defaults.get(key))
                if key == self.tags.get(section):
                    text = f"one of {', '.join(kinds)}"
                meanings.setdefault(name, {}).setdefault(text, []).append(kind)
        return [
            (name, text if len(texts) == 1 else f"{', '.join(kinds_with_it)}: {text}")
            for name, texts in meanings.items()
            for text, kinds_with_it in texts.items()
        ]

    def _similar_top_key_advice(self, name: str) -> str | None:
        """Advice with the most similar of the keys at the top level and the sections."""
        top = [key for key in _other_names(name) if key in self.top]
        return did_you_mean(top or nearest(name, [*self.top, *self.sections]))

    def _similar_key_advice(self, path: Path, kind: str | None) -> str | None:
        """Advice with the most similar keys of the section, or of the section probably meant."""
        section, name, above = path[0], path[-1], ".".join(path[:-1])
        if section not in self.nested:
            name, above = path[1], section
        if section not in self.sections:
            similar_sections = nearest(section, self.sections)[:1]
            keys = nearest(name, self.fields(similar_sections[0])) if similar_sections else []
            return did_you_mean([f"{similar_sections[0]}.{key}" for key in keys])
        owners = [owner for owner, config in self.sections[section].items()
                  if name in self.fields_of(section, config)]  # fmt: skip
        if owners and kind is not None and kind not in owners:
            return f"{name} belongs to {section}.{self.tags[section]}: {' or '.join(owners)}"
        section_fields = self.fields(section, kind)
        if section in self.nested and kind is not None and name in section_fields:
            homes = homes_of(self.sections[section][kind], name)
            return f"{name} belongs to {' or '.join(homes)}"
        keys = [key for key in _other_names(name) if key.rpartition(".")[2] in section_fields]
        parts = {"head", "front", "kind", "name", "scale"}  # short words, near to many others
        if not keys and any(name in self.fields(other) for other in self.sections):
            return None  # the same word in another section is nearer than a similar one here
        keys = keys or nearest(name, [key for key in section_fields if key not in parts])
        return did_you_mean([f"{above}.{key}" for key in keys])


def _row(name: str, field: FieldInfo, family_default: Any = None) -> tuple[str, str]:
    """A key, and the values that it takes with its default, as text."""
    if field.is_required():
        return name, expectation(field)
    default = field.get_default(call_default_factory=True)
    if isinstance(family_default, str | int | float | bool):
        return name, f"{expectation(field)} ({shown(family_default).strip(chr(39))})"
    if part_field(field) is not None:
        kinds = [part.kind for part in (default if isinstance(default, tuple) else (default,))
                 if getattr(part, "kind", None)]  # fmt: skip
        return name, f"{expectation(field)} ({', '.join(kinds)})" if kinds else expectation(field)
    text = default if isinstance(default, str) else shown(default)
    return name, f"{expectation(field)} ({text})"
