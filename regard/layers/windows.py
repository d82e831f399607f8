"""Arranges the tokens of images in square windows, for attention that stays within a window (Swin).

In: the `Layout` of images, whose tokens form a grid, stored row by row. Out: a layout of the same
tokens with one padded row for each window, and its mask. Between layers tokens keep their order.

    grid 2 x 4        tokens (8, dim)              windows of 2 x 2: (2, heads, 4, head_dim)
    a b c d           a b c d e f g h     <->      a b e f
    e f g h                                        c d g h
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from regard.layers.layout import Layout
from regard.layers.masks import Mask


class Windows(Layout):
    """The tokens of images arranged in square windows: each window is one padded row.

    Shifted windows wrap around the border of the image (Swin's cyclic shift), so that their number
    stays the same; the mask separates tokens that are no neighbours in the image. If the image does
    not fill a window, its remaining cells are padding, which is masked as well. An image that is
    smaller than a window is one window, which is not shifted.

    With `zeros`, windows are those of the published Swins: padding is attended to, as tokens whose
    x is 0, so that every window is whole; and they are shifted even if there is only one.

    Args:
        of: The layout of the images.
        grid: Rows and columns of each image.
        size: The side of a window, in tokens.
        shift: By how many rows and columns the windows are shifted.
        zeros: Whether attention sees the padding.

    Example:
        >>> windows = Layout((8,), grid=(2, 4)).windows(2)
        >>> windows.rows(torch.arange(8.0).view(8, 1), heads=1)[:, 0, :, 0]
        tensor([[0., 1., 4., 5.],
                [2., 3., 6., 7.]])
        >>> windows.keys(6)                    # the tokens that token 6 may attend to
        [2, 3, 6, 7]
    """

    def __init__(
        self, of: Layout, grid: tuple[int, int], size: int, shift: int, *, zeros: bool = False
    ) -> None:
        sides = [size if zeros else min(size, extent) for extent in grid]
        counts = [-(-extent // side) for extent, side in zip(grid, sides, strict=True)]
        self.window_shape = sides[0], sides[1]
        self.images, self.windows_per_image = of.batch, counts[0] * counts[1]
        shifted, wrapped = [], []  # one entry for the rows, one for the columns
        for side, count in zip(sides, counts, strict=True):
            offset = shift if count > 1 or zeros else 0
            index = torch.arange(count * side)  # of the image with its padding
            shifted.append((index - offset) % (count * side))
            wrapped.append((index < offset).long())
        (row, column), (height, width) = shifted, sides
        window = (row // height)[:, None] * counts[1] + column // width  # (rows, columns)
        inside = (row % height)[:, None] * width + column % width
        all_slots, segments = window * height * width + inside, 2 * wrapped[0][:, None] + wrapped[1]
        rows, columns = grid
        self.own_slots = all_slots[:rows, :columns].flatten()  # for one image's tokens
        seen = (slice(None),) if zeros else (slice(rows), slice(columns))
        self._seen_slots, self._seen_segments = all_slots[seen].flatten(), segments[seen].flatten()
        self._zeros = zeros and self.own_slots.numel() < all_slots.numel()
        # Not `even`: even if every window is full, the tokens are in a different order.
        self.lengths, self.device, self.grid, self.prefix = of.lengths, of.device, grid, 0
        self.batch, self.longest = of.batch * self.windows_per_image, height * width
        self.count, self.even = of.count, False

    @cached_property
    def slots(self) -> Tensor:
        """The index of each token in the flattened windows of all images: (tokens,)."""
        first_slots = torch.arange(self.images)[:, None] * self.windows_per_image * self.longest
        return (first_slots + self.own_slots).flatten().to(self.device)

    @cached_property
    def tokens_of(self) -> Tensor:
        """The token of an image at each cell of its windows, -1 for padding: (windows, cell)."""
        tokens = torch.full((self.windows_per_image * self.longest,), -1)
        tokens[self.own_slots] = torch.arange(len(self.own_slots))
        return tokens.view(self.windows_per_image, self.longest)

    @cached_property
    def padding(self) -> Tensor | None:
        """Which cells are padding that attention sees: (windows, cell); None: there are none."""
        if not self._zeros:
            return None
        return (self.tokens_of < 0).repeat(self.images, 1).to(self.device)

    def keys(self, query: int) -> list[int]:
        """For one query, the token of each key column: those of its window; -1 is padding."""
        return self.tokens_of[int(self.own_slots[query]) // self.longest].tolist()

    def spread(self, weights: Tensor) -> Tensor:
        """Recorded weights with a column for each token of an image: 0 outside the query's window.

        weights (…, query, cell of the query's window) -> (…, query, token).

        Example:
            >>> windows = Layout((8,), grid=(2, 4)).windows(2)
            >>> windows.spread(torch.full((8, 4), 0.25))[0]
            tensor([0.2500, 0.2500, 0.0000, 0.0000, 0.2500, 0.2500, 0.0000, 0.0000])
        """
        queries = len(self.own_slots)
        tokens = self.tokens_of[self.own_slots // self.longest].to(weights.device)  # (query, cell)
        tokens = torch.where(tokens < 0, queries, tokens)  # padding gets a column that is cut off
        out = weights.new_zeros(*weights.shape[:-1], queries + 1)
        return out.scatter_(-1, tokens.expand(weights.shape), weights)[..., :-1]

    @cached_property
    def mask(self) -> Mask:
        """Allows attention only within a window and between neighbours in the image."""
        no_padding = len(self._seen_slots) == self.windows_per_image * self.longest
        if no_padding and not self._seen_segments.any():
            return Mask()
        segments = torch.full((self.windows_per_image * self.longest,), -1)
        segments[self._seen_slots] = self._seen_segments
        segments = segments.view(-1, self.longest).repeat(self.images, 1).to(self.device)
        return Mask(segments=(segments, segments))
