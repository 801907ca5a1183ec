"""`pack`: from tests with weights to shards, with the prediction and the bound that tell how good they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..bounds import Bound, lower_bound
from ..durations import Weights
from ..errors import PlanError
from ..grouping import pieces_for, split, whole_groups
from ..model import CPU_SHARD, CollectedTest, Group, Mode, Shard
from ..timeline import schedule
from .classic import summed_lpt
from .exchange import polish
from .lanes import Job, Lane, as_jobs, fill, node_lists, order

Strategy = Literal["timeline", "lpt"]

_GOOD_ENOUGH = 0.002  # gap at which the search ends, far below what any weight is worth; a floor is reached exactly
_SHARES = (1, 1 / 2, 1 / 4, 1 / 8, 1 / 16)  # longest piece of a file, as a part of the bound: cut no more than needed
_MOST_IN_VAIN = 2  # rounds of cutting further without a better plan before we stop
_TARGETS = (  # times the mean load; 0 is LPT, which loads all nodes alike
    *(0.0, 1.0, 1.001, 1.002, 1.003, 1.004, 1.005, 1.006, 1.007, 1.008, 1.01, 1.015, 1.02, 1.03, 1.04, 1.06, 1.08),
    *(1.12, 1.16, 1.2, 1.25, 1.3, 1.4, 1.5, 1.7, 2.0),
)
_STEPS_PER_LANE = 4  # exchanges: a lane needs one or two


@dataclass(frozen=True, kw_only=True)
class Packing:
    """The groups of a plan and their shards; milliseconds.

    `makespan_ms`, `lower_bound_ms` and `bottleneck` (what the bound comes from, for a person) speak of the shards with
    GPUs; where there are none, of the `cpu` shard. `cpu_makespan_ms` is 0 without a `cpu` shard.
    """

    groups: tuple[Group, ...]
    shards: tuple[Shard, ...]
    makespan_ms: int
    cpu_makespan_ms: int
    lower_bound_ms: int
    bottleneck: str


def pack(
    tests: Sequence[CollectedTest],
    weights: Weights,
    *,
    shards: int,
    gpus: int,
    cpu_slots: int,
    startup_ms: int,
    strategy: Strategy = "timeline",
) -> Packing:
    """Return the tests as groups on shards, for a short makespan; deterministic, whatever the order of the files.

    `timeline` fills lanes by MULTIFIT, polishes them by exchange and cuts files where that helps, until the makespan is
    within 0.2% of the lower bound or nothing helps. `lpt` is the classic, for comparison: see `classic`.

    Args:
        tests: in pytest's order; `cpu` tests go to the shard `cpu`, all others to shards with GPUs.
        weights: from `durations.weigh`, for the same tests.
        shards: nodes with GPUs; those that get no group are left out.
        gpus: GPUs of each.
        cpu_slots: workers of the `cpu` shard.
        startup_ms: what the start of a worker takes.
        strategy: `timeline` or `lpt`.

    Raises:
        PlanError: a test needs more GPUs than a node has, a node id occurs twice, or a count is below 1.
    """
    _check(tests, shards=shards, gpus=gpus, cpu_slots=cpu_slots, startup_ms=startup_ms)
    whole = whole_groups(tests, weights)
    on_cpu = [group for group in whole if group.mode is Mode.CPU]
    on_gpu = [group for group in whole if group.mode is not Mode.CPU]
    solve = _solve if strategy == "timeline" else summed_lpt
    bound = lower_bound(on_gpu, shards=shards, slots=gpus, startup_ms=startup_ms)
    cpu_bound = lower_bound(on_cpu, shards=1, slots=cpu_slots, startup_ms=startup_ms)
    parts = []
    if on_gpu:
        lists = solve(on_gpu, nodes=shards, slots=gpus, startup_ms=startup_ms, bound=bound)
        parts += _shards(lists, slots=gpus, startup_ms=startup_ms)
    if on_cpu:
        lists = solve(on_cpu, nodes=1, slots=cpu_slots, startup_ms=startup_ms, bound=cpu_bound)
        parts += _shards(lists, slots=cpu_slots, startup_ms=startup_ms, name=CPU_SHARD)
    return _packing(parts, bound if on_gpu else cpu_bound)


def _check(tests: Sequence[CollectedTest], *, shards: int, gpus: int, cpu_slots: int, startup_ms: int) -> None:
    for name, value, least in (
        ("shards", shards, 1),
        ("gpus", gpus, 1),
        ("cpu_slots", cpu_slots, 1),
        ("startup_ms", startup_ms, 0),
    ):
        if value < least:
            raise PlanError(f"{name} is {value}; it must be at least {least}")
    for test in tests:
        if test.gpus > gpus:
            raise PlanError(f"{test.id!r} needs {test.gpus} GPUs, a node has {gpus}; plan with --gpus {test.gpus}")


def _solve(whole: Sequence[Group], *, nodes: int, slots: int, startup_ms: int, bound: Bound) -> list[list[Group]]:
    """The groups of each node in planned-start order; files in as few pieces as reach the goal."""
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

    Only the longest of those are cut: every cut costs a setup.
    """
    in_vain = 0
    while True:
        ordered = sorted((job for pieces in jobs.values() for job in pieces), key=order)
        lanes = _best_lanes(ordered, nodes=nodes, slots=slots, startup_ms=startup_ms, goal_ms=goal_ms, known=best)
        in_vain = in_vain + 1 if lanes is best else 0
        best = lanes
        if _end(best) <= goal_ms or in_vain >= _MOST_IN_VAIN:
            return best
        _, late = fill(ordered, nodes=nodes, slots=slots, startup_ms=startup_ms, target_ms=goal_ms)
        late = [job for job in late if len(job.group.tests) > 1]
        longest = max((job.ms for job in late), default=0)
        names = {job.group.id.partition(".")[0] for job in late if 2 * job.ms >= longest}
        if not names:
            return best
        for group in (group for group in whole if group.id in names):
            jobs[group.id] = as_jobs(split(group, len(jobs[group.id]) + 1), slots, startup_ms)


