"""The catalogue's figures of networks that see, and of the lectures' claims about them."""

from __future__ import annotations

from regard_lectures.figure import TRIES, Figure, Option

NETWORKS: dict[str, Figure] = {
    "hunger": Figure(
        title="Data hunger: a CNN and a ViT against the number of training images",
        lectures=("7.4b",),
        takes="data=: a folder or file of images with classes",
        options={
            "data": Option("fashion-mnist", "images with classes; without it, drawn scenes"),
            "most": Option(55_000, "the largest number of training images", low=1000, high=1e6),
            "seen": Option(96_000, "images seen in each training", low=64, high=1e8),
            "tries": TRIES,
        },
        measured=True,
        small={"most": 3_000, "seen": 9_600},
    ),
    "remedies": Figure(
        title="What helps a Vision Transformer on little data",
        lectures=("7.4d",),
        takes="data=: a folder or file of images with classes",
        options={
            "data": Option("fashion-mnist", "images with classes; without it, drawn scenes"),
            "images": Option(1_000, "training images", low=20, high=1e6),
            "seen": Option(64_000, "images seen in each training", low=64, high=1e8),
            "tries": TRIES,
        },
        measured=True,
        small={"images": 300, "seen": 6_400},
    ),
}
