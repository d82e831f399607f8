"""The shapes that families are configs of. Here: the encoder-decoder.

Source ids -> encoder -> memory; target ids so far, looking at the memory -> logits of the next.
Training sees a whole target at once (`forward`); decoding goes `encode -> start -> step`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.data.batch import Ragged
from regard.errors import InputError
from regard.layers import (
    Attention,
    BlockShape,
    Context,
    Embed,
    FeedForward,
    KVCache,
    Layout,
    Mask,
    Memory,
    Stack,
    Tap,
    VocabularyHead,
    position_scheme,
)
from regard.models.config import TransformerConfig


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

    def __init__(self, config: TransformerConfig, source_vocab: int, target_vocab: int) -> None:
        super().__init__()
        self.config, self.source_vocab, self.target_vocab = config, source_vocab, target_vocab
        shape = BlockShape(
            dim=config.dim,
            heads=config.heads,
            hidden=config.hidden,
            kv_heads=config.kv_heads,
            activation=config.activation,
            norm=config.norm,
            norm_place=config.norm_place,
            score=config.score,
            dropout=config.dropout,
            attention_dropout=config.attention_dropout,
            bias=config.bias,
            residual=config.residual,
        )
        self.source_embed = Embed(source_vocab, config.dim, config.dropout)
        self.target_embed = Embed(target_vocab, config.dim, config.dropout)
        if config.tied == "all":
            if source_vocab != target_vocab:
                raise InputError(
                    "model.tied: all",
                    got=f"vocabularies of {source_vocab} and {target_vocab}",
                    expected="one for both",
                    fix="set tokens.shared: true, or model.tied: output",
                )
            self.target_embed.weight = self.source_embed.weight
        self.encoder = self._stack(shape, config.encoder_layers, "encoder")
        self.decoder = self._stack(shape, config.decoder_layers, "decoder")
        tied = None if config.tied == "none" else self.target_embed.weight
        self.head = VocabularyHead(config.dim, target_vocab, tied)
        self._initialise()

    def _stack(self, shape: BlockShape, layers: int, name: str) -> Stack:
        config, decoder = self.config, name == "decoder"
        scheme = position_scheme(
            config.positions,
            dim=config.dim,
            heads=config.heads,
            max_length=config.max_length,
            causal=decoder,
        )
        final_norm = config.norm_place == "pre" if config.final_norm is None else config.final_norm
        return Stack(shape, layers, name, scheme, cross=decoder, final_norm=final_norm)

    def _initialise(self) -> None:
        """Glorot-uniform for every matrix, zero for every bias of a projection.

        A vocabulary's matrix is kept within ±1/√(2 dim). Glorot's bound is wider than that where
        entries are few, and then the first logits are far from even (that of the token just read
        above all, if the matrix is tied), and the first loss is far from ln(vocab).
        """
        for module in self.modules():
            if isinstance(module, Attention | FeedForward):
                for matrix in module.matrices():
                    nn.init.xavier_uniform_(matrix)
            elif isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
            elif isinstance(module, Embed | VocabularyHead):
                glorot = (6 / sum(module.weight.shape)) ** 0.5
                bound = min(glorot, (2 * self.config.dim) ** -0.5)
                nn.init.uniform_(module.weight, -bound, bound)

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
        layout = Layout(target.lengths, target.ids.device)
        mask = Mask(causal=True, key_lengths=_uneven(layout), query_lengths=_uneven(layout))
        return Context(layout, layout.where, mask, self.decoder.positions, memory=memory, tap=tap)

    def encode(self, source: Ragged, tap: Tap | None = None) -> Memory:
        """Source sentences -> the memory that the decoder looks at."""
        if tap is not None:
            tap.begin(self.sites())
        layout = Layout(source.lengths, source.ids.device)
        mask = Mask(key_lengths=_uneven(layout), query_lengths=_uneven(layout))
        ctx = Context(layout, layout.where, mask, self.encoder.positions, tap=tap)
        x = self.source_embed(source.ids, ctx.where, ctx.positions)  # (source tokens, dim)
        x = self.encoder(ctx.visit("encoder.embedding", x), ctx)
        return Memory(x, layout)

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
        rows, cache, memory = ids.numel(), state.cache, state.memory
        layout = Layout((1,) * rows, ids.device)
        where = torch.tensor(cache.lengths, device=ids.device)
        mask = Mask(
            causal=True,
            key_lengths=None if cache.even else tuple(length + 1 for length in cache.lengths),
            query_lengths=None if cache.even else (1,) * rows,
        )
        ctx = Context(
            layout,
            where,
            mask,
            self.decoder.positions,
            memory=memory,
            memory_layout=Layout((state.beams,) * memory.layout.batch, ids.device),
            cache=cache,
            tap=tap,
        )
        logits = self._logits(self._decode(ids, ctx), ctx)
        cache.advance((1,) * rows)
        return logits

    def _decode(self, ids: Tensor, ctx: Context) -> Tensor:
        x = self.target_embed(ids, ctx.where, ctx.positions)  # (tokens, dim)
        return self.decoder(ctx.visit("decoder.embedding", x), ctx)  # (tokens, dim)

    def _logits(self, x: Tensor, ctx: Context) -> Tensor:
        return ctx.visit("logits", self.head(x))  # (tokens, vocab)

    def sites(self) -> dict[str, int]:
        """Every site a tap can name, with its number of heads (0 where there are none)."""
        sites = {"encoder.embedding": 0, "decoder.embedding": 0, "logits": 0}
        for stack in (self.encoder, self.decoder):
            for layer in stack.attentions():
                for site in _ATTENTION_SITES:
                    heads = layer.kv_heads if site in ("k", "v") else layer.heads
                    sites[f"{layer.name}.{site}"] = heads
                sites[f"{layer.name}.out"] = 0
            for block in stack.layers():
                sites |= {f"{block.name}.feed_forward": 0, f"{block.name}.residual": 0}
        return sites

    def heads(self) -> list[str]:
        """Every head's name, such as `decoder.1.cross.3`."""
        sites = self.sites().items()
        names = [(site.removesuffix(".heads"), n) for site, n in sites if site.endswith(".heads")]
        return [f"{name}.{head}" for name, count in names for head in range(count)]


_ATTENTION_SITES = ("q", "k", "v", "scores", "weights", "heads")


def _uneven(layout: Layout) -> tuple[int, ...] | None:
    return None if layout.even else layout.lengths
