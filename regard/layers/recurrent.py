"""Recurrent layers: the state h after each token is computed from the token and the state before.

    rnn         h = tanh(W x + U h)                                                  (Elman 1990)
    gru         r = σ(W_r x + U_r h)   z = σ(W_z x + U_z h)   n = tanh(W_n x + r ⊙ (U_n h))
                h = (1 - z) ⊙ n + z ⊙ h                            (Cho et al. 2014, as in PyTorch)
    gru_before  the same r and z       n = tanh(W_n x + U_n (r ⊙ h))
                h = (1 - z) ⊙ h + z ⊙ n                                      (Chung et al. 2014)
    lstm        i, f, o = σ(W x + U h)   g = tanh(W_g x + U_g h)
                c = f ⊙ c + i ⊙ g        h = o ⊙ tanh(c)        (Hochreiter & Schmidhuber 1997)

Every W x and U h also has a bias. In `gru_before` the reset gate acts before the matrix U_n, not
after it, and z is the share of the new candidate, not of the old state.

PyTorch's kernels compute a whole layer at once, for sequences of different lengths without padding.
The gates can be recomputed from x and the states, so recording them with a tap changes nothing. The
explicit loop over time (`step_by_step`) runs if a gate is edited, if a sequence is empty, for
`gru_before`, and on devices without such kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from regard.errors import InputError
from regard.kernels.linear import linear
from regard.layers.context import Context
from regard.layers.layout import Layout
from regard.layers.mixer import Mixer
from regard.layers.tap.tap import Tap
from regard.layers.time_order import InTime

CELLS: dict[str, Any] = {"rnn": nn.RNN, "gru": nn.GRU, "gru_before": nn.GRU, "lstm": nn.LSTM}
"""PyTorch's modules, which hold the weights of each cell; `gru_before` uses only the weights."""
GATES = {
    "rnn": ("state",),
    "gru": ("reset", "update", "candidate", "state"),
    "gru_before": ("reset", "update", "candidate", "state"),
    "lstm": ("input", "forget", "candidate", "output", "cell", "state"),
}
"""The tap sites inside a cell; `state` is h after the token."""
FUSED = ("cpu", "cuda", "mps")
"""Devices that have a kernel for a whole layer."""
DIRECTIONS = ("forward", "backward", "both", "apart")
GateHook = Callable[[str, Tensor], Tensor]
"""Called with the name and value of a gate; returns the value to use, which a tap may edit."""
States = tuple[Tensor, ...]
"""The state of a cell, (batch, width) each: h, and for an LSTM c."""
Hidden = tuple[Tensor, Tensor | None]
"""U of all gates, (gates · width, width), and its bias, (gates · width,)."""


def gates_of(
    cell: str, from_x: Tensor, h: Tensor, hidden: Hidden, see: GateHook
) -> dict[str, Tensor]:
    """The gates of a cell, in PyTorch's order.

    Args:
        cell: A key of `CELLS`.
        from_x: W x with its bias, (…, gates · width).
        h: The state before the token, (…, width).
        hidden: U and its bias.
        see: Called with each gate.

    Returns:
        Name -> value of the gates that `cell_step` needs, (…, width) each.
    """
    if cell == "gru_before":
        return _gates_before(from_x, h, hidden, see)
    from_h = linear(h, *hidden) if h.dim() == 2 else F.linear(h, *hidden)  # U h
    if cell == "rnn":
        return {"candidate": (from_x + from_h).tanh()}
    if cell == "gru":
        parts = [2 * h.shape[-1], h.shape[-1]]  # r and z together, n
        (x_rz, x_n), (h_rz, h_n) = torch.split(from_x, parts, -1), torch.split(from_h, parts, -1)
        reset, update = (x_rz + h_rz).sigmoid().chunk(2, -1)
        reset, update = see("reset", reset), see("update", update)
        return {"update": update, "candidate": see("candidate", (x_n + reset * h_n).tanh())}
    into, forget, candidate, out = (from_x + from_h).chunk(4, -1)
    return {
        "input": see("input", into.sigmoid()),
        "forget": see("forget", forget.sigmoid()),
        "candidate": see("candidate", candidate.tanh()),
        "output": see("output", out.sigmoid()),
    }


