from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from regard.checkpoint import folder as folder_module
from regard.checkpoint import run as checkpoint
from regard.checkpoint.folder import Manifest
from regard.checkpoint.run import Best, Damaged, Misnamed, RunLock, Snapshot
from regard.errors import InputError, WriteError

FILES = [
    "config.json",
    "manifest.json",
    "model.safetensors",
    "recipe.yaml",
    "tokenizer.json",
    "training.json",
    "training.safetensors",
]


def snapshot_of(
    step: int, size: int = 40, *, training: bool = True, best: Best | None = None
) -> Snapshot:
    """A checkpoint whose whole content follows from its step, and from the best up to it."""
    known = None if best is None else {"step": best.step, "loss": best.loss}
    generator = torch.Generator().manual_seed(step)
    weight = torch.randn(size, 3, generator=generator)
    return Snapshot(
        step=step,
        weights={"embed.weight": weight, "head.weight": weight, "norm.scale": torch.ones(3) * step},
        config={"regard": 1, "family": "transformer", "model": {"dim": 3}, "vocab": {"source": 40}},
        tokenizer=json.dumps({"words": ["größer", step]}, ensure_ascii=False),
        recipe=f"version: 1\nseed: {step}\n",
        training_tensors={"adam/0": weight * 2, "rng": generator.get_state()} if training else {},
        training={"place": {"step": step, "best": known}, "threads": 1} if training else {},
    )


def save(run: Path, step: int, keep: int, best: Best | None, size: int = 40) -> Path:
    """Save the checkpoint of a step that knows the best so far."""
    return checkpoint.save(run, snapshot_of(step, size, best=best), keep=keep, best=best)


def assert_same(got: Snapshot, expected: Snapshot) -> None:
    for field in ("step", "config", "tokenizer", "recipe", "training"):
        assert getattr(got, field) == getattr(expected, field)
    for field in ("weights", "training_tensors"):
        ours, theirs = getattr(got, field), getattr(expected, field)
        assert ours.keys() == theirs.keys()
        for name in ours:
            assert ours[name].dtype == theirs[name].dtype
            assert ours[name].shape == theirs[name].shape
            assert torch.equal(ours[name], theirs[name])


def names(run: Path) -> list[str]:
    return sorted(folder.name for folder in (run / "checkpoints").iterdir())


def flip(file: Path, offset: int, bit: int = 0) -> None:
    """Flip one bit in its place; a second time brings it back."""
    with file.open("r+b") as stream:
        stream.seek(offset, os.SEEK_SET if offset >= 0 else os.SEEK_END)
        byte = stream.read(1)[0]
        stream.seek(-1, os.SEEK_CUR)
        stream.write(bytes([byte ^ 1 << bit]))


def test_what_is_saved_is_what_is_read(tmp_path):
    folder = checkpoint.save(tmp_path, snapshot_of(1000), keep=2, best=None)
    assert folder == tmp_path / "checkpoints" / "00001000"
    assert sorted(file.name for file in folder.iterdir()) == FILES
    assert_same(checkpoint.read(folder, training=True), snapshot_of(1000))
    assert_same(
        checkpoint.read(folder),
        Snapshot(**{**vars(snapshot_of(1000)), "training": {}, "training_tensors": {}}),
    )
    path, snapshot, messages = checkpoint.latest(tmp_path)
    assert (path, messages) == (folder, [])
    assert_same(snapshot, snapshot_of(1000))
    assert list(snapshot.weights) == sorted(snapshot.weights)


def test_the_manifest_can_be_checked_with_other_tools(tmp_path):
    folder = checkpoint.save(tmp_path, snapshot_of(7), keep=1, best=None)
    files = json.loads((folder / "manifest.json").read_text())["files"]
    assert sorted([*files, "manifest.json"]) == FILES
    for name, stored in files.items():
        data = (folder / name).read_bytes()
        assert stored == {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def test_a_record_of_the_training_data_is_a_file_like_the_others(tmp_path, monkeypatch):
    snapshot = replace(snapshot_of(7), seen=b'{"seen": 1}\nbits')
    folder = checkpoint.save(tmp_path, snapshot, keep=1, best=None)
    assert sorted(file.name for file in folder.iterdir()) == sorted([*FILES, "seen.bin"])
    for training in (False, True):
        assert checkpoint.read(folder, training=training).seen == snapshot.seen
    checkpoint.verify(folder)
    flip(folder / "seen.bin", -1)
    for look in (checkpoint.verify, checkpoint.read):
        with pytest.raises(Damaged, match=r"seen\.bin: checksum differs"):
            look(folder)
    flip(folder / "seen.bin", -1)
    monkeypatch.setitem(folder_module.LARGEST, "seen.bin", 9)
    with pytest.raises(Damaged, match="of which at most 9 are read"):
        checkpoint.read(folder)
    monkeypatch.undo()
    (folder / "seen.bin").unlink()
    with pytest.raises(Damaged, match=r"seen\.bin: missing"):
        checkpoint.read(folder)


def test_equal_content_gives_equal_bytes(tmp_path):
    for name in "abcd":
        checkpoint.write_folder(tmp_path / name, snapshot_of(5))
    for file in FILES:
        assert len({(tmp_path / name / file).read_bytes() for name in "abcd"}) == 1


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
     torch.uint8, torch.bool],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_every_kind_of_tensor_comes_back(tmp_path, dtype, shape):
    tensor = (torch.randn(shape) * 3).to(dtype)
    plain = snapshot_of(1)
    snapshot = Snapshot(**{**vars(plain), "weights": {"one": tensor, "two": tensor.clone()}})
    checkpoint.write_folder(tmp_path / "x", snapshot)
    assert_same(checkpoint.read(tmp_path / "x", training=True), snapshot)


