"""The encoder-decoder, which the Transformer, T5, BART and Marian are configs of.

Source ids -> encoder -> memory; target ids so far, looking at the memory -> logits of the next.
Training sees a whole target at once (`forward`); decoding goes `encode -> start -> step`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.data.input import Ragged
from regard.errors import InputError
from regard.layers import (
    Context,
    Embed,
    KVCache,
    Layout,
    Memory,
    Stack,
    Tap,
    VocabularyHead,
)
from regard.layers.init import draw_glorot
from regard.models.config import EncoderDecoderConfig
from regard.models.model import Model
from regard.models.parts import (
    LOGITS,
    embed_of,
    head_of,
    reading,
    stack_of,
)


class DecoderState:
    """What the decoder remembers of the rows it is writing: its cache, and what it looks at.

    Args:
        cache: Keys and values of the rows so far.
        memory: Of the sentences; `beams` neighbouring rows share one.
        beams: Rows a sentence.
    """

    def __init__(self, cache: KVCache, memory: Memory, beams: int) -> None:
        self.cache, self.memory, self.beams = cache, memory, beams

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes what row rows[i] was; a sentence none of whose rows is named leaves."""
        self.cache.reorder(rows)
        sentences = torch.unique_consecutive(rows // self.beams)
        self.beams = rows.numel() // max(1, sentences.numel())
        if sentences.numel() < self.memory.layout.batch:
            self.memory = self.memory.select(sentences)

    def mark(self) -> Any:
        """Where the rows stand now, for `rewind`."""
        return self.cache.mark()

    def rewind(self, mark: Any) -> None:
        """The rows forget what came since the mark."""
        self.cache.rewind(mark)


class EncoderDecoder(Model):
    """An encoder, a decoder that looks at its top output, and a head over the vocabulary.

    Args:
        config: Sizes and kinds.
        source_vocab: Entries of the source vocabulary.
        target_vocab: Entries of the target vocabulary.
    """

    config: Any
    """An `EncoderDecoderConfig`; a model whose parts are others has its own."""

    def __init__(self, config: Any, source_vocab: int, target_vocab: int) -> None:
        super().__init__()
        self.config, self.source_vocab, self.target_vocab = config, source_vocab, target_vocab
        self.source_embed = self._embed(source_vocab)
        self.target_embed = self._embed(target_vocab)
        if config.tied in ("all", "inputs"):
            if source_vocab != target_vocab:
                raise InputError(
                    f"model.tied: {config.tied}",
                    got=f"vocabularies of {source_vocab} and {target_vocab}",
                    expected="one for both",
                    fix="set tokens.shared: true, or model.tied: output",
                )
            self.target_embed.weight = self.source_embed.weight
        self.encoder, self.decoder = self._stacks()
        tied = self.target_embed.weight if config.tied in ("all", "output") else None
        self.head = self._head(tied)
        draw_glorot(self, config.dim)

    def _embed(self, vocab: int) -> Embed:
        """What gives the tokens of one side their first vectors."""
        return embed_of(self.config, vocab)

    def _stacks(self) -> tuple[Stack, Any]:
        """The encoder and the decoder."""
        config: EncoderDecoderConfig = self.config
        return (
            stack_of(config, config.encoder_layers, "encoder"),
            stack_of(config, config.decoder_layers, "decoder", causal=True, cross=True),
        )

    def _head(self, tied: nn.Parameter | None) -> VocabularyHead:
        """Logits over the target vocabulary."""
        return head_of(self.config, self.target_vocab, tied)

    def forward(self, source: Ragged, target: Ragged, tap: Tap | None = None) -> Tensor:
        """Logits of the token after each target token: (target tokens, vocab)."""
        ctx = self._given(source, target, tap)
        return self._logits(self._decode(target.ids, ctx), ctx)

    def loss(
        self, source: Ragged, target: Ragged, wanted: Tensor, smoothing: float = 0.0
    ) -> Tensor:
        """Cross-entropy of the tokens that should follow, wanted (target tokens,), summed."""
        x = self._decode(target.ids, self._given(source, target))
        return self.head.loss(x, wanted, smoothing)

    def _given(self, source: Ragged, target: Ragged, tap: Tap | None = None) -> Context:
        """What the decoder needs to read whole targets, each token looking back alone."""
        memory = self.encode(source, tap)
        layout = self.target_embed.layout(target)
        return reading(self.config, self.decoder, layout, causal=True, memory=memory, tap=tap)

    def encode(self, source: Ragged, tap: Tap | None = None) -> Memory:
        """Source sentences -> the memory that the decoder looks at."""
        if tap is not None:
            tap.begin(self.sites())
        layout = self.source_embed.layout(source)
        ctx = reading(self.config, self.encoder, layout, causal=False, tap=tap)
        x = self.source_embed.read(source, ctx)  # (source tokens, dim)
        x = self.encoder(ctx.visit("encoder.embedding", x), ctx)
        return Memory(x, ctx.layout)

    def hidden(self, texts: Ragged, tap: Tap | None = None) -> Tensor:
        """What leaves the encoder for each token: (tokens, dim)."""
        return self.encode(texts, tap).x

    def start(self, memory: Memory, rows: int, length: int) -> DecoderState:
        """The state before the first token: `rows` hypotheses a sentence, `length` tokens each."""
        cache = self.decoder.start(memory.layout.batch * rows, length, memory.x)
        return DecoderState(cache, self.decoder.remember(memory), rows)

    def step(self, ids: Tensor, state: DecoderState, tap: Tap | None = None) -> Tensor:
        """One more token for each row: ids (rows,) -> logits of the next (rows, vocab)."""
        memory, more = state.memory, Ragged(ids, (1,) * ids.numel())
        ctx = reading(
            self.config,
            self.decoder,
            self.target_embed.layout(more),
            causal=True,
            cache=state.cache,
            memory=memory,
            memory_layout=Layout((state.beams,) * memory.layout.batch, ids.device),
            tap=tap,
        )
        logits = self._logits(self._decode(ids, ctx), ctx)
        state.cache.advance(more.lengths)
        return logits

    def _decode(self, ids: Tensor, ctx: Context) -> Tensor:
        x = self.target_embed(ids, ctx.where, ctx.positions)  # (tokens, dim)
        return self.decoder(ctx.visit("decoder.embedding", x), ctx)  # (tokens, dim)

    def _logits(self, x: Tensor, ctx: Context) -> Tensor:
        return ctx.visit("logits", self.head(x))  # (tokens, vocab)

    def embeds(self) -> list[Embed]:
        """What gives each token of source and target its first vector."""
        return [self.source_embed, self.target_embed]

    def vocabularies(self) -> dict[str, int]:
        """What it was built with beside its config, by name."""
        return {"source_vocab": self.source_vocab, "target_vocab": self.target_vocab}

    def sites(self) -> dict[str, int]:
        """Every site a tap can name, with its number of heads (0 where there are none)."""
        return self.encoder.sites() | self.decoder.sites() | LOGITS
