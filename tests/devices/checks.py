"""What every family and task must do on a device that is not the CPU; run as a program.

`pretend` (see there) is registered for a whole process, so this is one: each check compares with
the CPU, and what came of it is printed as JSON, `ok` or a traceback.
"""

from __future__ import annotations

import json
import sys
import tempfile
import traceback
from pathlib import Path

import torch

import regard
from regard.decode.config import DecodeConfig
from regard.decode.engine import decode
from regard.decode.filters import Symbols
from regard.inputs.arrays import Dense, Ragged
from regard.kernels.dropout import drawing_from
from regard.layers import Tap, knock_out
from regard.layers.tap.without_head import without_head
from regard.models import FAMILIES, build
from regard.train.adam import Adam
from regard_lectures.figures.sentences import intervene
from tests.configs import fitting

DEVICE = "pretend"
VOCAB = 13
SIZES = {"dim": 16, "heads": 4, "hidden": 24, "dropout": 0.1, "max_length": 32, "layers": 2,
         "masked": True, "classes": ("a", "b"), "tags": ("x", "y", "z"), "spans": True,
         "image": (8, 12), "patch": 4}  # fmt: skip
CONVOLUTIONAL = {
    "cnn": {"image": (14, 18), "filters": (4, 6), "filter_side": 3, "dense": (12,),
            "classes": ("a", "b")},
    "resnet": {"image": (32, 32), "depths": (1, 1), "filters": (8, 12), "stem_width": 8,
               "classes": ("a", "b")},
    "swin": {"image": (8, 12), "patch": 1, "dim": 8, "heads": 2, "hidden": 12, "depths": (2, 2),
             "classes": ("a", "b")},
}  # fmt: skip
"""The sizes of families that are no stack of blocks."""
GRU = {"block": ("recurrent",), "norm": "none", "residual": False, "positions": "none"}
FIRST = {"kind": "feed_forward", "name": "first_feed_forward"}
VARIANTS = {
    "transformer": {
        "rotary": {"positions": "rotary", "kv_heads": 2},
        "buckets": {"positions": "buckets", "score": "additive"},
        "halves": {"positions": "sinusoidal_halves", "attention_dropout": 0.1, "window": 3},
    },
    "gpt": {
        "gru": {"decoder": GRU},
        "mixed": {
            "decoder": {"block": ("recurrent", "attention", "convolution", "feed_forward")},
            "kernel": 4,
            "cell": "lstm",
            "drop_path": 0.3,
        },
    },
    "bert": {
        "conformer": {
            "encoder": {"block": (FIRST, "attention", "convolution", "feed_forward")},
            "kernel": 3,
            "convolution_norm": "batch",
        },
        "both_ways": {"encoder": GRU | {"direction": "both", "cell": "lstm"}},
    },
    "captioner": {
        "resnet": {
            "encoder": {"kind": "resnet", "unit": "basic", "depths": (1,), "filters": (8,)},
            "decoder": {"kind": "recurrent", "cell": "lstm"},
        },
    },
}
"""Beside the usual config of each family."""


def models():
    """The names of all models that are checked, each with its family and what differs."""
    for family in FAMILIES:
        yield family, family, {}
        for name, changes in VARIANTS.get(family, {}).items():
            yield f"{family}-{name}", family, changes


class Twins:
    """A model on the CPU and the same on the device."""

    def __init__(self, family: str, changes: dict[str, object]) -> None:
        kind = FAMILIES[family].config
        sizes = CONVOLUTIONAL.get(family, SIZES)
        self.images, self.rows = kind.reads == "images", kind.reads == "table"
        sizes = {"classes": ("a", "b")} if self.rows else sizes
        if kind.has_target:
            sizes = sizes | {"encoder": {"layers": 1}}
        self.config = fitting(kind, sizes, **changes)
        vocabularies = [VOCAB] * len(kind.VOCABULARIES)
        torch.manual_seed(0)
        self.cpu = build(self.config, *vocabularies).eval()
        torch.manual_seed(0)
        self.there = build(self.config, *vocabularies).eval().to(DEVICE)
        assert self.there.device.type == DEVICE

    def __iter__(self):
        return iter(((self.cpu, "cpu"), (self.there, DEVICE)))


def ragged(*lengths: int, seed: int = 0) -> Ragged:
    ids = torch.randint(VOCAB, (sum(lengths),), generator=torch.Generator().manual_seed(seed))
    return Ragged(ids, lengths)


