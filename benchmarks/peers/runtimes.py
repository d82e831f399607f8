"""onnxruntime and OpenVINO, given the peers' own models as ONNX files.

`make bench` puts each into a folder of its own, without dependencies: nothing replaces torch. The
files are written by torch's exporter; onnxruntime's own optimizer then fuses attention, norms and
activations, as its users do. OpenVINO fuses by itself when it compiles.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.peers import bert, gpt2, vit
from benchmarks.peers.loop import rows, start
from benchmarks.peers.work import counted, read

FOLDERS = tuple(str(Path(sys.prefix) / name) for name in ("onnx", "openvino"))
"""In the environment that runs the suite."""
PACKAGES = {"onnxruntime": "onnxruntime", "OpenVINO": "openvino"}


def export(
    model: nn.Module, inputs: dict[str, Tensor], outputs: Sequence[str], axes: Any, path: Path
) -> None:
    """A model as an ONNX file; `axes` names the dimensions of each input that may vary."""
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")  # what tracing turns into constants is meant to be one
        torch.onnx.export(
            model.eval(),
            tuple(inputs.values()),
            str(path),
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes=axes,
            dynamo=False,  # a tenth of the time of the new exporter, for the same products
        )


class Onnxruntime:
    """A session whose answers stay where they are, to be given back as inputs.

    Args:
        path: The ONNX file.
        threads: Threads of an operation.
        kind: The optimizer's name for the architecture: "bert", "gpt2", "vit".
        heads: Attention heads.
        dim: Width.
    """

    def __init__(self, path: Path, threads: int, kind: str, heads: int, dim: int) -> None:
        import onnxruntime
        from onnxruntime.transformers.optimizer import optimize_model

        fused = path.with_suffix(".fused.onnx")
        better = optimize_model(
            str(path), model_type=kind, num_heads=heads, hidden_size=dim, use_gpu=False
        )
        better.save_model_to_file(str(fused))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(
            str(fused), options, providers=["CPUExecutionProvider"]
        )
        self.value = onnxruntime.OrtValue.ortvalue_from_numpy
        self.names = [output.name for output in self.session.get_outputs()]

    def run(self, inputs: dict[str, Any]) -> list[Any]:
        """Answers as onnxruntime's values; inputs are those, or numpy arrays."""
        given = {
            name: self.value(value) if hasattr(value, "dtype") else value
            for name, value in inputs.items()
        }
        return self.session.run_with_ort_values(self.names, given)

    def numpy(self, answer: Any) -> Any:
        return answer.numpy()


class OpenVINO:
    """A compiled model; see `Onnxruntime` for the arguments, of which it needs the first two."""

    def __init__(self, path: Path, threads: int, *_: object) -> None:
        import openvino

        settings = {
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
        }
        self.request = openvino.compile_model(str(path), "CPU", settings).create_infer_request()
        self.outputs = len(self.request.model_outputs)
        self.tensor = openvino.Tensor

    def run(self, inputs: dict[str, Any]) -> list[Any]:
        self.request.infer(inputs, share_inputs=True)
        # The request writes over its outputs at the next call: those to be given back are copied.
        outputs = [self.request.get_output_tensor(index).data for index in range(self.outputs)]
        return [outputs[0], *(output.copy() for output in outputs[1:])]

    def numpy(self, answer: Any) -> Any:
        return answer


ENGINES = {"onnxruntime": Onnxruntime, "OpenVINO": OpenVINO}