def _gates_before(from_x: Tensor, h: Tensor, hidden: Hidden, see: GateHook) -> dict[str, Tensor]:
    """The gates of `gru_before`: U_n is multiplied with r ⊙ h, so it needs r first."""
    parts = [2 * h.shape[-1], h.shape[-1]]
    gates, candidate = torch.split(hidden[0], parts)  # U_r and U_z together, U_n
    biases = (None, None) if hidden[1] is None else torch.split(hidden[1], parts)
    (x_r, x_z, x_n), (h_r, h_z) = from_x.chunk(3, -1), F.linear(h, gates, biases[0]).chunk(2, -1)
    reset = see("reset", (x_r + h_r).sigmoid())
    update = see("update", (x_z + h_z).sigmoid())
    from_h = F.linear(reset * h, candidate, biases[1])  # U_n (r ⊙ h)
    return {"update": update, "candidate": see("candidate", (x_n + from_h).tanh())}


def cell_step(cell: str, gates: dict[str, Tensor], before: States, see: GateHook) -> Any:
    """The state of a cell after a token, from its gates and the state before: (h,) or (h, c)."""
    if cell == "rnn":
        return (see("state", gates["candidate"]),)
    if cell == "gru":
        update = gates["update"]
        return (see("state", (1 - update) * gates["candidate"] + update * before[0]),)
    if cell == "gru_before":
        update = gates["update"]
        return (see("state", (1 - update) * before[0] + update * gates["candidate"]),)
    inner = see("cell", gates["forget"] * before[1] + gates["input"] * gates["candidate"])
    return see("state", gates["output"] * inner.tanh()), inner


class Direction(NamedTuple):
    """One direction in which a layer reads: where its weights are, and how its gates are named."""

    cells: str  # the layer's attribute that holds PyTorch's module
    suffix: str  # the end of the names of its weights in that module
    name: str  # tap sites are `name.gate`
    backward: bool  # whether it reads from the last token to the first


