"""Several processes that torchrun starts train as one does, end as one does, and go on as one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch

from regard.checkpoint import run as checkpoint
from regard.checkpoint.folder import verify
from regard.errors import FoundProblems, InputError
from regard.runs.train import flatten, train
from regard.runtime import ranks
from regard.train import step
from regard.train.log import read_metrics

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc"),
]
SMALL = {
    "data": {"pairs": 200, "held_out": 20, "longest": 5},
    "model": {"dim": 16, "heads": 2, "hidden": 16, "dropout": 0.1},
    "train": {
        "steps": 8,
        "batch_tokens": 200,
        "evaluate_every": 4,
        "save_every": 4,
        "schedule": "constant",
    },
}
LONG = {**SMALL, "train": {**SMALL["train"], "steps": 3000, "save_every": 5, "log_every": 2}}


def torchrun(run, *more, changes=SMALL, processes=2, program=("-m", "regard")):
    words = [*program, "train", "tiny/copy", *flatten(changes), "-o", str(run), *more]
    start = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    return subprocess.Popen(
        [sys.executable, *start, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finished(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out, err


def weights(run):
    return checkpoint.read(checkpoint.newest(run), training=True).weights


def alike(first, second):
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        torch.testing.assert_close(tensor, second[name], rtol=0, atol=1e-5, msg=name)


def in_one(run, changes, *, resume=False):
    """The same in one process, its batches cut in two as those of two processes are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step, "LEAST_NUMBERS", 1)
        train("tiny/copy", run, resume=resume, quiet=True, threads=2, **changes)
    return run


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return in_one(tmp_path_factory.mktemp("alone") / "run", SMALL)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    run = tmp_path_factory.mktemp("two") / "run"
    return run, *finished(torchrun(run))


def test_two_processes_learn_what_one_does(two, alone):
    run, _, _ = two
    alike(weights(run), weights(alone))
    ours, theirs = read_metrics(run / "metrics.jsonl"), read_metrics(alone / "metrics.jsonl")
    assert [line["step"] for line in ours] == [line["step"] for line in theirs]
    for our_line, their_line in zip(ours, theirs, strict=True):
        for name in our_line.keys() & {"loss", "validation_loss", "gradient_norm"}:
            assert our_line[name] == pytest.approx(their_line[name], abs=1e-5)
    files = [sorted(path.name for path in folder.iterdir()) for folder in (run, alone)]
    assert files[0] == files[1]


def test_only_one_of_them_speaks(two):
    _, out, err = two
    assert out == ""
    assert err.count("step 8: validation loss") == err.count("try: regard translate") == 1
    assert "Warning" not in err


def test_a_run_that_one_began_goes_on_in_two(alone, tmp_path):
    in_one(tmp_path / "run", of_steps(SMALL, 4))
    finished(torchrun(tmp_path / "run", "--resume"))
    alike(weights(tmp_path / "run"), weights(alone))


def of_steps(changes, steps):
    return {**changes, "train": {**changes["train"], "steps": steps}}


def ranks_of(process):
    """The process ids by rank, of what torchrun has started."""
    ranks = {}
    for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        words = Path(f"/proc/{child}/environ").read_text().split("\0")
        ranks |= {word.removeprefix("RANK="): int(child) for word in words if word[:5] == "RANK="}
    return ranks


def under_way(process, run, lines=8):
    """Waits until a run has written some lines."""
    file, since = run / "metrics.jsonl", time.monotonic()
    while not file.exists() or file.read_text().count("\n") < lines:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - since < 200
        time.sleep(0.05)


@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_dead_process_ends_all_with_one_message_and_one_goes_on_alone(rank, tmp_path):
    run = tmp_path / "run"
    process = torchrun(run, changes=LONG)
    under_way(process, run)
    others = ranks_of(process)
    os.kill(others.pop(rank), signal.SIGKILL)
    _, err = process.communicate(timeout=120)
    assert process.returncode
    assert err.count("training stopped: another of its 2 processes has ended") == 1
    assert err.count("error: ") == 1
    assert not any(Path(f"/proc/{other}").exists() for other in others.values())
    for folder in (run / "checkpoints").glob("0*"):  # one that was being written has another name
        verify(folder)
    saved = checkpoint.summary(run)["step"]
    assert saved >= 5
    more = of_steps(LONG, saved + 5)
    in_one(run, more, resume=True)
    assert checkpoint.summary(run)["step"] == saved + 5
    alike(weights(run), weights(in_one(tmp_path / "unbroken", more)))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_torchrun_saves_and_ends(number, tmp_path):
    run = tmp_path / "run"
    process = torchrun(run, changes=LONG)
    under_way(process, run)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    name = "Ctrl-C" if number == signal.SIGINT else "SIGTERM"
    saved = checkpoint.summary(run)["step"]
    assert err.count(f"stopped by {name} after step {saved}, saved; continue with the same") == 1
    verify(checkpoint.newest(run))


def test_what_all_of_them_refuse_is_said_once(tmp_path):
    for words in (("--device", "tpu"), ("model.max_length=2",)):
        _, err = (process := torchrun(tmp_path / "run", *words)).communicate(timeout=120)
        assert process.returncode
        assert err.count("error: ") == 1, err
    assert not (tmp_path / "run").exists()


