"""How others would put the same tests on the same nodes; their lists are run by the same timeline as ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from benchmarks.suites import Suite
from shardlib.bounds import Bound
from shardlib.dispatch import width_on
from shardlib.durations import Weights
from shardlib.grouping import pieces_for, split, whole_groups
from shardlib.model import CollectedTest, Group

SHARDS, GPUS = 12, 8

Lists = list[list[Group]]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One suite, weighed, with its bound: what every contender gets."""

    variant: str
    suite: Suite
    weights: Weights
    whole: list[Group]
    bound: Bound
    startup_ms: int


@dataclass(frozen=True)
class _Item:
    """What pytest-split asks of a pytest item."""

    nodeid: str

    def __str__(self) -> str:
        return self.nodeid


def round_robin(case: Case) -> Lists:
    """Every twelfth test, as most CI matrices do it."""
    return _in_order(case, [case.suite.tests[shard::SHARDS] for shard in range(SHARDS)])


def split_chunks(case: Case) -> Lists | None:
    """pytest-split's default algorithm."""
    return _pytest_split(case, "duration_based_chunks")


def split_least(case: Case) -> Lists | None:
    """pytest-split's least_duration."""
    return _pytest_split(case, "least_duration")


def two_phase(case: Case) -> Lists:
    """Mode-aware greedy: files, cut at a quarter of the bound, to the node with the least GPU time; then widest first."""
    startup_ms = case.startup_ms
    pieces = [
        piece for group in case.whole for piece in split(group, pieces_for(group, case.bound.ms // 4, startup_ms))
    ]

    def area(group: Group) -> int:
        return (group.cost_ms + startup_ms * group.mode.fresh_process) * width_on(group, GPUS)

    lists: Lists = [[] for _ in range(SHARDS)]
    loads = [0] * SHARDS
    for piece in sorted(pieces, key=lambda piece: (-area(piece), piece.tests[0].id)):
        node = loads.index(min(loads))
        lists[node].append(piece)
        loads[node] += area(piece)
    return [sorted(groups, key=lambda g: (-width_on(g, GPUS), -g.cost_ms, g.tests[0].id)) for groups in lists]


CONTENDERS: dict[str, Callable[[Case], Lists | None]] = {
    "round-robin": round_robin,
    "split chunks": split_chunks,
    "split least": split_least,
    "two-phase": two_phase,
}


def _pytest_split(case: Case, name: str) -> Lists | None:
    """Its own code, on its own view of the suite: node ids and seconds. `None` where it crashes."""
    from pytest_split.algorithms import Algorithms

    by_id = {test.id: test for test in case.suite.tests}
    seconds = {key: value for key, value in case.suite.durations.items() if key in by_id}
    try:
        parts = Algorithms[name].value(SHARDS, [_Item(key) for key in by_id], seconds)
    except IndexError:  # its chunks run past the last one when durations are zero
        return None
    return _in_order(case, [[by_id[item.nodeid] for item in part.selected] for part in parts])


def _in_order(case: Case, shares: Sequence[Sequence[CollectedTest]]) -> Lists:
    """Each node's tests as groups, in the order of collection: what a runner gets that is told only what to run."""
    lists = []
    for share in shares:
        groups = {group.tests[0].id: group for group in whole_groups(share, case.weights)}
        first = [groups[test.id] for test in share if test.id in groups]
        lists.append([replace(group, id=f"{n}") for n, group in enumerate(first)])
    return lists
