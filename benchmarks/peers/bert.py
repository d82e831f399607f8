"""Hugging Face transformers' BERT, fed as sentence-transformers feeds it: vectors of sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from benchmarks.peers.loop import rows, start
from benchmarks.peers.work import read

BATCH = 32
"""Sentences at once, the default of `encode`."""
PAD = 0


def build(work: dict[str, Any]) -> Any:
    """A BERT of the work's sizes, random weights."""
    import torch
    from transformers import BertConfig, BertModel

    model = work["model"]
    config = BertConfig(
        vocab_size=work["vocab"],
        hidden_size=model["dim"],
        num_hidden_layers=model["layers"],
        num_attention_heads=model["heads"],
        intermediate_size=model["hidden"],
        hidden_act=model["activation"],
        max_position_embeddings=model["max_length"],
        type_vocab_size=model["token_types"],
        layer_norm_eps=model["norm_epsilon"],
        pad_token_id=PAD,
        attn_implementation="sdpa",
    )
    torch.manual_seed(0)
    return BertModel(config, add_pooling_layer=False)  # what is pooled is the mean


@dataclass
class Embed:
    """A vector for each sentence; the case is not used. Work: sentences."""

    work: str
    packages: ClassVar = ("transformers", "torch")
    install: ClassVar = "pip install transformers"

    def prepare(self, threads: int) -> None:
        start(threads)
        work = read(self.work)
        self.model = build(work).eval()
        self.sentences = work["texts"]

    def hidden(self, ids: Any, real: Any) -> Any:
        """(batch, length) ids, and which are not padding -> (batch, length, dim)."""
        return self.model(input_ids=ids, attention_mask=real).last_hidden_state

    def vectors(self) -> Any:
        """Mean-pooled, of length 1: (sentences, dim). Longest first, padded batch by batch."""
        import torch
        import torch.nn.functional as F

        order = sorted(range(len(self.sentences)), key=lambda i: -len(self.sentences[i]))
        vectors = []
        with torch.inference_mode():
            for first in range(0, len(order), BATCH):
                ids = rows([self.sentences[i] for i in order[first : first + BATCH]], PAD)
                real = (ids != PAD).long()  # (batch, length)
                hidden = self.hidden(ids, real)
                mask = real[..., None].to(hidden.dtype)  # (batch, length, 1)
                mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
                vectors.append(F.normalize(mean, dim=1))
        out = torch.empty(len(order), vectors[0].shape[1])
        out[order] = torch.cat(vectors)
        return out

    def measure(self, case: str) -> float:
        del case
        return len(self.vectors())
