"""The table of sizes: models from 65M to 280B parameters, computed and as published.

Parameters and FLOPs are counted on real configs without allocating weights (`regard plan NAME`
lists all parts); hours and dollars follow from a chip's peak and the share of it that is reached.
`regard plan --table` prints it, and `regard show sizes` draws it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from regard.cost.plan import Plan, plan
from regard.runtime.units import aligned

PEAK = {"P100": 9.5e12, "V100": 125e12, "TPUv3": 123e12}
"""Peak FLOP/s of a chip: for the P100 the value of the Transformer paper, for the others the
manufacturers' values in 16 bits."""


@dataclass(frozen=True)
class TableRow:
    """A row of the lecture's table; None or 0 where it has no number.

    Attributes:
        name: The name in the table.
        plan: The name for `regard plan`.
        parameters: The published number of parameters; None: not published.
        data: The size of the training text.
        chips: The number of chips.
        chip: The kind of chip; V100 if it was not published.
        hours: The training time.
        tokens: The tokens read in these hours, if that is only a part of the training.
        note: Why published and computed numbers differ, or what the table leaves out.
    """

    name: str
    plan: str
    parameters: float | None
    data: str = ""
    chips: int = 0
    chip: str = "V100"
    hours: float = 0
    tokens: float | None = None
    note: str = ""


PUBLISHED_MODELS = (
    TableRow("Transformer-Base", "base", 65e6, "", 8, "P100", 12,
        note="12 layers are 6 of the encoder and 6 of the decoder; 63.1M has one matrix of 37,000 "
        "for both embeddings and the output, as section 3.4 has it"),
    TableRow("Transformer-Large", "big", 213e6, "", 8, "P100", 84,
        note="6 + 6 layers; the paper calls it big"),
    TableRow("BERT-Base", "bert-base", 110e6, "13 GB"),
    TableRow("BERT-Large", "bert-large", 340e6, "13 GB",
        note="336M with its heads; 340M is rounded"),
    TableRow("XLNet-Large", "xlnet-large", 340e6, "126 GB", 512, "TPUv3", 60,
        note="340M is BERT-Large's; a matrix for relative positions in each layer makes it 361M. "
        "Its two streams of attention, counted once here, take more"),
    TableRow("RoBERTa", "roberta-large", 355e6, "160 GB", 1024, "V100", 24,
        tokens=100_000 * 8192 * 512,
        note="one day is 100,000 steps; the model that was published had 500,000"),
    TableRow("GPT-2", "gpt2-xl", 1.5e9, "40 GB",
        note="25 heads; its tokens were not published: counted at 20 a parameter"),
    TableRow("Megatron-LM", "megatron-lm", 8.3e9, "174 GB", 512, "V100", 216),
    TableRow("Turing-NLG", "turing-nlg", 17e9, "", 256, "V100"),
    TableRow("GPT-3", "gpt3", 175e9, "694 GB"),
    TableRow("Gopher", "gopher", 280e9, "10.55 TB", 4096, "TPUv3", 920,
        note="920 hours, as its paper says, are 38.3 days (the table's 38 days are 912 hours), "
        "and $3,768,320 is $1 for each of these hours of each chip; a matrix for relative "
        "positions in each layer is 21.5B of its parameters"),
)  # fmt: skip


def compute_sizes(
    price: float = 1.0, share: float = 0.3, model_name: str = ""
) -> dict[str, list[Any]]:
    """The columns of the table by name, one value per row; None where nothing can be computed.

    Args:
        price: Dollars per hour of a chip.
        share: The share of its peak that a chip reaches in training.
        model_name: Another model, as `regard plan` takes it, for a row at the end.
    """
    models = (
        (*PUBLISHED_MODELS, TableRow(model_name, model_name, None))
        if model_name
        else PUBLISHED_MODELS
    )
    rows = [_compute_row(row, price, share) for row in models]
    return {name: [row[name] for row in rows] for name in rows[0]}


