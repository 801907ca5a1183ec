"""A run's pictures as inline SVG: shards predicted against actual, and what each GPU did. Pure; no scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shardlib.escape import xml_text
from shardlib.model import Group, Shard
from shardlib.plan import Plan
from shardlib.reports.measure import Measures
from shardlib.reports.spans import Span

_WIDTH, _LABEL = 960, 64
_BAR, _GAP = 9, 26
_LANE, _TOP = 9, 2
_TICKS = 6


def bars(plan: Plan, measures: Measures) -> str:
    """Returns a bar for each shard's predicted time and one for its actual time, and a line at the lower bound."""
    longest = max(
        [measures.makespan_seconds, *(shard.predicted_ms / 1000 for shard in plan.shards), 0.001]
        + [measure.seconds for measure in measures.shards.values()]
    )
    scale = _Scale(longest)
    height = _GAP * len(plan.shards)
    parts = list(scale.axis(height))
    for row, shard in enumerate(plan.shards):
        y, actual = row * _GAP + 3, measures.shards[shard.name].seconds
        parts.append(_text(_LABEL - 8, y + 13, shard.name, anchor="end"))
        parts.append(_box(scale, 0, shard.predicted_ms / 1000, y, _BAR, "predicted", "predicted"))
        parts.append(_box(scale, 0, actual, y + _BAR, _BAR, "actual", "actual"))
    bound = scale.x(plan.prediction.lower_bound_ms / 1000)
    parts.append(f'<line class="bound" x1="{bound:.1f}" x2="{bound:.1f}" y1="0" y2="{height}"/>')
    return _svg(height, parts, "time of each shard, predicted and actual")


def gantt(plan: Plan, shard: Shard, spans: tuple[Span, ...], longest: float) -> str:
    """Returns one lane for each GPU of the shard: worker starts in grey, groups coloured by mode."""
    groups = {group.id: group for group in plan.groups_of(shard)}
    scale = _Scale(longest)
    lanes = {name: row for row, name in enumerate(sorted({lane for span in spans for lane in span.lanes}, key=_order))}
    height = (_LANE + 1) * max(1, len(lanes)) + _TOP
    parts = list(scale.axis(height))
    parts += [_text(_LABEL - 8, _y(row) + _LANE - 1, lane, anchor="end") for lane, row in lanes.items()]
    for span in spans:
        parts += _span(span, groups, lanes, scale)
    return _svg(height, parts, f"what each GPU of shard {shard.name} did")


def _span(span: Span, groups: Mapping[str, Group], lanes: Mapping[str, int], scale: _Scale) -> Iterator[str]:
    group = groups.get(span.group or "")
    if group is None:
        title, kind = f"worker start, {span.end - span.begin:.1f} s", "start"
    else:
        planned = group.cost_ms / 1000
        took = f"{span.end - span.begin:.1f} s, planned {planned:.1f} s"
        title, kind = f"{group.file} ({group.id}, {group.mode.value}): {took}", group.mode.value
    for lane in span.lanes:
        yield _box(scale, span.begin, span.end, _y(lanes[lane]), _LANE, kind, title)


def _y(row: int) -> int:
    return _TOP + row * (_LANE + 1)


class _Scale:
    """Seconds to pixels."""

    def __init__(self, longest: float) -> None:
        self._longest = max(longest, 0.001)

    def x(self, seconds: float) -> float:
        return _LABEL + (_WIDTH - _LABEL) * min(max(seconds, 0.0), self._longest) / self._longest

    def axis(self, height: int) -> Iterator[str]:
        for tick in range(_TICKS):
            seconds = self._longest * tick / _TICKS
            x = self.x(seconds)
            yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}"/>'
            yield _text(x + 3, height + 11, clock(seconds), anchor="start")


def clock(seconds: float) -> str:
    """Returns seconds as a person says them: `42 s`, `12:05` (minutes and seconds)."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def _order(lane: str) -> tuple[int, str]:
    return (int(lane), "") if lane.isdigit() and len(lane) < 9 else (10**9, lane)


def _box(scale: _Scale, begin: float, end: float, y: int, height: int, kind: str, title: str) -> str:
    x, width = scale.x(begin), max(0.6, scale.x(end) - scale.x(begin))
    place = f'x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}"'
    return f'<rect class="{kind}" {place}><title>{xml_text(title)}</title></rect>'


def _text(x: float, y: float, text: str, *, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}">{xml_text(text)}</text>'


def _svg(height: int, parts: list[str], label: str) -> str:
    full = height + 16
    head = f'<svg viewBox="0 0 {_WIDTH} {full}" role="img" aria-label="{xml_text(label)}">'
    return "\n".join([head, *parts, "</svg>"])
