"""Tests with weights become groups: those of one file, mode and GPU count, cut into pieces where that helps. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from shardlib.durations import Weights
from shardlib.errors import PlanError
from shardlib.model import CollectedTest, Group, Mode, PlannedTest


def whole_groups(tests: Iterable[CollectedTest], weights: Weights) -> list[Group]:
    """Return one group for each file, mode and GPU count, in that order; ids are unique, but not yet the plan's.

    The tests of a group keep the order in which they were collected; the order of files does not matter.

    Raises:
        PlanError: a node id occurs twice, or a test has no weight.
    """
    by_key: dict[tuple[str, str, int], list[CollectedTest]] = {}
    seen: set[str] = set()
    for test in tests:
        if test.id in seen:
            raise PlanError(f"the test {test.id!r} was collected twice; give each parameter an id of its own")
        seen.add(test.id)
        by_key.setdefault((test.file, test.mode.value, test.gpus), []).append(test)
    return [
        Group(
            id=f"{number}",
            file=file,
            mode=Mode(mode),
            gpus=gpus,
            setup_ms=weights.setup_ms.get(file, 0),
            tests=tuple(_planned(test, weights) for test in members),
        )
        for number, ((file, mode, gpus), members) in enumerate(sorted(by_key.items()))
    ]


def split(group: Group, pieces: int) -> list[Group]:
    """Return the group cut into at most so many runs of consecutive tests, as equal in weight as single tests allow.

    Each cut lies at the test nearest to its ideal place. Every piece has a test and pays the file's setup.
    """
    pieces = min(pieces, len(group.tests))
    if pieces <= 1:
        return [group]
    ends = list(accumulate(test.weight_ms for test in group.tests))
    cuts = [0, *sorted({_nearest(ends, ends[-1] * number, pieces) for number in range(1, pieces)}), len(ends)]
    return [
        replace(group, id=f"{group.id}.{number}", tests=group.tests[start:stop])
        for number, (start, stop) in enumerate(pairwise(cuts))
    ]


def pieces_for(group: Group, target_ms: int, startup_ms: int) -> int:
    """Return into how many pieces to cut a group so that none takes much longer than `target_ms`; 1: leave it whole.

    What every piece pays again (the setup; the start too, where a group needs a fresh process) counts in the target.
    """
    again = group.setup_ms + (startup_ms if group.mode.fresh_process else 0)
    work = group.cost_ms - group.setup_ms
    if again + work <= target_ms:
        return 1
    return -(-work // max(target_ms - again, again, 1))  # shorter pieces would cost more than they move


def _planned(test: CollectedTest, weights: Weights) -> PlannedTest:
    weight = weights.by_id.get(test.id)
    if weight is None:
        raise PlanError(f"the test {test.id!r} has no weight; weigh the tests that are planned")
    return PlannedTest(
        id=test.id, weight_ms=weight.ms, source=weight.source, timeout_seconds=test.timeout_seconds, why=test.why
    )


def _nearest(ends: Sequence[int], total: int, pieces: int) -> int:
    """How many tests end nearest to `total / pieces`: at least one, and not all."""
    after = bisect_left(ends, total / pieces)
    if after > 0 and total - ends[after - 1] * pieces <= ends[after] * pieces - total:
        after -= 1
    return min(max(after + 1, 1), len(ends) - 1)
