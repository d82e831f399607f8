"""A Hugging Face folder -> its vocabulary.

In: a folder with `tokenizer.json` or older vocabulary files, and the small files that give symbols
their roles. Out: a `Vocabulary`: one tokenizer for both sides or, for Marian, one for each. If
several files contradict each other, precedence is as in transformers 5.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tokenizers import processors

from regard.errors import InputError
from regard.inputs.processor import KEPT_FILES, Vocabulary
from regard.inputs.text.published.folder import Folder
from regard.inputs.text.published.kinds import TokenizerKind, build, find_kind
from regard.inputs.text.published.legacy import BuiltTokenizer, Settings
from regard.inputs.text.spec import Spec, guarded, piece_ids
from regard.inputs.text.tokenizer import Roles, Tokenizer

ROLES = {
    "begin": "bos_token",
    "end": "eos_token",
    "pad": "pad_token",
    "unknown": "unk_token",
    "classifier": "cls_token",
    "separator": "sep_token",
    "mask": "mask_token",
}
"""The name of each role in `Roles`, with its name in the files."""
FLAGS = ("single_word", "lstrip", "rstrip")
"""Flags that decide how a symbol is matched in a text."""
SMALL_FILES = ("tokenizer_config.json", "special_tokens_map.json")
"""The small files that complement a `tokenizer.json`."""
OWN_KEY = "regard"
"""The key in `tokenizer_config.json` of what only Regard's tokenizers have."""


def read_folder(folder: Path, config: dict[str, Any] | None = None) -> Vocabulary | None:
    """Read the tokenizer of a published model.

    Args:
        folder: The model's folder.
        config: The parsed `config.json`, if it was read already.

    Returns:
        The vocabulary; None if the folder has no tokenizer.

    Raises:
        InputError: If a file is damaged or missing, or the kind of tokenizer is not supported.
    """
    files = Folder(folder)
    config = files.json_or_empty("config.json") if config is None else config
    settings = _settings(files)
    kind = find_kind(files, settings, config)
    with guarded(files.name("tokenizer_config.json")):
        names = _role_names(kind, settings)
        symbols = [*_listed_symbols(settings), *_role_symbols(names, settings)]
    sides: list[BuiltTokenizer] = []
    if files.has("tokenizer.json"):
        spec = _apply_settings(files.json("tokenizer.json"), settings)
        sides, kind = [BuiltTokenizer(spec, files.name("tokenizer.json"))], None
    elif kind:
        sides = build(kind, files, settings)
    # a tokenizer.json contains the template around a text; for older files the kind decides
    templates = _templates(kind, settings)
    clean = settings.get("clean_up_tokenization_spaces") is True
    sentences = settings.get(OWN_KEY) == {"sentences": True}
    start = config.get("decoder_start_token_id")
    tokenizers = []
    for spec, file, vocab in sides:
        with guarded(file):
            spec = _add_symbols(spec, symbols)
            roles = _role_ids(spec, names)
            spec["post_processor"] = spec.get("post_processor") or _processor(*templates, roles)
            # clean-up is for word pieces; it would damage the text of byte pairs
            cleans = clean and "merges" not in spec["model"] and not sentences
        by_role: Any = {role: roles[key][1] for role, key in ROLES.items() if key in roles}
        role_ids = Roles(**by_role, start=start if type(start) is int else None)
        tokenizers.append(
            Tokenizer(spec, role_ids, file=file, clean=cleans, sentences=sentences, vocab=vocab)
        )
    if not tokenizers:
        return None
    file_names = KEPT_FILES if len(tokenizers) > 1 else ()
    kept_files = {name: files.bytes(name) for name in file_names if files.has(name)}
    return Vocabulary(tokenizers[0], tokenizers[-1], kept_files)


def read_file(file: Path) -> Vocabulary:
    """Read a tokenizer from a `tokenizer.json`, and the small files beside it if there are any.

    Args:
        file: A `tokenizer.json` of Hugging Face or of a Regard checkpoint.

    Raises:
        InputError: If the file is damaged or missing.
    """
    files = Folder(file.parent)
    spec = files.json(file.name)
    if spec.keys() & {"source", "target", "foreign"}:
        return Vocabulary.from_json(files.text(file.name))
    with suppress(InputError):
        return Vocabulary.from_json(files.text(file.name))
    has_small_files = file.name == "tokenizer.json" and any(map(files.has, SMALL_FILES))
    if has_small_files and (vocabulary := read_folder(file.parent)) is not None:
        return vocabulary
    with guarded(str(file)):
        tokenizer = Tokenizer(spec, Roles(unknown=_unknown_id(spec)), file=str(file))
    return Vocabulary(tokenizer, tokenizer)


def _unknown_id(spec: Spec) -> int | None:
    """Return the id of the unknown symbol, as stated in the model section."""
    model = spec["model"]
    if isinstance(model["vocab"], list):
        unknown = model.get("unk_id")
    else:
        unknown = model["vocab"].get(model.get("unk_token"))
    return unknown if type(unknown) is int else None


def _settings(folder: Folder) -> dict[str, Any]:
    """Merge the settings of the small files."""
    settings = folder.json_or_empty("tokenizer_config.json")
    if "added_tokens_decoder" in settings:
        return settings
    settings |= folder.json_or_empty("special_tokens_map.json")
    if folder.has("added_tokens.json"):
        added = folder.ids("added_tokens.json")
        settings["added_tokens_decoder"] = {str(token): name for name, token in added.items()}
    return settings