# The command, of which process 1 waits before it joins, with shorter times.
HELD_BACK = """
import os, sys, time
from pathlib import Path
import regard.cli
from regard.runtime import ranks

here, rank = Path(sys.argv.pop(1)), os.environ["RANK"]
ranks.CONNECT_WAIT = 1.0
while rank == "1" and not (here / "go").exists():
    time.sleep(0.05)
reach = ranks._wait_for_port
ranks._wait_for_port = lambda *address: reach(*address) or (here / "waits").touch()
regard.cli.main()
"""


def until(condition, seconds=60):
    since = time.monotonic()
    while not condition():
        assert time.monotonic() - since < seconds
        time.sleep(0.05)


def runs(process):
    """Whether a process still runs, given its id; the dead may wait for their parent."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def joining(tmp_path):
    """torchrun and its processes, of which 0 waits for 1, which is held back."""
    (tmp_path / "worker.py").write_text(HELD_BACK)
    program = (str(tmp_path / "worker.py"), str(tmp_path))
    process = torchrun(tmp_path / "run", program=program)
    until((tmp_path / "waits").exists)
    others = ranks_of(process)
    yield process, others
    (tmp_path / "go").touch()
    for other in others.values():
        until(lambda other=other: not runs(other))  # it ends by itself, even now
    process.kill()
    process.communicate()
    assert not (tmp_path / "run").exists()


def test_processes_end_if_torchrun_dies_before_they_have_joined(joining):
    process, others = joining
    process.kill()
    until(lambda: not runs(others["0"]), seconds=20)
    assert runs(others["1"])  # it is yet to look for torchrun


def test_a_signal_ends_a_process_that_waits_for_others_to_join(joining):
    _, others = joining
    os.kill(others["0"], signal.SIGTERM)
    until(lambda: not runs(others["0"]), seconds=20)


def test_if_torchrun_dies_they_save_and_end(tmp_path):
    run = tmp_path / "run"
    process = torchrun(run, changes=LONG)
    under_way(process, run)
    process.kill()
    _, err = process.communicate(timeout=60)  # until its processes have closed their end
    saved = checkpoint.summary(run)["step"]
    assert err.count("torchrun has ended, so its processes end as well\n") == 1
    assert err.count(f"stopped by SIGTERM after step {saved}, saved; continue with the same") == 1
    verify(checkpoint.newest(run))


def together(code, world, tmp_path):
    """Processes that run a program in Python, without torchrun; `ranks` is what they joined as."""
    start = (
        "from regard.runtime import ranks as module\nmodule.PATIENCE = 1.0\n"
        "with module.process_group('cpu') as ranks:\n"
    )
    body = start + textwrap.indent(textwrap.dedent(code), "    ")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": tmp_path}
    return [
        subprocess.Popen(
            [sys.executable, "-c", body],
            env=os.environ
            | address
            | {
                "RANK": str(rank),
                "WORLD_SIZE": str(world),
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
            **pipes,
        )
        for rank in range(world)
    ]


def test_a_signal_ends_a_process_that_waits_for_another(tmp_path):
    code = """
    import time, pathlib
    pathlib.Path(str(ranks.rank)).touch()
    time.sleep(60) if ranks.rank else ranks.wait()
    """
    first, second = together(code, 2, tmp_path)
    until(lambda: (tmp_path / "0").exists() and (tmp_path / "1").exists())
    time.sleep(0.5)
    first.send_signal(signal.SIGTERM)
    _, err = first.communicate(timeout=20)
    assert (first.returncode, err) == (143, "stopped by SIGTERM; nothing was left half-written\n")
    second.send_signal(signal.SIGTERM)
    assert second.communicate(timeout=20) == ("", "")
    assert second.returncode == 143


def test_the_first_step_of_a_resumed_run_adds_as_the_others_do(tmp_path):
    """Of three numbers the sum depends on the order, and that on where DDP puts a gradient."""
    code = """
    import copy
    from regard.train.config import TrainConfig
    from regard.train.optim import optimizer
    from regard.train.step import PlainGradients
    from tests.train.test_threaded_gradients import batch_of, copier, model_of

    task = copier()
    model, way, batches = model_of(0.1), PlainGradients(3, ranks), [batch_of(3, 1, 4, 2, 5, 7)]
    update = optimizer(model, TrainConfig(learning_rate=0.01))
    for step in range(3):
        resumed = copy.deepcopy(model)
        way.gradients(task, model, batches, f"0 {step}")
        PlainGradients(3, ranks).gradients(task, resumed, batches, f"0 {step}")
        for (name, one), other in zip(model.named_parameters(), resumed.parameters()):
            assert one.grad.equal(other.grad), (step, name)
        update.step()
        update.zero_grad()
    """
    for process in together(code, 3, tmp_path):
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err


def test_processes_that_nobody_joins_say_so(tmp_path, monkeypatch):
    monkeypatch.setattr(ranks, "ARRIVAL_WAIT", 0.3)
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=r"got MASTER_ADDR=127.0.0.1 MASTER_PORT=, expected the"):
        train("tiny/copy", tmp_path / "run", quiet=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MASTER_PORT", str(free.getsockname()[1]))
    with pytest.raises(FoundProblems, match="did not start: only 1 of 2 processes came"):
        train("tiny/copy", tmp_path / "run", quiet=True)
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(FoundProblems, match=r"start: process 0 does not answer at .*refused\)"):
        train("tiny/copy", tmp_path / "run", quiet=True)
