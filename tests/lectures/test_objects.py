"""Figures of moved and scaled objects, of distant marks, and of heads that follow attributes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from sklearn.linear_model import LogisticRegression

from regard.errors import InputError
from regard.inputs import Dense
from regard.layers import Tap, knock_out
from regard.models import ViTConfig, build
from regard_lectures import show
from regard_lectures.claims import alike, following, two_marks
from regard_lectures.claims.layers import reaches
from regard_lectures.claims.pasted import Objects
from regard_lectures.claims.two_models import CNN, two_configs
from regard_lectures.figures import attributes, distant, invariance, scale
from tests.legible import problems

IMAGES = 24
"""Images of a class in the folder of a person's own."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of images of two classes: a bright upper half, or a bright left half."""
    path, random = tmp_path_factory.mktemp("own"), np.random.default_rng(0)
    for name in ("upper", "left"):
        (path / name).mkdir()
        for number in range(IMAGES):
            image = random.integers(0, 120, (20, 20, 3))
            half = image[:10] if name == "upper" else image[:, :10]
            half += 120
            Image.fromarray(image.astype(np.uint8)).save(path / name / f"{number}.png")
    return path


@pytest.fixture(scope="module")
def objects():
    """Objects of two classes: all of one brightness, on black ground."""
    brightness = np.array([100, 200] * 5, np.uint8)
    side = invariance.SIDE
    pictures = np.broadcast_to(brightness[:, None, None, None], (10, 1, side, side)).copy()
    return Objects(pictures, ("a", "b") * 5, np.zeros((10, 1), np.uint8))


# Objects at other places, and of other sizes.


def test_objects_stand_where_they_should(objects):
    random = np.random.default_rng(0)
    for span in (invariance.LEFT, invariance.RIGHT):
        images = invariance.pictures_between(objects, 200, span, random)
        assert images.labels.count("a") == 100
        columns = (np.asarray(images.values) > 0).any((1, 2)).argmax(1)
        assert (columns.min(), columns.max()) == span
    half = invariance.CANVAS[1] // 2
    assert invariance.LEFT[1] + invariance.SIDE <= half <= invariance.RIGHT[0]


def test_no_object_is_cut_and_the_cnn_sees_it_alike_in_both_halves():
    config = two_configs(1, invariance.CANVAS)[CNN].changed(classes=("a", "b"))
    torch.manual_seed(0)
    model = build(config).eval()
    reach = list(reaches(model).values())[-1]
    seen = (config.encoder.map_sizes[-1][1] - 1) * reach.stride + reach.side
    assert invariance.RIGHT[1] + invariance.SIDE <= seen
    x = torch.zeros(2, 1, *invariance.CANVAS)
    drawn = torch.rand(1, invariance.SIDE, invariance.SIDE)
    for index, start in enumerate((invariance.LEFT[1], invariance.RIGHT[0])):
        x[index, :, 3 : 3 + invariance.SIDE, start : start + invariance.SIDE] = drawn
    with torch.no_grad():
        logits = model.classify(Dense(x))
    assert torch.allclose(logits[0], logits[1], atol=1e-5)


def test_the_parts_are_differences_of_the_halves():
    columns = np.array(invariance.COLUMNS)
    accuracies = {
        kind: [np.where(columns < 32, left, right).tolist()] * 3
        for kind, left, right in zip(
            invariance.KINDS, (99, 90, 80, 70), (95, 30, 75, 60), strict=True
        )
    }
    differences = invariance.differences_of(accuracies)
    assert differences["built_in"] == pytest.approx([60 - 4] * 3)
    assert differences["learned"] == pytest.approx([75 - 30] * 3)
    sizes = {
        kind: [[20.0, 50.0, rise]] * 3 for kind, rise in zip(scale.KINDS, (80, 70, 1), strict=True)
    }
    assert scale.differences_of(sizes) == {"cnn": [60.0] * 3, "vit": [50.0] * 3}


def test_objects_of_all_sizes_have_as_many_places(objects):
    random = np.random.default_rng(0)
    for side in scale.SIDES:
        images = scale.pictures_at(objects, np.zeros(900, np.int64), side, random)
        seen = np.asarray(images.values)[:, 0] > 0
        first = seen.any(2).argmax(1)
        assert len(set(first.tolist())) == scale.SHIFTS
        assert (seen.any(2).sum(1) == side).all()
        assert first.min() + side / 2 == pytest.approx(scale.SIDES[-1] / 2, abs=0.5)
    mixed = scale.pictures_of_all_sizes(objects, 60, random)
    areas = (np.asarray(mixed.values) > 0).sum((1, 2, 3))
    assert {int(area) for area in areas} == {side * side for side in scale.SIDES}


