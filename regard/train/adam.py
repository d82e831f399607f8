"""Adam, as torch has it."""

from __future__ import annotations

import inspect

import torch


class Adam(torch.optim.Adam):
    """Torch's Adam, the same computation, without importing torch's compiler.

    Torch wraps these methods so that its compiler leaves them alone, and the first call imports the
    compiler for that: more than a second of each process that trains, though nothing is compiled.
    """

    add_param_group = inspect.unwrap(torch.optim.Adam.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Adam.zero_grad)
    step = torch.no_grad()(inspect.unwrap(torch.optim.Adam.step))
