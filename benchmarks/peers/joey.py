"""JoeyNMT's own Transformer and recurrent model, in a folder of its own that `make bench` fills.

Its pins (protobuf below 3.21 among them) would change what else is installed, so it stands there
without its dependencies; only what its model imports is put beside it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from benchmarks.peers.loop import Padded, PairLoop, Training

FOLDER = Path(sys.prefix) / "joey"
"""In the environment that runs the suite."""


def vocabulary(size: int) -> Any:
    """A vocabulary of so many entries: the model asks only for its size and special ids."""
    from joeynmt.vocabulary import Vocabulary

    class Sized(Vocabulary):
        def add_tokens(self, tokens: list[str]) -> None:
            """All at once: the original looks each token up in a list, for minutes at 16,000."""
            self._itos = tokens
            self._stoi = {token: index for index, token in enumerate(tokens)}

    special = SimpleNamespace(
        unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None,
        unk_id=0, pad_id=1, bos_id=2, eos_id=3, sep_id=None, lang_tags=[],
    )  # fmt: skip
    return Sized([f"w{index}" for index in range(4, size)], special)


def build(work: dict[str, Any]) -> Any:
    """JoeyNMT's model of the work's sizes, no attention dropout."""
    from joeynmt.model import build_model
    from joeynmt.transformer_layers import MultiHeadedAttention

    model = work["model"]
    if model["family"] == "seq2seq":
        return build_model(recurrent(model), *vocabularies(work))
    stack = {
        "type": "transformer",
        "num_heads": model["heads"],
        "embeddings": {"embedding_dim": model["dim"], "scale": True},
        "hidden_size": model["dim"],
        "ff_size": model["hidden"],
        "dropout": model["dropout"],
        "layer_norm": model["norm_place"],
    }
    config = {
        "initializer": "xavier_uniform",
        "embed_initializer": "xavier_uniform",
        "tied_embeddings": model["tied"] == "all",
        "tied_softmax": True,
        "encoder": {**stack, "num_layers": model["encoder_layers"]},
        "decoder": {**stack, "num_layers": model["decoder_layers"]},
    }
    built = build_model(config, *vocabularies(work))
    for module in built.modules():
        if isinstance(module, MultiHeadedAttention):
            module.dropout.p = 0.0
    return built


def vocabularies(work: dict[str, Any]) -> tuple[Any, Any]:
    """Those of both sides."""
    return vocabulary(work["source_vocab"]), vocabulary(work["target_vocab"])


def recurrent(model: dict[str, Any]) -> dict[str, Any]:
    """JoeyNMT's settings of a recurrent model with additive attention and input feeding.

    It attends after a step, not before, and feeds tanh(W [state; context]) to the next one; all
    widths are those of ours.
    """
    stack = {
        "type": "recurrent",
        "rnn_type": model["cell"],
        "embeddings": {
            "embedding_dim": model["dim"],
            "scale": False,
            "dropout": model["dropout"],
        },
        "dropout": model["dropout"],
        "num_layers": 1,
    }
    return {
        "initializer": "xavier_uniform",
        "embed_initializer": "xavier_uniform",
        "tied_embeddings": model["tied"] == "all",
        "tied_softmax": True,
        "encoder": {**stack, "hidden_size": model["dim"] // 2, "bidirectional": True},
        "decoder": {
            **stack,
            "hidden_size": model["dim"],
            "hidden_dropout": model["dropout"],
            "attention": "bahdanau",
            "init_hidden": "bridge",
        },
    }


class Train(Training):
    packages: ClassVar = ("joeynmt", "torch")
    install: ClassVar = "make bench"
    folders: ClassVar = (str(FOLDER),)

    def made(self, work: dict[str, Any]) -> PairLoop:
        # JoeyNMT numbers its special symbols unk, pad, begin, end; ids of words are the same.
        # Its recurrent encoder wants the longest source first.
        batches = {
            case: [sorted(pairs, key=lambda pair: -len(pair[0])) for pairs in batches]
            for case, batches in work["batches"].items()
        }
        work = {**work, "pad": 1, "begin": 2, "end": 3, "batches": batches}
        model = build(work)

        def logits(batch: Padded) -> Any:
            out, _, _, _ = model._encode_decode(
                src=batch.source,
                trg_input=batch.target_in,
                src_mask=batch.source_real[:, None],
                src_length=batch.source_real.sum(1),
                trg_mask=(batch.target_in != work["pad"])[:, None],
            )
            return out

        return PairLoop(work, model, logits)
