"""Names of layers and heads: `decoder.1.cross.7` in options, and a phrase for pictures.

Both count from 0, as checkpoints and other tools do.
"""

from __future__ import annotations

import re

COUNTED = "Layers and heads count from 0"
"""Said once on each picture and page that names a layer or a head."""
_NAME = re.compile(r"([a-z_]+)\.(\d+)(?:-(\d+))?\.([a-z_]+)(?:\.(\d+))?")


def in_words(name: str, heads: str = "") -> str:
    """The name of a layer or a head as a phrase; any other name stays as it is.

    Args:
        name: Such as `decoder.1.cross`, `decoder.1.cross.7`, or `decoder.0-2.cross` for several.
        heads: A phrase for the heads, used if the name is that of a layer, not of a head.

    Example:
        >>> in_words("decoder.1.cross.7"), in_words("encoder.0.self")
        ('decoder layer 1, head 7 (cross)', 'encoder layer 0 (self)')
        >>> in_words("decoder.0-2.cross", "all heads")
        'decoder layers 0-2, all heads (cross)'
        >>> in_words("layers.2.self.1")  # a model of one stack
        'layer 2, head 1 (self)'
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return f"{name}, {heads}" if heads else name
    stack, first, last, kind, head = match.groups()
    layers = f"layer {first}"
    if last is not None and last != first:
        layers = f"layers {first}-{last}"
    phrase = heads if head is None else f"head {head}"
    side = "" if stack == "layers" else f"{stack} "
    return f"{side}{layers}{f', {phrase}' if phrase else ''} ({kind.replace('_', '-')})"
