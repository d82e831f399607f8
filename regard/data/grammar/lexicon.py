"""The words of the grammar: tables with both languages side by side.

The start of the grammar. In: tables whose rows have an English word, its German translation,
irregular forms, and the words it goes with. Out: tuples of `Noun`, `Adjective`, `Verb` and
`Adverb`, which `german` and `phrases` inflect.

Each English word has one German translation, so that a sentence has one translation. A few nouns
for people have two, by gender (teacher: Lehrerin, Lehrer); a "he" or "she" in the sentence shows
which. Left out are nouns whose plural equals their singular (sheep), verbs whose past equals their
present (read), and German weak masculine nouns (der Junge, den Jungen).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from regard.data.grammar.words import Adjective, Adverb, Noun, Verb, english_past, english_plural

NOUN_TABLE = """
beast     animal            Tier         n  Tiere
beast     dog               Hund         m  Hunde
beast     cat               Katze        f  Katzen
beast     horse             Pferd        n  Pferde
beast     bird              Vogel        m  Vögel
beast     cow               Kuh          f  Kühe
beast     pig               Schwein      n  Schweine
beast     mouse/mice        Maus         f  Mäuse
beast     fox               Fuchs        m  Füchse
beast     wolf/wolves       Wolf         m  Wölfe
beast     goat              Ziege        f  Ziegen
beast     chicken           Huhn         n  Hühner
beast     rabbit            Kaninchen    n  Kaninchen
beast     duck              Ente         f  Enten
beast     donkey            Esel         m  Esel
he        man/men           Mann         m  Männer
she       teacher           Lehrerin     f  Lehrerinnen
she       doctor            Ärztin       f  Ärztinnen
she       friend            Freundin     f  Freundinnen
he        teacher           Lehrer       m  Lehrer
he        brother           Bruder       m  Brüder
he        friend            Freund       m  Freunde
he        king              König        m  Könige
he        doctor            Arzt         m  Ärzte
he        uncle             Onkel        m  Onkel
she       woman/women       Frau         f  Frauen
she       sister            Schwester    f  Schwestern
she       princess          Prinzessin   f  Prinzessinnen
she       queen             Königin      f  Königinnen
she       aunt              Tante        f  Tanten
she       daughter          Tochter      f  Töchter
young     child/children    Kind         n  Kinder
young     girl              Mädchen      n  Mädchen
vehicle   car               Auto         n  Autos
vehicle   train             Zug          m  Züge
vessel    ship              Schiff       n  Schiffe
vehicle   bus               Bus          m  Busse
vehicle   truck             Lastwagen    m  Lastwagen
vehicle   carriage          Kutsche      f  Kutschen
vehicle   tram              Straßenbahn  f  Straßenbahnen
waters    river             Fluss        m  Flüsse
waters    lake              See          m  Seen
waters    stream            Bach         m  Bäche
waters    sea               Meer         n  Meere
road      street            Straße       f  Straßen
road      bridge            Brücke       f  Brücken
road      path              Weg          m  Wege
open      field             Feld         n  Felder
open      meadow            Wiese        f  Wiesen
open      square            Platz        m  Plätze
open      desert            Wüste        f  Wüsten
grounds   forest            Wald         m  Wälder
grounds   garden            Garten       m  Gärten
grounds   park              Park         m  Parks
grounds   island            Insel        f  Inseln
height    mountain          Berg         m  Berge
height    hill              Hügel        m  Hügel
height    valley            Tal          n  Täler
building  house             Haus         n  Häuser
building  room              Zimmer       n  Zimmer
building  kitchen           Küche        f  Küchen
building  school            Schule       f  Schulen
building  church            Kirche       f  Kirchen
building  castle            Schloss      n  Schlösser
building  village           Dorf         n  Dörfer
building  city              Stadt        f  Städte
thing     box               Kiste        f  Kisten
thing     ball              Ball         m  Bälle
thing     stone             Stein        m  Steine
thing     bag               Tasche       f  Taschen
thing     basket            Korb         m  Körbe
thing     book              Buch         n  Bücher
thing     bottle            Flasche      f  Flaschen
thing     rope              Seil         n  Seile
thing     chair             Stuhl        m  Stühle
thing     table             Tisch        m  Tische
thing     picture           Bild         n  Bilder
thing     key               Schlüssel    m  Schlüssel
thing     knife/knives      Messer       n  Messer
thing     shirt             Hemd         n  Hemden
thing     letter            Brief        m  Briefe
thing     clock             Uhr          f  Uhren
opening   door              Tür          f  Türen
opening   window            Fenster      n  Fenster
device    lamp              Lampe        f  Lampen
device    radio             Radio        n  Radios
device    computer          Computer     m  Computer
food      apple             Apfel        m  Äpfel
food      bread/-           Brot         n  -
food      soup/-            Suppe        f  -
food      cake              Kuchen       m  Kuchen
food      egg               Ei           n  Eier
food      sausage           Wurst        f  Würste
food      pear              Birne        f  Birnen
drink     milk/-            Milch        f  -
drink     water/-           Wasser       n  -
drink     coffee/-          Kaffee       m  -
drink     juice/-           Saft         m  -
"""
"""Kind, English (with an irregular plural, or "-" for none), German, gender, German plural. Of a
noun with two genders the masculine comes last: it is the default, and its plural means both."""

ADJECTIVE_TABLE = """
big          groß                : beast person vehicle vessel waters open grounds building thing
small        klein               : beast person vehicle waters open grounds building thing
old          alt                 : beast he woman queen aunt teacher doctor friend vehicle
    bridge building thing opening device
