"""Which recipe and which folder a training takes, above all to resume a run."""

from __future__ import annotations

import json
import shutil

import pytest

import regard as package
from regard.checkpoint.folder import CHECKPOINTS
from regard.errors import InputError
from regard.runs.resume import recipe_and_run
from tests.commands import is_refused


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of two steps; tests copy it."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    changes = {"data": {"pairs": 60, "held_out": 10}}
    changes["model"] = {"dim": 16, "heads": 2, "hidden": 16}
    changes["train"] = {"steps": 2, "batch_tokens": 200, "save_every": 2, "evaluate_every": 2}
    package.train("tiny/copy", folder, quiet=True, threads=1, **changes)
    return folder


@pytest.fixture
def run(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained, "run")
    return tmp_path / "run"


def last_step(run):
    return max(int(folder.name) for folder in (run / CHECKPOINTS).iterdir())


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--resume", "train.steps=4"),
        ("--resume", "-o", "run", "train.steps=4"),
        ("run", "train.steps=4", "--resume", "-o", "run/"),
        ("run/recipe.yaml", "train.steps=4", "--resume", "-o", "run"),
    ],
)
def test_the_folder_of_a_run_suffices(regard, run, words):
    result = regard("train", *words)
    assert result.code == 0, result.err
    assert last_step(run) == 4
    assert "is in run" in result.err


def test_a_run_goes_on_to_the_steps_it_was_last_given(regard, run, caplog):
    assert regard("train", "run", "--resume", "train.steps=4", "decode.beam=3", "-q").code == 0
    assert regard("train", "run", "--resume").code == 0
    assert last_step(run) == 4
    assert "complete at step 4" in caplog.text
    assert package.load("run").recipe.decode.beam == 3


@pytest.mark.usefixtures("run")
def test_in_python_too():
    package.train("run", resume=True, quiet=True, threads=1, train={"steps": 3})
    pipeline = package.train(out="run", resume=True, quiet=True, threads=1, train={"steps": 4})
    assert "run" in repr(pipeline)
    with pytest.raises(InputError, match=r"--resume with another recipe: seed changed"):
        package.train("run", resume=True, quiet=True, seed=7)
    with pytest.raises(InputError, match=r"--resume of tiny/copy: got no run, expected -o RUN"):
        package.train("tiny/copy", resume=True)
    with pytest.raises(InputError, match=r"train: got no recipe"):
        package.train()


@pytest.mark.usefixtures("run")
def test_what_is_no_run_says_what_to_type(regard, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "mine").mkdir()
    text = "version: 1\ntask: translate\n"
    (tmp_path / "mine" / "recipe.yaml").write_text(text)
    package.load("run").save(tmp_path / "saved")
    for words, *said in (
        (("nowhere", "--resume"), "--resume: no folder nowhere", "`regard ls` lists runs"),
        (("--resume", "-o", "nowhere"), "--resume: no folder nowhere", "-o RUN"),
        (("--resume",), "got no folder, expected a run", "regard train RUN --resume"),
        (("tiny/copy", "--resume"), "expected -o RUN", "regard train tiny/copy --resume -o RUN"),
        (("empty", "--resume"), "got a folder without checkpoints, expected a run"),
        (("mine", "--resume"), "got a folder without checkpoints, expected a run"),
        (("saved", "--resume"), "got a model, expected a run", "start.folder=saved"),
        (("run/checkpoints/00000002", "--resume"), "a checkpoint", "regard train run --resume"),
        (("run", "--resume", "-o", "other"), "got two folders, run and other"),
        (("run", "--resume", "model.dim=32"), "another recipe: model.dim changed"),
        (("run", "-o", "new"), "run is a run, not a recipe", "regard train run --resume"),
        (("-o", "new"), "got no recipe", "`regard recipe` lists some"),
        (("tiny/copy",), "got no -o"),
    ):
        is_refused(regard("train", *words), *said)
    assert (tmp_path / "mine" / "recipe.yaml").read_text() == text
    assert not (tmp_path / "other").exists()


def test_a_run_without_its_recipe_asks_for_it(regard, run):
    (run / "recipe.yaml").unlink()
    is_refused(regard("train", "run", "--resume"), "run has no recipe.yaml", "RECIPE --resume -o")


def test_a_run_stopped_before_its_first_checkpoint_begins_anew(regard, run, caplog):
    shutil.rmtree(run / CHECKPOINTS)
    assert regard("train", "run", "--resume").code == 0
    assert "training starts from step 0" in caplog.text
    assert last_step(run) == 2


def test_word_vectors_are_resumed_by_their_folder(regard, tmp_path):
    (tmp_path / "my.txt").write_text("the old dog sees the young cat\n" * 50)
    small = ["data.files=my.txt", "tokens.min_count=1", "model.dim=4", "train.epochs=1"]
    assert regard("train", "own/vectors", *small, "-o", "words", "-q").code == 0
    again = regard("train", "words", "--resume")
    assert again.code == 0, again.err
    assert recipe_and_run("words", None, resume=True) == ("words/recipe.yaml", "words")


def test_a_fine_tuned_run_needs_neither_recipe_nor_start(regard, tmp_path):
    rows = [{"text": f"a {word} {i}", "label": word} for i in range(10) for word in ("joy", "bore")]
    (tmp_path / "my.jsonl").write_text("\n".join(map(json.dumps, rows)))
    package.load("small/fill").save(tmp_path / "start")
    words = ["start.folder=start", "data.train=my.jsonl", "data.held_out=2", "train.steps=1",
             "train.save_every=1", "-q"]  # fmt: skip
    assert regard("train", "own/classify", *words, "-o", "fine").code == 0
    shutil.rmtree(tmp_path / "start")
    again = regard("train", "fine", "--resume", "train.steps=2")
    assert again.code == 0, again.err
    assert last_step(tmp_path / "fine") == 2


def test_a_run_in_bf16_resumes_to_the_same_bits_and_says_if_it_is_not_bf16(
    regard, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr("regard.runtime.device.bf16_is_fast", lambda: True)
    words = ["tiny/copy", "model.dim=128", "model.hidden=256", "train.optimizer=muon",
             "train.schedule=constant", "train.save_every=2", "data.pairs=200",
             "data.held_out=20"]  # fmt: skip

    def train(run, steps, *more):
        result = regard("train", *words, f"train.steps={steps}", "-o", run, *more)
        assert result.code == 0, result.err
        return (tmp_path / run / CHECKPOINTS / f"{steps:08}" / "model.safetensors").read_bytes()

    short = ("--dtype", "bf16")
    whole = train("whole", 4, *short)
    train("part", 2, *short)
    assert train("part", 4, *short, "--resume") == whole
    assert train("plain", 4) != whole
    facts = json.loads((tmp_path / "part" / CHECKPOINTS / "00000004/training.json").read_text())
    assert facts["dtype"] == "bf16"
    assert "dtype" not in caplog.text
    train("part", 6, "--resume")
    assert "dtype: fp32 now, bf16 when the run began" in caplog.text