def test_tied_weights_are_stored_once_and_come_back_as_one_tensor(tmp_path):
    model = nn.Sequential(nn.Embedding(1000, 8), nn.Linear(8, 1000, bias=False))
    model[1].weight = model[0].weight
    snapshot = Snapshot(**{**vars(snapshot_of(1)), "weights": model.state_dict()})
    checkpoint.write_folder(tmp_path / "x", snapshot)
    assert (tmp_path / "x" / "model.safetensors").stat().st_size < 1.1 * 1000 * 8 * 4
    weights = checkpoint.read(tmp_path / "x").weights
    assert weights["0.weight"] is weights["1.weight"]
    again = nn.Sequential(nn.Embedding(1000, 8), nn.Linear(8, 1000, bias=False))
    again.load_state_dict(weights)
    assert torch.equal(again[1].weight, model[0].weight)


def test_overlapping_and_transposed_tensors_keep_their_values(tmp_path):
    whole = torch.arange(12.0)
    weights = {
        "whole": whole,
        "rows": whole.view(3, 4),
        "columns": whole.view(3, 4).T,
        "slice": whole[2:7],
        "spread": whole[:1].expand(5),
    }
    snapshot = Snapshot(**{**vars(snapshot_of(1)), "weights": weights})
    checkpoint.write_folder(tmp_path / "x", snapshot)
    assert_same(checkpoint.read(tmp_path / "x", training=True), snapshot)


def test_a_model_without_training_state_can_be_used_but_not_resumed(tmp_path):
    snapshot = snapshot_of(3, training=False)
    checkpoint.write_folder(tmp_path / "x", snapshot)
    assert not (tmp_path / "x" / "training.json").exists()
    assert_same(checkpoint.read(tmp_path / "x"), snapshot)
    with pytest.raises(InputError, match="no training state"):
        checkpoint.read(tmp_path / "x", training=True)


@pytest.mark.parametrize("file", FILES)
def test_any_flipped_bit_is_found(tmp_path, file):
    folder = checkpoint.save(tmp_path, snapshot_of(1), keep=1, best=None)
    size = (folder / file).stat().st_size
    chance = random.Random(file)
    # The manifest guards the others and nothing guards it, so there every byte is tried.
    offsets = [0, 1, 8, size - 1, *(chance.randrange(size) for _ in range(40))]
    for offset in range(size) if file == "manifest.json" else offsets:
        flip(folder / file, offset, bit := chance.randrange(8))
        with pytest.raises(Damaged) as caught:
            # what resuming needs is read only for that
            checkpoint.read(folder, training="training" in file or chance.random() < 0.5)
        assert caught.value.file == file
        flip(folder / file, offset, bit)
    assert_same(checkpoint.read(folder, training=True), snapshot_of(1))