def _compute_row(row: TableRow, price: float, share: float) -> dict[str, Any]:
    """The published and computed values of one row, by the name of their column."""
    plan = _cached_plan(row.plan, row.tokens)
    model: Any = plan.recipe.model
    flops = plan.training_flops
    layers = plan.layers
    parameters = plan.total
    chip_hours = flops / (share * PEAK[row.chip]) / 3600
    published = row.chips * row.hours  # chip-hours
    return {
        "models": row.name,
        "plans": row.plan,
        "layers": layers,
        "dim": model.last.dim,
        "heads": getattr(model, "heads", None),
        "parameters_published": row.parameters,
        "parameters_computed": parameters,
        "training_bytes": 16 * parameters,  # weights, gradients, two moments: 4 bytes each
        "data": row.data or None,
        "tokens": plan.tokens,
        "flops_computed": flops,
        "flops_by_6nd": 6 * parameters * plan.tokens,
        "chips": row.chips or None,
        "chip": row.chip,
        "hours_published": row.hours or None,
        "hours_computed": chip_hours / row.chips if row.chips else None,
        "share_of_peak": flops / (3600 * published * PEAK[row.chip]) if published else None,
        "cost_of_hours_published": published * price if published else None,
        "cost_of_hours_computed": chip_hours * price,
        "notes": row.note or None,
    }


@cache
def _cached_plan(name: str, tokens: float | None) -> Plan:
    """The plan of a model; cached, since it is slow and does not depend on prices."""
    return plan(name, tokens=tokens, flops=1.0)


SIZE_COLUMNS = (
    "model",
    "layers",
    "width",
    "heads",
    "published params",
    "computed params",
    "data",
    "computed memory",
    "computed FLOPs",
    "chips",
    "published days",
    "computed days",
    "used",
    "published days cost",
    "computed days cost",
)
"""The head of each column."""


def format_sizes(columns: dict[str, list[Any]]) -> list[tuple[str, ...]]:
    """The rows of the table as formatted text, in the order of `SIZE_COLUMNS`."""
    rows: list[tuple[str, ...]] = []
    for row in (
        dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)
    ):
        chips = f"{row['chips']} {row['chip']}" if row["chips"] else ""
        used = row["share_of_peak"]
        rows.append(
            (
                row["models"],
                str(row["layers"]),
                str(row["dim"]),
                str(row["heads"] or ""),
                _short(row["parameters_published"]),
                _short(row["parameters_computed"]),
                row["data"] or "",
                f"{_short(row['training_bytes'], 'G')}B",
                f"{row['flops_computed']:.1e}".replace("e+", "e"),
                chips,
                _days(row["hours_published"]),
                _days(row["hours_computed"]),
                "" if used is None else f"{used:.0%}",
                dollars(row["cost_of_hours_published"]),
                dollars(row["cost_of_hours_computed"]),
            )
        )
    return rows


def table(price: float = 1.0, share: float = 0.3) -> str:
    """The table as text for a terminal, with its notes."""
    lines = aligned([SIZE_COLUMNS, *format_sizes(compute_sizes(price, share))], right=True)
    notes = [f"{row.name}: {row.note}." for row in PUBLISHED_MODELS if row.note]
    assumptions = (
        f"Computed days: at {share:.0%} of a chip's peak. All costs, also those of published days: "
        f"${price:g} per chip-hour."
    )
    return "\n".join([*lines, "", assumptions, *notes])


def _short(number: float | None, billion: str = "B") -> str:
    """A number with three digits and a unit: 63082496 -> `63.1M`; nothing for None."""
    if number is None:
        return ""
    for size, unit in ((1e12, "T"), (1e9, billion), (1e6, "M")):
        if number >= 0.9995 * size:
            return f"{number / size:.3g}{unit}"
    return f"{number:g}"


def _days(hours: float | None) -> str:
    return "" if hours is None else f"{hours / 24:.2g}" if hours < 240 else f"{hours / 24:.0f}"


def dollars(cost: float | None) -> str:
    """Dollars with three digits and a unit: 3768320 -> `$3.77M`; nothing for None."""
    if cost is None:
        return ""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if cost >= 0.9995 * size:
            return f"${cost / size:.3g}{unit}"
    return f"${cost:.0f}"
