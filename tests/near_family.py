"""A family that Regard does not have, as its file would stand in `regard/models/families/`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from regard.models.config import DecoderConfig, Short, Sizes
from regard.models.families.family import Family, PublishedModel


class NearConfig(DecoderConfig):
    """A decoder whose tokens see few others; with a key of its own."""

    DEFAULTS: ClassVar[Short] = {"window": 4, "max_length": 48}
    SIZES: ClassVar[Sizes] = {"little": {"dim": 16, "heads": 2, "hidden": 24, "layers": 2}}
    family: Literal["near"] = "near"
    size: Literal["little"] | None = None
    gain: float = 0.5
    """What a matrix of its own, on top of the stack, is at first: so many times 1."""


def build(config: NearConfig, vocab: int) -> Any:
    """The shape that there is, with one matrix more."""
    import torch

    from regard.models.decoder import Decoder

    class Near(Decoder):
        def __init__(self) -> None:
            super().__init__(config, vocab)
            self.extra = torch.nn.Linear(config.dim, config.dim)
            self.extra.weight.data.copy_(config.gain * torch.eye(config.dim))

        def _top(self, ids: torch.Tensor, ctx: Any) -> torch.Tensor:
            return self.extra(super()._top(ids, ctx))

    return Near()


FAMILY = Family(
    NearConfig,
    build,
    task="generate",
    named={
        "near-little": PublishedModel(
            {"family": "near", "size": "little"}, vocab=300, lengths=(48,)
        )
    },
)
