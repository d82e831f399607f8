from __future__ import annotations

import io
import itertools
import warnings
import xml.etree.ElementTree as ElementTree

import matplotlib
import numpy as np
import pytest
from PIL import Image

from regard import load
from regard.draw.colours import diverging, sequential
from regard.draw.sheet import DPI
from regard.explain.look import Look, compare
from regard.explain.maps import AttentionMap
from regard.explain.plot import draw, draw_comparison, render
from tests.legible import problems, texts

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
    return [text for text, _ in texts(figure)]


def check_legible(figure):
    assert (figure.get_size_inches() * DPI).round().tolist() == [1280, 720]
    assert problems(figure) == []


@pytest.mark.parametrize("count", [1, 14, 40])
@pytest.mark.parametrize(
    "arguments",
    [{}, {"kind": "self", "head": 1}, {"kind": "grid"}, {"kind": "positions"}, {"word": "jgpqy"}],
    ids=str,
)
def test_up_to_forty_words_everything_is_legible_on_a_projector(count, arguments):
    pool = LONG if count > 1 else ("jgpqy",)
    check_legible(figure_of(look(words(count, pool)), **arguments))


@pytest.mark.parametrize("shape", [(3, 40), (40, 3), (70, 70)])
def test_uneven_and_longer_inputs_are_legible_too(shape):
    check_legible(figure_of(look(words(shape[0]), words(shape[1]))))


def test_labels_thin_out_where_each_would_be_too_many():
    figure = figure_of(look(words(300), words(250), layers=1, heads=1))
    rows = max(([t.get_text() for t in a.get_yticklabels()] for a in figure.axes), key=len)
    assert 12 <= len(rows) <= 100
    check_legible(figure)


@pytest.mark.parametrize(("count", "every", "columns"), [(12, 1, 12), (28, 2, 28)])
def test_labels_of_24_pixels_are_every_one_or_every_second_one(count, every, columns):
    axes = figure_of(look(words(count))).axes
    maps = max(axes, key=lambda chart: len(chart.get_yticklabels()))
    assert len(maps.get_yticklabels()) == count / every
    assert [t.get_text() for t in maps.get_yticklabels()][1][:3] == words(count)[every][:3]
    assert len(maps.get_xticklabels()) == columns
    said = " ".join(text.get_text() for text in visible_texts(maps.figure))
    assert ("Every 2nd row is named." in said) == (every == 2)


@pytest.mark.parametrize("layers", [2, 12])
def test_many_layers_and_heads_have_a_thumbnail_each_with_its_name(layers):
    figure = figure_of(look(words(5), layers=layers, heads=12), "grid")
    titles = [t.get_text() for t in visible_texts(figure)]
    names = {f"L{layer} H{head}" for layer in range(layers) for head in range(12)}
    if layers == 12:
        names = {f"layer {layer}" for layer in range(12)} | {"head", "0", "11"}
    assert names <= set(titles)
    assert sum(bool(axes.images or axes.collections) for axes in figure.axes) >= 12 * layers
    assert problems(figure) == []


def test_the_picture_says_what_it_is():
    seen = look(words(5), knocked_out=("decoder.1.cross.0",), note="A note.")
    choice = seen.choose(layer=1, head=0)
    plain = " ".join(t.get_text() for t in visible_texts(draw(seen, choice)))
    assert "Decoder layer 1, head 0 (cross): rows are the word being written" in plain
    assert "this head is knocked out" in plain
    assert "Model:" not in plain
    detailed = draw(seen, choice, details=True)
    assert problems(detailed) == []
    said = " ".join(t.get_text() for t in visible_texts(detailed))
    for part in (
        "A sentence", "decoder layer 1, head 0 (cross)", "attention weight",
        "To type: decoder.1.cross.0.",
        "Rows: the word being written.", "Columns: the English words attended to.",
        "Knocked out: decoder layer 1, head 0 (cross).", "A note.", "Model: tiny/translate",
    ):  # fmt: skip
        assert part in said


def test_cells_show_the_weights_of_the_chosen_head():
    seen = look(words(4))
    axes = next(axes for axes in figure_of(seen, layer=1, head=1).axes if axes.collections)
    shown = axes.collections[0].get_array().reshape(4, 4)
    np.testing.assert_allclose(shown, seen.site("decoder.1.cross").weights[1])
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first word on top


