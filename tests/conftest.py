"""What every test shares: one thread, a fixed seed, ragged batches, and PyTorch's own weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

import pytest
import torch
from torch import Tensor, nn

from regard.data import sources
from regard.data.batch import Ragged
from regard.layers import Attention, Block
from tests.commands import regard

__all__ = ["regard"]

torch.set_num_threads(1)  # the models here are too small to share between cores


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="session")
def _grammar_speaks_once() -> Iterator[None]:
    """A recipe's sentences are made once: 60,000 take seconds. Tests of the grammar call it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "grammar_splits", cache(sources.grammar_splits))
        yield


@pytest.fixture
def ragged() -> Callable[..., Ragged]:
    """Random sentences of given lengths. Every id occurs, 0 too: no id is special to a model."""

    def make(lengths: Sequence[int], vocab: int = 11, seed: int = 0) -> Ragged:
        generator = torch.Generator().manual_seed(seed)
        ids = torch.randint(vocab, (sum(lengths),), generator=generator)
        return Ragged(ids, tuple(lengths))

    return make


@pytest.fixture
def copy_attention() -> Callable[[Attention, nn.MultiheadAttention], None]:
    """Copies the weights of PyTorch's multi-head attention into ours."""
    return _copy_attention


@pytest.fixture
def copy_block() -> Callable[[Block, nn.Module], None]:
    """Copies the weights of PyTorch's encoder or decoder layer into ours."""

    def copy(ours: Block, theirs: nn.Module) -> None:
        _copy_attention(ours.self_attention, theirs.self_attn)
        norms = [theirs.norm1, theirs.norm2]
        if ours.cross_attention is not None:
            _copy_attention(ours.cross_attention, theirs.multihead_attn)
            norms.append(theirs.norm3)
        own = [norm for norm in (ours.self_norm, ours.cross_norm, ours.feed_norm) if norm]
        for mine, other in zip(own, norms, strict=True):
            with torch.no_grad():  # norms start as ones and zeros, which would hide a mix-up
                other.weight.uniform_(0.5, 1.5)
                other.bias.uniform_(-0.5, 0.5)
            mine.load_state_dict(other.state_dict())
        ours.feed_forward.into.load_state_dict(theirs.linear1.state_dict())
        ours.feed_forward.out.load_state_dict(theirs.linear2.state_dict())

    return copy


@torch.no_grad()
def _copy_attention(ours: Attention, theirs: nn.MultiheadAttention) -> None:
    dim = theirs.embed_dim
    theirs.in_proj_bias.uniform_(-0.5, 0.5)
    theirs.out_proj.bias.uniform_(-0.5, 0.5)
    ours.query.weight.copy_(theirs.in_proj_weight[:dim])
    ours.query.bias.copy_(theirs.in_proj_bias[:dim])
    ours.key_value.weight.copy_(theirs.in_proj_weight[dim:])
    ours.key_value.bias.copy_(theirs.in_proj_bias[dim:])
    ours.out.load_state_dict(theirs.out_proj.state_dict())


@pytest.fixture
def padding() -> Callable[[Sequence[int]], Tensor]:
    """PyTorch's key padding mask of some lengths, where True means "ignore"."""

    def make(lengths: Sequence[int]) -> Tensor:
        return torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]

    return make
