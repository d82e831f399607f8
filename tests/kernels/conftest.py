"""What several tests of kernels need."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(params=[1, 3])
def _threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)
