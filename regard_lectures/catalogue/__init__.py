"""The catalogue of figures: what each one shows, its options, and the function that draws it.

`regard show` lists the atlas from here, so torch and matplotlib are imported only when a figure is
drawn. To add a figure, write a function of its name that returns a `Drawing` in the file of its
group in `figures/`, and add an entry in one of the modules of this folder.

No sentence of a picture is written by hand: the module of a figure NAME has a function
`words_NAME(numbers)`, which computes title and caption from the numbers that the picture shows.
"""

from __future__ import annotations

from dataclasses import replace

from regard_lectures.catalogue.networks import NETWORKS
from regard_lectures.catalogue.sequences import SEQUENCES
from regard_lectures.catalogue.vision import VISION
from regard_lectures.claims import CLAIMS
from regard_lectures.figure import SEED

FIGURES = {
    name: replace(
        figure,
        name=name,
        module=figure.module or name,
        options={**figure.options, "seed": SEED} if figure.measured else figure.options,
    )
    for name, figure in (SEQUENCES | NETWORKS | VISION).items()
}
CLAIMED = dict.fromkeys(claim.row for name, claim in CLAIMS.items() if name in FIGURES)
FIGURES["claims"] = replace(FIGURES["claims"], lectures=tuple(CLAIMED))
