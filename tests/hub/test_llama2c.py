"""Files of llama2.c, against its own arithmetic and its own way to cut a text, in plain loops."""

from __future__ import annotations

import math
import os
import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.decode import DecodeConfig, Symbols, decode
from regard.errors import InputError
from regard.hub.llama2c import read_llama2c
from regard.inputs.arrays import Ragged

DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, LENGTH = 12, 10, 2, 3, 1, 20
SAVED = os.environ.get("REGARD_DATA", "../shared/data")
STORIES = Path(SAVED) / "weights" / "llama2c-stories260K"
LETTERS = "abcdehilno. é"
WORDS = [" a", "he", "ll", "hel", " hel", "llo", "lo", "hello", " hello", "  ", "ab", "bc", "abc"]


def pieces():
    """What `tok….bin` holds: three symbols, 256 bytes, merged pieces by rank, then letters."""
    yield from ((0.0, "<unk>"), (0.0, "\n<s>\n"), (0.0, "\n</s>\n"))
    yield from ((0.0, f"<0x{byte:02X}>") for byte in range(256))
    for rank, text in enumerate([*WORDS, *LETTERS]):
        yield -float(rank), text


def tokenizer_file(path, entries):
    body = b"".join(
        struct.pack("<fi", score, len(text.encode())) + text.encode() for score, text in entries
    )
    path.write_bytes(struct.pack("<i", 8) + body)


VOCAB = len(list(pieces()))


