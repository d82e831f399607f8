"""Writes the table of the keys of `model` into `docs/recipes.md`, from the config classes.

`python -m docs.key_table` prints it, `python -m docs.key_table --write` replaces the one on the
page, between two comments. A test compares the page with the classes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from regard.config import Config
from regard.layers.config import LONGEST, AnyAttention, StackConfig, Sublayer
from regard.layers.short import kinds_of, part_field, part_fields
from regard.models.config import ModelConfig
from regard.models.families import CONFIGS
from regard.recipes.keys import expectation
from regard.recipes.yaml import shown

PAGE = Path(__file__).parent / "recipes.md"
BEGIN = "<!-- The keys of model: written by python -m docs.key_table --write -->"
END = "<!-- The end of the keys of model -->"
SECTIONS = ("encoder", "decoder", "attention", "front", "block", "positions", "rotary_scaling")
"""The order of the rows; `head` and others come last."""
SHARED: dict[type[Config], str] = {
    StackConfig: "`encoder` or `decoder` of `kind: blocks`",
    Sublayer: "a sub-layer in `block`, of any `kind`",
    AnyAttention: "an attention in `block`",
}
"""Classes whose keys have a row of their own, and are left out in the rows of their subclasses."""

Meanings = dict[str, dict[str, list[str]]]
"""Key -> what it takes, in words -> the families in which it does."""


def key_table() -> str:
    """The table in Markdown: a row for each family, then one for each kind of part."""
    rows = ["| part | its keys (the values that each takes; its default) |", "|---|---|"]
    rows += [f"| `family: {name}` | {_family_keys(config)} |" for name, config in CONFIGS.items()]
    for base, label in SHARED.items():
        keys = [_key_words(key, {_words(base, key): []}, []) for key in _own_keys(base)]
        rows.append(f"| {label} | {', '.join(keys)} |")
    parts = _parts()
    for section, kind in sorted(parts, key=lambda part: _order(part[0])):
        owners, meanings = parts[section, kind]
        label = f"`{section}`, `kind: {kind}`" if kind else f"`{section}`"
        label += f" ({', '.join(owners)})" if section in SECTIONS[:2] else ""
        keys = [_key_words(key, texts, owners) for key, texts in meanings.items()]
        rows.append(f"| {label} | {', '.join(keys) or 'no further keys'} |")
    return "\n".join(rows)


def _order(section: str) -> int:
    """The place of a section's rows in the table."""
    return SECTIONS.index(section) if section in SECTIONS else len(SECTIONS)


def _own_keys(part: type[Config]) -> list[str]:
    """The keys of a part, except its kind and those that a class of `SHARED` has above it."""
    above = [base for base in part.__mro__[1:] if base in SHARED]
    inherited = {key for base in above for key in _own_keys(base)}
    varied = {"front", "block", "positions"} if part is StackConfig else set()
    return [key for key in part.model_fields if key not in {"kind"} | inherited | varied]


def _family_keys(config: type[ModelConfig]) -> str:
    """The keys of a family itself, and the defaults in which it differs from its parts."""
    sizes = " \\| ".join(config.SIZES)
    keys = [f"`size: {sizes}`"]
    for key, field in config.model_fields.items():
        if key not in ("family", "size"):
            is_part = part_field(field) is not None
            keys.append(f"`{key}`" if is_part else _key_words(key, {_words(config, key): []}, []))
    defaults = ", ".join(_default_words(config.DEFAULTS))
    return ", ".join(keys) + (f". Its defaults: {defaults}" if defaults else "")


def _default_words(values: dict[str, object], prefix: str = "") -> Iterator[str]:
    """The values of a short form in words, those of sections by their dotted keys."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _default_words(value, f"{prefix}{key}.")
        else:
            yield f"`{prefix}{key}: {_value_text(value)}`"


def _parts() -> dict[tuple[str, str], tuple[list[str], Meanings]]:
    """Section and kind of each part -> the families that can have it, and its keys."""
    parts: dict[tuple[str, str], tuple[list[str], Meanings]] = {}
    for family, config in CONFIGS.items():
        for section, kind, part in _walk(config):
            owners, meanings = parts.setdefault((section, kind), ([], {}))
            if family not in owners:
                owners.append(family)
            for key in _own_keys(part):
                families = meanings.setdefault(key, {}).setdefault(_words(part, key), [])
                if family not in families:
                    families.append(family)
    return parts


def _walk(config: type[Config]) -> Iterator[tuple[str, str, type[Config]]]:
    """Each part that a config can have: its section, the kinds of its class, and the class."""
    for section, field in part_fields(config).items():
        for part in dict.fromkeys(field.classes.values()):
            yield section, " \\| ".join(kinds_of(part)), part
            yield from _walk(part)


def _words(config: type[Config], key: str) -> str:
    """What a key takes, in words, and its default."""
    field = config.model_fields[key]
    expected = expectation(field).replace(f" and at most {LONGEST}", "")
    if field.is_required():
        return expected
    default = field.get_default(call_default_factory=True)
    if part_field(field) is None:
        return f"{expected.removesuffix(', or null')}; {_value_text(default)}"
    if expected.startswith("keys: "):
        return "a section, below"
    parts = default if isinstance(default, tuple) else (default,)
    kinds = [part.kind for part in parts if part is not None]
    return f"{expected.removesuffix(', or null')}; {', '.join(kinds) or 'null'}"


def _value_text(value: object) -> str:
    """A value as a recipe has it."""
    if isinstance(value, tuple) and all(isinstance(item, str) for item in value):
        return f"[{', '.join(value)}]"
    return value if isinstance(value, str) else shown(value)


def _key_words(key: str, texts: dict[str, list[str]], owners: list[str]) -> str:
    """A key with what it takes; families are named if not all have it, or mean it alike."""
    if list(texts.values()) == [owners]:
        return f"`{key}` ({next(iter(texts))})"
    meanings = (f"{', '.join(families)}: {text}" for text, families in texts.items())
    return f"`{key}` ({'. '.join(meanings)})"


def with_table(page: str) -> str:
    """The text of the page with the table of today."""
    before, _, after = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{key_table()}\n\n{END}{after.partition(END)[2]}"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(with_table(PAGE.read_text()))
    else:
        print(key_table())  # noqa: T201 (a command)