young        jung                : beast he she
new          neu            =    : vehicle vessel bridge building thing opening device teacher
    friend doctor king queen
beautiful    schön               : bird cat horse person waters open grounds height building picture
ugly         hässlich       -    : vehicle building bag picture chair table lamp shirt door
black        schwarz        =    : beast vehicle box bag chair table shirt door lamp
white        weiß           =    : beast vehicle box bag chair table shirt house church door
red          rot            =    : vehicle box ball bag chair table shirt door lamp apple book
    house fox bird dog donkey cat chicken cow
strong       stark               : dog horse wolf donkey cow pig animal he she young
clever       klug           -    : beast person
rich         reich               : he she
good         gut                 : he she child book food drink knife picture
cold         kalt           -    : waters soup drink room kitchen
fresh        frisch         -    : food drink
tired        müde/müd       !    : beast person
hungry       hungrig        !    : beast person
sick         krank          !    : beast person
lazy         faul           !-   : beast person
brave        mutig          !    : beast person
curious      neugierig      !-   : beast person
thirsty      durstig        !-   : beast person
scared       ängstlich      !-   : beast person
nervous      nervös         !-   : beast person
sleepy       schläfrig      !-   : beast person
shy          schüchtern     !-   : beast person
wide         breit          !-   : waters road open valley
deep         tief           !-   : waters valley
narrow       schmal         !-   : road stream river valley
steep        steil          !-   : mountain hill street path
dark         dunkel         -    : street path forest garden park room kitchen house church castle
high         hoch           !-   : mountain hill bridge
muddy        schlammig      !-   : path stream river field meadow garden park square
icy          vereist        !-=  : road lake square field meadow mountain hill
flooded      überflutet     !-=  : road field meadow square forest garden park valley island
    building
crowded      überfüllt      !-   : street bridge square park island school church castle city
dusty        staubig        !-   : path street square field desert valley building
remote       abgelegen      !-   : valley island desert house church castle village forest lake
heavy        schwer         !-   : vehicle box stone bag basket book bottle chair table picture
expensive    teuer          !-   : vehicle vessel thing device
broken       kaputt         !-=  : vehicle chair table bag basket bottle key clock opening device
fragile      zerbrechlich   !-   : box chair table basket bottle picture clock device window
rusty        rostig         !-   : vehicle key knife clock door lamp box
sweet        süß            !-   : apple cake pear coffee juice milk
sour         sauer          !-   : apple pear milk juice soup
bitter       bitter         !-   : apple coffee juice bread soup cake
salty        salzig         !-   : soup bread egg sausage water cake
hot          heiß           !-   : soup bread cake egg sausage coffee milk water
"""
"""English, German (with the stem if it differs); "!" if it decides what "it" stands for, "-" if it
is used only after "is", "=" if it is not gradable; then the kinds and nouns it goes with."""

TRANSITIVE_TABLE = """
cross          : überqueren                   : anyone vehicle : waters road open
reach          : erreichen                    : anyone vehicle : waters road open grounds height
    building
leave/left     : verlassen verlässt verließ   : anyone : open grounds valley building
enter          : betreten betritt betrat      : anyone : open garden forest park island bridge
    building
avoid          : meiden meidet mied           : anyone : waters road open forest park height
    village city
carry          : tragen trägt trug            : LARGE fox person : box ball stone bag basket book
    bottle rope chair