def random_tensors(tied):
    """What a model file holds, in the order of llama2.c's `legacy_export`."""
    random = np.random.default_rng(0)
    head, narrow = DIM // HEADS, DIM // HEADS * KV_HEADS
    shapes = {
        "tok_embeddings": (VOCAB, DIM), "attention_norm": (LAYERS, DIM), "wq": (LAYERS, DIM, DIM),
        "wk": (LAYERS, narrow, DIM), "wv": (LAYERS, narrow, DIM), "wo": (LAYERS, DIM, DIM),
        "ffn_norm": (LAYERS, DIM), "w1": (LAYERS, HIDDEN, DIM), "w2": (LAYERS, DIM, HIDDEN),
        "w3": (LAYERS, HIDDEN, DIM), "norm": (DIM,), "cos": (LENGTH, head // 2),
        "sin": (LENGTH, head // 2), **({} if tied else {"output": (VOCAB, DIM)}),
    }  # fmt: skip
    return {name: random.normal(size=shape).astype("<f4") for name, shape in shapes.items()}


@pytest.fixture(params=[True, False], ids=["tied", "untied"])
def folder(request, tmp_path):
    """A tiny random model with its tokenizer."""
    return write_model(tmp_path, tied=request.param)


def write_model(folder, *, tied=True):
    sizes = (DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCAB if tied else -VOCAB, LENGTH)
    tensors = b"".join(tensor.tobytes() for tensor in random_tensors(tied).values())
    (folder / "model.bin").write_bytes(struct.pack("<7i", *sizes) + tensors)
    tokenizer_file(folder / "tokenizer.bin", pieces())
    return folder


def rms(x, weight):
    return x / math.sqrt((x**2).mean() + 1e-5) * weight


def turned(x, position):
    """Neighbouring features as one complex number each, turned."""
    pairs = x.reshape(-1, DIM // HEADS // 2, 2)
    rate = 10000.0 ** (-np.arange(DIM // HEADS // 2) / (DIM // HEADS // 2))
    number = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * position * rate)
    return np.stack([number.real, number.imag], -1).reshape(len(pairs), -1)  # (heads, head_dim)


def their_logits(w, ids):
    """`forward` of run.c: a token at a time, a head at a time."""
    keys, values, out = [[] for _ in range(LAYERS)], [[] for _ in range(LAYERS)], []
    for position, token in enumerate(ids):
        x = w["tok_embeddings"][token].astype(float)
        for layer in range(LAYERS):
            y = rms(x, w["attention_norm"][layer])
            q = turned(w["wq"][layer] @ y, position)
            keys[layer].append(turned(w["wk"][layer] @ y, position))
            values[layer].append((w["wv"][layer] @ y).reshape(KV_HEADS, -1))
            heads = []
            for head in range(HEADS):
                shared = head // (HEADS // KV_HEADS)
                scores = [q[head] @ key[shared] / math.sqrt(DIM // HEADS) for key in keys[layer]]
                weights = np.exp(scores) / np.exp(scores).sum()
                pairs = zip(weights, values[layer], strict=True)
                heads.append(sum(weight * value[shared] for weight, value in pairs))
            x = x + w["wo"][layer] @ np.concatenate(heads)
            y = rms(x, w["ffn_norm"][layer])
            gate = w["w1"][layer] @ y
            x = x + w["w2"][layer] @ (gate / (1 + np.exp(-gate)) * (w["w3"][layer] @ y))
        out.append(w.get("output", w["tok_embeddings"]) @ rms(x, w["norm"]))
    return torch.tensor(np.array(out), dtype=torch.float32)


def their_ids(text):
    """`encode` of run.c: characters, or their bytes, then the best merge until there is none."""
    number = {piece: (token, score) for token, (score, piece) in enumerate(pieces())}
    ids = []
    for letter in " " + text if text else "":
        ids += [number[letter][0]] if letter in number else [byte + 3 for byte in letter.encode()]
    said = [piece for _, piece in pieces()]
    while True:
        merges = [
            (number[said[a] + said[b]][1], -at, number[said[a] + said[b]][0])
            for at, (a, b) in enumerate(pairwise(ids))
            if said[a] + said[b] in number
        ]
        if not merges:
            return ids
        _, at, token = max(merges)
        ids[-at : -at + 2] = [token]


def test_the_logits_are_those_of_its_own_arithmetic(folder):
    model, _ = read_llama2c(folder / "model.bin")
    tensors = random_tensors(model.config.tied == "all")
    texts = [[5, 260, 7, 1, 270, 9], [3, 4]]
    with torch.no_grad():
        logits = model(Ragged.of(texts)).split((6, 2))
    for ids, mine in zip(texts, logits, strict=True):
        torch.testing.assert_close(mine, their_logits(tensors, ids), rtol=0, atol=1e-4)
    assert (model.config.tied == "all") == ("output" not in tensors)
    assert model.config.max_length == LENGTH


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "hello hello",
        "  hello ",
        "abc bca",
        "été — 東",
        "hel lo\nhe",
        "<s> </s>",
        "",
        "A▁b",
    ],
)
def test_a_text_is_cut_as_llama2c_cuts_it(tmp_path, text):
    _, vocabulary = read_llama2c(write_model(tmp_path) / "model.bin")
    tokenizer = vocabulary.source
    # the mark of a space is a space here, as in SentencePiece; nobody types it
    assert tokenizer.encode(text) == their_ids(text.replace("▁", " "))
    assert tokenizer.decode(tokenizer.encode(text)) == text.replace("▁", " ")


def test_symbols_have_their_places_and_a_text_begins_with_one(tmp_path):
    _, vocabulary = read_llama2c(write_model(tmp_path) / "model.bin")
    tokenizer = vocabulary.source
    assert vocabulary.shared
    assert (tokenizer.unknown, tokenizer.begin, tokenizer.end) == (0, 1, 2)
    assert tokenizer.vocab == VOCAB
    assert tokenizer.template(tokenizer.encode("hello")) == [1, *tokenizer.encode("hello")]
    again = type(vocabulary).from_json(vocabulary.to_json())
    assert again.source.encode("hello été") == tokenizer.encode("hello été")


def test_the_tokenizer_is_found_by_its_size_first_or_named(tmp_path):
    write_model(tmp_path)
    (tmp_path / "tokenizer.bin").rename(tmp_path / f"tok{VOCAB}.bin")
    (tmp_path / "tokenizer.bin").write_bytes(b"of another model")
    assert read_llama2c(tmp_path / "model.bin")[1].source.vocab == VOCAB
    (tmp_path / f"tok{VOCAB}.bin").rename(tmp_path / "other.bin")
    vocabulary = read_llama2c(tmp_path / "model.bin", tmp_path / "other.bin")[1]
    assert vocabulary.source.vocab == VOCAB
    (tmp_path / "tokenizer.bin").unlink()
    with pytest.raises(InputError, match=rf"expected tok{VOCAB}\.bin or tokenizer\.bin"):
        read_llama2c(tmp_path / "model.bin")


@pytest.mark.parametrize(
    "sizes",
    [
        (2**31 - 1,) * 7,  # what it says would fill any machine
        (DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCAB, LENGTH + 1),
        (DIM, HIDDEN, 2**31 - 1, HEADS, KV_HEADS, VOCAB, LENGTH),
        (DIM, HIDDEN, LAYERS, 0, KV_HEADS, VOCAB, LENGTH),
        (DIM, HIDDEN, LAYERS, 5, KV_HEADS, VOCAB, LENGTH),
        (DIM, HIDDEN, LAYERS, HEADS, 2, VOCAB, LENGTH),
        (DIM, -HIDDEN, LAYERS, HEADS, KV_HEADS, VOCAB, LENGTH),
        (DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, -(2**31), LENGTH),
    ],
)
def test_first_numbers_that_do_not_fit_the_file_make_nothing(tmp_path, sizes, monkeypatch):
    file = write_model(tmp_path) / "model.bin"
    file.write_bytes(struct.pack("<7i", *sizes) + file.read_bytes()[28:])
    monkeypatch.setattr("regard.hub.llama2c.Decoder", None)
    with pytest.raises(InputError, match=r"model\.bin is damaged"):
        read_llama2c(file)


@pytest.mark.parametrize("length", [0, 27, 28, 1000, -1])
def test_a_file_that_is_cut_off_is_refused(tmp_path, length):
    file = write_model(tmp_path) / "model.bin"
    file.write_bytes(file.read_bytes()[:length])
    with pytest.raises(InputError, match=r"model\.bin is damaged"):
        read_llama2c(file)


def test_an_odd_head_and_another_version_are_named(tmp_path):
    file = write_model(tmp_path) / "model.bin"
    sizes = (3, 1, 1, 1, 1, VOCAB, 2)  # angles of an odd head are those of the even one below
    numbers = VOCAB * 3 + 3 + 4 * 9 + 3 + 3 * 3 + 3 + 2 * 2
    file.write_bytes(struct.pack("<7i", *sizes) + bytes(4 * numbers))
    with pytest.raises(InputError, match="even head width"):
        read_llama2c(file)
    file.write_bytes(struct.pack("<7i", 0x616B3432, 2, *sizes[2:]))
    with pytest.raises(InputError, match=r"got version 2 of .* expected version 0"):
        read_llama2c(file)
    file.unlink()
    with pytest.raises(InputError, match="No such file"):
        read_llama2c(file)


def damage(data, offset, form, value):
    return data[:offset] + struct.pack(form, value) + data[offset + struct.calcsize(form) :]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data[:-1], "piece .* bytes"),
        (lambda data: data[:-4], "cut off|bytes"),
        (lambda data: data + struct.pack("<fi", 0, 1) + b"z", "pieces for a model"),
        (lambda data: damage(data, 8, "<i", -1), "piece 0 with -1 bytes"),
        (lambda data: damage(data, 8, "<i", 2**31 - 1), "piece 0 with 2147483647 bytes"),
        (lambda data: damage(data, 4, "<f", math.nan), "the score nan"),
        (lambda data: data.replace(b" hello", b"\xff\xff\xff\xff\xff\xff"), "not UTF-8"),
        (lambda data: data.replace(b"abc", b"hel"), "a piece twice"),
        (lambda data: data[:0], "0 pieces for a model"),
    ],
)
def test_a_damaged_tokenizer_is_refused(tmp_path, change, said):
    write_model(tmp_path)
    file = tmp_path / "tokenizer.bin"
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(InputError, match=rf"tokenizer\.bin is damaged.*({said})"):
        read_llama2c(tmp_path / "model.bin")


@pytest.mark.skipif(not STORIES.is_dir(), reason="needs the published stories260K")
def test_the_published_stories_have_the_published_logits_and_text():
    model, vocabulary = read_llama2c(STORIES / "stories260K.bin")
    golden = np.load(STORIES / "golden.npz")
    tokens = golden["tokens"].tolist()
    with torch.no_grad():
        logits = model(Ragged.of([tokens]))
    torch.testing.assert_close(logits, torch.tensor(golden["logits"]), rtol=0, atol=1e-4)
    tokenizer = vocabulary.source
    symbols = Symbols(tokenizer.begin, tokenizer.end, tokenizer.pad)
    config = DecodeConfig(max_length=len(tokens) - 1)
    [[story]] = decode(model, None, symbols, config, prompts=[[tokenizer.begin]])
    assert list(story.ids) == tokens[1:]
    expected = (STORIES / "greedy.txt").read_text().rstrip("\n").replace("<0x0A>", "\n")
    assert " " + tokenizer.decode(story.ids) == expected
    assert tokenizer.encode(expected[1:]) == tokens[1:]
