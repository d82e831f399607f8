from __future__ import annotations

import numpy as np
import pytest

from regard.errors import InputError, WriteError
from regard.explain.look import Look, compare, find_word
from regard.explain.maps import AttentionMap, row_entropy
from regard.runtime.files import write_file

SOURCE = ("the", "cat", "sees", "the", "dog")
TARGET = ("die", "Katze", "sieht", "</s>")


def blurred(rows, columns, sharpness, heads=2):
    """The more sharpness, the less entropy; the heads differ."""
    scores = np.random.default_rng(0).normal(size=(heads, rows, columns)) * sharpness
    powers = np.exp(scores)
    return powers / powers.sum(-1, keepdims=True)


def look(**changes):
    maps = []
    for layer, sharpness in enumerate((1.0, 6.0, 3.0)):
        maps += [
            AttentionMap(f"encoder.{layer}.self", blurred(5, 5, 4 - sharpness / 2), SOURCE, SOURCE),
            AttentionMap(
                f"decoder.{layer}.self", blurred(4, 4, sharpness), TARGET, ("<s>", *TARGET[:-1])
            ),
            AttentionMap(f"decoder.{layer}.cross", blurred(4, 5, sharpness), TARGET, SOURCE),
        ]
    return Look(**{"maps": tuple(maps), "title": "cats", "model": "tiny", **changes})


def test_by_default_the_mean_of_the_cross_layer_with_the_lowest_row_entropy():
    choice = look().choose()
    cross = [m for m in look().maps if m.site.endswith("cross")]
    sharpest = min(cross, key=lambda m: np.mean(row_entropy(m.weights.mean(0))))
    assert (choice.kind, choice.map.site, choice.head) == ("alignment", sharpest.site, None)
    assert choice.map.site == "decoder.1.cross"
    assert (choice.name, choice.short) == (
        "decoder layer 1, mean over 2 heads (cross)",
        "decoder.1.cross",
    )
    assert "entropy" in choice.reason


def test_a_layer_that_looks_at_nothing_is_not_the_sharpest():
    seen = look()
    empty = AttentionMap("decoder.3.cross", np.zeros((2, 4, 5)), TARGET, SOURCE)
    assert look(maps=(*seen.maps, empty)).choose().map.site == "decoder.1.cross"


@pytest.mark.parametrize(
    ("arguments", "site", "head"),
    [
        ({"layer": 0}, "decoder.0.cross", None),
        ({"layer": "2", "head": 1}, "decoder.2.cross", 1),
        ({"layer": "decoder.2.cross.1"}, "decoder.2.cross", 1),
        ({"layer": "decoder.1.self"}, "decoder.1.self", None),
        ({"kind": "self"}, "encoder.0.self", None),
        ({"kind": "self", "layer": 2}, "encoder.2.self", None),
        ({"kind": "self", "layer": "decoder"}, "decoder.1.self", None),
        ({"word": "cat"}, "encoder.0.self", None),
        ({"word": "Katze"}, "decoder.1.cross", None),
    ],
)
def test_layers_and_heads_can_be_named(arguments, site, head):
    choice = look().choose(**arguments)
    assert (choice.map.site, choice.head) == (site, head)


