"""Figure of part 6: the training targets of GPT, BERT and T5 for one text.

The text is prepared with the library's own packing, masking and span corruption, for several
epochs, since they are drawn anew each time. A longer text is prepared many times to measure the
shares that the papers state.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from regard.data import Batch, Masking, SpanCorruption, Symbols
from regard.draw import BLUE, INK, MUTED, SMALLEST, Chart, points, shorten, text_width
from regard.explain import Board, Drawing, Words
from regard.inputs import Ragged
from regard.tasks import Fill, Generate, Restore
from regard_lectures.figures.families import Prepared, prepared
from regard_lectures.tries import span

TEXT = (
    "The animal didn't cross the street because it was too tired. I walk my dog every day. "
    "The dog chased another dog. He hit me with a pie."
)
"""Sentences of the lectures: more than 30 tokens, since T5 removes a single span from fewer."""
MOST = 36
"""The most words of a text in the picture."""
VOCAB, TOKENS = 30_522, 512
"""BERT's vocabulary size and longest text in tokens."""
MASK, SPECIAL = 103, frozenset({0, 100, 101, 102, 103})
"""BERT's mask id, and the ids of all its special tokens: padding, unknown, begin, end, mask."""
PUBLISHED = {"chosen": 15.0, "mask": 80.0, "other": 10.0, "kept": 10.0}
"""Percent of tokens that BERT chooses, and of those by replacement (Devlin et al. 2019, 3.1)."""
CUT, SPAN_MEAN = 15.0, 3.0
"""Percent of tokens that T5 removes, and the mean length of its spans (Raffel et al. 2020)."""
TINTS = {"": "#f3f4f6", "mask": "#b9d7ee", "other": "#f6c9a8", "kept": "#b5e0cf", "span": "#e3c3db"}

AS_PUBLISHED = 1.5
"""By how many percent a measured share may differ from the published one."""
PANEL, MOST_ROWS = 890, 19
"""The width in pixels of the text, and how many rows of it can be read."""
BESIDE, WIDEST = 112, 330
"""The width in pixels of a line's name, and of the widest token."""

Cell = tuple[str, str]
"""The text of a token, and a key of `TINTS`."""
Placed = tuple[float, float, Cell]
"""The x position of a token in its row, its width, and the token."""


@dataclass(frozen=True)
class Line:
    """One line of the picture: its name and its tokens; a heading if it has no tokens."""

    name: str
    cells: tuple[Cell, ...] = ()
    aligned: bool = False
    """Whether its tokens are in columns with those of other aligned lines."""


def words_objectives(numbers: Mapping[str, Any]) -> Words:
    """What share of the tokens each family predicts, and whether it is the published one."""
    chosen, cut = numbers["chosen_percent"], numbers["cut_percent"]
    as_published = all(
        abs(numbers[f"{name}_percent"] - share) <= AS_PUBLISHED for name, share in PUBLISHED.items()
    )
    as_published &= abs(cut - CUT) <= AS_PUBLISHED
    verdict = "as published" if as_published else "not as published"
    title = f"GPT predicts every token, BERT {chosen:.1f}%, T5 {cut:.1f}%: {verdict}"
    epochs = numbers["predicted_bert"]
    caption = (
        f"Here GPT predicts {numbers['predicted_gpt']} tokens, BERT {span(epochs)} in each epoch, "
        f"{'others each time' if numbers['epochs_differ'] else 'the same ones'}, and T5 "
        f"{numbers['predicted_t5']}, in {numbers['spans']} span{'s' * (numbers['spans'] != 1)}."
    )
    if numbers["total"] > numbers["shown"]:
        caption += f" Shown: the first {numbers['shown']} of {numbers['total']} words."
    return Words(title, caption)