# Two distant marks.


def test_only_the_deepest_cnn_and_attention_see_both_marks():
    configs = two_marks.models_of(1)
    for kind, config in configs.items():
        model = build(config.changed(classes=("a", "b")))
        if kind != two_marks.ATTENTION:
            assert list(reaches(model).values())[-1].side == distant.FIELDS[kind]
        random = np.random.default_rng(0)
        corners = two_marks._draw_corners(300, random)
        gaps = corners[:, 1, 1] - corners[:, 0, 1] - two_marks.SIDE
        assert gaps.min() == two_marks.APART[0] - two_marks.SIDE >= distant.FIELDS[distant.SMALL]
        assert corners.max() + two_marks.SIDE <= distant.FIELDS[distant.LARGE]
        pixels = torch.rand(1, 1, two_marks.CANVAS, two_marks.CANVAS)
        point = tuple((corners[0, 0] + two_marks.SIDE / 2).tolist())
        field, box = two_marks.gradient_of_cell(model, pixels, point, 0)
        sees = two_marks.marks_seen(field, corners[0])
        assert sees == (2 if kind in (distant.LARGE, two_marks.ATTENTION) else 1)
        if box:
            first, end, start, stop = box
            outside = field.copy()
            outside[first:end, start:stop] = 0
            assert not outside.any()
            assert first <= point[0] <= end
            assert start <= point[1] <= stop


def test_the_class_is_whether_marks_are_alike(objects):
    small = objects.scaled(two_marks.SIDE)
    random = np.random.default_rng(0)
    images, corners = two_marks.draw_marks(small, ("a", "b"), 400, random, alone=0.5)
    values = np.asarray(images.values)
    for picture, label, pair in zip(values, images.labels, corners, strict=True):
        marks = [int(picture[0, row, column]) for row, column in pair]
        if label in ("a", "b"):
            assert sorted(marks) == [0, {"a": 100, "b": 200}[label]]
        else:
            assert min(marks) > 0
            assert (marks[0] == marks[1]) == (label == two_marks.ALIKE)
    counts = {label: images.labels.count(label) for label in set(images.labels)}
    assert all(70 < count < 130 for count in counts.values())


# Heads that follow.


@pytest.fixture(scope="module")
def scenes():
    tiles = alike.draw_tiles(8, 0, 2)
    return tiles, alike.draw_scenes(tiles, 300, np.random.default_rng(0))


def test_partners_are_alike_and_answers_are_theirs(scenes):
    tiles, drawn = scenes
    side = 8
    rows, columns = np.divmod(drawn.cells, alike.CELLS)
    for scene in range(len(drawn)):
        kinds = []
        for row, column in zip(rows[scene], columns[scene], strict=True):
            tile = drawn.pictures[
                scene, :, row * side : (row + 1) * side, column * side : (column + 1) * side
            ]
            (number,) = np.flatnonzero((tiles.pictures == tile).all((1, 2, 3)))[:1]
            kinds.append(next(
                (colour, shape)
                for colour, shapes in enumerate(tiles.members)
                for shape, members in enumerate(shapes) if number in members
            ))  # fmt: skip
        by_colour, by_shape, by_place = drawn.partners[:, scene]
        for index, (colour, shape) in enumerate(kinds):
            assert kinds[by_colour[index]] == (colour, drawn.answers[0, scene, index])
            assert kinds[by_shape[index]] == (drawn.answers[1, scene, index], shape)
            assert kinds[by_place[index]][0] == drawn.answers[2, scene, index]
            steps = abs(rows[scene] - rows[scene][index]) + abs(
                columns[scene] - columns[scene][index]
            )
            assert np.flatnonzero(steps == 1).tolist() == [by_place[index]]
    together = (drawn.partners[0] == drawn.partners[2]).mean()
    assert together == pytest.approx(1 / 3, abs=0.1)  # paired independently


def test_following_is_what_a_loop_says():
    random = np.random.default_rng(0)
    between = random.random((3, 2, 4, 4))
    partners = alike.PAIRINGS[random.integers(0, 3, 3)]
    expected = np.zeros(2)
    for head in range(2):
        for scene in range(3):
            for i in range(4):
                p = partners[scene, i]
                others = [between[scene, head, i, j] for j in range(4) if j not in (i, p)]
                expected[head] += between[scene, head, i, p] - sum(others) / 2
    assert following.follow_share(between, partners) == pytest.approx(100 * expected / 12)


