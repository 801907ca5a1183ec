"""Our runner's PYTEST-DURATION blocks in a log; docs/architecture.md has the format.

A block names its shard and attempt. A row of a block is a test's one counted measurement, so that the same row again is
a log captured twice, and another measurement of the same test by the same attempt is another run in the same log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from shardlib.durations import MAX_SECONDS
from shardlib.model import Mode, Outcome
from shardlib.weights import prefixes
from shardlib.weights.findings import Found, Unread
from shardlib.weights.prefixes import Line
from shardlib.weights.samples import Sample

VERSION = "v1"

_TOKEN = re.compile(r"(?:^|\s)PYTEST-DURATION(-BEGIN|-END)? ")
_BEGIN = re.compile(r"v(\d+) shard=(\S+) attempt=(\d+) group=(\S+) tests=(\d+)\s*")
_END = re.compile(r"group=(\S+)\s*")
_ROW = re.compile(r"(\d{1,12}(?:\.\d{1,9})?) (\S+) (\S+) (\".*\")\s*")

NEVER_RAN = frozenset({Outcome.MISSING.value, Outcome.NOT_RUN.value})
FLAGS_OF = {
    Outcome.SKIPPED.value: ("skipped",),
    Outcome.FAILED.value: ("failed",),
    Outcome.ERROR.value: ("failed",),
    Outcome.CRASHED.value: ("crashed",),
    Outcome.TIMED_OUT.value: ("timed_out",),
    Outcome.POISONED.value: ("collateral", "failed"),
}
"""What an outcome says about a test's seconds; those without an entry are plain measurements."""

_OUTCOMES = frozenset(outcome.value for outcome in Outcome)
_MODES = frozenset(mode.value for mode in Mode)


@dataclass
class _Block:
    pod: str
    group: str
    tests: int
    rows: int = 0
    paid: bool = False  # the row that paid the group's setup was seen
    known: bool = True  # a version that we read


@dataclass
class _Pod:
    """One attempt's measurements, by run of the log."""

    begun: int = 0
    runs: dict[int, dict[str, Sample]] = field(default_factory=dict)

    def add(self, sample: Sample) -> None:
        there = self.runs.get(self.begun, {}).get(sample.id)
        if there is not None and (there.seconds, there.outcome) != (sample.seconds, sample.outcome):
            self.begun += 1
        self.runs.setdefault(self.begun, {}).setdefault(sample.id, sample)


class Blocks:
    """Gathers the blocks of one log; each prefix may have one open, so that shards may be interleaved."""

    def __init__(self, unread: Unread) -> None:
        self._unread = unread
        self._open: dict[str | None, _Block] = {}
        self._pods: dict[str | None, _Pod] = {}
        self._runs = 0
        self._when: dict[int, float] = {}

    def read(self, number: int, line: Line) -> bool:
        """Takes a line; returns whether it was one of a block."""
        token = _TOKEN.search(line.text)
        if token is None:
            return False
        rest = line.text[token.end() :]
        if token[1] == "-BEGIN":
            self._begin(number, line, rest)
        elif token[1] == "-END":
            self._end(number, line, rest)
        else:
            self._row(number, line, rest)
        return True

    def complete(self, *, all_of_them: bool = False) -> Iterator[Found]:
        """Yields the runs that no further line can belong to."""
        if all_of_them:
            for block in self._open.values():
                self._unread.add(None, f"the block of {block.group} in {block.pod} has no end: {block.rows} rows read")
        while self._pods:
            last = max(pod.begun for pod in self._pods.values())
            if self._runs > last or not (all_of_them or all(p.begun > self._runs for p in self._pods.values())):
                return
            samples = [row for pod in self._pods.values() for row in pod.runs.pop(self._runs, {}).values()]
            when = self._when.pop(self._runs, None)
            self._runs += 1
            if samples:
                yield Found(kind="block", when=when, samples=tuple(samples))

    def _begin(self, number: int, line: Line, rest: str) -> None:
        match = _BEGIN.fullmatch(rest)
        if match is None:
            self._unread.add(number, f"a block's first line that is none: {rest[:100]!r}")
            return
        if line.pod in self._open:
            self._unread.add(number, f"the block of {self._open[line.pod].group} has no end before this one")
        known = f"v{match[1]}" == VERSION
        if not known:
            self._unread.add(number, f"a block of version v{match[1]}, and this reads {VERSION}")
        self._open[line.pod] = _Block(
            pod=f"{match[2]}/{match[3]}", group=match[4], tests=int(match[5][:9]), known=known
        )
        self._unread.seen["blocks"] += 1

    def _end(self, number: int, line: Line, rest: str) -> None:
        match = _END.fullmatch(rest)
        block = self._open.pop(line.pod, None)
        if match is None or block is None or block.group != match[1]:
            self._unread.add(number, f"a block's end without its beginning: {rest[:100]!r}")
        elif block.rows != block.tests and block.known:
            self._unread.add(number, f"the block of {block.group} has {block.tests} tests, {block.rows} were read")

    def _row(self, number: int, line: Line, rest: str) -> None:
        block = self._open.get(line.pod)
        if block is not None and not block.known:
            return
        sample = _sample(rest, block.pod if block else line.pod, line.worker)
        if sample is None:
            self._unread.add(number, f"a block's row that is none: {rest[:100]!r}")
            return
        self._unread.seen["rows"] += 1
        if block is not None:
            block.rows += 1
            if not block.paid and sample.outcome != "skipped":
                block.paid = True
                sample = Sample(
                    id=sample.id,
                    seconds=sample.seconds,
                    outcome=sample.outcome,
                    pod=sample.pod,
                    worker=sample.worker,
                    mode=sample.mode,
                    flags=(*sample.flags, "first"),
                )
        if sample.outcome in NEVER_RAN:
            return
        pod = self._pods.get(sample.pod)
        if pod is None:
            pod = self._pods[sample.pod] = _Pod(begun=self._runs)
        pod.add(sample)
        when = prefixes.seconds(line.stamp)
        if when is not None:
            self._when[pod.begun] = min(when, self._when.get(pod.begun, when))


def _sample(rest: str, pod: str | None, worker: str | None) -> Sample | None:
    match = _ROW.fullmatch(rest)
    if match is None or match[2] not in _OUTCOMES or match[3] not in _MODES:
        return None
    try:
        node_id = json.loads(match[4])
    except ValueError:
        return None
    if not isinstance(node_id, str) or not node_id or float(match[1]) > MAX_SECONDS:
        return None
    return Sample(
        id=node_id,
        seconds=float(match[1]),
        outcome=match[2],
        pod=pod,
        worker=worker,
        mode=match[3],
        flags=FLAGS_OF.get(match[2], ()),
    )
