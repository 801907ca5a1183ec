"""`pack`: from tests with weights to shards, with the prediction and the bound that tell how good they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from shardlib.bounds import Bound, lower_bound
from shardlib.durations import Weights
from shardlib.errors import PlanError
from shardlib.grouping import whole_groups
from shardlib.model import CPU_SHARD, CollectedTest, Group, Mode, Shard
from shardlib.packing.classic import summed_lpt
from shardlib.packing.search import search
from shardlib.timeline import schedule

Strategy = Literal["timeline", "lpt"]


@dataclass(frozen=True, kw_only=True)
class Packing:
    """The groups of a plan and their shards; milliseconds.

    `makespan_ms`, `lower_bound_ms` and `bottleneck` (what the bound comes from, for a person) speak of the shards with
    GPUs; where there are none, of the `cpu` shard.
    """

    groups: tuple[Group, ...]
    shards: tuple[Shard, ...]
    makespan_ms: int
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

    `timeline` searches for a makespan close to the lower bound: see `search`. `lpt` is the classic, for comparison: see
    `classic`.

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
    solve = search if strategy == "timeline" else summed_lpt
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
        lower_bound_ms=bound.ms,
        bottleneck=bound.why,
    )


def _piece(draft_id: str) -> int:
    """Which piece of its file a group is: 0 for a whole one."""
    return int(draft_id.partition(".")[2] or 0)
