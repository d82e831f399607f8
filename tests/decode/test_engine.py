"""The decoding loop on a small recurrent model whose state would give wrong rows away."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from regard.decode import DecodeConfig, Symbols, engine, loop, search
from regard.decode.search import BeamSearch
from regard.errors import FoundProblems, InputError
from regard.inputs.arrays import Dense, Paired, Ragged
from regard.layers import Tap
from regard.models import EncoderDecoder, TransformerConfig

BEGIN, END, PAD = 0, 1, 2
SYMBOLS = Symbols(begin=BEGIN, end=END, pad=PAD, banned=(BEGIN, PAD))


def max_lengths(source, memory=None, prefixes=(), **_):
    """As a task says it: twice what is read, and ten more."""
    if source is not None:
        lengths = source.lengths
    else:
        lengths = map(len, prefixes) if memory is None else memory.layout.lengths
    return [2 * length + 10 for length in lengths]


def decode(model, source, symbols, config, **options):
    longest = max_lengths(source, **options)
    return engine.decode(model, source, symbols, config, max_lengths=longest, **options)


def stream(model, source, symbols, config, **options):
    longest = max_lengths(source, **options)
    return engine.stream(model, source, symbols, config, max_lengths=longest, **options)


@dataclass
class Thought:
    """What one row has read and said, as one vector, and in words for the tests."""

    hidden: Tensor  # (rows, dim)
    said: list[tuple[int, ...]]
    owner: list[int]  # the sentence of each row

    def reorder(self, rows):
        order = rows.tolist()
        self.hidden, self.said = self.hidden[rows], [self.said[row] for row in order]
        self.owner = [self.owner[row] for row in order]
        # The contract: equally many rows for each sentence, together, sentences in order.
        counts = Counter(self.owner)
        assert self.owner == [who for who in sorted(counts) for _ in range(counts[who])]
        assert len(set(counts.values())) == 1


class Recurrent:
    """h' = tanh(A h + E[token]), logits = W h: every token said before changes what comes next."""

    def __init__(self, vocab=11, dim=8, seed=0, end_bias=0.5):
        generator = torch.Generator().manual_seed(seed)
        self.vocab = vocab
        self.mix = torch.randn(dim, dim, generator=generator)
        self.embed = torch.randn(32, dim, generator=generator)
        self.out = torch.randn(dim, vocab, generator=generator)
        self.bias = torch.zeros(vocab)
        self.bias[END] = end_bias
        self.trail = []  # what each row had said, for each step

    def advance(self, hidden, ids):
        return torch.tanh(hidden @ self.mix + self.embed[ids])

    def encode(self, source, tap=None):
        if tap is not None:
            tap.calls.append("encode")
        hidden = torch.zeros(len(source.lengths), len(self.mix))
        for row, ids in enumerate(source.split()):
            for token in ids:
                hidden[row] = self.advance(hidden[row], torch.tensor(token))
        return SimpleNamespace(x=hidden, layout=SimpleNamespace(lengths=source.lengths))

    def start(self, memory, rows, length):
        self.capacity = length
        self.trail.clear()
        if memory is None:
            hidden, owner = torch.zeros(rows, len(self.mix)), list(range(rows))
        else:
            hidden = memory.x.repeat_interleave(rows, dim=0)
            owner = [i for i in range(len(memory.x)) for _ in range(rows)]
        return Thought(hidden, [()] * len(hidden), owner)

    def step(self, ids, state, tap=None):
        if tap is not None:
            tap.calls.append("step")
        assert ids.shape == (len(state.said),)
        state.hidden = self.advance(state.hidden, ids)
        state.said = [(*said, token) for said, token in zip(state.said, ids.tolist(), strict=True)]
        assert max(map(len, state.said)) <= self.capacity
        self.trail.append(list(state.said))
        return state.hidden @ self.out + self.bias

    def log_probs(self, source, ids):
        """(len(ids) + 1, vocab) By itself, for one sentence: the reference."""
        hidden = self.encode(Ragged.of([source])).x
        rows = []
        for token in (BEGIN, *ids):
            hidden = self.advance(hidden, torch.tensor([token]))
            rows.append((hidden @ self.out + self.bias)[0])
        return torch.stack(rows).log_softmax(dim=1)

    def logprob(self, source, hypothesis):
        said = [*hypothesis.ids, END] if hypothesis.finished else list(hypothesis.ids)
        table = self.log_probs(source, hypothesis.ids)
        return sum(float(table[position, token]) for position, token in enumerate(said))


