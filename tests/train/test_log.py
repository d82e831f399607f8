from __future__ import annotations

import builtins
import errno
import io
import json
import math
import os
import re
import sys

import pytest
from PIL import Image

from regard.errors import InputError, UserError, WriteError
from regard.runtime import progress as bars
from regard.train import log
from regard.train.log import (
    MetricsLog,
    TensorBoardLog,
    TrainingProgress,
    read_metrics,
    remove_later_lines,
)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def written(path, steps, **more):
    metrics = MetricsLog(path)
    for step in steps:
        metrics.write(step, {"loss": 1 / step, **more})
    metrics.close()
    return path


def test_each_line_is_one_object_and_there_before_the_file_is_closed(tmp_path):
    path = tmp_path / "run" / "metrics.jsonl"
    metrics = MetricsLog(path)
    metrics.write(20, {"loss": 3.25, "tokens": 4096})
    metrics.write(40, {"validation_loss": 2.5, "note": "größer\nzwei Zeilen"})
    assert read_metrics(path) == [
        {"step": 20, "loss": 3.25, "tokens": 4096},
        {"step": 40, "validation_loss": 2.5, "note": "größer\nzwei Zeilen"},
    ]
    metrics.close()
    assert len(path.read_text().splitlines()) == 2


def test_numbers_that_are_not_finite_are_still_json(tmp_path):
    path = tmp_path / "metrics.jsonl"
    written(path, [1], a=math.nan, b=math.inf, c=-math.inf, d=0.1)
    (line,) = path.read_text().splitlines()
    values = json.loads(line, parse_constant=refuse)
    assert values == {"step": 1, "loss": 1.0, "a": None, "b": None, "c": None, "d": 0.1}


def test_cutting_back_drops_what_came_after_the_checkpoint(tmp_path):
    path = written(tmp_path / "metrics.jsonl", [20, 40, 40, 60, 80])
    whole = path.read_bytes().splitlines(keepends=True)
    remove_later_lines(path, 100)
    assert path.read_bytes() == b"".join(whole)
    remove_later_lines(path, 40)
    assert path.read_bytes() == b"".join(whole[:3])
    remove_later_lines(tmp_path / "missing.jsonl", 40)
    assert [file.name for file in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_a_line_torn_anywhere_is_dropped_and_training_goes_on_after_it(tmp_path):
    path = written(tmp_path / "metrics.jsonl", [20, 40])
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for end in range(first, len(whole)):
        path.write_bytes(whole[:end])
        assert [line["step"] for line in read_metrics(path)] == [20]
        metrics = MetricsLog(path, after=20)
        metrics.write(40, {"loss": 1 / 40})
        metrics.close()
        assert path.read_bytes() == whole


def test_a_new_run_starts_the_file_anew(tmp_path):
    path = written(tmp_path / "metrics.jsonl", [20, 40])
    assert [line["step"] for line in read_metrics(written(path, [5]))] == [5]


@pytest.mark.parametrize("bad", [b'{"step": 3', b'{"loss": 1}', b"[1]", b'{"step": "x"}', b"\xff"])
def test_a_spoiled_line_before_the_last_is_named(tmp_path, bad):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\n' + bad + b'\n{"step": 4}\n')
    for use in (read_metrics, lambda path: remove_later_lines(path, 2)):
        with pytest.raises(InputError, match=r"metrics\.jsonl, line 2"):
            use(path)


def test_an_interrupted_cut_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = written(tmp_path / "metrics.jsonl", [20, 40])
    whole = path.read_bytes()

    def fsync(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(WriteError, match="No space left"):
        remove_later_lines(path, 20)
    assert path.read_bytes() == whole
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")  # noqa: PTH110
def test_a_full_disk_is_a_write_error(tmp_path):
    path = tmp_path / "metrics.jsonl"
    metrics = MetricsLog(path)
    metrics.close()
    path.unlink()
    path.symlink_to("/dev/full")
    metrics._file = path.open("ab", buffering=0)
    with pytest.raises(WriteError, match=r"metrics\.jsonl: No space left") as caught:
        metrics.write(1, {"loss": 1.0})
    assert caught.value.exit_code == 74
    metrics.close()


def curves(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return {
        name: [(point.step, point.value) for point in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }


def test_tensorboard_shows_each_step_once_after_resuming(tmp_path):
    pytest.importorskip("tensorboard")
    first = TensorBoardLog(tmp_path)
    for step in (1, 2, 3):
        first.write(step, {"loss": float(step), "note": "words", "missing": None})
    first.close()
    assert curves(tmp_path) == {"loss": [(1, 1.0), (2, 2.0), (3, 3.0)]}
    again = TensorBoardLog(tmp_path, after=2)
    again.write(3, {"loss": 30.0})
    again.close()
    assert curves(tmp_path) == {"loss": [(1, 1.0), (2, 2.0), (3, 30.0)]}


def test_a_missing_tensorboard_is_said_with_the_line_that_installs_it(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if "tensorboard" in name]:
        monkeypatch.delitem(sys.modules, name)
    original = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] == "tensorboard":
            raise ModuleNotFoundError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match=r"pip install 'regard\[tensorboard\]'"):
        TensorBoardLog(tmp_path / "events")
    assert not (tmp_path / "events").exists()


@pytest.fixture
def clock(monkeypatch):
    """A clock that is moved by hand."""
    now = [1000.0]
    monkeypatch.setattr(bars.time, "monotonic", lambda: now[0])
    return now


def test_without_a_terminal_a_line_is_written_per_interval(capsys, clock):
    with TrainingProgress(total=100, start=0, quiet=False) as progress:
        for step in range(1, 101):
            clock[0] += 1
            progress.update(step, loss=5.0 / step, targets_per_second=12345.6)
            if step == 50:
                progress.print_line("saved [bold]00000050[/bold]")
    output, lines = capsys.readouterr()
    lines = lines.splitlines()
    assert output == ""
    assert lines[0] == "step 1/100  loss 5.000  12,346 targets/s  -:-- left"
    assert lines[1].startswith("step 11/100")
    assert lines[5] == "saved [bold]00000050[/bold]"
    assert lines[-1] == "step 100/100  loss 0.050  12,346 targets/s  0:00 left"
    assert len(lines) == 12  # steps 1, 11, ... 91, the last one, and what was said


def test_time_left_counts_from_where_training_was_resumed(capsys, clock):
    with TrainingProgress(total=7400, start=200, quiet=False) as progress:
        clock[0] += 100
        progress.update(300, 1.0, 10.0)
    assert "1:58:20 left" in capsys.readouterr().err  # 7100 steps of one second


def test_quiet_says_nothing(capsys, monkeypatch):
    for terminal in (False, True):
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal)
        with TrainingProgress(total=2, start=0, quiet=True) as progress:
            progress.update(1, 1.0, 1.0)
            progress.print_line("something")
    assert capsys.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch, **environment):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm-256color", "COLUMNS": "120", **environment}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with TrainingProgress(total=100, start=10, quiet=False) as progress:
        progress.update(60, loss=1.2345, targets_per_second=9876)
        progress.print_line("saved [bold]00000060[/bold]")
        progress.update(100, loss=0.5, targets_per_second=9876)
    return sys.stderr.getvalue()


