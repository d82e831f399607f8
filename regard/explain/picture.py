"""Draw attention over an image: the image, one row of weights over its patches, and an overlay."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from regard.explain.cells import scale_for
from regard.explain.frame import EDGE, Texts, framed_sheet
from regard.explain.look import Choice, Look
from regard.explain.maps import Weights
from regard.explain.plot import GAP, facts_of
from regard.explain.sheet import LEADING, SMALLEST, TEXT, WIDTH, Medium, points, shorten

PRINTED = 100
"""Up to this number of patches, weights are written into the cells."""


def draw_picture(look: Look, choice: Choice, medium: Medium) -> Figure:
    """Draw three panels: the model's input image, the weights as a grid of patches, and an overlay.

    Args:
        look: The recorded attention for an image.
        choice: The layer, the head (or the mean), and the query row (None: the mean of all rows).
        medium: Whether it is for print, and whether details are drawn.
    """
    picture = look.picture
    assert picture is not None  # checked in `Look.choose`
    seen = np.nan_to_num(
        choice.map.seen(choice.head, look.knocked_out_in(choice.map))
    )  # (tokens, tokens)
    weights = seen.mean(axis=0) if choice.row is None else seen[choice.row]  # (tokens,)
    patches = weights[picture.first :].reshape(picture.grid)
    scale = scale_for(patches)
    name = "all patches" if choice.row is None else choice.map.queries[choice.row]
    looks = "look" if choice.row is None else "looks"
    caption = f"{choice.name}: {_share(weights, picture.first, name)}"
    details = " ".join(facts_of(look, choice))
    texts = Texts(look.title, caption[:1].upper() + caption[1:], details, medium)
    frame = framed_sheet(texts, [scale])
    above = LEADING * TEXT  # the line of headings
    side = (WIDTH - 2 * EDGE - 2 * GAP) / 3
    ratio = picture.pixels.shape[1] / picture.pixels.shape[2]  # height / width
    tall = min(side * ratio, frame.height - above)
    wide = tall / ratio
    headings = ("what the model reads", f"where {name} {looks}", "both together")
    panels = []
    for number, heading in enumerate(headings):
        left = EDGE + number * (side + GAP) + (side - wide) / 2
        frame.sheet.text((left, frame.top), shorten(heading, side, TEXT), weight="bold")
        panels.append(frame.sheet.axes(left, frame.top + above, wide, tall))
    rows, columns = picture.grid
    extent = (0, columns, rows, 0)
    image = _shown(picture.pixels)
    for axes in (panels[0], panels[2]):
        axes.imshow(image, cmap="gray", vmin=0, vmax=1, extent=extent, aspect="auto")
    panels[1].imshow(
        patches, scale.colormap(), vmin=scale.low, vmax=scale.high, extent=extent, aspect="auto"
    )
    if patches.size <= PRINTED:
        for place, value in np.ndenumerate(patches):
            down, right = place[0] + 0.5, place[1] + 0.5
            panels[1].text(right, down, f"{value:.2f}".lstrip("0"), ha="center", va="center",
                           color=scale.ink(float(value)), fontsize=points(SMALLEST))  # fmt: skip
    strength = patches / max(float(patches.max()), 1e-12)
    panels[2].imshow(
        patches,
        scale.colormap(),
        vmin=scale.low,
        vmax=scale.high,
        alpha=0.15 + 0.65 * strength,
        extent=extent,
        aspect="auto",
        interpolation="nearest",
    )
    return frame.sheet.figure


def _share(weights: Weights, first: int, name: str) -> str:
    """A sentence: which share of the weights goes to the patches, and which to [CLS].

    Args:
        weights: (tokens,)
        first: The number of tokens before the patches.
        name: The query, in words.
    """
    if not first:
        return f"all attention of {name} goes to the patches."
    share = float(weights[first:].sum())
    return f"{share:.0%} of the attention of {name} goes to the patches, the rest to [CLS]."


def _shown(pixels: Weights) -> Weights:
    """(channels, height, width) -> (height, width) if grey, else (height, width, channels)."""
    return pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)
