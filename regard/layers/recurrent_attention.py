"""A recurrent decoder layer with attention: the previous state is the query of each step.

    e_ti = v·tanh(W s_{t-1} + U h_i)    α_t = softmax(e_t)    c_t = Σ_i α_ti h_i
    s_t  = g([y_{t-1}; c_t], s_{t-1})                                     (Bahdanau et al. 2015)

If the score sees the last word, too, W is multiplied with [s_{t-1}; y_{t-1}]. Other scores and hard
attention are those of `Attention`. With a gate, c_t is scaled by β_t = σ(w · s_{t-1} + b), and with
`doubly_stochastic` the loss has the term λ Σ_i (1 - Σ_t α_ti)² (Xu et al. 2015).

Input: y, the embedded target tokens (tokens, dim), and a memory h, the encoder's output for the
source tokens. Output: a state s_t and a context c_t for each target token. s_t depends on c_t,
which depends on s_{t-1}, so this is a loop over time. What depends on neither is computed before
the loop: the products of g with y, and the keys U h.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import InputError
from regard.kernels.linear import Linear, linear
from regard.layers.attention import Attention
from regard.layers.block import Block
from regard.layers.config import SequenceStack
from regard.layers.context import Context, Memory
from regard.layers.layout import Layout
from regard.layers.mixer import Mixer
from regard.layers.recurrent import GateHook, Gates, Recurrent, cell_step, gates_of, no_edit
from regard.layers.recurrent_config import AttentiveContext
from regard.layers.tap.tap import Tap

ContextFunction = Callable[[list[Tensor]], Tensor]
"""Maps the queries so far, (batch, query_dim) each, to the latest one's context, (batch, dim)."""


