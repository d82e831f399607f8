"""Decodes many sequences in batches of similar length, and restores their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from regard.decode.config import DecodeConfig
from regard.decode.search import Hypothesis
from regard.layers import Tap


def decode_many(
    lengths: Sequence[int],
    decode_some: Callable[[list[int]], list[list[Hypothesis]]],
    config: DecodeConfig,
    *,
    rows: int,
    tap: Tap | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of each sequence, best first, in the order of the sequences.

    Sequences of similar length are decoded together, so that short ones rarely wait for a long one.

    Args:
        lengths: The length of each source or prompt.
        decode_some: Decodes the sequences with these indices.
        config: Search settings; each sequence has as many rows as beams or samples.
        rows: Maximum number of rows that are decoded together.
        tap: If it records, all sequences are decoded in one batch, in their order, since its
            records are those of a single batch.
        on_progress: Called after each batch with its number of sequences, to show progress.
    """
    order = sorted(range(len(lengths)), key=lambda index: lengths[index])
    size = max(1, rows // max(config.beam, config.n_best))
    if tap is not None and tap.sites:
        order, size = list(range(len(lengths))), max(1, len(lengths))
    hypotheses: dict[int, list[Hypothesis]] = {}
    for start in range(0, len(order), size):
        batch = order[start : start + size]
        hypotheses |= dict(zip(batch, decode_some(batch), strict=True))
        if on_progress is not None:
            on_progress(len(batch))
    return [hypotheses[index] for index in range(len(lengths))]
