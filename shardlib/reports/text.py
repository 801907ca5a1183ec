"""What `verify` prints: the verdict first, then failures, then times predicted and actual. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from shardlib.escape import printable
from shardlib.model import Shard
from shardlib.plan import Plan
from shardlib.reports.measure import Measures, ShardMeasure
from shardlib.reports.run import cost, idle_gpu_seconds
from shardlib.verdict import CountedTest, Reason, Verdict

SHOWN_REASONS = 25  # what a person reads in a terminal; the reports have all
_SHOWN_TESTS = 10
_SHOWN_SHARDS = 20
_BAR = 20


def verdict_lines(plan: Plan, verdict: Verdict, measures: Measures) -> Iterator[str]:
    """Yields the lines of a terminal's report, none of which a node id can begin or break."""
    yield headline(plan, verdict)
    for reason in verdict.reasons[:SHOWN_REASONS]:
        yield f"  {reason_line(reason)}"
    if len(verdict.reasons) > SHOWN_REASONS:
        yield f"  ... and {len(verdict.reasons) - SHOWN_REASONS} more; run.json and junit.xml have all"
    for title, tests in notable(verdict):
        yield f"{title}: {len(tests)}"
        yield from (f"  {printable(test.planned.id)}" for test in tests[:_SHOWN_TESTS])
    yield ""
    yield from shard_table(plan, measures)
    yield ""
    yield makespan_line(plan, measures)
    yield from cost_lines(plan, measures)


def headline(plan: Plan, verdict: Verdict) -> str:
    """Returns the verdict and the outcomes' counts in one line."""
    counts = Counter(test.outcome for test in verdict.tests)
    outcomes = ", ".join(f"{count} {outcome.value.replace('_', ' ')}" for outcome, count in sorted(counts.items()))
    if verdict.green:
        return f"GREEN: {len(verdict.tests)} tests in {len(plan.shards)} shards, each counted exactly once ({outcomes})"
    what = "reason" if len(verdict.reasons) == 1 else "reasons"
    return f"RED: {len(verdict.reasons)} {what}; {len(verdict.tests)} tests in {len(plan.shards)} shards ({outcomes})"


def verdict_line(plan: Plan, verdict: Verdict) -> str:
    """Returns the verdict in one line with the shards that are red, the number of their reasons, and the first reason."""
    if verdict.green:
        return headline(plan, verdict)
    red = Counter(reason.shard for reason in verdict.reasons if reason.shard is not None)
    shards = ", ".join(f"{name} ({count})" for name, count in sorted(red.items())[:_SHOWN_SHARDS])
    more = f" and {len(red) - _SHOWN_SHARDS} more" if len(red) > _SHOWN_SHARDS else ""
    named = f"; red shards: {shards}{more}" if red else ""
    return f"{headline(plan, verdict)}{named}; first: {reason_line(verdict.reasons[0])}"


def reason_line(reason: Reason) -> str:
    """Returns one printable line for a reason."""
    if reason.id is None:
        return printable(reason.text)
    return f"{printable(reason.id)} [shard {reason.shard}, {reason.group}] {printable(reason.text)}"


def notable(verdict: Verdict) -> list[tuple[str, list[CountedTest]]]:
    """Returns the lists worth naming beside the reasons, with their titles; empty ones are left out."""
    lists = [
        ("flaky (failed in an earlier attempt, passed now)", [test for test in verdict.tests if test.flaky]),
        ("passed after reruns within their attempt", [t for t in verdict.tests if t.reruns and t.outcome.ok]),
    ]
    return [(title, tests) for title, tests in lists if tests]


def makespan_line(plan: Plan, measures: Measures) -> str:
    """Returns the makespan predicted and actual, and what a worker's start took, in one line."""
    start = measures.worker_start_seconds
    started = "no worker started" if start is None else f"worker start {start:.1f} s (median)"
    return (
        f"makespan: predicted {plan.prediction.makespan_ms / 1000:.1f} s, actual {measures.makespan_seconds:.1f} s "
        f"({_change(plan.prediction.makespan_ms / 1000, measures.makespan_seconds)}); {started}"
    )


def shard_table(plan: Plan, measures: Measures) -> Iterator[str]:
    """Yields one row a shard: predicted and actual seconds with a bar, idle GPU-seconds, workers started."""
    rows = [_row(shard, measures.shards[shard.name]) for shard in plan.shards]
    longest = max((measure.seconds for measure in measures.shards.values()), default=0.0)
    yield _columns(("shard", "predicted", "actual", "", "idle GPU-s", "workers", "start")) + "  actual"
    for shard, row in zip(plan.shards, rows, strict=True):
        seconds = measures.shards[shard.name].seconds
        yield _columns(row) + "  " + "#" * (round(_BAR * seconds / longest) if longest else 0)


def cost_lines(plan: Plan, measures: Measures) -> Iterator[str]:
    """Yields GPU-hours, and their price where one is set."""
    figures = cost(plan, measures)
    line = f"GPU-hours: predicted {figures['predicted_gpu_hours']:.2f}, actual {figures['gpu_hours']:.2f}"
    if figures["price"] is not None:
        line += f"; cost predicted {figures['predicted_price']:.2f}, actual {figures['price']:.2f}"
    yield line


def _row(shard: Shard, measure: ShardMeasure) -> tuple[str, ...]:
    idle = idle_gpu_seconds(shard, measure)
    start = measure.worker_start_seconds
    return (
        shard.name,
        f"{shard.predicted_ms / 1000:.1f} s",
        f"{measure.seconds:.1f} s",
        _change(shard.predicted_ms / 1000, measure.seconds),
        "-" if idle is None else f"{idle:.0f}",
        str(measure.workers),
        "-" if start is None else f"{start:.1f} s",
    )


def _columns(cells: Sequence[str]) -> str:
    widths = (5, 10, 10, 7, 10, 7, 7)
    return "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _change(predicted: float, actual: float) -> str:
    return f"{100 * (actual / predicted - 1):+.0f} %" if predicted else "-"
