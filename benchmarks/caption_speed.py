"""Captioners beside their peers on this machine: training, and ViT + GPT-2 decoding.

    python -m benchmarks.captions prepare flickr8k --data ../shared/data/flickr8k_full
    python -m benchmarks.caption_speed training --data flickr8k
    python -m benchmarks.caption_speed decoding

`training`: steps of Regard's trainer beside a plain PyTorch loop of the same model, on the same
captions: a ResNet with an LSTM and additive attention, written with `nn.Conv2d`, `nn.BatchNorm2d`
and `nn.LSTMCell`; and a Vision Transformer with a Transformer's decoder, written with
`nn.TransformerEncoder` and `nn.TransformerDecoder` on padded batches. The plain loop has pairs of
an image and a caption, as such loops do; Regard encodes an image once for its captions in a batch.
The images are those of `--data`, a folder with captions (Flickr8k has five for each), or drawn
scenes with one caption each, where both do the same work. `decoding`: captions of
random images by a random ViT-B/16 + GPT-2 in Regard and by `generate` of transformers.

Rounds of the two sides alternate; what is printed is the ratio of the medians. Nothing else should
run on the machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from regard.inputs.arrays import Shared
from regard.recipes import recipe as recipes
from regard.runs.start import begin
from regard.tasks.specs import TASKS

IGNORED = -100


def alternate(sides: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """The median time of each side, whose rounds alternate; the first round is not counted."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, side in sides.items():
            began = time.perf_counter()
            side()
            if number:
                times[name].append(time.perf_counter() - began)
    return {name: statistics.median(taken) for name, taken in times.items()}


class Unit(nn.Module):
    """Two convolutions of 3 x 3 and a shortcut (He et al. 2016)."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(after), nn.BatchNorm2d(after)])
        changes = stride > 1 or before != after
        short = nn.Sequential(
            nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
        )
        self.shortcut = short if changes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """(images, channels, height, width) -> the same, or half of it."""
        out = self.norms[1](self.second(self.norms[0](self.first(x)).relu()))
        return (out + self.shortcut(x)).relu()


class PlainRecurrent(nn.Module):
    """The ResNet and the LSTM with additive attention of a recipe, as plain modules."""

    def __init__(self, config: Any, vocab: int) -> None:
        super().__init__()
        encoder, dim = config.encoder, config.decoder.dim
        stem = encoder.stem_width
        layers: list[nn.Module] = [
            nn.Conv2d(encoder.channels, stem, 7, 2, 3, bias=False), nn.BatchNorm2d(stem),
            nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        ]  # fmt: skip
        before = stem
        for stage, (depth, after) in enumerate(zip(encoder.depths, encoder.filters, strict=True)):
            for number in range(depth):
                layers.append(Unit(before, after, 2 if stage and not number else 1))
                before = after
        self.encoder = nn.Sequential(*layers)
        self.embed = nn.Embedding(vocab, dim)
        self.first = nn.Linear(before, 2 * dim)
        self.query, self.key = nn.Linear(dim, dim, bias=False), nn.Linear(before, dim, bias=False)
        self.vector = nn.Parameter(torch.randn(dim) / dim**0.5)
        self.cell = nn.LSTMCell(dim + before, dim)
        self.readout = nn.Linear(2 * dim + before, dim)
        self.dim = dim

    def forward(self, images: Tensor, read: Tensor) -> Tensor:
        """Logits (images, length, vocab) of padded captions (images, length)."""
        memory = self.encoder(images).flatten(2).transpose(1, 2)  # (images, cells, width)
        s, m = self.first(memory.mean(1)).tanh().split(self.dim, 1)
        keys, words, outputs = self.key(memory), self.embed(read) * self.dim**0.5, []
        for y in words.unbind(1):
            weights = ((self.query(s)[:, None] + keys).tanh() @ self.vector).softmax(1)
            context = (weights[:, None] @ memory)[:, 0]
            s, m = self.cell(torch.cat((y, context), 1), (s, m))
            outputs.append(self.readout(torch.cat((s, context, y), 1)).tanh())
        return torch.stack(outputs, 1) @ self.embed.weight.T


class PlainTransformer(nn.Module):
    """The Vision Transformer and the Transformer's decoder of a recipe, as PyTorch has them."""

    def __init__(self, config: Any, vocab: int) -> None:
        super().__init__()
        encoder, decoder = config.encoder, config.decoder
        dim, width = encoder.dim, decoder.dim
        stem = encoder.front.stem_width
        channels = encoder.front.channels
        self.stem = nn.Sequential(  # of CCT, as in the recipe
            nn.Conv2d(channels, stem, 3, 1, 1, bias=False), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
            nn.Conv2d(stem, dim, 3, 1, 1, bias=False), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        )  # fmt: skip
        rows, columns = encoder.grid
        self.positions = nn.Parameter(torch.randn(rows * columns, dim))

        def options(side: Any) -> dict[str, Any]:
            hidden = side.block[-1].hidden
            return {"nhead": side.block[0].heads, "dim_feedforward": hidden, "dropout": 0.0,
                    "activation": "gelu", "batch_first": True, "norm_first": True}  # fmt: skip

        layer = nn.TransformerEncoderLayer(dim, **options(encoder))
        self.encoder = nn.TransformerEncoder(
            layer, encoder.layers, nn.LayerNorm(dim), enable_nested_tensor=False
        )
        self.bridge = nn.Linear(dim, width)  # the decoder's layers take a memory of their width
        self.embed = nn.Embedding(vocab, width)
        self.target_positions = nn.Embedding(512, width)
        layer = nn.TransformerDecoderLayer(width, **options(decoder))
        self.decoder = nn.TransformerDecoder(layer, decoder.layers, nn.LayerNorm(width))

    def forward(self, images: Tensor, read: Tensor) -> Tensor:
        """Logits (images, length, vocab) of padded captions (images, length)."""
        patches = self.stem(images).flatten(2).transpose(1, 2)
        memory = self.bridge(self.encoder(patches + self.positions))
        length = read.shape[1]
        x = self.embed(read) + self.target_positions(torch.arange(length))
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        out = self.decoder(x, memory, mask, tgt_is_causal=True)
        return out @ self.embed.weight.T


