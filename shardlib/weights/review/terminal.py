"""The review as lines for a terminal; no node id can begin or break one. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from shardlib.escape import printable
from shardlib.weights.proposal import Mark, TestWeight
from shardlib.weights.review import summary
from shardlib.weights.review.summary import Sheet
from shardlib.weights.review.words import plural, seconds

SHOWN_FINDINGS = 30
SHOWN_CHRONIC = 5
_STEPS = 9


def lines(sheet: Sheet) -> Iterator[str]:
    """Yields the same as the page: the verdict, the counts, the shards, then what to look at, worst first."""
    review = sheet.review
    yield summary.verdict(sheet)
    yield ", ".join(f"{count} {name}" for name, count in review.counts.items() if count) or "no flags"
    yield summary.totals(sheet)
    yield summary.age(sheet)
    yield summary.effect(sheet)
    if review.urgent:
        yield ""
        yield f"{'in use':>9}  {'new':>9}  {'at stake':>9}  history, oldest first (0-9, t timed out, - not counted)"
    for finding in review.urgent[:SHOWN_FINDINGS]:
        old = "-" if finding.old is None else seconds(finding.old)
        yield (
            f"{old:>9}  {seconds(finding.test.weight):>9}  {seconds(finding.stake_seconds):>9}  {sparks(finding.test)}"
        )
        yield f"{'':9}  {printable(finding.test.id)}"
        yield f"{'':9}  {printable('; '.join(finding.reasons))} ({printable(finding.test.why)})"
    if len(review.urgent) > SHOWN_FINDINGS:
        yield f"... and {len(review.urgent) - SHOWN_FINDINGS} more; --html FILE shows them"
    if review.chronic:
        yield ""
        yield f"worth knowing: {plural(len(review.chronic), 'test')} unsteady, or large and hardly known; the worst:"
    for finding in review.chronic[:SHOWN_CHRONIC]:
        yield f"{'':9}  {seconds(finding.test.weight):>9}  {'':9}  {sparks(finding.test)}  {printable(finding.test.id)}"


def sparks(test: TestWeight) -> str:
    """Returns a test's history as a character a run: 0 to 9 up to its longest, t timed out, - not counted."""
    top = max((point.seconds for point in test.history if point.mark is not Mark.TIMED_OUT), default=0.0)
    marks = {Mark.TIMED_OUT: "t", Mark.SKIPPED: "-", Mark.DROPPED: "-"}
    return "".join(
        marks.get(point.mark) or str(round(_STEPS * point.seconds / top) if top else 0) for point in test.history
    )
