"""The classic that the timeline is compared with: LPT on summed seconds, blind to GPUs and processes."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

from shardlib.bounds import Bound
from shardlib.model import Group, PlannedTest


def summed_lpt(whole: Sequence[Group], *, nodes: int, slots: int, startup_ms: int, bound: Bound) -> list[list[Group]]:
    """Return the groups of each node: test by test, heaviest first, onto the node with the least summed weight.

    Longest processing time first (Graham 1969: at most 4/3 - 1/(3m) times the optimum, if a node ran one test after
    the other). The tests of one file, mode and GPU count that meet on a node are a group, in collected order; a node's
    groups are heaviest first. Ties by node id. `slots`, `startup_ms` and `bound` are not looked at: that is its flaw.
    """
    tests = [(n, at, test) for n, group in enumerate(whole) for at, test in enumerate(group.tests)]
    tests.sort(key=lambda entry: (-entry[2].weight_ms, entry[2].id))
    loads = [(0, node) for node in range(nodes)]
    shares: dict[tuple[int, int], list[tuple[int, PlannedTest]]] = {}
    for n, at, test in tests:
        load, node = loads[0]
        heapq.heapreplace(loads, (load + test.weight_ms, node))
        shares.setdefault((node, n), []).append((at, test))
    lists: list[list[Group]] = [[] for _ in range(nodes)]
    for (node, n), members in shares.items():
        members.sort(key=lambda member: member[0])
        group = replace(whole[n], id=f"{whole[n].id}.{node}", tests=tuple(test for _, test in members))
        lists[node].append(group)
    for groups in lists:
        groups.sort(key=lambda group: (-group.cost_ms, group.tests[0].id))
    return lists
