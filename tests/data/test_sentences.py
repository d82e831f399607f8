"""The grammar's German is right: against a school grammar's tables, and pairs written by hand."""

# ruff: noqa: E501  a hand-written pair is a row of a table

from __future__ import annotations

import pytest

from regard.data.synthetic.grammar.german import adjective_ending, determiner, noun_form, verb_forms
from regard.data.synthetic.grammar.lexicon import (
    ADJECTIVES,
    ADVERBS,
    DATIVE,
    GIVING,
    INTRANSITIVE,
    NOUNS,
    SAYING,
    TRANSITIVE,
    WAIT_FOR,
)
from regard.data.synthetic.grammar.phenomena import analyse, is_settled
from regard.data.synthetic.grammar.phrases import (
    HE,
    IT,
    SHE,
    THEY,
    WE,
    WHO,
    I,
    Phrase,
    PrepositionalPhrase,
    RelativePronoun,
)
from regard.data.synthetic.grammar.sentences import (
    Clause,
    Joined,
    Linked,
    Question,
    Reported,
    Shared,
    pair,
)

NOUN = {noun.english: noun for noun in NOUNS}
ADJECTIVE = {word.english: word for word in ADJECTIVES}
VERB = {v.name: v for v in (*TRANSITIVE, *DATIVE, *GIVING, *INTRANSITIVE, *SAYING, WAIT_FOR)}
WOMAN = {noun.english: noun for noun in NOUNS if noun.gender == "f"}
TIME = {adverb.english: adverb for adverb in ADVERBS}


# The declensions, written out from a school grammar: nominative, accusative, dative.

DECLENSIONS = {
    ("the", "m"): "der alte Hund|den alten Hund|dem alten Hund",
    ("the", "f"): "die alte Kuh|die alte Kuh|der alten Kuh",
    ("the", "n"): "das alte Pferd|das alte Pferd|dem alten Pferd",
    ("the", "p"): "die alten Hunde|die alten Hunde|den alten Hunden",
    ("this", "m"): "dieser alte Hund|diesen alten Hund|diesem alten Hund",
    ("this", "f"): "diese alte Kuh|diese alte Kuh|dieser alten Kuh",
    ("this", "n"): "dieses alte Pferd|dieses alte Pferd|diesem alten Pferd",
    ("this", "p"): "diese alten Hunde|diese alten Hunde|diesen alten Hunden",
    ("a", "m"): "ein alter Hund|einen alten Hund|einem alten Hund",
    ("a", "f"): "eine alte Kuh|eine alte Kuh|einer alten Kuh",
    ("a", "n"): "ein altes Pferd|ein altes Pferd|einem alten Pferd",
    ("a", "p"): "alte Hunde|alte Hunde|alten Hunden",
    ("no", "m"): "kein alter Hund|keinen alten Hund|keinem alten Hund",
    ("no", "f"): "keine alte Kuh|keine alte Kuh|keiner alten Kuh",
    ("no", "n"): "kein altes Pferd|kein altes Pferd|keinem alten Pferd",
    ("no", "p"): "keine alten Hunde|keine alten Hunde|keinen alten Hunden",
    ("my", "m"): "mein alter Hund|meinen alten Hund|meinem alten Hund",
    ("my", "f"): "meine alte Kuh|meine alte Kuh|meiner alten Kuh",
    ("my", "n"): "mein altes Pferd|mein altes Pferd|meinem alten Pferd",
    ("my", "p"): "meine alten Hunde|meine alten Hunde|meinen alten Hunden",
    ("his", "m"): "sein alter Hund|seinen alten Hund|seinem alten Hund",
    ("her", "f"): "ihre alte Kuh|ihre alte Kuh|ihrer alten Kuh",
    ("our", "n"): "unser altes Pferd|unser altes Pferd|unserem alten Pferd",
    ("our", "p"): "unsere alten Hunde|unsere alten Hunde|unseren alten Hunden",
    ("two", "p"): "zwei alte Hunde|zwei alte Hunde|zwei alten Hunden",
    ("many", "p"): "viele alte Hunde|viele alte Hunde|vielen alten Hunden",
}
STRONG_SINGULAR = {"m": "er en em", "f": "e e er", "n": "es es em"}
PERSONAL = {
    "m": "er ihn ihm",
    "f": "sie sie ihr",
    "n": "es es ihm",
}