class Uniform(Recurrent):
    def step(self, ids, state, tap=None):
        return torch.zeros_like(super().step(ids, state, tap))


@pytest.fixture
def model():
    return Recurrent()


SENTENCES = [[5, 6, 7], [8], [3, 9, 4, 10, 7, 7], [4, 4], [], [6, 3, 3, 8], [10, 9], [3]]
PREFIXES = [(), (4,), (9, 3, 5, 5), (), (7, 7), (3,), (), (8, END, 8)]

MODES = {
    "greedy": {},
    "greedy filtered": {"repetition_penalty": 1.5, "no_repeat_ngram": 2, "min_length": 4},
    "beam": {"beam": 4, "n_best": 4},
    "beam never": {"beam": 3, "n_best": 3, "stop": "never", "length_penalty": 0.4},
    "beam first": {"beam": 5, "n_best": 5, "stop": "first"},
    "beam filtered": {"beam": 4, "n_best": 4, "repetition_penalty": 1.5, "no_repeat_ngram": 2},
    "wide beam": {"beam": 30, "n_best": 30, "max_length": 4},
    "sample": {"sample": True, "n_best": 3, "seed": 5},
    "sample filtered": {"sample": True, "n_best": 2, "temperature": 1.3, "top_k": 6, "top_p": 0.9},
}


@pytest.fixture(params=MODES)
def config(request):
    return DecodeConfig(**MODES[request.param])


def assert_alike(ours, expected):
    assert [(hypothesis.ids, hypothesis.finished) for hypothesis in ours] == [
        (hypothesis.ids, hypothesis.finished) for hypothesis in expected
    ]
    for name in ("logprob", "score"):
        assert [getattr(hypothesis, name) for hypothesis in ours] == pytest.approx(
            [getattr(hypothesis, name) for hypothesis in expected], abs=1e-4
        )


@pytest.mark.parametrize("prefixes", [None, PREFIXES], ids=["free", "prefixes"])
def test_a_batch_gives_what_each_sentence_gives_alone(model, config, prefixes):
    together = decode(model, Ragged.of(SENTENCES), SYMBOLS, config, prefixes=prefixes)
    assert len(together) == len(SENTENCES)
    for row, sentence in enumerate(SENTENCES):
        opening = None if prefixes is None else [prefixes[row]]
        alone = decode(model, Ragged.of([sentence]), SYMBOLS, config, prefixes=opening)
        assert_alike(together[row], alone[0])


def test_the_order_of_a_batch_does_not_matter(model, config):
    forward = decode(model, Ragged.of(SENTENCES), SYMBOLS, config)
    backward = decode(model, Ragged.of(SENTENCES[::-1]), SYMBOLS, config)
    for hypotheses, same_hypotheses in zip(forward, backward[::-1], strict=True):
        assert_alike(hypotheses, same_hypotheses)


@pytest.mark.parametrize("prefixes", [None, PREFIXES], ids=["free", "prefixes"])
def test_logprob_is_the_sum_under_the_unfiltered_model(model, config, prefixes):
    results = decode(model, Ragged.of(SENTENCES), SYMBOLS, config, prefixes=prefixes)
    for sentence, hypotheses in zip(SENTENCES, results, strict=True):
        assert hypotheses
        for hypothesis in hypotheses:
            assert hypothesis.logprob == pytest.approx(
                model.logprob(sentence, hypothesis), abs=1e-4
            )


def test_hypotheses_are_the_best_first_and_all_different(model, config):
    for hypotheses in decode(model, Ragged.of(SENTENCES), SYMBOLS, config):
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)
        if not config.sample:
            assert len({(hypothesis.ids, hypothesis.finished) for hypothesis in hypotheses}) == len(
                hypotheses
            )


