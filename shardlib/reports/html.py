"""A run as one static page: Argo's artifact viewer, like a mail, runs no scripts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from shardlib.escape import xml_text
from shardlib.model import Outcome
from shardlib.plan import Plan
from shardlib.reports.measure import Measures
from shardlib.reports.picture import bars, clock, gantt
from shardlib.reports.run import cost, idle_gpu_seconds, slow_tests
from shardlib.reports.text import headline, makespan_line, notable
from shardlib.verdict import CountedTest, Kind, Reason, Verdict

# A page of more failures is not read but searched, and junit.xml is there for that (a guess).
_SHOWN_REASONS = 200
_DETAIL_CHARACTERS = 20_000

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1000px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.25rem; padding: .6rem .9rem; border-radius: .3rem; color: #fff; }
h1.green { background: #1a7f37; } h1.red { background: #b42318; }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; } h3 { font-size: .9rem; margin: 1rem 0 .2rem; font-weight: 600; }
code, pre { font: 13px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
pre { background: var(--soft); padding: .6rem; white-space: pre-wrap; max-height: 30rem; overflow: auto; }
details { border-bottom: 1px solid var(--line); padding: .3rem 0; } summary { cursor: pointer; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .2rem .5rem; border-bottom: 1px solid var(--line); font-weight: normal; }
th { opacity: .7; } th:first-child, td:first-child, td.left, th.left { text-align: left; }
.outcome { display: inline-block; min-width: 6rem; font-weight: 600; }
svg { width: 100%; height: auto; display: block; } svg text { font: 10px ui-monospace, monospace; fill: currentColor; }
.grid { stroke: var(--line); stroke-width: 1; } .bound { stroke: #b42318; stroke-width: 1; stroke-dasharray: 3 3; }
.predicted { fill: #9db7d5; } .actual { fill: #2f6db3; } .start { fill: #999; }
.concurrent { fill: #2f6db3; } .isolated { fill: #8e5bb0; } .sequential { fill: #d9822b; } .cpu { fill: #3a9a5b; }
.concurrent, .isolated, .sequential, .cpu { stroke: #fff8; stroke-width: .4; }
.key span { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 1em; vertical-align: -.05em; }
.key .k-predicted { background: #9db7d5; } .key .k-actual, .key .k-concurrent { background: #2f6db3; }
.key .k-isolated { background: #8e5bb0; } .key .k-sequential { background: #d9822b; } .key .k-start { background: #999; }
"""


