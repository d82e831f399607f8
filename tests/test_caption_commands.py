"""Captions of drawn scenes, by every command and in Python, for both kinds of captioners."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from PIL import Image

from regard.cli import main
from regard.data.synthetic.scenes import make_scene
from regard.errors import InputError
from regard.recipes import recipe as recipes
from regard.runs.evaluate import evaluate
from regard.runs.load import load
from regard.runs.train import flatten, train
from tests.commands import is_refused
from tests.test_training import FORKS, same, wait_for_checkpoint

MODELS = {
    "tiny/caption": {"image": [16, 16], "dim": 16, "heads": 2, "hidden": 16, "layers": 1},
    "tiny/caption-rnn": {"image": [16, 16], "filters": [8], "depths": [1], "stem_width": 8,
                         "dim": 12},
}  # fmt: skip
DATA = {"pairs": 60, "held_out": 8}
TRAIN = {"steps": 6, "batch_tokens": 200, "save_every": 2, "evaluate_every": 3}


def overrides(recipe, **steps):
    return {"data": DATA, "model": MODELS[recipe], "train": TRAIN | steps}


def small(recipe, run, *, resume=False, **steps):
    return train(recipe, run, quiet=True, threads=1, resume=resume, **overrides(recipe, **steps))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of six steps of each recipe; nobody writes into them."""
    folder = tmp_path_factory.mktemp("captions")
    for recipe in MODELS:
        small(recipe, folder / recipe)
    return {recipe: folder / recipe for recipe in MODELS}


@pytest.fixture(params=MODELS)
def run(request, runs):
    return runs[request.param]


@pytest.fixture
def image(tmp_path):
    """A drawn scene, as a file in the folder where commands run."""
    make_scene(0, 2, 3).draw(40).save(tmp_path / "scene.png")
    return "scene.png"


def test_a_run_learns_and_names_the_command_to_try(regard, tmp_path):
    recipe = "tiny/caption"
    result = regard("train", recipe, "-o", "run", *flatten(overrides(recipe)))
    assert result.code == 0, result.err
    assert "try: regard caption run YOUR_IMAGE.png   regard eval run" in result.err
    pipeline = load(tmp_path / "run")
    assert pipeline.model.config.encoder.dim == pipeline.model.config.decoder.dim == 16
    assert [*pipeline.verbs] == ["caption"]
    assert pipeline.processor.target.unknown_words("a red circle on ice") == ["on", "ice"]


@pytest.mark.parametrize("recipe", MODELS)
def test_a_resumed_run_has_the_same_bits(recipe, runs, tmp_path):
    class StoppedError(Exception):
        pass

    def stop(step, _):
        if step == 5:  # after the checkpoint of step 4
            raise StoppedError

    with pytest.raises(StoppedError):
        train(recipe, tmp_path / "run", quiet=True, threads=1, watch=stop, **overrides(recipe))
    small(recipe, tmp_path / "run", resume=True)
    assert same(tmp_path / "run", runs[recipe])


@pytest.mark.slow
@pytest.mark.parametrize("recipe", MODELS)
def test_a_killed_run_goes_on_to_the_same_bits(recipe, tmp_path, monkeypatch):
    words = flatten(overrides(recipe, steps=40, save_every=1, evaluate_every=20))

    def start(run):
        typed = ["regard", "train", recipe, *words, "-o", str(run), "-q", "--threads", "1"]
        monkeypatch.setattr(sys, "argv", [*typed, "--resume"])
        process = FORKS.Process(target=main)
        process.start()
        return process

    for _ in range(2):
        going = start(tmp_path / "run")
        wait_for_checkpoint(tmp_path / "run", going)
        going.kill()
        going.join()
    for name in ("run", "whole"):
        last = start(tmp_path / name)
        last.join(120)
        assert last.exitcode == 0
    assert same(tmp_path / "run", tmp_path / "whole")


