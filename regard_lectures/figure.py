"""A figure of the atlas: what it shows, its options, what it takes, and how it is drawn."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from regard.errors import LISTED, InputError, did_you_mean, nearest
from regard_lectures import results

if TYPE_CHECKING:
    from regard.explain import Drawing, Words

T = TypeVar("T")
Value = int | float | str
Again = Literal["", "small", "full"]
PICTURES = (".html", ".png", ".svg", ".pdf")
OLD_NAMES = {"place": "model"}
"""Old names of options, which are still accepted."""

_logger = logging.getLogger("regard.lectures")  # `--quiet` is for all loggers of `regard`


@dataclass(frozen=True)
class Option:
    """An option of a figure.

    Attributes:
        default: The default value; its type is the option's type.
        meaning: A short description, which messages about a wrong value repeat.
        low: The smallest allowed number.
        high: The largest allowed number.
        choices: The allowed values of a text option; empty if any text is allowed.
    """

    default: Value
    meaning: str
    low: float = 1
    high: float = float("inf")
    choices: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        """A phrase that describes the allowed values, for error messages."""
        if self.choices:
            return " or ".join(filter(None, self.choices))  # an empty one means: left out
        if isinstance(self.default, str):
            return "a text"
        kind = "a whole number" if isinstance(self.default, int) else "a number"
        return (
            f"{kind} of {self.low:g} or more"
            if self.high == float("inf")
            else (f"{kind} from {self.low:g} to {self.high:g}")
        )

    def read(self, name: str, given: Value) -> Value:
        """Check a value and convert it to the option's type.

        Raises:
            InputError: If the value is not allowed.
        """
        error = InputError(
            name, got=repr(given), expected=self.expected, fix=f"{name}: {self.meaning}"
        )
        if self.choices:
            if given not in self.choices:
                raise error
            return given
        if isinstance(self.default, str):  # the figure itself checks the text
            return str(given)
        try:
            value = type(self.default)(given)
        except ValueError:
            raise error from None
        inside = not isinstance(value, str) and self.low <= value <= self.high
        if not inside or (isinstance(given, float) and value != given):  # 2.5 for an integer
            raise error
        return value


@dataclass(frozen=True)
class Figure:
    """One figure of the atlas.

    Attributes:
        title: A short title.
        lectures: The rows of the lecture ledger that it covers, such as `3.1`.
        module: The module in `figures/` with the function that draws it, which has the figure's
            name; by default the module has it, too.
        text: The meaning of `--text` for this figure; empty if it takes no text.
        takes: What of the person's own it takes, as `--text: a sentence; model=: a translator`, or
            `none: ` and why.
        options: Its options, by name.
        endings: The endings of files that it can be written to.
        usual: The default ending if no file is given.
        measured: Whether the module has a function `measure`, or `measure_` and the figure's name,
            that trains and returns numbers, which the figure's function draws. The result for the
            default options is in `results/`. The last option of such a figure is `seed`.
        small: Options of a version of the training that takes minutes, which `--again` runs.
        name: Its name on the command line: its key in `FIGURES`.
    """

    title: str
    lectures: tuple[str, ...]
    module: str = ""
    text: str = ""
    takes: str = ""
    options: Mapping[str, Option] = field(default_factory=dict)
    endings: tuple[str, ...] = PICTURES
    usual: str = ".png"
    measured: bool = False
    small: Mapping[str, Value] = field(default_factory=dict)
    name: str = ""

    def check_ending(self, path: str | os.PathLike[str]) -> None:
        """Reject a file that this figure cannot be written to.

        Raises:
            InputError: For another ending than `endings`.
        """
        from regard.explain import picture_ending

        picture_ending(path, self.endings, self.name)

    def renamed(self, given: Mapping[str, Value]) -> dict[str, Value]:
        """Options under their current names; an old name is accepted with a warning."""
        options = dict(given)
        for old, new in OLD_NAMES.items():
            if old in options and old not in self.options and new in self.options:
                if new in options:
                    raise InputError(
                        f"show {self.name}", got=f"{old} and {new}", expected=f"{new} alone"
                    )
                _logger.warning("warning: %s= is called %s= now", old, new)
                options[new] = options.pop(old)
        return options

    def read(self, given: Mapping[str, Value]) -> dict[str, Value]:
        """The values of all options: as given, else the default.

        Raises:
            InputError: For an unknown option, or a value that is not allowed.
        """
        given = self.renamed(given)
        for name in given:
            if name not in self.options:
                known = ", ".join(self.options) or "no option"
                fix = did_you_mean(nearest(name, self.options))
                raise InputError(f"show {self.name}", got=repr(name), expected=known, fix=fix)
        return {
            name: option.read(name, given[name]) if name in given else option.default
            for name, option in self.options.items()
        }

    def draw(
        self,
        text: str | None = None,
        *,
        details: bool = False,
        paper: bool = False,
        again: Again = "",
        **options: Value,
    ) -> Drawing:
        """Compute and draw the figure.

        Args:
            text: The user's own input, for figures that take one.
            details: Write into the picture, under the caption, what was computed and how.
            paper: Draw it for print: 160 mm wide, without title and caption.
            again: Train again, even if a result is stored: `full`, or `small` for the version that
                takes minutes, if the figure has one. Options that are given count in both.
            options: The options of the figure.

        Raises:
            InputError: For a text or option that the figure does not accept.
        """
        if text is not None and not self.text:
            from regard_lectures.catalogue import FIGURES

            with_text = ", ".join(name for name, figure in FIGURES.items() if figure.text)
            raise InputError(
                f"show {self.name}",
                got="--text",
                expected="none",
                fix=f"these take one: {with_text}",
            )
        values = self.read({**self.small, **options} if again == "small" else options)
        paint: Callable[..., Drawing] = self._function(self.name)
        from torch.random import fork_rng

        from regard.draw import Medium
        from regard.explain import drawn_for

        medium = Medium(paper=paper, details=details)
        # a figure sets its own seed: keep the caller's random state
        with fork_rng(devices=()), drawn_for(self.title, medium):
            if self.measured:
                drawing = paint(self.result(values, text, fresh=bool(again)), **values)
            else:
                drawing = paint(text, **values) if self.text else paint(**values)
        drawing.name = self.name
        return drawing

    def words(self, numbers: Mapping[str, Any]) -> Words:
        """Title and caption, computed from the numbers of a drawing of this figure."""
        compute: Callable[[Mapping[str, Any]], Words] = self._function(f"words_{self.name}")
        return compute(numbers)

    def result(
        self, values: Mapping[str, Value], text: str | None = None, *, fresh: bool = False
    ) -> dict[str, Any]:
        """The result of a figure with `measured`: the stored one, else that of a training now.

        Args:
            values: The values of all options.
            text: The user's own input, for figures that take one; no result of it is stored.
            fresh: Train even if a result for these values is stored.
        """
        stored_result = None if fresh or text is not None else results.stored(self.name, values)
        measure: Callable[..., dict[str, Any]] = self._function("measure", f"measure_{self.name}")
        given = {"text": text} if self.text else {}
        return measure(**given, **values) if stored_result is None else stored_result

    def store(self, folder: Path) -> Path:
        """Train with the default options, and write the result into a folder of results."""
        values = self.read({})
        result = self.result(values, fresh=True)
        return results.write(folder, self.name, values, result, self.settings())

    def settings(self) -> str:
        """The checksum of the constants of the figure's module."""
        return results.checksum_of(import_module(f"regard_lectures.figures.{self.module}"))

    def _function(self, *names: str) -> Callable[..., Any]:
        """The function of the figure's module that has one of these names."""
        module = import_module(f"regard_lectures.figures.{self.module}")
        function: Callable[..., Any] = next(
            getattr(module, name) for name in names if hasattr(module, name)
        )
        return function


def look_up(kind: str, name: str, known: Mapping[str, T], listed_by: str) -> T:
    """The entry of this name.

    Args:
        kind: What it is, for the message.
        name: The name.
        known: All entries by name.
        listed_by: The command that lists all names.

    Raises:
        InputError: If there is none; the message suggests the most similar names.
    """
    if name not in known:
        expected = f"one of {', '.join(known)}" if len(known) <= LISTED else None
        fix = did_you_mean(nearest(name, known), listed_by)
        raise InputError(f"no such {kind}", got=name, expected=expected, fix=fix)
    return known[name]


SEED = Option(0, "seed of everything random", low=0)
TRIES = Option(3, "trainings with other seeds: seed, seed + 1, and so on", high=10)
