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
}