def _best_lanes(
    jobs: Sequence[Job], *, nodes: int, slots: int, startup_ms: int, goal_ms: int, known: list[Lane]
) -> list[Lane]:
    """The lanes that end first of those that the targets give and of those `known` before."""
    held_ms = sum(job.ms * job.kind[0] for job in jobs)
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


def _shards(
    lists: Sequence[Sequence[Group]], *, slots: int, startup_ms: int, name: str | None = None
) -> list[tuple[Shard, list[Group]]]:
    """The shards that have groups, longest first, their groups in the order in which the timeline starts them."""
    drafts = []
    for groups in lists:
        if groups:
            timeline = schedule(groups, slots=slots, startup_ms=startup_ms)
            by_id = {group.id: group for group in groups}
            drafts.append((timeline.makespan_ms, [by_id[entry.group] for entry in timeline.entries]))
    drafts.sort(key=lambda draft: (-draft[0], draft[1][0].tests[0].id))
    digits = max(2, len(str(len(drafts))))
    return [
        (Shard(name=name or f"{number:0{digits}}", slots=slots, groups=(), predicted_ms=predicted_ms), groups)
        for number, (predicted_ms, groups) in enumerate(drafts, start=1)
    ]


def _packing(parts: Sequence[tuple[Shard, list[Group]]], bound: Bound) -> Packing:
    """The parts with the groups' final ids: by file, mode, GPUs, then as collected."""
    groups = [group for _, part in parts for group in part]
    ordered = sorted(groups, key=lambda g: (g.file, g.mode.value, g.gpus, _piece(g.id)))
    digits = max(5, len(str(len(ordered))))
    names = {group.id: f"g{number:0{digits}}" for number, group in enumerate(ordered, start=1)}
    shards = tuple(replace(shard, groups=tuple(names[group.id] for group in part)) for shard, part in parts)
    cpu = max((shard.predicted_ms for shard in shards if shard.is_cpu), default=0)
    return Packing(
        groups=tuple(replace(group, id=names[group.id]) for group in ordered),
        shards=shards,
        makespan_ms=max((shard.predicted_ms for shard in shards if not shard.is_cpu), default=cpu),
        cpu_makespan_ms=cpu,
        lower_bound_ms=bound.ms,
        bottleneck=bound.why,
    )


def _piece(draft_id: str) -> int:
    """Which piece of its file a group is: 0 for a whole one."""
    return int(draft_id.partition(".")[2] or 0)
