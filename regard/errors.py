"""Errors that a user can cause, in two lines: what was got, what was expected, what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher, get_close_matches

__all__ = [
    "LISTED",
    "FoundProblems",
    "InputError",
    "Interrupted",
    "UserError",
    "WriteError",
    "did_you_mean",
    "nearest",
    "safe",
]

LONGEST = 500
"""The maximal number of characters of each part of a message; names in files may be very long."""
NEAREST = 4
"""The maximal number of names that a message suggests."""
LISTED = 8
"""A message lists all names that are possible only if they are at most so many."""


_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""Characters that a terminal obeys, and halves of characters that have no UTF-8. Line ends and tabs
are not among them."""


class UserError(Exception):
    """An error that the user can correct.

    The command line prints it without a traceback and exits with `exit_code`.

    Args:
        what: What is wrong, in a few words, with file and line if there are any.
        got: What was found. In this and all other parts, unprintable characters are escaped and
            long texts shortened.
        expected: What would have been right.
        fix: What to do, as a command or a sentence.

    Example:
        >>> print(UserError("--beam", got="0", expected="1 or more", fix="try --beam 4"))
        --beam: got 0, expected 1 or more
        try --beam 4
    """

    exit_code = 2

    def __init__(
        self, what: str, *, got: object = None, expected: object = None, fix: str | None = None
    ) -> None:
        self.what, self.got, self.expected, self.fix = what, got, expected, fix
        parts = [] if got is None else [f"got {_plain(got)}"]
        if expected:
            parts.append(f"expected {_plain(expected)}")
        detail = ", ".join(parts)
        first = f"{_plain(what)}: {detail}" if detail else _plain(what)
        super().__init__(first if fix is None else f"{first}\n{_plain(fix)}")


def _plain(part: object) -> str:
    """A part of a message on one line: unprintable characters escaped, a long text shortened."""
    text = str(part)
    if len(text) > LONGEST:  # keep beginning and end, because the end is often as informative
        text = f"{text[: LONGEST // 2]}…{text[-LONGEST // 2 + 1 :]}"
    return escaped(text)


def escaped(text: str) -> str:
    """A text with those characters escaped that cannot be printed, such as line ends."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def safe(text: str) -> str:
    r"""A text of one or more lines in which no character can control a terminal.

    All that the command line prints goes through here, since names, labels and texts come from
    files of other people. A JSON object stays one with the same content.

    Example:
        >>> print(safe("a red \x1b[31m word"))
        a red \u001b[31m word
    """
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """The names most similar to a misspelt one, the best first; empty if none is similar.

    Names of which it is a part, such as a word or a folder, are similar; names that are much less
    similar than the best are left out.

    Example:
        >>> nearest("own/clasify", ["own/classify", "own/classify-scratch", "own/tag"])
        ['own/classify']
        >>> nearest("decay", ["weight_decay", "layer_decay", "warmup"])
        ['layer_decay', 'weight_decay']
    """
    typed, lower = name.lower(), {known.lower(): known for known in names}
    close = get_close_matches(typed, lower, n=NEAREST)
    ratios = {known: SequenceMatcher(None, known, typed).ratio() for known in close}
    similar = [known for known in close if ratios[known] > ratios[close[0]] - 0.15]
    longer = [known for known in lower if typed in re.split(r"\W|_", known)]
    return [lower[known] for known in dict.fromkeys([*similar, *longer])][:NEAREST]


def did_you_mean(names: Sequence[str], listed_by: str = "") -> str | None:
    """Advice with the names that were probably meant, and with the command that lists all.

    Args:
        names: The names; there may be none.
        listed_by: The command that lists all names; empty if there is none.

    Example:
        >>> did_you_mean(["steps", "stop"], "regard show")
        'did you mean steps or stop? `regard show` lists all'
    """
    *others, last = names or [""]
    meant = f"did you mean {', '.join(others)}{' or ' if others else ''}{last}?" if names else ""
    listing = f"`{listed_by}` lists all" if listed_by else ""
    return " ".join(filter(None, (meant, listing))) or None


class InputError(UserError):
    """Wrong input: an argument, a recipe, a file that cannot be read as what it should be."""


class FoundProblems(UserError):
    """The command ran, but its result is bad: problems in the data, or meaningless scores."""

    exit_code = 1


class WriteError(UserError):
    """A file could not be written; the old file is unchanged."""

    exit_code = 74


class Interrupted(UserError):
    """The command was stopped by a signal, after saving its state."""

    def __init__(self, what: str, *, signal: int, fix: str | None = None) -> None:
        super().__init__(what, fix=fix)
        self.exit_code = 128 + signal
