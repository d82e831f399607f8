"""Pictures of numbers: sheets, cells, colours and charts, without models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.runtime.lazy import lazy_getattr, modules_by_name

if TYPE_CHECKING:
    from regard.draw.cells import Scale as Scale
    from regard.draw.cells import positive_scale as positive_scale
    from regard.draw.cells import signed_scale as signed_scale
    from regard.draw.colours import ACCENT as ACCENT
    from regard.draw.colours import BLUE as BLUE
    from regard.draw.colours import GREEN as GREEN
    from regard.draw.colours import INK as INK
    from regard.draw.colours import LINE_STYLES as LINE_STYLES
    from regard.draw.colours import MUTED as MUTED
    from regard.draw.colours import ORANGE as ORANGE
    from regard.draw.colours import PURPLE as PURPLE
    from regard.draw.colours import RULE as RULE
    from regard.draw.colours import SKY as SKY
    from regard.draw.colours import Colours as Colours
    from regard.draw.colours import LineStyle as LineStyle
    from regard.draw.colours import diverging as diverging
    from regard.draw.colours import sequential as sequential
    from regard.draw.labels import visible as visible
    from regard.draw.sheet import DPI as DPI
    from regard.draw.sheet import HEIGHT as HEIGHT
    from regard.draw.sheet import SMALLEST as SMALLEST
    from regard.draw.sheet import TEXT as TEXT
    from regard.draw.sheet import WIDTH as WIDTH
    from regard.draw.sheet import Chart as Chart
    from regard.draw.sheet import Medium as Medium
    from regard.draw.sheet import Sheet as Sheet
    from regard.draw.sheet import points as points
    from regard.draw.sheet import render as render
    from regard.draw.sheet import scientific as scientific
    from regard.draw.sheet import shorten as shorten
    from regard.draw.sheet import style as style
    from regard.draw.sheet import text_width as text_width
    from regard.draw.sheet import wrap as wrap
    from regard.runtime.files import read_regular as read_regular
    from regard.runtime.files import write_file as write_file
    from regard.runtime.printing import print_line as print_line
    from regard.runtime.printing import print_result as print_result
    from regard.runtime.printing import print_status as print_status
    from regard.runtime.printing import silence_warnings as silence_warnings
    from regard.runtime.progress import Progress as Progress
    from regard.runtime.units import aligned as aligned

_MODULES = modules_by_name(
    {
        "regard.draw.cells": "Scale positive_scale signed_scale",
        "regard.draw.colours": (
            "ACCENT BLUE Colours GREEN INK LINE_STYLES LineStyle MUTED ORANGE PURPLE RULE SKY "
            "diverging sequential"
        ),
        "regard.draw.labels": "visible",
        "regard.draw.sheet": (
            "Chart DPI HEIGHT Medium SMALLEST Sheet TEXT WIDTH points render scientific shorten "
            "style text_width wrap"
        ),
        "regard.runtime.files": "read_regular write_file",
        "regard.runtime.printing": "print_line print_result print_status silence_warnings",
        "regard.runtime.progress": "Progress",
        "regard.runtime.units": "aligned",
    }
)
__all__ = [*_MODULES]
if not TYPE_CHECKING:  # else every name would pass the type checker
    __getattr__ = lazy_getattr(__name__, _MODULES)
