"""The loop on a task that can be checked by hand."""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.checkpoint import run as checkpoint
from regard.checkpoint.run import Snapshot
from regard.data.batch import Cursor
from regard.errors import FoundProblems, InputError, Interrupted, WriteError
from regard.runtime.ranks import Ranks
from regard.tasks.classify import Classify
from regard.tasks.tag import Tag
from regard.train import log
from regard.train import step as shards
from regard.train.config import TrainConfig
from regard.train.log import read_metrics
from regard.train.loop import Trainer
from regard.train.state import Job, TrainingState


@pytest.fixture(autouse=True)
def _no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """The losses are drawn in tests/train/test_log.py; here it is enough that they would be."""
    monkeypatch.setattr(log, "plot_losses", lambda _, path: path.touch())


class Line:
    """Fits y = a x + b; batches of different sizes, a chosen one of which is bad."""

    def __init__(self, sizes: tuple[int, ...] = (3, 5, 2, 7), bad: tuple[int, ...] = ()) -> None:
        self.sizes, self.bad, self.losses = sizes, bad, iter(())
        self.evaluated: list[dict[str, Tensor]] = []

    def batches(self, start: Cursor) -> Iterator[tuple[int, Cursor]]:
        number = start.batch
        while True:
            yield number, Cursor(0, number + 1)
            number += 1

    def points(self, batch: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(batch)
        x = torch.randn(self.sizes[batch % len(self.sizes)], 1, generator=generator)
        return x, 3 * x + 1 + (math.nan if batch in self.bad else 0.0)

    def targets(self, batch: int) -> int:
        return len(self.points(batch)[0])

    def split(self, batch: int, _: int) -> list[int]:
        return [batch]

    def loss(self, model: nn.Module, batch: int) -> Tensor:
        x, y = self.points(batch)
        return (nn.functional.dropout(model(x), 0.1, model.training) - y).square().sum()

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        self.evaluated.append({k: v.clone() for k, v in model.state_dict().items()})
        forced = next(self.losses, None)
        x, y = self.points(1000)
        with torch.no_grad():
            loss = float((model(x) - y).square().mean())
        return {"loss": loss if forced is None else forced}

    def name(self, batch: int) -> str:
        return f"batch {batch}"


def job(task: Line, run: Path | None = None, **config: object) -> Job:
    torch.manual_seed(1)
    settings = {"steps": 12, "evaluate_every": 4, "save_every": 4, "warmup": 0, **config}
    return Job(
        model=nn.Linear(1, 1),
        task=task,
        config=TrainConfig.model_validate(settings),
        dim=4,
        describe={"regard": 1},
        tokenizer="{}",
        recipe="",
        run=run,
        quiet=True,
    )


def weights(training_job: Job) -> list[float]:
    return [p.item() for p in training_job.model.parameters()]


class NoDropout(Line):
    def loss(self, model: nn.Module, batch: int) -> Tensor:
        x, y = self.points(batch)
        return (model(x) - y).square().sum()


def test_accumulated_gradient_is_that_of_one_large_batch() -> None:
    task = NoDropout()
    training_job = job(task, accumulate=4, steps=1)
    trainer = Trainer(training_job)
    total, targets = trainer._gradients([0, 1, 2, 3])
    accumulated = [p.grad.clone() for p in training_job.model.parameters()]
    x, y = (torch.cat(part) for part in zip(*(task.points(i) for i in range(4)), strict=True))
    training_job.model.zero_grad()
    ((training_job.model(x) - y).square().mean()).backward()
    assert targets == 17
    assert total == pytest.approx((training_job.model(x) - y).square().sum().item(), rel=1e-5)
    for mine, reference in zip(accumulated, training_job.model.parameters(), strict=True):
        torch.testing.assert_close(mine, reference.grad)


def test_a_step_that_is_not_finite_is_skipped_and_named(tmp_path: Path) -> None:
    clean, dirty = job(Line(), steps=1), job(Line(bad=(1, 2)), tmp_path, steps=4)
    Trainer(clean).run()
    trainer = Trainer(dirty)
    seen = []
    dirty.watch = lambda _, model: seen.append([p.item() for p in model.parameters()])
    trainer.run()
    assert seen[0] == seen[1] == seen[2]  # steps 2 and 3 changed nothing
    assert seen[3] != seen[2]
    skipped = [line for line in read_metrics(tmp_path / "metrics.jsonl") if "skipped" in line]
    assert [(line["step"], line["skipped"]) for line in skipped] == [(2, "batch 1"), (3, "batch 2")]
    assert skipped[0]["bad_loss"] == "nan"


def test_three_bad_steps_in_a_row_stop_with_exit_1(tmp_path: Path) -> None:
    training_job = job(Line(bad=(5, 6, 7)), tmp_path)
    with pytest.raises(FoundProblems, match="step 8: 3 steps in a row") as caught:
        Trainer(training_job).run()
    assert caught.value.exit_code == 1
    latest = checkpoint.latest(tmp_path)
    assert latest is not None
    assert latest[1].step == 4
    assert all(math.isfinite(value) for value in weights(training_job))


@pytest.mark.parametrize("stop", [1, 3, 4, 6, 11])
def test_resuming_gives_the_same_weights_bit_for_bit(tmp_path: Path, stop: int) -> None:
    whole = job(Line())
    Trainer(whole).run()
    first = job(Line(), tmp_path / "run", save_every=1)

    class Killed(BaseException):
        pass

    def kill(step: int, _: nn.Module) -> None:
        if step == stop + 1:
            raise Killed

    first.watch = kill
    with pytest.raises(Killed):
        Trainer(first).run()
    latest = checkpoint.latest(tmp_path / "run")
    assert latest is not None
    assert latest[1].step == stop
    torch.manual_seed(99)
    second = job(Line(), tmp_path / "run", save_every=1)
    torch.manual_seed(123)  # whatever ran before must not matter
    Trainer(second, latest[1]).run()
    assert weights(second) == weights(whole)
    steps = [line["step"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl")]
    assert steps == sorted(steps)


def test_early_stopping_keeps_the_best(tmp_path: Path) -> None:
    task = Line()
    task.losses = iter([3.0, 1.0, 2.0, 2.5, 9.0])
    training_job = job(task, tmp_path, steps=100, evaluate_every=2, patience=2, keep=1)
    state = Trainer(training_job).run()
    assert (state.step, state.best) == (8, checkpoint.Best(4, 1.0))
    assert checkpoint.find(tmp_path).name == "00000004"


def test_average_is_the_mean_of_the_last_checkpoints(tmp_path: Path) -> None:
    task = Line()
    task.losses = iter([5.0, 4.0, 3.0, 0.5])  # three evaluations, then the mean's
    training_job = job(task, tmp_path, average=3)
    seen = {}
    training_job.watch = lambda step, model: seen.update({step: model.weight.detach().clone()})
    Trainer(training_job).run()
    mean = torch.stack([seen[4], seen[8], seen[12]]).mean(0)
    latest = checkpoint.latest(tmp_path)
    assert latest is not None
    torch.testing.assert_close(latest[1].weights["weight"], mean)
    torch.testing.assert_close(latest[1].training_tensors["weights.weight"], seen[12])


def test_without_a_run_the_best_weights_are_kept_in_memory() -> None:
    task = Line()
    task.losses = iter([1.0, 2.0, 3.0])
    training_job = job(task)
    Trainer(training_job).run()
    torch.testing.assert_close(training_job.model.weight.detach(), task.evaluated[0]["weight"])


def test_a_full_disk_ends_with_write_error_and_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training_job = job(Line(), tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def fill(step: int, _: nn.Module) -> None:
        if step == 8:
            monkeypatch.setattr(checkpoint, "write_checkpoint", full)

    training_job.watch = fill
    with pytest.raises(WriteError, match="No space left"):
        Trainer(training_job).run()
    latest = checkpoint.latest(tmp_path)
    assert latest is not None
    assert latest[1].step == 4


def test_a_finite_loss_with_a_gradient_that_is_not_is_skipped() -> None:
    class Steep(Line):
        def loss(self, model: nn.Module, batch: int) -> Tensor:
            if batch == 1:
                return (model.weight * 0).sqrt().sum()  # 0, with an infinite slope
            return super().loss(model, batch)

    training_job = job(Steep(), steps=3)
    seen = []
    training_job.watch = lambda _, model: seen.append([p.item() for p in model.parameters()])
    Trainer(training_job).run()
    assert seen[0] == seen[1] != seen[2]


def test_an_average_is_of_evenly_spaced_checkpoints_whatever_stopped_the_run(
    tmp_path: Path,
) -> None:
    def averaged_loss(folder: Path, interrupt: int | None) -> float:
        def start() -> Job:
            return job(Line(), folder, steps=16, average=3, evaluate_every=100, keep=1)

        def stop(step: int, _: nn.Module) -> None:
            if step == interrupt:
                os.kill(os.getpid(), signal.SIGTERM)

        training_job, resumed = start(), None
        if interrupt is not None:
            training_job.watch = stop
            with pytest.raises(Interrupted):
                Trainer(training_job).run()
            latest = checkpoint.latest(folder)
            assert latest is not None
            assert latest[1].step == interrupt
            training_job, resumed = start(), latest[1]
        Trainer(training_job, resumed).run()
        [line] = [x for x in read_metrics(folder / "metrics.jsonl") if "averaged" in x]
        assert line["averaged"] == 3
        return float(line["averaged_loss"])

    whole = averaged_loss(tmp_path / "whole", None)
    assert averaged_loss(tmp_path / "stopped", 10) == whole


def test_a_run_that_stopped_early_is_complete(tmp_path: Path) -> None:
    task = Line()
    task.losses = iter([1.0, 2.0, 3.0])
    settings = {"steps": 100, "evaluate_every": 2, "patience": 2}
    state = Trainer(job(task, tmp_path, **settings)).run()
    latest = checkpoint.latest(tmp_path)
    assert latest is not None
    again = Trainer(job(Line(), tmp_path, **settings), latest[1]).run()
    assert again.step == state.step == 6
    longer = Trainer(job(Line(), tmp_path, **{**settings, "steps": 8, "patience": 9}), latest[1])
    assert longer.run().step == 8


def test_speed_counts_the_time_of_training_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    class Timed(NoDropout):
        def loss(self, model: nn.Module, batch: int) -> Tensor:
            now[0] += 1  # a step takes a second, an evaluation a hundred
            return super().loss(model, batch)

        def evaluate(self, model: nn.Module) -> dict[str, float]:
            now[0] += 100
            return super().evaluate(model)

    training_job = job(
        Timed(sizes=(6,)), tmp_path, steps=6, log_every=3, evaluate_every=2, save_every=5
    )
    Trainer(training_job).run()
    lines = [x for x in read_metrics(tmp_path / "metrics.jsonl") if "targets_per_second" in x]
    assert [line["seconds"] for line in lines] == [3, 6]
    assert [line["targets_per_second"] for line in lines] == [6, 6]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """A checkpoint of step 8 of 12 with the best at step 4."""
    run, task = tmp_path_factory.mktemp("run"), Line()
    task.losses = iter([1.0, 2.0])
    Trainer(job(task, run, steps=8)).run()
    latest = checkpoint.latest(run)
    assert latest is not None
    return latest[1]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


NONSENSE: list[Any] = [None, True, -1, 1e308, 10**30, "x", [], {}, nested(50), nested(100_000)]
NONSENSE += [math.nan, math.inf, "\ud800"]
KEYS = [*TrainingState().to_json(), "cursor.epoch", "cursor.batch", "best.step", "best.loss"]
ALLOWED = {  # a sum of losses in 32 bits can be large, and rounding can make it negative
    "best": [None], "finished": [True], "loss_since_log": [-1, 10**30], "best.loss": [-1, 10**30],
}  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_a_place_that_no_run_was_ever_at_is_refused(stopped: Snapshot, key: str) -> None:
    *parents, last = key.split(".")
    for value in [..., *NONSENSE]:
        state = json.loads(json.dumps(stopped.training["place"]))
        section = state[parents[0]] if parents else state
        section[last] = value
        if value is ...:
            del section[last]
        elif (type(value), value) in [(type(allowed), allowed) for allowed in ALLOWED.get(key, ())]:
            continue
        wrong = replace(stopped, training={**stopped.training, "place": state})
        with pytest.raises(InputError, match=r"^00000008/training\.json: place") as caught:
            Trainer(job(Line()), wrong)
        assert len(str(caught.value)) < 300


def test_a_place_beside_the_data_is_refused(stopped: Snapshot) -> None:
    for state in [*NONSENSE, {**stopped.training["place"], "more": 1}]:
        with pytest.raises(InputError, match=r"training\.json: place"):
            Trainer(job(Line()), replace(stopped, training={"place": state}))
    changes = {"step": 7, "cursor": {"epoch": 0, "batch": 9}, "best": {"step": 9, "loss": 1.0}}
    for key, value in changes.items():
        state = {**stopped.training["place"], key: value}
        with pytest.raises(InputError, match=rf"place\.{key}"):
            Trainer(job(Line()), replace(stopped, training={"place": state}))

    class Three(Line):
        def batches(self, start: Cursor) -> Iterator[tuple[int, Cursor]]:
            epoch, first = start.epoch, start.batch
            while True:
                for number in range(first, 3):
                    yield number, Cursor(epoch + (number == 2), (number + 1) % 3)
                epoch, first = epoch + 1, 0

    for batch in (2, 3):
        state = {**stopped.training["place"], "cursor": {"epoch": 2, "batch": batch}}
        trainer = Trainer(job(Three()), replace(stopped, training={"place": state}))
        if batch == 2:
            assert trainer.run().step == 12
        else:
            with pytest.raises(
                InputError, match=r"cursor\.batch: got 3, expected a smaller number: epoch"
            ):
                trainer.run()


def test_every_tensor_of_a_checkpoint_is_compared_before_any_is_used(stopped: Snapshot) -> None:
    tensors, weights = stopped.training_tensors, stopped.weights
    averaged = {f"weights.{name}": tensor for name, tensor in weights.items()}
    Trainer(job(Line()), replace(stopped, training_tensors={**tensors, **averaged}))
    for change, message in [
        ({"random": torch.zeros(0, dtype=torch.uint8)}, r"random of \(0,\) uint8"),
        ({"random": torch.zeros(5056)}, "float32, expected random of"),
        ({"random": torch.zeros(5056, dtype=torch.uint8)}, "random: got .*mt19937"),
        ({"weights.weight": weights["weight"]}, "weights: got no bias"),
        ({**averaged, "weights.bias": torch.zeros(2)}, r"weights: got bias of \(2,\)"),
        ({**averaged, "weights.more": torch.zeros(2)}, "expected no more"),
        ({"more": torch.zeros(2)}, "expected no more"),
        ({"optimizer.weight.exp_avg": torch.zeros(9)}, r"exp_avg of \(9,\)"),
        ({"optimizer.weight.step": torch.tensor(9.0)}, "a step from 0 to 8"),
    ]:
        training_job = job(Line())
        before = [p.clone() for p in training_job.model.parameters()]
        with pytest.raises(InputError, match=message):
            Trainer(training_job, replace(stopped, training_tensors={**tensors, **change}))
        assert all(map(torch.equal, before, training_job.model.parameters()))
    for change in ({"bias": torch.zeros(2)}, {"bias": torch.zeros(1).half()}, {"x": torch.ones(1)}):
        with pytest.raises(InputError, match=r"^00000008/model\.safetensors: got"):
            Trainer(job(Line()), replace(stopped, weights={**weights, **change}))


def test_missing_memory_is_refused_unless_the_loss_does_not_reach_the_parameter(
    stopped: Snapshot,
) -> None:
    tensors = stopped.training_tensors
    without = {name: tensor for name, tensor in tensors.items() if ".bias." not in name}
    for left in (without, {"random": tensors["random"]}):
        with pytest.raises(
            InputError, match=r"got no optimizer\.\w+, expected its optimizer state"
        ):
            Trainer(job(Line()), replace(stopped, training_tensors=left))

    class WithoutBias(NoDropout):
        def loss(self, model: nn.Module, batch: int) -> Tensor:
            x, y = self.points(batch)
            return (x * model.weight - y).square().sum()

    training_job = job(WithoutBias())
    trainer = Trainer(training_job, replace(stopped, training_tensors=without))
    assert training_job.model.weight.grad is None
    assert trainer.run().step == 12
    skipped = {**stopped.training["place"], "bad_in_a_row": 8}
    nothing = replace(stopped, training={"place": skipped}, training_tensors={
        "random": tensors["random"]})  # fmt: skip
    Trainer(job(Line()), nothing)  # no step was applied, so there is nothing to remember


def test_best_json_is_put_right_when_a_complete_run_is_resumed(tmp_path: Path) -> None:
    Trainer(job(Line(), tmp_path)).run()
    right = (tmp_path / "best.json").read_bytes()
    (tmp_path / "best.json").write_text('{"step": 4, "loss": 0.0, "checkpoint": "00000004"}')
    latest = checkpoint.latest(tmp_path)
    assert latest is not None
    Trainer(job(Line(), tmp_path), latest[1]).run()
    assert (tmp_path / "best.json").read_bytes() == right


def steps_of(run: Path) -> list[int]:
    return sorted(int(folder.name) for folder in (run / "checkpoints").glob("*"))


def test_skipped_steps_push_out_no_checkpoint(tmp_path: Path) -> None:
    training_job = job(Line(bad=(5, 6, 7)), tmp_path, save_every=1, keep=2, evaluate_every=100)
    with pytest.raises(FoundProblems, match="step 5 is unchanged"):
        Trainer(training_job).run()
    assert steps_of(tmp_path) == [4, 5]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("what", ["weight", "optimizer"])
def test_what_is_not_finite_is_never_saved(tmp_path: Path, what: str, value: float) -> None:
    training_job = job(Line(), tmp_path, save_every=1, keep=1, evaluate_every=100)
    trainer = Trainer(training_job)

    @torch.no_grad()
    def spoil(step: int, model: nn.Module) -> None:
        if step == 3 and what == "weight":
            model.bias.fill_(value)
        elif step == 3:
            trainer.optimizer.state[model.weight]["exp_avg_sq"].fill_(value)

    training_job.watch = spoil
    with pytest.raises(FoundProblems, match=r"step 3.* not finite") as caught:
        trainer.run()
    assert caught.value.exit_code == 1
    assert "step 2 is unchanged" in str(caught.value)
    assert steps_of(tmp_path) == [2]


@pytest.mark.parametrize("folder", [True, False])
@pytest.mark.parametrize("last", [math.nan, math.inf])
def test_a_validation_loss_that_is_not_finite_stops_with_exit_1(
    tmp_path: Path, folder: bool, last: float
) -> None:
    task = Line()
    task.losses = iter([1.0, 0.5, last])
    with pytest.raises(FoundProblems, match=f"step 12: the validation loss is {last}") as caught:
        Trainer(job(task, tmp_path if folder else None)).run()
    assert caught.value.exit_code == 1
    if folder:
        assert steps_of(tmp_path) == [4, 8]
        assert checkpoint.read_best(tmp_path) == checkpoint.Best(8, 0.5)


class Unseen(Line):
    """A weight that no batch touches and no evaluation sees."""

    def loss(self, model: nn.Module, batch: int) -> Tensor:
        return super().loss(model, batch) + (0 * model.unseen).sum()


@pytest.mark.parametrize("folder", [True, False])
@pytest.mark.parametrize("settings", [{"epsilon": 1e-300}, {"learning_rate": 1e38}])
def test_an_update_that_is_not_finite_ends_with_exit_1(
    tmp_path: Path, folder: bool, settings: dict[str, float]
) -> None:
    training_job = job(Unseen(), tmp_path if folder else None, steps=3, save_every=1, **settings)
    training_job.model.unseen = nn.Parameter(torch.ones(2))
    with pytest.raises(FoundProblems) as caught:
        Trainer(training_job).run()
    assert caught.value.exit_code == 1
    assert not (tmp_path / "checkpoints").exists() or all(
        not tensor.is_floating_point() or bool(tensor.isfinite().all())
        for path in (tmp_path / "checkpoints").iterdir()
        for tensor in checkpoint.read(path).weights.values()
    )


def test_a_mean_that_is_not_finite_is_not_taken(tmp_path: Path) -> None:
    task = Line()
    task.losses = iter([5.0, 4.0, 3.0, 0.5])
    training_job = job(task, tmp_path, average=3)
    training_job.model.register_buffer(
        "large", torch.full((1,), 3e38)
    )  # three of them are too much
    Trainer(training_job).run()
    latest = checkpoint.latest(tmp_path)
    assert latest is not None
    assert latest[1].weights["large"].item() == pytest.approx(3e38)
    assert checkpoint.read_best(tmp_path) == checkpoint.Best(12, 3.0)


def test_a_checkpoint_without_parts_is_cut_as_its_threads_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "LEAST_NUMBERS_BEFORE", 2**8)
    Trainer(job(Line(), tmp_path, steps=4)).run()
    latest = checkpoint.latest(tmp_path)
    assert latest is not None

    def parts(**training: object) -> int:
        old = {key: value for key, value in latest[1].training.items() if key != "parts"}
        snapshot = replace(latest[1], training={**old, **training})
        return Trainer(job(Line(), tmp_path), snapshot).parts

    assert parts(threads=3) == 3
    assert parts(threads=3, parts=5) == 5
    for bad in ({"parts": 0}, {"parts": 9}, {"parts": "2"}, {"parts": True}, {"threads": 10**30}):
        with pytest.raises(InputError, match=r"training\.json: "):
            parts(**bad)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("step", [5, 12])
def test_a_signal_saves_and_gives_its_exit_code(
    tmp_path: Path, number: signal.Signals, step: int
) -> None:
    training_job = job(Line(), tmp_path, evaluate_every=100, save_every=100)
    training_job.watch = lambda at, _: os.kill(os.getpid(), number) if at == step else None
    with pytest.raises(Interrupted, match=rf"after step {step}, saved; ") as caught:
        Trainer(training_job).run()
    assert caught.value.exit_code == 128 + number
    assert ("--resume" in str(caught.value)) == (step < 12)
    assert len(str(caught.value).splitlines()) == 1
    assert steps_of(tmp_path) == [step]
    assert (tmp_path / "loss.png").exists()


def test_a_signal_that_arrives_while_the_processes_agree_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def largest(_: Ranks, value: float) -> float:
        nonlocal calls
        calls += 1
        if calls == 5:
            os.kill(os.getpid(), signal.SIGTERM)  # after this process has said that it has none
        return value

    monkeypatch.setattr(Ranks, "largest", largest)
    with pytest.raises(Interrupted, match="stopped by SIGTERM after step 6, saved"):
        Trainer(job(Line(), tmp_path, evaluate_every=100, save_every=100)).run()
    assert steps_of(tmp_path) == [6]


def test_speed_is_said_in_what_the_task_counts(capsys: pytest.CaptureFixture[str]) -> None:
    for unit in ("targets", "examples"):
        task, training_job = Line(), job(Line(), steps=1)
        if unit != "targets":
            task.unit = unit
        Trainer(replace(training_job, task=task, quiet=False)).run()
        assert f" {unit}/s " in capsys.readouterr().err
    assert (Classify.unit, Tag.unit) == ("examples", "words")