@pytest.mark.parametrize(("word", "gender"), DECLENSIONS)
def test_articles_and_adjectives_decline_as_the_tables_say(word, gender):
    noun = NOUN[{"m": "dog", "f": "cow", "n": "horse", "p": "dog"}[gender]]
    phrase = Phrase(noun, word, plural=gender == "p", adjective=ADJECTIVE["old"])
    forms = "|".join(phrase.german(case) for case in ("nom", "acc", "dat"))
    assert forms == DECLENSIONS[word, gender]


@pytest.mark.parametrize("gender", "mfn")
def test_without_article_the_adjective_has_the_strong_endings(gender):
    endings = [adjective_ending("", gender, case) for case in ("nom", "acc", "dat")]
    assert endings == STRONG_SINGULAR[gender].split()
    assert determiner("", gender, "nom") == ""


@pytest.mark.parametrize("gender", "mfn")
def test_it_has_three_genders(gender):
    forms = [IT[gender].german(case) for case in ("nom", "acc", "dat")]
    assert forms == PERSONAL[gender].split()


def test_dative_plural_has_n_but_after_n_and_s():
    plurals = {"dog": "Hunden", "mouse": "Mäusen", "cat": "Katzen", "car": "Autos"}
    plurals |= {"rabbit": "Kaninchen", "apple": "Äpfeln", "teacher": "Lehrern", "park": "Parks"}
    forms = {english: noun_form(NOUN[english], plural=True, case="dat") for english in plurals}
    assert forms == plurals


# ich, er, wir in the present; ich/er and wir in the past. All strong and mixed verbs.
CONJUGATIONS = """
leave: verlasse verlässt verlassen verließ verließen
enter: betrete betritt betreten betrat betraten
avoid: meide meidet meiden mied mieden
carry: trage trägt tragen trug trugen
pull: ziehe zieht ziehen zog zogen
push: schiebe schiebt schieben schob schoben
find: finde findet finden fand fanden
steal: stehle stiehlt stehlen stahl stahlen
drink: trinke trinkt trinken trank tranken
see: sehe sieht sehen sah sahen
eat: esse isst essen aß aßen
wash: wasche wäscht waschen wusch wuschen
look at: sehe sieht sehen sah sahen
throw away: werfe wirft werfen warf warfen
pick up: hebe hebt heben hob hoben
call: rufe ruft rufen rief riefen
invite: lade lädt laden lud luden
help: helfe hilft helfen half halfen
give: gebe gibt geben gab gaben
bring: bringe bringt bringen brachte brachten
sleep: schlafe schläft schlafen schlief schliefen
sing: singe singt singen sang sangen
run: renne rennt rennen rannte rannten
walk: gehe geht gehen ging gingen
swim: schwimme schwimmt schwimmen schwamm schwammen
fall asleep: schlafe schläft schlafen schlief schliefen
get up: stehe steht stehen stand standen
come back: komme kommt kommen kam kamen
run away: laufe läuft laufen lief liefen
stop: halte hält halten hielt hielten
know: weiß weiß wissen wusste wussten
cross: überquere überquert überqueren überquerte überquerten
open: mache macht machen machte machten
turn on: schalte schaltet schalten schaltete schalteten
wait: warte wartet warten wartete warteten
work: arbeite arbeitet arbeiten arbeitete arbeiteten
repair: repariere repariert reparieren reparierte reparierten
"""


@pytest.mark.parametrize("row", CONJUGATIONS.strip().splitlines())
def test_verbs_conjugate_as_the_tables_say(row):
    name, forms = row.split(": ")
    first, third, plural, past, past_plural = forms.split()
    assert verb_forms(VERB[name], "present") == (first, third, plural)
    assert verb_forms(VERB[name], "past") == (past, past, past_plural)


# Hand-written pairs. A structure says who does what; the grammar must say it in these words.


def the(noun, word="the", *, female=False, **more):
    adjective = more.pop("adjective", None)
    chosen = WOMAN[noun] if female else NOUN[noun]
    return Phrase(chosen, word, adjective=ADJECTIVE[adjective] if adjective else None, **more)


def several(noun, word="the", **more):
    return the(noun, word, plural=True, **more)


def does(subject, verb, thing=None, **more):
    if "time" in more:
        more["time"] = TIME[more["time"]]
    return Clause(subject, VERB[verb], thing, **more)


def is_(subject, adjective, degree="", **more):
    if "time" in more:
        more["time"] = TIME[more["time"]]
    return Clause(subject, predicate=ADJECTIVE[adjective], degree=degree, **more)


def at(preposition, phrase):
    return PrepositionalPhrase(preposition, phrase)


