"""A model -> its attention layers by name, and the function that each computes with.

The layers are the modules whose code asks the registry of attention functions. A model without
any, or one whose code we know to branch on the *name* of the function, is refused with the reason.
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
"""Where a config keeps the name of its attention function. The public setter would spread it over
the configs inside, and what was there before could not come back."""
REGISTRY = "ALL_ATTENTION_FUNCTIONS"
"""What the code of a `transformers` model calls the registry."""
DEFAULT = re.compile(
    rf"(?:{REGISTRY}, |get_interface\(\s*)self\.\w+\._attn_implementation,\s*(\w+)"
)
OLDER_DEFAULT = re.compile(r"attention_interface(?:: Callable)? = (\w+)\s*\n")
"""How a layer names its function for `eager`."""
BY_NAME = re.compile(r"_attn_implementation\s*(?:==|\bin\b|\bnot in\b)(.*)")
"""A layer that does something else for some names."""
CROSS = re.compile(r"cross|encoder_attn|encdec", re.IGNORECASE)
"""The names of attention from a decoder to its encoder."""

Layers = str | int | Sequence[str | int] | None


@dataclass(frozen=True)
class Layer:
    """One attention layer of a model.

    Attributes:
        name: Its path in the model, such as `model.layers.3.self_attn`.
        module: What the attention function gets as its first argument.
        config: Where it reads the name of the function to use.
    """

    name: str
    module: nn.Module
    config: Any

    @property
    def number(self) -> int | None:
        """The first number in its path."""
        return next((int(part) for part in self.name.split(".") if part.isdecimal()), None)

    @property
    def kind(self) -> str:
        """`cross`, or `self`."""
        return "cross" if CROSS.search(self.name) else "self"

    @property
    def stack(self) -> str:
        """`encoder` or `decoder` where a model has both; else `layers`."""
        parts = self.name.split(".")
        if self.kind == "cross":
            return "decoder"
        return next((part for part in parts if part in ("encoder", "decoder")), "layers")

    def site(self, *, paired: bool) -> str:
        """Its name in a look: stack, number, kind.

        Args:
            paired: Whether the model is an encoder-decoder.
        """
        stack = "layers" if self.stack == "decoder" and not paired else self.stack
        return f"{stack}.{self.number or 0}.{self.kind}"

    def sites(self, *, paired: bool) -> tuple[str, ...]:
        """The same, and as Regard's own models call it: `decoder.3.self` of a GPT."""
        shown = self.site(paired=paired)
        stack, _, rest = shown.partition(".")
        if stack != "layers":
            return (shown,)
        causal = self.stack == "decoder" or getattr(self.module, "is_causal", True)
        return shown, f"{'decoder' if causal else 'encoder'}.{rest}"


def attention_layers(model: nn.Module, version: str) -> dict[str, Layer]:
    """Every attention layer that can be watched, by name, in the model's order.

    Args:
        model: Of `transformers`.
        version: Of that library: it moves its models to the registry one after another.

    Raises:
        InputError: If there is none.
    """
    found = {}
    for name, module in model.named_modules():
        config = getattr(module, "config", None)
        if hasattr(config, NAME) and home(type(module)) is not None:
            found[name] = Layer(name, module, config)
    if not found:
        raise InputError(
            f"{type(model).__name__} cannot be watched",
            got=f"attention code of its own, in transformers {version}",
            expected="layers that take their function from its registry",
            fix="the kind of BERT does since transformers 5.0, T5 since 5.15",
        )
    return found


def home(kind: type) -> tuple[ModuleType, str] | None:
    """The file in which a layer's class asks the registry, and its code; None if it does not."""
    if kind not in _HOMES:
        _HOMES[kind] = _find_home(kind)
    return _HOMES[kind]


_HOMES: dict[type, tuple[ModuleType, str] | None] = {}
"""What was found: reading code takes a while."""


def _find_home(kind: type) -> tuple[ModuleType, str] | None:
    for ancestor in kind.__mro__:
        if ancestor.__module__ == "transformers.modeling_utils":
            break  # a whole model
        try:
            code = inspect.getsource(ancestor)
        except (OSError, TypeError):  # made in a shell or by a factory
            continue
        # a comment may name the registry too
        if re.search(rf"^[^#\n]*{REGISTRY}\b", code, re.MULTILINE):
            return sys.modules[ancestor.__module__], code
    return None


