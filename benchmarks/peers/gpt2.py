"""Hugging Face transformers' GPT-2: training, `generate`; and the same weights in CTranslate2."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

from benchmarks.peers import ctranslate
from benchmarks.peers.loop import TextLoop, Training, start
from benchmarks.peers.work import counted, read

ACTIVATION = "gelu_pytorch_tanh"
"""The function that GPT-2's own `gelu_new` writes out in seven steps, in one kernel."""


def build(work: dict[str, Any]) -> Any:
    """A GPT-2 of the work's sizes with its weights, or with random ones; no dropout."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    if work.get("weights"):
        return GPT2LMHeadModel.from_pretrained(
            work["weights"],
            activation_function=ACTIVATION,
            pad_token_id=work["end"],
            attn_implementation="sdpa",
        )
    model = work["model"]
    config = GPT2Config(
        vocab_size=work["vocab"],
        n_positions=model["max_length"],
        n_embd=model["dim"],
        n_layer=model["layers"],
        n_head=model["heads"],
        n_inner=model["hidden"],
        activation_function=ACTIVATION,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=work["end"],
        eos_token_id=work["end"],
        pad_token_id=work["end"],
        attn_implementation="sdpa",
    )
    torch.manual_seed(0)
    return GPT2LMHeadModel(config)


class Train(Training):
    packages: ClassVar = ("transformers", "torch")
    install: ClassVar = "pip install transformers"

    def made(self, work: dict[str, Any]) -> TextLoop:
        model = build(work)
        return TextLoop(work, model, lambda ids: model(input_ids=ids, use_cache=False).logits)


@dataclass
class Decode:
    """`generate`, greedy, always as many tokens; the case: after how many prompts. Work: tokens."""

    work: str
    packages: ClassVar = ("transformers", "torch")
    install: ClassVar = "pip install transformers"

    def prepare(self, threads: int) -> None:
        start(threads)
        self.settings = read(self.work)
        self.model = build(self.settings).eval()

    def written(self, count: int) -> list[list[int]]:
        import torch

        ids, length = torch.tensor(self.settings["texts"][:count]), self.settings["written"]
        with torch.inference_mode():
            output = self.model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                min_new_tokens=length,
                max_new_tokens=length,
                do_sample=False,
            )
        return output[:, ids.shape[1] :].tolist()

    def measure(self, case: str) -> float:
        rows = self.written(int(case))
        self.answer = rows[0]
        return counted(rows, self.settings)


def spec_of(work: dict[str, Any]) -> Any:
    """The model as CTranslate2's own loader reads it; tokens are t0, t1, …"""
    import torch
    from ctranslate2.converters.transformers import GPT2Loader

    names = [f"t{index}" for index in range(work["vocab"])]
    vocabulary, end = {name: index for index, name in enumerate(names)}, names[work["end"]]
    tokenizer = SimpleNamespace(
        get_vocab=lambda: vocabulary, bos_token=end, eos_token=end, unk_token=end
    )
    with torch.no_grad():
        return GPT2Loader()(build(work).eval(), tokenizer)


@dataclass
class DecodeCTranslate2:
    """`generate_batch`, greedy, always as many tokens; the case: after how many prompts.

    Work: tokens.
    """

    work: str
    precision: str = "float32"
    packages: ClassVar = ("ctranslate2",)
    install: ClassVar = "pip install ctranslate2 transformers"

    def prepare(self, threads: int) -> None:
        import ctranslate2

        start(threads)
        self.settings = read(self.work)
        self.generator = ctranslate.loaded(
            ctranslate2.Generator, spec_of(self.settings), self.precision, threads
        )
        self.prompts = [[f"t{token}" for token in text] for text in self.settings["texts"]]

    def written(self, count: int) -> list[list[int]]:
        results = self.generator.generate_batch(
            self.prompts[:count],
            beam_size=1,
            min_length=self.settings["written"],
            max_length=self.settings["written"],
            include_prompt_in_result=False,  # so the prompt is read in one pass
        )
        return [result.sequences_ids[0] for result in results]

    def measure(self, case: str) -> float:
        rows = self.written(int(case))
        self.answer = rows[0]
        return counted(rows, self.settings)
