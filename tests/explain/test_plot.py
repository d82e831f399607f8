from __future__ import annotations

import io
import itertools
import math
import warnings
import xml.etree.ElementTree as ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.text import Text
from PIL import Image

from regard.explain.colours import diverging, sequential
from regard.explain.look import Look, compare
from regard.explain.maps import AttentionMap
from regard.explain.plot import draw, draw_comparison, render
from regard.explain.sheet import DPI, style

pytestmark = pytest.mark.slow

LONG = (
    "Donaudampfschifffahrtsgesellschaftskapitän", "Übungsaufgabe", "Straßenbahnhaltestelle",
    "jgpqy", "Ärger", "gegen", "incomprehensibilities", "the", "$x_1$", ".",
)  # fmt: skip
ODD = ("$", "$\\frac$", "a_b", "50%", "two\nlines", "", "漢字", "😀", "שלום", "x" * 500, "\x07")


def words(count, pool=LONG):
    return tuple(itertools.islice(itertools.cycle(pool), count))


def look(queries, keys=None, *, layers=2, heads=2, seed=0, **changes):
    keys = queries if keys is None else keys
    random = np.random.default_rng(seed)
    maps = []
    for layer in range(layers):
        for site, rows, columns in (
            (f"encoder.{layer}.self", keys, keys),
            (f"decoder.{layer}.cross", queries, keys),
        ):
            weights = random.random((heads, len(rows), len(columns))) ** 4
            weights /= weights.sum(-1, keepdims=True)
            maps.append(AttentionMap(site, weights, rows, columns))
    facts = {"title": "A sentence", "model": "tiny/translate", "source_language": "English"}
    return Look(**{"maps": tuple(maps), **facts, **changes})


def figure_of(seen, *arguments, **named):
    return draw(seen, seen.choose(*arguments, **named))


def visible_texts(figure):
    with style():
        figure.canvas.draw()
    return [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip()]


def rectangle(text):
    """The four corners of a text as it stands, in pixels."""
    angle = text.get_rotation()
    anchor = text.get_transform().transform(text.get_position())
    assert angle == 0 or text.get_rotation_mode() == "anchor"
    with style():
        text.set_rotation(0)
        box = text.get_window_extent()
        text.set_rotation(angle)
    corners = np.array([[box.x0, box.y0], [box.x1, box.y0], [box.x1, box.y1], [box.x0, box.y1]])
    lean = math.radians(angle)
    turn = np.array([[math.cos(lean), -math.sin(lean)], [math.sin(lean), math.cos(lean)]])
    return (corners - anchor) @ turn.T + anchor


def overlap(one, other):
    """By how many pixels two rectangles overlap: the least over their four axes."""
    edges = [one[1] - one[0], one[2] - one[1], other[1] - other[0], other[2] - other[1]]
    depths = []
    for axis in (edge / np.linalg.norm(edge) for edge in edges):
        a, b = one @ axis, other @ axis
        depths.append(min(a.max(), b.max()) - max(a.min(), b.min()))
    return min(depths)


def check_legible(figure):
    texts = visible_texts(figure)
    assert min(t.get_fontsize() * DPI / 72 for t in texts) >= 14
    boxes = [rectangle(t) for t in texts]
    low, high = (np.array([f(box, 0) for box in boxes]) for f in (np.min, np.max))
    near = (low[:, None] < high[None]).all(-1) & (low[None] < high[:, None]).all(-1)
    for one, other in np.argwhere(np.triu(near, 1)):  # only these can overlap at all
        # accents and descenders of neighbouring lines may share less than a pixel
        depth = overlap(boxes[one], boxes[other])
        assert depth < 1, (texts[one].get_text(), texts[other].get_text(), depth)
    width, height = figure.get_size_inches() * DPI
    for text, box in zip(texts, boxes, strict=True):
        assert box.min() >= -0.5, text.get_text()
        assert box[:, 0].max() <= width + 0.5, text.get_text()
        assert box[:, 1].max() <= height + 0.5, text.get_text()


@pytest.mark.parametrize("count", [1, 14, 40])
@pytest.mark.parametrize(
    "arguments",
    [{}, {"kind": "self", "head": 1}, {"kind": "grid"}, {"kind": "positions"}, {"word": "jgpqy"}],
    ids=str,
)
def test_up_to_forty_words_everything_is_legible_on_a_projector(count, arguments):
    pool = LONG if count > 1 else ("jgpqy",)
    figure = figure_of(look(words(count, pool)), **arguments)
    assert (figure.get_size_inches() * DPI).round().tolist() == [1280, 720]
    check_legible(figure)


@pytest.mark.parametrize("shape", [(3, 40), (40, 3), (70, 70)])
def test_uneven_and_longer_inputs_are_legible_too(shape):
    check_legible(figure_of(look(words(shape[0]), words(shape[1]))))


def test_labels_thin_out_where_each_would_be_too_many():
    figure = figure_of(look(words(300), words(250), layers=1, heads=1))
    rows = [t.get_text() for t in figure.axes[0].get_yticklabels()]
    assert 50 <= len(rows) <= 100
    check_legible(figure)


def test_at_forty_words_every_row_and_column_has_its_label():
    axes = figure_of(look(words(40))).axes[0]
    assert len(axes.get_yticklabels()) == len(axes.get_xticklabels()) == 40