def same(first: torch.Tensor, second: torch.Tensor) -> None:
    torch.testing.assert_close(first.detach().cpu(), second.detach().cpu(), rtol=0, atol=2e-5)


def given(twins: Twins, device: str) -> list[Ragged | Dense]:
    """What the model reads: pictures or texts, and the targets that it writes."""
    texts = [ragged(5, 3, 1, seed=side).to(device) for side in range(1 + twins.config.has_target)]
    if twins.rows:
        rows = torch.rand((3, twins.config.features), generator=torch.Generator().manual_seed(0))
        return [Dense(rows).to(device)]
    if not twins.images:
        return texts
    shape = 3, twins.config.channels, *twins.config.image
    numbers = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    return [Dense(numbers).to(device), *texts[1:]]


def outputs(model, inputs) -> list[torch.Tensor]:
    """All that a model of any shape gives for its inputs."""
    if "decoder" in model.config.sides:
        return [model(*inputs)]
    heads = [name for name in ("classify", "tag", "answer") if hasattr(model, name)]
    tensors = [getattr(model, name)(*inputs) for name in heads]
    return tensors + ([model(*inputs)] if getattr(model.config, "masked", False) else [])


def forward(twins: Twins) -> None:
    with torch.inference_mode():
        for cpu_output, device_output in zip(
            *(outputs(model, given(twins, device)) for model, device in twins), strict=True
        ):
            same(cpu_output, device_output)


def gradients(twins: Twins) -> None:
    """Loss, gradients and a step of Adam; with dropout, which draws on the CPU for both."""
    for model, device in twins:
        inputs = given(twins, device)
        total = sum(tensor.float().square().sum() for tensor in outputs(model, inputs))
        if hasattr(model, "loss"):
            wanted = torch.arange(len(inputs[-1].ids), device=device) % VOCAB
            total = total + model.loss(*inputs, wanted, 0.1)
        model.zero_grad()
        total.backward()
    for (name, cpu_gradient), device_gradient in zip(
        twins.cpu.named_parameters(), twins.there.parameters(), strict=True
    ):
        assert (cpu_gradient.grad is None) == (device_gradient.grad is None), name
        if cpu_gradient.grad is not None:
            torch.testing.assert_close(
                cpu_gradient.grad, device_gradient.grad.cpu(), rtol=1e-3, atol=1e-3
            )
    model, inputs = twins.there.train(), given(twins, DEVICE)
    optimizer = Adam(model.parameters(), lr=0.1, fused=True)
    before = {name: tensor.detach().cpu().clone() for name, tensor in model.named_parameters()}
    with drawing_from(torch.Generator().manual_seed(1)):
        sum(tensor.float().sum() for tensor in outputs(model, inputs)).backward()
    optimizer.step()
    assert any(not torch.equal(before[n], tensor.cpu()) for n, tensor in model.named_parameters())


def decoding(twins: Twins) -> None:
    """Greedy, beam search and samples say the same, with prompts of different lengths."""
    if "decoder" not in twins.config.sides:
        return
    symbols = Symbols(begin=1, end=2, pad=0, banned=(0,))
    for settings in (
        {"beam": 1},
        {"beam": 3, "n_best": 2, "repetition_penalty": 1.2, "no_repeat_ngram": 2},
        {"sample": True, "n_best": 2, "top_k": 5, "top_p": 0.9, "min_length": 3},
    ):
        config = DecodeConfig(max_length=7, **settings)
        results = []
        for model, _ in twins:
            source = ragged(4, 2, 5) if not twins.images else given(twins, "cpu")[0]
            if twins.config.has_target:
                results.append(decode(model, source, symbols, config))
            else:
                results.append(decode(model, None, symbols, config, prompts=source.split()))
                decode(model, None, symbols, config, prefixes=[(3,), ()])
        for of_cpu, of_device in zip(*results, strict=True):
            assert [hypothesis.ids for hypothesis in of_cpu] == [
                hypothesis.ids for hypothesis in of_device
            ]
            assert [hypothesis.rows for hypothesis in of_cpu] == [
                hypothesis.rows for hypothesis in of_device
            ]