class Cached(nn.Module):
    """A GPT-2 of transformers that reads some tokens after others whose keys and values it has.

    Inputs: ids (rows, new), then for each layer keys and values (rows, heads, before, size).
    Outputs: logits after the last token (rows, vocab), then the longer keys and values.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.body, self.heads = model.transformer, model.config.n_head

    def forward(self, ids: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        n, before = ids.shape[1], past[0].shape[2]
        positions = torch.arange(n) + before
        visible = torch.arange(before + n)[None] <= positions[:, None]  # (new, before + new)
        x, cache = self.body.wte(ids) + self.body.wpe(positions), []
        for layer, block in enumerate(self.body.h):
            parts = block.attn.c_attn(block.ln_1(x)).split(x.shape[-1], dim=2)
            # (rows, new, dim) -> (rows, heads, new, size)
            q, k, v = (part.view(*part.shape[:2], self.heads, -1).transpose(1, 2) for part in parts)
            k, v = torch.cat((past[2 * layer], k), 2), torch.cat((past[2 * layer + 1], v), 2)
            cache += [k, v]
            scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
            weights = scores.masked_fill(~visible, float("-inf")).softmax(-1)
            mixed = (weights @ v).transpose(1, 2).reshape(x.shape)
            x = x + block.attn.c_proj(mixed)
            x = x + block.mlp.c_proj(F.gelu(block.mlp.c_fc(block.ln_2(x)), approximate="tanh"))
        return self.body.ln_f(x[:, -1]) @ self.body.wte.weight.T, *cache


@dataclass
class OnEngine:
    """A contender that runs a model of transformers in onnxruntime or OpenVINO."""

    work: str
    engine: str = "onnxruntime"
    folders: ClassVar = FOLDERS
    install: ClassVar = "make bench"

    @property
    def packages(self) -> tuple[str, ...]:
        return (PACKAGES[self.engine],)

    def open_session(
        self, model: nn.Module, inputs: dict[str, Tensor], output: str, axes: Any, threads: int
    ) -> None:
        """Exports a model that is read once, without a cache, and opens it in the engine."""
        kind, config = self.model.config.model_type, self.model.config
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / f"{kind}.onnx"
            export(model, inputs, [output], axes, path)
            self.session = ENGINES[self.engine](
                path, threads, kind, config.num_attention_heads, config.hidden_size
            )


@dataclass
class Decode(OnEngine):
    """Greedy, always as many tokens; the case: after how many prompts at once. Work: tokens."""

    def prepare(self, threads: int) -> None:
        start(threads)
        self.settings = read(self.work)
        theirs = gpt2.build(self.settings).eval()
        layers, heads = theirs.config.n_layer, theirs.config.n_head
        size = theirs.config.n_embd // heads
        self.names = [f"{kind}{layer}" for layer in range(layers) for kind in "kv"]
        self.empty = (heads, 0, size)
        past = {name: torch.zeros(2, heads, 5, size) for name in self.names}
        inputs = {"ids": torch.zeros(2, 3, dtype=torch.long), **past}
        axes = {"ids": {0: "rows", 1: "new"}}
        axes |= {name: {0: "rows", 2: "before"} for name in self.names}
        with tempfile.TemporaryDirectory() as temporary:
            path, outputs = Path(temporary) / "gpt2.onnx", [f"{name}_out" for name in self.names]
            export(Cached(theirs), inputs, ["logits", *outputs], axes, path)
            self.model = ENGINES[self.engine](path, threads, "gpt2", heads, heads * size)

    def written(self, count: int) -> list[list[int]]:
        import numpy as np

        ids = np.asarray(self.settings["texts"][:count], dtype=np.int64)
        past: list[Any] = [np.zeros((count, *self.empty), dtype=np.float32) for _ in self.names]
        chosen = []
        for _ in range(self.settings["written"]):
            answers = self.model.run({"ids": ids, **dict(zip(self.names, past, strict=True))})
            logits, past = self.model.numpy(answers[0]), answers[1:]
            logits[:, self.settings["end"]] = -np.inf
            ids = logits.argmax(1, keepdims=True)
            chosen.append(ids[:, 0])
        return np.stack(chosen, 1).tolist()

    def measure(self, case: str) -> float:
        rows = self.written(int(case))
        self.answer = rows[0]
        return counted(rows, self.settings)


class Hidden(nn.Module):
    """A BERT of transformers: (batch, length) ids and which are real -> (batch, length, dim)."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        return self.model(input_ids=ids, attention_mask=real).last_hidden_state


@dataclass
class Embed(OnEngine, bert.Embed):
    """A vector for each sentence, with the batches that transformers gets. Work: sentences."""

    def prepare(self, threads: int) -> None:
        super().prepare(threads)
        ids = rows(self.sentences[:2], bert.PAD)
        inputs = {"ids": ids, "real": (ids != bert.PAD).long()}
        axes = {name: {0: "batch", 1: "length"} for name in inputs}
        self.open_session(Hidden(self.model), inputs, "hidden", axes, threads)

    def hidden(self, ids: Tensor, real: Tensor) -> Tensor:
        [hidden] = self.session.run({"ids": ids.numpy(), "real": real.numpy()})
        return torch.from_numpy(self.session.numpy(hidden))


class Logits(nn.Module):
    """A ViT of transformers: pixels (images, channels, height, width) -> (images, classes)."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        return self.model(pixel_values=pixels).logits


@dataclass
class Classify(OnEngine, vit.Classify):
    """Logits of the classes; the case: how many images at once. Work: images."""

    def prepare(self, threads: int) -> None:
        super().prepare(threads)
        inputs, axes = {"pixels": self.images[:2]}, {"pixels": {0: "images"}}
        self.open_session(Logits(self.model), inputs, "logits", axes, threads)

    def logits(self, images: Any) -> Any:
        [logits] = self.session.run({"pixels": images.numpy()})
        return self.session.numpy(logits)
