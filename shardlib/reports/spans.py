"""When each GPU of a shard did what, from its event log: what a Gantt chart draws. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shardlib.records import Record

# A chart of more rectangles helps nobody, and a forged log must not fill the memory (a guess; real shards have hundreds).
MAX_SPANS = 20_000


@dataclass(frozen=True, kw_only=True)
class Span:
    """A worker's start (`group` None) or its time with a group, on some lanes; seconds since the shard's first start."""

    lanes: tuple[str, ...]
    begin: float
    end: float
    group: str | None


class SpanReader:
    """Collects the spans of one shard's attempts, one after the other; events of another shape are left out."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._offset = 0.0
        self._now = 0.0
        self._lanes: dict[str, tuple[str, ...]] = {}
        self._open: dict[str, tuple[str | None, float]] = {}

    def add_attempt(self, events: Iterable[Record]) -> None:
        """Reads the next attempt's events."""
        self._offset += self._now
        self._now = 0.0
        self._lanes, self._open = {}, {}
        for event in events:
            self._now = max(self._now, float(event["t"]))
            self._add(event)
        for worker in list(self._open):
            self._close(worker)

    def _add(self, event: Record) -> None:
        kind, worker, group = event["event"], event.get("worker"), event.get("group")
        if kind == "group":  # names no worker: at most one has it
            for holder, (held, _) in list(self._open.items()):
                if held == group:
                    self._close(holder)
        elif not isinstance(worker, str):
            return
        elif kind == "worker_start" and isinstance(event.get("gpus"), list):
            gpus = tuple(str(gpu) for gpu in event["gpus"])
            self._lanes[worker] = gpus or (self._free_lane(),)
            self._open[worker] = (None, self._now)
        elif kind == "worker_ready":
            self._close(worker)
        elif kind == "collected" and isinstance(group, str):
            seconds = event.get("seconds")
            took = float(seconds) if isinstance(seconds, (int, float)) else 0.0
            self._close(worker)
            self._open[worker] = (group, max(0.0, self._now - took))
        elif kind == "worker_end":
            self._close(worker)
            self._lanes.pop(worker, None)

    def _close(self, worker: str) -> None:
        group, begin = self._open.pop(worker, (None, -1.0))
        if begin >= 0 and worker in self._lanes and len(self.spans) < MAX_SPANS:
            span = Span(
                lanes=self._lanes[worker], begin=self._offset + begin, end=self._offset + self._now, group=group
            )
            self.spans.append(span)

    def _free_lane(self) -> str:
        """Returns the lowest lane that no living cpu worker has."""
        taken = {lane for lanes in self._lanes.values() for lane in lanes}
        return next(str(lane) for lane in range(len(taken) + 1) if str(lane) not in taken)
