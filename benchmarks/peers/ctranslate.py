"""CTranslate2, given the same random Marian that transformers decodes, by its own converter."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from benchmarks.peers import marian
from benchmarks.peers.loop import start
from benchmarks.peers.work import read


def loaded(kind: Callable[..., Any], spec: Any, precision: str, threads: int) -> Any:
    """A Translator or a Generator of the model that was read."""
    import torch

    with torch.no_grad():
        spec.validate()
        spec.optimize(quantization=None)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "model"
        folder.mkdir()
        spec.save(str(folder))
        return kind(
            str(folder),
            device="cpu",
            compute_type=precision,
            inter_threads=1,
            intra_threads=threads,
        )


def spec_of(work: dict[str, Any]) -> Any:
    """The model as CTranslate2's own loader reads it; tokens are t0, t1, …, the last padding."""
    from ctranslate2.converters.transformers import MarianMTLoader

    size = work["target_vocab"]
    names = [f"t{index}" for index in range(size - 1)] + ["<pad>"]
    vocabulary = {name: index for index, name in enumerate(names)}
    tokenizer = SimpleNamespace(
        get_vocab=lambda: vocabulary, eos_token=names[work["end"]], unk_token=names[3]
    )
    return MarianMTLoader()(marian.build(work).eval(), tokenizer)


@dataclass
class Decode:
    """`translate_batch` with a beam of 4 and exactly 30 tokens; the case: how many sentences."""

    work: str
    precision: str = "float32"
    packages: ClassVar = ("ctranslate2",)
    install: ClassVar = "pip install ctranslate2 transformers"

    def prepare(self, threads: int) -> None:
        import ctranslate2

        start(threads)
        work = read(self.work)
        self.translator = loaded(ctranslate2.Translator, spec_of(work), self.precision, threads)
        [batch] = work["batches"]["decode"]
        last = work["target_vocab"] - 2  # the entry behind it is padding here
        self.sources = [[f"t{min(token, last)}" for token in source] for source, _ in batch]

    def measure(self, case: str) -> float:
        results = self.translator.translate_batch(
            self.sources[: int(case)],
            beam_size=marian.BEAM,
            min_decoding_length=marian.WRITTEN,
            max_decoding_length=marian.WRITTEN,
        )
        lengths = {len(result.hypotheses[0]) for result in results}
        assert lengths == {marian.WRITTEN}, lengths
        return len(results)
