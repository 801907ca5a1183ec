"""A plan for a person (a table) and for Argo (the list of shards to fan out over). Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from shardlib.model import Mode, Shard
from shardlib.plan import Plan
from shardlib.running.limits import test_limit_seconds

_BAR = 24  # characters of the longest shard's bar

# The pod's deadline only ends what our own limits missed, so it is generous; both values are guesses.
_DEADLINE_FACTOR = 3
_IMAGE_PULL_SECONDS = 900  # a pod's deadline counts from its binding to a node, the pull of a 20 GB image inside


def table(plan: Plan) -> str:
    """Returns the plan as lines of text: each shard's predicted wall time, and how good the whole is."""
    tests = sum(len(group.tests) for group in plan.groups)
    files = len({group.file for group in plan.groups})
    on_gpu = [shard for shard in plan.shards if not shard.is_cpu]
    nodes = f"{len(on_gpu)} shards of {on_gpu[0].slots} GPUs" if on_gpu else "no shard needs a GPU"
    longest = max(shard.predicted_ms for shard in plan.shards)
    rows: list[tuple[str, ...]] = [("shard", "predicted", "", "groups", "tests", "modes")]
    rows += [_row(plan, shard, longest) for shard in plan.shards]
    return "\n".join(
        [f"{tests} tests in {files} files: {nodes}, strategy {plan.strategy}", "", *_aligned(rows), "", *_summary(plan)]
    )


def fan_out(plan: Plan, most_seconds: int | None = None) -> str:
    """Returns the JSON list that Argo fans out over: the GPU shards, in texts that are made from integers only.

    No deadline is above `most_seconds`: a pull request can claim any timeout for its tests.
    """
    shards = [shard for shard in plan.shards if not shard.is_cpu]
    return json.dumps(
        [
            {
                "shard": shard.name,
                "of": f"{len(shards):02}",
                "minutes": _tenths(shard.predicted_ms, 60_000),
                "deadline": str(deadline_seconds(plan, shard, most_seconds)),
            }
            for shard in shards
        ],
        separators=(",", ":"),
    )


def parameters(plan: Plan, most_seconds: int | None = None) -> dict[str, str]:
    """Returns what a workflow asks of the plan beside the fan-out, in texts made from numbers only.

    `gpu-shards` and `cpu-shards` are counts, `cpu-minutes` and `cpu-deadline` (seconds) those of the shard `cpu`, "0"
    where there is none; `prediction` is for a person.
    """
    cpu = [shard for shard in plan.shards if shard.is_cpu]
    told = plan.prediction
    return {
        "gpu-shards": str(len(plan.shards) - len(cpu)),
        "cpu-shards": str(len(cpu)),
        "cpu-minutes": _tenths(cpu[0].predicted_ms, 60_000) if cpu else "0",
        "cpu-deadline": str(deadline_seconds(plan, cpu[0], most_seconds) if cpu else 0),
        "prediction": (
            f"{sum(len(group.tests) for group in plan.groups)} tests, makespan {_tenths(told.makespan_ms, 60_000)} min, "
            f"lower bound {_tenths(told.lower_bound_ms, 60_000)} min; "
            f"weights {told.known} known, {told.estimated} estimated, {told.stale} stale"
        ),
    }


def deadline_seconds(plan: Plan, shard: Shard, most: int | None = None) -> int:
    """Returns the pod's deadline, rounded up to a minute, at most `most`.

    Three times the prediction, and on top what may happen once on a bad day: an image pull, dirty GPUs, a slow worker
    start and collection, one test that hangs until its limit, and the worker's end.
    """
    settings = plan.settings
    hang = max(test_limit_seconds(test, group, settings) for group in plan.groups_of(shard) for test in group.tests)
    seconds = (
        _DEADLINE_FACTOR * shard.predicted_ms / 1000
        + _IMAGE_PULL_SECONDS
        + settings.gpu_wait_seconds
        + settings.start_timeout_seconds
        + settings.collect_timeout_seconds
        + hang
        + settings.end_timeout_seconds
        + settings.kill_grace_seconds
    )
    rounded = int(-(-seconds // 60) * 60)
    return rounded if most is None else min(rounded, most)


def duration(ms: int) -> str:
    """Returns milliseconds for a person: `3.2 s`, `13m 20s`, `2h 05m`."""
    seconds = ms / 1000
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m {rest:02}s" if minutes < 60 else f"{minutes // 60}h {minutes % 60:02}m"


def _row(plan: Plan, shard: Shard, longest: int) -> tuple[str, ...]:
    groups = plan.groups_of(shard)
    modes = Counter(group.mode for group in groups for _ in group.tests)
    bar = "#" * round(_BAR * shard.predicted_ms / longest) if longest else ""
    return (
        shard.name,
        duration(shard.predicted_ms),
        bar,
        str(len(groups)),
        str(sum(modes.values())),
        ", ".join(f"{modes[mode]} {mode.value}" for mode in Mode if modes[mode]),
    )


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Returns rows as lines; the columns of numbers are aligned to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    right = {1, 3, 4}
    return [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _summary(plan: Plan) -> list[str]:
    told = plan.prediction
    lines = [
        f"makespan     {duration(told.makespan_ms)}, lower bound {duration(told.lower_bound_ms)}, gap {told.gap:.2%}",
        f"bottleneck   {told.bottleneck}",
        f"weights      {told.known} known, {told.estimated} estimated, {told.stale} stale",
    ]
    price = plan.settings.gpu_hour_price
    if price is not None:
        gpu_hours = sum(shard.slots * shard.predicted_ms for shard in plan.shards if not shard.is_cpu) / 3_600_000
        lines.append(f"cost         {gpu_hours * price:.2f} ({gpu_hours:.2f} GPU-hours at {price:g})")
    return lines


def _tenths(value: int, unit: int) -> str:
    """Returns value/unit with one decimal, by integers."""
    tenths = (20 * value + unit) // (2 * unit)
    return f"{tenths // 10}.{tenths % 10}"
