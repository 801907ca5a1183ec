"""What the event logs say about time: how long shards took, what their GPUs did, and what files' setups cost."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shardlib import records
from shardlib.errors import RunFolderError
from shardlib.fields import short
from shardlib.plan import Plan
from shardlib.records import Record
from shardlib.reports.spans import Span, SpanReader
from shardlib.runfolder import RunFolder

FILE_SCOPES = ("package", "module", "class")
"""Fixtures that a file's tests share, paid by each process that runs the file; session fixtures are a worker's start."""


@dataclass(frozen=True, kw_only=True)
class ShardMeasure:
    """What one shard took, all its attempts together; seconds.

    `busy_gpu_seconds` is the time in which workers were starting or had a group, times the GPUs that each held.
    `worker_starts` has one entry a worker that became ready: its start, with the session fixtures it set up.
    `worker_ends` has one a worker that was told to end: from then until its process, and all it started, was gone.
    """

    seconds: float
    busy_gpu_seconds: float
    workers: int
    worker_starts: tuple[float, ...]
    worker_ends: tuple[float, ...] = ()
    spans: tuple[Span, ...] = ()

    @property
    def worker_start_seconds(self) -> float | None:
        """The median worker start; None if no worker became ready."""
        return statistics.median(self.worker_starts) if self.worker_starts else None


@dataclass(frozen=True, kw_only=True)
class Measures:
    """What the event logs say, by shard; `setups` are the seconds of a file's shared setup, mean over its processes."""

    shards: Mapping[str, ShardMeasure]
    setups: Mapping[str, float]
    unreadable: tuple[str, ...]

    @property
    def makespan_seconds(self) -> float:
        """The longest time that a shard with GPUs took (any shard's, if none has)."""
        with_gpus = [measure.seconds for name, measure in self.shards.items() if name != "cpu"]
        return max(with_gpus or [measure.seconds for measure in self.shards.values()], default=0.0)

    @property
    def worker_start_seconds(self) -> float | None:
        """The median worker start of the run; None if no worker became ready."""
        starts = [seconds for measure in self.shards.values() for seconds in measure.worker_starts]
        return statistics.median(starts) if starts else None

    @property
    def worker_end_seconds(self) -> float | None:
        """The median worker end of the run; None if no worker was told to end."""
        ends = [seconds for measure in self.shards.values() for seconds in measure.worker_ends]
        return statistics.median(ends) if ends else None


def read(folder: RunFolder, plan: Plan) -> Measures:
    """Returns the measures of a run; a log that cannot be read is named, and counts up to that place."""
    files = {group.id: group.file for group in plan.groups}
    visits: dict[str, list[float]] = defaultdict(list)
    shards: dict[str, ShardMeasure] = {}
    unreadable: list[str] = []
    for shard in plan.shards:
        tallies: list[_Tally] = []
        spans = SpanReader()
        try:
            for attempt in folder.shard(shard.name).attempts():
                tallies.append(_Tally(widths={group.id: group.width for group in plan.groups_of(shard)}))
                where = f"shard {shard.name}, events of attempt {attempt}"
                spans.add_attempt(tallies[-1].passing(folder.shard(shard.name).read_events(attempt), where))
        except RunFolderError as err:
            unreadable.append(str(err))
        shards[shard.name] = _total(tallies, spans)
        for tally in tallies:
            for (_, group), seconds in tally.setups.items():
                visits[files[group]].append(seconds)
    setups = {file: statistics.fmean(seconds) for file, seconds in visits.items()}
    return Measures(shards=shards, setups=setups, unreadable=tuple(unreadable))


@dataclass
class _Tally:
    """Sums one attempt's events as they stream by; of a log of any length it keeps one number a worker and group."""

    widths: Mapping[str, int]  # GPUs by group
    seconds: float = 0.0
    busy: float = 0.0
    workers: dict[str, int] = field(default_factory=dict)  # GPUs by worker
    starts: dict[str, float] = field(default_factory=dict)  # by worker that became ready
    ends: list[float] = field(default_factory=list)
    setups: dict[tuple[str, str], float] = field(default_factory=dict)  # by worker and group

    def passing(self, events: Iterable[Record], where: str) -> Iterator[Record]:
        """Yields the events on, each once it is counted."""
        for number, event in enumerate(events, start=1):
            self.seconds = max(self.seconds, float(event["t"]))
            if event["event"] in _FIELDS:
                self._add(event, f"{where}, line {number}")
            yield event

    def _add(self, event: Record, where: str) -> None:
        kind = event["event"]
        records.check(event, _FIELDS[kind], where)
        worker, group = event.get("worker", ""), event.get("group", "")
        if "group" in _FIELDS[kind] and group not in self.widths:
            raise RunFolderError(f"{where}: group {short(group)} is not this shard's")
        if kind == "worker_start":
            self.workers[worker] = max(1, len(event["gpus"]))
        elif kind == "worker_ready":
            self.starts[worker] = float(event["seconds"])
            self.busy += event["seconds"] * self.workers.get(worker, 1)
        elif kind == "collected":
            self.setups[worker, group] = self.setups.get((worker, group), 0.0) + event["seconds"]
        elif kind == "finish":
            self._finished(worker, group, records.shared_seconds(event, where))
        elif kind == "worker_end":
            self.ends += [float(event["seconds"])] if _is_number(event.get("seconds")) else []
        elif kind == "group":
            self.busy += event["seconds"] * self.widths[group]

    def _finished(self, worker: object, group: str, shared: Mapping[str, float]) -> None:
        """Adds what a test's shared fixtures took; the runner's own word about a test names no worker."""
        if isinstance(worker, str) and (worker, group) in self.setups:
            self.setups[worker, group] += sum(shared.get(scope, 0.0) for scope in FILE_SCOPES)
        if isinstance(worker, str) and worker in self.starts:
            self.starts[worker] += shared.get("session", 0.0)


_FIELDS: Mapping[str, records.Shape] = {
    "worker_start": {"worker": (str,), "gpus": (list, str)},
    "worker_ready": {"worker": (str,), "seconds": (float,)},
    "collected": {"worker": (str,), "group": (str,), "seconds": (float,)},
    "finish": {"group": (str,)},
    "worker_end": {"worker": (str,)},
    "group": {"group": (str,), "seconds": (float,)},
}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")


def _total(tallies: Sequence[_Tally], spans: SpanReader) -> ShardMeasure:
    return ShardMeasure(
        seconds=sum(tally.seconds for tally in tallies),
        busy_gpu_seconds=sum(tally.busy for tally in tallies),
        workers=sum(len(tally.workers) for tally in tallies),
        worker_starts=tuple(seconds for tally in tallies for seconds in tally.starts.values()),
        worker_ends=tuple(seconds for tally in tallies for seconds in tally.ends),
        spans=tuple(spans.spans),
    )
