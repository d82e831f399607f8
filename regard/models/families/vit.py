"""The Vision Transformer, on images cut into patches."""

from __future__ import annotations

from typing import ClassVar, Literal

from regard.models.config import Short, Sizes
from regard.models.families.family import Family, PublishedModel
from regard.models.families.images import ImageEncoderConfig


class ViTConfig(ImageEncoderConfig):
    """ViT: a pre-norm encoder on patches (Dosovitskiy et al. 2021; Touvron et al. 2021)."""

    DEFAULTS: ClassVar[Short] = {
        "layers": 4, "heads": 4, "activation": "gelu", "norm_epsilon": 1e-6,
    }  # fmt: skip
    SIZES: ClassVar[Sizes] = {
        "nano": {"dim": 64, "heads": 4, "hidden": 128, "layers": 4},
        "Ti": {"dim": 192, "heads": 3, "hidden": 768, "layers": 12},
        "S": {"dim": 384, "heads": 6, "hidden": 1536, "layers": 12},
        "B": {"dim": 768, "heads": 12, "hidden": 3072, "layers": 12},
        "L": {"dim": 1024, "heads": 16, "hidden": 4096, "layers": 24},
    }
    family: Literal["vit"] = "vit"
    size: Literal["nano", "Ti", "S", "B", "L"] | None = None


CLASSES = tuple(str(number) for number in range(1000))
"""Class names, as many as ImageNet has, for the sizes that `regard plan` knows by name."""


def _published_model(size: str, batch: int, steps: int, source: str) -> PublishedModel:
    """The entry of a size in the list of models that `regard plan` knows by name."""
    tokens = 197  # [CLS] and 14 x 14 patches
    model = {"family": "vit", "size": size, "classes": CLASSES}
    return PublishedModel(
        model, lengths=(tokens,), step_tokens=batch * tokens, steps=steps, source=source
    )


_DEIT = "Touvron et al. 2021: 300 epochs of ImageNet, batches of 1,024 images"
_VIT = "Dosovitskiy et al. 2021: 300 epochs of ImageNet, batches of 4,096 images"

FAMILY = Family(
    ViTConfig,
    "regard.models.image_encoder.ImageEncoder",
    task="classify",
    named={
        "vit-nano": PublishedModel(
            {"family": "vit", "size": "nano", "image": (8, 8), "patch": 2, "channels": 1,
             "classes": CLASSES[:10]},
            lengths=(17,),
        ),
        "vit-ti": _published_model("Ti", 1024, 375_000, _DEIT),
        "vit-s": _published_model("S", 1024, 375_000, _DEIT),
        "vit-b": _published_model("B", 4096, 93_750, _VIT),
        "vit-l": _published_model("L", 4096, 93_750, _VIT),
    },
)  # fmt: skip
