"""The run as Markdown for a GitHub check or job summary: verdict, failures first, then times. Pure."""

from __future__ import annotations

import html
from collections.abc import Iterator

from shardlib.escape import markdown, printable
from shardlib.plan import Plan
from shardlib.reports.measure import Measures
from shardlib.reports.run import idle_gpu_seconds, slow_tests
from shardlib.reports.text import cost_lines, headline, makespan_line, notable
from shardlib.verdict import CountedTest, Reason, Verdict

MAX_SUMMARY_BYTES = 60_000  # GitHub refuses a check's summary above 65,535 characters
_SHOWN_REASONS = 40
_SHOWN_DETAILS = 5
_DETAIL_CHARACTERS = 2_000
_SHOWN_TESTS = 10
_SHOWN_SHARDS = 50


def summary(plan: Plan, verdict: Verdict, measures: Measures) -> str:
    """Returns the Markdown, at most `MAX_SUMMARY_BYTES`; the verdict and the first failures are always in it."""
    kept: list[str] = []
    left = MAX_SUMMARY_BYTES - 200
    for block in _blocks(plan, verdict, measures):
        size = len(block.encode()) + 2
        if size > left:
            kept.append("More is in the report's files.")
            break
        kept.append(block)
        left -= size
    return "\n\n".join(kept) + "\n"


def _blocks(plan: Plan, verdict: Verdict, measures: Measures) -> Iterator[str]:
    """Yields whole blocks, so that a cut between two never leaves a tag or a table open."""
    mark = "✅" if verdict.green else "❌"
    yield f"## {mark} {headline(plan, verdict)}"
    yield from (_reason(reason) for reason in verdict.reasons[:_SHOWN_REASONS])
    if len(verdict.reasons) > _SHOWN_REASONS:
        yield f"... and {len(verdict.reasons) - _SHOWN_REASONS} more."
    yield f"{makespan_line(plan, measures)}. {'. '.join(cost_lines(plan, measures))}."
    yield "\n".join(_shard_rows(plan, measures))
    for title, tests in notable(verdict):
        yield "\n".join([f"**{title}: {len(tests)}**", "", *(_item(test) for test in tests[:_SHOWN_TESTS])])
    slow = [f"- {test.seconds:.1f} s {markdown(test.planned.id)}" for test in slow_tests(verdict)[:_SHOWN_TESTS]]
    if slow:
        yield "\n".join(["**Slowest tests**", "", *slow])
    failed = [test for test in verdict.tests if test.detail and not test.outcome.ok]
    yield from (_detail(test) for test in failed[:_SHOWN_DETAILS])


def _reason(reason: Reason) -> str:
    if reason.id is None:
        return f"- {markdown(reason.text)}"
    return f"- {markdown(reason.id)} (shard {reason.shard}, {reason.group}): {markdown(reason.text)}"


def _item(test: CountedTest) -> str:
    return f"- {markdown(test.planned.id)}"


def _shard_rows(plan: Plan, measures: Measures) -> Iterator[str]:
    yield "| shard | predicted s | actual s | idle GPU-s | workers |"
    yield "|---|---:|---:|---:|---:|"
    longest = sorted(plan.shards, key=lambda shard: -measures.shards[shard.name].seconds)[:_SHOWN_SHARDS]
    for shard in sorted(longest, key=lambda shard: shard.name):
        measure = measures.shards[shard.name]
        idle = idle_gpu_seconds(shard, measure)
        yield (
            f"| {shard.name} | {shard.predicted_ms / 1000:.1f} | {measure.seconds:.1f} "
            f"| {'-' if idle is None else f'{idle:.0f}'} | {measure.workers} |"
        )


def _detail(test: CountedTest) -> str:
    """A failure's last characters in a block that opens by a click; line ends as entities, so that none is empty."""
    tail = test.detail[-_DETAIL_CHARACTERS:]
    lines = [html.escape(printable(line, _DETAIL_CHARACTERS)) for line in tail.split("\n")]
    body = "&#10;".join(lines)
    return f"<details><summary>{markdown(test.planned.id)}</summary><pre>{body}</pre></details>"
