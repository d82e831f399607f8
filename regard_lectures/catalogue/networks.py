"""The catalogue's figures of networks that see, and of the lectures' claims about them."""

from __future__ import annotations

from regard_lectures.figure import Figure

NETWORKS: dict[str, Figure] = {}
