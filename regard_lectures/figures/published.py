"""Figure of part 5 with published numbers: BLEU against training cost; or the BLEU of a pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard import plan
from regard.cost import PAPER_TRAINING, paper_training_flops
from regard.draw import BLUE, MUTED, ORANGE, scientific
from regard.explain import Board, Drawing, Numbers, Table, Words
from regard_lectures.figures.own_bleu import draw_pair, words_pair
from regard_lectures.tries import listed

VOCAB = 37000  # sub-words shared by both languages (section 5.1 of the paper)
STEPS = {"base": 100_000, "big": 300_000}  # section 5.2
STEP_TOKENS = 50_000  # 25,000 source and 25,000 target tokens (section 5.1)


@dataclass(frozen=True)
class Published:
    """A row of the paper's Table 2; None where it has no number."""

    name: str
    german: float | None
    french: float | None
    german_flops: float | None = None
    french_flops: float | None = None


TABLE = (
    Published("ByteNet", 23.75, None),
    Published("Deep-Att + PosUnk", None, 39.2, None, 1.0e20),
    Published("GNMT + RL", 24.6, 39.92, 2.3e19, 1.4e20),
    Published("ConvS2S", 25.16, 40.46, 9.6e18, 1.5e20),
    Published("MoE", 26.03, 40.56, 2.0e19, 1.2e20),
    Published("Deep-Att + PosUnk, ensemble", None, 40.4, None, 8.0e20),
    Published("GNMT + RL, ensemble", 26.30, 41.16, 1.8e20, 1.1e21),
    Published("ConvS2S, ensemble", 26.36, 41.29, 7.7e19, 1.2e21),
    Published("Transformer base", 27.3, 38.1, 3.3e18, 3.3e18),
    Published("Transformer big", 28.4, 41.8, 2.3e19, 2.3e19),
)


SHORT = {
    "Deep-Att + PosUnk": "Deep-Att",
    "GNMT + RL": "GNMT",
    "Deep-Att + PosUnk, ensemble": "Deep-Att ens.",
    "GNMT + RL, ensemble": "GNMT ens.",
    "ConvS2S, ensemble": "ConvS2S ens.",
    "Transformer base": "base",
    "Transformer big": "big",
}
LABELS = {
    "MoE": ("right", -8, 4),
    "ConvS2S": ("right", -8, -14),
    "ConvS2S ens.": ("right", -8, 4),
    "GNMT ens.": ("center", 4, -22),
    "Deep-Att ens.": ("center", 0, -29),
    "Deep-Att": ("center", 0, -22),
    "GNMT": ("center", 0, -22),
}
"""Alignment and offset in points of names that would otherwise overlap another."""


def bleu(text: str | None = None) -> Drawing:
    """Draw the published table, and the two training costs computed in two ways; or a pair's BLEU.

    Args:
        text: A candidate and one or several references, with slashes between them.
    """
    if text is not None:
        return draw_pair(text)
    paper = {size: paper_training_flops(*PAPER_TRAINING[size]) for size in STEPS}
    plans = {
        size: plan(size, tokens=float(steps * STEP_TOKENS), vocab=VOCAB, flops=1.0)
        for size, steps in STEPS.items()
    }
    ours = {size: planned.training_flops for size, planned in plans.items()}
    sizes = {size: planned.total for size, planned in plans.items()}
    numbers: Numbers = {
        **{f"published_flops_{size}": flops for size, flops in paper.items()},
        **{f"counted_flops_{size}": flops for size, flops in ours.items()},
        **{f"parameters_{size}": count for size, count in sizes.items()},
        "table": [
            [row.name, row.german, row.french, row.german_flops, row.french_flops] for row in TABLE
        ],
    }
    details = (
        "Table 2 of Vaswani et al. 2017, with its sources. The paper's FLOPs are training time × 8 "
        f"GPUs × 9.5 TFLOP/s = {scientific(paper['base'])} (base, 12 h) and "
        f"{scientific(paper['big'])} (big, 3.5 days). We count the matrix products of our own "
        "models (`regard plan`) over 100,000 and 300,000 steps of 25,000 source and 25,000 target "
        f"tokens: {scientific(ours['base'])} and {scientific(ours['big'])}. The paper's number is "
        "what the GPUs could have computed in that time, ours what the model needs. "
        f"Parameters: {sizes['base'] / 1e6:.0f}M and {sizes['big'] / 1e6:.0f}M "
        "(the paper: 65M and 213M)."
    )
    limits = "Published numbers, without intervals; no model was trained for this picture."
    with Board(words_bleu(numbers), (0.85, 1, 1), details, limits=limits) as board:
        _draw_table(board)
        for panel, language in ((1, "german"), (2, "french")):
            _draw_scatter(board, panel, language, ours)
        return board.drawing(**numbers)


