"""The figures of what networks that see hold inside, and of attention in them and on pixels."""

from __future__ import annotations

from regard_lectures.figure import TRIES, Figure, Option

VISION: dict[str, Figure] = {
    "idea1": Figure(
        title="A ResNet with self-attention between its stages, beside the plain one",
        lectures=("7.1",),
        takes="data=: a folder of images with classes",
        options={
            "data": Option("fashion-mnist", "images with classes; without it, drawn scenes"),
            "images": Option(10_000, "training images", low=10, high=1_000_000),
            "seen": Option(120_000, "images seen, epochs times images", low=64, high=10**8),
            "tries": TRIES,
        },
        measured=True,
        small={"images": 1_000, "seen": 12_800},
    ),
    "pixels": Figure(
        title="A Transformer on pixels: what it learns, and its memory beside R⁴",
        lectures=("7.3",),
        takes="data=: a folder of images with classes, which are made 8 × 8 and grey",
        options={
            "data": Option("digits", "a folder of images with classes; digits: the included ones"),
            "steps": Option(1_200, "training steps of 64 images", high=100_000),
            "tries": TRIES,
        },
        measured=True,
        small={"steps": 200},
    ),
}