def taps(twins: Twins) -> None:
    """All sites are recorded alike, the output stays as it was, and heads can be taken away."""
    records = []
    for model, device in twins:
        inputs, tap = given(twins, device), Tap("*")
        call = model.hidden if "decoder" not in model.config.sides else model
        with torch.inference_mode():
            plain, seen = call(*inputs), call(*inputs, tap)
        same(plain, seen)
        records.append(dict(tap.records))
    assert records[0].keys() == records[1].keys()
    for site, value in records[0].items():
        assert records[1][site].device.type == DEVICE, site
        same(value, records[1][site])
    for head in twins.cpu.heads()[:1]:
        lessened = []
        for model, device in twins:
            inputs, tap = given(twins, device), Tap(edits=[knock_out(head)])
            with torch.inference_mode():
                lessened.append(model.hidden(inputs[0], tap))
                without_head(model, [head]).hidden(inputs[0])
        same(*lessened)


CHECKS = {check.__name__: check for check in (forward, gradients, decoding, taps)}

TRAIN = {"steps": 2, "batch_tokens": 200, "evaluate_every": 2, "log_every": 1, "save_every": 2}
SMALL = {"dim": 16, "heads": 2, "hidden": 16, "dropout": 0.0}


def trained(recipe: str, **changes: object) -> regard.Pipeline:
    """Trained for two steps on the device and on the CPU; without dropout, to the same weights."""
    train = TRAIN | changes.pop("train", {})
    twins = [
        regard.train(recipe, quiet=True, threads=1, device=device, train=train, **changes)
        for device in ("cpu", torch.device(DEVICE))
    ]
    for cpu_weight, device_weight in zip(*(twin.model.parameters() for twin in twins), strict=True):
        torch.testing.assert_close(
            cpu_weight.detach(), device_weight.detach().cpu(), rtol=0, atol=1e-4
        )
    return twins[1]


def asked(pipeline: regard.Pipeline, ask) -> None:
    """A pipeline answers on the device as it does on the CPU."""
    assert pipeline.device.type == DEVICE
    there = ask(pipeline)
    assert there == ask(pipeline.to("cpu"))
    assert there


def translate(_: Path) -> None:
    data = {"pairs": 200, "held_out": 20, "longest": 5}
    pipeline = trained("tiny/copy", data=data, model=SMALL)
    pairs = [("5 3 12", "5 3 12"), ("3", "3")]
    asked(
        pipeline,
        lambda p: (
            p.translate(["5 3 12", "3"]),
            p.translate("5 3", beam=1, sample=True),
            list(p.stream("5 3")),
            round(p.evaluate(pairs).loss, 4),
            len(p.look("5 3 12").maps),
            len(p.look("5 3 12", target="5 3").maps),
            len(p.heads(pairs)),
            [round(number, 3) for number in p.logits([5, 6], [1, 5])[-1].tolist()],
            p.generate([5, 6]),
            p.words("5", ["5 3 12", "12 5"]).table().split("\n")[0],
            p.translate("5 3 12", knock_out=["decoder.0.cross.0"]),
        ),
    )


def shelf(_: Path) -> None:
    """The model that ships."""
    pipeline = regard.load("tiny/translate", device=torch.device(DEVICE))
    assert pipeline.translate("The animal was tired.") == "Das Tier war müde."
    assert intervene(pipeline).looks[0].target.startswith("Das Tier")  # what the demo shows


TEXT = "The cat sat on the mat. A dog ran in the sun, and it was warm. " * 40


def _text(folder: Path) -> dict[str, object]:
    (folder / "text.txt").write_text("\n\n".join(TEXT.split(". ")))
    return {"kind": "text", "files": str(folder / "text.txt"), "separator": "\n\n"}


def generate(folder: Path) -> None:
    tokens, model = {"vocab": 300}, {**SMALL, "layers": 1, "max_length": 32}
    pipeline = trained("tiny/generate", data=_text(folder), tokens=tokens, model=model)
    asked(
        pipeline,
        lambda p: (
            p.generate("The cat", max_new_tokens=5),
            p.generate("The cat", max_new_tokens=5, sample=False),
            "".join(p.write("A dog", max_new_tokens=4)),
            [suggestion.word for suggestion in p.suggest("The ")],
            len(p.heads(["The cat sat.", "A dog."])),
            len(p.look("The cat sat.").maps),
            p.generate([5, 6], max_new_tokens=3),
        ),
    )


