"""All claims of the lectures about networks that see, with what the shipped measurements say."""

from __future__ import annotations

from regard.explain import Board, Drawing, Numbers, Words
from regard_lectures import results
from regard_lectures.claims import CLAIMS, Interval, interval, judge
from regard_lectures.tries import listed

SIGNS = {"holds": "✓", "does not hold": "✗", "cannot tell": "?"}
"""How a part of a claim is marked."""
ORDER = ("holds", "holds in part", "does not hold", "cannot tell")


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
        verdict: [name for name, value in verdicts.items() if value == verdict] for verdict in ORDER
    }
    counts = [f"{len(names)} {verdict}" for verdict, names in by_verdict.items() if names]
    title = f"Of {len(verdicts)} claims {listed(counts)}"
    open_ = by_verdict["does not hold"] + by_verdict["cannot tell"]
    caption = "A part holds (✓) if the 95% interval of its paired differences over the seeds is "
    caption += "above 0, fails (✗) if it is below, and else cannot be told (?). "
    caption += f"Not shown to hold: {listed(open_)}." if open_ else "None fails."
    return Words(title, caption)


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
        rows = [
            (
                name,
                CLAIMS[name].row,
                verdict,
                ", ".join(
                    f"{part} {SIGNS[value]}" for part, value in numbers["parts"][name].items()
                ),
            )
            for name, verdict in numbers["verdicts"].items()
        ]
        board.table(
            0, "", [("regard show", 0.0), ("row", 0.22), ("verdict", 0.42), ("parts", 1.0)], rows
        )
        return board.drawing(**numbers)
