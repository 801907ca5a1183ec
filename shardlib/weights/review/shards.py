"""What other weights do to the shards: the same tests packed by old and by new weights, then run as they really ran. Pure.

The packer and the timeline are the plan's own, so the difference is what the plan would see. The new weights have seen
these very runs, so they look a little better here than they will be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from shardlib.durations import weigh
from shardlib.model import CollectedTest, Group, Mode
from shardlib.packing import pack
from shardlib.timeline import schedule
from shardlib.weights.proposal import Mark, Proposal

LAST_RUNS = 5
_NO_TIME = (Mark.SKIPPED, Mark.DROPPED)  # points whose seconds the machine did not spend on the test
_WHOLE_SHARE = 0.5  # of the tests: a run with fewer says nothing about the suite's shards


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """What shards run on. `widths` gives mode and GPUs by node id, where a collect.json tells; else modes do."""

    shards: int
    gpus: int
    cpu_slots: int
    startup_seconds: float
    unknown_seconds: float
    widths: Mapping[str, tuple[Mode, int]]


@dataclass(frozen=True, kw_only=True)
class Realised:
    """Seconds that each GPU shard took, as packed."""

    shard_seconds: tuple[float, ...]

    @property
    def makespan_seconds(self) -> float:
        """The longest shard."""
        return max(self.shard_seconds, default=0.0)

    @property
    def spread(self) -> float:
        """How much earlier than the longest the shortest shard ends, as a part of the longest."""
        longest = self.makespan_seconds
        return 1 - min(self.shard_seconds) / longest if longest else 0.0


@dataclass(frozen=True, kw_only=True)
class RunEffect:
    """One run (its index), realised with both weights."""

    run: int
    tests: int
    old: Realised
    new: Realised


def effects(proposal: Proposal, current: Mapping[str, float], nodes: Nodes) -> tuple[RunEffect, ...]:
    """Returns the effect on each of the newest runs that had most of the tests, oldest first."""
    actual: dict[int, dict[str, float]] = {}
    for test in proposal.tests:
        for point in test.history:
            if point.mark not in _NO_TIME:
                actual.setdefault(point.run, {})[test.id] = point.seconds
    most = max((len(seconds) for seconds in actual.values()), default=0)
    runs = [run for run in sorted(actual) if len(actual[run]) >= _WHOLE_SHARE * most][-LAST_RUNS:]
    proposed = {test.id: test.weight for test in proposal.tests}
    modes = {test.id: test.mode for test in proposal.tests}
    found = []
    for run in runs:
        tests = [_collected(key, modes[key], nodes) for key in sorted(actual[run]) if "::" in key]
        if tests:
            old, new = (_realise(tests, weights, actual[run], nodes) for weights in (current, proposed))
            found.append(RunEffect(run=run, tests=len(tests), old=old, new=new))
    return tuple(found)


def _collected(node_id: str, mode: str | None, nodes: Nodes) -> CollectedTest:
    """The test as the plan would see it; without a collect.json, its mode says how many GPUs it has by default."""
    known = Mode(mode) if mode in {each.value for each in Mode} else Mode.CONCURRENT
    default = {Mode.CPU: 0, Mode.CONCURRENT: 1}.get(known, nodes.gpus)
    where, gpus = nodes.widths.get(node_id, (known, default))
    return CollectedTest(id=node_id, file=node_id.partition("::")[0], mode=where, gpus=min(gpus, nodes.gpus))


def _realise(
    tests: list[CollectedTest], weights: Mapping[str, float], actual: Mapping[str, float], nodes: Nodes
) -> Realised:
    startup_ms = round(nodes.startup_seconds * 1000)
    packing = pack(
        tests,
        weigh(tests, weights, unknown_seconds=nodes.unknown_seconds),
        shards=nodes.shards,
        gpus=nodes.gpus,
        cpu_slots=nodes.cpu_slots,
        startup_ms=startup_ms,
    )
    groups = {group.id: _as_it_was(group, actual) for group in packing.groups}
    seconds = []
    for shard in packing.shards:
        if not shard.is_cpu:
            timeline = schedule([groups[name] for name in shard.groups], slots=shard.slots, startup_ms=startup_ms)
            seconds.append(timeline.makespan_ms / 1000)
    return Realised(shard_seconds=tuple(seconds))


def _as_it_was(group: Group, actual: Mapping[str, float]) -> Group:
    tests = tuple(replace(test, weight_ms=round(actual[test.id] * 1000)) for test in group.tests)
    return replace(group, setup_ms=round(actual.get(group.file, 0.0) * 1000), tests=tests)
