"""The recordings of a watch: weights of each forward pass, joined steps of `generate`, pictures.

A pass is one call of the model, or of a submodel: `generate` runs an encoder once and then a
decoder for each token it writes. Passes in which no watched layer ran are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.explain.images.caption_look import CaptionLook
from regard.explain.look import Look
from regard.explain.maps import AttentionMap, merge_words
from regard.layers import Tap
from regard.layers.tap.product import Records
from regard.tasks.trace import ImageGrid
from regard.watch.call import SITE, Call
from regard.watch.images import patch_config, pixel_values, read_picture
from regard.watch.labels import Tokens, read_tokens
from regard.watch.modules import Layer, at_site
from regard.watch.recorded import (
    RecordedCall,
    check_continues,
    check_same,
    hypothesis_rows,
    pad_keys,
)
from regard.watch.registry import WEIGHTS

MAX_LISTED = 6
"""The number of layers that `repr` lists."""


class Step(Mapping[str, Tensor]):
    """The weights of one pass, by layer: each (batch, heads, query, key).

    A layer is given by its path, by its site (`decoder.1.cross`), or by its number. If several
    layers have the same number, as in an encoder-decoder, a number is the index among all of them.
    If a layer runs several times in a pass, the second call is named `path#1`, the third `path#2`.
    """

    def __init__(self, calls: Mapping[str, RecordedCall], layers: Mapping[str, Layer]) -> None:
        self.calls, self._layers = dict(calls), layers

    def __getitem__(self, layer: str | int) -> Tensor:
        return self.at(layer, "weights")

    def __contains__(self, layer: object) -> bool:
        return layer in self.calls

    def __iter__(self) -> Iterator[str]:
        return iter(self.calls)

    def __len__(self) -> int:
        return len(self.calls)

    def __repr__(self) -> str:
        return f"Step({', '.join(f'{name} {call.shape}' for name, call in self.calls.items())})"

    def at(self, layer: str | int, site: str) -> Tensor:
        """The tensor recorded at a site of a layer, such as `weights` or `heads`.

        Raises:
            InputError: If that site was not recorded.
        """
        records = self._records(layer)
        if f"{SITE}.{site}" not in records:
            raise InputError(f"{layer}.{site}", got="not recorded", expected="one of sites=…")
        return records[f"{SITE}.{site}"]

    def part(
        self,
        layer: str | int,
        heads: Sequence[int] | None = None,
        queries: Sequence[int] | None = None,
    ) -> Tensor:
        """`step[layer][:, heads][:, :, queries]`, without computing the rest (None: all)."""
        return self._records(layer).part(WEIGHTS, heads, queries)

    def blocks(self, layer: str | int) -> Iterator[tuple[slice, Tensor]]:
        """Iterate over blocks of queries: their slice, and their (batch, heads, queries, key)."""
        return self._records(layer).blocks(WEIGHTS)

    def _records(self, layer: str | int) -> Records:
        return self.calls[self.name(layer)].records

    def name(self, layer: str | int) -> str:
        """The path of a layer given by path, site or number.

        Raises:
            InputError: If the layer was not recorded.
        """
        if isinstance(layer, str) and layer in self.calls:
            return layer
        name = self._name_of_number(layer) if isinstance(layer, int) else self._name_at_site(layer)
        if name is None:
            close = get_close_matches(str(layer), self.calls, n=1, cutoff=0.0)
            expected = f"one such as {close[0]}" if close else "a call of the model in the `with`"
            raise InputError("not recorded", got=layer, expected=expected)
        return name

    def _name_of_number(self, number: int) -> str | None:
        """The layer with this number if numbers are unique; else the layer at this index."""
        names = list(self.calls)
        numbers = [self._layers[name.partition("#")[0]].number for name in names]
        if number >= 0 and len({*numbers}) == len(numbers):
            return names[numbers.index(number)] if number in numbers else None
        return names[number] if -len(names) <= number < len(names) else None

    def _name_at_site(self, site: str) -> str | None:
        called = {name: self._layers[name] for name in self.calls if name in self._layers}
        return next(iter(at_site(called, site)), None)


class Seen:
    """Everything that a watch has recorded.

    Attributes:
        layers: The watched layers, by name.
        steps: The weights of each pass, in order.
    """

    def __init__(
        self,
        layers: Mapping[str, Layer],
        wanted: Tap,
        *,
        paired: bool,
        model: str = "a model",
        config: Any = None,
    ) -> None:
        self.layers, self._model, self._config = dict(layers), model, config
        self.steps: list[Step] = []
        self._wanted, self._paired = wanted, paired
        self._fresh = True

    def begin(self) -> None:
        """Begin a new pass; its `Step` is created with its first recorded call."""
        self._fresh = True

    def store(self, name: str, call: Call, records: Records) -> None:
        """Store the recording of one call."""
        if self._fresh:
            self.steps.append(Step({}, self.layers))
            self._fresh = False
        calls = self.steps[-1].calls
        earlier_calls = sum(key.partition("#")[0] == name for key in calls)
        key = f"{name}#{earlier_calls}" if earlier_calls else name
        calls[key] = RecordedCall.of(call, records, self._wanted)

    @property
    def weights(self) -> Step:
        """The weights of each layer in the last pass in which it ran."""
        calls = {name: call for step in self.steps for name, call in step.calls.items()}
        return Step(calls, self.layers)

    def __repr__(self) -> str:
        """A summary of the recorded layers, and how to read and draw them."""
        weights = self.weights
        what = ", ".join(site.partition(".")[2] for site in self._wanted.sites)
        passes = "1 pass" if len(self.steps) == 1 else f"{len(self.steps)} passes"
        summary = f"Seen of {self._model}: {what} of {len(weights)} layers in {passes}"
        if not weights:
            return f"{summary}; call the model in the `with`"
        lines = [f"  {self._site(name):<16} {name} {call.shape}"
                 for name, call in weights.calls.items()]  # fmt: skip
        left_out = len(lines) - MAX_LISTED
        lines = lines if left_out <= 0 else [*lines[:MAX_LISTED], f"  … and {left_out} more"]
        name = next(iter(weights))
        number = self._layer(name).number or 0
        number = number if weights.name(number) == name else 0
        read = f'seen.weights["{name}"] or seen.weights[{number}]: (batch, heads, query, key)'
        if WEIGHTS not in self._wanted.sites:
            read = f'seen.weights.at({number}, "{what.partition(",")[0]}")'
        draw_hint = 'seen.look(tokens).save("look.html"): pictures'
        return "\n".join([summary, *lines, f"  {read}", f"  {draw_hint}"])

    def joined(self, layer: str | int, rows: Sequence[int] | Tensor | None = None) -> Tensor:
        """The steps of one `generate`, concatenated: (batch, heads, query, key).

        There is one query per token that was read; keys that did not exist yet have weight 0.

        Args:
            layer: Its path, site or number, as for `weights`.
            rows: With beam search, the batch row of the hypothesis at each step: `beam_indices[i]`
                of the output of `generate(…, return_dict_in_generate=True, output_scores=True)`.
                The result then has batch size 1. Without beam search, rows keep their places.

        Raises:
            InputError: If the passes do not continue each other, or beams changed their rows.
        """
        layer = self.weights.name(layer)  # raises if the layer was not recorded
        calls = [step.calls[layer] for step in self.steps if layer in step.calls]
        cross = self._layer(layer).kind == "cross"
        beam_rows = None if rows is None else hypothesis_rows(rows)
        if beam_rows is not None:
            calls = calls[: len(beam_rows)]
        elif cross:  # its keys never change, so the rows are checked on the other layers
            self._check_rows()
        for number, (last, call) in enumerate(pairwise(calls)):
            old, new = beam_rows[number : number + 2] if beam_rows else (slice(None),) * 2
            check_continues(layer, last, call, last.newest[old], call.before_at(new))
        parts, done = [], 0
        for number, call in enumerate(calls):
            done += call.queries
            weights = call.records[WEIGHTS]
            weights = weights if beam_rows is None else weights[beam_rows[number]][None]
            # a sliding-window cache has dropped the first keys
            parts.append((0 if cross else max(0, done - call.keys), weights))
        keys = max(shift + weights.shape[3] for shift, weights in parts)
        return torch.cat([pad_keys(weights, shift, keys) for shift, weights in parts], dim=2)

    def look(
        self,
        tokens: Any = None,
        target: Any = None,
        *,
        tokenizer: Any = None,
        row: int = 0,
        rows: Sequence[int] | Tensor | None = None,
        title: str = "Attention",
        processor: Any = None,
    ) -> Look:
        """A look at all recorded weights of one row: `seen.look(…).save("look.html")`.

        Args:
            tokens: The input of the model (for an encoder-decoder, the source): words, or ids with
                their tokenizer (see `read_tokens`). For a decoder after `generate`, its whole
                output. For a vision model, its `pixel_values` or the output of its image
                processor: patches are named by row and column, and maps are drawn over the image;
                of a model that writes about it, one for each word. By default positions are
                numbered, as for audio frames.
            target: The input and output of an encoder-decoder's decoder, with its start token.
            tokenizer: Needed if tokens are ids; sub-words are merged into words.
            row: The row of the batch.
            rows: With beam search, as for `joined`.
            title: The title of the picture.
            processor: The image processor, whose mean and deviation restore the colours.

        Raises:
            InputError: If the tokens do not fit the recorded weights.
        """
        pixels = pixel_values(tokens)
        picture = None if pixels is None else self._picture(pixels[row], processor)
        if pixels is not None:
            tokens = None if picture is None else picture.names
        source = None if tokens is None else read_tokens(tokens, tokenizer, row)
        written = None if target is None else read_tokens(target, tokenizer, row)
        maps: dict[str, AttentionMap] = {}
        for name in self.weights:
            site = self._site(name)
            if site in maps:
                got, fix = f"two layers for {site}", "choose layers=…"
                raise InputError("look", got=got, expected="one stack", fix=fix)
            maps[site] = self._map(name, source, written, row, rows)
        if not maps:
            raise InputError("look", got="no records", expected="a call of the model in the `with`")
        heads = self._wanted.heads
        note = "" if heads is None else f"of each layer, heads {', '.join(map(str, heads))}"
        if picture is not None and any(m.stack.endswith(".cross") for m in maps.values()):
            return CaptionLook(maps=tuple(maps.values()), title=title, note=note, image=picture)
        return Look(maps=tuple(maps.values()), title=title, note=note, picture=picture)

    def _picture(self, pixels: Tensor, processor: Any) -> ImageGrid | None:
        """The image that the model read, if a layer that sees its patches was recorded."""
        calls = self.weights.calls
        name = next(filter(self._sees_source, calls), None)
        if name is None:
            return None
        config = patch_config(self._layer(name).config, self._config)
        return read_picture(pixels, config, calls[name].keys, processor)

    def _sees_source(self, name: str) -> bool:
        """Whether the keys of a layer are tokens of the source, not of the text written so far."""
        layer = self._layer(name)
        return layer.kind == "cross" or not (self._paired and layer.stack == "decoder")

    def _map(
        self,
        name: str,
        source: Tokens | None,
        written: Tokens | None,
        row: int,
        rows: Sequence[int] | Tensor | None,
    ) -> AttentionMap:
        """The map of one layer and one row, with sub-words merged into words."""
        layer = self._layer(name)
        decoding = self._paired and layer.stack == "decoder"
        weights = self.joined(name, rows if decoding or not self._paired else None)
        weights = weights[0 if weights.shape[0] == 1 else row]  # (heads, query, key)
        calls = [step.calls[name] for step in self.steps if name in step.calls]
        calls = calls if rows is None else calls[: len(hypothesis_rows(rows))]
        count = sum(call.queries for call in calls)
        ended = rows is not None and (decoding or not self._paired)
        positions = self._positions(calls)
        if not decoding:
            read = _tokens_read(name, source, count, ended=ended)
            queries, keys = read, read
        else:
            read = _tokens_read(name, written, count, ended=ended)
            queries = read if written is None else written.cut(1, count + 1)
            keys = read if layer.kind == "self" else _tokens_read(name, source, weights.shape[2])
        key_positions = [position for position in range(len(keys)) if keys.real[position]]
        query_rows = [number for number, position in enumerate(positions) if queries.real[position]]
        array = weights[:, query_rows][:, :, key_positions].double().numpy()
        blanks = ("",) * len(query_rows), ("",) * len(key_positions)
        pieces = AttentionMap(self._site(name), array, *blanks)
        query_words, query_numbers = queries.words([positions[number] for number in query_rows])
        key_words, key_numbers = keys.words(key_positions)
        return merge_words(pieces, query_numbers, key_numbers, query_words, key_words)

    def _positions(self, calls: Sequence[RecordedCall]) -> list[int]:
        """The indices of the recorded queries: the requested ones, and every single-query step."""
        positions: list[int] = []
        done = 0
        for call in calls:
            asked = self._wanted.queries if call.queries > 1 else None
            asked = range(call.queries) if asked is None else asked
            positions += [done + i % call.queries for i in asked]
            done += call.queries
        return positions

    def _layer(self, name: str) -> Layer:
        return self.layers[name.partition("#")[0]]

    def _site(self, name: str) -> str:
        """A layer's site in a look: stack, number (or how often it ran before), kind."""
        stack, number, kind = self._layer(name).site(paired=self._paired).split(".")
        return f"{stack}.{name.partition('#')[2] or number}.{kind}"

    def _check_rows(self) -> None:
        """Reject steps between which the rows of any layer changed, as beam search does."""
        for last, step in pairwise(self.steps):
            for name in last.calls.keys() & step.calls.keys():
                old, new = last.calls[name], step.calls[name]
                if new.keys == old.keys + new.queries:
                    check_same(old.newest, new.before_at(slice(None)))


def _tokens_read(name: str, tokens: Tokens | None, count: int, *, ended: bool = False) -> Tokens:
    """The `count` tokens that the model read; if `tokens` is None, position numbers.

    One token more is allowed: the last generated token was never read. If `ended`, any number of
    further tokens is allowed: a hypothesis that ended before others is followed by padding.
    """
    if tokens is None:
        return Tokens(tuple(map(str, range(count))), (True,) * count)
    if len(tokens) not in (count, count + 1) and not (ended and len(tokens) > count):
        raise InputError(f"tokens of {name}", got=len(tokens), expected=count)
    return tokens.cut(0, count)
