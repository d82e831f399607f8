"""All claims of the lectures about networks that see, with what the shipped measurements say."""

from __future__ import annotations

from collections.abc import Mapping

from regard.draw import SMALLEST, text_width
from regard.explain import Board, Drawing, Numbers, Words
from regard_lectures import results
from regard_lectures.claims import CLAIMS, Interval, interval, judge
from regard_lectures.tries import listed

SIGNS = {"holds": "✓", "does not hold": "✗", "cannot tell": "?"}
"""How a part of a claim is marked."""
COUNTED = {
    "holds": ("holds", "hold"),
    "holds in part": ("holds in part", "hold in part"),
    "does not hold": ("does not hold", "do not hold"),
    "cannot tell": ("cannot be told", "cannot be told"),
}
"""What is said of one claim and of several."""
VERDICT_END, PARTS_BEGIN = 0.4, 0.43
"""Where the column of the verdicts ends and that of the parts begins, as shares of the width."""


def differences_of(name: str) -> dict[str, list[float]] | None:
    """The stored differences of a claim's parts; None if none are stored."""
    from regard_lectures.catalogue import FIGURES

    if name not in FIGURES:
        return None
    stored = results.stored(name, FIGURES[name].read({}))
    return None if stored is None else stored["differences"]


def measured_claims() -> Numbers:
    """The verdict of every claim whose result is stored, and the intervals of its parts."""
    verdicts, parts, intervals = {}, {}, {}
    for name in CLAIMS:
        differences = differences_of(name)
        if differences is None:
            continue
        judged = judge(name, differences)
        verdicts[name] = judged.verdict
        parts[name] = {part: value.verdict for part, value in judged.parts.items()}
        intervals[name] = {part: edges(interval(differences[part])) for part in judged.parts}
    return {"verdicts": verdicts, "parts": parts, "intervals": intervals}


def edges(value: Interval) -> list[float]:
    """Mean, low and high end of an interval."""
    return [value.mean, value.low, value.high]


def words_claims(numbers: Numbers) -> Words:
    """How many claims hold, and which do not."""
    verdicts: dict[str, str] = numbers["verdicts"]
    by_verdict = {
        verdict: [name for name, value in verdicts.items() if value == verdict]
        for verdict in COUNTED
    }
    counts = [
        f"{len(names)} {COUNTED[verdict][len(names) > 1]}"
        for verdict, names in by_verdict.items()
        if names
    ]
    title = f"Of {len(verdicts)} claims {listed(counts)}"
    shown = by_verdict["holds"] + by_verdict["holds in part"]
    open_ = by_verdict["does not hold"] + by_verdict["cannot tell"]
    caption = "A part holds (✓) if the 95% interval of its paired differences over the seeds is "
    caption += "above 0, fails (✗) if it is below, and else cannot be told (?). "
    if not open_:
        caption += "All hold, at least in part."
    elif not shown:
        caption += "None is shown to hold."
    elif len(shown) < len(open_):
        caption += f"Shown to hold, at least in part: {listed(shown)}."
    else:
        caption += f"Not shown to hold: {listed(open_)}."
    return Words(title, caption)


def parts_shown(parts: Mapping[str, str], width: float) -> str:
    """The parts with their marks, or if that is too wide how many have which mark.

    Args:
        parts: The verdict of each part.
        width: The room in pixels.
    """
    named = ", ".join(
        f"{part.replace('_', ' ')} {SIGNS[verdict]}" for part, verdict in parts.items()
    )
    if text_width(named, SMALLEST) <= width:
        return named
    verdicts = list(parts.values())
    counts = {sign: verdicts.count(verdict) for verdict, sign in SIGNS.items()}
    marks = ", ".join(f"{count} {sign}" for sign, count in counts.items() if count)
    return f"of {len(parts)} parts: {marks}"


def claims() -> Drawing:
    """Draw the table of the claims: name, row of the ledger, verdict, and that of each part."""
    numbers = measured_claims()
    details = " ".join(
        f"{name}: {CLAIMS[name].says} "
        + " ".join(
            f"{part} ({CLAIMS[name].parts[part]}): {values[0]:+.3g} "
            f"({values[1]:+.3g} to {values[2]:+.3g})."
            for part, values in numbers["intervals"][name].items()
        )
        for name in numbers["verdicts"]
    )
    limits = "Small models trained for minutes on small data, as each claim's own figure says."
    with Board(words_claims(numbers), (1,), details, limits=limits) as board:
        width = (1 - PARTS_BEGIN) * board.panel_box(0)[2]
        rows = [
            (name, CLAIMS[name].row, verdict, parts_shown(numbers["parts"][name], width))
            for name, verdict in numbers["verdicts"].items()
        ]
        columns = [("regard show", 0.0), ("row", 0.22), ("verdict", VERDICT_END), ("parts", 1.0)]
        board.table(0, "", columns, rows)
        return board.drawing(**numbers)
