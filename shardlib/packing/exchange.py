"""Improvement by exchange: the fullest lane gives up to two jobs for up to two of an emptier lane, while that helps.

Only lanes that nothing narrower follows take part, so nothing else moves. In the manner of Finn and Horowitz 1979 and of
the exchange step of multi-way number partitioning; each accepted exchange lowers the larger of the two ends.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from shardlib.packing.lanes import Job, Lane

_MOST_JOBS = 20  # of one lane that an exchange looks at: 211 sums of up to two; more cost time and find no more
_MOST_IN_VAIN = 3  # turns without success before we stop: each looks at another sample of a long lane
_MOST_PARTNERS = 12  # emptiest lanes tried for each fullest lane: a guess; the first nearly always works


def polish(lanes: Sequence[Lane], *, startup_ms: int, goal_ms: int, most_steps: int) -> None:
    """Exchange jobs in place until every last lane ends by `goal_ms`, or nothing helps, or the steps are used up."""
    leaves = [lane for lane in lanes if not lane.parted]
    by_width: dict[int, list[tuple[int, int]]] = {}
    for lane in leaves:
        insort(by_width.setdefault(lane.width, []), (lane.end_ms, lane.number))
    for ends in by_width.values():
        in_vain = 0
        for turn in range(most_steps):
            if ends[-1][0] <= goal_ms or in_vain >= _MOST_IN_VAIN:
                break
            in_vain = 0 if _improve(lanes, ends, turn, startup_ms) else in_vain + 1


def _improve(lanes: Sequence[Lane], ends: list[tuple[int, int]], turn: int, startup_ms: int) -> bool:
    full = lanes[ends[-1][1]]
    mine = _sums(full.jobs, turn)
    for _, number in ends[:_MOST_PARTNERS]:
        other = lanes[number]
        gap = full.end_ms - other.end_ms
        if gap <= 1:
            return False
        exchange = _best_exchange(mine, _sums(other.jobs, turn), gap)
        if exchange is None:
            continue
        give, take = exchange
        mine_then = [job for job in full.jobs if job not in give] + take
        other_then = [job for job in other.jobs if job not in take] + give
        if max(_end(full, mine_then, startup_ms), _end(other, other_then, startup_ms)) >= full.end_ms:
            continue  # the exchange would cost a worker's start
        for lane, jobs in ((full, mine_then), (other, other_then)):
            ends.remove((lane.end_ms, lane.number))
            jobs.sort(key=lambda job: (-job.ms, job.name))  # by size, for the next sample
            lane.jobs = jobs
            lane.end_ms = _end(lane, jobs, startup_ms)
            insort(ends, (lane.end_ms, lane.number))
        return True
    return False


def _best_exchange(
    mine: list[tuple[int, list[Job]]], theirs: list[tuple[int, list[Job]]], gap: int
) -> tuple[list[Job], list[Job]] | None:
    """What to give and to take so that about half of the gap changes sides; `None` if no exchange lowers the maximum."""
    values = [ms for ms, _ in theirs]
    best = gap / 2
    found = None
    for ms, give in mine:
        wanted = ms - gap / 2
        place = bisect_left(values, wanted)
        for at in (place - 1, place):
            if 0 <= at < len(values) and abs(values[at] - wanted) < best:
                best = abs(values[at] - wanted)
                found = give, theirs[at][1]
    return found


def _sums(jobs: Sequence[Job], turn: int) -> list[tuple[int, list[Job]]]:
    """Sums of none, one or two jobs, ascending; of a long lane a sample over all sizes, another one every turn."""
    if len(jobs) > _MOST_JOBS:
        jobs = [jobs[(n * len(jobs) // _MOST_JOBS + turn) % len(jobs)] for n in range(_MOST_JOBS)]
    sums: list[tuple[int, list[Job]]] = [(0, [])]
    for n, first in enumerate(jobs):
        sums.append((first.ms, [first]))
        sums.extend((first.ms + second.ms, [first, second]) for second in jobs[:n])
    sums.sort(key=lambda pair: pair[0])
    return sums


def _end(lane: Lane, jobs: Sequence[Job], startup_ms: int) -> int:
    """When the lane ends with these jobs: each kind of living worker is started once."""
    kinds = {job.kind for job in jobs if not job.fresh}
    return lane.start_ms + sum(job.ms for job in jobs) + startup_ms * len(kinds)
