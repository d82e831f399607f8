"""A few hundred analogy questions of our own, the default if the user gives no question file."""

from __future__ import annotations

PAIRS = {
    "capital of a country": """
        paris france, berlin germany, rome italy, madrid spain, london england, moscow russia,
        tokyo japan, beijing china, athens greece, vienna austria, cairo egypt, lisbon portugal""",
    "woman for man": """
        man woman, king queen, father mother, brother sister, son daughter, husband wife, boy girl,
        uncle aunt, prince princess, he she, his her, grandfather grandmother""",
    "opposite": """
        good bad, high low, long short, hot cold, open closed, old new, strong weak, rich poor,
        first last, north south, east west, win lose""",
    "plural": """
        year years, city cities, country countries, child children, man men, woman women, day days,
        house houses, book books, game games, song songs, car cars""",
    "past": """
        go went, take took, make made, give gave, begin began, write wrote, see saw, come came,
        find found, say said, know knew, become became""",
    "comparative": """
        good better, bad worse, large larger, small smaller, high higher, low lower, long longer,
        short shorter, old older, young younger, strong stronger, fast faster""",
}
"""Word pairs by section; every ordered choice of two pairs of a section makes one question."""


def own_questions() -> dict[str, list[tuple[str, str, str, str]]]:
    """Questions (a, b, c, d) by section: a is to b as c is to which word? The answer is d.

    Example:
        >>> own_questions()["past"][0]
        ('go', 'went', 'take', 'took')
    """
    sections = {}
    for name, text in PAIRS.items():
        pairs = [tuple(pair.split()) for pair in text.replace("\n", " ").split(",")]
        sections[name] = [(*pair, *other) for pair in pairs for other in pairs if pair != other]
    return sections  # type: ignore[return-value]
