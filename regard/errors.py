"""What a user can cause, said in two lines: what was got, what was expected, what to do."""

from __future__ import annotations


class UserError(Exception):
    """Something the user can put right.

    The command line prints it without a traceback and exits with `exit_code`.

    Args:
        what: What is wrong, in a few words, with file and line where there is one.
        got: What was found.
        expected: What would have been right.
        fix: What to do, as a command or a sentence.

    Example:
        >>> print(UserError("--beam", got="0", expected="1 or more", fix="try --beam 4"))
        --beam: got 0, expected 1 or more
        try --beam 4
    """

    exit_code = 2

    def __init__(
        self,
        what: str,
        *,
        got: object = None,
        expected: object = None,
        fix: str | None = None,
    ) -> None:
        self.what, self.got, self.expected, self.fix = what, got, expected, fix
        found = [
            f"got {got}" if got is not None else "",
            f"expected {expected}" if expected else "",
        ]
        detail = ", ".join(part for part in found if part)
        first = (f"{what}: {detail}" if detail else what).replace("\n", "\\n")
        super().__init__(first if fix is None else f"{first}\n{fix}")


class InputError(UserError):
    """Wrong input: an argument, a recipe, a file that cannot be read as what it should be."""


class FoundProblems(UserError):
    """The command ran, and what it found or reached is bad."""

    exit_code = 1


class WriteError(UserError):
    """A file could not be written; the old file is unchanged."""

    exit_code = 74


class Interrupted(UserError):
    """Stopped by a signal, after saving."""

    def __init__(self, what: str, *, signal: int, fix: str | None = None) -> None:
        super().__init__(what, fix=fix)
        self.exit_code = 128 + signal
