"""Pictures, pages and summary numbers of recorded attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.runtime.lazy import lazy_getattr, modules_by_name

if TYPE_CHECKING:
    from regard.explain.drawing import RASTERIZED as RASTERIZED
    from regard.explain.drawing import Board as Board
    from regard.explain.drawing import Drawing as Drawing
    from regard.explain.drawing import Numbers as Numbers
    from regard.explain.drawing import drawn_for as drawn_for
    from regard.explain.drawing import key_of as key_of
    from regard.explain.images.patches import patch_distances as patch_distances
    from regard.explain.look import Look as Look
    from regard.explain.look import compare as compare
    from regard.explain.look import find_word as find_word
    from regard.explain.look import look_of as look_of
    from regard.explain.look import picture_ending as picture_ending
    from regard.explain.maps import AttentionMap as AttentionMap
    from regard.explain.names import in_words as in_words
    from regard.explain.page import Looks as Looks
    from regard.explain.page import Picture as Picture
    from regard.explain.page import Prose as Prose
    from regard.explain.page import Section as Section
    from regard.explain.page import Table as Table
    from regard.explain.page import escaped as escaped
    from regard.explain.page import fill_template as fill_template
    from regard.explain.page import save_page as save_page
    from regard.explain.plot import draw_moments as draw_moments

_MODULES = modules_by_name(
    {
        "regard.explain.drawing": "Board Drawing Numbers RASTERIZED drawn_for key_of",
        "regard.explain.images.patches": "patch_distances",
        "regard.explain.look": "Look compare find_word look_of picture_ending",
        "regard.explain.maps": "AttentionMap",
        "regard.explain.names": "in_words",
        "regard.explain.page": (
            "Looks Picture Prose Section Table escaped fill_template save_page"
        ),
        "regard.explain.plot": "draw_moments",
    }
)
__all__ = [*_MODULES]
if not TYPE_CHECKING:  # else every name would pass the type checker
    __getattr__ = lazy_getattr(__name__, _MODULES)