def objectives(text: str | None, draws: int, seed: int) -> Drawing:
    """Draw one text as in the training of GPT, BERT and T5, and the measured shares."""
    sentence = TEXT if text is None else text
    lines, given = _fitting_lines(sentence, seed)
    shares, lengths = _measured_holes(draws, seed), _measured_spans(draws, seed)
    hidden = sum(size * count for size, count in lengths.items())
    cut, mean = 100 * hidden / (draws * TOKENS), hidden / lengths.total()
    numbers = {
        **{f"{name}_percent": share for name, share in shares.items()},
        "cut_percent": cut,
        "span_mean": mean,
        "span_lengths": [lengths[size] for size in range(1, max(lengths) + 1)],
        **_counts(lines, given),
        "lines": [[line.name, *(cell for cell, _ in line.cells)] for line in lines],
    }
    details = (
        "Prepared with the library's own packing, masking and span corruption. Of the tokens that "
        "BERT chooses, blue ones are masked, orange ones replaced by a random token (before the "
        "arrow is the original token, after it what the model reads), green ones left unchanged. "
        "T5 writes each span after its sentinel. Spans are drawn again in each epoch, but the last "
        "one always ends the text, as in T5's own code; a text of fewer than 31 tokens has only "
        f"this one. Right: {draws} draws for a text of {TOKENS} tokens, seed {seed}. BERT chooses "
        f"{shares['chosen']:.1f}% of the tokens: {shares['mask']:.1f}% become [MASK], "
        f"{shares['other']:.1f}% a random token, {shares['kept']:.1f}% stay (black lines: the "
        f"published 15; 80, 10, 10). T5 removes {cut:.1f}% in spans of {mean:.2f} tokens on "
        "average (published: 15 and 3)."
    )
    limits = f"No model: how a text is prepared; the shares are counted in {draws} random draws."
    with Board(words_objectives(numbers), (2.9, 1), details, limits=limits) as board:
        _draw_lines(board, lines)
        _draw_shares(board, shares, lengths, mean)
        return board.drawing(**numbers)


def _counts(lines: Sequence[Line], given: Prepared) -> dict[str, Any]:
    """How many tokens of the text each family predicts, counted in the lines of the picture."""
    epochs = [line for line in lines if line.name.startswith("epoch")]
    chosen = [[index for index, (_, kind) in enumerate(line.cells) if kind] for line in epochs]
    spans = [kind for _, kind in lines[-1].cells if kind == "span"]
    return {
        "predicted_gpt": len(lines[2].cells),
        "predicted_bert": [len(positions) for positions in chosen],
        "epochs_differ": any(positions != chosen[0] for positions in chosen),
        "predicted_t5": len(lines[-1].cells) - len(spans) - 1,  # without the end symbol
        "spans": len(spans),
        "shown": given.shown,
        "total": given.total,
    }


def _fitting_lines(sentence: str, seed: int) -> tuple[list[Line], Prepared]:
    """The lines of as many words of a text as fit, and these words prepared for GPT."""
    for most in range(MOST, 0, -6):  # down to 6 words, which always fit
        given = prepared(sentence, Generate.around, most)
        lines = [*_next_tokens(given)]
        lines += [*_holes(sentence, most, seed), *_spans(sentence, most, seed)]
        if len(_rows(lines, PANEL)) <= MOST_ROWS:
            break
    return lines, given


def _next_tokens(given: Prepared) -> list[Line]:
    return [
        Line("GPT predicts at each token the next"),
        Line("reads", _plain(given.names(given.row.source.ids)), aligned=True),
        Line("predicts", _plain(given.names(given.row.targets.ids)), aligned=True),
    ]


def _plain(names: Sequence[str]) -> tuple[Cell, ...]:
    return tuple(
        (name, "span" if name[:1] == "<" and name[1:-1].isdigit() else "") for name in names
    )


def _holes(sentence: str, most: int, seed: int) -> list[Line]:
    """BERT's lines: the first epoch, and epochs with a replaced and with an unchanged token."""
    given = prepared(sentence, Fill.around, most)
    firsts = (_first(given, fate, seed) for fate in ("other", "kept"))
    shown = sorted({0, *(epoch for epoch in firsts if epoch is not None)})
    epochs = shown if len(shown) > 1 else [0, 1]
    heading = Line("BERT predicts the coloured: blue masked, green left")
    return [heading, *(Line(f"epoch {n}", tuple(_fates(given, n, seed))) for n in epochs)]


