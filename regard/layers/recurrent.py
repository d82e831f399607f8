"""Recurrent layers: the state h after each token is computed from the token and the state before.

    rnn    h = tanh(W x + U h)                                                       (Elman 1990)
    gru    r = σ(W_r x + U_r h)   z = σ(W_z x + U_z h)   n = tanh(W_n x + r ⊙ U_n h)
           h = (1 - z) ⊙ n + z ⊙ h                                           (Cho et al. 2014)
    lstm   i, f, o = σ(W x + U h)   g = tanh(W_g x + U_g h)
           c = f ⊙ c + i ⊙ g        h = o ⊙ tanh(c)             (Hochreiter & Schmidhuber 1997)

PyTorch's kernels compute a whole layer at once, for sequences of different lengths without padding.
The gates can be recomputed from x and the states, so recording them with a tap changes nothing. The
explicit loop over time (`openly`) runs only if a gate is edited, if a sequence is empty, or on
devices without such kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from regard.errors import InputError
from regard.layers.context import Context
from regard.layers.layout import Layout
from regard.layers.mixer import Mixer
from regard.layers.tap.tap import Tap

CELLS: dict[str, Any] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
GATES = {
    "rnn": ("state",),
    "gru": ("reset", "update", "candidate", "state"),
    "lstm": ("input", "forget", "candidate", "output", "cell", "state"),
}
"""The tap sites inside a cell; `state` is h after the token."""
FUSED = ("cpu", "cuda", "mps")
"""Devices that have a kernel for a whole layer."""
See = Callable[[str, Tensor], Tensor]
"""Called with the name and value of a gate; returns the value to use, which a tap may edit."""


def gates_of(cell: str, from_x: Tensor, from_h: Tensor, see: See) -> dict[str, Tensor]:
    """The gates of a cell from W x and U h, (…, gates · width) each, in PyTorch's order.

    Returns:
        Name -> value of the gates that `turn` needs, (…, width) each.
    """
    if cell == "rnn":
        return {"candidate": (from_x + from_h).tanh()}
    if cell == "gru":
        (x_r, x_z, x_n), (h_r, h_z, h_n) = from_x.chunk(3, -1), from_h.chunk(3, -1)
        reset = see("reset", (x_r + h_r).sigmoid())
        update = see("update", (x_z + h_z).sigmoid())
        return {"update": update, "candidate": see("candidate", (x_n + reset * h_n).tanh())}
    into, forget, candidate, out = (from_x + from_h).chunk(4, -1)
    return {
        "input": see("input", into.sigmoid()),
        "forget": see("forget", forget.sigmoid()),
        "candidate": see("candidate", candidate.tanh()),
        "output": see("output", out.sigmoid()),
    }


def turn(cell: str, gates: dict[str, Tensor], held: tuple[Tensor, ...], see: See) -> Any:
    """The state of a cell after a token, from its gates and the state before: (h,) or (h, c)."""
    if cell == "rnn":
        return (see("state", gates["candidate"]),)
    if cell == "gru":
        update = gates["update"]
        return (see("state", (1 - update) * gates["candidate"] + update * held[0]),)
    inner = see("cell", gates["forget"] * held[1] + gates["input"] * gates["candidate"])
    return see("state", gates["output"] * inner.tanh()), inner


class Recurrent(Mixer):
    """One recurrent layer over packed sequences.

    Args:
        dim: Width of the input and the output.
        name: The layer's name, such as `decoder.2.recurrent`.
        cell: `rnn`, `gru` or `lstm`.
        both_ways: Bidirectional: half of the width reads each direction (for encoders).
        bias: Whether the projections have a bias.
        beside: Width of a further input (a decoder's context vector), concatenated after x.

    Example:
        >>> from regard.layers import plain_context
        >>> Recurrent(8, cell="lstm")(torch.randn(5, 8), plain_context((2, 3))).shape
        torch.Size([5, 8])
    """

    def __init__(
        self,
        dim: int,
        name: str = "recurrent",
        *,
        cell: str = "gru",
        both_ways: bool = False,
        bias: bool = True,
        beside: int = 0,
    ) -> None:
        super().__init__()
        if cell not in CELLS:
            raise InputError("cell", got=cell, expected=f"one of {', '.join(CELLS)}")
        if both_ways and dim % 2:
            raise InputError("both ways", got=f"dim {dim}", expected="an even one, half for each")
        self.name, self.cell, self.has_state = name, cell, not both_ways
        self.width = dim // 2 if both_ways else dim
        self.directions = ("", "_reverse") if both_ways else ("",)
        self.cells = CELLS[cell](
            dim + beside, self.width, batch_first=True, bidirectional=both_ways, bias=bias
        )

    def start(self, rows: int, like: Tensor) -> tuple[Tensor, ...]:
        """The initial state: zeros (rows, width), twice for an LSTM."""
        zeros = like.new_zeros(rows, self.width)
        return (zeros, zeros) if self.cell == "lstm" else (zeros,)

    def sites(self) -> dict[str, int]:
        """The tap sites: the output, and the gates; the second direction's are in `.backward`."""
        inside = [f"{place}.{gate}" for place in self._places() for gate in GATES[self.cell]]
        return {self.name: 0, **dict.fromkeys(inside, 0)}

    def _places(self) -> list[str]:
        return [self.name + (".backward" if way else "") for way in self.directions]

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Packed tokens (tokens, dim + beside) -> (tokens, dim)."""
        cache, tap, layout = ctx.cache, ctx.tap, ctx.layout
        if cache is not None and not self.has_state:
            raise InputError(self.name, got="a token at a time", expected="whole texts: both ways")
        held = None if cache is None else cache.states[self.slot]
        edited = tap is not None and any(tap.edits_at(site) for site in [*self.sites()][1:])
        fused = x.device.type in FUSED and 0 not in layout.lengths  # kernels reject empty texts
        if edited or not fused:
            out, after = self.openly(x, layout, held, tap)
        else:
            out, after = self._at_once(x, layout, held)
            if tap is not None and any(tap.wants(site) for site in [*self.sites()][1:]):
                self._show(x, out, layout, held, tap)
        if cache is not None:
            cache.states[self.slot] = after
        return ctx.visit(self.name, out)

    def _at_once(
        self, x: Tensor, layout: Layout, held: tuple[Tensor, ...] | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Calls PyTorch's kernel: the output (tokens, dim), and the final state of each row."""
        before: Any = None if held is None else tuple(each[None] for each in held)
        if before is not None and self.cell != "lstm":
            (before,) = before
        if layout.even:
            out, last = self.cells(x.view(layout.batch, layout.longest, -1), before)
            out = out.reshape(-1, out.shape[-1])
        else:
            time = layout.in_time
            packed = PackedSequence(x[time.tokens], time.counts, time.rows, time.rows_back)
            out, last = self.cells(packed, before)
            out = out.data[time.tokens_back]
        last = last if self.cell == "lstm" else (last,)
        return out, tuple(each[0] for each in last)

    def openly(
        self,
        x: Tensor,
        layout: Layout,
        held: tuple[Tensor, ...] | None = None,
        tap: Tap | None = None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Computes the same as `_at_once` in a loop over time; a tap may edit the gates."""
        rows, first = layout.pad(x), held or self.start(layout.batch, x)
        here = torch.arange(layout.longest) < torch.tensor(layout.lengths)[:, None]
        here = here[..., None].to(x.device)  # (batch, length, 1)
        outs, after = [], first
        for way, place in zip(self.directions, self._places(), strict=True):
            through = Gates(tap, place, layout, backward=bool(way))
            from_x = through.turned(self._product("ih", way, rows))
            after, states = first, []
            for time in range(layout.longest):
                from_h = self._product("hh", way, after[0])
                gates = gates_of(self.cell, from_x[:, time], from_h, through.see)
                new = turn(self.cell, gates, after, through.see)
                pairs = zip(new, after, strict=True)
                after = tuple(torch.where(here[:, time], now, old) for now, old in pairs)
                states.append(after[0])
                through.next()
            outs.append(
                through.turned(torch.stack(states, 1)) if states else rows[..., : self.width]
            )
            through.record()
        return layout.unpad(torch.cat(outs, -1)), after

    def _product(self, kind: str, way: str, x: Tensor) -> Tensor:
        """W x (`ih`) or U h (`hh`), plus its bias."""
        bias = getattr(self.cells, f"bias_{kind}_l0{way}") if self.cells.bias else None
        return F.linear(x, getattr(self.cells, f"weight_{kind}_l0{way}"), bias)

    def _show(
        self, x: Tensor, out: Tensor, layout: Layout, held: tuple[Tensor, ...] | None, tap: Tap
    ) -> None:
        """Records the gates, recomputed from x and the kernel's output for all tokens at once."""
        rows, first = layout.pad(x), held or self.start(layout.batch, x)
        states = layout.pad(out).chunk(len(self.directions), -1)
        for way, place, state in zip(self.directions, self._places(), states, strict=True):
            through = Gates(tap, place, layout, backward=bool(way))
            state = through.turned(state)
            before = torch.cat((first[0][:, None], state[:, :-1]), 1)  # h before each token
            from_x = through.turned(self._product("ih", way, rows))
            gates = gates_of(self.cell, from_x, self._product("hh", way, before), through.keep)
            through.keep("state", state)
            if self.cell == "lstm":
                inner, found = first[1], []
                for time in range(layout.longest):
                    inner = gates["forget"][:, time] * inner
                    inner = inner + (gates["input"] * gates["candidate"])[:, time]
                    found.append(inner)
                through.keep("cell", torch.stack(found, 1))
            through.record()


class Gates:
    """Collects the gates of one direction for a tap, (batch, length, width) each.

    In the loop over time, an edit gets a gate's values of all tokens so far, followed by zeros, in
    the shape of a record; only its result for the present token is used.
    """

    def __init__(self, tap: Tap | None, name: str, layout: Layout, *, backward: bool) -> None:
        self.tap, self.name, self.layout = tap, name, layout
        self.seen: dict[str, list[Tensor]] = {}
        self.whole: dict[str, Tensor] = {}
        self.time, self.order = 0, None
        if backward:  # reverse the tokens of each row; padding stays at the end
            place, length = torch.arange(layout.longest), torch.tensor(layout.lengths)[:, None]
            self.order = torch.where(place < length, length - 1 - place, place).to(layout.device)

    def turned(self, rows: Tensor) -> Tensor:
        """Reverses rows (batch, length, width) for the backward direction; its own inverse."""
        if self.order is None:
            return rows
        return rows.gather(1, self.order[..., None].expand_as(rows))

    def see(self, gate: str, value: Tensor) -> Tensor:
        """Edits and stores the value of a gate at the present token: (batch, width)."""
        site, seen = f"{self.name}.{gate}", self.seen.setdefault(gate, [])
        edits = [] if self.tap is None else self.tap.edits_at(site)
        if edits:
            rest = [torch.zeros_like(value)] * (self.layout.longest - self.time - 1)
            rows = self.turned(torch.stack([*seen, value, *rest], 1))
            for edit in edits:
                rows = edit.change(rows)
            value = self.turned(rows)[:, self.time]
        seen.append(value)
        return value

    def next(self) -> None:
        """Moves on to the next token."""
        self.time += 1

    def keep(self, gate: str, rows: Tensor) -> Tensor:
        """Stores the values of a gate at all tokens: (batch, length, width)."""
        self.whole[gate] = rows
        return rows

    def record(self) -> None:
        """Records the gates that the tap asks for, with zeros as padding."""
        whole = self.whole | {gate: torch.stack(seen, 1) for gate, seen in self.seen.items()}
        for gate, rows in whole.items():
            site = f"{self.name}.{gate}"
            if self.tap is not None and self.tap.wants(site):
                rows = self.layout.pad(self.layout.unpad(self.turned(rows)))
                self.tap.records[site] = rows.detach().clone()