def _apply_settings(spec: Spec, settings: Settings) -> Spec:
    """Apply the settings that override the tokenizer, as BERT's and RoBERTa's classes do."""
    changes = {
        "normalizer": (
            "BertNormalizer",
            {
                "lowercase": "do_lower_case",
                "strip_accents": "strip_accents",
                "handle_chinese_chars": "tokenize_chinese_chars",
            },
        ),
        "pre_tokenizer": ("ByteLevel", {"add_prefix_space": "add_prefix_space"}),
    }
    for part, (type_, names) in changes.items():
        section = spec.get(part)
        if isinstance(section, dict) and section.get("type") == type_:
            values = {key: settings.get(name) for key, name in names.items()}
            overrides = {key: value for key, value in values.items() if type(value) is bool}
            spec = {**spec, part: {**section, **overrides}}
    return spec


def _role_names(kind: TokenizerKind | None, settings: Settings) -> dict[str, str]:
    """Return the symbol of each role; roles are named as in the files."""
    names = dict(kind.symbols) if kind else {}
    for key in ROLES.values():
        if key in settings:
            names[key] = _symbol_text(settings[key])
    return {key: name for key, name in names.items() if name}


def _role_symbols(names: Mapping[str, str], settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield the symbols of roles, with their flags, as entries of `added_tokens`."""
    for key, name in names.items():
        stated = settings.get(key)
        # `<mask>` also replaces the space before a word, in vocabularies whose words include it.
        flags = {"lstrip": name == "<mask>"} if not isinstance(stated, dict) else stated
        yield _symbol_entry(name, flags, special=True)


def _listed_symbols(settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield the symbols that the settings list, in addition to those given by role."""
    decoder = settings.get("added_tokens_decoder") or {}
    for token, stated in sorted(decoder.items(), key=lambda entry: int(entry[0])):
        flags = stated if isinstance(stated, dict) else {}
        special = flags.get("special", False) is True
        yield {**_symbol_entry(_symbol_text(stated), flags, special=special), "id": int(token)}
    for key in ("additional_special_tokens", "extra_special_tokens"):
        named = settings.get(key) or []
        for stated in named.values() if isinstance(named, dict) else named:
            flags = stated if isinstance(stated, dict) else {}
            yield _symbol_entry(_symbol_text(stated), flags, special=True)


def _symbol_entry(name: str, flags: Mapping[str, Any], *, special: bool) -> dict[str, Any]:
    """An entry of `added_tokens`, without an id."""
    stated = {flag: flags.get(flag) is True for flag in FLAGS}
    normalized = flags.get("normalized", not special) is True
    return {"content": name, **stated, "normalized": normalized, "special": special}


def _symbol_text(stated: object) -> str:
    """Return the text of a symbol, which is stated as a string or as an object with `content`."""
    text = stated.get("content") if isinstance(stated, dict) else stated
    return text if isinstance(text, str) else ""


def _add_symbols(spec: Spec, symbols: list[dict[str, Any]]) -> Spec:
    """Add symbols to a tokenizer; symbols without an id are left out."""
    added = {entry["content"]: dict(entry) for entry in spec.get("added_tokens") or []}
    pieces = piece_ids(spec)
    for symbol in symbols:
        name = symbol["content"]
        if name in added:
            added[name]["special"] = added[name].get("special") is True or symbol["special"]
        elif name in pieces:
            added[name] = {**symbol, "id": pieces[name]}
        elif name and "id" in symbol:
            added[name] = symbol
    ordered = sorted(added.values(), key=lambda entry: entry["id"])
    return {**spec, "added_tokens": ordered}


def _role_ids(spec: Spec, names: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    """Return the symbol and the id of each role that has them."""
    ids = {entry["content"]: entry["id"] for entry in spec["added_tokens"]}
    return {key: (name, ids[name]) for key, name in names.items() if name in ids}


def _templates(kind: TokenizerKind | None, settings: Settings) -> tuple[str, str]:
    """Return the templates of one text and of two, for files without a post-processor."""
    if kind and kind.single != "$A":
        return kind.single, kind.pair
    begins = settings.get("add_bos_token", bool(kind and kind.begins)) is True
    ends = settings.get("add_eos_token") is True
    first = ["bos_token"] * begins + ["$A"] + ["eos_token"] * ends
    second = ["bos_token:1"] * begins + ["$B:1"] + ["eos_token:1"] * ends
    return " ".join(first), " ".join(first + second)


def _processor(single: str, pair: str, symbols: Mapping[str, tuple[str, int]]) -> Spec | None:
    """Build a post-processor from templates of roles; roles without a symbol are left out."""

    def fill(template: str) -> list[str]:
        parts = []
        for part in template.split():
            role, _, segment = part.partition(":")
            if role.startswith("$"):
                parts.append(part)
            elif role in symbols:
                parts.append(f"{symbols[role][0]}:{segment or 0}")
        return parts

    used_symbols = {symbols[key] for key in re.findall(r"\w+_token", pair) if key in symbols}
    if not used_symbols:
        return None
    template = processors.TemplateProcessing(fill(single), fill(pair), sorted(used_symbols))
    return json.loads(template.__getstate__())