class Recurrent(Mixer):
    """One recurrent layer over packed sequences.

    Args:
        dim: Width of the input and the output.
        name: The layer's name, such as `decoder.2.recurrent`.
        cell: `rnn`, `gru`, `gru_before` or `lstm`.
        direction: `forward`: from the first token to the last; `backward`: from the last to the
            first; `both`: half of the output's width for each, and each reads all of the input;
            `apart`: two layers beside each other, of which each reads and writes its own half of
            the width, forward the first one (ELMo). In decoding only the forward half of `apart` is
            computed; the other one is 0.
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
        direction: str = "forward",
        bias: bool = True,
        beside: int = 0,
    ) -> None:
        super().__init__()
        if cell not in CELLS:
            raise InputError("cell", got=cell, expected=f"one of {', '.join(CELLS)}")
        if direction not in DIRECTIONS:
            expected = f"one of {', '.join(DIRECTIONS)}"
            raise InputError("direction", got=direction, expected=expected)
        halves = direction in ("both", "apart")
        if halves and dim % 2:
            expected = "an even dim: half for each direction"
            raise InputError("both ways", got=f"dim {dim}", expected=expected)
        self.name, self.cell, self.direction = name, cell, direction
        self.has_state = direction in ("forward", "apart")
        self.width, self.input_width = dim // 2 if halves else dim, dim + beside
        inputs = self.width if direction == "apart" else dim + beside
        options = {"batch_first": True, "bidirectional": direction == "both", "bias": bias}
        self.cells = CELLS[cell](inputs, self.width, **options)
        forward = Direction("cells", "", name, backward=False)
        backward = Direction("cells", "", f"{name}.backward", backward=True)
        self.directions = [backward if direction == "backward" else forward]
        if direction == "both":
            self.directions.append(backward._replace(suffix="_reverse"))
        if direction == "apart":
            self.backward_cells = CELLS[cell](inputs, self.width, **options)
            self.directions.append(backward._replace(cells="backward_cells"))

    def start(self, rows: int, like: Tensor) -> States:
        """The initial state: zeros (rows, width), twice for an LSTM."""
        zeros = like.new_zeros(rows, self.width)
        return (zeros, zeros) if self.cell == "lstm" else (zeros,)

    def sites(self) -> dict[str, int]:
        """The tap sites: the output, and the gates; backward gates are in `.backward`."""
        inside = [f"{d.name}.{gate}" for d in self.directions for gate in GATES[self.cell]]
        return {self.name: 0, **dict.fromkeys(inside, 0)}

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Packed tokens (tokens, dim + beside) -> (tokens, dim)."""
        ctx.check(self, x)
        cache, tap, layout = ctx.cache, ctx.tap, ctx.layout
        if cache is not None and not self.has_state:
            raise InputError(
                self.name, got="one token at a time", expected="whole texts, as it reads backward"
            )
        before = None if cache is None else cache.states[self.slot]
        directions = self.directions if cache is None else self.directions[:1]
        edited = tap is not None and any(tap.edits_at(site) for site in [*self.sites()][1:])
        fused = self.cell != "gru_before" and x.device.type in FUSED
        if edited or not fused or 0 in layout.lengths:  # kernels reject empty texts
            out, after = self.step_by_step(x, layout, before, tap, directions)
        else:
            out, after = self._run_kernels(x, layout, before, directions)
            if tap is not None and any(tap.wants(site) for site in [*self.sites()][1:]):
                self._record_gates(x, out, layout, before, tap, directions)
        if len(directions) < len(self.directions):
            out = torch.cat((out, torch.zeros_like(out)), 1)  # the backward half
        if cache is not None:
            cache.states[self.slot] = after
        return ctx.visit(self.name, out)

    def _inputs(self, x: Tensor) -> list[Tensor]:
        """The input of each direction: x itself, or a half of it for each."""
        if self.direction == "apart":
            return list(torch.split(x, self.width, 1))  # (tokens, width) each
        return [x] * len(self.directions)

    def _run_kernels(
        self, x: Tensor, layout: Layout, before: States | None, directions: list[Direction]
    ) -> tuple[Tensor, States]:
        """Calls PyTorch's kernels: the output (tokens, dim), and the final state of each row."""
        if self.direction == "both":  # one kernel for both
            return self._run_kernel(directions[0], x, layout, before)
        inputs = self._inputs(x)[: len(directions)]
        results = [
            self._run_kernel(direction, part, layout, before)
            for direction, part in zip(directions, inputs, strict=True)
        ]
        outs = [out for out, _ in results]
        return outs[0] if len(outs) == 1 else torch.cat(outs, 1), results[0][1]

    def _run_kernel(
        self, direction: Direction, x: Tensor, layout: Layout, before: States | None
    ) -> tuple[Tensor, States]:
        """Calls PyTorch's kernel of one direction: output (tokens, width), and final state."""
        cells, backward = getattr(self, direction.cells), direction.backward
        initial: Any = None if before is None else tuple(state[None] for state in before)
        if initial is not None and self.cell != "lstm":
            (initial,) = initial
        if layout.even and not backward:
            out, final = cells(x.view(layout.batch, layout.longest, -1), initial)
            out = out.reshape(-1, out.shape[-1])
        else:
            time = layout.backward_in_time if backward else layout.in_time
            packed = PackedSequence(x[time.tokens], time.counts, time.rows, time.rows_back)
            out, final = cells(packed, initial)
            out = out.data[time.tokens_back]
        final = final if self.cell == "lstm" else (final,)
        return out, tuple(state[0] for state in final)

    def step_by_step(
        self,
        x: Tensor,
        layout: Layout,
        before: States | None = None,
        tap: Tap | None = None,
        directions: list[Direction] | None = None,
    ) -> tuple[Tensor, States]:
        """Computes the same as `_run_kernels` in a loop over time; a tap may edit the gates.

        At each time the loop computes only the sequences that have a token there.
        """
        directions = self.directions if directions is None else directions
        initial = before or self.start(layout.batch, x)
        results = []
        for direction, part in zip(directions, self._inputs(x), strict=False):
            time = layout.backward_in_time if direction.backward else layout.in_time
            gates = Gates(tap, direction.name, layout, layout.slots[time.tokens])
            hook = no_edit if tap is None else gates.see
            results.append(self._loop(direction, part, time, initial, hook))
            gates.record()
        return torch.cat([out for out, _ in results], 1), results[0][1]

    def _loop(
        self, direction: Direction, x: Tensor, time: InTime, initial: States, see: GateHook
    ) -> tuple[Tensor, States]:
        """One direction of `step_by_step`: its output (tokens, width), and each row's final state.

        Sequences are sorted by length, so those that have a token at a time are the first rows.
        """
        hidden = self._weights("hh", direction)
        from_x = F.linear(x, *self._weights("ih", direction))[time.tokens]  # (token, gates · width)
        state = tuple(h[time.rows] for h in initial)  # (batch, width) each
        states = [x.new_zeros(0, self.width)]
        for from_x_t in torch.split(from_x, time.counts.tolist()):
            count = len(from_x_t)
            before = tuple(h[:count] for h in state)
            gates = gates_of(self.cell, from_x_t, before[0], hidden, see)
            after = cell_step(self.cell, gates, before, see)
            states.append(after[0])
            pairs = zip(after, state, strict=True)
            state = tuple(torch.cat((advanced, previous[count:])) for advanced, previous in pairs)
        return torch.cat(states)[time.tokens_back], tuple(h[time.rows_back] for h in state)

    def _weights(self, kind: str, direction: Direction) -> Hidden:
        """W (`ih`) or U (`hh`) of a direction, and its bias."""
        cells, name = getattr(self, direction.cells), f"{kind}_l0{direction.suffix}"
        bias = getattr(cells, f"bias_{name}") if cells.bias else None
        return getattr(cells, f"weight_{name}"), bias

    def _record_gates(
        self,
        x: Tensor,
        out: Tensor,
        layout: Layout,
        before: States | None,
        tap: Tap,
        directions: list[Direction],
    ) -> None:
        """Records the gates, recomputed from x and the kernel's output for all tokens at once."""
        initial = before or self.start(layout.batch, x)
        for direction, part, states in zip(
            directions, self._inputs(x), torch.split(out, self.width, 1), strict=False
        ):
            gates = Gates(tap, direction.name, layout, layout.slots)
            rows, state = layout.pad(part), layout.pad(states)  # (batch, length, …)
            if direction.backward:  # the first token read is the last one of its sequence
                rows, state = layout.reversed(rows), layout.reversed(state)

            def keep(
                gate: str, value: Tensor, direction: Direction = direction, gates: Gates = gates
            ) -> Tensor:
                gates.keep(gate, layout.reversed(value) if direction.backward else value)
                return value

            earlier = torch.cat((initial[0][:, None], state[:, :-1]), 1)  # h before each token
            from_x = F.linear(rows, *self._weights("ih", direction))
            values = gates_of(self.cell, from_x, earlier, self._weights("hh", direction), keep)
            keep("state", state)
            if self.cell == "lstm":
                inner, inners = initial[1], []
                for time in range(layout.longest):
                    inner = values["forget"][:, time] * inner
                    inner = inner + (values["input"] * values["candidate"])[:, time]
                    inners.append(inner)
                keep("cell", torch.stack(inners, 1))
            gates.record()