pull           : ziehen zieht zog             : LARGE person : box stone bag basket rope table car
    carriage
push           : schieben schiebt schob       : LARGE person : box ball stone basket chair table
    car carriage
touch          : berühren                     : anyone : thing device opening food
find/found     : finden findet fand           : anyone : thing food path forest village
hide/hid       : verstecken                   : THIEVING person : ball bag book bottle key knife
    letter food
steal/stole    : stehlen stiehlt stahl        : THIEVING adult : ball bag basket key shirt bottle
    food
drink/drank    : trinken trinkt trank         : anyone : drink
see/saw        : sehen sieht sah              : anyone : anyone vehicle vessel waters road height
    building box ball
hear/heard     : hören                        : anyone : anyone vehicle radio stream
chase          : jagen                        : beast : beast
love           : lieben                       : person : anyone garden island city village
buy/bought     : kaufen                       : person : vehicle vessel house castle thing device
    food drink
sell/sold      : verkaufen                    : adult : vehicle vessel house castle thing device
    food drink
need           : brauchen                     : person : vehicle thing device food drink
eat/ate        : essen isst aß                : person : food
wash           : waschen wäscht wusch         : person : vehicle shirt bag bottle table knife
    window dog horse
repair         : reparieren                   : adult : vehicle vessel bridge chair table clock
    opening device
visit          : besuchen                     : person : adult castle church village city island
    school
look for       : suchen                       : anyone : beast child ball bag basket book key
    knife letter food
look at        : an+sehen sieht sah           : anyone : anyone vehicle vessel picture book clock
    box mountain
open           : auf+machen                   : person : opening box bag bottle basket letter
close          : zu+machen                    : person : opening box bag bottle book
turn on +      : ein+schalten                 : person : device
throw away +/threw : weg+werfen wirft warf    : person : thing food
pick up +      : auf+heben hebt hob           : LARGE THIEVING person : ball box bag stone book
    bottle rope key letter basket
call           : an+rufen ruft rief           : adult : person
invite         : ein+laden lädt lud           : person : person
"""
"""English (with its particle, "+" if it splits, and an irregular past), German (with third person
and past of a strong verb), subjects, objects."""

DATIVE_TABLE = """
help           : helfen hilft half            : anyone : anyone
follow         : folgen                       : anyone vehicle : anyone vehicle
thank          : danken                       : person : person
trust          : vertrauen                    : anyone : anyone
"""

GIVING_TABLE = """
give/gave      : geben gibt gab               : person : thing food drink device
show           : zeigen                       : person : thing beast vehicle room garden
bring/brought  : bringen bringt brachte       : person : ball bag basket book bottle chair picture
    key letter food drink
send/sent      : schicken                     : adult : letter book picture clock bag key knife
    box
"""

INTRANSITIVE_TABLE = """
sleep/slept        : schlafen schläft schlief    : anyone : where
wait               : warten                      : anyone vehicle vessel : where
work               : arbeiten                    : person : where with
dance              : tanzen                      : person : where with
play               : spielen                     : dog cat person : where with
sing/sang          : singen singt sang           : person bird : where with
laugh              : lachen                      : person : where
run/ran            : rennen rennt rannte         : anyone : into
walk               : gehen geht ging             : anyone : into with
swim/swam          : schwimmen schwimmt schwamm  : anyone : swim
fall asleep/fell   : ein+schlafen schläft schlief : anyone : where
wake up/woke       : auf+wachen                  : anyone : where
get up/got         : auf+stehen steht stand      : anyone :
come back/came     : zurück+kommen kommt kam     : anyone : into
run away/ran       : weg+laufen läuft lief       : anyone :
stop/stopped       : an+halten hält hielt        : vehicle vessel adult : where
"""
"""As `TRANSITIVE_TABLE`, with the kinds of places instead of the objects."""

SAYING_TABLE = """
know/knew      : wissen weiß wusste           : person
think/thought  : glauben                      : person
hope           : hoffen                       : person
say/said       : sagen                        : person
"""

ADVERB_TABLE = """
yesterday       : gestern         : past
last week       : letzte Woche    : past
this morning    : heute Morgen    : past
today           : heute           : past present
now             : jetzt           : present
in the evening  : am Abend        : past present
sometimes       : manchmal        : past present
every day       : jeden Tag       : past present
"""

PERSON = ("he", "she", "young")
"""The kinds of nouns for people: those with the pronoun "he" or "she", and children."""
GROUPS = {
    "person": PERSON,
    "anyone": ("beast", *PERSON),
    "adult": ("he", "she"),
    "LARGE": ("animal", "dog", "horse", "cow", "donkey", "goat", "pig"),
    "THIEVING": ("dog", "cat", "bird", "fox", "mouse", "wolf", "goat", "pig", "rabbit"),
}
"""Names for groups of kinds or nouns."""
PLACES = ("waters", "road", "open", "grounds", "height", "building")
WHERE = {"waters": "at", "road": "on", "open": "on", "grounds": "in", "height": "on",
         "building": "in", "desert": "in", "valley": "in", "island": "on"}  # fmt: skip
"""The preposition of place of a kind or noun: at the river, in the valley."""


def _rows(table: str) -> list[str]:
    """Split a table into rows; an indented line continues the row before."""
    return table.strip().replace("\n    ", " ").splitlines()


def _noun(row: str) -> Noun:
    kind, names, german, gender, german_plural = row.split()
    english, _, plural = names.partition("/")
    plural = plural or english_plural(english)
    return Noun(kind, english, plural, german, german_plural, gender, mass=plural == "-")


NOUNS = tuple(_noun(row) for row in _rows(NOUN_TABLE))

_COUNTS = Counter(noun.english for noun in NOUNS)
TWO_GENDERS = tuple(noun for noun in NOUNS if _COUNTS[noun.english] > 1)
"""The nouns with a feminine and a masculine form in German; both forms."""


def nouns_of(names: str) -> tuple[Noun, ...]:
    """Return the nouns that a table's cell lists, by kind, group or English word."""
    wanted = {one for name in names.split() for one in GROUPS.get(name, (name,))}
    return tuple(noun for noun in NOUNS if noun.kind in wanted or noun.english in wanted)


