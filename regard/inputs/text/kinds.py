"""Training text -> a vocabulary of one of six kinds, trained with the `tokenizers` library.

In: the sentences of the training split. Out: a `tokenizers.Tokenizer` with the four special symbols
at ids 0 to 3. The same text and settings give the same vocabulary in every process: where the
library's trainers depend on the random order of a hash map, this file makes them deterministic.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Inner
from tokenizers.decoders import Decoder
from tokenizers.pre_tokenizers import PreTokenizer

from regard.inputs.text.config import TokensConfig

SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
PAD, BEGIN, END, UNKNOWN = range(4)
CONTINUES = "##"
"""WordPiece's prefix of a piece that continues a word."""
SPACE = "▁"
"""Unigram's symbol for a space."""

WORD = r"\w+(?:['’-]\w+|(?<=\d)[.,:](?=\d)\w+)*|[^\w\s]"
"""A word ("Didn't", "well-known", "3.5"), or one punctuation mark."""
CHARACTER = r"[\s\S]"
LONGEST_PIECE = 16
"""The most characters of a Unigram piece; also the library's default."""
ROUNDS = 2
"""How often Unigram's scores are re-estimated after its pieces are chosen."""


def split_words() -> PreTokenizer:
    """Return a pre-tokenizer that splits text into words and punctuation, without spaces."""
    return pre_tokenizers.Split(Regex(WORD), behavior="removed", invert=True)


def byte_symbols() -> list[str]:
    """Return the printable character for each byte in byte-level vocabularies (GPT-2's).

    Example:
        >>> byte_symbols()[ord("A")], byte_symbols()[ord(" ")]
        ('A', 'Ġ')
    """
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1)]
    printable += range(ord("®"), ord("ÿ") + 1)
    unprintable = [byte for byte in range(256) if byte not in printable]
    symbols = {byte: chr(byte) for byte in printable}
    symbols |= {byte: chr(256 + i) for i, byte in enumerate(unprintable)}
    return [symbols[byte] for byte in range(256)]


def train(texts: Sequence[str], config: TokensConfig) -> Inner:
    """Learn a vocabulary of the kind `config.kind` from sentences."""
    return KINDS[config.kind](texts, config)


def _train_words(texts: Sequence[str], config: TokensConfig) -> Inner:
    """Learn a vocabulary of the most frequent words and punctuation marks."""
    return _train_word_level(texts, config, split_words())


def _train_characters(texts: Sequence[str], config: TokensConfig) -> Inner:
    """Learn a vocabulary of the most frequent characters."""
    split = pre_tokenizers.Split(Regex(CHARACTER), behavior="isolated")
    return _train_word_level(texts, config, split, decoders.Fuse())


def _train_word_level(
    texts: Sequence[str], config: TokensConfig, split: PreTokenizer, decoder: Decoder | None = None
) -> Inner:
    """Learn a vocabulary of the most frequent units that a pre-tokenizer makes."""
    # The trainer keeps the most frequent units; ties are in alphabetical order.
    inner = _assemble(models.WordLevel(unk_token=SPECIAL[UNKNOWN]), config, split, decoder)
    inner.train_from_iterator(texts, trainers.WordLevelTrainer(**_trainer_settings(config)))
    return inner


def _train_bytes(texts: Sequence[str], config: TokensConfig) -> Inner:  # noqa: ARG001 (nothing to learn)
    vocab = {symbol: i for i, symbol in enumerate([*SPECIAL, *byte_symbols()])}
    split = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return _assemble(models.BPE(vocab, merges=[]), config, split, decoders.ByteLevel())


def _train_bpe(texts: Sequence[str], config: TokensConfig) -> Inner:
    """Learn byte-level byte-pair encoding, split as in GPT-2."""
    # GPT-2's split separates letters and punctuation, so that no merge can spell a special symbol
    split = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner = _assemble(models.BPE(), config, split, decoders.ByteLevel())
    settings = {**_trainer_settings(config), "min_frequency": 2}
    trainer = trainers.BpeTrainer(**settings, initial_alphabet=byte_symbols())
    inner.train_from_iterator(texts, trainer)
    return inner