class Gates:
    """Collects the gates of one direction for a tap, (batch, length, width) each.

    In the loop over time, an edit gets a gate's values of all tokens so far, and zeros for the
    others, in the shape of a record; only its result for the present tokens is used.

    Args:
        tap: Records and edits; None: nothing is recorded.
        name: Tap sites are `name.gate`.
        layout: The layout of the sequences.
        slots: The index, in the flattened padded rows (batch · length), of each token in the order
            in which the loop computes them.
    """

    def __init__(self, tap: Tap | None, name: str, layout: Layout, slots: Tensor) -> None:
        self.tap, self.name, self.layout, self.slots = tap, name, layout, slots
        self.steps: dict[str, list[Tensor]] = {}  # of each step of the loop: (tokens, width)
        self.rows: dict[str, Tensor] = {}  # of all tokens: (batch, length, width)

    def see(self, gate: str, value: Tensor) -> Tensor:
        """Edits and stores the value of a gate at the present tokens: (tokens, width)."""
        site, steps = f"{self.name}.{gate}", self.steps.setdefault(gate, [])
        edits = [] if self.tap is None else self.tap.edits_at(site)
        if edits:
            rows = self._spread([*steps, value])
            for edit in edits:
                rows = edit.change(rows)
            done = sum(map(len, steps))
            value = rows.reshape(-1, rows.shape[-1])[self.slots[done : done + len(value)]]
        steps.append(value)
        return value

    def _spread(self, values: list[Tensor]) -> Tensor:
        """The values of the tokens so far in padded rows: (batch, length, width)."""
        joined = torch.cat(values)
        rows = joined.new_zeros(self.layout.batch * self.layout.longest, joined.shape[-1])
        rows = rows.index_copy(0, self.slots[: len(joined)], joined)
        return rows.view(self.layout.batch, self.layout.longest, -1)

    def keep(self, gate: str, rows: Tensor) -> None:
        """Stores the values of a gate at all tokens: (batch, length, width)."""
        self.rows[gate] = rows

    def record(self) -> None:
        """Records (batch, length, width) of each gate that the tap asks for, zeros as padding."""
        for gate in (*self.rows, *self.steps):
            site = f"{self.name}.{gate}"
            if self.tap is not None and self.tap.wants(site):
                rows = self.rows[gate] if gate in self.rows else self._spread(self.steps[gate])
                rows = self.layout.pad(self.layout.unpad(rows))  # zeros as padding
                self.tap.records[site] = rows.detach().clone()


def no_edit(gate: str, value: Tensor) -> Tensor:
    """A `GateHook` that edits nothing."""
    del gate
    return value
