"""The review as one static HTML page, without scripts: what to look at first, the rest behind it. Pure.

Node ids, run ids and pods are text of unknown origin: each goes through `_text`.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from shardlib.escape import printable
from shardlib.weights.proposal import Flag
from shardlib.weights.review import picture, summary
from shardlib.weights.review.compare import Concern, Finding
from shardlib.weights.review.style import STYLE
from shardlib.weights.review.summary import Sheet
from shardlib.weights.review.words import day, percent, plural, seconds

SHOWN_FINDINGS = 200  # pictures that a browser draws at once; the rest is in the proposal
SHOWN_CHRONIC = 20
SHOWN_IDS = 500
_GRAVE = (Concern.IMPLAUSIBLE,)


def page(sheet: Sheet) -> str:
    """Returns the page's text."""
    body = [*_head(sheet), *_effect(sheet), *_findings(sheet), *_slow_pods(sheet), *_lists(sheet), *_foot(sheet)]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>Weights review</title><style>{STYLE}</style></head>\n<body><main>\n"
        + "\n".join(body)
        + "\n</main></body></html>\n"
    )


def _head(sheet: Sheet) -> Iterator[str]:
    review = sheet.review
    calm = not review.urgent
    yield f'<header class="{"calm" if calm else "grave" if review.implausible else "look"}">'
    yield f"<h1>{_text(summary.verdict(sheet))}</h1>"
    yield f"<p>{_text(summary.totals(sheet))}.<br>{_text(summary.age(sheet))}.</p></header>"
    tiles = [(count, name) for name, count in review.counts.items()]
    yield '<ul class="tiles">'
    for count, name in tiles:
        kind = "zero" if not count else "bad" if name == "implausible" else ""
        yield f'<li class="{kind}"><b>{count:,}</b> {name}</li>'
    yield "</ul>"


def _effect(sheet: Sheet) -> Iterator[str]:
    yield f"<section><h2>What it does to the shards</h2><p>{_text(summary.effect(sheet))}</p>"
    if sheet.effects:
        newest = sheet.effects[-1]
        yield picture.shards(newest.old.shard_seconds, newest.new.shard_seconds)
        yield "<details><summary>Run by run</summary><table><tr><th>run<th>tests<th>makespan, old<th>new<th>change"
        yield "<th>spread, old<th>new</tr>"
        for run in sheet.effects:
            info = sheet.proposal.runs[run.run]
            old, new = run.old, run.new
            change = percent(new.makespan_seconds / old.makespan_seconds - 1) if old.makespan_seconds else "-"
            yield (
                f"<tr><td>{_text(info.run, 60)}, {day(info.when)}<td>{run.tests}<td>{seconds(old.makespan_seconds)}"
                f"<td>{seconds(new.makespan_seconds)}<td>{change}<td>{old.spread:.0%}<td>{new.spread:.0%}</tr>"
            )
        yield "</table></details>"
        if not sheet.nodes_known:
            yield '<p class="note">Without --collected, a test\'s mode says how many GPUs it holds.</p>'
    yield "</section>"


def _findings(sheet: Sheet) -> Iterator[str]:
    runs = len(sheet.proposal.runs)
    if sheet.review.findings:
        yield f'<p class="note legend">{_LEGEND}</p>'
    if sheet.review.urgent:
        yield "<section><h2>Look at these, worst first</h2>"
        yield from _articles(sheet.review.urgent, SHOWN_FINDINGS, runs)
        yield "</section>"
    if sheet.review.chronic:
        yield "<section><h2>Worth knowing</h2><p>Unsteady tests, and large ones that are hardly known: they make any plan "
        yield f"uncertain, and no weight mends them. {plural(len(sheet.review.chronic), 'test')}, worst first.</p>"
        yield from _articles(sheet.review.chronic, SHOWN_CHRONIC, runs)
        yield "</section>"


def _articles(findings: Sequence[Finding], most: int, runs: int) -> Iterator[str]:
    yield from (_finding(finding, runs) for finding in findings[:most])
    if len(findings) > most:
        yield f"<p>... and {plural(len(findings) - most, 'more', 'more')}, each with less at stake.</p>"


_LEGEND = (
    '<span class="key used">●</span> a run &nbsp; <span class="key unused">○</span> not counted &nbsp; '
    '<span class="key failed">●</span> failed &nbsp; <span class="key timeout">▲</span> timed out &nbsp; '
    '<span class="key newtext">━</span> new weight, its P10 to P90 shaded &nbsp; '
    '<span class="key oldtext">┅</span> weight in use &nbsp; <span class="key shift">┊</span> level shift'
)