class AttentionCell(Block):
    """One recurrent decoder layer that gets a context vector with each token.

    Args:
        config: The settings of the recurrent layers.
        name: The layer's name, such as `decoder.0`.
        memory_dim: Width of the memory, and so of the context vectors.
        attention: How it attends to the memory before each token. None: the context is the same
            for every token, one vector of the whole source, the last entry of the cache's `states`
            (Cho et al. 2014).
        memory_positions: Number of source positions that the score `location` has a vector for.
    """

    recurrent: Recurrent
    cross_attention: Attention

    def __init__(
        self,
        config: SequenceStack,
        name: str,
        *,
        memory_dim: int,
        attention: AttentiveContext | None,
        memory_positions: int = 0,
    ) -> None:
        parts: dict[str, Mixer] = {}
        dim, cell = config.dim, "gru" if config.recurrent is None else config.recurrent.cell
        if attention is not None:
            parts["cross_attention"] = Attention(
                dim,
                heads=1,
                name=f"{name}.cross",
                cross=True,
                score=attention.kind,
                bias=False,  # W and U of the equation have none
                memory_dim=memory_dim,
                values="memory",
                query_dim=2 * dim if attention.last_word else None,
                memory_positions=memory_positions,
                hard=attention.hard_attention,
            )
        parts["recurrent"] = Recurrent(dim, f"{name}.recurrent", cell=cell, beside=memory_dim)
        super().__init__(config, name, parts)
        self.dim, self.widths, self.attends = dim, (dim, memory_dim), attention is not None
        self.gate = Linear(dim, 1) if attention is not None and attention.context_gate else None
        self.doubly_stochastic = 0.0 if attention is None else attention.doubly_stochastic
        self.last_word = attention is not None and attention.last_word
        soft = attention is not None and not attention.hard_attention
        self._is_soft_additive = soft and attention is not None and attention.kind == "additive"

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """y (tokens, dim) -> s and c concatenated, (tokens, dim + memory_dim).

        `ctx` needs a memory, and a cache with the states before the first of these tokens.
        """
        if self.attends:
            states, contexts = self._loop(x, ctx)
        else:
            lengths = torch.tensor(ctx.layout.lengths, device=x.device)
            contexts = _states(ctx)[-1][0].repeat_interleave(lengths, 0)  # (tokens, dim)
            states = self.recurrent(torch.cat((x, contexts), 1), ctx)  # the fused kernel
        states = ctx.visit(f"{self.name}.residual", self.dropout(states))
        return torch.cat((states, contexts), 1)

    def _loop(self, x: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        """The loop over time: s and c of each token, (tokens, dim) each.

        Shorter rows are padded with zeros up to the longest; their extra outputs are dropped.
        """
        layout, tap, slot, cell = ctx.layout, ctx.tap, self.recurrent.slot, self.recurrent.cell
        cells = self.recurrent.cells
        input_product = self._input_product(x, layout)
        words = layout.pad(x).unbind(1) if self.last_word else ()  # y of each time, (batch, dim)
        hidden = cells.weight_hh_l0, cells.bias_hh_l0
        see: GateHook = no_edit
        if tap is not None:
            gates = Gates(tap, self.recurrent.name, layout, _slots_in_time(layout))
            see = gates.see
        look = self._make_edited_look(ctx) if self._is_edited(tap) else self._make_look(ctx)
        state = _states(ctx)[slot]
        queries, contexts, history = list[Tensor](), [], [state]
        for time in range(layout.longest):
            queries.append(torch.cat((state[0], words[time]), 1) if self.last_word else state[0])
            context = look(queries)  # (batch, dim)
            if self.gate is not None:  # β_t c_t
                context = self.gate(state[0]).sigmoid() * context
            from_x = input_product(time, context)  # (batch, gates · dim)
            state = cell_step(cell, gates_of(cell, from_x, state[0], hidden, see), state, see)
            history.append(state)
            contexts.append(context)
        _states(ctx)[slot] = _final_states(history, layout)
        if self.doubly_stochastic and self.training and ctx.penalties is not None:
            ctx.penalties.append(self.doubly_stochastic * self._imbalance(queries, ctx))
        if tap is not None:
            gates.record()
            if not self._is_edited(tap):
                self._record_attention(queries, ctx)
        states = [after[0] for after in history[1:]]
        if layout.longest == 1 and layout.even:
            s, c = states[0], contexts[0]
        else:
            s, c = (layout.unpad(torch.stack(tensors, 1)) for tensors in (states, contexts))
        return ctx.visit(self.recurrent.name, s), c

    def _input_product(self, x: Tensor, layout: Layout) -> Callable[[int, Tensor], Tensor]:
        """A function (t, c) -> W [y_t; c] + b, for all rows of the batch; x has the y of all times.

        W [y; c] = W_y y + W_c c, and W_y y is computed for all times at once. A decoding step has
        one time, and one product.
        """
        cells = self.recurrent.cells
        weight, bias = cells.weight_ih_l0, cells.bias_ih_l0
        if layout.longest == 1 and layout.even and torch.is_inference_mode_enabled():
            return lambda _, context: linear(torch.cat((x, context), 1), weight, bias)
        of_y, of_c = (w.contiguous() for w in weight.split(self.widths, 1))
        from_y = layout.pad(F.linear(x, of_y, bias)).unbind(1)  # (batch, gates · dim) of each time
        return lambda time, context: from_y[time] + F.linear(context, of_c)

    def _is_edited(self, tap: Tap | None) -> bool:
        """Whether a tap edits this block's attention."""
        sites = self.cross_attention.sites()
        return tap is not None and any(tap.edits_at(site) for site in sites)

    def _make_look(self, ctx: Context) -> ContextFunction:
        """A function that computes c_t of each row from its latest query."""
        memory = ctx.memory
        if memory is not None and self._is_plain_step(ctx.layout, memory.layout):
            return self._make_step_look(memory)
        step_ctx = ctx
        if ctx.tap is not None or ctx.layout.longest > 1 or not ctx.layout.even:
            layout = Layout((1,) * ctx.layout.batch, ctx.layout.device)
            step_ctx = replace(ctx, layout=layout, tap=None, cache=None)
        return lambda queries: self.cross_attention(queries[-1], step_ctx)

    def _is_plain_step(self, layout: Layout, source: Layout) -> bool:
        """Whether `_make_step_look` applies: a decoding step with one row for each sequence."""
        step = torch.is_inference_mode_enabled() and layout.longest == 1
        return self._is_soft_additive and step and layout.batch == source.batch

    def _make_step_look(self, memory: Memory) -> ContextFunction:
        """The same function in a decoding step, with additive scores of the source tokens alone.

        tanh(W s + U h_i) is most of the work, and the padding of a batch may be half of it.
        """
        attention, layout = self.cross_attention, memory.layout
        k, v = memory.projected.get(attention.name) or attention.project_memory(memory)
        keys = memory.packed_keys.get(attention.name)
        if keys is None:
            keys = memory.packed_keys[attention.name] = layout.unpad(k[:, 0])  # (tokens, dim)
        vector = attention.score.get_parameter("vector")[0]  # v

        def look(queries: list[Tensor]) -> Tensor:  # softmax(v·tanh(W s + U h)) h, by row
            query = attention.query(queries[-1])  # W s, (batch, dim)
            packed_queries = query if layout.batch == 1 else query[layout.sequence_of]
            scores = (keys + packed_queries).tanh_() @ vector  # (tokens,)
            if not layout.even:  # padding has the weight 0
                rows = scores.new_full((layout.batch * layout.longest,), float("-inf"))
                scores = rows.index_copy_(0, layout.slots, scores)
            weights = scores.view(layout.batch, 1, layout.longest).softmax(-1)
            return attention.out(torch.bmm(weights, v[:, 0])[:, 0])  # (batch, dim)

        return look

    def _make_edited_look(self, ctx: Context) -> ContextFunction:
        """The same function if a tap edits this attention.

        An edit gets all queries of a sequence, as in other models: those so far, and zeros for
        later ones. Only the output of the latest query is used.
        """
        layout = ctx.layout

        def look(queries: list[Tensor]) -> Tensor:
            later = [torch.zeros_like(queries[0])] * (layout.longest - len(queries))
            tokens = layout.unpad(torch.stack([*queries, *later], 1))
            return layout.pad(self.cross_attention(tokens, ctx))[:, len(queries) - 1]

        return look

    def _imbalance(self, queries: list[Tensor], ctx: Context) -> Tensor:
        """Σ_i (1 - Σ_t α_ti)², summed over the rows of the batch; i: source tokens, t: queries."""
        memory, layout = ctx.memory, ctx.layout
        assert memory is not None  # `_cross_inputs` has refused its absence
        packed_queries = layout.unpad(torch.stack(queries, 1))
        weights = self.cross_attention.cross_weights(packed_queries, replace(ctx, tap=None))
        rows = layout.unpad(weights[:, 0])  # (tokens, key)
        totals = rows.new_zeros(layout.batch, rows.shape[1])  # Σ_t α_ti, (batch, key)
        totals = totals.index_add(0, layout.sequence_of, rows)
        return ((1 - memory.layout.unpad(totals[..., None])) ** 2).sum()

    def _record_attention(self, queries: list[Tensor], ctx: Context) -> None:
        """Records the attention of all tokens after the loop, from their queries."""
        tap = ctx.tap
        if tap is not None and any(tap.wants(site) for site in self.cross_attention.sites()):
            self.cross_attention(ctx.layout.unpad(torch.stack(queries, 1)), ctx)


def _states(ctx: Context) -> list[tuple[Tensor, ...]]:
    """The states of the decoder's layers, a tuple of tensors (rows, dim) each."""
    if ctx.cache is None:
        raise InputError("a recurrent decoder", got="no states", expected="a Context with a cache")
    return ctx.cache.states


def _final_states(history: list[tuple[Tensor, ...]], layout: Layout) -> tuple[Tensor, ...]:
    """The state after the last token of each row, from the states before and after every token."""
    if layout.even:
        return history[-1]
    time = torch.tensor(layout.lengths, device=layout.device)
    row = torch.arange(layout.batch, device=layout.device)
    return tuple(torch.stack(states)[time, row] for states in zip(*history, strict=True))


def _slots_in_time(layout: Layout) -> Tensor:
    """The index in the flattened padded rows of each row's token at each time, time by time."""
    slots = torch.arange(layout.batch * layout.longest, device=layout.device)
    return slots.view(layout.batch, layout.longest).T.flatten()
