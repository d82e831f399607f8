"""Hugging Face transformers' Marian: training, `generate`, and reading with eager attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from benchmarks.measure.ours import reading_time
from benchmarks.peers.loop import Padded, PairLoop, Training, rows, start
from benchmarks.peers.work import read

BEAM, WRITTEN = 4, 30


def build(work: dict[str, Any], attention: str = "sdpa") -> Any:
    """A Marian of the work's sizes, random weights, no attention dropout."""
    import torch
    from transformers import MarianConfig, MarianMTModel

    model = work["model"]
    shared = work["source_vocab"] == work["target_vocab"] and model["tied"] == "all"
    config = MarianConfig(
        vocab_size=work["source_vocab"],
        decoder_vocab_size=work["target_vocab"],
        share_encoder_decoder_embeddings=shared,
        tie_word_embeddings=True,
        d_model=model["dim"],
        encoder_layers=model["encoder_layers"],
        decoder_layers=model["decoder_layers"],
        encoder_attention_heads=model["heads"],
        decoder_attention_heads=model["heads"],
        encoder_ffn_dim=model["hidden"],
        decoder_ffn_dim=model["hidden"],
        activation_function="relu",
        dropout=model["dropout"],
        activation_dropout=model["dropout"],
        attention_dropout=0.0,
        max_position_embeddings=model["max_length"],
        scale_embedding=True,
        pad_token_id=work["pad"],
        eos_token_id=work["end"],
        bos_token_id=work["begin"],
        decoder_start_token_id=work["pad"],  # its embedding is zero: Marian starts from nothing
        forced_eos_token_id=None,
        attn_implementation=attention,
    )
    torch.manual_seed(0)
    return MarianMTModel(config)


class Train(Training):
    packages: ClassVar = ("transformers", "torch")
    install: ClassVar = "pip install transformers"

    def made(self, work: dict[str, Any]) -> PairLoop:
        model = build(work)

        def logits(batch: Padded) -> Any:
            # Padding is on the right, where no causal query looks: no mask for the decoder.
            return model(
                input_ids=batch.source,
                attention_mask=batch.source_real,
                decoder_input_ids=batch.target_in,
                use_cache=False,
            ).logits

        return PairLoop(work, model, logits)


@dataclass
class Decode:
    """`generate` with a beam of 4 and exactly 30 tokens; the case is a number of sentences."""

    work: str
    packages: ClassVar = ("transformers", "torch")
    install: ClassVar = "pip install transformers"

    def prepare(self, threads: int) -> None:
        start(threads)
        self.settings = read(self.work)
        self.model = build(self.settings).eval()
        [batch] = self.settings["batches"]["decode"]
        self.sources = [source for source, _ in batch]

    def measure(self, case: str) -> float:
        import torch

        count = int(case)
        ids = rows(self.sources[:count], self.settings["pad"])
        with torch.inference_mode():
            output = self.model.generate(
                input_ids=ids,
                attention_mask=(ids != self.settings["pad"]).long(),
                num_beams=BEAM,
                min_new_tokens=WRITTEN,
                max_new_tokens=WRITTEN,
                do_sample=False,
            )
        assert output.shape == (count, 1 + WRITTEN), output.shape
        return count


@dataclass
class Encode:
    """Reading one long text; `eager` returns the weights of every layer: there is no choice."""

    tokens: int
    attention: str
    model: dict[str, Any]
    packages: ClassVar = ("transformers", "torch")
    install: ClassVar = "pip install transformers"

    @property
    def shortest(self) -> float:
        return reading_time(self.tokens)

    def prepare(self, threads: int) -> None:
        import torch

        start(threads)
        work = {"model": self.model, "source_vocab": 1000, "target_vocab": 1000}
        whole = build({**work, "pad": 0, "begin": 1, "end": 2}, self.attention).eval()
        self.encoder = whole.get_encoder()
        self.ids = torch.randint(4, 1000, (1, self.tokens))

    def measure(self, case: str) -> float:
        del case
        import torch

        looking = self.attention == "eager"
        with torch.inference_mode():
            output = self.encoder(input_ids=self.ids, output_attentions=looking)
        assert not looking or output.attentions[0].shape[-1] == self.tokens
        return self.tokens
