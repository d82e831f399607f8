"""The encoder-decoder, which the Transformer, T5, BART and Marian are configs of.

Source ids -> encoder -> memory; target ids so far, looking at the memory -> logits of the next.
Training sees a whole target at once (`forward`); decoding goes `encode -> start -> step`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.data.batch import Ragged
from regard.errors import InputError
from regard.layers import Context, KVCache, Layout, Memory, Tap
from regard.models.config import T5Config, TransformerConfig
from regard.models.stacks import (
    LOGITS,
    draw_glorot,
    embed_of,
    head_of,
    heads_of,
    reading,
    sites_of,
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


class EncoderDecoder(nn.Module):
    """An encoder, a decoder that looks at its top output, and a head over the vocabulary.

    Args:
        config: Sizes and kinds.
        source_vocab: Entries of the source vocabulary.
        target_vocab: Entries of the target vocabulary.
    """

    def __init__(
        self, config: TransformerConfig | T5Config, source_vocab: int, target_vocab: int
    ) -> None:
        super().__init__()
        self.config, self.source_vocab, self.target_vocab = config, source_vocab, target_vocab
        self.source_embed = embed_of(config, source_vocab)
        self.target_embed = embed_of(config, target_vocab)
        if config.tied in ("all", "inputs"):
            if source_vocab != target_vocab:
                raise InputError(
                    f"model.tied: {config.tied}",
                    got=f"vocabularies of {source_vocab} and {target_vocab}",
                    expected="one for both",
                    fix="set tokens.shared: true, or model.tied: output",
                )
            self.target_embed.weight = self.source_embed.weight
        self.encoder = stack_of(config, config.encoder_layers, "encoder")
        self.decoder = stack_of(config, config.decoder_layers, "decoder", causal=True, cross=True)
        tied = self.target_embed.weight if config.tied in ("all", "output") else None
        self.head = head_of(config, target_vocab, tied)
        draw_glorot(self, config.dim)

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
        return reading(self.config, self.decoder, target, causal=True, memory=memory, tap=tap)

    def encode(self, source: Ragged, tap: Tap | None = None) -> Memory:
        """Source sentences -> the memory that the decoder looks at."""
        if tap is not None:
            tap.begin(self.sites())
        ctx = reading(self.config, self.encoder, source, causal=False, tap=tap)
        x = self.source_embed(source.ids, ctx.where, ctx.positions)  # (source tokens, dim)
        x = self.encoder(ctx.visit("encoder.embedding", x), ctx)
        return Memory(x, ctx.layout)

    def start(self, memory: Memory, rows: int, length: int) -> DecoderState:
        """The state before the first token: `rows` hypotheses a sentence, `length` tokens each."""
        attentions = self.decoder.attentions()
        heads = {layer.name: layer.remember(memory) for layer in attentions if layer.cross}
        attention = attentions[0]
        cache = KVCache(
            len(self.decoder.blocks),
            memory.layout.batch * rows,
            length,
            attention.kv_heads,
            attention.head_dim,
            memory.x.device,
            memory.x.dtype,
        )
        return DecoderState(cache, Memory(memory.x, memory.layout, heads), rows)

    def step(self, ids: Tensor, state: DecoderState, tap: Tap | None = None) -> Tensor:
        """One more token for each row: ids (rows,) -> logits of the next (rows, vocab)."""
        memory, more = state.memory, Ragged(ids, (1,) * ids.numel())
        ctx = reading(
            self.config,
            self.decoder,
            more,
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

    def vocabularies(self) -> dict[str, int]:
        """What it was built with beside its config, by name."""
        return {"source_vocab": self.source_vocab, "target_vocab": self.target_vocab}

    def sites(self) -> dict[str, int]:
        """Every site a tap can name, with its number of heads (0 where there are none)."""
        return {**sites_of("encoder", self.encoder), **sites_of("decoder", self.decoder)} | LOGITS

    def heads(self) -> list[str]:
        """Every head's name, such as `decoder.1.cross.3`."""
        return heads_of(self.sites())