def test_caption_prints_a_line_for_each_image(regard, run, image, tmp_path):
    make_scene(0, 2, 4).draw(16).convert("L").save(tmp_path / "grey.png")
    result = regard("caption", str(run), image, "grey.png")
    assert result.code == 0, result.err
    assert len(result.out.splitlines()) == 2
    pipeline = load(run)
    paths = [str(tmp_path / name) for name in (image, "grey.png")]
    assert pipeline.caption(paths) == result.out.splitlines()
    with Image.open(tmp_path / image) as opened:
        assert pipeline.caption(opened) == result.out.splitlines()[0]
    row = json.loads(regard("caption", str(run), image, "--json").out)
    assert row["file"] == image
    assert [row["captions"][0]["text"]] == result.out.splitlines()[:1]
    assert row["captions"][0]["logprob"] < 0
    several = regard("caption", str(run), image, "--n-best", "3").out.splitlines()
    assert len(several) == 3
    drawn = [regard("caption", str(run), image, "--sample", "--seed", "5").out for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert load(run, precision="int8").caption(paths[0]) is not None


def test_what_is_no_image_is_refused(regard, run, tmp_path):
    (tmp_path / "text.txt").write_text("a red circle\n")
    for item, words in {
        "none.png": "none.png: no such file",
        "text.txt": "text.txt: got no image",
        ".": "got a folder",
    }.items():
        for verb in ("caption", "look"):
            is_refused(regard(verb, str(run), item), words)


def test_other_verbs_and_models_are_refused(regard, run, image):
    is_refused(regard("translate", str(run), image), "cannot translate", "use `regard caption`")
    is_refused(regard("embed", str(run), image), "cannot embed", "use `regard caption`")
    is_refused(regard("caption", "tiny/translate", image), "cannot caption")


def test_what_would_be_exported_is_said(regard, runs):
    for recipe, words in {
        "tiny/caption": ("got a captioner with model.encoder.stem=convolution",
                         "trained with model.encoder.stem=patches"),
        "tiny/caption-rnn": ("got a captioner with model.encoder.kind=resnet",
                             "a captioner with model.encoder.kind=blocks"),
    }.items():  # fmt: skip
        is_refused(regard("export", str(runs[recipe]), "-o", "theirs", "--to", "hf"), *words)
    run = str(runs["tiny/caption"])
    is_refused(regard("export", run, "-o", "theirs", "--to", "timm"), "timm does not have")


def test_eval_scores_the_test_split(regard, run, tmp_path):
    result = regard("eval", str(run), "--json", "-o", "scores")
    assert result.code == 0, result.err
    row = json.loads(result.out)
    assert (row["set"], row["images"], row["scored"]) == ("test", 8, 8)
    assert 0 <= row["exact"] <= 100
    assert row["loss"] == pytest.approx(3, abs=0.6)  # about ln(vocab), after six steps
    lines = (tmp_path / "scores" / "test.jsonl").read_text().splitlines()
    assert json.loads(lines[2])["references"] == [make_scene(0, 2, 2).caption]
    assert "exact %" in regard("eval", str(run), "--split", "valid", "--limit", "3").out
    is_refused(regard("eval", str(run), "--split", "best"), "one of train, valid, test")
    assert evaluate(load(run), split="train", limit=5).sets[0].scores.images == 5


def test_seen_images_are_noticed(run):
    pipeline = load(run)
    report = evaluate(pipeline, split="train")
    assert report.notes["train"].overlap.in_training == DATA["pairs"]
    assert evaluate(pipeline).notes["test"].overlap.in_training == 0


def test_a_saved_model_writes_the_same(run, image, tmp_path):
    pipeline = load(run)
    pipeline.save(tmp_path / "saved")
    again = load(tmp_path / "saved")
    assert again.parameters == pipeline.parameters
    assert again.processor == pipeline.processor or (
        again.processor.to_json() == pipeline.processor.to_json()
    )
    path = str(tmp_path / image)
    assert again.caption(path, beam=2) == pipeline.caption(path, beam=2)


@pytest.mark.parametrize("recipe", MODELS)
def test_plan_counts_what_is_built(regard, recipe):
    words = [*flatten({"model": MODELS[recipe]}), "--flops", "1e12", "--vocab", "20"]
    row = json.loads(regard("plan", recipe, *words, "--json").out)
    assert row["target_length"] == 30
    assert row["length"] == 16  # patches of 4 x 4, or cells of a feature map
    config = recipes.load(recipe, flatten({"model": MODELS[recipe]})).model
    from regard.models import build

    model = build(config, 20)
    assert row["parameters"]["total"] == sum(p.numel() for p in model.parameters())
    assert row["flops_per_token"]["output"] == pytest.approx(2 * 30 * 20 * config.decoder.dim / 46)
    table = regard("plan", recipe, *words).out
    assert "images of 16 x 16" in table
    assert "task heads" not in table


def test_plan_knows_the_size_by_name(regard):
    assert json.loads(regard("plan", "captioner-tiny", "--flops", "1e12", "--json").out)["tokens"]


@pytest.mark.slow
def test_look_draws_a_map_of_the_image_for_every_word(regard, run, image, tmp_path):
    caption = "a medium red cross"
    for name in ("look.png", "look.html", "look.svg"):
        result = regard("look", str(run), image, "-o", name, "--target", caption)
        assert (result.code, result.out) == (0, f"{caption}\n"), result.err
        assert "shows decoder layer 0" in result.err
    with Image.open(tmp_path / "look.png") as drawn:
        assert drawn.size == (1280, 720)
    page, drawing = ((tmp_path / f"look.{end}").read_text() for end in ("html", "svg"))
    for word in ("the image", "medium", "cross"):
        assert word in page
        assert word in drawing
    assert "http://" not in page
    assert "https://" not in page
    row = json.loads(
        regard("look", str(run), image, "-o", "x.png", "--json", "--target", caption).out
    )
    assert row["queries"] == [*caption.split(), "</s>"]
    assert row["keys"][:2] == ["0,0", "0,1"]
    assert len(row["keys"]) == 16
    assert [sum(weights) for weights in row["weights"]] == pytest.approx([1] * 5, abs=1e-4)
    for options in (("--word", "red"), ("--original",), ("--kind", "grid"), ("--paper",)):
        drawn = regard("look", str(run), image, "-o", "w.png", "--target", caption, *options)
        assert drawn.code == 0, drawn.err
    is_refused(regard("look", str(run), image, "--kind", "picture"), "expected alignment, grid")
    is_refused(regard("look", str(run), image, "--target", "a pink cross"), "got pink")


@pytest.mark.slow
def test_a_look_is_of_what_the_model_writes(run, image, tmp_path):
    pipeline, path = load(run), str(tmp_path / image)
    look = pipeline.look(path, max_length=5)
    assert look.target == pipeline.caption(path, max_length=5)
    cross = look.site("decoder.0.cross")
    assert cross.weights.shape[1:] == (len(cross.queries), 16)
    forced = pipeline.look(path, target=look.target)
    words = len(look.target.split())
    torch.testing.assert_close(
        torch.tensor(forced.site("decoder.0.cross").weights[:, :words]),
        torch.tensor(cross.weights[:, :words]),
        rtol=0,
        atol=2e-6,
    )
    assert "the image" in look._repr_html_()
    assert "Look of" in repr(look)
    without = pipeline.look(path, target=look.target, knock_out="decoder.0.cross.0")
    assert without.knocked_out == ("decoder.0.cross.0",)


def test_heads_are_measured(regard, run):
    rows = [json.loads(line) for line in
            regard("heads", str(run), "--pairs", "4", "--json").out.splitlines()]  # fmt: skip
    assert [row["head"] for row in rows] == load(run).model.heads()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("data.flip=true",), "data.flip: got True, expected none"),
        (("data.mixup=0.2",), "a caption cannot be blended"),
        (("model.decoder.max_length=4",), "a caption is too long for the model: got "),
        (("model.decoder.max_length=4",), "tokens: 'a "),
        (("model.positions=learned",), "would reach encoder and decoder"),
        (("model.family=vit",), "task: caption needs model.family: captioner"),
        (("task=classify",), "task: classify needs model.family"),
    ],
)
def test_recipes_that_cannot_work_are_refused(regard, words, said):
    recipe = "tiny/caption"
    result = regard("train", recipe, "-o", "run", *flatten({"data": DATA}), *words)
    is_refused(result, said)


