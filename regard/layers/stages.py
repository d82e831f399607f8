"""Blocks in stages, the body of Swin: between two stages, 2 x 2 patches become one.

    tokens (rows · columns, dim)  ->  blocks  ->  merge  ->  (rows/2 · columns/2, 2 dim)  ->  …

Blocks are numbered through all stages: `encoder.0`, `encoder.1`, …, as are their sites in taps. The
output of a merge is the site `encoder.N.merge`, where N is the block that reads it.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn

from regard.inputs.arrays import Dense
from regard.kernels.linear import Linear
from regard.layers.attention import Attention
from regard.layers.block import Block
from regard.layers.build import make_norm, make_sublayers
from regard.layers.context import Context, Memory, make_context
from regard.layers.fronts.padded_patches import PaddedPatches
from regard.layers.grid_config import GridAttentionConfig, half_side
from regard.layers.layout import Layout
from regard.layers.mixer import Mixer
from regard.layers.norms import norm
from regard.layers.positions import Positions
from regard.layers.stages_config import GridStages
from regard.layers.tap.tap import Tap
from regard.layers.windows import Windows


class Merge(nn.Module):
    """W norm([a; b; c; d]) of each 2 x 2 neighbours, or norm(W [a; b; c; d]) (Swin-V2).

    A grid with an odd side is filled with zeros. In a square a is above b, and c above d.

    Args:
        dim: Width of the input; that of the output is twice as large.
        norm_first: Whether the norm precedes the matrix.
    """

    def __init__(self, dim: int, *, norm_first: bool = True) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.norm = norm("layer", 4 * dim if norm_first else 2 * dim)
        self.reduction = Linear(4 * dim, 2 * dim, bias=False)

    @staticmethod
    def layout(before: Layout) -> Layout:
        """The layout of the output: half the rows and columns, rounded up."""
        assert before.grid is not None  # of images
        rows, columns = map(half_side, before.grid)
        return Layout((rows * columns,) * before.batch, before.device, (rows, columns))

    def forward(self, x: Tensor, before: Layout) -> Tensor:
        """(tokens, dim) -> (tokens / 4, 2 dim)."""
        assert before.grid is not None  # of images
        rows, columns = before.grid
        cells = x.view(before.batch, rows, columns, x.shape[1])
        cells = F.pad(cells, (0, 0, 0, columns % 2, 0, rows % 2))
        squares = cells.view(before.batch, half_side(rows), 2, half_side(columns), 2, x.shape[1])
        # (images, rows, below, columns, beside, dim) -> (images, rows, columns, beside, below, dim)
        joined = squares.permute(0, 1, 3, 4, 2, 5).reshape(-1, 4 * x.shape[1])
        if self.norm_first:
            return cast(Tensor, self.reduction(self.norm(joined)))
        return cast(Tensor, self.norm(self.reduction(joined)))


class Stages(nn.Module):
    """Blocks in stages with merges between them; the counterpart of a stack of blocks.

    Args:
        config: The settings.
        name: The name in taps.
    """

    def __init__(self, config: GridStages, name: str = "encoder") -> None:
        super().__init__()
        self.config, self.name = config, name
        self.input_width, self.width = config.dim, config.widths[-1]
        self.starts = [0, *accumulate(config.depths)]  # the first block of each stage, and the end
        self.positions = Positions()
        blocks, top = [], max(1, config.layers - 1)
        self._attentions: list[GridAttentionConfig | None] = []  # of each stage
        for stage, (first, end) in enumerate(pairwise(self.starts)):
            settings = config.stage(stage)
            self._attentions.append(settings.first(GridAttentionConfig))
            for i in range(first, end):
                parts = make_sublayers(settings, f"{name}.{i}")
                # drop_path rises linearly from 0 in the first block to its maximum in the last
                drop_path = config.drop_path * i / top
                blocks.append(Block(settings, f"{name}.{i}", parts, drop_path=drop_path))
        self.blocks = nn.ModuleList(blocks)
        norm_first = config.norm_place != "inside"
        self.merges = nn.ModuleList(Merge(w, norm_first=norm_first) for w in config.widths[:-1])
        last = config.stage(len(config.depths) - 1)
        self.final_norm = make_norm(last) if config.has_final_norm else nn.Identity()

    def layers(self) -> list[Block]:
        """The blocks, in order."""
        return [cast(Block, block) for block in self.blocks]

    def attentions(self) -> list[Attention]:
        """Every attention layer of every block, in order."""
        return [mixer for mixer in self.mixers() if isinstance(mixer, Attention)]

    def mixers(self) -> list[Mixer]:
        """Every sub-layer of every block, in order."""
        return [mixer for block in self.layers() for mixer in block.mixers()]

    def sites(self) -> dict[str, int]:
        """The tap sites, with the number of heads at each (0: not per head)."""
        sites = {f"{self.name}.embedding": 0}
        for number, block in enumerate(self.layers()):
            sites |= {f"{self.name}.{number}.merge": 0} if number in self.starts[1:] else {}
            sites |= block.sites()
        return sites

    def stage_of(self, layer: int) -> int:
        """The stage of a block."""
        return bisect_right(self.starts, layer) - 1

    def windows(self, layout: Layout, layer: int) -> Windows | None:
        """The windows within which a block attends; None if it attends to all tokens.

        Every second block of a stage shifts its windows by half of their side.

        Args:
            layout: The layout of the tokens of the block's stage.
            layer: The number of the block.
        """
        stage = self.stage_of(layer)
        return self._windows(stage, layout, odd=bool((layer - self.starts[stage]) % 2))

    def _windows(self, stage: int, layout: Layout, *, odd: bool) -> Windows | None:
        """The windows of the blocks of a stage with an even or an odd number."""
        attention = self._attentions[stage]
        if attention is None:
            return None
        assert layout.grid is not None  # of images
        side = attention.grid_window
        shift = side // 2 if odd and self.config.shifts(stage, layout.grid) else 0
        return layout.windows(side, shift, zeros=attention.window_padding == "zeros")

    def read(self, front: PaddedPatches, source: Dense, tap: Tap | None = None) -> Memory:
        """The vector of each cell of each image after the last stage, with their layout."""
        ctx = make_context(front.patch_layout(source), self.positions, causal=False, tap=tap)
        x = ctx.visit(f"{self.name}.embedding", front.read(source, ctx))  # (tokens, dim)
        return Memory(self(x, ctx), front.layout(source))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """(tokens, dim) of patches -> (cells, width) after the last stage."""
        ctx.check(self, x)
        for stage, (first, end) in enumerate(pairwise(self.starts)):
            if stage:
                x, ctx = self._merge(stage, x, ctx)
            # Blocks alternate between unshifted and shifted windows.
            contexts = [
                replace(ctx, windows=self._windows(stage, ctx.layout, odd=odd))
                for odd in (False, True)
            ]
            for number in range(first, end):
                x = self.blocks[number](x, contexts[(number - first) % 2])
        return cast(Tensor, self.final_norm(x))

    def _merge(self, stage: int, x: Tensor, ctx: Context) -> tuple[Tensor, Context]:
        """The input of a stage after the first, and its context."""
        x = self.merges[stage - 1](x, ctx.layout)
        ctx = make_context(Merge.layout(ctx.layout), self.positions, causal=False, tap=ctx.tap)
        return ctx.visit(f"{self.name}.{self.starts[stage]}.merge", x), ctx