@pytest.mark.parametrize("prefixes", [None, PREFIXES], ids=["free", "prefixes"])
def test_rows_follow_the_ancestors(model, config, prefixes):
    results = decode(model, Ragged.of(SENTENCES), SYMBOLS, config, prefixes=prefixes)
    for hypothesis in itertools.chain(*results):
        assert len(hypothesis.rows) == len(hypothesis.ids) + hypothesis.finished
        for step, row in enumerate(hypothesis.rows):
            assert model.trail[step][row] == (BEGIN, *hypothesis.ids[:step])


def test_greedy_takes_the_likeliest_token_until_the_end(model):
    results = decode(model, Ragged.of(SENTENCES), SYMBOLS, DecodeConfig(max_length=9))
    for sentence, (hypothesis,) in zip(SENTENCES, results, strict=True):
        ids = []
        while len(ids) < 9:
            row = model.log_probs(sentence, ids)[-1]
            row[[BEGIN, PAD]] = -math.inf
            if (token := int(row.argmax())) == END:
                break
            ids.append(token)
        assert hypothesis.ids == tuple(ids)
        assert hypothesis.finished == (len(ids) < 9)
        assert hypothesis.score == pytest.approx(
            hypothesis.logprob / (len(ids) + hypothesis.finished)
        )
    assert {hypothesis.finished for (hypothesis,) in results} == {True, False}


@pytest.mark.parametrize("stop", ["first", "bound"])
@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0])
def test_a_beam_of_one_is_greedy(model, monkeypatch, stop, alpha):
    config = DecodeConfig(stop=stop, length_penalty=alpha, no_repeat_ngram=3)
    source = Ragged.of(SENTENCES)
    greedy = decode(model, source, SYMBOLS, config, prefixes=PREFIXES)
    monkeypatch.setattr(loop, "Sampling", BeamSearch)
    beam = decode(model, source, SYMBOLS, config, prefixes=PREFIXES)
    for hypotheses, same_hypotheses in zip(greedy, beam, strict=True):
        assert_alike(hypotheses, same_hypotheses)


@pytest.mark.parametrize("alpha", [-0.5, 0.0, 0.6, 1.0, 2.0])
def test_a_beam_as_wide_as_everything_is_exhaustive_search(alpha):
    model = Recurrent(vocab=4, end_bias=0.0, seed=3)
    symbols = Symbols(begin=BEGIN, end=END, pad=PAD)
    config = DecodeConfig(beam=4**4, n_best=100, max_length=4, stop="never", length_penalty=alpha)
    sentences = [[5, 6], [3]]
    for sentence, hypotheses in zip(
        sentences, decode(model, Ragged.of(sentences), symbols, config), strict=True
    ):
        everything = []
        words = [token for token in range(4) if token != END]
        for length in range(5):
            for ids in itertools.product(words, repeat=length):
                finished = length < 4
                hypothesis = SimpleNamespace(ids=ids, finished=finished)
                score = model.logprob(sentence, hypothesis) / (length + finished) ** alpha
                everything.append((score, ids))
        everything.sort(reverse=True)
        assert len(hypotheses) == 100
        assert [h.ids for h in hypotheses] == [ids for _, ids in everything[:100]]
        assert [h.score for h in hypotheses] == pytest.approx(
            [score for score, _ in everything[:100]], abs=1e-4
        )


def test_never_waits_for_a_better_end_also_where_long_is_bad():
    class Late(Recurrent):
        """Hardly ends at first, then surely."""

        def step(self, ids, state, tap=None):
            logits = super().step(ids, state, tap).fill_(-30)
            chance = 0.999 if len(self.trail) == 3 else 0.05
            logits[:, END], logits[:, 3] = math.log(chance), math.log(1 - chance)
            return logits

    config = DecodeConfig(beam=2, max_length=200, stop="never", length_penalty=-1.0)
    ((hypothesis,),) = decode(Late(vocab=4), Ragged.of([[5]]), SYMBOLS, config)
    assert hypothesis.ids == (3, 3)


