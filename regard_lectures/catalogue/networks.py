"""The catalogue's figures of networks that see, and of the lectures' claims about them."""

from __future__ import annotations

from regard_lectures.figure import TRIES, Figure, Option

NETWORKS: dict[str, Figure] = {
    "claims": Figure(
        title="The lectures' claims about networks that see, and what was measured",
        lectures=(),  # the rows of the claims that have a figure: `catalogue/__init__.py`
        takes="none: it shows the results that ship; the figure of each claim takes your own",
    ),
    "hunger": Figure(
        title="Data hunger: a CNN and a ViT against the number of training images",
        lectures=("7.4b",),
        takes="data=: a folder or file of images with classes",
        options={
            "data": Option(
                "fashion-mnist", "images with classes, or digits; without it, drawn scenes"
            ),
            "most": Option(55_000, "the largest number of training images", low=1000, high=1e6),
            "seen": Option(96_000, "images seen in each training", low=64, high=1e8),
            "tries": TRIES,
        },
        measured=True,
        small={"most": 3_000, "seen": 9_600, "tries": 1},
    ),
    "remedies": Figure(
        title="What helps a Vision Transformer on little data",
        lectures=("7.4d",),
        takes="data=: a folder or file of images with classes",
        options={
            "data": Option(
                "fashion-mnist", "images with classes, or digits; without it, drawn scenes"
            ),
            "images": Option(1_000, "training images", low=20, high=1_000_000),
            "seen": Option(32_000, "images seen in each training", low=64, high=1e8),
            "tries": TRIES,
        },
        measured=True,
        small={"images": 1_000, "seen": 16_000, "tries": 1},
    ),
    "flops": Figure(
        title="A Vision Transformer and a CNN at equal multiply-adds: their times",
        lectures=("7.4c",),
        takes="model=: a CNN or ViT, to which the other one is matched; side=, batch=: sizes",
        options={
            "model": Option("", "a classifier of images; by default a ResNet-18"),
            "side": Option(128, "side of the images, a multiple of 8", low=32, high=512),
            "batch": Option(8, "images at once", low=2, high=512),
            "rounds": Option(15, "rounds of each seed, in which all are timed", high=1000),
            "tries": TRIES,
        },
        measured=True,
        small={"side": 64, "rounds": 3},
    ),
    "receptive": Figure(
        title="Receptive fields of a CNN, a Vision Transformer, and both together",
        lectures=("7.10",),
        text="the path of an image, or of a folder of images",
        takes="--text: an image or a folder of images; model=: a model of images",
        options={
            "model": Option("", "a CNN or ViT, whose fields are measured; by default three train"),
            "data": Option(
                "fashion-mnist", "images with classes, or digits; without it, drawn scenes"
            ),
            "steps": Option(400, "training steps of 64 images", high=100_000),
            "tries": TRIES,
        },
        measured=True,
        small={"steps": 60},
    ),
    "invariance": Figure(
        title="Objects at a place that was not trained: a CNN, and a ViT without and with shifts",
        lectures=("7.11",),
        takes="data=: a folder of images with classes, which become the objects",
        options={
            "data": Option("", "a folder of images with classes; by default shapes are drawn"),
            "steps": Option(500, "training steps of 64 pictures", high=100_000),
            "tries": TRIES,
        },
        measured=True,
        small={"steps": 100},
    ),
    "scale": Figure(
        title="Accuracy against the size of the object: a CNN and a ViT trained on all sizes",
        lectures=("7.11",),
        takes="data=: a folder of images with classes, which become the objects",
        options={
            "data": Option("", "a folder of images with classes; by default shapes are drawn"),
            "steps": Option(750, "training steps of 64 pictures", high=100_000),
            "tries": TRIES,
        },
        measured=True,
        small={"steps": 100},
    ),
    "distant": Figure(
        title="Two distant marks that decide together: CNNs by their field, and attention",
        lectures=("7.11",),
        takes="data=: a folder of images with classes, the first two of which are the marks",
        options={
            "data": Option("", "a folder of images with classes; by default shapes are drawn"),
            "steps": Option(1_200, "training steps of 32 pictures", high=100_000),
            "tries": TRIES,
        },
        measured=True,
        small={"steps": 400, "tries": 1},
    ),
    "attributes": Figure(
        title="Heads that attend by colour, by shape and by place",
        lectures=("7.11",),
        text="the path of an image, on which the three heads are drawn",
        takes="--text: an image, on which the three heads are drawn; model=: a ViT",
        options={
            "model": Option("", "a ViT, whose heads are measured; by default some are trained"),
            "steps": Option(2_000, "training steps of 64 scenes", high=100_000),
            "tries": TRIES,
        },
        measured=True,
        small={"steps": 800, "tries": 1},
    ),
}
