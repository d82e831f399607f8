"""A journal of finished trainings, so that an interrupted `--again full` goes on where it was.

Each result is written as soon as it is known, to a file of the user's cache; the file is removed
when all are there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from regard import __version__
from regard.draw import cache_folder, write_file
from regard_lectures.progress import OnStep, training_progress


def source_of(data: str, name: str) -> str:
    """What tells data from others of the same name: its path; of data that are drawn, the name.

    Args:
        data: The path that was asked for.
        name: What was read.
    """
    return str(Path(data).resolve()) if data and Path(data).exists() else name


class Journal:
    """Results by key, as JSON.

    Args:
        name: The figure's name.
        settings: All that the results depend on; results of other settings are not used.

    Example:
        >>> with Journal("squares", {"seed": 0}) as journal:
        ...     journal.get("3", lambda: 9), journal.get("3", lambda: 1 / 0)
        (9, 9)
    """

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        text = json.dumps([__version__, dict(settings)], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        self.path = cache_folder() / "claims" / f"{name}-{digest}.json"
        self.results: dict[str, Any] = {}

    def __enter__(self) -> Self:
        if self.path.is_file():
            self.results = json.loads(self.path.read_text(encoding="utf-8"))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.path.unlink(missing_ok=True)

    def get(self, key: str, compute: Callable[[], Any]) -> Any:
        """The result of this key: the one of an interrupted run, or computed now."""
        if key not in self.results:
            self.results[key] = compute()
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                write_file(self.path, json.dumps(self.results).encode())
            except OSError:
                pass  # a cache that cannot be written to: an interrupted run begins anew
        return self.results[key]


def measured_with_all_seeds(
    name: str,
    settings: Mapping[str, Any],
    kinds: Sequence[str],
    seeds: Sequence[int],
    steps: int,
    measure_one: Callable[[str, int, OnStep], Any],
) -> dict[str, list[Any]]:
    """Train every kind of model with every seed, with a journal and a progress bar.

    Args:
        name: The figure's name.
        settings: As those of `Journal`.
        kinds: The models.
        seeds: The seeds.
        steps: The training steps of each model.
        measure_one: Maps a kind, a seed, and what is called after each step to a result as JSON.

    Returns:
        The results of each kind, one for each seed.
    """
    results: dict[str, list[Any]] = {kind: [] for kind in kinds}
    with (
        Journal(name, settings) as journal,
        training_progress(steps * len(seeds) * len(kinds)) as on_step,
    ):
        for seed in seeds:
            for kind in kinds:
                compute = partial(measure_one, kind, seed, on_step)
                results[kind].append(journal.get(f"{kind} {seed}", compute))
    return results
