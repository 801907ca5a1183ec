"""What a parser finds in a source: runs with their samples, and the places that it could not read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from shardlib.weights.samples import Sample

KEPT_PLACES = 20
"""Places shown for each source; the rest is only counted, so that a hostile log cannot fill the report."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """One run in a source: its kind (one of `samples.KINDS`), unix seconds if the source says when, and its samples.

    `seal` is what else tells this run from another with equal rows, such as the session's own duration.
    """

    kind: str
    when: float | None
    samples: tuple[Sample, ...]
    seal: str = ""


@dataclass
class Unread:
    """What could not be read of one source, by line; nothing is skipped in silence."""

    source: str
    total: int = 0
    places: list[str] = field(default_factory=list)
    hidden: int = 0  # rows that pytest itself left out of its tables
    seen: Counter[str] = field(default_factory=Counter)  # what was recognised, for the report

    def add(self, line: int | None, why: str) -> None:
        """Counts one place; `line` is None where the source has no lines."""
        self.total += 1
        if len(self.places) < KEPT_PLACES:
            self.places.append(f"{self.source}{'' if line is None else f':{line}'}: {why}")

    def fold(self, other: Unread) -> None:
        """Adds what could not be read of a part of this source."""
        self.total += other.total
        self.hidden += other.hidden
        self.seen += other.seen
        self.places += other.places[: KEPT_PLACES - len(self.places)]