def _first(given: Prepared, fate: str, seed: int) -> int | None:
    """The first epoch in which a chosen token has this fate; None if there is none.

    Args:
        given: The prepared text.
        fate: `mask`, `other` or `kept`.
        seed: The seed of the masking.
    """
    epochs = (n for n in range(1000) if any(kind == fate for _, kind in _fates(given, n, seed)))
    return next(epochs, None)


def _fates(given: Prepared, epoch: int, seed: int) -> list[Cell]:
    """The tokens of an epoch; a chosen token is written as `original → replacement`."""
    batch = given.masked(epoch, seed)
    shown = given.names(batch.source.ids)
    cells = [(name, "") for name in shown]
    for position, wanted in zip(
        batch.target_positions.tolist(), given.names(batch.known_targets), strict=True
    ):
        hidden = int(batch.source.ids[position]) == given.tokenizer.specials.mask
        kind = "mask" if hidden else "kept" if shown[position] == wanted else "other"
        cells[position] = f"{wanted} → {shown[position]}", kind
    return cells


def _spans(sentence: str, most: int, seed: int) -> list[Line]:
    """T5's lines for one epoch; in every epoch the last span is at the end of the text."""
    batch = prepared(sentence, Restore.around, most)
    cut = batch.cut(0, seed)
    return [
        Line("T5 writes the spans that were removed"),
        *(Line(name, _plain(batch.names(ids)))
          for name, ids in (("reads", cut.source.ids), ("writes", cut.targets.ids))),
    ]  # fmt: skip


def _text(seed: int) -> Batch[Ragged]:
    """A batch with one text of random ids, without special tokens."""
    draw = np.random.default_rng(seed)
    ids = torch.from_numpy(draw.integers(1000, VOCAB, size=TOKENS + 1))
    return Batch(Ragged(ids[:-1], (TOKENS,)), Ragged(ids[1:], (TOKENS,)), (0,))


def _measured_holes(draws: int, seed: int) -> dict[str, float]:
    """The percentage of chosen tokens, and of those the percentages by replacement."""
    text, counts = _text(seed), Counter[str]()
    symbols = Symbols(VOCAB, mask=MASK, begin=101, end=102, special=SPECIAL)
    masking = Masking(symbols, seed=seed)
    for epoch in range(draws):
        batch = masking(text, epoch)
        shown = batch.source.ids[batch.target_positions]
        counts["chosen"] += len(shown)
        counts["mask"] += int((shown == MASK).sum())
        counts["kept"] += int((shown == batch.known_targets).sum())
    counts["other"] = counts["chosen"] - counts["mask"] - counts["kept"]
    wholes = {"chosen": draws * TOKENS}
    return {name: 100 * counts[name] / wholes.get(name, counts["chosen"]) for name in PUBLISHED}


def _measured_spans(draws: int, seed: int) -> Counter[int]:
    """The number of removed spans by length."""
    text, counts = _text(seed), Counter[int]()
    sentinels = range(VOCAB, VOCAB + 100)  # as many as T5 has
    spans = SpanCorruption(sentinels, begin=0, end=VOCAB + 100, seed=seed)
    for epoch in range(draws):
        said = spans(text, epoch).targets.ids  # sentinel, span, sentinel, span, …, end
        borders = torch.nonzero(said >= VOCAB).flatten()
        counts.update((borders.diff() - 1).tolist())
    return counts


def _rows(lines: Sequence[Line], width: float) -> list[tuple[str, list[Placed]]]:
    """The rows of the picture, each with its name; tokens of aligned lines are in columns."""
    lines = [replace(line, cells=tuple(map(_short, line.cells))) for line in lines]
    columns = _widths([line for line in lines if line.aligned])
    rows: list[tuple[str, list[Placed]]] = []
    for line in lines:
        sizes = columns if line.aligned else _widths([line])
        parts = _broken(line.cells, sizes, width - BESIDE) or [[]]
        rows += [(line.name if number == 0 else "", part) for number, part in enumerate(parts)]
    return rows