NOW = {"tense": "present"}
NOT = {"negated": True}
BALL = does(the("dog"), "find", the("ball"))

HAND_WRITTEN = [
    # gender and case of articles
    (does(the("dog"), "chase", the("cat")), "The dog chased the cat.", "Der Hund jagte die Katze."),
    (does(the("cat"), "chase", the("dog")), "The cat chased the dog.", "Die Katze jagte den Hund."),
    (does(the("horse"), "see", the("pig")), "The horse saw the pig.", "Das Pferd sah das Schwein."),
    (does(the("wolf", "a"), "see", the("apple", "a")), "A wolf saw an apple.", "Ein Wolf sah einen Apfel."),
    (does(the("goat", "this"), "hear", the("fox", "this")), "This goat heard this fox.", "Diese Ziege hörte diesen Fuchs."),
    (does(the("brother", "his"), "love", the("aunt", "our")), "His brother loved our aunt.", "Sein Bruder liebte unsere Tante."),
    (does(I, "need", the("key", "my"), **NOW), "I need my key.", "Ich brauche meinen Schlüssel."),
    (does(the("sister", "her"), "sell", the("car", "her")), "Her sister sold her car.", "Ihre Schwester verkaufte ihr Auto."),
    # dative: verbs, givers, prepositions
    (does(the("man"), "help", the("woman")), "The man helped the woman.", "Der Mann half der Frau."),
    (does(the("woman"), "thank", the("man"), **NOW), "The woman thanks the man.", "Die Frau dankt dem Mann."),
    (does(the("cat"), "follow", several("mouse")), "The cat followed the mice.", "Die Katze folgte den Mäusen."),
    (does(the("king"), "give", the("book", "a"), indirect=the("child")), "The king gave the child a book.", "Der König gab dem Kind ein Buch."),
    (does(WE, "show", the("garden", "our"), indirect=several("friend")), "We showed the friends our garden.", "Wir zeigten den Freunden unseren Garten."),
    (does(the("dog"), "sleep", location=at("in", the("garden"))), "The dog slept in the garden.", "Der Hund schlief im Garten."),
    (does(the("dog"), "sleep", location=at("in", the("kitchen"))), "The dog slept in the kitchen.", "Der Hund schlief in der Küche."),
    (does(the("dog"), "run", location=at("into", the("garden"))), "The dog ran into the garden.", "Der Hund rannte in den Garten."),
    (does(the("cat"), "run", location=at("into", the("house"))), "The cat ran into the house.", "Die Katze rannte ins Haus."),
    (does(SHE, "walk", location=at("to", the("school"))), "She walked to the school.", "Sie ging zur Schule."),
    (does(HE, "walk", location=at("to", the("doctor"))), "He walked to the doctor.", "Er ging zum Arzt."),
    (does(I, "wait", location=at("at", the("river", adjective="big"))), "I waited at the big river.", "Ich wartete am großen Fluss."),
    (does(the("girl"), "dance", location=at("with", the("uncle", "my"))), "The girl danced with my uncle.", "Das Mädchen tanzte mit meinem Onkel."),
    (does(THEY, "sing", location=at("without", the("king"))), "They sang without the king.", "Sie sangen ohne den König."),
    (does(the("bus"), "stop", location=at("in front of", several("house"))), "The bus stopped in front of the houses.", "Der Bus hielt vor den Häusern an."),
    # adjectives
    (does(the("dog", "a", adjective="old"), "sleep"), "An old dog slept.", "Ein alter Hund schlief."),
    (does(the("dog", adjective="old"), "sleep"), "The old dog slept.", "Der alte Hund schlief."),
    (does(the("horse", "a", adjective="white"), "sleep"), "A white horse slept.", "Ein weißes Pferd schlief."),
    (does(I, "see", the("wolf", "a", adjective="black")), "I saw a black wolf.", "Ich sah einen schwarzen Wolf."),
    (does(I, "help", the("duck", "a", adjective="sick")), "I helped a sick duck.", "Ich half einer kranken Ente."),
    (does(WE, "drink", the("milk", "a", adjective="good"), **NOW), "We drink good milk.", "Wir trinken gute Milch."),
    (does(WE, "eat", the("bread", "a", adjective="good")), "We ate good bread.", "Wir aßen gutes Brot."),
    (is_(the("daughter", "our", adjective="young"), "tired", "very"), "Our young daughter was very tired.", "Unsere junge Tochter war sehr müde."),
    (does(the("man", adjective="tired"), "wait", **NOW), "The tired man waits.", "Der müde Mann wartet."),
    # plurals
    (does(several("child", "this"), "laugh", **NOW), "These children laugh.", "Diese Kinder lachen."),
    (does(several("wolf", "two", adjective="big"), "come back"), "Two big wolves came back.", "Zwei große Wölfe kamen zurück."),
    (does(several("man", "many"), "buy", several("car", "a", adjective="new")), "Many men bought new cars.", "Viele Männer kauften neue Autos."),
    (does(several("woman"), "trust", several("dog", "two", adjective="old")), "The women trusted two old dogs.", "Die Frauen vertrauten zwei alten Hunden."),
    (does(the("bird"), "steal", several("knife", "my")), "The bird stole my knives.", "Der Vogel stahl meine Messer."),
    # verb second
    (does(the("dog"), "chase", the("cat"), time="yesterday", fronted=True), "Yesterday the dog chased the cat.", "Gestern jagte der Hund die Katze."),
    (does(the("dog"), "chase", the("cat"), time="yesterday"), "The dog chased the cat yesterday.", "Der Hund jagte gestern die Katze."),
    (does(I, "call", the("friend", "my"), time="every day", fronted=True, **NOW), "Every day I call my friend.", "Jeden Tag rufe ich meinen Freund an."),
    (is_(the("path"), "icy", time="this morning", fronted=True), "This morning the path was icy.", "Heute Morgen war der Weg vereist."),
    (does(WE, "open", the("window"), time="in the evening", fronted=True, **NOW), "In the evening we open the window.", "Am Abend machen wir das Fenster auf."),
    # verb final
    (Linked(does(the("girl"), "laugh"), "because", does(the("dog"), "chase", the("cat"))), "The girl laughed because the dog chased the cat.", "Das Mädchen lachte, weil der Hund die Katze jagte."),
    (Linked(does(I, "sing", **NOW), "when", does(I, "work", **NOW)), "I sing when I work.", "Ich singe, wenn ich arbeite."),
    (Linked(does(I, "sing"), "when", does(I, "work"), sub_first=True), "When I worked, I sang.", "Als ich arbeitete, sang ich."),
    (Linked(does(WE, "wait", **NOW), "if", is_(HE, "tired", **NOW), sub_first=True), "If he is tired, we wait.", "Wenn er müde ist, warten wir."),
    (Linked(does(SHE, "sleep"), "while", does(several("child"), "play")), "She slept while the children played.", "Sie schlief, während die Kinder spielten."),
    (Linked(does(HE, "eat", the("egg", "a")), "before", does(HE, "get up")), "He ate an egg before he got up.", "Er aß ein Ei, bevor er aufstand."),
    (Reported(does(the("woman"), "know", **NOW), is_(the("dog"), "sick", **NOW)), "The woman knows that the dog is sick.", "Die Frau weiß, dass der Hund krank ist."),
    (Reported(does(I, "think"), does(THEY, "come back", modal="want")), "I thought that they wanted to come back.", "Ich glaubte, dass sie zurückkommen wollten."),
    # separable verbs
    (does(the("man"), "open", the("door"), **NOW), "The man opens the door.", "Der Mann macht die Tür auf."),
    (Linked(is_(I, "tired", **NOW), "because", does(the("man"), "open", the("door"), **NOW)), "I am tired because the man opens the door.", "Ich bin müde, weil der Mann die Tür aufmacht."),
    (does(the("man"), "open", the("door"), modal="must"), "The man had to open the door.", "Der Mann musste die Tür aufmachen."),
    (does(SHE, "turn on", the("lamp")), "She turned on the lamp.", "Sie schaltete die Lampe ein."),
    (does(SHE, "turn on", IT["f"]), "She turned it on.", "Sie schaltete sie ein."),
    (does(SHE, "look at", IT["m"]), "She looked at it.", "Sie sah ihn an."),
    (does(the("rabbit"), "fall asleep", **NOW), "The rabbit falls asleep.", "Das Kaninchen schläft ein."),
    # negation
    (does(the("rabbit"), "sleep", **NOT), "The rabbit didn't sleep.", "Das Kaninchen schlief nicht."),
    (does(the("man"), "close", the("box"), **NOT), "The man didn't close the box.", "Der Mann machte die Kiste nicht zu."),
    (does(the("man"), "buy", the("dog", "a"), **NOT, **NOW), "The man doesn't buy a dog.", "Der Mann kauft keinen Hund."),
    (does(WE, "eat", several("egg", "a"), **NOT, **NOW), "We don't eat eggs.", "Wir essen keine Eier."),
    (does(I, "drink", the("coffee", "a"), **NOT, **NOW), "I don't drink coffee.", "Ich trinke keinen Kaffee."),
    (does(the("dog"), "sleep", location=at("in", the("house")), **NOT), "The dog didn't sleep in the house.", "Der Hund schlief nicht im Haus."),
    (is_(the("street"), "wide", **NOT, **NOW), "The street isn't wide.", "Die Straße ist nicht breit."),
    (does(the("fox"), "find", the("egg"), modal="can", **NOT), "The fox couldn't find the egg.", "Der Fuchs konnte das Ei nicht finden."),
    (does(the("king"), "help", the("queen"), modal="want", **NOT, **NOW), "The king doesn't want to help the queen.", "Der König will der Königin nicht helfen."),
    # pronouns
    (Linked(does(the("dog"), "cross", the("bridge"), **NOT), "because", is_(IT["m"], "tired", "too")), "The dog didn't cross the bridge because it was too tired.", "Der Hund überquerte die Brücke nicht, weil er zu müde war."),
    (Linked(does(the("dog"), "cross", the("bridge"), **NOT), "because", is_(IT["f"], "narrow", "too")), "The dog didn't cross the bridge because it was too narrow.", "Der Hund überquerte die Brücke nicht, weil sie zu schmal war."),
    (Linked(does(the("cow"), "enter", the("field")), "although", is_(IT["n"], "muddy"), sub_first=True), "Although it was muddy, the cow entered the field.", "Obwohl es schlammig war, betrat die Kuh das Feld."),
    (Shared(BALL, does(the("dog"), "hide", IT["m"], elided=True)), "The dog found the ball and hid it.", "Der Hund fand den Ball und versteckte ihn."),
    (Shared(does(the("man"), "buy", the("lamp")), does(the("man"), "throw away", IT["f"], elided=True)), "The man bought the lamp and threw it away.", "Der Mann kaufte die Lampe und warf sie weg."),
    (Linked(does(the("queen"), "sell", several("picture")), "because", is_(THEY, "heavy")), "The queen sold the pictures because they were heavy.", "Die Königin verkaufte die Bilder, weil sie schwer waren."),
    # nouns of two genders
    (Joined(is_(the("doctor", female=True), "tired"), "and", does(several("child"), "help", SHE)), "The doctor was tired, and the children helped her.", "Die Ärztin war müde und die Kinder halfen ihr."),
    (Joined(is_(the("doctor"), "tired"), "and", does(several("child"), "help", HE)), "The doctor was tired, and the children helped him.", "Der Arzt war müde und die Kinder halfen ihm."),
    (Joined(does(the("friend", "my", female=True), "fall asleep"), "but", does(the("dog"), "wait for", SHE, **NOT)), "My friend fell asleep, but the dog didn't wait for her.", "Meine Freundin schlief ein, aber der Hund wartete nicht auf sie."),
    (Linked(does(the("teacher", female=True), "run away"), "because", does(the("goat", "a"), "wait for", SHE)), "The teacher ran away because a goat waited for her.", "Die Lehrerin lief weg, weil eine Ziege auf sie wartete."),
    (Linked(does(WE, "wait for", HE, time="today"), "when", does(the("teacher"), "sing"), sub_first=True), "When the teacher sang, we waited for him today.", "Als der Lehrer sang, warteten wir heute auf ihn."),
    (Linked(does(WE, "thank", SHE), "when", does(the("doctor", female=True), "come back"), sub_first=True), "When the doctor came back, we thanked her.", "Als die Ärztin zurückkam, dankten wir ihr."),
    (Shared(does(several("king"), "see", the("friend", "a", female=True)), does(several("king"), "look at", SHE, elided=True)), "The kings saw a friend and looked at her.", "Die Könige sahen eine Freundin und sahen sie an."),
    (does(the("doctor", "this", female=True, adjective="old"), "sell", the("car", "her")), "This old doctor sold her car.", "Diese alte Ärztin verkaufte ihr Auto."),
    # relative clauses
    (is_(the("dog", relative=does(RelativePronoun(NOUN["dog"]), "chase", the("cat"))), "tired"), "The dog that chased the cat was tired.", "Der Hund, der die Katze jagte, war müde."),
    (is_(the("cat", relative=does(the("dog"), "chase", RelativePronoun(NOUN["cat"]))), "tired"), "The cat that the dog chased was tired.", "Die Katze, die der Hund jagte, war müde."),
    (does(the("man", relative=does(I, "help", RelativePronoun(NOUN["man"]))), "laugh"), "The man who I helped laughed.", "Der Mann, dem ich half, lachte."),
    (is_(several("child", relative=does(WE, "trust", RelativePronoun(NOUN["child"], plural=True))), "brave"), "The children who we trusted were brave.", "Die Kinder, denen wir vertrauten, waren mutig."),
    # questions and coordination
    (Question(does(the("dog"), "sleep"), "why"), "Why did the dog sleep?", "Warum schlief der Hund?"),
    (Question(does(WHO, "open", the("door"), **NOW), "who"), "Who opens the door?", "Wer macht die Tür auf?"),
    (Question(does(the("bird"), "open", the("box"), modal="can", **NOW)), "Can the bird open the box?", "Kann der Vogel die Kiste aufmachen?"),
    (Question(is_(the("soup"), "hot", **NOW)), "Is the soup hot?", "Ist die Suppe heiß?"),
    (Joined(does(I, "sleep"), "but", does(WE, "work", **NOT)), "I slept, but we didn't work.", "Ich schlief, aber wir arbeiteten nicht."),
    (Joined(does(I, "sleep"), "and", does(HE, "work")), "I slept, and he worked.", "Ich schlief und er arbeitete."),
    (Joined(Linked(does(I, "sleep"), "because", is_(I, "sick")), "and", does(HE, "work")), "I slept because I was sick, and he worked.", "Ich schlief, weil ich krank war, und er arbeitete."),
]  # fmt: skip


