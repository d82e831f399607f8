"""Older vocabulary files -> the equivalent `tokenizer.json`.

In: `vocab.json` and `merges.txt`, `vocab.txt`, or SentencePiece models. Out: the parsed JSON of the
same tokenizer, as transformers would write it; `hub.py` adds the roles of symbols and the template.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Inner

from regard.inputs.text.kinds import CONTINUES, SPACE
from regard.inputs.text.published.folder import Folder
from regard.inputs.text.published.sentencepiece import (
    BPE,
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Piece,
    PieceModel,
)
from regard.inputs.text.spec import HIDDEN, Spec, check_characters, file_error, guarded

QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""The pattern by which Qwen2 splits a text before merging: single digits, joined line ends."""

MOST_WORK = 2**28
"""The most allowed sum of the squared lengths of all pieces; published vocabularies have some
millions."""

MARIAN_SYMBOLS = {"<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL, "<pad>": CONTROL}


Settings = Mapping[str, Any]


class BuiltTokenizer(NamedTuple):
    """One side's tokenizer, the file it is from, and the number of ids that the model knows."""

    spec: Spec
    file: str
    vocab: int | None = None


def byte_level(folder: Folder, settings: Settings) -> list[BuiltTokenizer]:
    """Build GPT-2's, RoBERTa's or BART's byte-level BPE."""
    leading = settings.get("add_prefix_space") is True
    split = pre_tokenizers.ByteLevel(add_prefix_space=leading)
    return [_byte_level_bpe(folder, split)]


def qwen(folder: Folder, settings: Settings) -> list[BuiltTokenizer]:  # noqa: ARG001 (it has none)
    """Build Qwen's byte-level BPE, with its own split pattern and NFC normalisation."""
    split = pre_tokenizers.Split(Regex(QWEN_SPLIT), behavior="isolated")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return [_byte_level_bpe(folder, pre_tokenizers.Sequence([split, level]), normalizers.NFC())]


def _byte_level_bpe(
    folder: Folder,
    split: pre_tokenizers.PreTokenizer,
    normalizer: normalizers.Normalizer | None = None,
) -> BuiltTokenizer:
    """Build a byte-level BPE from `vocab.json` and `merges.txt`."""
    file = folder.name("merges.txt")
    merges = _read_merges(folder.text("merges.txt"), file)
    vocab = folder.ids("vocab.json")
    with guarded(file):
        inner = Inner(models.BPE(vocab, merges))
        if normalizer is not None:
            inner.normalizer = normalizer
        inner.pre_tokenizer = split
        inner.decoder = decoders.ByteLevel()
        return BuiltTokenizer(_to_spec(inner), folder.name("vocab.json"))


def _read_merges(text: str, file: str) -> list[tuple[str, str]]:
    """Parse a `merges.txt`: the pairs in their order."""
    merges: list[tuple[str, str]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.startswith("#version"):
            continue
        left, space, right = line.rstrip("\r").partition(" ")
        if not (left and space and right) or " " in right:
            raise file_error(f"{file}, line {number}", f"{line[:40]!r}")
        merges.append((left, right))
    return merges


def word_pieces(folder: Folder, settings: Settings) -> list[BuiltTokenizer]:
    """Build BERT's WordPiece from `vocab.txt`, one piece per line."""
    file = folder.name("vocab.txt")
    stated = settings.get("unk_token", "[UNK]")
    unknown = stated["content"] if isinstance(stated, dict) and "content" in stated else stated
    lines = folder.text("vocab.txt").removesuffix("\n").split("\n")
    vocab = {line.rstrip("\r"): number for number, line in enumerate(lines)}
    if unknown not in vocab:
        raise file_error(file, f"no {unknown!r}")
    with guarded(file):
        inner = Inner(models.WordPiece(vocab, unk_token=unknown))
        inner.normalizer = normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
            strip_accents=settings.get("strip_accents"),
            lowercase=settings.get("do_lower_case", True),
        )
        inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        inner.decoder = decoders.WordPiece(prefix=CONTINUES)
        return [BuiltTokenizer(_to_spec(inner), file)]


def t5(folder: Folder, settings: Settings) -> list[BuiltTokenizer]:
    """Build T5's Unigram, with the sentinels after the model's own pieces."""
    file, model = folder.name("spiece.model"), folder.pieces("spiece.model")
    extra = settings.get("extra_ids", 100)
    if type(extra) is not int or not 0 <= extra <= 10_000:
        raise file_error(folder.name("tokenizer_config.json"), f"extra_ids {extra!r}")
    own_pieces = {piece.text for piece in model.pieces}
    names = [f"<extra_id_{number}>" for number in range(extra - 1, -1, -1)]
    sentinels = [Piece(name, 0.0, CONTROL) for name in names if name not in own_pieces]
    return [BuiltTokenizer(build_spec(model, file, [*model.pieces, *sentinels]), file)]


def llama(folder: Folder, settings: Settings) -> list[BuiltTokenizer]:  # noqa: ARG001 (it has none)
    """Build Llama's BPE with byte fallback."""
    file, model = folder.name("tokenizer.model"), folder.pieces("tokenizer.model")
    return [BuiltTokenizer(build_spec(model, file), file)]


def xlm_roberta(folder: Folder, settings: Settings) -> list[BuiltTokenizer]:  # noqa: ARG001
    """Build XLM-RoBERTa's: SentencePiece with fairseq's four symbols first and a mask last."""
    file = folder.name("sentencepiece.bpe.model")
    model = folder.pieces("sentencepiece.bpe.model")
    first = [Piece(name, 0.0, CONTROL) for name in ("<s>", "<pad>", "</s>")]
    first.append(Piece("<unk>", 0.0, UNKNOWN))
    entries = [*first, *model.pieces[3:], Piece("<mask>", 0.0, CONTROL)]
    return [BuiltTokenizer(build_spec(model, file, entries), file)]


def marian(folder: Folder, settings: Settings) -> list[BuiltTokenizer]:
    """Build both sides of a Marian model, which may have a vocabulary each."""
    separate = settings.get("separate_vocabs") is True
    target = "target_vocab.json" if separate else "vocab.json"
    sides = ("source.spm", "vocab.json"), ("target.spm", target)
    return [_marian_side(folder, name, vocabulary) for name, vocabulary in sides]


def _marian_side(folder: Folder, name: str, vocabulary: str) -> BuiltTokenizer:
    """Build one side: SentencePiece pieces, with ids from a separate vocabulary.

    Entries only in the vocabulary (the other side's pieces) can be decoded, but no text is encoded
    into them. Pieces only in the SentencePiece model get ids beyond the vocabulary.
    """
    vocab, model, file = folder.ids(vocabulary), folder.pieces(name), folder.name(vocabulary)
    by_text = {piece.text: piece for piece in model.pieces}
    names = sorted(vocab, key=vocab.__getitem__)
    if [vocab[name] for name in names] != list(range(len(names))):
        raise file_error(file, "ids with gaps or repeats")
    entries = [_marian_piece(name, by_text) for name in names]
    unlisted = [piece for text, piece in by_text.items() if text not in vocab]
    entries += [piece for piece in unlisted if piece.kind == NORMAL]
    spec = build_spec(model, file, entries)
    spec["added_tokens"] += [
        _entry(vocab[name], Piece(name, 0.0, USER_DEFINED)) for name in names if _is_language(name)
    ]
    # Marian's decoder removes all spaces at both ends
    ends = {"type": "Replace", "pattern": {"Regex": r"\A\s+|\s+\z"}, "content": ""}
    spec["decoder"]["decoders"][-1] = ends
    return BuiltTokenizer(spec, file, len(vocab))


def _is_language(name: str) -> bool:
    """Whether a piece is ">>fra<<": the language to translate into, written before a text."""
    return name.startswith(">>") and name.endswith("<<")


def _marian_piece(name: str, by_text: Mapping[str, Piece]) -> Piece:
    """The piece of an entry of Marian's vocabulary; hidden if no text is encoded into it."""
    if name in MARIAN_SYMBOLS:
        return Piece(name, 0.0, MARIAN_SYMBOLS[name])
    if _is_language(name):
        return Piece(name)
    piece = by_text.get(name)
    return piece if piece and piece.kind == NORMAL else Piece(HIDDEN + name)


def build_spec(model: PieceModel, file: str, entries: Sequence[Piece] = ()) -> Spec:
    """Build a SentencePiece tokenizer, Unigram or BPE, from these entries.

    Args:
        model: The parsed `.model` file: algorithm and normalisation.
        file: Name of the file in errors.
        entries: The vocabulary; the index of an entry is its id. By default the model's pieces.
    """
    entries, is_bpe = entries or model.pieces, model.algorithm == BPE
    with guarded(file):
        inner = Inner(_byte_pairs(entries, file) if is_bpe else _unigram(model, entries))
        inner.normalizer = normalizers.Sequence(_normalizers(model, file))
        inner.decoder = decoders.Sequence(
            [
                decoders.Replace(HIDDEN, ""),
                decoders.Replace(SPACE, " "),
                *([decoders.ByteFallback()] if model.byte_fallback else []),
                decoders.Fuse(),
                decoders.Strip(" ", left=1 if model.leading_space else 0, right=0),
            ]
        )
        spec = _to_spec(inner)
    added_kinds = (UNKNOWN, CONTROL, *((USER_DEFINED,) if is_bpe else ()))
    spec["added_tokens"] = [
        _entry(token, piece) for token, piece in enumerate(entries) if piece.kind in added_kinds
    ]
    return spec


def _normalizers(model: PieceModel, file: str) -> list[normalizers.Normalizer]:
    """Return SentencePiece's normalisation steps in their order."""
    steps: list[normalizers.Normalizer] = []
    if model.characters:
        check_characters(model.characters, file)
        steps.append(normalizers.Precompiled(model.characters))
    if model.single_spaces:
        steps.append(normalizers.Replace(Regex(" {2,}"), " "))
        steps.append(normalizers.Replace(Regex(r"\A +| +\z"), ""))
    if model.leading_space:
        steps.append(normalizers.Prepend(SPACE))
    return [*steps, normalizers.Replace(" ", SPACE)]


def _unigram(model: PieceModel, entries: Sequence[Piece]) -> models.Unigram:
    """Build the Unigram model; unused pieces are hidden from texts."""
    best = max((piece.score for piece in entries if piece.kind == NORMAL), default=0.0)
    hidden = (UNUSED,) if model.byte_fallback else (UNUSED, BYTE)

    def entry(piece: Piece) -> tuple[str, float]:
        if piece.kind == USER_DEFINED:  # preferred to any other segmentation
            return piece.text, len(piece.text.encode()) * best - 0.1
        return (HIDDEN if piece.kind in hidden else "") + piece.text, piece.score

    unknown = next(i for i, piece in enumerate(entries) if piece.kind == UNKNOWN)
    pieces = [entry(piece) for piece in entries]
    return models.Unigram(pieces, unk_id=unknown, byte_fallback=model.byte_fallback)


def _byte_pairs(entries: Sequence[Piece], file: str) -> models.BPE:
    """Derive the merges from the vocabulary: SentencePiece merges the pair with the best score.

    Pieces that are so long that splitting them in all ways would take minutes are refused.
    """
    work = sum(len(piece.text) ** 2 for piece in entries)
    if work > MOST_WORK:
        got = f"pieces so long that splitting takes {work:,} steps, over {MOST_WORK:,}"
        raise file_error(file, got)
    vocab = {piece.text: token for token, piece in enumerate(entries)}
    parts = {piece.text for piece in entries if piece.kind in (NORMAL, USER_DEFINED)}
    ranked = [
        ((-piece.score, -cut, cut - len(piece.text)), (piece.text[:cut], piece.text[cut:]))
        for piece in entries
        if piece.kind == NORMAL
        for cut in range(1, len(piece.text))
        if piece.text[:cut] in parts and piece.text[cut:] in parts
    ]
    merges = [merge for _, merge in sorted(ranked, key=lambda entry: entry[0])]
    unknown = next(piece.text for piece in entries if piece.kind == UNKNOWN)
    has_bytes = any(piece.kind == BYTE for piece in entries)
    return models.BPE(vocab, merges, unk_token=unknown, fuse_unk=True, byte_fallback=has_bytes)


def _entry(token: int, piece: Piece) -> dict[str, Any]:
    """An entry of `added_tokens` for a piece."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": token, "content": piece.text, **flags, "special": piece.kind != USER_DEFINED}


def _to_spec(inner: Inner) -> Spec:
    """The parsed `tokenizer.json` of a tokenizer of the library."""
    return json.loads(inner.to_str())
