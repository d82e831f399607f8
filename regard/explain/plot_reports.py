"""Pictures of what was measured over many images: hidden patches, and the heads of a model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from regard.draw.colours import BLUE, INK, MUTED, ORANGE
from regard.draw.frame import EDGE, Frame, Texts, framed_sheet
from regard.draw.sheet import LEADING, TEXT, WIDTH, Chart, Medium, points, render, style
from regard.explain.heads import ImageHeadSummary
from regard.explain.images.hiding import HidingReport
from regard.explain.names import COUNTED, in_words
from regard.runtime.files import write_file

GAP = 40
LEAST_EFFECT = 0.01
"""Nats: a smaller rise of the loss is not called a cost."""
HEAD = LEADING * TEXT + 4


def save_report(report: HidingReport, path: str | os.PathLike[str]) -> Path:
    """Draw a test over many images to a file, .png, .svg or .pdf."""
    return write_file(path, render(draw_report(report), Path(path).suffix.lower()))


@style()
def draw_report(report: HidingReport) -> Figure:
    """Draw by how much the probability of the class falls, with 95% intervals."""
    first = report.tests[0]
    caption = (
        f"{first.hidden} of {first.patches} patches hidden in each of {len(report.tests)} images: "
        f"{report.verdict}."
    )
    frame = framed_sheet(Texts(f"Hiding patches by {report.map}", caption, "", Medium()), [])
    bars = {
        "looked at most": (report.drops["most"], ORANGE),
        f"others, {report.hiding.draws} draws": (report.drops["random"], BLUE),
        "looked at least": (report.drops["least"], BLUE),
        "most − others": (report.difference, MUTED),
    }
    frame.sheet.text((EDGE, frame.top), "fall of the probability of the class: mean, 95% interval")
    names = 300
    axes = frame.sheet.axes(
        EDGE + names, frame.top + HEAD, WIDTH - 2 * EDGE - names - 90, frame.height - HEAD - 40
    )
    axes.draw_frame(most_ticks=7)
    axes.axvline(0, color=INK, linewidth=1)
    for y, (mean, colour) in enumerate(bars.values()):
        hatch = "//" if colour == ORANGE else None
        axes.barh(y, mean.mean, height=0.5, color=colour, hatch=hatch, edgecolor="white")
        axes.plot([mean.low, mean.high], [y, y], color=INK, linewidth=2.5)
        axes.text(max(mean.high, 0), y, f"  {mean.mean:.2f}".replace("-", "−"), va="center",
                  fontsize=points(TEXT), clip_on=False)  # fmt: skip
    axes.set_yticks(range(len(bars)), list(bars), fontsize=points(TEXT))
    axes.set_ylim(len(bars) - 0.5, -0.5)
    return frame.sheet.figure


def save_heads(heads: Sequence[ImageHeadSummary], over: str, path: str | os.PathLike[str]) -> Path:
    """Draw the heads of a model of images to a file, .png, .svg or .pdf."""
    return write_file(path, render(draw_heads(heads, over), Path(path).suffix.lower()))


@style()
def draw_heads(heads: Sequence[ImageHeadSummary], over: str) -> Figure:
    """Draw how far each head looks, by layer, and what removing it costs, by that distance.

    The left part is figure 7 (right) of Dosovitskiy et al. 2021.

    Args:
        heads: The summaries of all heads.
        over: The data they were computed on, such as `100 images`.
    """
    layers = np.array([int(head.head.split(".")[1]) for head in heads])
    distance = np.array([head.distance for head in heads])
    effect = np.array([head.effect for head in heads])
    costliest = heads[int(effect.argmax())]
    varies = len(set(distance)) > 1 and len(set(effect)) > 1
    correlation = np.corrcoef(distance, effect)[0, 1] if varies else np.nan
    clause = f"; correlation of distance and cost {correlation:+.2f}"
    clause = "" if np.isnan(correlation) else clause
    worth = f"Removing {in_words(costliest.head)} costs most, {costliest.effect:.2f} nats"
    if costliest.effect < LEAST_EFFECT:
        worth = f"No head costs {LEAST_EFFECT:g} nats or more if it is removed"
    caption = f"Each point is a head, over {over}. {worth}{clause.replace('-', '−')}. {COUNTED}."
    title = "How far the heads look, and what each is worth"
    frame = framed_sheet(Texts(title, caption, "", Medium()), [])
    axes = _panel(frame, 0, "mean attention distance, in pixels", "layer")
    axes.plot(layers, distance, "o", color=BLUE, markersize=9, alpha=0.8)
    deepest = int(layers.max())
    axes.set_xticks(range(0, deepest + 1, -(-(deepest + 1) // 12)))
    axes.set_xlim(-0.5, deepest + 0.5)
    axes.set_ylim(0, 1.1 * float(distance.max()) + 1e-9)
    axes = _panel(frame, 1, "rise of the loss without it, in nats", "mean distance, in pixels")
    axes.plot(distance, effect, "s", color=ORANGE, markersize=9, alpha=0.8)
    axes.axhline(0, color=INK, linewidth=1)
    point = (costliest.distance, costliest.effect)
    is_right = costliest.distance > (float(distance.min()) + float(distance.max())) / 2
    name = in_words(costliest.head).removeprefix("encoder ").removesuffix(" (self)")
    axes.annotate(name, point, xytext=(0, 10), ha="right" if is_right else "left",
                  textcoords="offset points", fontsize=points(TEXT))  # fmt: skip
    low, high = min(0.0, float(effect.min())), float(effect.max())
    axes.set_ylim(low - 0.05 * (high - low) - 1e-9, high + 0.2 * (high - low) + 1e-9)
    spread = 0.15 * (float(np.ptp(distance)) or 1.0)
    axes.set_xlim(float(distance.min()) - spread, float(distance.max()) + spread)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
    return frame.sheet.figure


def _panel(frame: Frame, index: int, heading: str, below: str) -> Chart:
    """One of two charts side by side."""
    width = (WIDTH - 2 * EDGE - GAP) / 2
    left = EDGE + index * (width + GAP)
    frame.sheet.text((left, frame.top), heading, weight="bold")
    axes = frame.sheet.axes(left + 76, frame.top + HEAD, width - 86, frame.height - HEAD - 68)
    axes.draw_frame(most_ticks=7)
    axes.set_xlabel(below, fontsize=points(TEXT), color=MUTED, labelpad=2)
    return axes
