"""A small ViT that was trained on digits for some seconds, and digits drawn by hand."""

from __future__ import annotations

import fcntl
import math
import os
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from regard.runs.train import train

STEPS = 300
Points = list[tuple[float, float]]


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of `tiny/digits`, shorter; all workers share it."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    run = shared / "digits-run"
    with (shared / "digits-run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another worker may be training it
        if not run.exists():
            shorter = {"steps": STEPS, "evaluate_every": STEPS, "save_every": STEPS}
            train("tiny/digits", run, quiet=True, threads=1, train=shorter)
    return run


def arc(x: float, y: float, wide: float, tall: float, start: float, end: float) -> Points:
    """A part of an ellipse, angles in degrees, y downwards."""
    angles = [math.radians(start + (end - start) * step / 24) for step in range(25)]
    return [(x + wide * math.cos(a), y + tall * math.sin(a)) for a in angles]


DRAWN: list[tuple[str, list[Points]]] = [
    ("0", [arc(0.5, 0.5, 0.3, 0.45, 0, 360)]),
    ("0", [[(0.5, 0.05), (0.2, 0.3), (0.2, 0.7), (0.5, 0.95), (0.8, 0.7), (0.8, 0.3), (0.5, 0)]]),
    ("1", [[(0.3, 0.25), (0.55, 0.05), (0.55, 0.95)]]),
    ("1", [[(0.55, 0.05), (0.45, 0.95)]]),
    ("2", [[*arc(0.5, 0.28, 0.28, 0.23, 180, 380), (0.2, 0.95), (0.8, 0.95)]]),
    ("2", [[(0.2, 0.25), (0.4, 0.05), (0.7, 0.1), (0.75, 0.35), (0.2, 0.95), (0.8, 0.93)]]),
    ("3", [[*arc(0.45, 0.28, 0.27, 0.23, -150, 90), *arc(0.45, 0.72, 0.3, 0.23, -90, 150)]]),
    ("3", [[(0.2, 0.1), (0.7, 0.05), (0.75, 0.3), (0.4, 0.47), (0.75, 0.6), (0.75, 0.85),
            (0.4, 0.95), (0.15, 0.88)]]),
    ("4", [[(0.6, 0.05), (0.15, 0.65), (0.85, 0.65)], [(0.62, 0.35), (0.62, 0.95)]]),
    ("4", [[(0.35, 0.05), (0.15, 0.55), (0.8, 0.55)], [(0.65, 0.3), (0.6, 0.95)]]),
    ("5", [[(0.75, 0.05), (0.3, 0.05), (0.27, 0.45), *arc(0.47, 0.67, 0.28, 0.26, -130, 140)]]),
    ("5", [[(0.8, 0.08), (0.25, 0.05), (0.25, 0.42), (0.6, 0.4), (0.78, 0.6), (0.7, 0.88),
            (0.4, 0.95), (0.2, 0.88)]]),
    ("6", [[(0.65, 0.05), (0.35, 0.3), (0.24, 0.6), *arc(0.5, 0.7, 0.26, 0.25, 180, 540)]]),
    ("6", [[(0.7, 0.08), (0.4, 0.2), (0.22, 0.55), (0.25, 0.85), (0.55, 0.95), (0.75, 0.78),
            (0.65, 0.55), (0.4, 0.52), (0.25, 0.7)]]),
    ("7", [[(0.2, 0.05), (0.8, 0.05), (0.4, 0.95)]]),
    ("7", [[(0.15, 0.08), (0.8, 0.06), (0.45, 0.95)], [(0.3, 0.5), (0.75, 0.48)]]),
    ("8", [[*arc(0.5, 0.27, 0.22, 0.22, 90, 450), *arc(0.5, 0.72, 0.27, 0.23, -90, 270)]]),
    ("8", [[(0.7, 0.2), (0.5, 0.05), (0.3, 0.2), (0.4, 0.42), (0.65, 0.55), (0.72, 0.8),
            (0.5, 0.95), (0.28, 0.8), (0.35, 0.58), (0.62, 0.4), (0.7, 0.2)]]),
    ("9", [[*arc(0.5, 0.3, 0.26, 0.25, 0, 360), (0.74, 0.35), (0.65, 0.95)]]),
    ("9", [[(0.75, 0.3), (0.5, 0.5), (0.27, 0.35), (0.35, 0.1), (0.65, 0.08), (0.76, 0.3),
            (0.7, 0.65), (0.55, 0.95)]]),
]  # fmt: skip
"""Twenty digits as strokes in a square of 1 x 1."""
PENS = [(28, 2), (64, 3), (100, 12), (300, 4), (200, 22), (640, 20)]
"""Sides of the image and widths of the stroke, in pixels."""


def draw(strokes: list[Points], side: int, width: int, *, dark: bool) -> Image.Image:
    """Strokes on an image, dark on light or light on dark."""
    paper, ink = (255, 0) if dark else (0, 255)
    image = Image.new("L", (side, side), paper)
    pen = ImageDraw.Draw(image)
    for stroke in strokes:
        points = [(side * (0.15 + 0.7 * x), side * (0.15 + 0.7 * y)) for x, y in stroke]
        pen.line(points, fill=ink, width=width, joint="curve")
    return image


def drawings() -> list[tuple[str, Image.Image]]:
    """All twenty, each with another pen than its neighbour, half of them light on dark."""
    return [
        (digit, draw(strokes, *PENS[number % len(PENS)], dark=bool(number // 2 % 2)))
        for number, (digit, strokes) in enumerate(DRAWN)
    ]
