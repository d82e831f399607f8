"""PyTorch's Adam without the import of PyTorch's compiler."""

from __future__ import annotations

import inspect

import torch


class Adam(torch.optim.Adam):
    """The same computation as `torch.optim.Adam`, without importing PyTorch's compiler.

    PyTorch wraps these methods so that the compiler skips them, and the first call of a wrapper
    imports the compiler. That takes more than a second in each training process, although nothing
    is compiled. Here the wrappers are removed.
    """

    add_param_group = inspect.unwrap(torch.optim.Adam.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Adam.zero_grad)
    step = torch.no_grad()(inspect.unwrap(torch.optim.Adam.step))