def test_many_layers_and_heads_have_a_titled_thumbnail_each():
    figure = figure_of(look(words(5), layers=12, heads=12), "grid")
    titles = [t.get_text() for t in visible_texts(figure)]
    assert {f"L{layer} H{head}" for layer in range(1, 13) for head in range(1, 13)} <= set(titles)
    check_legible(figure)


def test_the_picture_says_what_it_is():
    seen = look(words(5), knocked_out=("decoder.1.cross.0",), note="A note.")
    said = " ".join(t.get_text() for t in visible_texts(figure_of(seen, layer=1, head=0)))
    for part in (
        "A sentence", "decoder layer 2, head 1 (cross)", "attention weight",
        "To type: decoder.1.cross.0.",
        "Rows: the word being written.", "Columns: the English words looked at.",
        "Knocked out: decoder layer 2, head 1 (cross).", "A note.", "Model: tiny/translate",
    ):  # fmt: skip
        assert part in said


def test_cells_show_the_weights_of_the_chosen_head():
    seen = look(words(4))
    axes = figure_of(seen, layer=1, head=1).axes[0]
    shown = axes.collections[0].get_array().reshape(4, 4)
    np.testing.assert_allclose(shown, seen.site("decoder.1.cross").weights[1])
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first word on top


@pytest.mark.parametrize("arguments", [{}, {"word": "a_b"}, {"kind": "grid"}], ids=str)
@pytest.mark.parametrize("ending", [".png", ".svg"])
def test_odd_labels_are_drawn_without_a_warning(arguments, ending):
    seen = look(ODD, title="$\\bad_{", model="100% <&>\x00", note="</svg>")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        content = render(figure_of(seen, **arguments), ending)
    if ending == ".svg":
        said = "".join(ElementTree.fromstring(content).itertext())  # and it is well-formed
        assert "$\\bad_{" in said
    else:
        assert Image.open(io.BytesIO(content)).size == (1280, 720)


def test_rows_that_look_at_nothing_are_drawn():
    nothing = AttentionMap("decoder.0.cross", np.zeros((1, 2, 3)), ("a", "b"), ("c", "d", "e"))
    seen = Look(maps=(nothing,))
    for arguments in ({}, {"kind": "grid"}, {"kind": "positions"}, {"word": "a"}):
        check_legible(figure_of(seen, **arguments))


def test_files_are_what_their_ending_says_and_always_the_same(tmp_path):
    seen = look(words(6))
    with Image.open(seen.save(tmp_path / "a.PNG")) as image:
        assert (image.format, image.size) == ("PNG", (1280, 720))
    first, second = (seen.save(tmp_path / name).read_bytes() for name in ("a.svg", "b.svg"))
    assert first == second
    width, height = (ElementTree.fromstring(first).get(side) for side in ("width", "height"))
    assert (width, height) == ("960pt", "540pt")  # 1280 by 720 pixels in a browser
    assert "Übungsaufgabe" in first.decode()  # text stays text


def test_drawing_leaves_the_settings_and_pyplot_alone():
    before = dict(matplotlib.rcParams)
    render(figure_of(look(words(3))), ".svg")
    assert dict(matplotlib.rcParams) == before


def test_a_comparison_draws_both_and_what_changed():
    first, second = look(words(5)), look(words(5), seed=1)
    both = compare(first, second, ("before", "after"))
    figure = draw_comparison(both, *both.choose(layer=0))
    shown = [a.collections[0].get_array().reshape(5, 5) for a in figure.axes[:3]]
    values = [s.site("decoder.0.cross").seen() for s in (first, second)]
    np.testing.assert_allclose(shown[2], values[1] - values[0])
    assert figure.axes[0].collections[0].norm.vmax == figure.axes[1].collections[0].norm.vmax
    check_legible(figure)


def test_a_comparison_of_different_sentences_has_no_difference():
    both = compare(look(words(5)), look(words(7)))
    figure = draw_comparison(both, *both.choose())
    said = " ".join(t.get_text() for t in visible_texts(figure))
    assert "no difference to draw" in said
    check_legible(figure)


def test_a_comparison_of_a_dozen_words_fits_the_projector():
    both = compare(look(words(12)), look(words(12), seed=1))
    figure = draw_comparison(both, *both.choose())
    assert (figure.get_size_inches() * DPI).round().tolist() == [1280, 720]
    check_legible(figure)


def test_a_comparison_of_forty_words_is_legible():
    both = compare(look(words(40)), look(words(40), seed=1))
    check_legible(draw_comparison(both, *both.choose()))


@pytest.mark.parametrize("colours", [sequential(), sequential(dark=True)], ids=["light", "dark"])
def test_equal_steps_of_weight_are_equal_steps_of_lightness(colours):
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    brightness = linear @ [0.2126, 0.7152, 0.0722]
    lightness = 116 * np.cbrt(np.maximum(brightness, 0.008856)) - 16  # CIE L*
    steps = np.diff(lightness)
    assert (np.sign(steps) == np.sign(steps[0])).all()
    quarters = np.abs(np.diff(lightness[::51]))
    assert quarters.max() / quarters.min() < 1.5


def test_the_middle_of_the_diverging_scale_is_the_lightest():
    assert abs(int(diverging().sum(1).argmax()) - 127.5) <= 1
