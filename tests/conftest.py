"""What every test shares: one thread, a fixed seed, ragged batches, and PyTorch's own weights."""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import hypothesis
import pytest
import torch
import typer.main
from torch import Tensor, nn

from regard.data import sources
from regard.data.text.pairs import Splits
from regard.inputs.arrays import Ragged
from regard.layers import Attention, Block
from tests.commands import regard
from tests.digits import digits_run

__all__ = ["digits_run", "regard"]

os.environ["REGARD_KERNELS"] = "never"  # tests/kernels/test_small_batches.py has the compiled ones
torch.set_num_threads(1)  # the models here are too small to share between cores
os.environ["OMP_NUM_THREADS"] = "1"  # of the commands that tests start: another test runs beside
hypothesis.settings.register_profile(
    "tests",
    deadline=None,  # a busy machine is no bug
    derandomize="CI" in os.environ,  # what is merged is judged by the same examples each time
)
hypothesis.settings.load_profile("tests")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole pages come first: begun last, one of them would keep a single process busy."""
    pages = ("tests/test_docs.py", "tests/test_examples.py")
    items.sort(key=lambda item: not item.nodeid.startswith(pages))


@pytest.fixture(autouse=True)
def _seed() -> None:
    # torch.manual_seed would also note the whole stack, in case there is a GPU later: a millisecond
    torch.default_generator.manual_seed(0)


@pytest.fixture(autouse=True, scope="session")
def _no_network() -> Iterator[None]:
    """Names are looked up nowhere outside of what a test makes itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("HF_HUB_CACHE", "no-cache-of-tests")
        yield


@pytest.fixture(autouse=True, scope="session")
def _made_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What many tests need: a recipe's sentences (60,000 take seconds) and typer's commands."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent  # of all workers
    real = sources.GENERATORS["grammar"]

    @cache
    def splits(*asked: int) -> Splits:
        kept = shared / f"grammar-{'-'.join(map(str, asked))}"
        with kept.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another worker may be making them
            if not kept.exists():
                kept.write_bytes(pickle.dumps(real(*asked)))
        return pickle.loads(kept.read_bytes())  # noqa: S301 (this run's own)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sources.GENERATORS, "grammar", splits)
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
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
        if hasattr(ours, "cross_attention"):
            _copy_attention(ours.cross_attention, theirs.multihead_attn)
            norms.append(theirs.norm3)
        own = [getattr(ours, sublayer.norm) for sublayer in ours.order]
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
