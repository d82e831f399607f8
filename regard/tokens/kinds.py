"""Training text -> a vocabulary of one of six kinds, as the `tokenizers` library keeps it.

In: the sentences of the training split. Out: a `tokenizers.Tokenizer` with the four special symbols
at ids 0 to 3. The same text and settings give the same vocabulary in every process; where the
library's trainers go through hash maps in random order, this file puts order back.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Inner

from regard.tokens.config import TokensConfig

SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
PAD, BEGIN, END, UNKNOWN = range(4)
CONTINUES = "##"
"""What WordPiece puts before a piece that goes on with a word."""
SPACE = "▁"
"""What Unigram writes for a space."""

WORD = r"\w+(?:['’-]\w+|(?<=\d)[.,:](?=\d)\w+)*|[^\w\s]"
"""A word ("Didn't", "well-known", "3.5"), or one punctuation mark."""
CHARACTER = r"[\s\S]"
LONGEST_PIECE = 16
"""Characters of the longest Unigram piece; the library's default too."""
ROUNDS = 2
"""How often Unigram's scores are estimated again once its pieces are chosen."""


def split_words() -> pre_tokenizers.PreTokenizer:
    """What cuts text into words and punctuation marks, without the spaces between."""
    return pre_tokenizers.Split(Regex(WORD), behavior="removed", invert=True)


def byte_symbols() -> list[str]:
    """The printable character that stands for each byte in byte-level vocabularies (GPT-2's).

    Example:
        >>> byte_symbols()[ord("A")], byte_symbols()[ord(" ")]
        ('A', 'Ġ')
    """
    shown = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1)]
    shown += range(ord("®"), ord("ÿ") + 1)
    hidden = [byte for byte in range(256) if byte not in shown]
    symbols = {byte: chr(byte) for byte in shown}
    symbols |= {byte: chr(256 + place) for place, byte in enumerate(hidden)}
    return [symbols[byte] for byte in range(256)]


def train(texts: Sequence[str], config: TokensConfig) -> Inner:
    """Learn a vocabulary from sentences."""
    return KINDS[config.kind](texts, config)


def _words(texts: Sequence[str], config: TokensConfig) -> Inner:
    # The library's trainer keeps the most frequent words, equals in alphabetical order.
    inner = _assemble(models.WordLevel(unk_token=SPECIAL[UNKNOWN]), config, split_words())
    inner.train_from_iterator(texts, trainers.WordLevelTrainer(**_settings(config)))
    return inner


def _characters(texts: Sequence[str], config: TokensConfig) -> Inner:
    split = pre_tokenizers.Split(Regex(CHARACTER), behavior="isolated")
    model = models.WordLevel(unk_token=SPECIAL[UNKNOWN])
    inner = _assemble(model, config, split, decoders.Fuse())
    inner.train_from_iterator(texts, trainers.WordLevelTrainer(**_settings(config)))
    return inner


def _bytes(texts: Sequence[str], config: TokensConfig) -> Inner:  # noqa: ARG001 (nothing to learn)
    vocab = {symbol: place for place, symbol in enumerate([*SPECIAL, *byte_symbols()])}
    split = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return _assemble(models.BPE(vocab, merges=[]), config, split, decoders.ByteLevel())


def _bpe(texts: Sequence[str], config: TokensConfig) -> Inner:
    # GPT-2's split keeps letters and marks apart, so no merge can spell a special symbol
    split = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner = _assemble(models.BPE(), config, split, decoders.ByteLevel())
    trainer = trainers.BpeTrainer(
        **_settings(config), min_frequency=2, initial_alphabet=byte_symbols()
    )
    inner.train_from_iterator(texts, trainer)
    return inner


def _wordpiece(texts: Sequence[str], config: TokensConfig) -> Inner:
    decoder = decoders.WordPiece(prefix=CONTINUES)
    empty = models.WordPiece(unk_token=SPECIAL[UNKNOWN])
    draft = _assemble(empty, config, split_words(), decoder)
    # each character is needed twice: as the beginning of a word and as its continuation
    texts = _without_rare(texts, draft, keep=(config.vocab - len(SPECIAL)) // 2)
    words = _word_counts(texts, draft)
    # The trainer numbers continuations as it meets them in a hash map, and breaks ties between
    # merges by number. Named beforehand as if they were special, they have fixed numbers.
    continuations = sorted({CONTINUES + letter for word in words for letter in word[1:]})
    trainer = trainers.WordPieceTrainer(
        vocab_size=config.vocab,
        special_tokens=[*SPECIAL, *continuations],
        min_frequency=2,
        show_progress=False,
    )
    draft.train_from_iterator(texts, trainer)
    model = models.WordPiece(draft.get_vocab(), unk_token=SPECIAL[UNKNOWN])
    return _assemble(model, config, split_words(), decoder)


def _unigram(texts: Sequence[str], config: TokensConfig) -> Inner:
    # marks stand apart, so that no piece can spell a special symbol
    split = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(SPACE), pre_tokenizers.Punctuation("isolated")]
    )
    draft = _assemble(models.Unigram(), config, split, decoders.Metaspace(SPACE))
    texts = _without_rare(texts, draft, keep=config.vocab - len(SPECIAL) - 1)  # and the space
    trainer = trainers.UnigramTrainer(
        **_settings(config), unk_token=SPECIAL[UNKNOWN], max_piece_length=LONGEST_PIECE
    )
    draft.train_from_iterator(texts, trainer)
    pieces = sorted(set(draft.get_vocab()) - set(SPECIAL))
    model = _estimate(pieces, _word_counts(texts, draft), most=config.vocab - len(SPECIAL))
    return _assemble(model, config, split, decoders.Metaspace(SPACE))