@pytest.mark.parametrize("file", FILES)
def test_missing_truncated_and_lengthened_files_are_found(tmp_path, file):
    folder = checkpoint.save(tmp_path, snapshot_of(1), keep=1, best=None)
    data = (folder / file).read_bytes()
    for changed in (data[: len(data) // 2], data[:-1], data + b"\n", b" " + data, b""):
        (folder / file).write_bytes(changed)
        with pytest.raises(Damaged, match=file):
            checkpoint.read(folder)
    (folder / file).unlink()
    with pytest.raises(Damaged, match=f"{file}: missing"):
        checkpoint.read(folder)


def test_a_reformatted_manifest_is_not_taken_for_ours(tmp_path):
    folder = checkpoint.save(tmp_path, snapshot_of(1), keep=1, best=None)
    content = json.loads((folder / "manifest.json").read_text())
    for text in (json.dumps(content), json.dumps({**content, "step": 2}, indent=2), "[]", "null"):
        (folder / "manifest.json").write_text(text)
        with pytest.raises(Damaged, match=r"manifest\.json"):
            checkpoint.read(folder)


def test_foreign_files_in_the_folder_are_never_read(tmp_path):
    folder = checkpoint.save(tmp_path, snapshot_of(1), keep=1, best=None)
    for name in ("pytorch_model.bin", "model.pt", "training.pkl"):
        (folder / name).write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
        (folder / name).chmod(0)
    assert_same(checkpoint.read(folder, training=True), snapshot_of(1))


def test_another_format_is_refused_by_number(tmp_path):
    snapshot = Snapshot(**{**vars(snapshot_of(1)), "config": {"regard": 3}})
    checkpoint.write_folder(tmp_path / "x", snapshot)
    with pytest.raises(InputError, match="got 3, expected 1 or 2"):
        checkpoint.read(tmp_path / "x")


def test_a_manifest_that_vouches_for_nonsense_still_gives_a_user_error(tmp_path):
    folder = checkpoint.save(tmp_path, snapshot_of(1), keep=1, best=None)
    for name, nonsense in [("model.safetensors", b"\xff" * 64), ("config.json", b"[1]")]:
        good = {file: (folder / file).read_bytes() for file in (name, "manifest.json")}
        content = json.loads(good["manifest.json"])
        del content["self"]
        content["files"][name] = {
            "sha256": hashlib.sha256(nonsense).hexdigest(),
            "size": len(nonsense),
        }
        forged = Manifest.model_validate(content).render()
        (folder / name).write_bytes(nonsense)
        (folder / "manifest.json").write_bytes(forged)
        with pytest.raises(Damaged, match=f"{name}: has invalid contents"):
            checkpoint.read(folder)
        for file, data in good.items():
            (folder / file).write_bytes(data)


def test_the_last_and_the_best_are_kept(tmp_path):
    best = None
    for step, loss in [(1, 9.0), (2, 4.0), (3, 5.0), (4, 6.0), (5, 7.0)]:
        if best is None or loss < best.loss:
            best = Best(step, loss)
        save(tmp_path, step, keep=2, best=best)
    assert names(tmp_path) == ["00000002", "00000004", "00000005"]
    written = json.loads((tmp_path / "best.json").read_text())
    assert written == {"step": 2, "loss": 4.0, "checkpoint": "00000002"}
    assert checkpoint.read_best(tmp_path) == Best(2, 4.0)
    assert checkpoint.find(tmp_path).name == "00000002"
    save(tmp_path, 6, keep=1, best=Best(6, 1.0))
    assert names(tmp_path) == ["00000006"]
    assert checkpoint.find(tmp_path).name == "00000006"


def test_the_best_is_kept_as_long_as_a_newer_checkpoint_knows_it(tmp_path):
    for step in (1, 2, 3):
        save(tmp_path, step, keep=1, best=Best(1, 2.0))
    assert names(tmp_path) == ["00000001", "00000003"]
    save(tmp_path, 4, keep=1, best=None)
    assert names(tmp_path) == ["00000004"]
    assert not (tmp_path / "best.json").exists()


def test_best_is_never_recorded_without_its_checkpoint(tmp_path, caplog):
    save(tmp_path, 2, keep=1, best=Best(1, 2.0))
    assert not (tmp_path / "best.json").exists()
    assert checkpoint.find(tmp_path).name == "00000002"
    assert caplog.messages == [
        "checkpoint 00000001 is damaged (manifest.json: missing); using 00000002"
    ]


def test_damaged_checkpoints_are_not_counted_among_the_kept(tmp_path):
    for step in (1, 2):
        checkpoint.save(tmp_path, snapshot_of(step), keep=2, best=None)
    flip(tmp_path / "checkpoints" / "00000002" / "model.safetensors", -1)
    checkpoint.save(tmp_path, snapshot_of(3), keep=2, best=None)
    assert "00000001" in names(tmp_path)


def test_a_later_checkpoint_does_not_push_out_the_new_one(tmp_path):
    checkpoint.save(tmp_path, snapshot_of(20), keep=1, best=None)
    checkpoint.save(tmp_path, snapshot_of(10), keep=1, best=None)
    assert names(tmp_path) == ["00000010", "00000020"]
    flip(tmp_path / "checkpoints" / "00000020" / "recipe.yaml", 3)
    checkpoint.save(tmp_path, snapshot_of(15), keep=1, best=None)
    assert names(tmp_path) == ["00000015", "00000020"]
    folder, snapshot, _ = checkpoint.latest(tmp_path)
    assert folder.name == "00000015"
    assert_same(snapshot, snapshot_of(15))


def test_a_sound_checkpoint_of_the_same_step_is_left_alone_and_a_damaged_one_replaced(tmp_path):
    folder = checkpoint.save(tmp_path, snapshot_of(1), keep=1, best=None)
    inode = folder.stat().st_ino
    checkpoint.save(tmp_path, snapshot_of(1), keep=1, best=None)
    assert folder.stat().st_ino == inode
    flip(folder / "model.safetensors", -1)
    checkpoint.save(tmp_path, snapshot_of(1), keep=1, best=None)
    assert_same(checkpoint.read(folder, training=True), snapshot_of(1))
    assert names(tmp_path) == ["00000001"]


def test_latest_passes_over_damaged_checkpoints_and_says_so(tmp_path):
    assert checkpoint.latest(tmp_path) is None
    for step in (1000, 2000, 3000):
        checkpoint.save(tmp_path, snapshot_of(step), keep=3, best=None)
    flip(tmp_path / "checkpoints" / "00002000" / "model.safetensors", -1)
    (tmp_path / "checkpoints" / "00003000" / "training.json").unlink()
    folder, snapshot, messages = checkpoint.latest(tmp_path)
    assert folder.name == "00001000"
    assert_same(snapshot, snapshot_of(1000))
    assert messages == [
        "checkpoint 00003000 is damaged (training.json: missing); using 00001000",
        "checkpoint 00002000 is damaged (model.safetensors: checksum differs); using 00001000",
    ]
    flip(folder / "config.json", 0)
    for search in (checkpoint.latest, checkpoint.find):
        with pytest.raises(
            InputError, match=r"no intact checkpoint: checkpoint 00003000 .* 2 more"
        ):
            search(tmp_path)


def test_steps_beyond_eight_digits_are_still_in_order(tmp_path):
    for step in (99_999_999, 100_000_000):
        checkpoint.save(tmp_path, snapshot_of(step), keep=2, best=None)
    assert checkpoint.latest(tmp_path)[0].name == "100000000"


def test_find_takes_a_run_or_a_checkpoint(tmp_path, caplog):
    for step in (1, 2, 3):
        save(tmp_path, step, keep=3, best=Best(1, 0.5))
    folder = tmp_path / "checkpoints" / "00000002"
    assert checkpoint.find(folder) == folder
    assert checkpoint.find(tmp_path).name == "00000001"
    assert not caplog.messages
    flip(tmp_path / "checkpoints" / "00000001" / "model.safetensors", -1)
    assert checkpoint.find(tmp_path).name == "00000003"
    assert caplog.messages == [
        "checkpoint 00000001 is damaged (model.safetensors: checksum differs); using 00000003"
    ]


def make(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "an empty folder"),
        ({"notes.txt": ""}, "no checkpoint in it"),
        ({"model.safetensors": ""}, "weights without their config.json"),
        ({"recipe.yaml": "", "metrics.jsonl": ""}, "a run without a checkpoint yet"),
        ({"checkpoints/.00000001.tmp-1/config.json": ""}, "a run without a checkpoint yet"),
        ({"config.json": '{"model_type": "bert"}', "model.safetensors": ""}, "Hugging Face"),
        ({"config.json": '{"regard": 1}', "model.safetensors": ""}, "without its manifest"),
    ],
)
def test_find_says_what_it_found_instead(tmp_path, files, message):
    with pytest.raises(InputError, match=message):
        checkpoint.find(make(tmp_path / "place", files))