def words_bleu(numbers: Numbers) -> Words:
    """Which Transformers beat all others with less computation, and what each count counts."""
    if "candidate" in numbers:
        return words_pair(numbers)
    best = {
        language: _best_for_less(numbers["table"], column)
        for column, language in ((1, "German"), (2, "French"))
    }
    said = [f"to {language} {listed(names)}" for language, names in best.items() if names]
    none = [language for language, names in best.items() if not names]
    if said:
        title = f"Better than all others for fewer FLOPs: {', '.join(said)}"
        title += f"; to {none[0]} neither size" if none else ""
    else:
        title = "Neither size of the Transformer is better than all others for fewer FLOPs"
    shares = {size: numbers[f"counted_flops_{size}"] / numbers[f"published_flops_{size}"]
              for size in STEPS}  # fmt: skip
    counted = " and ".join(f"{share:.0%} ({size})" for size, share in shares.items())
    highest = max(shares.values())
    less_or_more = "less" if highest < 1 else "more"
    caption = (
        "Squares, dots: published; the Transformers' FLOPs are time × 8 GPUs × 9.5 TFLOP/s. "
        f"Triangles: our count of their matrix products, {counted} of it: {less_or_more} than the "
        "chips could do."
    )
    return Words(title, caption)


def _best_for_less(table: list[list[Any]], column: int) -> list[str]:
    """The sizes of the Transformer with more BLEU and fewer FLOPs than every other model.

    Args:
        table: The name, both scores and both costs of each model.
        column: The column of the score; that of its cost is two further.
    """
    ours: list[list[Any]] = []
    others: list[list[Any]] = []
    for row in table:
        (ours if row[0].startswith("Transformer") else others).append(row)
    score = max(row[column] for row in others if row[column] is not None)
    cost = min(row[column + 2] for row in others if row[column + 2] is not None)
    return [
        row[0].removeprefix("Transformer ")
        for row in ours
        if row[column] > score and row[column + 2] < cost
    ]


def _draw_table(board: Board) -> None:
    """Draw the scores (the costs are on the axes), and add the whole table to the page."""
    rows = [
        (SHORT.get(row.name, row.name),
         *("" if score is None else f"{score:g}" for score in (row.german, row.french)))
        for row in TABLE
    ]  # fmt: skip
    bold = [index for index, row in enumerate(TABLE) if "Transformer" in row.name]
    columns = (("BLEU", 0.0), ("DE", 0.76), ("FR", 1.0))
    board.table(0, "published", columns, rows, bold)
    head = ("model", "BLEU, German", "BLEU, French", "FLOPs, German", "FLOPs, French")
    whole = [
        (row.name, row.german or "", row.french or "",
         *("" if cost is None else _short(cost) for cost in (row.german_flops, row.french_flops)))
        for row in TABLE
    ]  # fmt: skip
    board.tables.append(Table(head, whole, "Table 2 of Vaswani et al. 2017."))


def _short(flops: float) -> str:
    return f"{flops:.1e}".replace("e+", "e")


def _draw_scatter(board: Board, panel: int, language: str, ours: dict[str, float]) -> None:
    axes = board.chart(panel, f"to {language.title()}", "training FLOPs", "BLEU")
    rows = [row for row in TABLE if getattr(row, language) and getattr(row, f"{language}_flops")]
    for row in rows:
        bold = row.name.startswith("Transformer")
        spot = getattr(row, f"{language}_flops"), getattr(row, language)
        axes.plot(*spot, "o" if bold else "s", color=BLUE if bold else MUTED, markersize=9)
        name = SHORT.get(row.name, row.name)
        side, across, up = LABELS.get(name, ("center", 0, 8))
        axes.write_beside(spot, name, xytext=(across, up), ha=side, color=BLUE if bold else MUTED)
    for size, flops in ours.items():
        score = getattr(next(row for row in TABLE if row.name == f"Transformer {size}"), language)
        axes.plot(flops, score, "^", color=ORANGE, markersize=10)
    axes.log_axis("x", [1e18, 1e19, 1e20, 1e21])
    axes.set_xlim(2e17, 1e22)
    axes.margins(y=0.15)
