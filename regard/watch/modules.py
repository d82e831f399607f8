"""Find the attention layers of a `transformers` model and the attention function of each.

Attention layers are the modules whose source code uses the registry of attention functions. A
model without any is rejected, and so is a layer whose code branches on the *name* of the function.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from types import ModuleType
from typing import Any

from torch import nn

from regard.errors import InputError

NAME = "_attn_implementation_internal"
"""The attribute in which a config stores the name of its attention function. The public setter
would also overwrite the nested configs, whose old values could then not be restored."""
REGISTRY = "ALL_ATTENTION_FUNCTIONS"
"""The name of the registry in the code of `transformers` models."""
DEFAULT = re.compile(
    rf"(?:{REGISTRY}, |get_interface\(\s*)self\.\w+\._attn_implementation,\s*(\w+)"
)
OLDER_DEFAULT = re.compile(r"attention_interface(?:: Callable)? = (\w+)\s*\n")
"""How a layer's code names its function for `eager` (`DEFAULT`: newer versions)."""
BY_NAME = re.compile(r"_attn_implementation\s*(?:==|\bin\b|\bnot in\b)(.*)")
"""Code of a layer that branches on the name of the attention function."""
CROSS = re.compile(r"cross|encoder_attn|encdec", re.IGNORECASE)
"""Module names of cross-attention."""
LOAD_WITH_SDPA = 'load the model with attn_implementation="sdpa"'

Layers = str | int | Sequence[str | int] | None


@dataclass(frozen=True)
class Layer:
    """One attention layer of a model.

    Attributes:
        name: Its path in the model, such as `model.layers.3.self_attn`.
        module: The layer, which the attention function gets as its first argument.
        config: The config in which the layer reads the name of its attention function.
    """

    name: str
    module: nn.Module
    config: Any

    @property
    def number(self) -> int | None:
        """The first number in its path; None if there is none."""
        return next((int(part) for part in self.name.split(".") if part.isdecimal()), None)

    @property
    def kind(self) -> str:
        """`cross`, or `self`."""
        return "cross" if CROSS.search(self.name) else "self"

    @property
    def stack(self) -> str:
        """`encoder` or `decoder` if the path contains it (cross: `decoder`); else `layers`."""
        parts = self.name.split(".")
        if self.kind == "cross":
            return "decoder"
        return next((part for part in parts if part in ("encoder", "decoder")), "layers")

    def site(self, *, paired: bool) -> str:
        """The layer's site in a look: stack, number, kind.

        Args:
            paired: Whether the model is an encoder-decoder.
        """
        stack = "layers" if self.stack == "decoder" and not paired else self.stack
        return f"{stack}.{self.number or 0}.{self.kind}"

    def sites(self, *, paired: bool) -> tuple[str, ...]:
        """All accepted sites: `site`, and that of Regard's own models (GPT: `decoder.3.self`)."""
        site = self.site(paired=paired)
        stack, _, number_and_kind = site.partition(".")
        if stack != "layers":
            return (site,)
        causal = self.stack == "decoder" or getattr(self.module, "is_causal", True)
        return site, f"{'decoder' if causal else 'encoder'}.{number_and_kind}"


def attention_layers(model: nn.Module, version: str) -> dict[str, Layer]:
    """Every attention layer that can be watched, by name, in the model's order.

    Args:
        model: A model of `transformers`.
        version: The version of `transformers`, for the error message: older versions have models
            that do not use the registry yet.

    Raises:
        InputError: If there is none.
    """
    layers = {}
    for name, module in model.named_modules():
        config = getattr(module, "config", None)
        kind: type = type(module)
        if hasattr(config, NAME) and registry_code(kind) is not None:
            layers[name] = Layer(name, module, config)
    if not layers:
        what, got = type(model).__name__, f"attention code of its own, in transformers {version}"
        expected = "layers that take their function from its registry"
        fix = "BERT and similar models have them since transformers 5.0, T5 since 5.15"
        raise InputError(f"{what} cannot be watched", got=got, expected=expected, fix=fix)
    return layers


@cache  # reading source code is slow
def registry_code(kind: type) -> tuple[ModuleType, str] | None:
    """The module and the source code of the class that uses the registry; None if none does.

    Args:
        kind: The class of a layer; its base classes are searched, too.
    """
    for ancestor in kind.__mro__:
        if ancestor.__module__ == "transformers.modeling_utils":
            break  # a model, not a layer
        try:
            code = inspect.getsource(ancestor)
        except (OSError, TypeError):  # no source: defined in a shell or by a factory
            continue
        # ignore comments that mention the registry
        if re.search(rf"^[^#\n]*{REGISTRY}\b", code, re.MULTILINE):
            return sys.modules[ancestor.__module__], code
    return None


