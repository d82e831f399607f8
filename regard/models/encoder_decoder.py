"""The encoder-decoder model, of which the Transformer, T5, BART and Marian are configs.

Source ids -> encoder -> memory; target ids so far and memory -> decoder -> logits of the next.
Training passes whole targets at once (`forward`); decoding calls `encode`, `start`, then `step`.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.layers import Context, Embed, Layout, Memory, Stack, Tap
from regard.layers.build import make_embed, make_vocabulary_head
from regard.layers.context import make_context
from regard.layers.init import draw_glorot
from regard.layers.state import DecoderState
from regard.models.model import LOGITS, Model


class EncoderDecoder(Model):
    """An encoder, a decoder that attends to its output, and a head over the vocabulary.

    Args:
        config: The model's settings.
        source_vocab: Size of the source vocabulary.
        target_vocab: Size of the target vocabulary.
    """

    config: Any
    """An `EncoderDecoderConfig`, or the config of a subclass with other parts."""

    def __init__(self, config: Any, source_vocab: int, target_vocab: int) -> None:
        super().__init__()
        self.config, self.source_vocab, self.target_vocab = config, source_vocab, target_vocab
        tied = config.head.tied
        self.source_embed = make_embed(config.encoder, source_vocab)
        self.target_embed = make_embed(config.decoder, target_vocab)
        if tied in ("all", "inputs"):
            if source_vocab != target_vocab:
                raise InputError(
                    f"model.tied: {tied}",
                    got=f"vocabularies of {source_vocab} and {target_vocab}",
                    expected="one for both",
                    fix="set tokens.shared: true, or model.tied: output",
                )
            self.target_embed.weight = self.source_embed.weight
        self.encoder = Stack(config.encoder, "encoder")
        self.decoder = self._make_decoder()
        output = self.target_embed.weight if tied in ("all", "output") else None
        dim = config.decoder.dim
        self.head = make_vocabulary_head(config.head, dim, target_vocab, output)
        draw_glorot(self, dim)

    def _make_decoder(self) -> Any:
        """Builds the decoder, which attends to the output of the encoder."""
        config = self.config
        return Stack(config.decoder, "decoder", causal=True, memory_dim=config.encoder.dim)

    def forward(self, source: Ragged, target: Ragged, tap: Tap | None = None) -> Tensor:
        """Logits of the token after each target token: (target tokens, vocab)."""
        ctx = self._context(source, target, tap)
        return self._logits(self._decode(target, ctx), ctx)

    def loss(
        self, source: Ragged, target: Ragged, targets: Tensor, smoothing: float = 0.0
    ) -> Tensor:
        """Summed cross-entropy of the token after each target token, targets (target tokens,)."""
        ctx = self._context(source, target)
        ctx.penalties = []
        x = self._decode(target, ctx)
        return sum(ctx.penalties, self.head.loss(x, targets, smoothing))

    def _context(self, source: Ragged, target: Ragged, tap: Tap | None = None) -> Context:
        """The decoder's context for whole targets, with a causal mask and the memory."""
        memory = self.encode(source, tap)
        layout = self.target_embed.layout(target)
        return make_context(
            layout,
            self.decoder.positions,
            window=self.decoder.reach,
            causal=True,
            memory=memory,
            tap=tap,
        )

    def encode(self, source: Ragged, tap: Tap | None = None) -> Memory:
        """Encodes the source sequences into the memory that the decoder attends to."""
        if tap is not None:
            tap.begin(self.sites())
        return self.encoder.read(self.source_embed, source, tap)

    def hidden(self, texts: Ragged, tap: Tap | None = None) -> Tensor:
        """The output of the encoder for each token: (tokens, dim)."""
        return self.encode(texts, tap).x

    def start(self, memory: Memory, rows: int, length: int) -> DecoderState:
        """The state before the first token: `rows` rows per sequence, of up to `length` tokens."""
        cache = self.decoder.start(memory.layout.batch * rows, length, memory.x)
        return DecoderState(cache, self.decoder.project_memory(memory), rows)

    def step(self, ids: Tensor, state: DecoderState, tap: Tap | None = None) -> Tensor:
        """Feeds one token to each row: ids (rows,) -> logits of the next (rows, vocab)."""
        memory, new_tokens = state.memory, Ragged(ids, (1,) * ids.numel())
        ctx = make_context(
            self.target_embed.layout(new_tokens),
            self.decoder.positions,
            causal=True,
            window=self.decoder.reach,
            cache=state.cache,
            memory=memory,
            memory_layout=Layout((state.beams,) * memory.layout.batch, ids.device),
            tap=tap,
        )
        logits = self._logits(self._decode(new_tokens, ctx), ctx)
        state.cache.advance(new_tokens.lengths)
        return logits

    def _decode(self, target: Ragged, ctx: Context) -> Tensor:
        """The output of the decoder for each target token: (tokens, dim)."""
        x = self.target_embed.read(target, ctx)  # (tokens, dim)
        return self.decoder(ctx.visit("decoder.embedding", x), ctx)  # (tokens, dim)

    def _logits(self, x: Tensor, ctx: Context) -> Tensor:
        """The logits of the next tokens: x (tokens, dim) -> (tokens, vocab)."""
        return ctx.visit("logits", self.head(x))

    def embeds(self) -> list[Embed]:
        """The embeddings of source and target."""
        return [self.source_embed, self.target_embed]

    def sites(self) -> dict[str, int]:
        """All tap sites of the model, with the number of heads at each (0: not per head)."""
        return self.encoder.sites() | self.decoder.sites() | LOGITS
