from regard.explain.drawing import RASTERIZED as RASTERIZED
from regard.explain.drawing import Board as Board
from regard.explain.drawing import Drawing as Drawing
from regard.explain.drawing import Numbers as Numbers
from regard.explain.drawing import Words as Words
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

__all__: list[str]
