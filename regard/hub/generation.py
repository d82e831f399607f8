"""Converts `generation_config.json` to Regard's `DecodeConfig` and back.

It holds beam sizes, penalties, lengths and special ids. Older folders have these settings in
`config.json`. A setting that Regard does not support causes a warning, since outputs may differ.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from regard.decode.config import SAMPLING_SETTINGS, DecodeConfig
from regard.errors import InputError
from regard.hub.config import CONFIG
from regard.runtime.files import read_json

GENERATION = "generation_config.json"
SETTINGS = {
    "num_beams": "beam",
    "length_penalty": "length_penalty",
    "do_sample": "sample",
    "no_repeat_ngram_size": "no_repeat_ngram",
    "repetition_penalty": "repetition_penalty",
}
"""Their name -> our name of settings with the same meaning."""
STOPS = {True: "first", False: "bound", "never": "never"}
"""Their `early_stopping` -> our `stop`."""
SHARED_IDS = ("eos_token_id", "decoder_start_token_id", "bos_token_id")
"""Ids that are taken from `config.json` if `generation_config.json` does not repeat them."""
USUAL_TOP_K = 50
"""The default of `top_k` in transformers."""
UNSUPPORTED: dict[str, Any] = {
    "begin_suppress_tokens": [],
    "constraints": None,
    "diversity_penalty": 0,
    "dola_layers": None,
    "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1,
    "epsilon_cutoff": 0,
    "eta_cutoff": 0,
    "exponential_decay_length_penalty": None,
    "force_words_ids": None,
    "guidance_scale": 1,
    "num_beam_groups": 1,
    "num_return_sequences": 1,
    "penalty_alpha": 0,
    "prompt_lookup_num_tokens": None,
    "renormalize_logits": False,
    "sequence_bias": None,
    "stop_strings": None,
    "top_h": None,
    "typical_p": 1,
    "watermarking_config": None,
}
"""Settings that Regard does not support -> the value at which they have no effect."""

log = logging.getLogger(__name__)


def read_decoding(
    folder: Path,
    vocab: int,
    longest: int,
    *,
    paired: bool,
    hub_config: dict[str, Any] | None = None,
) -> DecodeConfig:
    """Reads the settings of decoding from a folder; settings that are not given have defaults.

    Args:
        folder: Contains `config.json`, and perhaps `generation_config.json`.
        vocab: Size of the target vocabulary; ids beyond it are ignored.
        longest: Largest number of tokens that the model has positions for; a `max_length` that
            does not limit it further is ignored.
        paired: Whether the model has an encoder and a decoder; then their lengths count the start
            token, and ours do not.
        hub_config: The contents of `config.json`, if it was read already.

    Raises:
        InputError: A value is of a wrong type or out of range.
    """
    configs = [
        hub_config if hub_config is not None and name == CONFIG else read_json(folder / name)
        for name in (CONFIG, GENERATION) if (folder / name).exists()
    ]  # fmt: skip
    configs = [{k: v for k, v in config.items() if v is not None} for config in configs]
    settings = configs[-1] if configs else {}
    missing = [name for name in SHARED_IDS if name not in settings]  # perhaps in config.json
    ids = settings | {key: values[key] for values in configs for key in missing if key in values}
    where = folder / (GENERATION if len(configs) == 2 else CONFIG)
    try:
        lengths = _lengths(settings, longest, paired=paired)
        config = DecodeConfig(**_settings(settings), **lengths, **_roles(ids, vocab, paired=paired))
    except ValidationError as error:
        fault = error.errors()[0]
        names = {our_name: hub_name for hub_name, our_name in SETTINGS.items()}
        name, expected = str(fault["loc"][0]), fault["msg"].removeprefix("Input should be ")
        raise InputError(
            f"{where}: {names.get(name, name)}", got=fault["input"], expected=expected
        ) from None
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise InputError(f"{where}", got=str(error).partition("\n")[0]) from None
    unsupported = [
        name for name, off in UNSUPPORTED.items() if settings.get(name, off) not in (off, [])
    ]
    if any(len(word) > 1 for word in settings.get("bad_words_ids", ())):
        unsupported.append("bad_words_ids of several tokens")
    if config.sample and settings.get("num_beams", 1) != 1:
        unsupported.append("num_beams beside do_sample")
    if not paired and settings.get("min_length"):
        unsupported.append("min_length (min_new_tokens is)")
    if unsupported:
        log.warning("%s: not supported: %s; outputs may differ", where, ", ".join(unsupported))
    return config


def _settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the settings that are neither lengths nor ids of tokens."""
    settings = {name: values[hub_name] for hub_name, name in SETTINGS.items() if hub_name in values}
    if "early_stopping" in values:
        settings["stop"] = STOPS[values["early_stopping"]]
    if settings.get("sample"):
        settings.pop("beam", None)
        settings |= {"top_k": USUAL_TOP_K} | {
            name: values[name] for name in SAMPLING_SETTINGS if name in values
        }
    return settings


