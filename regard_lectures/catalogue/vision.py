"""The figures of what networks that see hold inside, and of attention in them and on pixels."""

from __future__ import annotations

from regard_lectures.figure import TRIES, Figure, Option

VISION: dict[str, Figure] = {
    "idea1": Figure(
        title="A ResNet with self-attention between its stages, beside the plain one",
        lectures=("7.1",),
        takes="data=: a folder of images with classes",
        options={
            "data": Option(
                "fashion-mnist", "images with classes, or digits; without it, drawn scenes"
            ),
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
    "slicing": Figure(
        title="A CNN and a ViT cut after every layer: what each cut holds",
        lectures=("7.9b",),
        text="the path of an image, which is rebuilt from each cut",
        takes="data=: a folder of images with classes; --text: an image that is rebuilt",
        options={
            "data": Option("fashion-mnist", "images with classes; without it, drawn scenes"),
            "steps": Option(600, "training steps of 64 images", high=100_000),
            "labels": Option(10, "labels of each new class, from which a cut is reused", high=1000),
            "tries": TRIES,
        },
        measured=True,
        small={"steps": 100, "tries": 1},
    ),
    "equivariance": Figure(
        title="An image is shifted: the maps of a CNN and of a ViT, and their pooled vectors",
        lectures=("2.11",),
        text="the path of an image, or of a folder of images",
        takes="--text: an image or a folder of images; model=: a model of images; data=: images",
        options={
            "model": Option("", "a CNN or ViT, which is measured; by default two are trained"),
            "data": Option("fashion-mnist", "images with classes; without it, drawn scenes"),
            "steps": Option(400, "training steps of 64 images", high=100_000),
            "tries": TRIES,
        },
        measured=True,
        small={"steps": 60, "tries": 1},
    ),
    "filters": Figure(
        title="What a CNN sees: the filters of its first layer",
        lectures=("2.11",),
        text="the path of an image",
        takes="--text: an image that the filters answer to; model=: a model of images",
        options={
            "model": Option("", "a CNN, ResNet or ViT; by default small/caption"),
            "seed": Option(0, "seed of the random filters", low=0),
        },
    ),
    "exciting": Figure(
        title="What a CNN sees: what excites channels of an early and of a late layer",
        lectures=("2.11",),
        text="the path of a folder of images",
        takes="--text: a folder of images; model=: a model of images",
        options={
            "model": Option("", "a CNN, ResNet or ViT; by default small/caption"),
            "layer": Option(0, "the layer beside the first one; 0: the last", low=0),
            "steps": Option(60, "steps by which an input is grown", high=10_000),
            "seed": Option(0, "seed of the noise that inputs are grown from", low=0),
        },
    ),
    "pooling": Figure(
        title="Max-pooling, and where its gradient goes",
        lectures=("2.10",),
        text="rows of numbers with semicolons between them, as '1 3 2 9; 4 6 1 2'",
        takes="--text: rows of numbers; gradient=: the gradient of the output; window=: the blocks",
        options={
            "gradient": Option("", "the gradient of the output, as '10 20; 30 40'"),
            "window": Option(2, "height and width of a block", low=2, high=3),
        },
    ),
}