def test_at_least_sixty_pairs_are_written_by_hand():
    assert len(HAND_WRITTEN) >= 60


@pytest.mark.parametrize(
    ("sentence", "english", "german"), HAND_WRITTEN, ids=[row[1] for row in HAND_WRITTEN]
)
def test_a_structure_is_written_in_both_languages(sentence, english, german):
    written = pair(sentence)
    assert (written.source, written.target) == (english, german)


def test_english_verbs_and_plurals_are_spelt_right():
    spelt = {
        "carry": "carries",
        "buy": "buys",
        "wash": "washes",
        "reach": "reaches",
        "play": "plays",
    }
    for name, third in spelt.items():
        assert does(the("girl"), name, **NOW).english() == f"the girl {third}"
    plurals = {NOUN[noun].english_plural for noun in ("city", "box", "key", "bus", "church")}
    assert plurals == {"cities", "boxes", "keys", "buses", "churches"}


@pytest.mark.parametrize(
    ("sentence", "settled"),
    [
        (does(the("doctor"), "sleep"), False),
        (does(the("dog"), "sleep"), True),
        (does(the("man"), "sell", the("car", "his")), True),
        (does(the("doctor"), "sell", the("car", "his")), True),
        (does(the("doctor"), "sell", the("car", "her")), False),
        (does(HE, "call", the("doctor")), False),
        (does(the("teacher", female=True), "call", the("brother", "her")), True),
        (does(the("teacher", female=True), "call", the("sister", "her")), False),
        (does(the("teacher", female=True), "call", the("friend", "her")), False),
        (does(the("teacher", female=True), "help", the("girl", "her")), False),
        (does(several("teacher"), "sleep"), True),
        (does(several("teacher", female=True), "call", several("brother", "her")), False),
        (Joined(does(the("teacher"), "sleep"), "and", does(the("dog", "her"), "sleep")), False),
        (Linked(does(SHE, "see", the("doctor", female=True)), "because", is_(SHE, "sick")), False),
    ],
)
def test_a_noun_of_two_genders_is_settled_by_a_pronoun_that_can_only_be_it(sentence, settled):
    assert is_settled(analyse(sentence), pair(sentence).source) is settled


def test_tags_are_found_in_the_structure():
    sentence = Linked(does(the("man"), "open", the("door"), **NOT), "because", is_(HE, "tired"))
    assert analyse(sentence).phenomena() == (
        "gender", "verb_final", "separable", "negation", "pronoun"
    )  # fmt: skip
    plural = does(several("dog", adjective="old"), "help", the("cat"), time="today", fronted=True)
    assert analyse(plural).phenomena() == ("case", "adjective", "plural", "verb_second")
    hidden = Shared(BALL, does(the("dog"), "hide", IT["m"], elided=True, about=NOUN["ball"]))
    assert analyse(hidden).objects == [("find", "ball"), ("hide", "ball")]
