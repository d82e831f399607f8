"""Figures of part 5 that stand beside published numbers: BLEU against the cost of training."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from regard.explain.colours import MUTED
from regard.explain.figures.drawing import BLUE, ORANGE, Board, Drawing, power, powers
from regard.explain.sheet import points
from regard.layers import Attention
from regard.models import EncoderDecoder, TransformerConfig, build

VOCAB = 37000  # sub-words shared by both languages (section 5.1 of the paper)
SOURCE_TOKENS = TARGET_TOKENS = 25_000  # a step (section 5.1)
GPUS, GPU_FLOPS = 8, 9.5e12  # P100s, and the paper's estimate of what one sustains (its note 5)


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


@dataclass(frozen=True)
class Training:
    """How long the paper trained a size (section 5.2)."""

    steps: int
    hours: float


TRAININGS = {"base": Training(100_000, 12.0), "big": Training(300_000, 3.5 * 24)}


def published_flops(size: str) -> float:
    """The paper's own estimate: time × GPUs × what one GPU sustains."""
    return TRAININGS[size].hours * 3600 * GPUS * GPU_FLOPS


def counted_flops(size: str) -> float:
    """Ours: 6 for each matrix entry and token that meets it (2 forward, 4 backward).

    The encoder, and the keys and values that cross-attention makes of its output, meet the source
    tokens; the rest of the decoder and the head meet the target tokens. The products q kᵀ and
    weights · v are left out: with sentences of some 25 words they are about one hundredth.
    """
    model = _model(size)
    source = sum(p.numel() for p in model.encoder.parameters() if p.dim() == 2)
    target = sum(p.numel() for p in model.decoder.parameters() if p.dim() == 2)
    target += model.head.weight.numel()
    attentions: list[Attention] = model.decoder.attentions()
    moved = sum(layer.key_value.weight.numel() for layer in attentions if layer.cross)
    tokens = (source + moved) * SOURCE_TOKENS + (target - moved) * TARGET_TOKENS
    return 6.0 * TRAININGS[size].steps * tokens


def _model(size: str) -> EncoderDecoder:
    with torch.device("meta"):  # shapes without numbers: no memory
        return build(TransformerConfig.model_validate({"size": size}), VOCAB, VOCAB)


def parameters(size: str) -> int:
    """How many parameters a published size has, shared ones once."""
    return sum(p.numel() for p in _model(size).parameters())


def bleu() -> Drawing:
    """The published table as a picture, and the two training costs computed in two ways."""
    paper = {size: published_flops(size) for size in TRAININGS}
    ours = {size: counted_flops(size) for size in TRAININGS}
    sizes = {size: parameters(size) for size in TRAININGS}
    share = {size: ours[size] / paper[size] for size in TRAININGS}
    caption = (
        "Table 2 of Vaswani et al. 2017, with its sources. The paper's cost, recomputed: hours × 8 "
        f"GPUs × 9.5 TFLOP/s = {power(paper['base'])} (base, 12 h) and {power(paper['big'])} (big, "
        "3.5 days). Ours, counted from our own models: 6 × matrix entries × tokens, 100,000 and "
        f"300,000 steps of 25,000 source and 25,000 target tokens = {power(ours['base'])} and "
        f"{power(ours['big'])}, {share['base']:.0%} and {share['big']:.0%} of it: the paper counts "
        "what the GPUs could have done, we what the model needs. "
        f"Parameters: {sizes['base'] / 1e6:.0f}M and {sizes['big'] / 1e6:.0f}M "
        "(the paper: 65M and 213M). No model was trained for this picture."
    )
    board = Board("Better translations for less computation: the published table, recomputed",
                  caption, (1.04, 1, 1))  # fmt: skip
    _draw_table(board)
    for place, language in ((1, "german"), (2, "french")):
        _draw_scatter(board, place, language, ours)
    return board.drawing(
        {
            **{f"published_flops_{size}": flops for size, flops in paper.items()},
            **{f"counted_flops_{size}": flops for size, flops in ours.items()},
            **{f"parameters_{size}": count for size, count in sizes.items()},
            "table": [
                [row.name, row.german, row.french, row.german_flops, row.french_flops]
                for row in TABLE
            ],
        }
    )


def _draw_table(board: Board) -> None:
    left, top, width, height = board.place(0)
    sheet = board.sheet
    columns = [left + share * width for share in (0.66, 0.78, 0.89, 1.0)]
    sheet.text((left, top), "published", 16, weight="bold")
    sheet.text((columns[1], top + 34), "BLEU", colour=MUTED, align="right top")
    sheet.text((columns[3], top + 34), "FLOPs", colour=MUTED, align="right top")
    for place, name in zip(columns, ("DE", "FR", "DE", "FR"), strict=True):
        sheet.text((place, top + 56), name, colour=MUTED, align="right top")
    pitch = (height - 90) / len(TABLE)
    for number, row in enumerate(TABLE):
        y = top + 84 + number * pitch
        own = "Transformer" in row.name
        weight = "bold" if own else "normal"
        sheet.text(
            (left, y), row.name.replace("Deep-Att + PosUnk", "Deep-Att+PosUnk"), weight=weight
        )
        scores = ("" if s is None else f"{s:g}" for s in (row.german, row.french))
        costs = ("" if c is None else _short(c) for c in (row.german_flops, row.french_flops))
        for place, text in zip(columns, (*scores, *costs), strict=True):
            sheet.text((place, y), text, align="right top", weight=weight)


def _short(flops: float) -> str:
    return f"{flops:.1e}".replace("e+", "e")


def _draw_scatter(board: Board, place: int, language: str, ours: dict[str, float]) -> None:
    axes = board.chart(place, f"English to {language.title()}", "training FLOPs", "BLEU")
    rows = [row for row in TABLE if getattr(row, language) and getattr(row, f"{language}_flops")]
    for row in rows:
        own = row.name.startswith("Transformer")
        spot = getattr(row, f"{language}_flops"), getattr(row, language)
        axes.plot(*spot, "o" if own else "s", color=BLUE if own else MUTED, markersize=8)
        short = row.name.replace(", ensemble", " ens.").replace("Transformer ", "")
        short = short.replace("Deep-Att + PosUnk", "Deep-Att").replace(" + RL", "")
        axes.annotate(short, spot, xytext=(0, 7), textcoords="offset points", ha="center",
                      fontsize=points(14), color=BLUE if own else MUTED)  # fmt: skip
    for size, flops in ours.items():
        score = getattr(next(row for row in TABLE if row.name == f"Transformer {size}"), language)
        axes.plot(flops, score, "^", color=ORANGE, markersize=9)
        axes.annotate("counted", (flops, score), xytext=(0, -18), textcoords="offset points",
                      ha="center", fontsize=points(14), color=ORANGE)  # fmt: skip
    powers(axes, "x", [1e18, 1e19, 1e20, 1e21])
    axes.set_xlim(3e17, 4e21)
    axes.margins(y=0.15)
