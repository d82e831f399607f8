"""A recurrent translator as tutorials write it: one step of the decoder after the other.

A bidirectional `nn.GRU` reads the padded source (packed, so that it computes nothing for padding);
for each target token, additive attention, an `nn.GRUCell`, the readout and the logits follow. The
equations are those of `docs/recurrent.md`; the keys U h are computed once, before the loop.
`tests/benchmarks/` checks that with the same weights it computes and writes the same as ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmarks.peers.loop import Padded, PairLoop, Training, rows, start
from benchmarks.peers.work import read


class Translator(nn.Module):
    """Encoder, attention and decoder of `dim`, with one matrix for embeddings and output."""

    def __init__(self, work: dict[str, Any]) -> None:
        super().__init__()
        dim = work["model"]["dim"]
        self.embed = nn.Embedding(work["target_vocab"], dim)
        nn.init.xavier_uniform_(self.embed.weight)
        self.encoder = nn.GRU(dim, dim // 2, batch_first=True, bidirectional=True)
        self.first = nn.Linear(dim // 2, dim)
        self.query, self.key = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.vector = nn.Linear(dim, 1, bias=False)
        self.cell = nn.GRUCell(2 * dim, dim)
        self.readout = nn.Linear(3 * dim, dim)
        self.dropout = nn.Dropout(work["model"]["dropout"])

    def embedded(self, ids: Tensor) -> Tensor:
        """(batch, length) -> (batch, length, dim)"""
        return self.dropout(self.embed(ids) * self.embed.embedding_dim**0.5)

    def encode(self, source: Tensor, real: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The states of all tokens and their keys, (batch, length, dim), and the first state."""
        lengths = real.sum(1)
        packed = pack_padded_sequence(
            self.embedded(source), lengths, batch_first=True, enforce_sorted=False
        )
        memory, _ = pad_packed_sequence(self.encoder(packed)[0], batch_first=True)
        memory = self.dropout(memory)
        backward = memory[:, 0, memory.shape[-1] // 2 :]
        return memory, self.key(memory), self.first(backward).tanh()

    def step(
        self, y: Tensor, state: Tensor, memory: Tensor, keys: Tensor, real: Tensor
    ) -> tuple[Tensor, Tensor]:
        """One target token: y (batch, dim) -> logits (batch, vocab), and the next state."""
        scores = self.vector((self.query(state)[:, None] + keys).tanh()).squeeze(-1)
        weights = scores.masked_fill(~real, float("-inf")).softmax(-1)  # (batch, length)
        context = (weights[:, None] @ memory).squeeze(1)
        state = self.cell(torch.cat((y, context), 1), state)
        hidden = self.readout(torch.cat((self.dropout(state), context, y), 1)).tanh()
        return hidden @ self.embed.weight.T, state

    def forward(self, batch: Padded) -> Tensor:
        """(batch, length, vocab)"""
        memory, keys, state = self.encode(batch.source, batch.source_real)
        logits = []
        for y in self.embedded(batch.target_in).unbind(1):
            step_logits, state = self.step(y, state, memory, keys, batch.source_real)
            logits.append(step_logits)
        return torch.stack(logits, 1)

    @torch.inference_mode()
    def greedy(
        self, source: Tensor, real: Tensor, work: dict[str, Any], length: int
    ) -> tuple[Tensor, Tensor]:
        """The best next token, `length` times; the end symbol is forbidden.

        Returns:
            The tokens (batch, length), and the log-probability of each row (batch,).
        """
        memory, keys, state = self.encode(source, real)
        ids, written = torch.full((len(source),), work["begin"]), []
        total = torch.zeros(len(source))
        forbidden = [work["pad"], work["begin"], work["end"]]
        for _ in range(length):
            logits, state = self.step(self.embedded(ids), state, memory, keys, real)
            log_probs = logits.log_softmax(-1)
            logits[:, forbidden] = float("-inf")
            ids = logits.argmax(-1)
            total += log_probs.gather(1, ids[:, None])[:, 0]
            written.append(ids)
        return torch.stack(written, 1), total


def copy_weights(ours: Any, theirs: Translator) -> None:
    """Gives the plain model the weights of a `Seq2Seq` of GRU cells with additive attention."""
    block, [encoder] = ours.decoder.blocks[0], ours.encoder.blocks
    attention, cells = block.cross_attention, block.recurrent.cells
    theirs.encoder.load_state_dict(encoder.recurrent.cells.state_dict())
    theirs.cell.load_state_dict(
        {name.removesuffix("_l0"): value for name, value in cells.state_dict().items()}
    )
    pairs = {
        theirs.embed.weight: ours.head.weight,
        theirs.first.weight: ours.decoder.first.weight,
        theirs.first.bias: ours.decoder.first.bias,
        theirs.query.weight: attention.query.weight,
        theirs.key.weight: attention.key_value.weight,
        theirs.vector.weight: attention.score.vector,
        theirs.readout.weight: ours.decoder.readout.weight,
        theirs.readout.bias: ours.decoder.readout.bias,
    }
    with torch.no_grad():
        for mine, other in pairs.items():
            mine.copy_(other)


class Train(Training):
    packages: ClassVar = ("torch",)

    def made(self, work: dict[str, Any]) -> PairLoop:
        model = Translator(work)
        return PairLoop(work, model, model)


@dataclass
class Decode:
    """Greedy decoding with the weights that ours has; the case is the number of sentences."""

    work: str
    written: int
    packages: ClassVar = ("torch",)

    def prepare(self, threads: int) -> None:
        from benchmarks.measure.ours import ready_model
        from benchmarks.measure.work import Work

        start(threads)
        self.settings, same = read(self.work), Work.read(self.work)
        self.model = Translator(self.settings).eval()
        torch.manual_seed(0)
        copy_weights(ready_model(same.config, same.source_vocab, same.target_vocab), self.model)
        self.sources = [source for batch in same.batches["decode"] for source, _ in batch]

    def hypotheses(self, count: int) -> list[tuple[list[int], float]]:
        """Tokens and log-probability for each of the first `count` sentences, in one batch."""
        source = rows(self.sources[:count], self.settings["pad"])
        real = source != self.settings["pad"]
        ids, total = self.model.greedy(source, real, self.settings, self.written)
        return list(zip(ids.tolist(), total.tolist(), strict=True))

    def measure(self, case: str) -> float:
        return len(self.hypotheses(int(case)))