def test_a_beam_wider_than_the_vocabulary_gives_all_there_is():
    model = Recurrent(vocab=4)
    config = DecodeConfig(beam=50, n_best=50, max_length=2)
    (hypotheses,) = decode(model, Ragged.of([[3]]), SYMBOLS, config)
    assert {(hypothesis.ids, hypothesis.finished) for hypothesis in hypotheses} == {
        ((), True),
        ((3,), True),
        ((3, 3), False),
    }


def test_equals_are_taken_in_order():
    model, source = Uniform(vocab=6), Ragged.of([[5], [6, 7]])
    config = DecodeConfig(beam=3, n_best=3, min_length=2, max_length=3)
    for hypotheses in decode(model, source, SYMBOLS, config):
        assert [hypothesis.ids for hypothesis in hypotheses] == [(3, 3), (3, 3, 3), (3, 3, 4)]
    for (hypotheses,) in decode(model, source, SYMBOLS, DecodeConfig(min_length=2, max_length=2)):
        assert hypotheses.ids == (3, 3)


@pytest.mark.parametrize("settings", [{}, {"beam": 3}, {"sample": True}])
def test_each_answer_has_the_room_that_the_caller_gives_it(settings):
    model, source, config = (
        Recurrent(end_bias=-100.0),
        Ragged.of(SENTENCES),
        DecodeConfig(**settings),
    )
    given = [3, 9, 1, 2, 30, 4, 7, 5]
    results = engine.decode(model, source, SYMBOLS, config, max_lengths=given)
    assert [len(hypotheses[0].ids) for hypotheses in results] == given
    short = config.model_copy(update={"max_length": 2})  # who asks for a length has it
    results = engine.decode(model, source, SYMBOLS, short, max_lengths=given)
    assert {len(hypotheses[0].ids) for hypotheses in results} == {2}


def test_answers_without_an_end_are_refused(model):
    source = Ragged.of([[5], [6]])
    with pytest.raises(InputError, match="no maximum length, expected max_length, or max_lengths"):
        engine.stream(model, source, SYMBOLS, DecodeConfig())
    with pytest.raises(
        InputError, match="max_lengths: got 1, expected one for each of 2 sentences"
    ):
        engine.stream(model, source, SYMBOLS, DecodeConfig(), max_lengths=[3])


def test_each_sentence_can_have_room_for_twice_its_source_and_ten_more():
    model = Recurrent(end_bias=-100.0)
    for config in (DecodeConfig(), DecodeConfig(beam=3)):
        results = decode(model, Ragged.of(SENTENCES), SYMBOLS, config)
        for sentence, hypotheses in zip(SENTENCES, results, strict=True):
            assert len(hypotheses[0].ids) == 2 * len(sentence) + 10
            assert not hypotheses[0].finished


def test_lengths_stay_within_their_bounds(model):
    for extra in ({}, {"beam": 4, "n_best": 4}, {"sample": True, "n_best": 4}):
        config = DecodeConfig(min_length=3, max_length=6, **extra)
        results = decode(model, Ragged.of(SENTENCES), SYMBOLS, config, prefixes=PREFIXES)
        for prefix, hypotheses in zip(PREFIXES, results, strict=True):
            for hypothesis in hypotheses:
                assert 3 <= len(hypothesis.ids) - len(prefix) <= 6 - hypothesis.finished


def test_nothing_grows_beyond_what_the_model_can_hold():
    model = Recurrent(end_bias=-100.0)
    results = decode(
        model, Ragged.of(SENTENCES), SYMBOLS, DecodeConfig(beam=2), prefixes=PREFIXES, limit=7
    )
    assert {len(hypothesis.ids) for hypotheses in results for hypothesis in hypotheses} == {7}
    assert model.capacity == 7


def test_banned_tokens_are_never_generated():
    model = Recurrent()
    model.bias[[BEGIN, PAD, 5]] = 9.0
    symbols = Symbols(BEGIN, END, PAD, banned=(BEGIN, PAD, 5))
    for extra in ({}, {"beam": 4, "n_best": 4}, {"sample": True, "n_best": 4}):
        for hypotheses in decode(model, Ragged.of(SENTENCES), symbols, DecodeConfig(**extra)):
            assert not {BEGIN, PAD, 5} & {
                token for hypothesis in hypotheses for token in hypothesis.ids
            }