def page(plan: Plan, verdict: Verdict, measures: Measures) -> str:
    """Returns the page: the verdict, what failed, then what each shard and GPU did, then the tests worth a look."""
    colour = "green" if verdict.green else "red"
    parts = [
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        # Nothing of this page may load or run anything, whatever a node id holds.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>{colour}: {len(verdict.tests)} tests</title><style>{_STYLE}</style></head><body>",
        f'<h1 class="{colour}">{xml_text(headline(plan, verdict))}</h1>',
        f"<p>{xml_text(makespan_line(plan, measures))}<br>{xml_text(plan.prediction.bottleneck)}</p>",
        *_reasons(verdict),
        *_notable(verdict),
        *_shards(plan, measures),
        *_gpus(plan, measures),
        *_slow(verdict),
        f"<p>plan {plan.digest}, strategy {xml_text(plan.strategy)}</p></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _reasons(verdict: Verdict) -> Iterator[str]:
    if verdict.green:
        return
    tests = {test.planned.id: test for test in verdict.tests}
    yield "<h2>Why it is red</h2>"
    for reason in verdict.reasons[:_SHOWN_REASONS]:
        yield _reason(reason, tests.get(reason.id or ""))
    if (more := len(verdict.reasons) - _SHOWN_REASONS) > 0:
        yield f"<p>and {more} more: run.json and junit.xml have all</p>"


def _reason(reason: Reason, test: CountedTest | None) -> str:
    if test is None or reason.kind not in (Kind.FAILED, Kind.LOST):
        return f"<details open><summary>{xml_text(reason.text)}</summary></details>"
    word = test.outcome.value.replace("_", " ")
    title = f'<span class="outcome">{word}</span><code>{xml_text(test.planned.id, 500)}</code>'
    where = f"shard {test.shard}, group {test.group.id}, {test.group.mode.value}, {test.seconds:.1f} s"
    detail = f"<pre>{xml_text(test.detail, _DETAIL_CHARACTERS)}</pre>" if test.detail else ""
    return f"<details><summary>{title}</summary><p>{where}: {xml_text(test.reason, 1000)}</p>{detail}</details>"


def _notable(verdict: Verdict) -> Iterator[str]:
    for title, tests in notable(verdict):
        yield f"<h2>{xml_text(title)}</h2><ul>"
        yield from (f"<li><code>{xml_text(test.planned.id, 500)}</code></li>" for test in tests[:_SHOWN_REASONS])
        yield "</ul>"


def _shards(plan: Plan, measures: Measures) -> Iterator[str]:
    yield "<h2>Shards</h2>"
    yield '<p class="key"><span class="k-predicted"></span>predicted<span class="k-actual"></span>actual'
    yield " &nbsp; dashed: no plan can be shorter</p>"
    yield bars(plan, measures)
    figures = cost(plan, measures)
    price = "" if figures["price"] is None else f", which cost {figures['price']:.2f}"
    yield f"<p>GPU-hours: predicted {figures['predicted_gpu_hours']:.2f}, actual {figures['gpu_hours']:.2f}{price}</p>"
    yield _table(
        ("shard", "predicted", "actual", "idle GPU-s", "workers", "median start"),
        [
            (
                shard.name,
                clock(shard.predicted_ms / 1000),
                clock((measure := measures.shards[shard.name]).seconds),
                "-" if (idle := idle_gpu_seconds(shard, measure)) is None else f"{idle:.0f}",
                str(measure.workers),
                "-" if measure.worker_start_seconds is None else f"{measure.worker_start_seconds:.1f} s",
            )
            for shard in plan.shards
        ],
    )


def _gpus(plan: Plan, measures: Measures) -> Iterator[str]:
    """Yields a chart a shard, all to one scale; the slowest first, where a person looks for what held up the run."""
    longest = max((measure.seconds for measure in measures.shards.values()), default=0.0)
    modes = Counter(group.mode.value for group in plan.groups)
    yield "<h2>What each GPU did</h2>"
    keys = "".join(f'<span class="k-{mode}"></span>{mode}' for mode in sorted(modes) if mode != "cpu")
    yield f'<p class="key"><span class="k-start"></span>worker start{keys} &nbsp; hover for the file</p>'
    for shard in sorted(plan.shards, key=lambda shard: -measures.shards[shard.name].seconds):
        measure = measures.shards[shard.name]
        yield f"<h3>shard {shard.name}, {clock(measure.seconds)}</h3>"
        yield gantt(plan, shard, measure.spans, longest)


def _slow(verdict: Verdict) -> Iterator[str]:
    yield "<h2>Slowest tests</h2>"
    rows = [
        (
            f"<code>{xml_text(test.planned.id, 300)}</code>",
            f"{test.seconds:.1f} s",
            f"{test.planned.weight_ms / 1000:.1f} s ({test.planned.source.value})",
            test.outcome.value if test.outcome is not Outcome.PASSED else "",
        )
        for test in slow_tests(verdict)
    ]
    yield _table(("test", "took", "weight", ""), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table; the cells are HTML already."""
    lines = ["<table><tr>", *(f"<th>{cell}</th>" for cell in head), "</tr>"]
    for row in rows:
        lines += ["<tr>", *(f"<td>{cell}</td>" for cell in row), "</tr>"]
    return "".join([*lines, "</table>"])