KINDS: dict[str, Callable[[Sequence[str], TokensConfig], Inner]] = {
    "words": _words,
    "characters": _characters,
    "bytes": _bytes,
    "bpe": _bpe,
    "wordpiece": _wordpiece,
    "unigram": _unigram,
}


def _settings(config: TokensConfig) -> dict[str, Any]:
    return {
        "vocab_size": config.vocab,
        "special_tokens": list(SPECIAL),
        "show_progress": False,
    }


def _assemble(
    model: models.Model,
    config: TokensConfig,
    split: pre_tokenizers.PreTokenizer,
    decoder: decoders.Decoder | None = None,
) -> Inner:
    inner = Inner(model)
    if config.lowercase:
        inner.normalizer = normalizers.Lowercase()
    inner.pre_tokenizer = split
    if decoder is not None:
        inner.decoder = decoder
    if inner.token_to_id(SPECIAL[UNKNOWN]) is not None:  # trained or given; a draft has none yet
        inner.add_special_tokens([AddedToken(symbol, special=True) for symbol in SPECIAL])
    return inner


def _word_counts(texts: Iterable[str], inner: Inner) -> dict[str, int]:
    """How often each unit that the vocabulary cuts further occurs, in alphabetical order."""
    counts: Counter[str] = Counter()
    for chunk, count in Counter(chunk for text in texts for chunk in text.split()).items():
        for word, _ in inner.pre_tokenizer.pre_tokenize_str(_normalized(chunk, inner)):
            counts[word] += count
    return dict(sorted(counts.items()))


def _without_rare(texts: Sequence[str], inner: Inner, keep: int) -> Sequence[str]:
    """The sentences with all but the `keep` most frequent characters made spaces."""
    counts = Counter(_normalized("".join(texts), inner))
    letters = [letter for letter in counts if not letter.isspace()]
    if len(letters) <= keep:
        return texts
    by_count = sorted(letters, key=lambda letter: (-counts[letter], letter))
    rare = dict.fromkeys(map(ord, by_count[keep:]), " ")
    return [_normalized(text, inner).translate(rare) for text in texts]


def _normalized(text: str, inner: Inner) -> str:
    return inner.normalizer.normalize_str(text) if inner.normalizer else text


def _estimate(pieces: Sequence[str], words: Mapping[str, int], most: int) -> models.Unigram:
    """Estimate Unigram's scores, log p(piece), from the likeliest cuts of the words.

    The trainer sums its expected counts in the random order of a hash map, so that its scores
    differ from process to process. Here they come from whole numbers: first how often each piece
    occurs at all, then, twice, how often the likeliest cut uses it.
    """
    known = set(pieces)
    uses = Counter[str]()
    for word, count in words.items():
        for start in range(len(word)):
            for end in range(start + 1, min(start + LONGEST_PIECE, len(word)) + 1):
                if word[start:end] in known:
                    uses[word[start:end]] += count
    for _ in range(ROUNDS):
        # The trainer may give a few too many. Characters stay: without them words are lost.
        pieces = sorted(pieces, key=lambda piece: (len(piece) > 1, -uses[piece], piece))[:most]
        cut = Inner(_scored(pieces, uses))
        uses = Counter()
        for encoding, count in zip(cut.encode_batch(list(words)), words.values(), strict=True):
            for piece in encoding.tokens:
                uses[piece] += count
    return _scored(pieces, uses)


def _scored(pieces: Sequence[str], uses: Mapping[str, int]) -> models.Unigram:
    # half a use for a piece that no likeliest cut has: rare, not impossible
    total = sum(uses[piece] or 0.5 for piece in pieces)
    # six places: the library reads longer decimals back with another last bit
    scores = [(piece, round(math.log((uses[piece] or 0.5) / total), 6)) for piece in pieces]
    scores.sort(key=lambda entry: (-entry[1], entry[0]))
    return models.Unigram([*((symbol, 0.0) for symbol in SPECIAL), *scores], unk_id=UNKNOWN)
