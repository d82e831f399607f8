"""Swin and Swin-V2: attention within windows of an image, in stages that merge its patches."""

from __future__ import annotations

from typing import ClassVar, Literal

from regard.layers.grid_config import IMAGE_TOKENS
from regard.layers.stages_config import GridStages
from regard.models.config import ModelConfig, Short, Sizes
from regard.models.families.family import Family, PublishedModel
from regard.models.families.images import ClassHead
from regard.models.families.vit import CLASSES

_T = {"dim": 96, "heads": 3, "hidden": 384, "depths": (2, 2, 6, 2), "drop_path": 0.2}
_S = _T | {"depths": (2, 2, 18, 2), "drop_path": 0.3}
_B = {"dim": 128, "heads": 4, "hidden": 512, "depths": (2, 2, 18, 2), "drop_path": 0.5}
_V1 = {"grid_window": 7, "dropout": 0.0}
VERSION_2: Short = {
    "norm_place": "inside", "final_norm": True, "score": "cosine", "grid_bias": "net",
    "attention_bias": "all_but_key", "fixed_shift": True,
}  # fmt: skip
"""In what Swin-V2 differs from Swin: norms on the output of sub-layers, the cosine of queries and
keys, and a bias that a small network computes from log-scaled offsets (Liu et al. 2022)."""
_V2 = {**VERSION_2, "grid_window": 8, "image": (256, 256), "dropout": 0.0}


class SwinConfig(ModelConfig):
    """Stages of blocks with shifted windows (Liu et al. 2021, 2022)."""

    HEADS: ClassVar[tuple[str, ...]] = ("classes", "numbers")
    VOCABULARIES: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[str] = "images"
    RESIZABLE: ClassVar[tuple[str, ...]] = ("grid_window", "bias_windows")
    DEFAULTS: ClassVar[Short] = {
        "heads": 4, "activation": "gelu", "norm_epsilon": 1e-5, "grid_window": 4,
        "grid_bias": "table", "window_padding": "zeros",
    }  # fmt: skip
    SIZES: ClassVar[Sizes] = {
        "T": {**_T, **_V1},
        "S": {**_S, **_V1},
        "B": {**_B, **_V1},
        "V2-T": {**_T, **_V2},
        "V2-S": {**_S, **_V2},
        "V2-B": {**_B, **_V2},
    }
    family: Literal["swin"] = "swin"
    size: Literal["T", "S", "B", "V2-T", "V2-S", "V2-B"] | None = None
    encoder: GridStages = GridStages()
    head: ClassHead = ClassHead()

    @property
    def dim(self) -> int:
        """Width of the vectors of the last stage."""
        return self.encoder.widths[-1]

    @property
    def least_examples(self) -> int:
        """Two if the head has batch norms, which learn nothing from one image."""
        return 2 if self.head.has_batch_norm else 1


def _published_model(size: str) -> PublishedModel:
    """The entry of a size in the list of models that `regard plan` knows by name."""
    return PublishedModel(
        {"family": "swin", "size": size, "classes": CLASSES},
        lengths=(IMAGE_TOKENS,),
        step_tokens=1024 * IMAGE_TOKENS,
        steps=375_000,
        source=f"Liu et al. {2022 if 'V2' in size else 2021}: 300 epochs of ImageNet, batches of "
        "1,024 images",
    )


FAMILY = Family(
    SwinConfig,
    "regard.models.staged_encoder.StagedEncoder",
    task="classify",
    named={f"swin-{size.lower()}": _published_model(size) for size in SwinConfig.SIZES},
)