def _finding(finding: Finding, runs: int) -> str:
    test = finding.test
    badges = "".join(
        f'<span class="badge {"bad" if concern in _GRAVE else ""}">{concern.value}</span>'
        for concern in finding.concerns
    )
    if finding.old is None:
        change = f"new, <b>{seconds(test.weight)}</b>"
    else:
        change = f"{seconds(finding.old)} → <b>{seconds(test.weight)}</b>"
        change += f" (x{test.weight / finding.old:.2g})" if finding.old >= 0.05 else ""
    reasons = "; ".join(finding.reasons)
    return (
        f'<article class="{"bad" if finding.implausible else ""}">{picture.history(test, finding.old, runs)}<div>'
        f'<p class="id">{_text(test.id, 400)}</p><p>{badges}<span class="change">{change}</span></p>'
        f"<p>{_text(reasons[:1].upper() + reasons[1:])}</p>"
        f'<p class="note">{_text(test.why)}. P10 to P90: {seconds(test.p10)} to {seconds(test.p90)}; '
        f"{seconds(finding.stake_seconds)} at stake.</p></div></article>"
    )


def _slow_pods(sheet: Sheet) -> Iterator[str]:
    pods = sorted(sheet.proposal.slow_pods, key=lambda pod: (-pod.run, -pod.factor))
    if not pods:
        return
    yield f"<section><h2>Slow pods</h2><p>{plural(len(pods), 'pod')} ran slower than the others of the same run; "
    yield "their factor is taken out of the weights. The same node again and again is worth a call.</p>"
    yield "<details><summary>Which</summary><table><tr><th>run<th>pod<th>factor</tr>"
    for pod in pods[:SHOWN_IDS]:
        run = sheet.proposal.runs[pod.run]
        yield f"<tr><td>{_text(run.run, 60)}, {day(run.when)}<td>{_text(pod.pod, 60)}<td>x{pod.factor:.2f}</tr>"
    yield "</table></details></section>"


def _lists(sheet: Sheet) -> Iterator[str]:
    weights = {test.id: test for test in sheet.proposal.tests}
    new = sorted(sheet.review.new, key=lambda key: (-weights[key].weight, key))
    if new and sheet.current_name:
        rows = [f"<td>{seconds(weights[key].weight)}<td>{weights[key].samples}<td>{_text(key)}" for key in new]
        yield from _list("New tests", "Not in the file in use; longest first.", "weight<th>runs<th>test", rows)
    skipped = [test for test in sheet.proposal.tests if Flag.SKIPPED in test.flags]
    if skipped:
        skipped.sort(key=lambda test: (-test.weight, test.id))
        rows = [f"<td>{seconds(test.weight)}<td>{_text(test.id)}" for test in skipped]
        note = "Skipped in every run, and weighed as what the skip takes; longest first."
        yield from _list("Always skipped", note, "weight<th>test", rows)
    if sheet.review.gone:
        rows = [f"<td>{_text(key)}" for key in sheet.review.gone]
        yield from _list(
            "Gone tests",
            "In the file in use, but in no run: accept with --keep-unknown or --drop-unknown.",
            "test",
            rows,
        )


def _list(title: str, note: str, heads: str, rows: Sequence[str]) -> Iterator[str]:
    yield f"<section><h2>{title}</h2><p>{note}</p><details><summary>{plural(len(rows), 'test')}</summary>"
    yield f'<table class="ids"><tr><th>{heads}</tr>'
    yield from (f"<tr>{row}</tr>" for row in rows[:SHOWN_IDS])
    yield "</table>"
    if len(rows) > SHOWN_IDS:
        yield f"<p>... and {len(rows) - SHOWN_IDS:,} more.</p>"
    yield "</details></section>"


def _foot(sheet: Sheet) -> Iterator[str]:
    current = sheet.current_name or "gpu_test_durations.json"
    yield "<footer><p>If you agree: "
    yield f"<code>shardlib weights accept proposal.json -o {_text(current)}</code></p>"
    yield f'<p class="note">Fitted with {_text(summary.settings(sheet))}. '
    yield f"A change counts from x1.3 and {seconds(sheet.review.share_seconds)} (0.2 % of a shard) on, "
    yield "if it stands out of the noise by three standard errors.</p></footer>"


def _text(text: str, limit: int = 300) -> str:
    return html.escape(printable(text, limit))
