"""The recurrent translation model: a bidirectional encoder, and a decoder with attention.

    h_i = [forward_i; backward_i]                 the encoder's two states at source token i
    s_0 = tanh(W backward_1)                      the decoder's initial state
    c_t = Σ_i α_ti h_i                            the context: `regard.layers.recurrent_attention`
    s_t = g([y_{t-1}; c_t], s_{t-1})
    t_t = tanh(W_o [s_t; c_t; y_{t-1}])           logits = E t_t

Bahdanau, Cho and Bengio (2015), section 3 and appendix A; their t_t is a maxout of the same sum
(A.2.2), here it is a tanh, as in Luong et al. (2015), equation 5. If the decoder has several
layers, only the first attends to the source, and each of the others reads the output of the one
before (as in Wu et al. 2016), so that only the first needs a loop over time.

Without attention, c is one vector of the whole source at every step (Cho et al. 2014); or the
initial state is all that passes from source to target, and t_t = tanh(W_o s_t) (Sutskever et al.
2014). An encoder of one direction has states of the full width: h_i is forward_i or backward_i, and
the initial state is computed from the one that has read the whole source.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.kernels.linear import Linear
from regard.layers import Context, Layout, Memory, SequenceStack, Stack
from regard.layers.recurrent_attention import AttentionCell
from regard.layers.recurrent_config import AttentiveContext, RecurrentDecoderConfig
from regard.layers.state import DecoderState, KVCache, RecurrentState
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.families.seq2seq import RECURRENT, Seq2SeqConfig


class RecurrentDecoder(Stack):
    """A recurrent layer with a context vector for each token, further layers, and the readout.

    Args:
        config: The decoder's settings.
        memory_dim: Width of the memory.
        direction: The direction of a recurrent encoder, whose last states are the initial state;
            None: another encoder, and the initial state comes from the mean of the memory.
    """

    def __init__(
        self, config: RecurrentDecoderConfig, memory_dim: int, direction: str | None
    ) -> None:
        layers, dim, context = config.layers, config.dim, config.attention
        stack = SequenceStack(
            dim=dim, layers=layers, cell=config.cell, dropout=config.dropout, **RECURRENT
        )
        super().__init__(stack, "decoder")
        attention = context if isinstance(context, AttentiveContext) else None
        self.attends, self.dim = attention is not None, dim
        # whether every step gets a context
        self.fed = isinstance(context, AttentiveContext) or context.context == "every"
        self.direction, self.memory_dim = direction, memory_dim
        if self.fed:
            self.blocks[0] = AttentionCell(
                stack,
                "decoder.0",
                memory_dim=memory_dim,
                attention=attention,
                memory_positions=config.front.max_length,
            )
        self.states = 2 if config.cell == "lstm" else 1  # tensors per layer: h, and an LSTM's cell
        last_read = memory_dim // 2 if direction == "both" else memory_dim
        self.first = Linear(last_read, layers * self.states * dim)
        self.readout = Linear(2 * dim + memory_dim if self.fed else dim, dim)

    def sites(self) -> dict[str, int]:
        """The tap sites of this stack, with the number of heads at each (0: not per head)."""
        return super().sites() | {"decoder.readout": 0}

    def begin(self, memory: Memory, rows: int) -> RecurrentState:
        """The initial states of the layers, for `rows` rows of each sequence.

            s_0 = tanh(W backward_1)

        The encoder's backward half at the first token has read the whole sequence. If the encoder
        only reads forward, s_0 = tanh(W forward_n) of the last token; if it is not recurrent, s_0
        is computed from the mean of the memory (Xu et al. 2015).
        """
        batch = memory.layout.batch
        final_states = last_states(memory.x, memory.layout, self.direction)  # (batch, memory_dim)
        half = self.memory_dim // 2
        last_read = final_states[:, half:] if self.direction == "both" else final_states
        initial = self.first(last_read).tanh().repeat_interleave(rows, 0)
        initial = initial.view(batch * rows, -1, self.states, self.dim)
        states = [layer.unbind(1) for layer in initial.unbind(1)]  # (rows, dim) each
        if self.fed and not self.attends:
            states.append((final_states.repeat_interleave(rows, 0),))
        cache = KVCache(0, batch * rows, 0, 0, 0, final_states.device, final_states.dtype)
        return RecurrentState(states, cache)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """y (tokens, dim) -> t (tokens, dim), the input of the vocabulary head."""
        if ctx.cache is None and ctx.memory is not None:  # training: whole targets at once
            memory = self.project_memory(ctx.memory)
            ctx = replace(ctx, memory=memory, cache=self.begin(memory, 1))
        lowest_block, *upper_blocks = self.layers()
        lowest = lowest_block(x, ctx)  # s and c concatenated, if there is a context
        states, contexts = lowest[:, : self.dim], lowest[:, self.dim :]
        for block in upper_blocks:
            states = block(states, ctx)
        # t = tanh(W_o [s_t; c_t; y_{t-1}]), or tanh(W_o s_t)
        parts = torch.cat((states, contexts, x), 1) if self.fed else states
        return ctx.visit("decoder.readout", self.readout(parts).tanh())


def last_states(x: Tensor, layout: Layout, direction: str | None) -> Tensor:
    """The state of each direction after the whole sequence: x (tokens, dim) -> (batch, dim).

    Forward, that is the state at the last token, backward the one at the first; without a
    direction, it is the mean over all tokens.
    """
    if direction is None:
        lengths = torch.tensor(layout.lengths, device=x.device)
        return torch.segment_reduce(x, "mean", lengths=lengths)
    last_tokens = layout.first_tokens + torch.tensor(layout.lengths, device=x.device) - 1
    if direction == "forward":
        return x[last_tokens]
    if direction == "backward":
        return x[layout.first_tokens]
    half = x.shape[1] // 2
    return torch.cat((x[last_tokens, :half], x[layout.first_tokens, half:]), 1)


class Seq2Seq(EncoderDecoder):
    """The recurrent translation model, with the interface of every encoder-decoder.

    Args:
        config: The model's settings.
        source_vocab: Size of the source vocabulary.
        target_vocab: Size of the target vocabulary.
    """

    config: Seq2SeqConfig

    def _make_decoder(self) -> RecurrentDecoder:
        """Builds the recurrent decoder."""
        return make_recurrent_decoder(self.config)

    def start(self, memory: Memory, rows: int, length: int) -> DecoderState:
        """The state before the first token: `rows` rows per sequence, of any length."""
        del length
        decoder: RecurrentDecoder = self.decoder
        return DecoderState(decoder.begin(memory, rows), decoder.project_memory(memory), rows)


def make_recurrent_decoder(config: Any, memory_dim: int | None = None) -> RecurrentDecoder:
    """Builds the recurrent decoder of a model whose encoder may be of any kind.

    Args:
        config: The model's config.
        memory_dim: Width of the memory, if it is not that of the encoder.
    """
    recurrent = getattr(config.encoder, "recurrent", None)
    direction = None if recurrent is None else recurrent.direction
    return RecurrentDecoder(config.decoder, memory_dim or config.encoder.dim, direction)