def test_where_all_is_banned_a_hypothesis_ends(model):
    symbols = Symbols(BEGIN, END, PAD, banned=tuple(range(11)))
    for extra in ({}, {"beam": 4, "n_best": 4}, {"sample": True}):
        (hypotheses,) = decode(
            model, Ragged.of([[5]]), symbols, DecodeConfig(min_length=3, **extra)
        )
        assert [(hypothesis.ids, hypothesis.finished) for hypothesis in hypotheses] == [((), True)]


def test_where_all_is_forbidden_and_there_is_no_end_decoding_stops_at_the_longest(model):
    symbols = Symbols(BEGIN, -1, PAD)
    options = {"forbidden": lambda *_: True}
    for extra in ({}, {"sample": True}):
        config = DecodeConfig(max_length=3, **extra)
        (hypotheses,) = decode(model, Ragged.of([[5]]), symbols, config, **options)
        assert [len(hypothesis.ids) for hypothesis in hypotheses] == [3]
    config = DecodeConfig(max_length=3, beam=2)
    assert decode(model, Ragged.of([[5]]), symbols, config, **options) == [[]]


def test_forcing_what_greedy_says_anyway_changes_nothing(model):
    source, config = Ragged.of(SENTENCES), DecodeConfig(max_length=20)
    free = decode(model, source, SYMBOLS, config)
    prefixes = [hypothesis.ids[: 2 * i] for i, (hypothesis,) in enumerate(free)]
    forced = decode(model, source, SYMBOLS, config, prefixes=prefixes)
    for (ours,), (same,), prefix in zip(free, forced, prefixes, strict=True):
        if ours.finished:
            assert (same.ids, same.finished) == (ours.ids, True)
            assert same.logprob == pytest.approx(ours.logprob, abs=1e-4)
        else:  # room counts from the prefix
            assert len(same.ids) <= len(prefix) + 20


def test_hypotheses_begin_with_their_prefix_and_score_what_was_chosen(model, config):
    results = decode(model, Ragged.of(SENTENCES), SYMBOLS, config, prefixes=PREFIXES)
    for sentence, prefix, hypotheses in zip(SENTENCES, PREFIXES, results, strict=True):
        table = model.log_probs(sentence, prefix)
        given = sum(float(table[position, token]) for position, token in enumerate(prefix))
        for hypothesis in hypotheses:
            assert hypothesis.ids[: len(prefix)] == prefix
            count = len(hypothesis.ids) + hypothesis.finished - len(prefix)
            if config.beam == 1 or config.repetition_penalty == 1:
                assert hypothesis.score * count**config.length_penalty == pytest.approx(
                    hypothesis.logprob - given, abs=1e-4
                )


def test_without_an_encoder_prompts_are_continued(model, config):
    prompts = [(5, 6, 7), (), (3,)]
    results = decode(model, None, SYMBOLS, config, prefixes=prompts)
    for prompt, hypotheses in zip(prompts, results, strict=True):
        max_length = config.max_length or 2 * len(prompt) + 10
        for hypothesis in hypotheses:
            assert hypothesis.ids[: len(prompt)] == prompt
            assert len(hypothesis.ids) <= len(prompt) + max_length
            assert hypothesis.logprob == pytest.approx(model.logprob([], hypothesis), abs=1e-4)


def test_a_memory_is_not_encoded_again(model):
    source, config = Ragged.of(SENTENCES), DecodeConfig(beam=3)
    memory = model.encode(source)
    expected = decode(model, source, SYMBOLS, config)
    model.encode = None
    assert decode(model, source, SYMBOLS, config, memory=memory) == expected
    assert decode(model, None, SYMBOLS, config, memory=memory) == expected


