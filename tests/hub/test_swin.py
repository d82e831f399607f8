"""Swin and Swin-V2 of transformers: in with the same outputs, also of odd images, and out again."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from regard.inputs.arrays import Dense
from regard.runs.load import load

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]
SIZES = {"image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [2, 2, 2],
         "num_heads": [2, 4, 4], "window_size": 4, "num_labels": 3}  # fmt: skip
IMAGES = [(32, 32), (37, 45), (33, 40)]
KINDS = {
    "v1": ("Swin", "ForImageClassification", {}),
    "v1-model": ("Swin", "Model", {"qkv_bias": False, "num_heads": [1, 2, 4]}),
    "v2": ("Swinv2", "ForImageClassification", {}),
    "v2-trained-smaller": (
        "Swinv2", "Model", {"pretrained_window_sizes": [3, 3, 2], "window_size": 6}
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
@torch.no_grad()
def test_theirs_go_in_and_out_with_the_same_outputs(name, tmp_path):
    import transformers

    kind, head, changes = KINDS[name]
    torch.manual_seed(0)
    model_class = getattr(transformers, f"{kind}{head}")
    theirs = model_class(getattr(transformers, f"{kind}Config")(**SIZES | changes)).eval()
    for parameter in theirs.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter))
    theirs.save_pretrained(tmp_path / "theirs")
    ours = load(tmp_path / "theirs")
    for height, width in IMAGES:
        pixels = torch.randn(2, 3, height, width)
        # a new one for each image: theirs remembers the windows of the first
        expected = model_class.from_pretrained(tmp_path / "theirs").eval()(pixels)
        if "logits" in expected:
            actual, wanted = ours.model(Dense(pixels)), expected.logits
        else:
            hidden = ours.model.hidden(Dense(pixels))
            pooled = ours.model.pooled(Dense(pixels), hidden)
            torch.testing.assert_close(pooled, expected.pooler_output, rtol=0, atol=1e-4)
            actual, wanted = hidden, expected.last_hidden_state.flatten(0, 1)
        torch.testing.assert_close(actual, wanted, rtol=0, atol=1e-4)
    ours.export(tmp_path / "again")
    before = load_file(tmp_path / "theirs" / "model.safetensors")
    after = load_file(tmp_path / "again" / "model.safetensors")
    if head == "Model":  # a model without a head is written with its prefix
        after = {key.partition(".")[2]: tensor for key, tensor in after.items()}
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    again = load(tmp_path / "again").model
    assert again.config == ours.model.config
