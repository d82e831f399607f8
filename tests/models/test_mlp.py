"""Linear models and the MLP: by their formulas, with taps, and what their config refuses."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from regard.cost.count import forward_flops
from regard.cost.formulas import activation_floats
from regard.errors import InputError
from regard.inputs.arrays import Dense
from regard.layers import Edit, Tap
from regard.models import MLPConfig, build, describe, rebuild
from regard.tasks.predict import in_units

CLASSES = ("a", "b", "c")


def model(**settings):
    return build(MLPConfig(features=5, **{"classes": CLASSES, **settings})).eval()


@pytest.fixture
def rows():
    return Dense(torch.randn(7, 5))


@torch.no_grad()
@pytest.mark.parametrize("hidden", [(), (6,), (6, 4)])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_it_is_pytorchs_own_layers(rows, hidden, activation):
    mlp = model(hidden=hidden, activation=activation)
    function = {"relu": nn.ReLU, "gelu": nn.GELU}[activation]
    widths, theirs = (5, *hidden), []
    for before, after in zip(widths, hidden, strict=False):
        theirs += [nn.Linear(before, after), function()]
    theirs.append(nn.Linear(widths[-1], 3))
    plain = nn.Sequential(*theirs)
    ours = [parameter for name, parameter in mlp.named_parameters()]
    for mine, other in zip(ours, plain.parameters(), strict=True):
        other.copy_(mine)
    torch.testing.assert_close(mlp(rows), plain(rows.values))
    flops = sum(forward_flops(mlp, 1, targets=1).values())
    assert flops == sum(2 * p.numel() for p in plain.parameters() if p.dim() == 2)
    assert activation_floats(mlp.config, 1, targets=1) is not None


@torch.no_grad()
def test_looking_changes_no_bit_and_edits_change_what_follows(rows):
    mlp = model(hidden=(6, 4))
    assert [*mlp.sites()] == ["encoder.0.residual", "encoder.1.residual"]
    tap = Tap("*")
    assert torch.equal(mlp.classify(rows, tap), mlp(rows))
    assert tap.records["encoder.0.residual"].shape[-1] == 6
    silent = Tap(edits=[Edit("encoder.1.residual", lambda x: torch.zeros_like(x))])
    assert torch.equal(mlp.classify(rows, silent), mlp.classes.bias.expand(7, 3))


@torch.no_grad()
def test_a_batch_is_its_rows_one_by_one_and_a_model_is_rebuilt(rows):
    mlp = model(numbers=("n",), classes=(), number_means=(3.0,), number_deviations=(2.0,))
    for i in range(7):
        torch.testing.assert_close(mlp(rows.take([i]))[0], mlp(rows)[i])
    numbers = in_units(mlp.config.head, mlp(rows))
    torch.testing.assert_close(torch.from_numpy(numbers), 3 + 2 * mlp(rows).double())
    again = rebuild(describe(mlp))
    assert again.config == mlp.config
    with pytest.raises(InputError, match="rows x 5 numbers"):
        mlp(Dense(torch.zeros(2, 4)))
    with pytest.raises(InputError, match="no head for classes"):
        mlp.classify(rows)


def test_settings_are_read_and_refused():
    assert MLPConfig(hidden=8).encoder.hidden == (8,)
    assert MLPConfig(size="linear").stacks == {"encoder": 0}
    assert MLPConfig(features=9, hidden=()).dim == 9
    for wrong in ({"hidden": (0,)}, {"activation": "gated_relu"}, {"layers": 2}, {"features": 0}):
        with pytest.raises(ValidationError):
            MLPConfig(**wrong)