def _adjective(row: str) -> Adjective:
    words, _, nouns = row.partition(":")
    english, german, *marks = words.split()
    german, _, stem = german.partition("/")
    mark = "".join(marks)
    return Adjective(
        english,
        german,
        stem or german,
        nouns_of(nouns),
        attributive="-" not in mark,
        decides="!" in mark,
        graded="=" not in mark,
    )


def _verb(row: str, case: str = "acc") -> Verb:
    names, parts, subjects, *rest = (cell.strip() for cell in row.split(":"))
    names, _, past = names.partition("/")
    english, *particles = names.split()
    infinitive, *strong = parts.split()
    prefix, _, german = infinitive.rpartition("+")
    stem = german.removesuffix("n").removesuffix("e")
    weak = stem + "e" if stem.endswith(("t", "d")) else stem  # er wart-e-t, but er lieb-t
    third, german_past = strong if strong else (weak + "t", weak + "te")
    return Verb(
        english=english,
        english_past=past or english_past(english),
        particle=" ".join(word for word in particles if word != "+"),
        splits="+" in particles,
        prefix=prefix,
        german=german,
        third=third,
        past=german_past,
        subjects=nouns_of(subjects),
        objects=nouns_of(rest[0]) if rest else (),
        case=case,
    )


def _intransitive(row: str) -> Verb:
    words, _, places = row.rpartition(":")
    return replace(_verb(words), places=tuple(places.split()))


def _adverb(row: str) -> Adverb:
    english, german, tenses = (cell.strip() for cell in row.split(":"))
    return Adverb(english, german, tuple(tenses.split()))


ADJECTIVES = tuple(_adjective(row) for row in _rows(ADJECTIVE_TABLE))
TRANSITIVE = tuple(_verb(row) for row in _rows(TRANSITIVE_TABLE))
WAIT_FOR = replace(_verb("wait for : warten : anyone : anyone"), preposition="auf")
"""The only verb whose German object has a preposition; its object is always a pronoun."""
DATIVE = tuple(_verb(row, case="dat") for row in _rows(DATIVE_TABLE))
GIVING = tuple(_verb(row) for row in _rows(GIVING_TABLE))
INTRANSITIVE = tuple(_intransitive(row) for row in _rows(INTRANSITIVE_TABLE))
SAYING = tuple(_verb(row) for row in _rows(SAYING_TABLE))
ADVERBS = tuple(_adverb(row) for row in _rows(ADVERB_TABLE))
VERBS = {
    verb.name: verb for verb in (*SAYING, *TRANSITIVE, *DATIVE, *GIVING, *INTRANSITIVE, WAIT_FOR)
}


def verbs_of(names: str) -> tuple[Verb, ...]:
    """Return the verbs that a text names, with commas between them."""
    return tuple(VERBS[name.strip()] for name in names.split(","))
