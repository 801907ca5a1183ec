"""The search for a plan close to the lower bound: the best lanes, with files in as few pieces as will do."""

from __future__ import annotations

from collections.abc import Sequence

from shardlib.bounds import Bound
from shardlib.grouping import pieces_for, split
from shardlib.model import Group
from shardlib.packing.exchange import polish
from shardlib.packing.lanes import Job, Lane, as_jobs, fill, node_lists, order

_GOOD_ENOUGH = 0.002  # gap at which the search ends, far below what any weight is worth; a floor is reached exactly
_SHARES = (1, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1.15)  # longest piece of a file, in bounds; the last where setups are dear
_MOST_ROUNDS = 16  # of cutting further from one share on: a guess; real sets need up to ten
_MOST_IN_VAIN = 2  # of them without a better plan before we stop
_TARGETS = (  # times the mean load; 0 is LPT, which loads all nodes alike
    *(0.0, 1.0, 1.001, 1.002, 1.003, 1.004, 1.005, 1.006, 1.007, 1.008, 1.01, 1.015, 1.02, 1.03, 1.04, 1.06, 1.08),
    *(1.12, 1.16, 1.2, 1.25, 1.3, 1.4, 1.5, 1.7, 2.0),
)
_STEPS_PER_LANE = 4  # exchanges: a lane needs one or two


def search(whole: Sequence[Group], *, nodes: int, slots: int, startup_ms: int, bound: Bound) -> list[list[Group]]:
    """Return the groups of each node, in planned-start order, for a short makespan.

    Lanes are filled by MULTIFIT and polished by exchange, with files in as few pieces as bring the makespan within
    0.2% of the bound (to the bound itself where one test is the floor), or else as close as can be found. Global list
    scheduling with backfilling was tried beside it: in no order did it win by more than 0.02% on average.
    """
    goal_ms = bound.ms if bound.is_longest_test else int(bound.ms * (1 + _GOOD_ENOUGH))
    best: list[Lane] = []
    for share in _SHARES:
        jobs = {
            group.id: as_jobs(split(group, pieces_for(group, int(bound.ms * share), startup_ms)), slots, startup_ms)
            for group in whole
        }
        best = _cut_further(whole, jobs, best, nodes=nodes, slots=slots, startup_ms=startup_ms, goal_ms=goal_ms)
        if _end(best) <= goal_ms:
            break
    return node_lists(best, nodes=nodes, startup_ms=startup_ms)


def _cut_further(
    whole: Sequence[Group],
    jobs: dict[str, list[Job]],
    best: list[Lane],
    *,
    nodes: int,
    slots: int,
    startup_ms: int,
    goal_ms: int,
) -> list[Lane]:
    """The best lanes for these pieces, cutting once more what finds no place before the goal, while that helps.

    Only the longest of those are cut, and only where more work moves than the setup that the cut costs.
    """
    in_vain = 0
    for _ in range(_MOST_ROUNDS):
        ordered = sorted((job for pieces in jobs.values() for job in pieces), key=order)
        lanes = _best_lanes(ordered, nodes=nodes, slots=slots, startup_ms=startup_ms, goal_ms=goal_ms, known=best)
        in_vain = in_vain + 1 if lanes is best else 0
        best = lanes
        if _end(best) <= goal_ms or in_vain >= _MOST_IN_VAIN:
            return best
        _, late = fill(ordered, nodes=nodes, slots=slots, startup_ms=startup_ms, target_ms=goal_ms)
        late = [job for job in late if len(job.group.tests) > 1 and job.ms >= 3 * job.again_ms]
        longest = max((job.ms for job in late), default=0)
        names = {job.group.id.partition(".")[0] for job in late if 2 * job.ms >= longest}
        if not names:
            return best
        for group in (group for group in whole if group.id in names):
            jobs[group.id] = as_jobs(split(group, len(jobs[group.id]) + 1), slots, startup_ms)
    return best


def _best_lanes(
    jobs: Sequence[Job], *, nodes: int, slots: int, startup_ms: int, goal_ms: int, known: list[Lane]
) -> list[Lane]:
    """The lanes that end first of those that the targets give and of those `known` before."""
    held_ms = max(1, sum(job.ms * job.kind[0] for job in jobs))
    shared_ms = sum(job.ms * job.kind[0] for job in jobs if not job.fresh)
    mean_ms = held_ms / (nodes * slots) + startup_ms * shared_ms / held_ms  # fresh processes' starts are in their jobs
    best = known
    targets = {int(mean_ms * factor) for factor in _TARGETS} | {goal_ms}
    for target_ms in sorted(targets if not known else targets - {0}):
        if best and target_ms >= _end(best):
            break
        lanes, _ = fill(jobs, nodes=nodes, slots=slots, startup_ms=startup_ms, target_ms=target_ms)
        polish(lanes, startup_ms=startup_ms, goal_ms=goal_ms, most_steps=_STEPS_PER_LANE * nodes * slots)
        if not best or _end(lanes) < _end(best):
            best = lanes
        if _end(best) <= goal_ms or _end(lanes) <= target_ms:
            break  # a later target only lets lanes end later
    return best


def _end(lanes: Sequence[Lane]) -> int:
    return max(lane.end_ms for lane in lanes)