PLAIN = {
    "own/caption": PlainRecurrent,
    "small/caption": PlainRecurrent,
    "tiny/caption": PlainTransformer,
}


def training(recipe_name: str, rounds: int, steps: int, data: Path | None) -> None:
    """Print the ratio of the times of some training steps."""
    scenes = ["data.kind=scenes", "data.pairs=600", "data.held_out=20"]
    changes = ["data.shift=0", "data.colour=0", "data.erase=0"]  # the batches are made beforehand
    images = scenes if data is None else ["data.kind=images", f"data.folder={data}", *changes]
    overrides = [*images, "data.workers=0"]
    recipe = begin(recipes.load(recipe_name, overrides), None).recipe
    prepared = TASKS["caption"].class_for(recipe.model).prepare(recipe)
    vocab = prepared.vocabulary.vocabulary_sizes[-1]
    torch.manual_seed(0)
    from regard.data.batch import Cursor
    from regard.models import build
    from regard.train.adam import Adam

    ours, theirs = (
        build(recipe.model, vocab).train(),
        PLAIN[recipe_name](recipe.model, vocab).train(),
    )
    stream = prepared.task.batches(Cursor())
    batches = [next(stream)[0] for _ in range(steps)]
    padded = [pad(batch) for batch in batches]
    our_steps = Adam(ours.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0)
    their_steps = torch.optim.AdamW(theirs.parameters(), lr=1e-4, fused=True)

    def run_ours() -> None:
        for batch in batches:
            our_steps.zero_grad()
            loss = prepared.task.loss(ours, batch) / batch.targets.ids.numel()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(ours.parameters(), 1.0)
            our_steps.step()

    def run_theirs() -> None:
        for images, read, written in padded:
            their_steps.zero_grad()
            logits = theirs(images, read)
            F.cross_entropy(
                logits.flatten(0, 1), written.flatten(), ignore_index=IGNORED
            ).backward()
            torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
            their_steps.step()

    times = alternate({"regard": run_ours, "plain": run_theirs}, rounds)
    sizes = [sum(p.numel() for p in model.parameters()) for model in (ours, theirs)]
    ratio = times["plain"] / times["regard"]
    examples, read = (
        sum(len(batch.index) for batch in batches),
        sum(map(images_read, batches)),
    )
    print(
        f"{recipe_name}: {ratio:.2f} × as fast as the plain loop; {examples} captions of {read} "
        f"images; parameters {sizes}",
        flush=True,
    )


