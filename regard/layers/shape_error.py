"""The error of a layer that gets an x of another shape than the layout of its tokens says."""

from __future__ import annotations

from torch import Tensor

from regard.errors import InputError
from regard.layers.layout import Layout


def shape_error(what: str, x: Tensor, layout: Layout, width: int, layout_name: str) -> InputError:
    """The error for an x that is not the packed tokens of a layout.

    Args:
        what: What x is.
        x: What was given.
        layout: The layout of the tokens that were expected.
        width: The expected width.
        layout_name: Where the user finds the layout.
    """
    shape = tuple(getattr(x, "shape", ()))
    got = " x ".join(map(str, shape)) or type(x).__name__
    lengths = [str(length) for length in layout.lengths[:4]]
    lengths += ["…"] if layout.batch > len(lengths) else []
    sum_text = f" ({' + '.join(lengths)})" if layout.batch > 1 else ""
    tokens = f"{layout.count} token{'' if layout.count == 1 else 's'}"
    fix = None
    if shape == (layout.batch, layout.longest, width):
        fix = f"sequences are laid end to end, without padding: {layout_name}.unpad(x)"
    expected = f"{layout.count} x {width}: {tokens}{sum_text} of width {width}"
    return InputError(what, got=got, expected=expected, fix=fix)
