"""`shardlib explain`: says of one test where it runs, when, and why."""

from __future__ import annotations

import argparse
import difflib
from pathlib import Path

from shardlib.errors import Exit, UsageError
from shardlib.fields import short
from shardlib.model import WeightSource
from shardlib.plan import Plan
from shardlib.reports.plan_table import duration
from shardlib.runfolder import RunFolder
from shardlib.running.limits import test_limit_seconds
from shardlib.timeline import schedule

_COMPARED = 20_000  # ids that difflib looks at: more would take minutes

_SOURCES = {
    WeightSource.KNOWN: "known: it is in the durations file",
    WeightSource.SKIPPED: "known: 0 in the durations file, since it was always skipped",
    WeightSource.FUNCTION: "estimated: the median of the same function's other parameters",
    WeightSource.FILE: "estimated: the median of the same file's tests",
    WeightSource.MODE: "estimated: the median of the same mode's tests",
    WeightSource.UNKNOWN: "estimated: the setting unknown_seconds",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    parser.add_argument("--run", type=Path, required=True, metavar="RUN", help="the run's folder")
    parser.add_argument("node_id", metavar="NODE_ID", help="as pytest writes it: tests/test_a.py::test_b[1]")


def main(args: argparse.Namespace) -> int:
    """Prints what the plan says of the test; returns 0, or raises UsageError with ids that look like it."""
    print(explain(RunFolder(args.run).read_plan(), args.node_id))
    return Exit.GREEN


def explain(plan: Plan, node_id: str) -> str:
    """Returns lines of text on a test of the plan; UsageError if it is not there."""
    group = plan.group_of.get(node_id)
    if group is None:
        raise UsageError(f"{short(node_id)} is not in the plan{_similar(plan, node_id)}")
    shard = plan.shard_of[group.id]
    at = next(index for index, test in enumerate(group.tests) if test.id == node_id)
    test = group.tests[at]
    startup_ms = round(plan.settings.startup_seconds * 1000)
    timeline = schedule(plan.groups_of(shard), slots=shard.slots, startup_ms=startup_ms)
    entry = next(entry for entry in timeline.entries if entry.group == group.id)
    before = sum(earlier.weight_ms for earlier in group.tests[:at])
    start_ms = entry.start_ms + (startup_ms if entry.started else 0) + group.setup_ms + before
    holds = f"{group.gpus} GPU{'' if group.gpus == 1 else 's'}" if group.gpus else "no GPU"
    worker = "a worker that starts for it" if entry.started else "a worker that ran another group before"
    limit = test_limit_seconds(test, group, plan.settings)
    of = "" if shard.is_cpu else f" of {sum(not other.is_cpu for other in plan.shards)}"  # as `run` counts
    lines = [
        ("mode", f"{group.mode.value}, {holds}; by {test.why or 'an unknown rule'}"),
        ("weight", f"{duration(test.weight_ms)}, {_SOURCES[test.source]}"),
        ("shard", f"{shard.name}{of}, predicted {duration(shard.predicted_ms)}"),
        ("group", f"{group.id}, {shard.groups.index(group.id) + 1} of {len(shard.groups)} in the shard; in {worker}"),
        (
            "position",
            f"{at + 1} of {len(group.tests)} in the group, after {duration(group.setup_ms)} of the file's setup",
        ),
        ("start", f"{duration(start_ms)} after the shard's start, as predicted"),
        (
            "limit",
            f"{duration(round(limit * 1000))}, then its process is killed; {_limit_reason(test.timeout_seconds, test.source)}",
        ),
    ]
    return "\n".join(
        [node_id if node_id.isprintable() else repr(node_id), *(f"  {name:9} {text}" for name, text in lines)]
    )


def _limit_reason(timeout_seconds: float | None, source: WeightSource) -> str:
    if timeout_seconds is not None:
        return "pytest-timeout's limit and timeout_marker_margin_seconds"
    if source is WeightSource.KNOWN:
        return "timeout_factor times its weight, setup and start, at least min_timeout_seconds"
    if source is WeightSource.SKIPPED:
        return "max_test_seconds, since it was always skipped: what it takes if it runs is unknown"
    return "max_test_seconds, since its weight is an estimate"


def _similar(plan: Plan, node_id: str) -> str:
    """Returns the hint: ids that contain the text, else ids that look like it."""
    ids = list(plan.group_of)
    near = [known for known in ids if node_id in known][:5]
    near = near or difflib.get_close_matches(node_id, ids[:_COMPARED], n=5, cutoff=0.5)
    if not near:
        return "; `pytest --collect-only -q` lists what pytest finds"
    return "; did you mean\n" + "\n".join(f"  {short(known)}" for known in near)