COLOUR = re.compile(r"\x1b\[(\d+;)*(3|4|9|10)\d[;m]")


def test_on_a_terminal_there_is_a_bar(monkeypatch):
    shown = on_a_terminal(monkeypatch)
    assert COLOUR.search(shown)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    assert "saved [bold]00000060[/bold]\n" in plain
    assert "100/100 loss 0.500 9,876 targets/s" in plain


def test_no_color_is_respected(monkeypatch):
    assert not COLOUR.search(on_a_terminal(monkeypatch, NO_COLOR="1"))


def test_a_terminal_that_cannot_draw_gets_lines(monkeypatch):
    shown = on_a_terminal(monkeypatch, TERM="dumb")
    assert "\x1b" not in shown
    assert "step 60/100  loss 1.234" in shown


def test_the_picture_of_the_losses_shows_both_curves(tmp_path):
    path = tmp_path / "loss.png"
    training = [{"step": step, "loss": 3 / step} for step in range(1, 50)]
    training[20]["loss"] = None
    validation = [{"step": step, "validation_loss": 4 / step} for step in (10, 20, 30)]
    log.plot_losses([*training, *validation, {"step": 50, "bleu": 1.0}], path)
    with Image.open(path) as image:
        assert image.size == (1280, 720)
        colours = {colour for _, colour in image.convert("RGB").getcolors(maxcolors=1 << 24)}
    assert {(0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)} <= colours
    assert [file.name for file in tmp_path.iterdir()] == ["loss.png"]


def test_a_run_without_losses_still_has_a_picture(tmp_path):
    log.plot_losses([], tmp_path / "loss.png")
    with Image.open(tmp_path / "loss.png") as image:
        assert image.size == (1280, 720)


def test_every_word_in_the_picture_is_at_least_14_pixels_high(tmp_path, monkeypatch):
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    figures = []
    save = Figure.savefig

    def savefig(figure, *args, **kwargs):
        figures.append(figure)
        save(figure, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", savefig)
    log.plot_losses([{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0}], tmp_path / "loss.png")
    (figure,) = figures
    words = [text for text in figure.findobj(Text) if text.get_text()]
    assert len(words) > 6
    assert min(text.get_fontsize() * figure.dpi / 72 for text in words) >= 14


def test_training_goes_on_when_nobody_reads_what_it_says(monkeypatch):
    class Gone(io.StringIO):
        def write(self, _):
            raise OSError(errno.EIO, "Input/output error")  # a terminal that was closed

    monkeypatch.setattr(sys, "stderr", Gone())
    with TrainingProgress(10, 0, quiet=False) as progress:
        progress.print_line("a line")
        progress.update(10, loss=1.0, targets_per_second=1.0)


@pytest.mark.parametrize(
    "line",
    [b"[" * 100_000, b'{"step": ' + b"9" * 400 + b"}", b'{"step": -1}', b'{"step": "1"}', b"5"],
    ids=["deep", "huge", "negative", "text", "number"],
)
def test_a_line_that_nobody_could_have_written_is_named(tmp_path, line):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1, "loss": 1.0}\n' + line + b"\n")
    with pytest.raises(InputError, match=r"metrics\.jsonl, line 2") as caught:
        remove_later_lines(path, 5)
    assert len(str(caught.value).splitlines()) == 2


def test_a_loss_that_is_no_number_leaves_a_gap():
    odd = [1.5, 2, None, "x", [], 10**400, True]
    steps, losses = log._loss_curve(
        [{"step": n, "loss": odd_loss} for n, odd_loss in enumerate(odd)], "loss"
    )
    assert steps == list(range(len(odd)))
    assert [loss for loss in losses if math.isfinite(loss)] == [1.5, 2.0, 1.0]
