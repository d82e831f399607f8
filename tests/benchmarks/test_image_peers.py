"""timm as a peer: with the same weights it computes what ours computes; no torchvision anywhere."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch

from benchmarks.measure.images import images_work
from benchmarks.peers import timm_vit
from regard.hub.folder import read_model
from regard.inputs.arrays import Dense

SCRIPT = """
import sys, torch
from benchmarks.peers.timm_vit import build
model = build(sys.argv[1]).eval()
torch.manual_seed(0)
with torch.no_grad():
    torch.save(model(torch.randn(2, 3, 16, 16)), sys.argv[2])
"""


def test_torchvision_is_not_installed_where_transformers_is():
    assert find_spec("torchvision") is None, "it breaks the image processors of transformers"


@pytest.mark.slow
def test_timm_computes_what_ours_computes(tmp_path):
    if not (timm_vit.FOLDER / "timm").is_dir():
        pytest.skip("timm is not installed: make bench does it")
    _, work = images_work(tmp_path, quick=True)
    path = tmp_path / "logits.pt"
    subprocess.run([sys.executable, "-c", SCRIPT, work.timm, str(path)], check=True)
    torch.manual_seed(0)
    ours = read_model(tmp_path / "timm-B")
    with torch.no_grad():
        expected = ours(Dense(torch.randn(2, 3, 16, 16)))
    torch.testing.assert_close(torch.load(path), expected, rtol=0, atol=1e-4)