def test_find_says_when_it_is_given_a_file_a_wrong_name_or_the_folder_of_checkpoints(tmp_path):
    (tmp_path / "file").write_text("")
    for name, message in [("file", "got a file"), ("nowhere", "nothing there")]:
        with pytest.raises(InputError, match=message):
            checkpoint.find(tmp_path / name)
    checkpoint.save(tmp_path / "run", snapshot_of(1), keep=1, best=None)
    with pytest.raises(InputError, match=r"name the run: .*run$"):
        checkpoint.find(tmp_path / "run" / "checkpoints")


def test_write_folder_never_writes_into_what_is_there(tmp_path):
    checkpoint.write_folder(tmp_path / "deep" / "x", snapshot_of(1))
    with pytest.raises(InputError, match="is not empty"):
        checkpoint.write_folder(tmp_path / "deep" / "x", snapshot_of(2))
    assert_same(checkpoint.read(tmp_path / "deep" / "x", training=True), snapshot_of(1))
    (tmp_path / "empty").mkdir()
    checkpoint.write_folder(tmp_path / "empty", snapshot_of(2))
    assert checkpoint.read(tmp_path / "empty").step == 2


def test_one_process_at_a_time_writes_into_a_run(tmp_path):
    run = tmp_path / "run"
    with RunLock(run), pytest.raises(InputError, match=rf"another process \({os.getpid()}\)"):
        RunLock(run).__enter__()
    with RunLock(run):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="got a file"):
        RunLock(tmp_path / "file").__enter__()


def test_the_lock_removes_what_dead_runs_left_and_nothing_else(tmp_path):
    save(tmp_path, 1, keep=1, best=Best(1, 1.0))
    make(tmp_path / "checkpoints" / ".00000002.tmp-99", {"model.safetensors": "half"})
    make(tmp_path / "checkpoints" / ".00000000.old-99", {"model.safetensors": "half"})
    (tmp_path / ".best.json.tmp-99").write_text("{")
    (tmp_path / ".gitignore").write_text("*")
    with RunLock(tmp_path):
        assert names(tmp_path) == ["00000001"]
        assert sorted(file.name for file in tmp_path.iterdir()) == [
            ".gitignore", ".lock", "best.json", "checkpoints",
        ]  # fmt: skip


