"""The colour scales of pictures and pages, so that both show a weight in the same colour.

The scales are computed here instead of taken from matplotlib because the page needs them without
matplotlib, and for dark backgrounds as well. Their lightness in OKLab (Ottosson 2020) changes
linearly, so that equal steps of weight look equal, also in print and to colour-blind people.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Colours = npt.NDArray[np.floating]

INK, MUTED, RULE, ACCENT = "#1b1f24", "#57606a", "#d0d7de", "#b3400e"
STEPS = 256

BLUE, ORANGE, GREEN, PURPLE, SKY = "#0072B2", "#D55E00", "#009E73", "#AA4488", "#56B4E9"

OKLAB_TO_LMS = np.array(
    [
        [1.0, 0.3963377774, 0.2158037573],
        [1.0, -0.1055613458, -0.0638541728],
        [1.0, -0.0894841775, -1.2914855480],
    ]
)
LMS_TO_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)


@dataclass(frozen=True)
class LineStyle:
    """How a curve and its points are drawn; the dash `none` draws points only."""

    colour: str
    dash: Any = "-"
    marker: str = ""


LINE_STYLES = (
    LineStyle(BLUE, "-", "o"),
    LineStyle(ORANGE, "--", "s"),
    LineStyle(GREEN, "-.", "^"),
    LineStyle(PURPLE, ":", "D"),
    LineStyle(SKY, (0, (7, 1.5, 1, 1.5)), "v"),
)
"""Styles that colour-blind readers can tell apart (Okabe and Ito's colours), and print as well."""


def oklch_to_rgb(lightness: Colours, chroma: Colours, hue: Colours) -> Colours:
    """Convert OKLCh (lightness, chroma, hue in degrees) to sRGB in 0 to 1: (…, 3)."""
    angle = np.deg2rad(hue)
    lab = np.stack([lightness, chroma * np.cos(angle), chroma * np.sin(angle)], axis=-1)
    linear = ((lab @ OKLAB_TO_LMS.T) ** 3) @ LMS_TO_RGB.T
    linear = np.clip(linear, 0.0, 1.0)
    curve = 1.055 * np.maximum(linear, 1e-9) ** (1 / 2.4) - 0.055
    return np.where(linear <= 0.0031308, 12.92 * linear, curve)


def sequential(*, dark: bool = False) -> Colours:
    """The scale for weights, from the background colour to a strong colour: (256, 3)."""
    t = np.linspace(0.0, 1.0, STEPS)
    if dark:
        return oklch_to_rgb(0.21 + 0.73 * t, 0.012 + 0.11 * np.sin(np.pi * t**0.9), 262 - 112 * t)
    return oklch_to_rgb(0.985 - 0.705 * t, 0.004 + 0.125 * np.sin(np.pi * t * 0.78), 205 + 67 * t)


HUES = (50.0, 255.0, 150.0, 340.0)
"""Hues in degrees for weights over an image: orange, blue, green, pink; earlier ones first."""


def over_image(pixels: Colours) -> Colours:
    """The scale for weights over an image, from white to the hue that the image has least of.

    Its last colour can be told from black and from white, so that it shows over any image.

    Args:
        pixels: (channels, height, width) The image, 0 to 1; a grey one gets orange.

    Returns:
        (256, 3)
    """
    colours = pixels.reshape(len(pixels), -1).T.astype(float)  # (pixels, channels)
    _, a, b = rgb_to_oklab(colours[:, :3] if colours.shape[1] >= 3 else colours[:, [0, 0, 0]]).T
    angle, chroma = np.arctan2(b, a), np.hypot(a, b)
    used = [
        float((chroma * np.maximum(0.0, np.cos(angle - math.radians(hue)))).mean()) for hue in HUES
    ]
    least = min(range(len(HUES)), key=lambda index: (round(used[index], 3), index))
    t = np.linspace(0.0, 1.0, STEPS)
    return oklch_to_rgb(1.0 - 0.34 * t, 0.19 * t, HUES[least] + 0 * t)


def rgb_to_oklab(colours: Colours) -> Colours:
    """Convert sRGB in 0 to 1 (…, 3) to OKLab: lightness, a, b (…, 3)."""
    clipped = np.clip(colours, 0.0, 1.0)
    linear = np.where(clipped <= 0.04045, clipped / 12.92, ((clipped + 0.055) / 1.055) ** 2.4)
    return np.cbrt(linear @ np.linalg.inv(LMS_TO_RGB).T) @ np.linalg.inv(OKLAB_TO_LMS).T


def diverging() -> Colours:
    """The scale for signed values: orange (negative), white (0), blue (positive): (256, 3)."""
    t = np.linspace(-1.0, 1.0, STEPS)
    lightness = 0.985 - 0.545 * np.abs(t)
    chroma = 0.003 + 0.135 * np.abs(t)
    return oklch_to_rgb(lightness, chroma, np.where(t < 0, 48.0, 255.0))


def hexadecimal(colours: Colours) -> str:
    """The scale as one string of six hexadecimal digits per colour, for the page."""
    return bytes(np.rint(colours * 255).astype(np.uint8).reshape(-1)).hex()
