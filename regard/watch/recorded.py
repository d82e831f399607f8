"""One call of a layer as a watch keeps it, and the checks that calls continue each other.

In: a call and what was recorded of it. Out: a `RecordedCall`; or an error, if the steps of a
`generate` do not belong to one text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import InputError
from regard.layers import Tap
from regard.layers.tap.product import Records
from regard.watch.call import Call


@dataclass(frozen=True)
class RecordedCall:
    """The recording of one call of a layer.

    Attributes:
        records: The recorded tensors, by site.
        shape: The shape of the recorded weights: (batch, heads, query, key).
        queries: The number of queries of the call.
        keys: The number of keys of the call.
        newest: The last key of the first head (batch, head_dim), to recognise a row later.
        before: The last key of the first head that came from the cache; None without a cache.
    """

    records: Records
    shape: tuple[int, int, int, int]
    queries: int
    keys: int
    newest: Tensor
    before: Tensor | None

    @classmethod
    def of(cls, call: Call, records: Records, wanted: Tap) -> RecordedCall:
        """The recording of a call, with what is needed to join it with other steps."""
        (batch, heads, queries, _), keys = call.q.shape, call.k.shape[2]
        head_count = heads if wanted.heads is None else len(wanted.heads)
        query_count = queries if wanted.queries is None or queries == 1 else len(wanted.queries)
        shape = batch, head_count, query_count, keys
        first = call.k[:, 0].detach()  # (batch, key, head_dim)
        before = first[:, keys - queries - 1].cpu().clone() if keys > queries else None
        return cls(records, shape, queries, keys, first[:, -1].cpu().clone(), before)

    def before_at(self, rows: int | slice) -> Tensor | None:
        """The rows `rows` of `before`; None if there is no earlier key."""
        return None if self.before is None else self.before[rows]


def hypothesis_rows(rows: Sequence[int] | Tensor) -> list[int]:
    """The rows of a hypothesis up to its end, after which `generate` writes -1."""
    return [int(row) for row in rows if row >= 0]


def check_continues(
    layer: str, last: RecordedCall, call: RecordedCall, newest: Tensor, before: Tensor | None
) -> None:
    """Reject two passes if the second does not continue the first.

    Args:
        layer: The layer's name.
        last: The layer's call in one pass.
        call: Its call in the next pass.
        newest: The last key of `last`, of the rows to be joined.
        before: The last key from the cache in `call`, of the rows to be joined.
    """
    grew = call.keys == last.keys + call.queries
    slid = call.queries == 1 and call.keys < last.keys and before is not None
    stayed = call.keys == last.keys and 1 in (call.queries, last.queries)  # static or sliding cache
    if not (grew or slid or stayed) or len(last.newest) != len(call.newest):
        what = f"the passes of {layer} do not continue each other"
        got = f"{call.queries} queries and {call.keys} keys after {last.keys} keys"
        fix = "use one `with` for each, or seen.steps"
        raise InputError(what, got=got, expected="one generate", fix=fix)
    if not stayed:
        check_same(newest, before)


def check_same(newest: Tensor, before: Tensor | None) -> None:
    """Reject a cache whose last key is not that of the previous step: beams were reordered."""
    if before is not None and not torch.equal(newest, before):
        got = "beams, which changed their rows"
        expected = "rows, the row of one hypothesis at each step"
        fix = "pass rows=out.beam_indices[0] (see docs/watch.md)"
        raise InputError("joined steps", got=got, expected=expected, fix=fix)


def pad_keys(weights: Tensor, shift: int, keys: int) -> Tensor:
    """Pad the weights with zeros to `keys` columns, their first column at `shift`."""
    return torch.nn.functional.pad(weights, (shift, keys - shift - weights.shape[3]))