def test_a_lock_knows_whether_it_made_the_folder(tmp_path):
    with RunLock(tmp_path / "new") as lock:
        assert lock.created
    with RunLock(tmp_path / "new") as lock:
        assert not lock.created


def test_a_lock_whose_file_was_removed_is_taken_anew(tmp_path, monkeypatch):
    run, flock, owners = tmp_path / "run", fcntl.flock, [RunLock(tmp_path / "run").__enter__()]

    def slow(*arguments):
        while owners:  # the owner was refused, and goes, after the file was opened
            owners[-1].remove()
            owners.pop().__exit__(None, None, None)
        flock(*arguments)

    monkeypatch.setattr(fcntl, "flock", slow)
    with RunLock(run) as lock:
        assert lock.created
        assert (run / ".lock").read_text() == str(os.getpid())
        with pytest.raises(InputError, match="another process"):
            RunLock(run).__enter__()


def test_a_folder_that_goes_while_it_is_asked_about_is_no_file(tmp_path, monkeypatch):
    run, real, asked = tmp_path / "run", Path.stat, []
    run.mkdir()

    def gone(path, **options):
        seen = real(path, **options)
        if path == run and not asked:
            asked.append(path)
            run.rmdir()  # its owner was refused
        return seen

    monkeypatch.setattr(Path, "stat", gone)
    with RunLock(run) as lock:
        assert lock.created


def test_many_at_once_never_hold_a_run_together(tmp_path):
    run, holding, most, holders = tmp_path / "deep" / "run", [], [], []

    def start(number):
        while holders.count(number) < 3:  # each holds it three times, however often it is refused
            try:
                with RunLock(run) as lock:
                    holding.append(number)
                    (run / "metrics.jsonl").write_text(str(number))
                    time.sleep(0.0002)
                    assert (run / "metrics.jsonl").read_text() == str(number)
                    most.append(len(holding))
                    holders.append(number)
                    holding.remove(number)
                    if number % 2:
                        lock.remove()
            except InputError as error:
                assert "another process" in str(error)  # noqa: PT017 (others may win instead)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(start, range(8)))
    assert len(holders) == 24
    assert set(most) == {1}


@pytest.mark.parametrize("name", [".lock", "metrics.jsonl", "checkpoints", "tensorboard"])
def test_a_link_out_of_the_run_is_refused(tmp_path, name):
    run, outside = tmp_path / "run", tmp_path / "outside"
    run.mkdir()
    if name in ("checkpoints", "tensorboard"):
        outside.mkdir()
        (outside / ".x.tmp-1").write_text("mine")
    else:
        outside.write_text("mine")
    (run / name).symlink_to(outside)
    with pytest.raises(InputError, match=f"{name}: got a symbolic link"):
        RunLock(run).__enter__()
    mine = outside / ".x.tmp-1" if outside.is_dir() else outside
    assert mine.read_text() == "mine"
    (run / name).unlink()
    (run / name).symlink_to(tmp_path / "nothing")
    with pytest.raises(InputError, match="a symbolic link"):
        RunLock(run).__enter__()
    assert not (tmp_path / "nothing").exists()
    (run / name).unlink()
    os.mkfifo(run / name)
    with pytest.raises(InputError, match="got something else"):
        RunLock(run).__enter__()
    (run / name).unlink()
    with RunLock(run):
        pass


def test_links_in_the_place_of_files_are_replaced_not_followed(tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("mine")
    run = tmp_path / "run"
    with RunLock(run):
        (run / "best.json").symlink_to(mine)
        (run / f".best.json.tmp-{os.getpid()}").symlink_to(mine)
        checkpoint.save(run, snapshot_of(1), keep=1, best=Best(1, 0.5))
    assert not (run / "best.json").is_symlink()
    assert mine.read_text() == "mine"


def assert_refused_and_whole(run: Path, size: int, reason: str) -> None:
    with pytest.raises(WriteError, match=reason) as caught:
        save(run, 2, keep=1, best=Best(2, 0.1), size=size)
    assert caught.value.exit_code == 74
    assert "00000002" in str(caught.value).splitlines()[0]
    assert "checkpoint 00000001 is whole" in str(caught.value)
    assert names(run) == ["00000001"]
    assert checkpoint.read_best(run) == Best(1, 0.5)
    assert_same(checkpoint.latest(run)[1], snapshot_of(1, best=Best(1, 0.5)))


def test_files_beyond_the_size_limit_leave_the_old_checkpoint_whole(tmp_path):
    save(tmp_path, 1, keep=1, best=Best(1, 0.5))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # Python ignores SIGXFSZ
    try:
        assert_refused_and_whole(tmp_path, 100_000, "File too large")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    save(tmp_path, 2, keep=1, best=Best(2, 0.1), size=100_000)
    assert names(tmp_path) == ["00000002"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EDQUOT])
