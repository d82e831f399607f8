"""llama.cpp, given the weights of the same GPT-2 as a GGUF file, by its C functions.

`make bench` builds it for this processor (llama-cpp-python's source package) into a folder of its
own, with `gguf`, which writes the file. Sampling is the largest logit, as in `generate`.
"""

from __future__ import annotations

import ctypes
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.peers.work import counted, read

FOLDER = Path(sys.prefix) / "llama"
"""In the environment that runs the suite."""
PRECISIONS = {"f32": "F32", "f16": "F16", "q8_0": "Q8_0"}
"""Names of llama.cpp's own converter -> names of GGUF's types, for the matrices."""
NAMES = {
    "wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output", "ln_1": "attn_norm", "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}  # fmt: skip
"""GPT-2's modules -> GGUF's tensors."""


def gguf_name(name: str) -> str:
    """`transformer.h.3.mlp.c_fc.weight` -> `blk.3.ffn_up.weight`."""
    middle, kind = name.removeprefix("transformer.").rsplit(".", 1)
    if not middle.startswith("h."):
        return f"{NAMES[middle]}.{kind}"
    _, layer, module = middle.split(".", 2)
    return f"blk.{layer}.{NAMES[module]}.{kind}"


def write_gguf(work: dict[str, Any], precision: str, path: Path) -> None:
    """The work's GPT-2 as llama.cpp's own converter would write it, without a tokenizer.

    Vectors and positions stay in 32 bits, as they do there. The output's matrix is the embedding's.
    """
    import gguf
    from safetensors.numpy import load_file

    folder, kind = Path(work["weights"]), gguf.GGMLQuantizationType[PRECISIONS[precision]]
    config = json.loads((folder / "config.json").read_text("utf-8"))
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_block_count(config["n_layer"])
    writer.add_feed_forward_length(config["n_inner"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    writer.add_vocab_size(work["vocab"])
    writer.add_tokenizer_model("no_vocab")
    for name, numbers in load_file(folder / "model.safetensors").items():
        if ".c_" in name and numbers.ndim == 2:
            numbers = numbers.T  # GPT-2 keeps these matrices as (into, out); GGUF as (out, into)
        if numbers.ndim == 2 and "wpe" not in name:
            stored = gguf.quantize(numbers, kind)
            writer.add_tensor(gguf_name(name), stored, raw_dtype=kind)
        else:
            writer.add_tensor(gguf_name(name), numbers)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@dataclass
class Decode:
    """Greedy, always as many tokens; the case: after how many prompts at once. Work: tokens."""

    work: str
    precision: str = "f32"
    packages: ClassVar = ("llama_cpp_python",)
    install: ClassVar = "make bench (builds llama-cpp-python, 10 minutes)"
    folders: ClassVar = (str(FOLDER),)

    def prepare(self, threads: int) -> None:
        import llama_cpp

        self.settings = work = read(self.work)
        self.prompts = work["texts"]
        tokens = len(self.prompts) * (len(self.prompts[0]) + work["written"])
        self.api = llama_cpp
        llama_cpp.llama_log_set(QUIET, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / "gpt2.gguf"
            write_gguf(work, self.precision, path)
            options = llama_cpp.llama_model_default_params()
            self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), options)
        assert self.model, "llama.cpp cannot read the file"
        settings = llama_cpp.llama_context_default_params()
        settings.n_threads = settings.n_threads_batch = threads
        settings.n_seq_max = len(self.prompts)
        settings.n_ctx = max(tokens, 256 * len(self.prompts))  # divided among the prompts
        self.context = llama_cpp.llama_init_from_model(self.model, settings)
        self.memory = llama_cpp.llama_get_memory(self.context)
        self.batch = llama_cpp.llama_batch_init(tokens, 0, 1)

    def written(self, count: int) -> list[list[int]]:
        self.api.llama_memory_clear(self.memory, True)  # noqa: FBT003 (a C function)
        rows: list[list[int]] = [[] for _ in range(count)]
        following = [list(prompt) for prompt in self.prompts[:count]]  # tokens to read next
        start = 0
        for _ in range(self.settings["written"]):
            chosen = self._step(following, start)
            start += len(following[0])
            following = [[token] for token in chosen]
            for row, token in zip(rows, chosen, strict=True):
                row.append(token)
        return rows

    def _step(self, following: list[list[int]], start: int) -> list[int]:
        """Reads the same number of tokens of each prompt; the largest logit after the last."""
        import numpy as np

        batch, index, last = self.batch, 0, []
        for row, tokens in enumerate(following):
            for offset, token in enumerate(tokens):
                batch.token[index], batch.pos[index] = token, start + offset
                batch.n_seq_id[index], batch.seq_id[index][0] = 1, row
                batch.logits[index] = offset == len(tokens) - 1
                index += 1
            last.append(index - 1)
        batch.n_tokens = index
        failed = self.api.llama_decode(self.context, batch)
        assert not failed, failed
        chosen = []
        for index in last:
            logits = self.api.llama_get_logits_ith(self.context, index)
            numbers = np.ctypeslib.as_array(logits, (self.settings["vocab"],))
            numbers[self.settings["end"]] = -np.inf
            chosen.append(int(numbers.argmax()))
        return chosen

    def measure(self, case: str) -> float:
        rows = self.written(int(case))
        self.answer = rows[0]
        return counted(rows, self.settings)


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def QUIET(level: int, text: bytes, data: int) -> None:  # noqa: N802
    """Drops what llama.cpp would print."""
    del level, text, data