def test_sentences_that_are_done_leave_the_batch(model):
    results = decode(model, Ragged.of(SENTENCES), SYMBOLS, DecodeConfig(beam=2))
    rows = [len(said) for said in model.trail]
    assert rows[:2] == [len(SENTENCES), 2 * len(SENTENCES)]  # they begin alike
    assert rows[1:] == sorted(rows[1:], reverse=True)
    assert rows[-1] < rows[0]
    assert len(rows) >= max(len(hypotheses[0].rows) for hypotheses in results)


def test_no_sentences_give_no_hypotheses(model):
    assert decode(model, Ragged.of([]), SYMBOLS, DecodeConfig()) == []
    assert list(stream(model, None, SYMBOLS, DecodeConfig(beam=2))) == []


# Sampling


def chances(model, sentence, config):
    """The distribution of the first token, by hand."""
    row = model.log_probs(sentence, [])[0] / config.temperature
    row[[BEGIN, PAD]] = -math.inf
    chance = row.softmax(dim=0)
    if config.top_k:
        chance[chance < chance.topk(config.top_k).values[-1]] = 0
    chance = chance / chance.sum()
    chance[chance < config.min_p * chance.max()] = 0
    return (chance / chance.sum()).tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{}, {"temperature": 2.0}, {"top_k": 4}, {"min_p": 0.2, "temperature": 1.5}]
)
def test_samples_come_as_often_as_they_are_likely(model, settings):
    count = 4000
    config = DecodeConfig(sample=True, n_best=count, max_length=1, seed=1, **settings)
    (hypotheses,) = decode(model, Ragged.of([[5, 6]]), SYMBOLS, config)
    counts = Counter(END if hypothesis.finished else hypothesis.ids[0] for hypothesis in hypotheses)
    expected = {
        token: count * chance
        for token, chance in enumerate(chances(model, [5, 6], config))
        if chance > 0
    }
    assert set(counts) <= set(expected)
    frequent = [token for token, number in expected.items() if number >= 5]
    distance = sum((counts[token] - expected[token]) ** 2 / expected[token] for token in frequent)
    assert distance < 30  # chi-square with at most 8 degrees of freedom: p < 0.001 is above 26
    assert max(expected.values()) < 0.95 * count, "else the test says little"


@pytest.mark.parametrize(("bits", "token"), [(0, 4), (2**32 - 1, 8)], ids=["least", "most"])
def test_the_outermost_random_numbers_give_tokens_that_are_allowed(model, monkeypatch, bits, token):
    die = SimpleNamespace(getrandbits=lambda _: bits)
    monkeypatch.setattr(search, "generator", lambda *_: die)
    symbols = Symbols(BEGIN, END, PAD, banned=(BEGIN, END, PAD, 3, 9, 10))
    for temperature in (0.5, 1.0, 3.0):
        config = DecodeConfig(sample=True, max_length=1, temperature=temperature)
        ((hypothesis,),) = decode(model, Ragged.of([[5, 6]]), symbols, config)
        assert hypothesis.ids == (token,)


def test_samples_depend_on_seed_key_and_sample_alone(model):
    source = Ragged.of([[5, 6], [5, 6]])

    def sample(seed, keys=None):
        config = DecodeConfig(sample=True, n_best=6, seed=seed, temperature=2.0)
        results = decode(model, source, SYMBOLS, config, keys=keys)
        return [[hypothesis.ids for hypothesis in hypotheses] for hypotheses in results]

    first, second = sample(0)
    assert first == second == sample(0)[0]
    assert len(set(first)) > 1
    assert sample(1)[0] != first
    with_key_1, with_key_2 = sample(0, keys=[1, 2])
    assert with_key_1 != with_key_2
    assert sample(0, keys=[2, 1]) == [with_key_2, with_key_1]


# Streaming


def test_the_stream_grows_by_a_token_and_ends_with_what_decode_gives(model, config):
    source = Ragged.of(SENTENCES)
    results, grown = {}, Counter()
    for index, step in enumerate(stream(model, source, SYMBOLS, config)):
        assert step.index == index
        assert all(len(partial.ids) == index + 1 for partial in step.partials)
        for partial in step.partials:
            assert partial.sentence not in results
            grown[partial.sentence] += 1
            said = SimpleNamespace(ids=partial.ids, finished=False)
            expected = model.logprob(SENTENCES[partial.sentence], said)
            assert partial.logprob == pytest.approx(expected, abs=1e-4)
        results.update(step.done)
    assert len(grown) > 4
    expected = decode(model, source, SYMBOLS, config)
    assert [results[number] for number in range(len(SENTENCES))] == expected