def test_the_probe_is_softmax_regression():
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 5)) * [1, 2, 3, 4, 5] + 1
    y = (x @ random.normal(size=(5, 3)) + random.normal(size=(200, 3))).argmax(1)
    vectors, answers = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
    probe = following.fit_probe(vectors, answers)
    z = (x - x.mean(0)) / x.std(0, ddof=1)
    strength = 1 / (2 * 200 * following.PENALTY)
    other = LogisticRegression(C=strength, tol=1e-8, max_iter=1000).fit(z, y)
    expected = F.cross_entropy(torch.tensor(other.decision_function(z)), answers)
    loss, right = probe.measured(vectors, answers)
    assert loss == pytest.approx(float(expected), abs=1e-3)
    assert right == pytest.approx(100 * other.score(z, y), abs=1)


def test_a_head_is_taken_away_and_patches_are_those_of_objects(scenes):
    _, drawn = scenes
    torch.manual_seed(0)
    config = ViTConfig.model_validate(
        {"image": (40, 40), "patch": 4, "dim": 16, "heads": 2, "hidden": 16, "layers": 2}
    )
    seeing = following.Seeing(build(config).eval(), tile=8)
    assert seeing.heads == [f"encoder.{layer}.self.{head}" for layer in (0, 1) for head in (0, 1)]
    inside = alike.share_of_patches(seeing.grid, drawn.cells)
    assert inside.sum(2) == pytest.approx(1)
    row, column = divmod(int(drawn.cells[0, 0]), alike.CELLS)
    expected = np.zeros((10, 10))
    expected[2 * row : 2 * row + 2, 2 * column : 2 * column + 2] = 0.25
    assert (inside[0, 0].reshape(10, 10) == expected).all()
    with torch.no_grad():
        plain, tap = (
            following.object_vectors(seeing, drawn),
            Tap(edits=[knock_out(seeing.heads[1])]),
        )
        without = following.object_vectors(seeing, drawn, tap)
    assert not torch.allclose(plain, without)
    measured = following.measure_followed(seeing, 0, 250, 250)
    assert np.shape(measured.follows) == np.shape(measured.without) == (3, 4)


# Own input.


@pytest.mark.slow
@pytest.mark.parametrize("name", ["invariance", "scale", "distant"])
def test_objects_are_a_persons_own_images(name, folder, monkeypatch, tmp_path):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    drawing = show(name, data=str(folder), steps=2, tries=1)
    assert problems(drawing.figure) == []
    assert drawing.numbers["data"] == folder.name
    assert drawing.numbers["verdict"] == "cannot tell"


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"model": "small/fashion"}, {"steps": 2}])
def test_heads_are_drawn_on_ones_own_image(options, folder, monkeypatch, tmp_path):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    for name in ("PROBED", "TESTED"):
        monkeypatch.setattr(attributes, name, 100)
    monkeypatch.setattr(alike, "POOL", 500)
    drawing = show("attributes", text=str(folder / "left" / "0.png"), **options)
    assert problems(drawing.figure) == []
    model = options.get("model", "")
    assert drawing.numbers["tries"] == 1
    assert drawing.title.startswith(model)
    assert ("verdict" in drawing.numbers) == (not model)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("invariance", {"data": "nosuch"}, "expected a folder"),
        ("scale", {"data": "nosuch"}, "expected a folder"),
        ("distant", {"data": "nosuch"}, "expected a folder"),
        ("attributes", {"model": "small/caption"}, "expected a ViT of 5 x 5 patches"),
        ("attributes", {"model": "small/digits"}, "4 x 4 patches"),
        ("attributes", {"model": "tiny/translate"}, "reads images"),
        ("attributes", {"text": "nosuch.png"}, "nosuch.png"),
    ],
)
def test_wrong_input_is_refused(name, options, message, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        show(name, **options)


def test_marks_need_two_classes(tmp_path):
    (tmp_path / "only").mkdir()
    (tmp_path / "other").mkdir()
    for number in range(12):
        image = Image.fromarray(np.full((9, 9, 3), 5 * number, np.uint8))
        image.save(tmp_path / "only" / f"{number}.png")
    Image.fromarray(np.zeros((9, 9, 3), np.uint8) + 7).save(tmp_path / "other" / "1.png")
    with pytest.raises(InputError, match="two folders of 20 images or more"):
        distant.read_marks(str(tmp_path), 0)