def own_function(kind: type, implementation: str) -> Callable[..., Any]:
    """The function that a layer of this class computes with, if left alone.

    Raises:
        InputError: If it cannot be told.
    """
    place = home(kind)
    assert place is not None, "only layers that ask the registry get here"
    if implementation == "eager":
        return _without_kernel(kind.__name__, *place)
    return getattr(place[0], REGISTRY)[implementation]  # a file may have one of its own


@cache
def _without_kernel(kind: str, file: ModuleType, code: str) -> Callable[..., Any]:
    """The function for `eager`, which the registry does not hold: the layer's code names it."""
    default = DEFAULT.search(code) or OLDER_DEFAULT.search(code)
    function = getattr(file, default.group(1), None) if default else None
    if function is None:
        raise InputError(
            f"{kind} cannot be watched",
            got="no function in its file for attention without a fast kernel",
            fix='load the model with attn_implementation="sdpa"',
        )
    return function


def check_layer(layer: Layer, implementation: str) -> None:
    """Refuses a layer that would compute something else under another name.

    Raises:
        InputError: With the reason.
    """
    if "flex" in implementation or "paged" in implementation:
        raise InputError(
            f"{layer.name} cannot be watched",
            got=f'attn_implementation="{implementation}"',
            expected="sdpa, eager or flash attention",
            fix='load the model with attn_implementation="sdpa"',
        )
    own_function(type(layer.module), implementation)
    place = home(type(layer.module))
    for line in BY_NAME.findall(place[1] if place else ""):
        if f'"{implementation}"' not in line or "output_attentions" in line:
            continue
        # GPT-2 asks for "eager", but only to compute in another order if told so
        if not getattr(layer.module, "reorder_and_upcast_attn", True):
            continue
        raise InputError(
            f"{layer.name} cannot be watched",
            got=f'code that computes differently under the name "{implementation}"',
            expected="code that only looks its function up",
        )


def pick_layers(known: dict[str, Layer], asked: Layers) -> list[Layer]:
    """The layers that names, patterns with `*`, or numbers ask for (None: all), in order.

    A name is a path in the model, or, where there is no such path, a site: `decoder.1.cross`.

    Raises:
        InputError: For one that is not there, or a number that several have.
    """
    if asked is None:
        return list(known.values())
    each: Iterable[str | int] = [asked] if isinstance(asked, str | int) else asked
    names = {name for one in each for name in _named(known, one)}
    return [layer for name, layer in known.items() if name in names]


def _named(known: dict[str, Layer], asked: str | int) -> list[str]:
    """The names that one name, pattern or number stands for."""
    if isinstance(asked, int):
        found = _only(asked, [name for name, each in known.items() if each.number == asked])
    else:
        found = [name for name in known if fnmatchcase(name, asked)]
        found = found or at_site(known, asked)
    if not found:
        close = get_close_matches(str(asked), known, n=1, cutoff=0.0)
        raise InputError("no such layer", got=asked, expected=f"one such as {close[0]}")
    return found


def at_site(known: Mapping[str, Layer], asked: str) -> list[str]:
    """The names of the layers at a site such as `decoder.1.cross`, or at a pattern of sites.

    Raises:
        InputError: If several layers share the one site.
    """
    paired = is_paired(known)
    found = [
        name for name, layer in known.items()
        if any(fnmatchcase(site, asked) for site in layer.sites(paired=paired))
    ]  # fmt: skip
    return found if "*" in asked else _only(asked, found)


def is_paired(known: Mapping[str, Layer]) -> bool:
    """Whether there is attention from a decoder to its encoder."""
    return any(layer.kind == "cross" for layer in known.values())


def _only(asked: str | int, found: list[str]) -> list[str]:
    """The one that was found, or none."""
    if len(found) > 1:
        of = "number" if isinstance(asked, int) else "name"
        raise InputError(
            f"layer {asked}",
            got=f"{len(found)} layers of that {of}",
            expected="a name",
            fix=f"try {' or '.join(found[:3])}",
        )
    return found