@pytest.mark.parametrize(
    ("kind", "stack"), [("grid", "decoder.cross"), ("positions", "encoder.self")]
)
def test_grid_and_positions_show_all_layers_of_a_stack(kind, stack):
    choice = look().choose(kind)
    assert [m.layer for m in choice.maps] == [0, 1, 2]
    assert {m.stack for m in choice.maps} == {stack}
    assert look().choose(kind, layer="decoder.self").map.stack == "decoder.self"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"kind": "pie"}, "alignment, grid, self, positions"),
        ({"layer": 9}, "decoder.0.cross, decoder.1.cross, decoder.2.cross"),
        ({"layer": -1}, "decoder.0.cross"),
        ({"layer": "decoder.0.self", "kind": "alignment"}, "decoder.2.cross"),
        ({"head": 2}, "0 to 1"),
        ({"head": -1}, "0 to 1"),
        ({"word": "Hund"}, "die Katze sieht </s>"),
        ({"word": "Katze", "kind": "grid"}, "alignment or self"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(arguments, says):
    with pytest.raises(InputError) as error:
        look().choose(**arguments)
    assert says in str(error.value)
    assert len(str(error.value).splitlines()) <= 2


@pytest.mark.parametrize(
    ("asked", "name", "short"),
    [
        ({"layer": 1, "head": 0}, "decoder layer 1, head 0 (cross)", "decoder.1.cross.0"),
        ({"kind": "grid"}, "decoder layers 0-2, all heads (cross)", "decoder.cross"),
        ({"kind": "grid", "layer": 2}, "decoder layer 2, all heads (cross)", "decoder.2.cross"),
        ({"kind": "positions"}, "encoder layers 0-2, all heads (self)", "encoder.self"),
    ],
)
def test_layers_and_heads_count_from_zero_and_the_short_name_can_be_typed(asked, name, short):
    choice = look().choose(**asked)
    assert (choice.name, choice.short) == (name, short)
    again = look().choose(asked.get("kind"), short)
    assert (again.name, again.head) == (name, choice.head)


def test_a_model_without_cross_attention_shows_itself_as_self():
    alone = look(maps=tuple(m for m in look().maps if m.stack == "encoder.self"))
    assert alone.choose().map.site == "encoder.0.self"
    with pytest.raises(InputError, match="--kind self"):
        alone.choose("alignment")


def test_a_word_is_found_with_its_capitals_first_and_its_repetition_told():
    assert find_word(["The", "the"], "the") == (1, "")
    assert find_word(["Das", "Tier"], "tier") == (1, "")
    row, note = find_word(SOURCE, "the")
    assert row == 0
    assert "2 times" in note


def test_orientation_names_the_languages():
    seen = look(source_language="English", target_language="German")
    assert seen.orientation(seen.site("decoder.0.cross")) == (
        "the German word being written",
        "the English words attended to",
    )
    assert look().orientation(seen.site("decoder.0.cross")) == (
        "the word being written",
        "the source words attended to",
    )


def test_rows_of_a_model_that_only_reads_are_the_words_that_look():
    alone = AttentionMap("decoder.0.self", blurred(5, 5, 1.0), SOURCE, SOURCE)
    rows, columns = look().orientation(alone)
    assert (rows, columns) == ("the query word", "the words attended to")
    rows, columns = look().orientation(look().site("decoder.0.self"))
    assert rows == "the word being written"


def test_a_look_is_printed_in_a_few_lines():
    seen = look(source="the cat\nsees " + "x" * 500, target="die Katze", knocked_out=("a.1.b.2",))
    lines = str(seen).splitlines()
    assert repr(seen) == str(seen)
    assert len(lines) < 10
    assert max(map(len, lines)) < 120
    assert "the cat⏎sees" in lines[1]
    assert "die Katze" in lines[2]
    assert "decoder.cross  3 × 2 (layers × heads)" in str(seen)
    assert "a.1.b.2" in str(seen)
    assert '.save("look.html")' in lines[-1]
    assert len(repr(compare(seen, seen))) < 2000
    assert len(repr(seen.choose("grid"))) < 1000


def test_a_comparison_shows_the_same_place_of_both():
    sharper = look(maps=tuple(m for m in look().maps if m.layer != 1))
    both = compare(sharper, look(), ("a", "b"))
    first, second = both.choose()
    assert first.map.site == second.map.site == "decoder.2.cross"
    with pytest.raises(InputError, match="alignment or self"):
        both.choose("grid")


@pytest.mark.parametrize("name", ["look.jpeg", "look", "look.html.txt"])
def test_an_unknown_ending_is_refused_before_anything_is_drawn(tmp_path, name):
    with pytest.raises(InputError, match=r"\.html, \.png, \.svg or \.pdf"):
        look().save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch):
    path = tmp_path / "look.svg"
    path.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(path), "replace", full)
    with pytest.raises(WriteError, match="No space left"):
        write_file(path, b"new")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("look.svg", "old")]


def test_a_folder_in_the_way_is_a_write_error(tmp_path):
    (tmp_path / "look.html").mkdir()
    with pytest.raises(WriteError):
        look().save(tmp_path / "look.html")
    assert [p.name for p in tmp_path.iterdir()] == ["look.html"]