def images_read(batch: Any) -> int:
    """The number of different images of a batch."""
    return len(batch.source.inputs if isinstance(batch.source, Shared) else batch.source)


def pad(batch: Any) -> tuple[Tensor, Tensor, Tensor]:
    """A batch as dense tensors: images, captions to read, and captions to write."""
    read_rows, written_rows = (
        ragged.ids.split(list(ragged.lengths)) for ragged in (batch.decoder_input, batch.targets)
    )
    read = nn.utils.rnn.pad_sequence(read_rows, batch_first=True)
    written = nn.utils.rnn.pad_sequence(written_rows, batch_first=True, padding_value=IGNORED)
    source = batch.source
    shared = isinstance(source, Shared)
    images = source.inputs.values[list(source.rows)] if shared else source.values
    return images, read, written


def decoding(rounds: int, images: int, tokens: int) -> None:
    """Print the ratio of the times of captions by a ViT-B/16 and a GPT-2, greedy and with beams."""
    from transformers import (
        GPT2Config,
        VisionEncoderDecoderConfig,
        VisionEncoderDecoderModel,
        ViTConfig,
    )

    from tests.their_captioners import PREPROCESSOR, VOCAB, save_tokenizer

    torch.manual_seed(0)
    ids = dict.fromkeys(("decoder_start_token_id", "eos_token_id", "pad_token_id"), VOCAB - 1)
    writer = GPT2Config(
        add_cross_attention=True, is_decoder=True, bos_token_id=VOCAB - 1, eos_token_id=VOCAB - 1
    )
    config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(ViTConfig(), writer, **ids)
    model = VisionEncoderDecoderModel(config).eval()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        save_tokenizer(Path(folder))
        settings = {**PREPROCESSOR, "size": {"height": 224, "width": 224}}
        (Path(folder) / "preprocessor_config.json").write_text(json.dumps(settings))
        ours = regard.load(folder, device="cpu")
    pixels = [
        np.random.default_rng(n).integers(0, 256, (224, 224, 3), np.uint8) for n in range(images)
    ]
    prepared = ours.processor.source.collate(ours.processor.source.read(pixels)).values
    for beam in (1, 4):
        options = {"num_beams": beam, "do_sample": False, "max_new_tokens": tokens,
                   "min_new_tokens": tokens}  # fmt: skip

        def run_theirs(options: dict[str, Any] = options) -> None:
            with torch.inference_mode():
                model.generate(prepared, **options)

        def run_ours(beam: int = beam) -> None:
            ours.caption(pixels, beam=beam, max_length=tokens, min_length=tokens)

        times = alternate({"regard": run_ours, "transformers": run_theirs}, rounds)
        ratio = times["transformers"] / times["regard"]
        print(f"{images} images, beam {beam}: {ratio:.2f} × as fast as generate", flush=True)


def main() -> None:
    """Measure one part."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=("training", "decoding"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--data", type=Path, help="a folder of images with captions")
    options = parser.parse_args()
    if options.what == "training":
        for name in PLAIN:
            training(name, options.rounds, options.steps, options.data)
        return
    for images in (1, 8):
        decoding(options.rounds, images, 16)


if __name__ == "__main__":
    main()