def test_what_is_settled_is_how_the_best_hypothesis_begins(model, config):
    source = Ragged.of(SENTENCES)
    best = [hypotheses[0].ids for hypotheses in decode(model, source, SYMBOLS, config)]
    longest, going = [0] * len(best), set(range(len(best)))
    for step in stream(model, source, SYMBOLS, config):
        going -= {number for number, _ in step.done}
        assert len(step.stable_prefixes) == len(going)
        for number, ids in zip(sorted(going), step.stable_prefixes, strict=True):
            assert ids == best[number][: len(ids)]
            assert len(ids) >= longest[number]
            longest[number] = len(ids)
    assert max(longest) > 2 or config.beam > 8  # so many beams rarely agree


def test_streaming_leaves_gradients_on_outside_the_model(model):
    steps = stream(model, Ragged.of([[5, 6]]), SYMBOLS, DecodeConfig())
    next(steps)
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()


def test_a_tap_is_told_of_every_step(model):
    class Listener:
        def __init__(self):
            self.calls = []

        def next_step(self):
            self.calls.append("next")

    tap = Listener()
    plain = decode(model, Ragged.of(SENTENCES), SYMBOLS, DecodeConfig(beam=2))
    assert decode(model, Ragged.of(SENTENCES), SYMBOLS, DecodeConfig(beam=2), tap=tap) == plain
    assert tap.calls == ["encode", *["step", "next"] * len(model.trail)]


# What is refused


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_best": 2}, "beam"),
        ({"n_best": 5, "beam": 4}, "at most the beam, which is 4"),
        ({"sample": True, "beam": 4}, "sample with a beam"),
        ({"min_length": 5, "max_length": 4}, "min_length: got 5"),
        ({"temperature": 0.5}, "temperature: got 0.5 without sampling"),
        ({"top_k": 5, "beam": 2}, "top_k"),
    ],
)
def test_contradictions_are_refused_at_once(model, settings, words):
    with pytest.raises(InputError, match=words) as raised:
        stream(model, Ragged.of([[5]]), SYMBOLS, DecodeConfig(**settings))
    assert len(str(raised.value).splitlines()) <= 2


def test_prefixes_that_do_not_fit_are_refused(model):
    source = Ragged.of([[5], [6]])
    with pytest.raises(InputError, match="one for each of 2 sentences"):
        decode(model, source, SYMBOLS, DecodeConfig(), prefixes=[[3]])
    with pytest.raises(InputError, match="one for each of 2 sentences"):
        decode(model, source, SYMBOLS, DecodeConfig(), keys=[1])
    with pytest.raises(InputError, match="prefix: got 3 tokens, expected fewer than 3"):
        decode(model, source, SYMBOLS, DecodeConfig(), prefixes=[[3], [3] * 3], limit=3)
    with pytest.raises(InputError, match="prefix of sentence 1: got token 11, expected 0 to 10"):
        decode(model, source, SYMBOLS, DecodeConfig(), prefixes=[[3], [3, 11]])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("settings", [{}, {"beam": 3}, {"sample": True}])
def test_numbers_that_are_not_finite_are_reported(model, bad, settings):
    model.bias[7] = bad
    with pytest.raises(FoundProblems, match="not finite"):
        decode(model, Ragged.of([[5], [6]]), SYMBOLS, DecodeConfig(**settings))


# Other input than ids


class Frames(Recurrent):
    """Reads numbers: the hidden vector begins at a product of each frame, added up."""

    def encode(self, source, tap=None):
        del tap
        match source:
            case Paired():
                x = self.encode(source.first).x + self.encode(source.second).x
            case Dense():
                x = torch.tanh(source.values.flatten(1) @ self.mix)
            case Ragged():
                parts = torch.split(source.values, list(source.lengths))
                x = torch.stack([torch.tanh(part @ self.mix).sum(0) for part in parts])
        return SimpleNamespace(x=x, layout=SimpleNamespace(lengths=(1,) * len(source)))


