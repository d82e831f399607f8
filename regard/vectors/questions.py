"""A few hundred analogy questions of our own, the default if the user gives no question file."""

from __future__ import annotations

from importlib.resources import files

PAIRS = "questions.txt"
"""The file of word pairs: a line `: name` begins a section, each other line has one pair. Every
ordered choice of two pairs of a section makes one question."""


def own_questions() -> dict[str, list[tuple[str, str, str, str]]]:
    """Questions (a, b, c, d) by section: a is to b as c is to which word? The answer is d.

    Example:
        >>> own_questions()["past"][0]
        ('go', 'went', 'take', 'took')
    """
    text = files("regard.vectors").joinpath(PAIRS).read_text("utf-8")
    sections = {}
    for section in text.removeprefix(": ").split("\n: "):
        name, *lines = section.splitlines()
        pairs = [tuple(line.split()) for line in lines]
        sections[name] = [(*pair, *other) for pair in pairs for other in pairs if pair != other]
    return sections  # type: ignore[return-value]
