"""Runs' folders of our own runner, by their events: the source that says most. Read as hostile, as `verify` does."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from shardlib import records
from shardlib.durations import MAX_SECONDS
from shardlib.errors import PlanError, RunFolderError, ShardlibError
from shardlib.model import Group
from shardlib.records import Record
from shardlib.reports.measure import FILE_SCOPES
from shardlib.runfolder import RunFolder
from shardlib.weights.blocks import FLAGS_OF, NEVER_RAN
from shardlib.weights.findings import Found, Unread
from shardlib.weights.samples import Sample


def is_run_folder(path: Path) -> bool:
    """Whether a folder is one of a run."""
    return (path / "plan" / "plan.json").is_file()


def parse(path: Path, unread: Unread) -> Iterator[Found]:
    """Yields the run, if it has a test that ran. What cannot be read is counted, and the rest of the run is used.

    A test's seconds are without the fixtures that it shared; its file's are in a row of their own, one for each process
    that paid them. A pod is a shard's attempt: a test that ran in two of them has two rows.
    """
    folder = RunFolder(path)
    try:
        plan = folder.read_plan()
    except (PlanError, RunFolderError) as err:
        unread.add(None, str(err))
        return
    started: list[float] = []
    samples: list[Sample] = []
    for shard in plan.shards:
        groups = {group.id: group for group in plan.groups_of(shard)}
        try:
            for number in folder.shard(shard.name).attempts():
                attempt = folder.shard(shard.name).read_attempt(number)
                if attempt["digest"] != plan.digest:
                    unread.add(None, f"shard {shard.name}, attempt {number} ran another plan")
                    continue
                started.append(float(attempt["started"]))
                reader = _Attempt(pod=f"{shard.name}/{number}", groups=groups)
                samples += _attempt(reader, folder, shard.name, number, unread)
        except RunFolderError as err:
            unread.add(None, str(err))
    unread.seen["rows"] += len(samples)
    if samples:
        yield Found(kind="events", when=min(started), samples=tuple(samples), seal=plan.digest)


def _attempt(reader: _Attempt, folder: RunFolder, shard: str, number: int, unread: Unread) -> tuple[Sample, ...]:
    """Returns an attempt's samples, up to the place where its log cannot be read."""
    try:
        for line, event in enumerate(folder.shard(shard).read_events(number), start=1):
            if event["event"] in _FIELDS:
                reader.add(event, f"shard {shard}, events of attempt {number}, line {line}")
    except ShardlibError as err:
        unread.add(None, str(err))
    return reader.samples()


_FIELDS: dict[str, records.Shape] = {
    "collected": {"worker": (str,), "group": (str,), "seconds": (float,)},
    "finish": {"group": (str,), "id": (str,), "outcome": (str,), "seconds": (float,)},
}


@dataclass
class _Attempt:
    """Gathers one attempt's events as they stream by."""

    pod: str
    groups: dict[str, Group]
    tests: dict[str, Sample] = field(default_factory=dict)
    visits: dict[tuple[str, str], float] = field(default_factory=dict)  # setup seconds by worker and group
    begun: set[str] = field(default_factory=set)  # workers that ran a test

    def __post_init__(self) -> None:
        self.group_of = {test.id: group.id for group in self.groups.values() for test in group.tests}

    def add(self, event: Record, where: str) -> None:
        """Takes one event; RunFolderError if it is not of its shape, or of another shard's group."""
        records.check(event, _FIELDS[event["event"]], where)
        group = self.groups.get(event["group"])
        if group is None:
            raise RunFolderError(f"{where}: group {event['group'][:100]!r} is not this shard's")
        worker = event.get("worker") if isinstance(event.get("worker"), str) else None
        if event["event"] == "collected":
            key = (event["worker"], group.id)
            self.visits[key] = self.visits.get(key, 0.0) + float(event["seconds"])
        else:
            self._finish(event, group, worker, where)

    def _finish(self, event: Record, group: Group, worker: str | None, where: str) -> None:
        """Takes a test's outcome; of two words about one test the later counts."""
        if self.group_of.get(event["id"]) != group.id:
            raise RunFolderError(f"{where}: {event['id'][:100]!r} is not of group {group.id}")
        outcome = event["outcome"]
        shared = records.shared_seconds(event, where)
        if worker is not None and (worker, group.id) in self.visits:
            self.visits[worker, group.id] += sum(shared.get(scope, 0.0) for scope in FILE_SCOPES)
        if outcome in NEVER_RAN:
            self.tests.pop(event["id"], None)
            return
        flags = list(FLAGS_OF.get(outcome, ()))
        if event.get("reruns"):
            flags.append("retried")
        if worker is not None and worker not in self.begun and outcome != "skipped":
            self.begun.add(worker)
            flags.append("first")
        self.tests[event["id"]] = Sample(
            id=event["id"],
            seconds=round(min(MAX_SECONDS, max(0.0, event["seconds"] - sum(shared.values()))), 6),
            outcome=outcome,
            pod=self.pod,
            worker=worker,
            mode=group.mode.value,
            flags=tuple(flags),
        )

    def samples(self) -> tuple[Sample, ...]:
        """Returns the attempt's samples: tests, then the setups of files, a worker's visits to one file averaged."""
        setups: dict[tuple[str, str, str], list[float]] = defaultdict(list)
        for (worker, group_id), seconds in self.visits.items():
            group = self.groups[group_id]
            setups[group.file, worker, group.mode.value].append(seconds)
        rows = [
            Sample(
                id=file,
                seconds=round(min(MAX_SECONDS, statistics.fmean(seconds)), 6),
                pod=self.pod,
                worker=worker,
                mode=mode,
            )
            for (file, worker, mode), seconds in setups.items()
            if "::" not in file
        ]
        return (*self.tests.values(), *rows)