def test_data_without_captions_is_refused(regard):
    result = regard("train", "tiny/caption", "-o", "run", "data.kind=digits")
    is_refused(result, "data.kind: got digits, expected scenes, or images with captions")


def test_images_without_captions_are_refused(run, tmp_path):
    for name in ("a", "b"):
        (tmp_path / "images" / name).mkdir(parents=True)
        make_scene(0, 0, 1).draw(16).save(tmp_path / "images" / name / "1.png")
    with pytest.raises(InputError, match="a folder without a list, expected a file of captions"):
        evaluate(load(run), files=str(tmp_path / "images"))


def test_captions_that_are_too_long_are_left_out(run):
    pipeline = load(run)
    recipe = pipeline.recipe.model_copy(
        update={"model": pipeline.model.config.changed(max_length=8)}
    )
    pipeline.model.config = recipe.model
    notes = evaluate(pipeline).notes["test"]
    assert notes.total == 8
    assert 0 < notes.scored < 8
    assert [*notes.left_out] == ["with a caption longer than the model writes (8 tokens)"]


def test_images_with_captions_of_ones_own_are_scored(run, tmp_path):
    scenes = [make_scene(1, 0, number) for number in range(3)]
    for number, scene in enumerate(scenes):
        scene.draw(30).save(tmp_path / f"{number}.png")
    lines = [{"image": f"{number}.png", "label": "x", "caption": scene.caption}
             for number, scene in enumerate(scenes)]  # fmt: skip
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    [scores] = evaluate(load(run), files=str(tmp_path / "captions.jsonl")).sets
    assert scores.scores.images == 3
    assert list(scores.references) == [(scene.caption,) for scene in scenes]


