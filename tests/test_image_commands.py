"""A model that reads images, by every command and in Python: items are paths, bytes or arrays."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image

from regard.data.config import DigitsData
from regard.data.synthetic.digits import CLASSES, splits
from regard.errors import InputError
from regard.layers import Tap
from regard.runs.load import load
from tests.commands import is_refused
from tests.digits import draw, drawings

pytestmark = pytest.mark.slow  # the first of them trains for some seconds


@pytest.fixture(scope="session")
def pipeline(digits_run):
    return load(digits_run)


@pytest.fixture
def files(tmp_path):
    """Four drawings, as files in the folder where commands run."""
    names = []
    for number, (digit, image) in enumerate(drawings()[:8:2]):
        names.append(f"{digit}-{number}.png")
        image.save(tmp_path / names[-1])
    return names


def test_digits_that_were_held_out_are_read(pipeline):
    test = splits(DigitsData()).tests["test"]
    assert pipeline.measure(test).overall["accuracy"] > 94


def test_digits_drawn_by_hand_are_read(pipeline):
    drawn = drawings()
    labels = pipeline.classify([image for _, image in drawn])
    right = [digit == best.label for (digit, _), (best, *_) in zip(drawn, labels, strict=True)]
    assert sum(right) >= 17


def test_classify_reads_paths(regard, digits_run, files):
    model_name = str(digits_run)
    result = regard("classify", model_name, *files)
    assert result.code == 0
    assert [line.split("\t")[0] for line in result.out.splitlines()] == ["0", "1", "2", "3"]
    top = regard("classify", model_name, files[0], "--top", "3").out.split()
    assert top[0] == "0"
    assert len(top) == 6
    lines = regard("classify", model_name, *files, "--json").out.splitlines()
    rows = [json.loads(line) for line in lines if line]
    assert [row["file"] for row in rows] == files
    assert set(rows[0]["classes"]) == set(CLASSES)
    assert sum(rows[0]["classes"].values()) == pytest.approx(1)
    few = json.loads(regard("classify", model_name, files[0], "--json", "--top", "2").out)
    assert len(few["classes"]) == 2
    assert regard("classify", model_name, files[3], "--precision", "int8").out.startswith("3")
    is_refused(regard("classify", model_name, files[0], "--top", "0"), "--top")


def test_a_pipe_gives_a_path_a_line_and_a_dash_is_one_image(regard, digits_run, files, tmp_path):
    model_name = str(digits_run)
    data = (tmp_path / files[2]).read_bytes()
    assert regard("classify", model_name, "-", feed=data).out.startswith("2\t")
    assert json.loads(regard("classify", model_name, "-", "--json", feed=data).out)["file"] == "-"
    (tmp_path / "text.txt").write_text("words\n")
    lines = [files[0], "", "none.png", files[1], "text.txt", "."]
    for words, feed in ((("--input", "list"), ""), ((), "\n".join(lines) + "\n")):
        (tmp_path / "list").write_text("\n".join(lines) + "\n")
        result = regard("classify", model_name, *words, feed=feed.encode())
        assert result.code == 0
        assert [line.split("\t")[0] for line in result.out.splitlines()] == [
            "0",
            "",
            "",
            "1",
            "",
            "",
        ]
        said = result.err.splitlines()
        assert [line.split(":")[1] for line in said] == [" line 3", " line 5", " line 6"]
        assert "none.png: no such file" in said[0]
    (tmp_path / "list").write_text("none.png\n")
    strict = regard("classify", model_name, "--input", "list", "--strict")
    assert strict.code == 2
    assert "line 1: none.png: no such file" in strict.err


def test_what_is_no_image_is_refused(regard, digits_run, files, tmp_path):
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "text.png").write_text("The dog sleeps.\n")
    (tmp_path / "cut.png").write_bytes((tmp_path / files[0]).read_bytes()[:60])
    Image.new("L", (9, 9), 255).save(tmp_path / "white.png")
    for verb in ("classify", "look", "embed"):
        for item, words in {
            "none.png": ("none.png: no such file",),
            "The dog sleeps.": ("The dog sleeps.: no such file", "the path of an image"),
            "empty.png": ("empty.png: got an empty file",),
            "text.png": ("text.png: got no image",),
            "cut.png": ("cut.png",),
            "white.png": ("white.png: got one colour",),
            ".": ("got a folder",),
        }.items():
            is_refused(regard(verb, str(digits_run), item), *words)
    is_refused(regard("classify", str(digits_run), "-", feed=b""), "got an empty file")
    assert regard("classify", str(digits_run), files[0], "none.png").code == 2


def test_a_text_is_never_taken_for_a_file(regard, tmp_path):
    (tmp_path / "The dog sleeps.").write_text("no")
    assert regard("translate", "tiny/translate", "The dog sleeps.").out == "Der Hund schläft.\n"


def test_what_images_do_not_have_is_refused(regard, digits_run, files, pipeline):
    model_name = str(digits_run)
    is_refused(regard("fill", model_name, files[0]), "cannot fill", "it can classify, embed")
    is_refused(regard("words", model_name, "a", "--in", "a b"), "a model of images")
    is_refused(regard("tokens", model_name, "a b"), "a model of images")
    with pytest.raises(InputError, match="one that reads text"):
        _ = pipeline.vocabulary
    with pytest.raises(InputError, match="batch x channels x height x width"):
        pipeline.logits([1, 2, 3])
    with pytest.raises(InputError, match="mask: got images"):
        pipeline.classify(files[0], mask=[[1, 0]])


def test_python_takes_what_the_command_takes_and_arrays(pipeline, tmp_path):
    image = draw([[(0.55, 0.05), (0.45, 0.95)]], 90, 6, dark=True)
    image.save(tmp_path / "one.png")
    items = [tmp_path / "one.png", str(tmp_path / "one.png"), image, np.asarray(image)]
    several = pipeline.classify(items)
    for item, labels in zip(items, several, strict=True):
        assert labels[0].label == "1"
        assert [label.label for label in pipeline.classify(item, 2)] == [
            label.label for label in labels[:2]
        ]
    batch = torch.from_numpy(np.stack([np.asarray(image)] * 2))[:, None]
    assert [labels[0].label for labels in pipeline.classify(batch)] == ["1", "1"]
    vectors = pipeline.embed(items)
    assert vectors.shape == (4, 64)
    assert pipeline.embed(image, pool="cls").shape == (64,)


def test_logits_take_pixels_as_the_reader_gives_them(pipeline):
    drawn = drawings()[:6]
    reader = pipeline.processor.source
    read = reader.collate(reader.read([image for _, image in drawn]))
    logits = pipeline.logits(read.values)
    assert logits.shape == (6, 10)
    labels = pipeline.classify([image for _, image in drawn])
    for row, classes in zip(logits.softmax(1), labels, strict=True):
        assert CLASSES[int(row.argmax())] == classes[0].label
        assert float(row.max()) == pytest.approx(classes[0].probability, abs=1e-5)


def test_near_images_are_found(regard, digits_run, tmp_path):
    names = []
    for number, (digit, image) in enumerate(drawings()):
        names.append(f"{digit}-{number}.png")
        image.save(tmp_path / names[-1])
    result = regard("embed", str(digits_run), *names, "--near", "0-0.png", "--top", "2", "--json")
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert [row["file"][0] for row in rows] == ["0", "0"]
    assert rows[0]["closeness"] == pytest.approx(1, abs=1e-5)


def test_look_draws_the_row_of_the_class_token(regard, digits_run, files, tmp_path, pipeline):
    for ending in ("png", "svg", "html"):
        result = regard("look", str(digits_run), files[3], "-o", f"map.{ending}")
        assert (result.code, result.out) == (0, "3\n")
        assert f"map.{ending} shows encoder layer" in result.err
    with Image.open(tmp_path / "map.png") as drawn:
        assert drawn.size == (1280, 720)
    assert "data:image/png;base64," in (tmp_path / "map.html").read_text()
    single = regard("look", str(digits_run), files[3], "-o", "m.png", "--layer", "2", "--head", "1")
    assert "encoder layer 2, head 1 (self): encoder.2.self.1" in single.err
    for kind in ("self", "grid", "positions"):
        assert regard("look", str(digits_run), files[3], "-o", "k.png", "--kind", kind).code == 0
    is_refused(regard("look", str(digits_run), files[3], "--word", "9,9"), "--word", "0,0 0,1")
    is_refused(regard("look", "tiny/translate", "The dog sleeps.", "--kind", "picture"), "a text")

    seen = pipeline.look(tmp_path / files[3])
    choice = seen.choose(layer=1, head=2)
    assert (choice.kind, choice.row) == ("picture", 0)
    tap = Tap("encoder.1.self.weights")
    reader = pipeline.processor.source
    pipeline.model.hidden(reader.collate(reader.read([tmp_path / files[3]])), tap)
    recorded = tap.records["encoder.1.self.weights"][0, 2, 0]  # of [CLS]
    assert np.allclose(choice.map.matrix(2)[0], recorded, atol=1e-6)
    assert seen.choose(word="1,2").row == 1 + 4 + 2
    assert seen.picture.grid == (4, 4)


def test_a_map_stands_beside_its_test(regard, digits_run, files):
    model_name = str(digits_run)
    result = regard("look", model_name, files[3], "-o", "m.png", "--kind", "rollout", "--json")
    row = json.loads(result.out)
    assert (row["class"], row["map"], row["query"], row["grid"]) == (
        "3",
        "rollout",
        "[CLS]",
        [4, 4],
    )
    assert np.sum(row["weights"]) + np.sum(row["before_patches"]) == pytest.approx(1, abs=1e-4)
    assert (row["test"]["hidden"], len(row["test"]["random"])) == (3, 20)
    assert row["test"]["verdict"] in ("holds", "does not hold", "cannot tell")
    words = "--hide", "0.25", "--fill", "blur", "--draws", "2", "--seed", "1", "--original"
    result = regard("look", model_name, files[3], "-o", "m.html", *words)
    assert "Hiding the 4 of 16 patches looked at most changes P(3)" in result.err
    assert "patches" not in regard("look", model_name, files[3], "-o", "m.png", "--hide", "0").err
    is_refused(regard("look", model_name, files[3], "--hide", "0.7"), "--hide", "at most 0.5")
    is_refused(regard("look", model_name, files[3], "--kind", "rollout", "--head", "1"), "--head")
    is_refused(regard("look", model_name), "no input")
    is_refused(regard("look", model_name, files[3], "--test"), "--test and an input")
    is_refused(regard("look", "tiny/translate", "--test"), "a model of images")
    words = "--knock-out", "encoder.3.self.1", "--layer", "3", "--head", "1", "--json"
    gone = regard("look", model_name, files[3], "-o", "m.png", *words)
    assert np.sum(json.loads(gone.out)["weights"]) == 0


def test_the_maps_of_many_images_are_tested(regard, digits_run, files, tmp_path):
    model_name = str(digits_run)
    words = "--test", "--pairs", "60", "--kind", "rollout"
    result = regard("look", model_name, *words, "-o", "t.png")
    assert "60 images, 3 of 16 patches hidden" in result.out
    assert "the maps hold" in result.out
    row = json.loads(regard("look", model_name, *words, "--json").out)
    assert row["drop"]["most"]["mean"] > row["drop"]["random"]["high"]
    assert row["most_minus_random"]["low"] > 0
    assert len(row["tests"]) == 60
    (tmp_path / "list.tsv").write_text("".join(f"{name}\t{name[0]}\n" for name in files))
    listed = json.loads(regard("look", model_name, "--test", "--data", "list.tsv", "--json").out)
    assert (listed["images"], listed["map"]) == (4, "encoder layer 3, mean over heads (self)")


def test_eval_heads_plan_and_ls_know_it(regard, digits_run, files, tmp_path):
    model_name = str(digits_run)
    scored = json.loads(regard("eval", model_name, "--json").out)
    assert (scored["set"], scored["examples"]) == ("test", 364)
    assert scored["accuracy"] > 94
    assert set(scored["by_label"]) == set(CLASSES)
    assert "unknown" not in scored
    assert (
        json.loads(regard("eval", model_name, "--split", "valid", "--json").out)["examples"] == 160
    )
    is_refused(regard("eval", model_name, "--split", "tset"), "one of train, valid, test")
    (tmp_path / "list.tsv").write_text("".join(f"{name}\t{name[0]}\n" for name in files))
    scores = json.loads(regard("eval", model_name, "--data", "list.tsv", "--json").out)
    assert (scores["examples"], scores["accuracy"]) == (4, 100)
    assert "recall" in regard("eval", model_name).out

    heads = regard("heads", model_name, "--pairs", "8")
    assert "over 8 images" in heads.out
    assert "in nats per image" in heads.out
    rows = list(
        map(json.loads, regard("heads", model_name, "--pairs", "8", "--json").out.splitlines())
    )
    assert len(rows) == 16
    for row in rows:  # patches of 2 x 2 pixels, 4 x 4 of them
        assert row["distance"] == pytest.approx(2 * row["patches"])
        assert 0 < row["patches"] < 3 * 2**0.5
    assert regard("heads", model_name, "--pairs", "8", "-o", "heads.svg").code == 0
    is_refused(regard("heads", "tiny/translate", "-o", "heads.svg"), "a model of images")
    gone = regard("classify", model_name, files[0], "--knock-out", "encoder.0.self.1", "--json")
    assert json.loads(gone.out)["classes"] != json.loads(
        regard("classify", model_name, files[0], "--json").out
    )["classes"]  # fmt: skip

    planned = json.loads(regard("plan", model_name, "--flops", "1e12", "--json").out)
    assert planned["parameters"]["total"] == sum(
        parameter.numel() for parameter in load(digits_run).model.parameters()
    )
    assert planned["length"] == 17
    assert planned["parameters"]["patch_embedding"] == 4 * 64 + 64
    assert "images of 8 x 8 in patches of 2 x 2: 17 tokens" in regard("plan", "tiny/digits").out
    listed = regard("ls", str(digits_run.parent), "--json").out.splitlines()
    assert any(json.loads(line)["name"] == model_name for line in listed)


def test_it_is_saved_and_loaded_as_it_is(pipeline, tmp_path):
    pipeline.save(tmp_path / "saved")
    again = load(tmp_path / "saved")
    pixels = torch.randn(3, 1, 8, 8)
    assert torch.equal(again.logits(pixels), pipeline.logits(pixels))
    assert again.processor.source == pipeline.processor.source
    assert repr(again).startswith("Pipeline(")


def test_recipes_that_do_not_fit_are_refused(regard):
    for override, words in {
        "task=fill": ("task: fill needs model.family: bert, got vit",),
        "model.patch=3": ("no whole patches of 3",),
        "model.image=[16, 16]": ("model.image", "expected 8 x 8, 1 channel"),
        "data.fold=5": ("data.fold", "at most 4"),
        "data.kind=labelled": ("data.train",),
    }.items():
        is_refused(regard("train", "tiny/digits", "-o", "run", override, "-q"), *words)
    is_refused(
        regard("train", "own/classify", "-o", "run", "data.kind=digits", "start.folder=none", "-q"),
        "none",
    )


def test_nearest_images_of_a_folder(digits_run, tmp_path, regard):
    (tmp_path / "drawn").mkdir()
    for number, (digit, image) in enumerate(drawings()):
        image.save(tmp_path / "drawn" / f"{digit}-{number}.png")
    (tmp_path / "drawn" / "broken.png").write_text("no image")
    (tmp_path / "drawn" / "cut.png").write_bytes(
        next((tmp_path / "drawn").glob("7*")).read_bytes()[:80]
    )
    near = sorted((tmp_path / "drawn").glob("7-*.png"))[0]
    result = regard("embed", str(digits_run), "drawn", "--near", str(near), "--top", "3")
    assert result.code == 0
    lines = result.out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("1.000")
    assert near.name in lines[0]
    assert "broken.png" in result.err
    assert "cut.png" in result.err
    (tmp_path / "empty").mkdir()
    nothing = regard("embed", str(digits_run), "empty", "--near", str(near))
    is_refused(nothing, "a folder without images")


def test_eval_draws_the_confusion_matrix(digits_run, tmp_path, regard):
    assert regard("eval", str(digits_run), "-o", "scores").code == 0
    matrix = json.loads((tmp_path / "scores" / "confusion.json").read_text())["test"]
    scores = json.loads((tmp_path / "scores" / "scores.json").read_text())[0]
    assert matrix["classes"] == list("0123456789")
    right = sum(row[index] for index, row in enumerate(matrix["counts"]))
    whole = sum(map(sum, matrix["counts"]))
    assert scores["accuracy"] == pytest.approx(100 * right / whole)
    with Image.open(tmp_path / "scores" / "confusion.png") as picture:
        assert picture.size == (1280, 1280)


def test_data_that_is_not_there_is_named_with_what_to_type(regard):
    result = regard("data", "check", "nothere")
    is_refused(result, "nothere: no such file or folder", "a folder or file of images")
    result = regard("train", "own/images", "-o", "run")
    is_refused(result, "images: no such file or folder", "data.folder=FOLDER")
    is_refused(regard("look", "tiny/translate", "--test"), "tiny/translate", "a model of images")
