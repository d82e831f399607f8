"""Drawn scenes: kinds that training never sees, the style of other programs, boxes of objects."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from regard.data.synthetic.scenes import (
    COLOURS,
    PARTS,
    SHAPES,
    false_statements,
    is_unseen_pair,
    make_scene,
    unseen_kinds,
)


def kinds(scene):
    return {(thing.shape, thing.colour) for thing in scene.objects}


def test_unseen_kinds_stand_in_every_test_scene_and_in_no_other():
    hidden = {
        (SHAPES[kind // len(COLOURS)], [*COLOURS][kind % len(COLOURS)]) for kind in unseen_kinds(8)
    }
    assert len(hidden) == 8
    assert {shape for shape, _ in hidden} == set(SHAPES)
    numbers = range(60)
    for part in ("train", "valid"):
        scenes = [make_scene(1, PARTS[part], number, unseen=8) for number in numbers]
        assert not hidden & set().union(*map(kinds, scenes))
    tests = [make_scene(1, PARTS["test"], number, unseen=8) for number in numbers]
    assert all(hidden & kinds(scene) for scene in tests)
    assert any(hidden - kinds(scene) and kinds(scene) - hidden for scene in tests)
    assert len({scene.caption for scene in tests}) > 40


@pytest.mark.parametrize("style", ["plain", "varied"])
def test_the_box_of_an_object_is_where_its_mask_is(style):
    side = 256
    for number in range(12):
        scene = make_scene(2, 2, number, 3, style=style)
        mask = scene.mask(side)
        for index, thing in enumerate(scene.objects, 1):
            rows, columns = np.nonzero(mask == index)
            drawn = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]) / side
            np.testing.assert_allclose(thing.box, drawn, atol=2.5 / side)


def test_varied_scenes_say_the_same_and_look_otherwise():
    for number in range(8):
        plain, varied = (make_scene(3, 0, number, style=style) for style in ("plain", "varied"))
        assert plain.caption == varied.caption
        assert plain.relations == varied.relations
        assert not np.array_equal(plain.draw(48), varied.draw(48))
    assert "stretch" not in plain.to_json()["objects"][0]


def test_every_false_statement_of_a_caption_is_found():
    for number in range(30):
        scene = make_scene(4, 2, number, 3)
        assert false_statements(scene, scene.caption) == []
    scene = next(s for s in (make_scene(4, 2, n, 2, 2) for n in range(20)) if "left" in s.caption)
    first, second = scene.objects
    turned = scene.caption.replace("left", "right")
    assert false_statements(scene, turned) == [turned]
    assert false_statements(scene, first.words) == [second.words]
    assert false_statements(scene, scene.caption + " and below a small red fish")
    assert false_statements(scene, scene.caption.replace(first.colour, "pink")) != []
    assert false_statements(scene, f"{scene.caption} again") != []
    assert false_statements(scene, "") != []
    swapped = f"{second.words} to the right of {first.words}"
    assert false_statements(scene, swapped) == []  # as true, seen from the other


def test_unseen_pairs_stand_together_in_test_scenes_alone():
    def numbers(scene):
        colours = [*COLOURS]
        return [
            SHAPES.index(thing.shape) * len(colours) + colours.index(thing.colour)
            for thing in scene.objects
        ]

    def has_unseen(scene):
        return any(is_unseen_pair(a, b, 0.2) for a, b in combinations(numbers(scene), 2))

    train, test = (
        [make_scene(1, part, number, 3, unseen_pairs=0.2) for number in range(200)]
        for part in (PARTS["train"], PARTS["test"])
    )
    assert not any(map(has_unseen, train))
    assert all(map(has_unseen, test))
    assert {len(scene.objects) for scene in train} == {1, 2, 3}
    assert {kind for scene in test for kind in numbers(scene)} == set(range(42))  # kinds are known