def test_a_caption_is_streamed_and_begins_as_asked(regard, run, image):
    whole = regard("caption", str(run), image).out
    assert regard("caption", str(run), image, "--stream").out == whole
    begun = regard("caption", str(run), image, "--prefix", "a small").out
    assert begun.startswith("a small")
    assert regard("caption", str(run), image, "--prefix", "a small", "--stream").out == begun
    assert load(run).caption([image, image], prefix=["a small", "a"])[0] + "\n" == begun
    for prefixes in (["a"], ["a", "a", "a"]):
        with pytest.raises(InputError, match="expected one text, or 2 of them"):
            load(run).caption([image, image], prefix=prefixes)
    is_refused(
        regard("caption", str(run), image, "--prefix", "a blurry"), "cannot write: got blurry"
    )


def test_a_trained_encoder_is_the_start_of_a_captioner(regard, tmp_path):
    words = flatten(overrides("tiny/caption", steps=2))
    words = [word for word in words if not word.startswith("model.")]
    start = ["start.encoder=small/fashion", "start.freeze=all", "train.learning_rate=0.01"]
    result = regard("train", "tiny/caption", "-o", "run", *words, *start)
    assert result.code == 0, result.err
    teacher, pupil = load("small/fashion"), load(tmp_path / "run")
    assert pupil.model.config.encoder == teacher.model.config.encoder
    same_images = {"few_colours": 0.0, "ground": 0.0}  # what is said of others is learned anew
    reader = pupil.processor.source.model_copy(update=same_images)
    assert reader == teacher.processor.source
    for part in ("embed", "encoder"):  # frozen
        ours, theirs = (getattr(each.model, part).state_dict() for each in (pupil, teacher))
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    resumed = regard("train", "--resume", "-o", "run", "train.steps=3")
    assert resumed.code == 0, resumed.err
    recipe = recipes.load("tiny/caption", ["start.encoder=small/fill"])
    assert recipe.start.source == "small/fill"
    refused = regard("train", "tiny/caption", "-o", "no", "start.encoder=small/fill")
    is_refused(refused, "got small/fill, a bert model that reads text")
    both = regard("train", "tiny/caption", "-o", "no", "start.encoder=x", "start.folder=y")
    is_refused(both, "one of them")
    wrong = regard("train", "tiny/caption", "-o", "no", "start.encoder=small/fashion",
                   "model.encoder.layers=9")  # fmt: skip
    is_refused(wrong, "model.encoder.layers")