def _draw_lines(board: Board, lines: Sequence[Line]) -> None:
    """Draw the lines of tokens in boxes."""
    left, top, width, height = board.panel_box(0)
    axes = board.sheet.axes(left, top, width, height)
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.spines[:].set_visible(False)
    rows = _rows(lines, PANEL)
    pitch = height / len(rows)
    for number, (name, placed) in enumerate(rows):
        middle, heading = (number + 0.5) * pitch, not placed
        axes.text(
            0, middle, name, va="center", fontsize=points(SMALLEST + 2 if heading else SMALLEST),
            weight="bold" if heading else "normal", color=INK if heading else MUTED,
        )  # fmt: skip
        for x, size, cell in placed:
            _draw_cell(axes, (BESIDE + x, middle), (size, pitch), cell)


def _short(cell: Cell) -> Cell:
    """A token as it is drawn: where the colour says what is read, the original token alone."""
    name, kind = cell
    return (name.split(" → ")[0], kind) if kind in ("mask", "kept") else cell


def _widths(lines: Sequence[Line]) -> list[float]:
    """The width of each column in pixels: that of its widest token."""
    rows = [
        [
            min(WIDEST, text_width(name, SMALLEST, "bold" if kind else "normal"))
            for name, kind in cells
        ]
        for cells in (line.cells for line in lines)
    ]
    return [max(column) + 8 for column in itertools.zip_longest(*rows, fillvalue=0.0)]


def _broken(cells: Sequence[Cell], sizes: Sequence[float], width: float) -> list[list[Placed]]:
    """Break cells into rows no wider than `width`, each with its x position and width."""
    rows: list[list[Placed]] = []
    x = width
    for cell, size in zip(cells, sizes, strict=False):
        if x + size > width:
            rows.append([])
            x = 0.0
        rows[-1].append((x, size, cell))
        x += size
    return rows


def _draw_cell(
    axes: Chart, corner: tuple[float, float], size: tuple[float, float], cell: Cell
) -> None:
    (x, y), (width, height), (name, kind) = corner, size, cell
    weight, inner_width = "bold" if kind else "normal", width - 4
    if text_width(name, SMALLEST, weight) > inner_width:  # `shorten` measures regular weight
        name = shorten(name, 0.85 * inner_width if kind else inner_width, SMALLEST)
    axes.barh(y, width - 2, height - 3, left=x, color=TINTS[kind], linewidth=0)
    axes.write((x + (width - 2) / 2, y), name, ha="center", va="center", weight=weight)


def _draw_shares(
    board: Board, shares: dict[str, float], lengths: Counter[int], mean: float
) -> None:
    """Draw the measured shares as bars, with a line at the published value."""
    axes = board.chart(1, "BERT’s tokens, %", "", "", (0.0, 0.47), ticks=8)
    for index, (name, share) in enumerate(shares.items()):
        published = PUBLISHED[name]
        axes.barh(index, share, 0.42, color=BLUE)
        axes.plot([published] * 2, [index - 0.3, index + 0.3], color=INK, linewidth=2.4)
        axes.write((0, index - 0.25), f" {name} {share:.1f}", va="bottom")
    axes.set_yticks([])
    axes.set_ylim(len(shares) - 0.6, -0.85)
    axes.set_xlim(0, 100)
    axes.grid(visible=False, axis="y")
    axes = board.chart(1, "T5’s spans, %", "tokens of a span", "", (0.52, 1.0), ticks=40)
    longest = min(max(lengths), 12)
    sizes = range(1, longest + 1)
    axes.bar(sizes, [100 * lengths[size] / lengths.total() for size in sizes], 0.7, color=BLUE)
    axes.axvline(SPAN_MEAN, color=INK, linewidth=2.4)
    axes.write((SPAN_MEAN + 0.4, 0.97), f"mean {mean:.2f}", va="top",
          transform=axes.get_xaxis_transform())  # fmt: skip
    axes.set_xticks(range(1, longest + 1, 2))
    axes.grid(visible=False, axis="x")
