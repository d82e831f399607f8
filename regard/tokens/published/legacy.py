"""Older vocabulary files -> the equivalent `tokenizer.json`.

In: `vocab.json` and `merges.txt`, `vocab.txt`, or SentencePiece models. Out: the parsed JSON of the
same tokenizer, as transformers would write it; `hub.py` adds the roles of symbols and the template.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Inner

from regard.tokens.kinds import CONTINUES, SPACE
from regard.tokens.published.sentencepiece import (
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
from regard.tokens.spec import HIDDEN, Spec, check_characters, damaged, guarded

QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""The pattern by which Qwen2 splits a text before merging: single digits, joined line ends."""

MOST_WORK = 2**28
"""The most allowed sum of the squared lengths of all pieces; published vocabularies have some
millions."""

MARIAN_SYMBOLS = {"<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL, "<pad>": CONTROL}


def read_merges(text: str, file: str) -> list[tuple[str, str]]:
    """Parse a `merges.txt`: the pairs in their order."""
    merges: list[tuple[str, str]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.startswith("#version"):
            continue
        left, space, right = line.rstrip("\r").partition(" ")
        if not (left and space and right) or " " in right:
            raise damaged(f"{file}, line {number}", f"{line[:40]!r}")
        merges.append((left, right))
    return merges


def byte_level(
    vocab: Mapping[str, int], merges: Sequence[tuple[str, str]], *, leading_space: bool, file: str
) -> Spec:
    """Build GPT-2's, RoBERTa's or BART's byte-level BPE."""
    with guarded(file):
        inner = Inner(models.BPE(dict(vocab), list(merges)))
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=leading_space)
        inner.decoder = decoders.ByteLevel()
        return _spec(inner)


def qwen(vocab: Mapping[str, int], merges: Sequence[tuple[str, str]], file: str) -> Spec:
    """Build Qwen's byte-level BPE, with its own split pattern and NFC normalisation."""
    with guarded(file):
        inner = Inner(models.BPE(dict(vocab), list(merges)))
        inner.normalizer = normalizers.NFC()
        split = pre_tokenizers.Split(Regex(QWEN_SPLIT), behavior="isolated")
        level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        inner.pre_tokenizer = pre_tokenizers.Sequence([split, level])
        inner.decoder = decoders.ByteLevel()
        return _spec(inner)


def word_pieces(text: str, settings: Mapping[str, Any], file: str) -> Spec:
    """Build BERT's WordPiece from the text of a `vocab.txt`, one piece per line."""
    stated = settings.get("unk_token", "[UNK]")
    unknown = stated["content"] if isinstance(stated, dict) and "content" in stated else stated
    lines = text.removesuffix("\n").split("\n")
    vocab = {line.rstrip("\r"): number for number, line in enumerate(lines)}
    if unknown not in vocab:
        raise damaged(file, f"no {unknown!r}")
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
        return _spec(inner)


def pieces(model: PieceModel, file: str, extra: Sequence[Piece] = ()) -> Spec:
    """Build a SentencePiece tokenizer: T5's Unigram, or Llama's BPE with byte fallback.

    Args:
        model: The parsed `.model` file.
        file: Name of the file in errors.
        extra: Entries to add after the model's own.
    """
    return _assembled(model, [*model.pieces, *extra], file)


def fairseq_pieces(model: PieceModel, file: str) -> Spec:
    """Build XLM-RoBERTa's: SentencePiece with fairseq's four symbols first and a mask last."""
    first = [Piece("<s>", 0.0, CONTROL), Piece("<pad>", 0.0, CONTROL)]
    first += [Piece("</s>", 0.0, CONTROL), Piece("<unk>", 0.0, UNKNOWN)]
    entries = [*first, *model.pieces[3:], Piece("<mask>", 0.0, CONTROL)]
    return _assembled(model, entries, file)


def marian(model: PieceModel, vocab: Mapping[str, int], file: str) -> Spec:
    """Build one side of a Marian model: SentencePiece pieces, with ids from a separate vocabulary.

    Entries only in the vocabulary (the other side's pieces) can be decoded, but no text is encoded
    into them. Pieces only in the SentencePiece model get ids beyond the vocabulary.
    """
    found = {piece.text: piece for piece in model.pieces}
    names = sorted(vocab, key=vocab.__getitem__)
    if [vocab[name] for name in names] != list(range(len(names))):
        raise damaged(file, "ids with gaps or repeats")
    entries = [_numbered(name, found) for name in names]
    entries += [
        piece for text, piece in found.items() if text not in vocab and piece.kind == NORMAL
    ]
    spec = _assembled(model, entries, file)
    spec["added_tokens"] += [  # ">>fra<<": the language to translate into, written before a text
        _added(vocab[name], Piece(name, 0.0, USER_DEFINED))
        for name in names
        if name.startswith(">>") and name.endswith("<<")
    ]
    # Marian's decoder removes all spaces at both ends
    ends = {"type": "Replace", "pattern": {"Regex": r"\A\s+|\s+\z"}, "content": ""}
    spec["decoder"]["decoders"][-1] = ends
    return spec


def _numbered(name: str, found: Mapping[str, Piece]) -> Piece:
    if name in MARIAN_SYMBOLS:
        return Piece(name, 0.0, MARIAN_SYMBOLS[name])
    if name.startswith(">>") and name.endswith("<<"):
        return Piece(name)
    piece = found.get(name)
    return piece if piece and piece.kind == NORMAL else Piece(HIDDEN + name)


def _assembled(model: PieceModel, entries: Sequence[Piece], file: str) -> Spec:
    with guarded(file):
        if model.algorithm == BPE:
            _check_work(entries, file)
        inner = Inner(_byte_pairs(entries) if model.algorithm == BPE else _unigram(model, entries))
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
        spec = _spec(inner)
    named = (UNKNOWN, CONTROL, *((USER_DEFINED,) if model.algorithm == BPE else ()))
    spec["added_tokens"] = [
        _added(token, piece) for token, piece in enumerate(entries) if piece.kind in named
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
    best = max((piece.score for piece in entries if piece.kind == NORMAL), default=0.0)
    hidden = (UNUSED,) if model.byte_fallback else (UNUSED, BYTE)

    def entry(piece: Piece) -> tuple[str, float]:
        if piece.kind == USER_DEFINED:  # preferred to any other segmentation
            return piece.text, len(piece.text.encode()) * best - 0.1
        return (HIDDEN if piece.kind in hidden else "") + piece.text, piece.score

    unknown = next(place for place, piece in enumerate(entries) if piece.kind == UNKNOWN)
    return models.Unigram(
        [entry(piece) for piece in entries], unk_id=unknown, byte_fallback=model.byte_fallback
    )


def _check_work(entries: Sequence[Piece], file: str) -> None:
    """Refuse pieces that are so long that splitting them in all ways would take minutes."""
    work = sum(len(piece.text) ** 2 for piece in entries)
    if work > MOST_WORK:
        raise damaged(
            file, f"pieces so long that splitting takes {work:,} steps, over {MOST_WORK:,}"
        )


def _byte_pairs(entries: Sequence[Piece]) -> models.BPE:
    """Derive the merges from the vocabulary: SentencePiece merges the pair with the best score."""
    vocab = {piece.text: token for token, piece in enumerate(entries)}
    parts = {piece.text for piece in entries if piece.kind in (NORMAL, USER_DEFINED)}
    ranked = [
        ((-piece.score, -cut, cut - len(piece.text)), (piece.text[:cut], piece.text[cut:]))
        for piece in entries
        if piece.kind == NORMAL
        for cut in range(1, len(piece.text))
        if piece.text[:cut] in parts and piece.text[cut:] in parts
    ]
    unknown = next(piece.text for piece in entries if piece.kind == UNKNOWN)
    return models.BPE(
        vocab,
        [merge for _, merge in sorted(ranked, key=lambda entry: entry[0])],
        unk_token=unknown,
        fuse_unk=True,
        byte_fallback=any(piece.kind == BYTE for piece in entries),
    )


def _added(token: int, piece: Piece) -> dict[str, Any]:
    return {
        "id": token,
        "content": piece.text,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": piece.kind != USER_DEFINED,
    }


def _spec(inner: Inner) -> Spec:
    spec: Spec = json.loads(inner.to_str())
    return spec
