"""What no plan can beat: lower bounds on the makespan, whatever is cut where and put in whatever order. Pure.

Every plan obeys these facts, on `shards` nodes of `slots` slots, with C its makespan and s the start of a worker:

1. A test runs in a worker that has started, after at least one setup of its file, the longest test of a file included:
   C >= s + setup + longest test.
2. A worker holds its slots for its start and its work, at most C - s of it; one that needs a fresh process does one
   group, and a file gives at least one. So kind k (mode and width w) with work A needs
   N >= max(files if fresh, ceil(A / (C - s))) workers, and the sum over kinds of w (A + s N) is at most C shards slots.
3. At most slots // w workers of width w or more live on a node at a time; by their lifetimes they can be put on
   M = shards (slots // w) machines (colouring of an interval graph). So fact 2 holds on those M machines with each
   such worker counted once, and no assignment of their tests to M machines ends before the P||Cmax bound below. A
   file's longest test can be charged with its setup, because the process that runs it pays one. Either nothing runs
   before s, or each file's longest test is charged with its fresh process's start too.

For P||Cmax (Graham's notation: M identical machines, jobs p_1 >= p_2 >= ...), for every k <= M and n' <= n: some k
machines run at least lam = k (n' // M) + min(k, n' % M) of the n' longest jobs, so C >= (sum of the lam shortest of the
n' longest) / k. Between multiples of M the best n' is q M + k, which leaves O(n + M) sums of O(1) with prefix sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from shardlib.dispatch import width_on
from shardlib.model import Group


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A lower bound in milliseconds, and what it comes from, as a sentence for a person.

    `is_longest_test`: a single test is the floor.
    """

    ms: int
    why: str
    is_longest_test: bool = False


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """The work of one mode and width: milliseconds in workers of `width` slots, and the workers it needs at least."""

    width: int
    work_ms: int
    least_workers: int

    def held_ms(self, makespan_ms: int, startup_ms: int) -> int:
        """Milliseconds that its workers hold their slots, if all ends by `makespan_ms`."""
        workers = max(self.least_workers, -(-self.work_ms // (makespan_ms - startup_ms)))
        return self.work_ms + startup_ms * workers


def lower_bound(groups: Sequence[Group], *, shards: int, slots: int, startup_ms: int) -> Bound:
    """Return the largest lower bound on the makespan of any plan for these tests.

    Args:
        groups: whole groups, one for each file, mode and GPU count; how a plan cuts them is left open.
        shards: nodes.
        slots: slots of each node; no group may be wider.
        startup_ms: what a worker's start takes.
    """
    if not groups:
        return Bound(ms=0, why="nothing to run")
    bounds = [_longest(groups, startup_ms), _area(groups, shards=shards, slots=slots, startup_ms=startup_ms)]
    for width in sorted({width_on(group, slots) for group in groups}):
        wide = [group for group in groups if width_on(group, slots) >= width]
        machines = shards * (slots // width)
        bounds.append(_count(wide, width, slots=slots, machines=machines, startup_ms=startup_ms))
    return max(bounds, key=lambda bound: bound.ms)  # the first of equals: the plainest reason


def longest_jobs_bound(jobs_ms: Sequence[int], machines: int) -> int:
    """Return the P||Cmax bound of the module's docstring, in whole milliseconds, in O(n log n + machines)."""
    jobs = sorted(jobs_ms, reverse=True)
    sums = [0, *accumulate(jobs)]
    best = 0
    for start in range(0, len(jobs), machines):  # start = q M
        q = start // machines
        for k in range(1, machines + 1):
            last = min(start + k, len(jobs))
            best = max(best, -(-(sums[last] - sums[q * (machines - k)]) // k))
    return best


def _longest(groups: Sequence[Group], startup_ms: int) -> Bound:
    ms, name = max(
        ((group.setup_ms + test.weight_ms, test.id) for group in groups for test in group.tests),
        key=lambda pair: pair[0],
    )
    ms += startup_ms
    why = f"the longest test is the floor: more shards will not help ({duration(ms)}: {name})"
    return Bound(ms=ms, why=why, is_longest_test=True)


def _area(groups: Sequence[Group], *, shards: int, slots: int, startup_ms: int) -> Bound:
    kinds = _kinds(groups, slots)
    ms = _smallest([(kind.width, kind) for kind in kinds], shards * slots, startup_ms)
    hours = sum(kind.width * kind.work_ms for kind in kinds) / 3_600_000
    return Bound(
        ms=ms, why=f"the sum of the work: {hours:.2f} slot-hours on {shards} x {slots} slots; more shards help"
    )


def _count(groups: Sequence[Group], width: int, *, slots: int, machines: int, startup_ms: int) -> Bound:
    """Facts 3: what needs `width` slots or more, on as many machines as can be had at a time."""
    ms = _smallest([(1, kind) for kind in _kinds(groups, slots)], machines, startup_ms)
    ms = max(ms, startup_ms + longest_jobs_bound(_jobs(groups, 0), machines))
    if startup_ms and any(group.mode.fresh_process for group in groups):
        ms = max(ms, longest_jobs_bound(_jobs(groups, startup_ms), machines))
    what = f"what needs {width} or more slots" if width > 1 else "the number of long tests"
    return Bound(ms=ms, why=f"{what}: only {machines} can run at a time; more shards help")


def _kinds(groups: Sequence[Group], slots: int) -> list[_Kind]:
    totals: dict[tuple[str, int], tuple[int, int]] = {}
    for group in groups:
        key = (group.mode.value, width_on(group, slots))
        work, workers = totals.get(key, (0, 0))
        totals[key] = (work + group.cost_ms, workers + (1 if group.mode.fresh_process else 0))
    return [_Kind(width=width, work_ms=work, least_workers=workers) for (_, width), (work, workers) in totals.items()]


def _smallest(kinds: Sequence[tuple[int, _Kind]], machines: int, startup_ms: int) -> int:
    """The smallest C with sum of factor * held(C) <= C * machines; by bisection, since held falls as C grows."""
    low = startup_ms  # nothing is done by then
    high = startup_ms + 1 + sum(f * (kind.work_ms + startup_ms * max(1, kind.least_workers)) for f, kind in kinds)
    while high - low > 1:
        middle = (low + high) // 2
        if sum(factor * kind.held_ms(middle, startup_ms) for factor, kind in kinds) <= middle * machines:
            high = middle
        else:
            low = middle
    return high


def _jobs(groups: Sequence[Group], fresh_start_ms: int) -> list[int]:
    """The tests as jobs; a file's longest is charged with its setup, and with a start if it needs a fresh process."""
    jobs: list[int] = []
    for group in groups:
        own = sorted((test.weight_ms for test in group.tests), reverse=True)
        own[0] += group.setup_ms + (fresh_start_ms if group.mode.fresh_process else 0)
        jobs.extend(own)
    return jobs


def duration(ms: int) -> str:
    """Return milliseconds as a person reads them: `0.4 s`, `12.3 s`, `4 min 05 s`."""
    seconds = ms / 1000
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    return f"{round(seconds) // 60} min {round(seconds) % 60:02d} s"
