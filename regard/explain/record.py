"""A model and a sentence -> a Look: translate (or follow a given translation) and record.

The weights of every attention layer are recorded beside the fast path, sub-words are merged into
words, and each row is labelled with the word it writes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from regard.data.batch import Ragged
from regard.decode.config import DecodeConfig
from regard.errors import InputError
from regard.explain.look import Look
from regard.explain.maps import AttentionMap, merge_words, shortened
from regard.layers import Tap, knock_out
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder, Texts
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.mode import evaluating
from regard.tasks.restore import Restore
from regard.tasks.translate import Translate
from regard.tokens import Foreign


def record(
    model: EncoderDecoder,
    task: Translate | Restore,
    text: str,
    *,
    decode: DecodeConfig,
    target: str | None = None,
    without: Sequence[str] = (),
    name: str = "",
) -> Look:
    """Everything seen of one sentence.

    Args:
        model: What translates, or restores.
        task: How text becomes ids and back.
        text: The sentence, or the text with its holes.
        decode: How to search, if no target is given; the maps are those of the winner.
        target: A translation to follow instead (forced decoding).
        without: Heads to take away, such as `decoder.1.cross.3`.
        name: What to call the model.
    """
    tap = Tap("*.weights", edits=[knock_out(head) for head in without])
    if target is None:
        ids, weights, finished = _searched(model, task, text, decode, tap)
    else:
        ids, weights = _forced(model, task, text, target, tap)
        finished = True
    vocabulary = task.vocabulary
    source = task.source_ids(text, model.config.max_length)
    # A translation cut short has no step that writes its end, and never reads its last token.
    written = [*ids, vocabulary.target.end] if finished else ids
    read = [vocabulary.target.begin, *ids][: len(written)]
    sides = {
        "encoder.self": (vocabulary.source.words(source), vocabulary.source.words(source)),
        "decoder.self": (vocabulary.target.words(written), vocabulary.target.words(read)),
        "decoder.cross": (vocabulary.target.words(written), vocabulary.source.words(source)),
    }
    maps = []
    for site, value in weights.items():
        layer = site.removesuffix(".weights")
        stack, _, kind = layer.split(".")
        queries, keys = sides[f"{stack}.{kind}"]
        shape = len(queries[1]), len(keys[1])
        array = value[:, : shape[0], : shape[1]].double().numpy()  # (heads, query, key)
        pieces = AttentionMap(layer, array, ("",) * shape[0], ("",) * shape[1])
        maps.append(merge_words(pieces, queries[1], keys[1], queries[0], keys[0]))
    translation = task.written(ids)
    return Look(
        maps=tuple(maps),
        title=shortened(f"{text} → {translation}"),
        model=name,
        source=text,
        target=translation,
        knocked_out=tuple(without),
        note=_note(given=target is not None, finished=finished),
    )


def record_text(
    model: Decoder | Encoder,
    tokenizer: Foreign,
    text: str,
    *,
    without: Sequence[str] = (),
    name: str = "",
) -> Look:
    """Everything seen of one text by a model of one stack.

    Args:
        model: A decoder, whose tokens look back, or an encoder.
        tokenizer: How text becomes ids and back.
        text: What it reads.
        without: Heads to take away, such as `decoder.1.self.3`.
        name: What to call the model.
    """
    tap = Tap("*.weights", edits=[knock_out(head) for head in without])
    ids = tokenizer.template(tokenizer.encode(text))
    if not 0 < len(ids) <= model.config.max_length:
        got, most = f"{len(ids)} tokens", model.config.max_length
        raise InputError("the text to look at", got=got, expected=f"1 to {most}")
    with evaluating(model):
        if isinstance(model, Encoder):
            types = torch.tensor(tokenizer.token_types(tokenizer.encode(text)))
            model.hidden(Texts(Ragged.of([ids]), types), tap)
        else:
            model.hidden(Ragged.of([ids]), tap)
    words, index = tokenizer.words(ids)
    maps = []
    for site, value in tap.records.items():
        pieces = ("",) * len(ids)
        layer = AttentionMap(
            site.removesuffix(".weights"), value[0].double().numpy(), pieces, pieces
        )
        maps.append(merge_words(layer, index, index, words, words))
    return Look(
        maps=tuple(maps),
        title=shortened(text),
        model=name,
        source=text,
        target="",
        knocked_out=tuple(without),
    )


def _note(*, given: bool, finished: bool) -> str:
    if given:
        return "the translation was given"
    return "" if finished else "the translation did not end by itself: it was cut at its longest"


def _searched(
    model: EncoderDecoder, task: Translate | Restore, text: str, decode: DecodeConfig, tap: Tap
) -> tuple[list[int], dict[str, torch.Tensor], bool]:
    """Ids of the best translation, the weights along its ancestors, and whether it ended."""
    [[best, *_]] = task.predict(model, [text], decode, tap=tap)
    encoder = {site: value[0] for site, value in tap.records.items()}
    found = best.hypothesis
    return list(found.ids), encoder | tap.follow(found.rows), found.finished


def _forced(
    model: EncoderDecoder, task: Translate | Restore, text: str, target: str, tap: Tap
) -> tuple[list[int], dict[str, torch.Tensor]]:
    """The same for a given translation, in one pass."""
    source = task.source_ids(text, model.config.max_length)
    ids = task.target_ids(target, model.config.max_length)
    with evaluating(model):
        model(Ragged.of([source]), Ragged.of([[task.vocabulary.target.begin, *ids]]), tap)
    return ids, {site: value[0] for site, value in tap.records.items()}