def _lengths(values: Mapping[str, Any], longest: int, *, paired: bool) -> dict[str, int]:
    """Converts limits of length: Hugging Face counts the start token, except in `new_tokens`."""
    lengths: dict[str, int] = {}
    for name in ("min_length", "max_length"):
        new_tokens = values.get(name.replace("length", "new_tokens"))
        if new_tokens is not None:
            lengths[name] = int(new_tokens)
        elif paired and int(values.get(name, 0)) > 1:
            lengths[name] = int(values[name]) - 1
    if lengths.get("max_length", 0) >= longest - 1:
        del lengths["max_length"]
    elif "max_length" in lengths:
        lengths["min_length"] = min(lengths.get("min_length", 0), lengths["max_length"])
    return lengths


def _roles(values: Mapping[str, Any], vocab: int, *, paired: bool) -> dict[str, Any]:
    """Converts the ids of special tokens."""

    def valid_ids(value: Any) -> tuple[int, ...]:
        """One id or a list of ids as a tuple, without ids beyond the vocabulary."""
        ids = value if isinstance(value, list | tuple) else [] if value is None else [value]
        wrong = [token for token in ids if type(token) is not int]
        if wrong:
            raise ValueError(f"{wrong[0]!r} where an id of a token should be")
        return tuple(token for token in ids if 0 <= token < vocab)

    def first(*names: str) -> int | None:
        return next((token for name in names for token in valid_ids(values.get(name))), None)

    ends = valid_ids(values.get("eos_token_id"))
    words = (word[0] for word in values.get("bad_words_ids", ()) if len(word) == 1)
    banned = [token for token in words if token not in ends]  # transformers never bans the end
    roles = {
        "banned": valid_ids([*banned, *values.get("suppress_tokens", ())]),
        "ends": ends,
        "forced_begin": first("forced_bos_token_id"),
        "forced_end": first("forced_eos_token_id"),
    }
    if paired:
        roles["begin"] = first("decoder_start_token_id", "bos_token_id")
    return {name: value for name, value in roles.items() if value is not None}


def roles_in(config: DecodeConfig) -> dict[str, Any]:
    """The start and end ids of decoding, by their names in a Hugging Face config."""
    roles: dict[str, Any] = {}
    if config.begin is not None:
        roles["decoder_start_token_id"] = config.begin
    if config.ends:
        roles["eos_token_id"] = config.ends[0] if len(config.ends) == 1 else list(config.ends)
    return roles


def write_decoding(config: DecodeConfig, roles: Mapping[str, Any], longest: int) -> dict[str, Any]:
    """The contents of `generation_config.json` with which transformers decodes as Regard does.

    Args:
        config: Regard's settings of decoding.
        roles: The ids of special tokens, by their names in a Hugging Face config.
        longest: Largest number of tokens that the model has positions for. It is written as
            `max_length` if Regard has no limit but twice the source; the default of
            transformers would be 20.
    """
    settings: dict[str, Any] = {hub: getattr(config, our) for hub, our in SETTINGS.items()}
    names = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
    settings |= {name: roles[name] for name in names if roles.get(name) is not None}
    if config.beam == 1:
        del settings["length_penalty"]  # transformers refuses to save a penalty without beam search
    else:
        settings["early_stopping"] = next(hub for hub, our in STOPS.items() if our == config.stop)
    if config.sample:
        settings |= {name: getattr(config, name) for name in SAMPLING_SETTINGS}
    optional = {
        "suppress_tokens": list(config.banned),
        "forced_bos_token_id": config.forced_begin,
        "forced_eos_token_id": config.forced_end,
        "min_new_tokens": config.min_length,
        "max_new_tokens": config.max_length,
        "max_length": longest if config.max_length is None else None,
    }
    # A forced id may be 0; all other settings have no effect at 0.
    kept_optional = {k: v for k, v in optional.items() if v or (v == 0 and k.startswith("forced"))}
    return settings | kept_optional