def _train_wordpiece(texts: Sequence[str], config: TokensConfig) -> Inner:
    """Learn WordPiece, as BERT's: pieces that begin a word, and pieces that continue one."""
    decoder = decoders.WordPiece(prefix=CONTINUES)
    empty = models.WordPiece(unk_token=SPECIAL[UNKNOWN])
    draft = _assemble(empty, config, split_words(), decoder)
    # each character needs two entries: one that begins a word and one that continues it
    texts = _replace_rare(texts, draft, keep=(config.vocab - len(SPECIAL)) // 2)
    words = _word_counts(texts, draft)
    # The trainer numbers continuations in the order of a hash map, and breaks ties between merges
    # by number. Passing them as special tokens gives them fixed numbers.
    continuations = sorted({CONTINUES + letter for word in words for letter in word[1:]})
    settings = {**_trainer_settings(config), "special_tokens": [*SPECIAL, *continuations]}
    trainer = trainers.WordPieceTrainer(**settings, min_frequency=2)
    draft.train_from_iterator(texts, trainer)
    model = models.WordPiece(draft.get_vocab(), unk_token=SPECIAL[UNKNOWN])
    return _assemble(model, config, split_words(), decoder)


def _train_unigram(texts: Sequence[str], config: TokensConfig) -> Inner:
    """Learn a Unigram model, with `▁` for a space."""
    # punctuation is isolated, so that no piece can spell a special symbol
    steps = [pre_tokenizers.Metaspace(SPACE), pre_tokenizers.Punctuation("isolated")]
    split = pre_tokenizers.Sequence(steps)
    draft = _assemble(models.Unigram(), config, split, decoders.Metaspace(SPACE))
    texts = _replace_rare(texts, draft, keep=config.vocab - len(SPECIAL) - 1)  # 1 for the space
    trainer = trainers.UnigramTrainer(
        **_trainer_settings(config), unk_token=SPECIAL[UNKNOWN], max_piece_length=LONGEST_PIECE
    )
    draft.train_from_iterator(texts, trainer)
    pieces = sorted(set(draft.get_vocab()) - set(SPECIAL))
    model = _estimate_unigram(pieces, _word_counts(texts, draft), most=config.vocab - len(SPECIAL))
    return _assemble(model, config, split, decoders.Metaspace(SPACE))


KINDS: dict[str, Callable[[Sequence[str], TokensConfig], Inner]] = {
    "words": _train_words,
    "characters": _train_characters,
    "bytes": _train_bytes,
    "bpe": _train_bpe,
    "wordpiece": _train_wordpiece,
    "unigram": _train_unigram,
}


def _trainer_settings(config: TokensConfig) -> dict[str, Any]:
    """The settings that all trainers of the library take."""
    return {"vocab_size": config.vocab, "special_tokens": [*SPECIAL], "show_progress": False}


def _assemble(
    model: models.Model, config: TokensConfig, split: PreTokenizer, decoder: Decoder | None = None
) -> Inner:
    """Put a tokenizer together from its model, normaliser, pre-tokenizer and decoder."""
    inner = Inner(model)
    if config.lowercase:
        inner.normalizer = normalizers.Lowercase()
    inner.pre_tokenizer = split
    if decoder is not None:
        inner.decoder = decoder
    if inner.token_to_id(SPECIAL[UNKNOWN]) is not None:  # not before training
        inner.add_special_tokens([AddedToken(symbol, special=True) for symbol in SPECIAL])
    return inner


def _word_counts(texts: Iterable[str], inner: Inner) -> dict[str, int]:
    """Count the units that the pre-tokenizer makes, in alphabetical order."""
    counts: Counter[str] = Counter()
    for chunk, count in Counter(chunk for text in texts for chunk in text.split()).items():
        for word, _ in inner.pre_tokenizer.pre_tokenize_str(_normalize(chunk, inner)):
            counts[word] += count
    return dict(sorted(counts.items()))


def _replace_rare(texts: Sequence[str], inner: Inner, keep: int) -> Sequence[str]:
    """Replace all but the `keep` most frequent characters of the sentences by spaces."""
    counts = Counter(_normalize("".join(texts), inner))
    letters = [letter for letter in counts if not letter.isspace()]
    if len(letters) <= keep:
        return texts
    by_count = sorted(letters, key=lambda letter: (-counts[letter], letter))
    rare = dict.fromkeys(map(ord, by_count[keep:]), " ")
    return [_normalize(text, inner).translate(rare) for text in texts]


def _normalize(text: str, inner: Inner) -> str:
    """Apply the normaliser of a tokenizer, if it has one."""
    return inner.normalizer.normalize_str(text) if inner.normalizer else text


def _estimate_unigram(pieces: Sequence[str], words: Mapping[str, int], most: int) -> models.Unigram:
    """Estimate Unigram's scores, log p(piece), from the likeliest segmentations of the words.

    The trainer sums expected counts as floats in the random order of a hash map, so that its scores
    differ between processes. Here they come from integer counts: first of all occurrences of each
    piece, then, `ROUNDS` times, of its uses in the likeliest segmentations.

    Args:
        pieces: The candidate pieces.
        words: The words with their counts.
        most: The most pieces to keep.
    """
    candidates = set(pieces)
    uses = Counter[str]()
    for word, count in words.items():
        for start in range(len(word)):
            for end in range(start + 1, min(start + LONGEST_PIECE, len(word)) + 1):
                if word[start:end] in candidates:
                    uses[word[start:end]] += count
    for _ in range(ROUNDS):
        # The trainer may return a few pieces too many. Single characters are kept: without them
        # words would become unknown.
        pieces = sorted(pieces, key=lambda piece: (len(piece) > 1, -uses[piece], piece))[:most]
        inner = Inner(_unigram_model(pieces, uses))
        uses = Counter()
        for encoding, count in zip(inner.encode_batch(list(words)), words.values(), strict=True):
            for piece in encoding.tokens:
                uses[piece] += count
    return _unigram_model(pieces, uses)


def _unigram_model(pieces: Sequence[str], uses: Mapping[str, int]) -> models.Unigram:
    """The Unigram model with the scores log(uses / total), best pieces first."""
    # an unused piece counts as half a use: rare, but not impossible
    total = sum(uses[piece] or 0.5 for piece in pieces)
    # six decimals: more would not survive the library's JSON bit for bit
    scores = [(piece, round(math.log((uses[piece] or 0.5) / total), 6)) for piece in pieces]
    scores.sort(key=lambda entry: (-entry[1], entry[0]))
    return models.Unigram([*((symbol, 0.0) for symbol in SPECIAL), *scores], unk_id=UNKNOWN)
