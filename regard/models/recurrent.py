"""The recurrent translation model: a bidirectional encoder, and a decoder with attention.

    h_i = [forward_i; backward_i]                 the encoder's two states at source token i
    s_0 = tanh(W backward_1)                      the decoder's initial state
    c_t = Σ_i α_ti h_i                            the context: `regard.layers.attentive`
    s_t = g([y_{t-1}; c_t], s_{t-1})
    t_t = tanh(W_o [s_t; c_t; y_{t-1}])           logits = E t_t

Bahdanau, Cho and Bengio (2015), section 3 and appendix A; their t_t is a maxout of the same sum
(A.2.2), here it is a tanh, as in Luong et al. (2015), equation 5. If the decoder has several
layers, only the first attends to the source, and each of the others reads the output of the one
before (as in Wu et al. 2016), so that only the first needs a loop over time.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from regard.layers import BlockShape, Context, Embed, Memory, Positions, Stack, VocabularyHead
from regard.layers.attentive import AttentiveBlock
from regard.layers.kernels.linear import Linear
from regard.layers.state import KVCache, RecurrentState
from regard.models.encoder_decoder import DecoderState, EncoderDecoder
from regard.models.families.seq2seq import Seq2SeqConfig


class RecurrentDecoder(Stack):
    """A recurrent layer with a context vector for each token, further layers, and the readout.

    Args:
        shape: The settings of the layers.
        layers: Number of layers.
        attends: Whether the first layer attends to the memory; if not, the context is one vector
            of the whole source.
    """

    def __init__(self, shape: BlockShape, layers: int, *, attends: bool) -> None:
        super().__init__(shape, layers, "decoder", Positions(), final_norm=False)
        self.attends, self.dim = attends, shape.dim
        self.blocks[0] = AttentiveBlock(shape, "decoder.0", attends=attends)
        self.states = 2 if shape.cell == "lstm" else 1  # tensors per layer: h, and an LSTM's cell
        self.first = Linear(shape.dim // 2, layers * self.states * shape.dim)
        self.readout = Linear(3 * shape.dim, shape.dim)

    def sites(self) -> dict[str, int]:
        """The tap sites of this stack, with the number of heads at each (0: not per head)."""
        return super().sites() | {"decoder.readout": 0}

    def begin(self, memory: Memory, rows: int) -> RecurrentState:
        """The initial states of the layers, for `rows` rows of each sequence.

            s_0 = tanh(W backward_1)

        The encoder's backward half at the first token has read the whole sequence.
        """
        x, batch = memory.layout.pad(memory.x), memory.layout.batch  # (batch, length, dim)
        half = self.dim // 2
        backward = x[:, 0, half:]  # (batch, dim / 2)
        first = self.first(backward).tanh().repeat_interleave(rows, 0)
        first = first.view(batch * rows, -1, self.states, self.dim)
        held = [layer.unbind(1) for layer in first.unbind(1)]  # (rows, dim) each
        if not self.attends:
            last = torch.tensor(memory.layout.lengths, device=x.device) - 1
            forward = x[torch.arange(batch, device=x.device), last, :half]
            held.append((torch.cat((forward, backward), 1).repeat_interleave(rows, 0),))
        cache = KVCache(0, batch * rows, 0, 0, 0, x.device, x.dtype)
        return RecurrentState(held, cache)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """y (tokens, dim) -> t (tokens, dim), the input of the vocabulary head."""
        if ctx.cache is None and ctx.memory is not None:  # training: whole targets at once
            memory = self.project_memory(ctx.memory)
            ctx = replace(ctx, memory=memory, cache=self.begin(memory, 1))
        lowest, *others = self.layers()
        states, contexts = lowest(x, ctx).split(self.dim, 1)
        for block in others:
            states = block(states, ctx)
        # t = tanh(W_o [s_t; c_t; y_{t-1}])
        top = self.readout(torch.cat((states, contexts, x), 1)).tanh()
        return ctx.visit("decoder.readout", top)


class Seq2Seq(EncoderDecoder):
    """The recurrent translation model, with the interface of every encoder-decoder.

    Args:
        config: The model's settings.
        source_vocab: Size of the source vocabulary.
        target_vocab: Size of the target vocabulary.
    """

    config: Seq2SeqConfig

    def _embed(self, vocab: int) -> Embed:
        return Embed(vocab, self.config.dim, self.config.dropout)

    def _stacks(self) -> tuple[Stack, RecurrentDecoder]:
        config = self.config
        shape = BlockShape(
            dim=config.dim,
            heads=1,
            hidden=config.dim,
            sublayers=("recurrent",),
            norm="none",
            residual=False,
            dropout=config.dropout,
            cell=config.cell,
            score=config.attention,
        )
        both_ways = replace(shape, both_ways=True)
        encoder = Stack(both_ways, config.encoder_layers, "encoder", Positions(), final_norm=False)
        attends = config.attention != "none"
        return encoder, RecurrentDecoder(shape, config.decoder_layers, attends=attends)

    def _head(self, tied: nn.Parameter | None) -> VocabularyHead:
        return VocabularyHead(self.config.dim, self.target_vocab, tied)

    def start(self, memory: Memory, rows: int, length: int) -> DecoderState:
        """The state before the first token: `rows` rows per sequence, of any length."""
        del length
        decoder: RecurrentDecoder = self.decoder
        return DecoderState(decoder.begin(memory, rows), decoder.project_memory(memory), rows)
