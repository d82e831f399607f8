"""`--device` and `--dtype` of every command that runs a model, and `device=` in Python."""

from __future__ import annotations

import json

import pytest
import torch

import regard as package
from regard.errors import InputError
from regard.tasks.specs import every_verb
from tests.commands import is_refused

RUNNING = [*every_verb(), "train", "eval", "look", "words", "heads", "demo"]
no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@pytest.mark.parametrize("command", RUNNING)
def test_every_command_that_runs_a_model_takes_a_device(regard, command):
    assert "--device" in regard(command, "--help").out


@no_gpu
@pytest.mark.parametrize("option", [("--device", "cuda"), ("--device", "abacus")])
def test_a_device_that_is_not_here_is_refused(regard, option, tmp_path):
    for words in (("translate", "tiny/translate", "A dog."), ("train", "tiny/copy", "-o", "run")):
        result = regard(*words, *option)
        is_refused(result, "--device: got", "expected auto, or a device of this machine: cpu")
    assert not (tmp_path / "run").exists()


@no_gpu
def test_mixed_precision_without_a_gpu_is_refused(regard):
    result = regard("translate", "tiny/translate", "A dog.", "--dtype", "bf16")
    is_refused(result, "--dtype: got bf16 on cpu, expected fp32", "mixed precision is for cuda")


def test_the_cpu_can_be_named(regard):
    said = regard("translate", "tiny/translate", "The animal was tired.", "--device", "cpu")
    assert said.out == "Das Tier war müde.\n"


def test_env_says_which_devices_there_are(regard):
    assert json.loads(regard("env", "--json").out)["devices"].startswith("cpu")


def test_a_pipeline_says_where_it_is_and_can_be_moved():
    pipeline = package.load("tiny/translate", device="cpu")
    assert pipeline.device == torch.device("cpu")
    assert pipeline.to("cpu") is pipeline
    moved = package.load("tiny/translate", device=torch.device("cpu"))
    assert moved.translate("The dog sleeps.") == pipeline.translate("The dog sleeps.")
    assert pipeline.to(torch.device("meta")).device.type == "meta"


def test_eight_bits_are_for_the_cpu():
    eight = package.load("tiny/translate", precision="int8")
    assert eight.device.type == "cpu"
    with pytest.raises(InputError, match="precision int8: got meta, expected the CPU"):
        eight.to(torch.device("meta"))
    there = package.load("tiny/translate", device="cpu").to(torch.device("meta"))
    with pytest.raises(InputError, match="precision int8: got a model on meta"):
        there.quantised()


def test_word_vectors_are_trained_on_the_cpu(tmp_path):
    with pytest.raises(InputError, match="device: got mps, expected auto or cpu, for word vectors"):
        package.train("own/vectors", tmp_path / "run", device="mps", data={"files": "none.txt"})