@pytest.mark.parametrize("arguments", [{}, {"word": "a_b"}, {"kind": "grid"}], ids=str)
@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf"])
def test_odd_labels_are_drawn_without_a_warning(arguments, ending):
    seen = look(ODD, title="$\\bad_{", model="100% <&>\x00", note="</svg>")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        content = render(figure_of(seen, **arguments), ending)
    if ending == ".svg":
        said = "".join(ElementTree.fromstring(content).itertext())  # and it is well-formed
        assert "$\\bad_{" in said
    elif ending == ".pdf":
        assert content.startswith(b"%PDF")
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
    maps = [axes for axes in figure.axes if axes.collections]
    shown = [a.collections[0].get_array().reshape(5, 5) for a in maps]
    values = [s.site("decoder.0.cross").matrix() for s in (first, second)]
    np.testing.assert_allclose(shown[2], values[1] - values[0])
    assert maps[0].collections[0].norm.vmax == maps[1].collections[0].norm.vmax
    check_legible(figure)


def test_a_comparison_of_different_sentences_has_no_difference():
    both = compare(look(words(5)), look(words(7)))
    figure = draw_comparison(both, *both.choose())
    said = " ".join(t.get_text() for t in visible_texts(figure))
    assert "no difference is drawn" in said
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


def test_a_head_that_was_taken_away_shows_nothing_and_counts_in_no_mean():
    seen = look(words(4), heads=3, knocked_out=("decoder.1.cross.0",))
    weights = seen.site("decoder.1.cross").weights
    alone = matrix_of(figure_of(seen, layer=1, head=0), 4)
    assert alone.mask.all()
    mean = matrix_of(figure_of(seen, layer="decoder.1"), 4)
    np.testing.assert_allclose(mean, weights[1:].mean(0))
    grid = figure_of(seen, kind="grid", layer="decoder")
    hidden = [axes.images[0].get_array().mask.all() for axes in grid.axes if axes.images][1:]
    assert hidden == [False, False, False, True, False, False]  # two layers of three heads
    offsets = matrix_of(figure_of(seen, kind="positions", layer="decoder.1.cross"), 3)
    assert offsets.mask.all(1).tolist() == [True, False, False]


def matrix_of(figure, rows):
    """The cells of the first matrix of a picture."""
    axes = next(axes for axes in figure.axes if axes.collections)
    return axes.collections[0].get_array().reshape(rows, -1)


def test_the_sign_of_a_difference_is_seen_without_colours():
    both = compare(look(words(30)), look(words(30), seed=1))
    figure = draw_comparison(both, *both.choose(layer=0))
    struck = [patch for axes in figure.axes for patch in axes.patches if patch.get_hatch()]
    change = [s.site("decoder.0.cross").matrix() for s in (both.before, both.after)]
    assert len(struck) == np.sum(change[1] - change[0] < 0)


@pytest.mark.parametrize("layers", [2, 3, 5, 12])
def test_the_sentence_about_names_is_true_of_the_names(layers):
    figure = figure_of(look(["word"] * 3, layers=layers, heads=8), "positions")
    said = " ".join(text.get_text() for text in visible_texts(figure))
    [axes] = [chart for chart in figure.axes if len(chart.get_yticklabels()) > 1]
    first, second = (round(tick - 0.5) for tick in axes.get_yticks()[:2])
    ordinals = {2: "2nd", 3: "3rd"}
    if second - first > 1:
        assert f"Every {ordinals.get(second - first, f'{second - first}th')} row" in said
    else:
        assert "is named" not in said
    assert "Layers and heads count from 0" in said


def test_distances_that_are_not_drawn_are_said():
    figure = figure_of(look(words(40)), "positions")
    assert "of distances up to 39" in " ".join(t.get_text() for t in visible_texts(figure))


def test_distances_that_a_decoder_may_not_look_at_are_masked_and_not_zero():
    figure = figure_of(load("small/write").look("A dog and a cat."), "positions")
    [axes] = [chart for chart in figure.axes if len(chart.get_yticklabels()) > 1]
    assert "grey: masked" in " ".join(text.get_text() for text in visible_texts(figure))
    [cells] = [m for m in (*axes.images, *axes.collections) if m.get_array() is not None]
    values = np.ma.filled(np.ma.masked_invalid(cells.get_array().astype(float)), np.nan)
    values = values.reshape(56, -1)
    middle = values.shape[1] // 2
    assert np.isnan(values[:, middle + 1 :]).all()
    assert np.isfinite(values[:, : middle + 1]).all()