@pytest.mark.parametrize("calls", range(1, 10))
def test_a_failing_sync_leaves_the_old_checkpoint_whole(tmp_path, monkeypatch, code, calls):
    save(tmp_path, 1, keep=1, best=Best(1, 0.5))
    left = iter(range(calls))
    synced = os.fsync

    def fsync(descriptor: int) -> None:
        if next(left, None) is None:
            raise OSError(code, os.strerror(code))
        synced(descriptor)

    # Folder of the run, six files, manifest, the new folder: nine may pass before the rename.
    monkeypatch.setattr(os, "fsync", fsync)
    if calls < 9:
        assert_refused_and_whole(tmp_path, 40, os.strerror(code))
    else:
        with pytest.raises(WriteError, match="checkpoint 00000002 is whole"):
            save(tmp_path, 2, keep=1, best=Best(2, 0.1))
        assert_same(checkpoint.latest(tmp_path)[1], snapshot_of(2, best=Best(2, 0.1)))


# Runs in a mount namespace of its own, so that the small disk is gone with the process.
ON_A_SMALL_DISK = """
import subprocess, sys
from importlib import util
from pathlib import Path

import pytest

spec = util.spec_from_file_location("test_checkpoint", sys.argv[1])
tests = util.module_from_spec(spec)
spec.loader.exec_module(tests)
disk = Path(sys.argv[2])
tests.save(disk, 1, keep=1, best=tests.Best(1, 0.5))
tests.assert_refused_and_whole(disk, 200_000, "No space left on device")
with pytest.raises(tests.WriteError, match="No space left on device"):
    tests.checkpoint.write_folder(disk / "model", tests.snapshot_of(2, 200_000))
assert not [file.name for file in disk.iterdir() if "model" in file.name]
subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
tests.assert_refused_and_whole(disk, 40, "Read-only file system")
with pytest.raises(tests.WriteError, match="Read-only file system"):
    tests.RunLock(disk).__enter__()
print("done")
"""


@pytest.mark.slow
def test_a_full_disk_and_a_read_only_one_leave_the_old_checkpoint_whole(tmp_path):
    if not shutil.which("unshare"):
        pytest.skip("unshare is not installed")
    mount = f"mount -t tmpfs -o size=1m none {tmp_path}"
    allowed = subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True)
    if allowed.returncode:
        pytest.skip("no disk may be mounted here, even in a namespace of its own")
    command = f'{mount} && exec "$@"'
    script = [sys.executable, "-c", ON_A_SMALL_DISK, __file__, str(tmp_path)]
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", command, "sh", *script], capture_output=True, text=True
    )
    assert done.stdout == "done\n", done.stderr


# For every line that comes in, forks a process that goes on with the run until it is killed.
# Forking saves the two seconds that importing torch would take every time.
SAVES_UNTIL_KILLED = """
import os, sys
from importlib import util
from pathlib import Path

spec = util.spec_from_file_location("test_checkpoint", sys.argv[1])
tests = util.module_from_spec(spec)
spec.loader.exec_module(tests)
run, saved = Path(sys.argv[2]), os.open(sys.argv[3], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
print("ready", flush=True)
for _ in sys.stdin:
    if child := os.fork():
        print(child, flush=True)
        os.waitpid(child, 0)
        print("dead", flush=True)
        continue
    with tests.RunLock(run):
        found = tests.checkpoint.latest(run)
        step = found[1].step if found else 0
        while True:
            step += 1
            best = tests.Best(step - step % 3, 1 / step) if step >= 3 else None
            tests.save(run, step, keep=2, best=best, size=4000)
            os.write(saved, f"{step}\\n".encode())
"""


