"""The catalogue's figures of tokens, sequences, Transformers and what they learn."""

from __future__ import annotations

from dataclasses import replace

from regard_lectures.figure import SEED, TRIES, Figure, Option

SCHEMES = ("sinusoidal", "rotary", "learned", "buckets")

SEQUENCES = {
    "onehot": Figure(
        title="One-hot × matrix = row: what an embedding layer computes",
        lectures=("1.2",),
        module="words",
        text="a sentence; the first 12 words are shown",
        takes="--text: a sentence; model=: word vectors of your own, a run or a file",
        options={
            "word": Option(1, "the number of the word to look up, from 1", high=12),
            "model": Option("words/glove", "a run of own/vectors, or a file of vectors"),
        },
    ),
    "inputs": Figure(
        title="Numbers, categories, words and an image as vectors",
        lectures=("1.2",),
        text="rows of numbers ('23 1200; 34 2000'), categories, one word, or an image's path",
        takes="--text: a table of numbers, categories, a word, or an image",
    ),
    "patches": Figure(
        title="Patches as tokens: an image, chopped and projected",
        lectures=("1.6", "7.4"),
        text="the path of an image",
        takes="--text: an image; model=: a model of images, such as small/digits",
        options={
            "patch": Option(16, "side of a patch in pixels", high=32),
            "dim": Option(24, "width of a token", high=128),
            "model": Option("", "a model of images, whose reader and matrix are used"),
            "seed": SEED,
        },
    ),
    "anything": Figure(
        title="You can tokenize anything: chop it, project each chunk",
        lectures=("1.6",),
        text="the path of an image, a sound (.wav), a table (.csv) or a text; or a text itself",
        takes="--text: an image, a sound, a table or a text",
        options={"dim": Option(24, "width of a token", high=128), "seed": SEED},
    ),
    "entries": Figure(
        title="Attention on pixels and on patches: entries and memory",
        lectures=("7.3", "7.4"),
        takes="image=, layers=, heads=: a size of your own; none else: it is arithmetic",
        options={
            "image": Option(224, "side of the image in pixels", low=16, high=4096),
            "layers": Option(48, "layers", high=1000),
            "heads": Option(16, "heads of a layer", high=1000),
        },
    ),
    "similarity": Figure(
        title="How alike are the learned positions of an image's patches?",
        lectures=("4.7", "4.10", "7.4"),
        takes="model=: a ViT with learned positions; none else: they are the same for all images",
        options={
            "model": Option("", "a ViT with learned positions; by default one is trained"),
            "steps": Option(300, "training steps", high=100_000),
        },
        measured=True,
    ),
    "analogies": Figure(
        title="Words as vectors: neighbours, analogies and directions",
        lectures=("1.3",),
        module="words",
        text="words, or sums such as 'paris - france + germany = berlin', with commas between",
        takes="--text: words, or sums of words; model=: word vectors of your own, a run or a file",
        options={"model": Option("words/glove", "a run of own/vectors, or a file of vectors")},
    ),
    "orthogonal": Figure(
        title="How many nearly orthogonal directions fit in N dimensions?",
        lectures=("1.4",),
        takes="degrees=: a range of angles of your own; none else: the directions are random",
        options={
            "degrees": Option(1.0, "the largest difference of an angle from 90°", low=0.5, high=40),
            "steps": Option(150, "steps of gradient descent", high=5000),
        },
        measured=True,
    ),
    "embedding": Figure(
        title="Embeddings × √d_model: words beside positions",
        lectures=("1.5",),
        text="a sentence to translate",
        takes="--text: a sentence; model=: a translator with positions that are added",
        options={"model": Option("small/translate", "a translator with the factor √d_model")},
    ),
    "softmax": Figure(
        title="What the softmax makes of numbers",
        lectures=("3.1",),
        text="numbers, such as '1 2 3'",
        takes="--text: 1 to 12 numbers",
    ),
    "scaling": Figure(
        title="Why scores are divided by √d_k",
        lectures=("3.1c",),
        module="softmax",
        takes="keys=, seed=: the number of keys and another draw; none else: all is random",
        options={"keys": Option(64, "number of keys", low=2, high=4096), "seed": SEED},
    ),
    "bilinear": Figure(
        title="A learned similarity beside the dot product",
        lectures=("3.1b",),
        text="words or a sentence, such as 'blue sky old king'",
        takes="--text: words or a sentence, whose dot products and learned scores are shown",
        options={
            "steps": Option(100, "training steps", high=5000),
            "tries": TRIES,
            "seed": SEED,
        },
    ),
    "mask": Figure(
        title="A mask: scores before and weights after the softmax",
        lectures=("3.1", "3.5"),
        text="a sentence, instead of the lecture's example",
        takes="--text: a sentence; rule=, rows=",
        options={
            "rule": Option(
                "causal",
                "which keys a query may attend to",
                choices=("causal", "window", "padding", "none"),
            ),
            "rows": Option(
                "queries", "what the rows are; keys: as D2 draws it", choices=("queries", "keys")
            ),
            "size": Option(6, "number of tokens", low=2, high=12),
            "seed": SEED,
        },
    ),
    "steps": Figure(
        title="Attention step by step: x, q, k, v, q·k, softmax, × v, Σ, heads, × W_O",
        lectures=("3.1d",),
        text="a text that the model can read",
        takes="--text: a text; model=: any model that reads text; target=: a translation",
        options={
            "model": Option("", "a model's folder or name; by default one that is shipped"),
            "word": Option("", "the query word; by default the last word"),
            "part": Option("", "encoder, decoder, cross, or a layer's name: decoder.1.cross"),
            "layer": Option(0, "which layer of that part", low=0),
            "head": Option(0, "which of its heads", low=0),
            "target": Option("", "a translation to use instead of the translator's own"),
            "step": Option("", "a single step, by its name such as weights, or by its number"),
            "matrices": Option(
                "auto",
                "whether the numbers include the matrices W; auto: if they are small",
                choices=("auto", "all", "none"),
            ),
        },
        endings=(".html", ".png", ".svg", ".pdf", ".json"),
        usual=".html",
    ),
    "scores": Figure(
        title="The scores of a head before the softmax, and its weights after it",
        lectures=("9.1",),
        text="a text that the model can read",
        takes="--text: a text; model=, part=, layer=, head=: any head of a model of your own",
        options={
            "model": Option("", "a model's folder or name; by default one that is shipped"),
            "part": Option("", "encoder, decoder, cross, or a layer's name: decoder.1.cross"),
            "layer": Option(0, "which layer of that part", low=0),
            "head": Option(0, "which of its heads", low=0),
            "target": Option("", "a translation to use instead of the translator's own"),
        },
    ),
    "lookup": Figure(
        title="Is attention a search for the nearest key?",
        lectures=("3.1e", "9.4"),
        text="a sentence to translate",
        takes="--text: a sentence; model=: a translator; data=: a file of pairs",
        options={
            "model": Option("small/translate", "a translator"),
            "head": Option("", "the head to show, such as decoder.1.cross.3"),
            "data": Option("", "a file of pairs to translate; by default held-out sentences"),
            "pairs": Option(100, "number of pairs to translate", low=2, high=1000),
        },
    ),
    "costs": Figure(
        title="What scores and heads cost: additive and dot product, one head and several",
        lectures=("3.2", "3.4"),
        takes="length=, dim=, heads=: your sizes, on your machine; none else: random numbers",
        options={
            "length": Option(256, "the longest sequence", low=64, high=2048),
            "dim": Option(64, "width of a head", low=4, high=256),
            "heads": Option(8, "the most heads, a power of 2", low=2, high=32),
            "rounds": Option(9, "rounds to take the median of", high=1000),
            "seed": SEED,
        },
    ),
    "hard": Figure(
        title="Soft and hard attention, by content and by location",
        lectures=("2.8",),
        text="a sentence for a trained translator, or digits such as '3 1 4 1 5' to train on",
        takes="--text: a sentence, or digits to reverse; model=: a translator",
        options={
            "model": Option("", "a translator for a sentence; by default tiny/recurrent"),
            "steps": Option(300, "training steps of each kind", high=10_000),
            "tries": TRIES,
        },
        measured=True,
    ),
    "gates": Figure(
        title="A gate, unrolled: which weights the past has in a state",
        lectures=("2.4",),
        module="recurrence",
        text="a sentence whose word vectors a GRU reads",
        takes="--text: a sentence",
        options={"seed": SEED},
    ),
    "road": Figure(
        title="From a gate to multi-head attention in four steps",
        lectures=("2.4",),
        text="pairs of letters and digits, and two letters, such as 'b7 a3 d1 ab'",
        takes="--text: pairs and a question; heads=, steps=: a training of your own",
        options={
            "heads": Option(2, "number of heads of the last step", high=8),
            "steps": Option(600, "training steps", high=10_000),
            "tries": TRIES,
        },
        measured=True,
    ),
    "cells": Figure(
        title="How many parameters do a GRU and an LSTM have?",
        lectures=("2.2", "2.3"),
        takes="dim=: a width of your own; none else: parameters do not depend on a text",
        options={"dim": Option(256, "width of input and state", high=4096)},
    ),
    "fields": Figure(
        title="How far back a token sees after n layers",
        lectures=("2.9", "7.10"),
        takes="length=, layers=, kernel=, reach=: your sizes; none else: the texts are random",
        options={
            "length": Option(64, "tokens of a text", low=4, high=256),
            "layers": Option(6, "the largest number of layers", high=12),
            "kernel": Option(3, "tokens that a convolution sees", low=2, high=15),
            "reach": Option(4, "tokens before it that restricted attention sees", high=64),
            "dim": Option(16, "width of a token", low=2, high=128),
            "tries": replace(TRIES, meaning="sets of new weights: seed, seed + 1, and so on"),
            "seed": SEED,
        },
    ),
    "crossover": Figure(
        title="Where n passes d: from when on attention costs more than recurrence",
        lectures=("2.9",),
        takes="dim=: a width of your own, on your machine; none else: random numbers",
        options={
            "dim": Option(128, "the largest width", low=16, high=1024),
            "rounds": Option(3, "rounds to take the median of", high=1000),
            "seed": SEED,
        },
    ),
    "vanishing": Figure(
        title="Gradients through time: recurrent cells and attention",
        lectures=("2.4b",),
        text="a text whose word vectors are read, in place of random tokens",
        takes="--text: a text; length=, dim=: random texts of another size",
        options={
            "length": Option(60, "tokens of a random text", low=4, high=500),
            "dim": Option(64, "width of input and state for random texts", low=4, high=512),
            "tries": Option(3, "draws of the weights", high=10),
            "seed": SEED,
        },
    ),
    "recall": Figure(
        title="What a recurrent cell and attention still remember after n tokens",
        lectures=("2.4b",),
        takes="steps=, seed=: a training of your own; none else: the texts are random symbols",
        options={"steps": Option(200, "training steps", high=10_000), "tries": TRIES},
        measured=True,
    ),
    "depth": Figure(
        title="How many layers of each kind can be trained",
        lectures=("2.4b",),
        takes="steps=, rate=: a training of your own; none else: the texts are random symbols",
        options={
            "steps": Option(200, "training steps", high=5000),
            "rate": Option(0.003, "learning rate", low=1e-6, high=1.0),
            "tries": TRIES,
        },
        measured=True,
    ),
    "growth": Figure(
        title="Recurrence, convolution and attention as a text becomes longer",
        lectures=("2.9",),
        takes="length=, dim=, kernel=, reach=: your sizes and machine; else none: random numbers",
        options={
            "length": Option(8192, "the longest text", low=64, high=16384),
            "dim": Option(64, "width of a token", low=4, high=512),
            "kernel": Option(3, "tokens that the convolution sees", low=2, high=31),
            "reach": Option(32, "tokens of a block of restricted attention", low=4, high=32),
            "rounds": Option(5, "rounds to take the median of", high=1000),
            "seed": SEED,
        },
    ),
    "heads": Figure(
        title="One wide head or several narrow ones",
        lectures=("3.4",),
        takes="heads=, steps=, seed=: a training of your own; none else: the tokens are random",
        options={
            "heads": Option(4, "number of heads that are compared with one", low=2, high=16),
            "steps": Option(800, "training steps", high=5000),
            "tries": TRIES,
        },
        measured=True,
    ),
    "question": Figure(
        title="Is there a head that asks “Any adjectives in front of me?”",
        lectures=("3.4",),
        text="a sentence with an adjective, to show the head's weights on",
        takes="--text: any sentence; model=: a translator from English to German",
        options={
            "model": Option("", "a translator to German, instead of training"),
            "pairs": Option(300, "examples to measure", low=2, high=5000),
            "steps": Option(1500, "training steps", high=10_000),
            "tries": TRIES,
        },
        measured=True,
    ),
    "waves": Figure(
        title="Sinusoidal positions as waves, and counting in binary",
        lectures=("4.1", "4.3"),
        module="positions",
        text="a sentence, such as 'I am a robot', whose positions are drawn",
        takes="--text: a sentence; length=, dim=: a size of your own",
        options={
            "length": Option(64, "number of positions", low=8, high=512),
            "dim": Option(64, "width of a position's vector", low=4, high=1024),
        },
    ),
    "wavelengths": Figure(
        title="Wavelengths of sinusoidal positions",
        lectures=("4.2",),
        module="positions",
        takes="dim=: a width of your own; none else: they depend on no text",
        options={"dim": Option(64, "width of a position's vector", low=8, high=1024)},
    ),
    "shift": Figure(
        title="A shift of positions as a matrix: PE(i+k) = M PE(i)",
        lectures=("4.4", "4.5"),
        module="positions",
        takes="by=, dim=: a shift and a width of your own; none else: they depend on no text",
        options={
            "by": Option(3, "by how many positions to shift", high=32),
            "dim": Option(16, "width of a position's vector", low=4, high=256),
        },
    ),
    "order": Figure(
        title="Reordered words: what changes without positions and with them",
        lectures=("3.6", "4.6"),
        text="a sentence to reorder",
        takes="--text: a sentence",
        options={
            "positions": Option(
                "sinusoidal", "the position scheme that is compared with none", choices=SCHEMES
            ),
            "seed": SEED,
        },
    ),
    "pair": Figure(
        title="The same words in another place: the same scores, or not",
        lectures=("4.12",),
        text="a sentence, or two that share words, with a slash between them",
        takes="--text: a sentence, or two with a slash between them; model=: an encoder",
        options={
            "model": Option("", "a trained encoder, in place of new absolute ones"),
            "head": Option(0, "whose scores to draw", low=0),
            "seed": SEED,
        },
    ),
    "long": Figure(
        title="Train short, test long: which positions hold?",
        lectures=("4.13",),
        module="lengths",
        takes="steps=: a training of your own; none else: the texts are random patterns",
        options={
            "steps": Option(1000, "training steps of each scheme", high=100_000),
            "tries": TRIES,
        },
        measured=True,
    ),
    "norms": Figure(
        title="Post-norm and pre-norm, with and without warm-up",
        lectures=("5.2",),
        module="training",
        takes="layers=, steps=, rate=: a training of your own; else none: the texts are random",
        options={
            "layers": Option(8, "number of blocks", high=24),
            "steps": Option(200, "training steps", high=5000),
            "rate": Option(0.01, "learning rate", low=1e-6, high=1.0),
            "tries": TRIES,
        },
        measured=True,
    ),
    "residuals": Figure(
        title="Why residual connections and norms?",
        lectures=("5.1b",),
        takes="layers=, steps=, rate=: a training of your own; else none: the texts are random",
        options={
            "layers": Option(8, "number of blocks", high=24),
            "steps": Option(200, "training steps", high=5000),
            "rate": Option(0.003, "learning rate", low=1e-6, high=1.0),
            "tries": TRIES,
        },
        measured=True,
    ),
    "batchnorm": Figure(
        title="Layer norm and batch norm: which numbers each averages over",
        lectures=("5.1",),
        text="sentences with slashes between them: the first one, and its neighbours in the batch",
        takes="--text: sentence / sentence / sentence",
    ),
    "feedforward": Figure(
        title="The feed-forward: which hidden units a word makes active, and what it is for",
        lectures=("5.3",),
        text="a text that the model can read",
        takes="--text: a text; model=: a Transformer of texts; part=, layer=: any of its layers",
        options={
            "model": Option("small/translate", "a model's folder or name"),
            "part": Option("encoder", "which stack", choices=("encoder", "decoder")),
            "layer": Option(0, "which layer, from 0", low=0),
        },
    ),
    "architecture": Figure(
        title="A model as a diagram: layers, sub-layers and their parameters",
        lectures=("5.4",),
        takes="model=: a size, a recipe, a run, or a folder of any family",
        options={
            "model": Option("base", "what `regard plan` takes: base, gpt2, a recipe, a run"),
            "change": Option("", "settings to change, such as model.attention=none"),
        },
    ),
    "loss": Figure(
        title="The loss as a picture: the model's distribution beside its target",
        lectures=("5.5b",),
        text="a sentence = its translation, such as 'merci = thanks'",
        takes="--text: a sentence and its translation; model=: a translator",
        options={
            "word": Option(1, "which word of the translation, of model= which token", high=64),
            "model": Option("", "a translator, instead of training"),
            "steps": Option(200, "training steps", high=10_000),
            "smoothing": Option(0.1, "label smoothing", low=0, high=0.9),
            "tries": TRIES,
        },
        measured=True,
    ),
    "bleu": Figure(
        title="BLEU and training FLOPs: the published table, or your own pair",
        lectures=("5.7",),
        module="published",
        text="a candidate and its references, with slashes between them",
        takes="--text: a candidate / its reference",
    ),
    "families": Figure(
        title="Who may attend to whom in GPT, BERT and T5",
        lectures=("6.1", "6.2", "6.3"),
        text="a sentence",
        takes="--text: a sentence",
        options={"seed": SEED},
    ),
    "objectives": Figure(
        title="One text, three training objectives: next token, masked tokens, spans",
        lectures=("6.1", "6.2", "6.3"),
        text="a text",
        takes="--text: a text",
        options={
            "draws": Option(200, "number of draws for the measured shares", high=10_000),
            "seed": SEED,
        },
    ),
    "meanings": Figure(
        title="Do contextual embeddings separate the meanings of a word?",
        lectures=("6.4",),
        text="sentences with a word in one meaning, a slash, and sentences with the other",
        takes="--text: sentences / sentences with another meaning; model=: an encoder",
        options={
            "word": Option(
                "", "the word of two meanings; by default model, or your sentences' own"
            ),
            "model": Option("", "a BERT that reads English, instead of training"),
            "steps": Option(400, "training steps", high=10_000),
            "tries": TRIES,
        },
        measured=True,
    ),
    "finetuning": Figure(
        title="Fine-tuning: does pretraining save labels?",
        lectures=("6.5",),
        takes="data=: a table of your texts and labels; model=: a pretrained encoder",
        options={
            "steps": Option(
                400,
                "steps of pretraining; fine-tuning has a tenth, of a given model a twentieth",
                high=10_000,
            ),
            "tries": Option(3, "number of draws of labelled texts", high=50),
            "data": Option(
                "", "a table of texts with labels, as `regard train own/classify` reads"
            ),
            "model": Option("", "a pretrained encoder; by default one is trained, or small/fill"),
        },
        measured=True,
    ),
    "sizes": Figure(
        title="How large, how long, how much: the table of model sizes, computed",
        lectures=("6.7",),
        takes="model=: a size, a recipe, a run or a folder, as a row; price=, share=: your chips",
        options={
            "price": Option(1.0, "dollars for an hour of a chip", low=0.001, high=1000),
            "share": Option(0.3, "share of its peak that a chip reaches", low=0.01, high=1),
            "model": Option("", "a model to add, as `regard plan` takes it"),
            "part": Option("table", "what to draw", choices=("table", "growth")),
        },
    ),
    "animal": Figure(
        title="What does “it” look at, and do pronouns need that head?",
        lectures=("5.8",),
        text="a sentence with “it”",
        takes="--text: a sentence with “it”; model=: a translator to German",
        options={
            "model": Option("tiny/pronoun", "a translator from English to German"),
            "part": Option("encoder", "encoder or decoder", choices=("encoder", "decoder")),
            "seed": SEED,
        },
    ),
    "gallery": Figure(
        title="The lectures' sentences, each with a model and what it shows",
        lectures=("5.8b",),
        text="a sentence of your own in place of the lectures'",
        takes="--text: a sentence; model=: a translator or a writer",
        options={
            "scene": Option(
                "",
                "one scene",
                choices=("", "dogs", "her", "gender", "walk", "once", "hello", "nurse"),
            ),
            "model": Option("", "a translator or a writer; by default those of the shelf"),
        },
        usual=".html",
    ),
    "layers": Figure(
        title="The words nearest to a word's vector, layer by layer",
        lectures=("5.8c",),
        module="contexts",
        text="a text with the word in it",
        takes="--text: a text; model=: a model that reads text; bank=: sentences to compare with",
        options={
            "word": Option("", "the word; by default the last"),
            "model": Option("", "a model that reads text; by default one that is shipped"),
            "bank": Option("", "a file of sentences, one on each line, in place of the shipped"),
        },
    ),
    "induction": Figure(
        title="Learning in context: with two attention layers, and with one",
        lectures=("6.6",),
        takes="steps=, dim=, heads=: a training of your own; none else: the texts are random",
        options={
            "steps": Option(1000, "training steps", high=100_000),
            "dim": Option(64, "width of the two models", low=8, high=512),
            "heads": Option(4, "heads of a layer", high=16),
            "tries": TRIES,
        },
        measured=True,
    ),
    "prompts": Figure(
        title="Do examples in the prompt, written steps and size help?",
        lectures=("6.6b",),
        takes="steps=, tries=: a training of your own; none else: rules and sums are random",
        options={
            "steps": Option(400, "training steps of each model", high=100_000),
            "tries": TRIES,
        },
        measured=True,
    ),
    "laws": Figure(
        title="Scaling laws: the loss by size, data and compute",
        lectures=("6.6",),
        takes="file=: a text file of your own, two megabytes for 1,500 steps",
        options={
            "steps": Option(1500, "training steps of each size", low=3, high=100_000),
            "file": Option("", "a text file to learn; by default Python's documentation"),
        },
        measured=True,
    ),
}
