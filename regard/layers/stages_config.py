"""The configs of encoders whose blocks form stages, each on a grid of half the sides (Swin)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from regard.layers.config import (
    DEEPEST,
    LONGEST,
    FeedForwardConfig,
    NoPositionsConfig,
    StackConfig,
)
from regard.layers.grid_config import (
    IMAGE_TOKENS,
    GridAttentionConfig,
    GridSublayer,
    ImageSize,
    half_side,
)


class PaddedPatchFront(ImageSize):
    """An image of any size cut into patches; at its border they are filled with zeros."""

    kind: Literal["padded_patches"] = "padded_patches"
    patch: int = Field(default=4, ge=1, le=LONGEST)
    """The side of a patch, in pixels. Each patch is a token of the first stage."""
    tokens_before: ClassVar[int] = 0
    """No learned tokens precede the patches."""
    max_length: ClassVar[int] = IMAGE_TOKENS
    """What an image counts in `train.batch_tokens`, whatever its size."""

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return -(-self.image[0] // self.patch), -(-self.image[1] // self.patch)

    @property
    def image_summary(self) -> str:
        """A short description of how images are read."""
        sides = f"{self.patch} x {self.patch}"
        return f"{self.image[0]} x {self.image[1]} in patches of {sides}, merged by stages"

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        """Refuses sizes that no model reads."""
        if self.grid[0] * self.grid[1] > LONGEST:
            raise ValueError(f"{self.grid[0] * self.grid[1]} patches are more than any model reads")
        return self


class GridStages(StackConfig):
    """Blocks in stages: between two stages, four neighbouring patches become one, twice as wide.

    `dim`, `heads` and `hidden` are those of the first stage; each further stage has twice as many.
    """

    kind: Literal["stages"] = "stages"  # type: ignore[assignment]
    front: PaddedPatchFront = PaddedPatchFront()
    block: tuple[GridSublayer, ...] = (GridAttentionConfig(), FeedForwardConfig())
    positions: NoPositionsConfig = NoPositionsConfig()
    depths: tuple[PositiveInt, ...] = Field(default=(2, 2), min_length=1, max_length=12)
    """Number of blocks of each stage."""
    stage_heads: tuple[PositiveInt, ...] | None = None
    """Number of attention heads of each stage. None: `heads`, twice as many in each further one."""
    shifted: bool = True
    """Whether every other block shifts its windows by half of their side; false only to show what
    windows miss that never meet."""
    fixed_shift: bool = False
    """Whether the windows of a stage are shifted for images of all sizes, or for none, as for
    images of the model's own size (Swin-V2). Else they are not shifted if one covers the grid."""
    bias_windows: tuple[NonNegativeInt, ...] | None = None
    """Of each stage, the side of the windows by which a `net` scales offsets; 0: its own. None: 0
    for all stages."""
    if not TYPE_CHECKING:  # a number that follows from `depths`, not a field
        layers: ClassVar[Any] = property(lambda self: sum(self.depths), doc="Number of blocks.")

    @property
    def widths(self) -> tuple[int, ...]:
        """The width of the vectors of each stage."""
        return tuple(self.dim * 2**stage for stage in range(len(self.depths)))

    @property
    def heads_of_stages(self) -> tuple[int, ...]:
        """The number of attention heads of each stage; of none, 0."""
        first = 0 if self.attention is None else self.attention.heads
        return self.stage_heads or tuple(first * 2**stage for stage in range(len(self.depths)))

    @property
    def grids(self) -> tuple[tuple[int, int], ...]:
        """Rows and columns of each stage, for images of the model's own size."""
        grids = [self.front.grid]
        for _ in self.depths[1:]:
            rows, columns = grids[-1]
            grids.append((half_side(rows), half_side(columns)))
        return tuple(grids)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the output."""
        return self.grids[-1]

    @property
    def bound(self) -> int:
        """What an image counts in a batch."""
        return self.front.max_length

    @property
    def summary(self) -> str:
        """A short description of the stages."""
        blocks, widths = ("-".join(map(str, sizes)) for sizes in (self.depths, self.widths))
        words = [f"stages of {blocks} blocks", f"{widths} wide"]
        if self.attention is not None:
            words.append(f"{'-'.join(map(str, self.heads_of_stages))} heads")
        if isinstance(self.attention, GridAttentionConfig):
            words.append(f"windows of {self.attention.grid_window}")
        return ", ".join(words)

    def stage(self, stage: int) -> GridStages:
        """The config of the blocks of one stage: the same with its width, heads and windows."""
        return self.model_copy(
            update={
                "dim": self.widths[stage],
                "block": tuple(self._sublayer(part, stage) for part in self.block),
            }
        )

    def _sublayer(self, part: Any, stage: int) -> Any:
        """A sub-layer of the blocks of a stage."""
        if isinstance(part, FeedForwardConfig):
            return part.model_copy(update={"hidden": part.hidden * 2**stage})
        update: dict[str, Any] = {}
        if hasattr(part, "heads"):
            update["heads"] = self.heads_of_stages[stage]
        if isinstance(part, GridAttentionConfig) and self.fixed_shift:
            # as transformers' Swin-V2 does: the side of the grid, rounded down
            update["grid_window"] = min(part.grid_window, max(1, self._rows(stage)))
        if isinstance(part, GridAttentionConfig) and self.bias_windows is not None:
            update["bias_window"] = self.bias_windows[stage] or None
        return part.model_copy(update=update)

    def shifts(self, stage: int, grid: tuple[int, int]) -> bool:
        """Whether every other block of a stage shifts its windows.

        Args:
            stage: The number of the stage.
            grid: Rows and columns of the images' tokens in that stage.
        """
        attention = self.first(GridAttentionConfig)
        if attention is None or not self.shifted:
            return False
        return (self._rows(stage) if self.fixed_shift else min(grid)) > attention.grid_window

    def _rows(self, stage: int) -> int:
        """The rows of a stage for images of the model's own size, always rounded down."""
        return self.front.image[0] // self.front.patch >> stage

    @model_validator(mode="after")
    def _check_stages(self) -> Self:
        """Refuses stages that do not fit together."""
        if sum(self.depths) > DEEPEST:
            raise ValueError(f"depths {self.depths}: at most {DEEPEST} blocks in all")
        for key in ("stage_heads", "bias_windows"):
            value = getattr(self, key)
            if value is not None and len(value) != len(self.depths):
                raise ValueError(f"{len(value)} {key}, but {len(self.depths)} depths")
        head_dim = None if self.attention is None else self.attention.head_dim
        for heads, width in zip(self.stage_heads or (), self.widths, strict=False):
            if head_dim is None and width % heads:
                raise ValueError(f"a stage {width} wide is not a multiple of its heads {heads}")
        if self.stage_heads and any(getattr(part, "kv_heads", None) for part in self.block):
            raise ValueError("stage_heads: kv_heads must be null")
        return self