def test_a_caption_is_drawn_with_the_test_of_its_words(regard, run, image, tmp_path):
    for ending in ("png", "gif", "html"):
        result = regard("caption", str(run), image, "-o", f"words.{ending}")
        assert result.code == 0, result.err
        assert result.out == regard("caption", str(run), image).out
        assert (tmp_path / f"words.{ending}").stat().st_size > 1000
        assert f"words.{ending} shows decoder layer" in result.err
        assert "cells hidden: " in result.err
    row = json.loads(regard("caption", str(run), image, "-o", "words.png", "--json").out)
    words = row["test"]["words"]
    assert [word["label"] for word in words[:2]] == row["captions"][0]["text"].split()[:2]
    # the probabilities of the words, multiplied, are that of the caption
    product = sum(torch.tensor(word["before"]).log() for word in words)
    assert product == pytest.approx(row["captions"][0]["logprob"], abs=1e-4)
    begun = regard("caption", str(run), image, "-o", "words.png", "--prefix", "a small").out
    assert begun.startswith("a small")
    is_refused(regard("caption", str(run), image, "-o", "words.txt"), "got .txt")
    is_refused(regard("caption", str(run), image, image, "-o", "w.png"), "got 2 of them")
    is_refused(regard("caption", str(run), "-o", "w.png"), "got 0 of them")
    is_refused(regard("caption", str(run), image, "-o", "w.png", "--stream"), "--stream with -o")


def test_a_photograph_is_captioned_with_a_warning(regard, run, image, tmp_path, caplog):
    noise = torch.randint(256, (40, 40, 3), dtype=torch.uint8).numpy()
    Image.fromarray(noise).resize((120, 120), Image.Resampling.BICUBIC).save(tmp_path / "photo.png")
    reader = load(run).processor.source
    assert 0.75 < reader.few_colours < 1
    result = regard("caption", str(run), "photo.png", image)
    assert result.code == 0
    assert caplog.text.count("warning: ") == 1
    assert "photo.png: no drawing as the model knows them: four colours have" in caplog.text
    look = load(run).look(str(tmp_path / "photo.png"))
    assert look.note.startswith("no drawing as the model knows them")
    assert "drawing" not in load(run).look(str(tmp_path / image)).note
    caplog.clear()
    assert regard("caption", str(run), "photo.png", "-o", "w.png").code == 0
    assert caplog.text.count("warning: ") == 1  # the picture reads the image again


def test_an_encoder_of_drawings_may_learn_from_photographs(regard, runs, tmp_path):
    """What is unlike its new images is said, not what is unlike those of its encoder."""
    lines = ["image,caption"]
    for number in range(12):
        noise = torch.randint(256, (10, 10, 3), dtype=torch.uint8).numpy()
        photo = Image.fromarray(noise).resize((40, 40), Image.Resampling.BICUBIC)
        photo.save(tmp_path / f"{number}.png")
        lines.append(f"{number}.png,noise")
    (tmp_path / "captions.csv").write_text("\n".join(lines))
    drawings = runs["tiny/caption"]
    assert load(drawings).processor.source.few_colours > 0
    words = [*flatten({"train": TRAIN | {"steps": 2}}), f"start.encoder={drawings}"]
    result = regard("train", "tiny/caption", "data.kind=images", "data.file=captions.csv", *words,
                    "-o", "photos")  # fmt: skip
    assert result.code == 0, result.err
    assert load(tmp_path / "photos").processor.source.few_colours == 0


def test_a_removed_head_is_removed_however_a_caption_is_searched(regard, run, image, tmp_path):
    pipeline, head = load(run), "decoder.0.cross.0"
    path = str(tmp_path / image)
    look = pipeline.look(path, max_length=6, knock_out=head)

    def logprob(*options):
        words = ["caption", str(run), image, "--max-length", "6", "--json", *options]
        return json.loads(regard(*words).out)["captions"][0]["logprob"]

    # a greedy step computes attention in a way of its own
    assert abs(logprob("--knock-out", head) - logprob()) > 1e-6
    assert pipeline.caption(path, max_length=6, knock_out=head) == look.target