@pytest.mark.slow
def test_a_run_killed_at_any_moment_goes_on_from_the_last_checkpoint_it_reported(tmp_path):
    run, reported = tmp_path / "run", tmp_path / "reported"
    chance = random.Random(0)
    command = [sys.executable, "-c", SAVES_UNTIL_KILLED, __file__, str(run), str(reported)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as server:
        assert server.stdout.readline() == "ready\n"
        before = 0
        for _ in range(20):
            server.stdin.write("go\n")
            child = int(server.stdout.readline())
            began, size = time.monotonic(), reported.stat().st_size
            while reported.stat().st_size == size:
                assert time.monotonic() < began + 30, "nothing was saved"
                time.sleep(0.001)
            # A save after the first takes about as long: this lands anywhere in the next one.
            time.sleep(chance.uniform(0, min(0.2, time.monotonic() - began)))
            os.kill(child, signal.SIGKILL)
            assert server.stdout.readline() == "dead\n"
            _, snapshot, messages = checkpoint.latest(run)
            assert messages == []
            for name in filter(str.isdecimal, names(run)):
                checkpoint.read(run / "checkpoints" / name)
            best = checkpoint.read_best(run)
            assert_same(snapshot, snapshot_of(snapshot.step, 4000, best=best))
            assert before < int(reported.read_text().split()[-1]) <= snapshot.step
            assert best is None or checkpoint.find(run).name == best.checkpoint
            before = snapshot.step
        server.stdin.close()
    with RunLock(run):
        assert len(names(run)) <= 4
        assert all(name.isdecimal() for name in names(run))


def forge(folder: Path, name: str, data: bytes) -> None:
    """Put other bytes into a file of a checkpoint, and let the manifest vouch for them."""
    (folder / name).write_bytes(data)
    content = json.loads((folder / "manifest.json").read_bytes())
    del content["self"]
    content["files"][name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "manifest.json").write_bytes(Manifest.model_validate(content).render())


@pytest.mark.parametrize("link", [False, True])
def test_a_checkpoint_under_another_steps_name_is_refused(tmp_path, link):
    folder = save(tmp_path, 20, keep=9, best=None)
    wrong = folder.with_name("00000030")
    if link:
        wrong.symlink_to(folder.name)
    else:
        shutil.copytree(folder, wrong)
    message = r"00000030: got the checkpoint of step 20, .*, expected that of step 30"
    for use in (checkpoint.latest, checkpoint.find, checkpoint.read_chosen):
        with pytest.raises(Misnamed, match=message):
            use(tmp_path)
    with pytest.raises(Misnamed, match=message):
        checkpoint.read(wrong)
    assert checkpoint.read(folder).step == 20
    older = wrong.rename(folder.with_name("00000010"))
    assert checkpoint.find(tmp_path) == folder  # which did not look at it
    with pytest.raises(Misnamed, match="00000010"):
        checkpoint.latest(tmp_path)  # which would average and prune it
    copied = shutil.copytree(older, tmp_path / "copies" / "00000010")
    assert checkpoint.find(copied) == copied  # outside a run a name means nothing


def test_a_checkpoint_of_the_step_to_be_saved_that_is_of_another_is_replaced(tmp_path):
    folder = save(tmp_path, 20, keep=9, best=None)
    folder.with_name("00000030").symlink_to(folder.name)
    save(tmp_path, 30, keep=9, best=None)
    assert_same(checkpoint.latest(tmp_path)[1], snapshot_of(30))
    assert_same(checkpoint.read(folder, training=True), snapshot_of(20))


def test_a_model_without_training_state_is_no_checkpoint_of_a_run(tmp_path):
    save(tmp_path, 1, keep=9, best=None)
    checkpoint.write_folder(tmp_path / "checkpoints/00000002", snapshot_of(2, training=False))
    for use in (checkpoint.latest, checkpoint.find):
        with pytest.raises(InputError, match="00000002 holds no training state"):
            use(tmp_path)


def test_the_best_is_right_when_a_death_comes_before_best_json_or_before_pruning(
    tmp_path, monkeypatch
):
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    for moment in ("_write_best", "_prune"):
        run = tmp_path / moment
        save(run, 1, keep=1, best=Best(1, 0.5))
        with monkeypatch.context() as patch:
            patch.setattr(checkpoint, moment, die)
            with pytest.raises(KeyboardInterrupt):
                save(run, 2, keep=1, best=Best(2, 0.1))
        assert checkpoint.find(run).name == "00000002"
        assert checkpoint.summary(run) == {"step": 2, "best_loss": 0.1}
        best = Best(**checkpoint.latest(run)[1].training["place"]["best"])
        assert checkpoint.refresh_best(run, best) == Best(2, 0.1)
        assert json.loads((run / "best.json").read_bytes())["checkpoint"] == "00000002"


def put_in_place_of(path: Path, kind: str) -> None:
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "sparse":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    else:
        path.write_text("[" * 100_000)


KINDS = ["pipe", "device", "folder", "sparse", "nested"]


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_stands_for_best_json_is_not_read(tmp_path, kind):
    for step in (1, 2):
        save(tmp_path, step, keep=2, best=Best(1, 0.5))
    put_in_place_of(tmp_path / "best.json", kind)
    assert checkpoint.find(tmp_path).name == "00000001"
    assert checkpoint.read_best(tmp_path) == Best(1, 0.5)
    if kind == "folder":
        with pytest.raises(WriteError, match=r"best\.json: Is a directory"):
            checkpoint.refresh_best(tmp_path, Best(1, 0.5))
    else:
        checkpoint.refresh_best(tmp_path, Best(1, 0.5))
        assert json.loads((tmp_path / "best.json").read_bytes())["step"] == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("file", FILES)
def test_only_regular_files_of_the_stated_size_are_read(tmp_path, file, kind):
    folder = save(tmp_path, 1, keep=1, best=None)
    put_in_place_of(folder / file, kind)
    with pytest.raises(Damaged) as caught:
        checkpoint.read(folder, training=True)
    assert caught.value.file == file
    assert len(str(caught.value).splitlines()) == 2


def test_a_manifest_cannot_vouch_for_more_than_is_read(tmp_path):
    folder = save(tmp_path, 1, keep=1, best=None)
    content = json.loads((folder / "manifest.json").read_bytes())
    del content["self"]
    for name in ("tokenizer.json", "model.safetensors"):
        with (folder / name).open("r+b") as file:
            file.truncate(1 << 43)
        stored = {**content["files"], name: {"size": 1 << 43, "sha256": "0"}}
        forged = Manifest.model_validate({**content, "files": stored}).render()
        (folder / "manifest.json").write_bytes(forged)
        with pytest.raises(Damaged, match=rf"{name}: 8,796,093,022,208 bytes, .* at most"):
            checkpoint.read(folder)
        (folder / name).unlink()
        (folder / name).write_bytes(b"x" * content["files"][name]["size"])


@pytest.mark.parametrize("name", ["config.json", "training.json", "manifest.json"])
def test_json_that_is_nested_or_not_finite_is_damaged(tmp_path, name):
    folder = save(tmp_path, 1, keep=1, best=None)
    texts = ["[" * 100_000, '{"a":' * 100_000, '{"step": NaN}', "1" * 9999, "null"]
    if name == "manifest.json":
        texts += [r'{"step": 1, "files": {"\ud800": {"size": 1, "sha256": "\ud800"}}}']
    for text in texts:
        if name == "manifest.json":
            (folder / name).write_text(text)
        else:
            forge(folder, name, text.encode())
        with pytest.raises(Damaged) as caught:
            checkpoint.read(folder, training=True)
        assert caught.value.file == name


def test_what_a_checkpoint_says_of_the_best_is_checked(tmp_path):
    folder = save(tmp_path, 5, keep=1, best=Best(5, 0.5))
    nested: dict[str, object] = {}
    for _ in range(500):
        nested = {"a": nested}
    wrong = [
        True, -1, 1e308, 10**30, "x", [], {}, nested, {"step": 5}, {"step": 6, "loss": 0.1},
        {"step": -5, "loss": 0.1}, {"step": 5, "loss": "0.1"}, {"step": 5, "loss": None},
        {"step": 5, "loss": 0.1, "more": 1}, {"step": 5.0, "loss": 0.1}, {"step": True, "loss": 1},
    ]  # fmt: skip
    states = [{"best": value} for value in wrong] + [{}, None, 1, [], "best"]
    for state in states:
        forge(folder, "training.json", json.dumps({"place": state}).encode())
        with pytest.raises(InputError, match=r"training\.json.*best"):
            checkpoint.find(tmp_path)


@pytest.mark.parametrize("file", FILES)
def test_a_damaged_newest_is_passed_over_with_what_it_knew_of_itself(tmp_path, caplog, file):
    save(tmp_path, 1, keep=9, best=Best(1, 0.5))
    save(tmp_path, 2, keep=9, best=Best(1, 0.5))
    save(tmp_path, 3, keep=9, best=Best(3, 0.1))
    flip(tmp_path / "checkpoints" / "00000003" / file, 8)
    assert checkpoint.find(tmp_path).name == "00000001"
    [message] = caplog.messages
    assert message.startswith(f"checkpoint 00000003 is damaged ({file}: ")
    assert message.endswith("; using 00000001")


def test_a_best_whose_checkpoint_is_lost_is_forgotten_aloud(tmp_path, caplog):
    for step in (1, 2):
        save(tmp_path, step, keep=1, best=Best(1, 0.5))
    flip(tmp_path / "checkpoints" / "00000001" / "model.safetensors", -1)
    assert checkpoint.refresh_best(tmp_path, Best(1, 0.5)) is None
    assert "best checkpoint, 00000001, is missing or damaged" in caplog.text
    assert not (tmp_path / "best.json").exists()


@pytest.mark.parametrize("after", range(1, 6))
def test_loading_goes_on_with_a_newer_checkpoint_if_one_is_deleted_meanwhile(
    tmp_path, monkeypatch, caplog, after
):
    save(tmp_path, 1, keep=1, best=Best(1, 0.5))
    save(tmp_path, 2, keep=1, best=Best(1, 0.5))
    opened, left = folder_module.open_regular, iter(range(after))

    def meanwhile(path: Path) -> object:
        if next(left, None) is None and not (tmp_path / "checkpoints/00000003").exists():
            with monkeypatch.context() as patch:
                patch.setattr(folder_module, "open_regular", opened)
                save(tmp_path, 3, keep=1, best=Best(3, 0.1))
        return opened(path)

    monkeypatch.setattr(folder_module, "open_regular", meanwhile)
    assert checkpoint.read_chosen(tmp_path).step == (3 if after < 5 else 1)
    assert caplog.messages == []


def test_a_run_that_changes_for_ever_is_not_asked_for_ever(tmp_path, monkeypatch):
    save(tmp_path, 1, keep=1, best=None)
    steps = iter(range(2, 1000))

    def attempt(folder: Path, *_: object, **__: object) -> Snapshot:
        save(tmp_path, next(steps), keep=1, best=None)
        raise Damaged(folder, "model.safetensors", "missing")

    monkeypatch.setattr(checkpoint, "read", attempt)
    with pytest.raises(InputError, match="no intact checkpoint"):
        checkpoint.read_chosen(tmp_path)
    assert next(steps) < 100
