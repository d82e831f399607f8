"""The optimizer and the learning rate schedule.

In: the model and the training config. Out: an optimizer, the learning rate of each step, and the
optimizer's state as named tensors for a checkpoint, with the checks when it is read back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.checkpoint.folder import check_tensors
from regard.errors import InputError
from regard.runtime.tensors import find_not_finite
from regard.train.adam import Adam
from regard.train.config import TrainConfig
from regard.train.muon import Muon, is_hidden_matrix

BYTES = 4
"""Bytes of a number: weights, gradients, moments and activations are 32-bit."""

BYTES_PER_PARAMETER = {"weights": BYTES, "gradients": BYTES, "moments": 2 * BYTES}
"""Bytes of memory for each parameter in training; moments are Adam's first and second."""


def learning_rate(step: int, config: TrainConfig, dim: int) -> float:
    """The learning rate of a step; the first step is 1.

    paper:     factor · dim^-0.5 · min(step^-0.5, step · warmup^-1.5)   (section 5.3)
    cosine:    linear warm-up to the peak, then half a cosine down to final_fraction of it
    constant:  linear warm-up, then the peak

    Example:
        >>> config = TrainConfig(schedule="constant", learning_rate=0.1, warmup=10)
        >>> [round(learning_rate(step, config, dim=8), 3) for step in (1, 5, 10, 99)]
        [0.01, 0.05, 0.1, 0.1]
    """
    warm = min(1.0, step / config.warmup) if config.warmup else 1.0
    if config.schedule == "paper":
        warmup = max(1, config.warmup)
        return config.learning_rate * dim**-0.5 * min(step**-0.5, step * warmup**-1.5)
    if config.schedule == "constant" or step <= config.warmup:
        return config.learning_rate * warm
    done = min(1.0, (step - config.warmup) / max(1, config.steps - config.warmup))
    cosine = 0.5 * (1 + math.cos(math.pi * done))
    return config.learning_rate * (config.final_fraction + (1 - config.final_fraction) * cosine)


def optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Builds Adam, AdamW (both fused) or Muon for the parameters that require gradients.

    Weight decay acts on tensors of two or more dimensions only, not on norms and biases. With
    `layer_decay`, each depth of the model has groups of its own, with a factor "scale" on the rate.
    """
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    hidden = [p for name, p in named if config.optimizer == "muon" and is_hidden_matrix(name, p)]
    hidden_ids = {id(p) for p in hidden}
    adam_parameters = [p for _, p in named if id(p) not in hidden_ids]
    scales = rate_scales(model, config.layer_decay)
    groups = [
        {"params": group, "weight_decay": decay, "scale": scale}
        for scale in sorted({1.0, *scales.values()}, reverse=True)
        for is_matrix, decay in ((True, config.weight_decay), (False, 0.0))
        if (
            group := [
                p for p in adam_parameters
                if (p.dim() > 1) == is_matrix and scales.get(id(p), 1.0) == scale
            ]
        )
        or scale == 1.0
    ]  # fmt: skip
    settings: dict[str, Any] = {
        "lr": config.learning_rate,
        "betas": config.betas,
        "eps": config.epsilon,
        "fused": True,
        "decoupled_weight_decay": config.optimizer != "adam",
    }
    if hidden:
        mixed: torch.dtype | None = getattr(model, "mixed", None)
        return Muon(groups, hidden, config.weight_decay, mixed, **settings)
    return Adam(groups, **settings)


def rate_scales(model: nn.Module, decay: float) -> dict[int, float]:
    """The factor on the learning rate of each parameter below the top, by its id.

    The final norm of the first stack and the heads have 1, the last block `decay`, the one below
    its square, and so on down to the embeddings.

    Args:
        model: A model of any family.
        decay: The value of `train.layer_decay`; with 1 there are no factors.
    """
    if decay == 1:
        return {}
    depths: list[list[nn.Module]] = model.depths()  # type: ignore[operator]
    top = len(depths) - 1
    return {
        id(parameter): decay ** (top - depth)
        for depth, modules in enumerate(depths)
        for module in modules
        for parameter in module.parameters()
    }


def _expected_state(name: str, parameter: nn.Parameter, kind: str) -> dict[str, Tensor]:
    """An optimizer's state of a parameter: tensors with the right names, shapes and types."""
    if kind == "muon" and is_hidden_matrix(name, parameter):
        return {"momentum": parameter}
    return {"step": torch.zeros(()), "exp_avg": parameter, "exp_avg_sq": parameter}


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state as named tensors: `optimizer.NAME.exp_avg` and so on."""
    tensors: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer.{name}.{key}"] = value
    return tensors


def check_optimizer(
    file: str, model: nn.Module, tensors: Mapping[str, Tensor], step: int, kind: str = "adamw"
) -> None:
    """Refuses optimizer state that does not fit the model, before PyTorch uses it.

    A fused update does not check shapes: with wrong ones it would write outside the tensors.

    Args:
        file: Name of the file, for error messages.
        model: The model to train.
        tensors: All tensors whose name begins with `optimizer.`. A parameter has either all
            tensors of its state or none.
        step: The checkpoint's step.
        kind: The optimizer, as `train.optimizer` names it.

    Raises:
        InputError: A tensor is missing, unknown, of a wrong shape or type, or has impossible values
            (NaN, infinite, a negative square, a wrong step).
    """
    all_expected: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        like = _expected_state(name, parameter, kind)
        expected = {f"optimizer.{name}.{key}": tensor for key, tensor in like.items()}
        if parameter.requires_grad and expected.keys() & tensors.keys():
            all_expected |= expected
    check_tensors(file, tensors, all_expected)
    for name, tensor in tensors.items():
        if name.endswith(".step"):
            count = tensor.item()
            if not (0 <= count <= step and count == int(count)):
                raise InputError(f"{file}: {name}", got=count, expected=f"a step from 0 to {step}")
        elif name.endswith(".exp_avg_sq") and not bool((tensor >= 0).all()):
            raise InputError(f"{file}: {name}", got="negative numbers", expected="squares")
        if find_not_finite({name: tensor}):
            raise InputError(f"{file}: {name}", got="nan or inf", expected="finite numbers")


def parameters_without_state(model: nn.Module, tensors: Mapping[str, Tensor]) -> list[str]:
    """The names of trainable parameters for which there is no optimizer state."""
    names_with_state = {name.rpartition(".")[0] for name in tensors}
    learning = [name for name, p in model.named_parameters() if p.requires_grad]
    return [name for name in learning if f"optimizer.{name}" not in names_with_state]


def restore_optimizer(
    model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """Restores the optimizer's state from named tensors that `check_optimizer` has accepted."""
    state: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        name, _, field = key.removeprefix("optimizer.").rpartition(".")
        state.setdefault(name, {})[field] = tensor
    for name, parameter in model.named_parameters():
        if name in state:
            optimizer.state[parameter] = {
                key: value.clone().to(parameter.device) for key, value in state[name].items()
            }