def original_function(kind: type, implementation: str) -> Callable[..., Any]:
    """The attention function that a layer of this class uses when it is not watched.

    Raises:
        InputError: If it cannot be determined.
    """
    source = registry_code(kind)
    assert source is not None, "only layers that use the registry get here"
    if implementation == "eager":
        return _eager_function(kind.__name__, *source)
    return getattr(source[0], REGISTRY)[implementation]  # a file may define its own registry


@cache
def _eager_function(kind: str, file: ModuleType, code: str) -> Callable[..., Any]:
    """The function for `eager`: it is not in the registry but named in the layer's code."""
    default = DEFAULT.search(code) or OLDER_DEFAULT.search(code)
    function = getattr(file, default.group(1), None) if default else None
    if function is None:
        got = "no function for eager attention in its file"
        raise InputError(f"{kind} cannot be watched", got=got, fix=LOAD_WITH_SDPA)
    return function


def check_layer(layer: Layer, implementation: str) -> None:
    """Reject a layer that would compute something else if its function had another name.

    Raises:
        InputError: With the reason.
    """
    what = f"{layer.name} cannot be watched"
    if "flex" in implementation or "paged" in implementation:
        got, expected = f'attn_implementation="{implementation}"', "sdpa, eager or flash attention"
        raise InputError(what, got=got, expected=expected, fix=LOAD_WITH_SDPA)
    kind: type = type(layer.module)
    original_function(kind, implementation)
    source = registry_code(kind)
    for line in BY_NAME.findall(source[1] if source else ""):
        if f'"{implementation}"' not in line or "output_attentions" in line:
            continue
        # GPT-2 compares with "eager", but this matters only with reorder_and_upcast_attn
        if not getattr(layer.module, "reorder_and_upcast_attn", True):
            continue
        got = f'code that tests whether the function is called "{implementation}"'
        expected = "code that only looks up its function by that name"
        raise InputError(what, got=got, expected=expected)


def pick_layers(by_name: dict[str, Layer], selector: Layers) -> list[Layer]:
    """The layers selected by names, patterns with `*`, or numbers (None: all), in model order.

    A name is a path in the model or, if there is no such path, a site such as `decoder.1.cross`.

    Raises:
        InputError: For an unknown layer, or a number that several layers have.
    """
    if selector is None:
        return list(by_name.values())
    selectors: Iterable[str | int] = [selector] if isinstance(selector, str | int) else selector
    names = {name for selector in selectors for name in _selected_names(by_name, selector)}
    return [layer for name, layer in by_name.items() if name in names]


def _selected_names(by_name: dict[str, Layer], selector: str | int) -> list[str]:
    """The names of the layers that one name, pattern or number selects."""
    if isinstance(selector, int):
        names = [name for name, layer in by_name.items() if layer.number == selector]
        _check_unique(selector, names)
    else:
        names = [name for name in by_name if fnmatchcase(name, selector)]
        names = names or at_site(by_name, selector)
    if not names:
        paired = is_paired(by_name)
        sites = [site for layer in by_name.values() for site in layer.sites(paired=paired)]
        close = get_close_matches(str(selector), [*by_name, *sites], n=1, cutoff=0.0)
        raise InputError("no such layer", got=selector, expected=f"one such as {close[0]}")
    return names


def at_site(by_name: Mapping[str, Layer], selector: str) -> list[str]:
    """The names of the layers at a site such as `decoder.1.cross`, or matching a pattern of sites.

    Raises:
        InputError: If several layers share the one site.
    """
    paired = is_paired(by_name)
    names = [
        name for name, layer in by_name.items()
        if any(fnmatchcase(site, selector) for site in layer.sites(paired=paired))
    ]  # fmt: skip
    return names if "*" in selector else _check_unique(selector, names)


def is_paired(by_name: Mapping[str, Layer]) -> bool:
    """Whether there is cross-attention: whether the model is an encoder-decoder."""
    return any(layer.kind == "cross" for layer in by_name.values())


def _check_unique(selector: str | int, names: list[str]) -> list[str]:
    """Return `names` unchanged if it has at most one layer; otherwise raise an InputError."""
    if len(names) > 1:
        of = "number" if isinstance(selector, int) else "name"
        got, fix = f"{len(names)} layers of that {of}", f"try {' or '.join(names[:3])}"
        raise InputError(f"layer {selector}", got=got, expected="a name", fix=fix)
    return names