def fill(folder: Path) -> None:
    tokens, model = {"vocab": 300}, {**SMALL, "layers": 1, "max_length": 32}
    model |= {"next_sentence": True, "pooler": "tanh"}
    pipeline = trained("tiny/fill", data=_text(folder), tokens=tokens, model=model)
    asked(
        pipeline,
        lambda p: (
            [filling.word for filling in p.fill("The [MASK] sat.")[0]],
            [round(number, 3) for number in p.embed("The cat").tolist()],
            [round(number, 3) for number in p.embed("The cat", pool="cls").tolist()],
            len(p.heads(["The cat sat.", "A dog."])),
            len(p.look("The cat sat.").maps),
        ),
    )


def restore(folder: Path) -> None:
    tokens, model = {"vocab": 400}, {**SMALL, "max_length": 32}
    pipeline = trained("tiny/restore", data=_text(folder), tokens=tokens, model=model)
    asked(
        pipeline,
        lambda p: (str(p.restore("The ___ sat.", max_length=5)), len(p.heads(["A b c d."]))),
    )


def _labelled(folder: Path, task: str, text: str, ending: str) -> regard.Pipeline:
    (folder / f"train.{ending}").write_text(text)
    values = {
        "version": 2,
        "task": task,
        "data": {"kind": "labelled", "train": str(folder / f"train.{ending}"), "held_out": 4},
        "tokens": {"kind": "wordpiece", "vocab": 200},
        "model": {"family": "bert", **SMALL, "layers": 1, "max_length": 32},
        "train": TRAIN,
        "decode": {},
    }
    (folder / "recipe.yaml").write_text(json.dumps(values))
    return trained(str(folder / "recipe.yaml"))


def classify(folder: Path) -> None:
    kinds = [(word, number) for number in range(20) for word in ("good", "bad")]
    text = "".join(f"the {word} film {number}\t{word}\n" for word, number in kinds)
    pipeline = _labelled(folder, "classify", text, "tsv")
    asked(pipeline, lambda p: [label.label for label in p.classify("the good film")])


def tag(folder: Path) -> None:
    text = "".join(f"Anna B-name\nlives O\nhere{number} O\n\n" for number in range(30))
    pipeline = _labelled(folder, "tag", text, "conll")
    asked(pipeline, lambda p: [tag.tag for tag in p.tag("Anna lives here")])


def answer(folder: Path) -> None:
    answers = {"text": ["Anna"], "start": [0]}
    rows = [
        {"question": "who ?", "context": f"Anna lives here {number}", "answers": answers}
        for number in range(30)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    pipeline = _labelled(folder, "answer", text, "jsonl")
    asked(pipeline, lambda p: [answer.text for answer in p.answer("who ?", "Anna lives here")])


def digits(_: Path) -> None:
    small = {"dim": 16, "heads": 2, "hidden": 16, "layers": 1, "dropout": 0.0}
    pipeline = trained("tiny/digits", data={"augment": 0.0}, model=small)
    image = torch.rand(20, 16).numpy()
    asked(pipeline, lambda p: [label.label for label in p.classify(image)])
    asked(pipeline.to(torch.device(DEVICE)), lambda p: p.embed(image).shape)
    asked(pipeline.to(torch.device(DEVICE)), lambda p: str(p.look(image)))
    asked(pipeline.to(torch.device(DEVICE)), lambda p: p.logits(torch.ones(2, 1, 8, 8)).shape)


def muon(_: Path) -> None:
    data = {"pairs": 200, "held_out": 20, "longest": 5}
    trained("tiny/copy", data=data, model=SMALL, train={"optimizer": "muon"})


PIPELINES = {
    check.__name__: check
    for check in (shelf, translate, generate, fill, restore, classify, tag, answer, digits, muon)
}


def names() -> list[str]:
    """Of all checks."""
    return [f"{check}-{name}" for name, *_ in models() for check in CHECKS] + [*PIPELINES]


def attempt(check, *given) -> str:
    try:
        check(*given)
    except Exception:
        return traceback.format_exc()
    return "ok"


def main(only: str = "") -> None:
    import tests.devices.pretend  # noqa: F401 (registers the device)

    problems = {}
    for name, family, changes in models():
        for check, function in CHECKS.items():
            if only in f"{check}-{name}":
                problems[f"{check}-{name}"] = attempt(lambda: function(Twins(family, changes)))  # noqa: B023
    for name, function in PIPELINES.items():
        if only in name:
            with tempfile.TemporaryDirectory() as folder:
                problems[name] = attempt(function, Path(folder))
    json.dump(problems, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