PICTURES = torch.randn(5, 2, 4, generator=torch.Generator().manual_seed(1))
INPUTS = {
    "pictures": Dense(PICTURES),
    "frames": Ragged(PICTURES.view(5, 8), (2, 1, 0, 2)),
    "two views": Paired(Dense(PICTURES), Dense(PICTURES.flip(0))),
}


@pytest.mark.parametrize("kind", INPUTS)
def test_input_of_any_kind_is_decoded_as_each_of_it_alone(kind, config):
    model, source = Frames(), INPUTS[kind]
    together = engine.decode(model, source, SYMBOLS, config, max_lengths=[9] * len(source))
    assert len(together) == len(source)
    assert len({hypotheses[0].ids for hypotheses in together}) > 1
    for row, hypotheses in enumerate(together):
        [alone] = engine.decode(model, source.take([row]), SYMBOLS, config, max_lengths=[9])
        assert_alike(hypotheses, alone)


def test_equal_pictures_get_equal_samples_and_others_do_not():
    config = DecodeConfig(sample=True, max_length=12)
    source = Dense(PICTURES[[0, 1, 0]])
    [first], [other], [again] = engine.decode(FramesUniform(vocab=30), source, SYMBOLS, config)
    assert first.ids == again.ids != other.ids


class FramesUniform(Frames, Uniform):
    """Says anything, whatever it sees: samples differ by their random numbers alone."""


# A real model: its cache, and a tap along a beam's ancestors


@pytest.fixture(scope="module")
def transformer():
    torch.manual_seed(0)
    config = TransformerConfig(dim=16, heads=2, hidden=16)
    model = EncoderDecoder(config, source_vocab=11, target_vocab=11).eval()
    with torch.no_grad():
        model.target_embed.weight.normal_()  # tied: sharp enough that beams differ
    return model


@pytest.mark.slow
@pytest.mark.parametrize("prefixes", [None, PREFIXES], ids=["free", "prefixes"])
def test_a_transformer_decodes_as_it_reads_whole_sentences(transformer, config, prefixes):
    sentences = [ids or [3] for ids in SENTENCES]
    together = decode(transformer, Ragged.of(sentences), SYMBOLS, config, prefixes=prefixes)
    for row, (sentence, hypotheses) in enumerate(zip(sentences, together, strict=True)):
        opening = None if prefixes is None else [prefixes[row]]
        alone = decode(transformer, Ragged.of([sentence]), SYMBOLS, config, prefixes=opening)
        assert_alike(hypotheses, alone[0])
        for hypothesis in hypotheses[:3]:
            read = Ragged.of([(BEGIN, *hypothesis.ids)])
            with torch.no_grad():
                table = transformer(Ragged.of([sentence]), read).log_softmax(dim=1)
            said = torch.tensor([*hypothesis.ids, END][: len(hypothesis.rows)])
            whole = float(table[: len(said)].gather(1, said[:, None]).sum())
            assert hypothesis.logprob == pytest.approx(whole, abs=1e-4)


def test_a_tap_followed_along_the_rows_shows_the_attention_of_the_hypothesis(transformer):
    site, sentences = "decoder.1.self.weights", [[5, 6, 7], [8], [3, 9, 4, 10]]
    tap = Tap(site)
    config = DecodeConfig(beam=4, n_best=4, max_length=7)
    for sentence, hypotheses in zip(
        sentences, decode(transformer, Ragged.of(sentences), SYMBOLS, config, tap=tap), strict=True
    ):
        for hypothesis in hypotheses:
            whole = Tap(site)
            fed = (BEGIN, *hypothesis.ids)[: len(hypothesis.rows)]
            with torch.no_grad():
                transformer(Ragged.of([sentence]), Ragged.of([fed]), tap=whole)
            followed = tap.follow(hypothesis.rows)[site]  # (heads, query, key)
            torch.testing.assert_close(followed, whole.records[site][0], atol=1e-5, rtol=0)
