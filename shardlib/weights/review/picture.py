"""Small pictures in SVG: a test's history with its old and new weight, and the shards before and after. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from shardlib.weights.proposal import Mark, Point, TestWeight
from shardlib.weights.review.words import seconds

WIDTH, HEIGHT = 380, 104
_LEFT, _RIGHT, _TOP, _BOTTOM = 8, 62, 8, 8
_LOG_FROM = 20.0  # a history that spans more is drawn in logs: else all but the largest would lie on the floor
_LEAST = 0.01  # seconds, on a logarithmic axis
_LABEL_GAP = 12
_AXIS = 12  # pixels below the points for the words `log scale`

_TITLES = {
    Mark.USED: "",
    Mark.TIMED_OUT: ", timed out",
    Mark.SKIPPED: ", skipped",
    Mark.FAILED: ", failed",
    Mark.RETRIED: ", retried",
    Mark.COLD: ", first in its process",
    Mark.OLD: ", before the shift",
    Mark.DROPPED: ", not counted",
}


def history(test: TestWeight, old: float | None, runs: int) -> str:
    """Returns the picture of a test: a point a run, oldest at the left; the old weight dashed, the new one solid."""
    first = min((point.run for point in test.history), default=0)
    x = _scale_x(first, runs - 1)
    values = [point.seconds for point in test.history] + [test.weight, test.p90] + ([old] if old is not None else [])
    y, logarithmic = _scale_y(values)
    parts = [*_band(test, y), *_lines(test, old, y), *_shift(test, x, first)]
    parts += [mark for point in test.history for mark in _point(point, x(point.run), y(point.seconds))]
    if logarithmic:
        parts.append(f'<text class="axis" x="{_LEFT}" y="{HEIGHT - 1}">log scale</text>')
    label = f"history of {len(test.history)} runs; new weight {seconds(test.weight)}"
    return (
        f'<svg class="history" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{label}">{"".join(parts)}</svg>'
    )


def shards(old: Sequence[float], new: Sequence[float]) -> str:
    """Returns each shard's seconds as bars, longest first: with the old weights above, with the new ones below."""
    count, longest = max(len(old), len(new), 1), max(*old, *new, 0.001)
    width, half = 620, 70
    step = width / count
    parts = []
    for top, name, values in ((0, "old", old), (half + 22, "new", new)):
        for place, value in enumerate(sorted(values, reverse=True)):
            tall = half * value / longest
            parts.append(
                f'<rect class="{name}" x="{place * step + 1:.1f}" y="{top + half - tall:.1f}" '
                f'width="{step - 2:.1f}" height="{tall:.1f}"><title>{seconds(value)}</title></rect>'
            )
        worst = half - half * max(values, default=0) / longest + top
        parts.append(f'<line class="{name}line" x1="0" x2="{width}" y1="{worst:.1f}" y2="{worst:.1f}"/>')
        parts.append(
            f'<text class="axis" x="{width + 6}" y="{worst + 10:.1f}">{seconds(max(values, default=0))}, {name}</text>'
        )
    return (
        f'<svg class="shards" viewBox="0 0 {width + 120} {2 * half + 24}" width="{width + 120}" '
        f'height="{2 * half + 24}" role="img" aria-label="seconds of each shard">{"".join(parts)}</svg>'
    )


def _scale_x(first: int, last: int) -> Callable[[int], float]:
    width = WIDTH - _LEFT - _RIGHT
    return lambda run: _LEFT + width * (run - first) / max(last - first, 1)


def _scale_y(values: Sequence[float]) -> tuple[Callable[[float], float], bool]:
    tall = HEIGHT - _TOP - _BOTTOM
    top = max(*values, _LEAST)
    positive = [value for value in values if value > _LEAST]
    if positive and top / min(positive) > _LOG_FROM:
        tall -= _AXIS
        span = math.log(top) - math.log(min(positive) / 1.5)
        return lambda value: _TOP + tall * min(1.0, (math.log(top) - math.log(max(value, _LEAST))) / span), True
    return lambda value: _TOP + tall * (1 - value / (top * 1.04)), False


def _band(test: TestWeight, y: Callable[[float], float]) -> Iterator[str]:
    high, low = y(test.p90), y(test.p10)
    if low - high > 1:
        width = WIDTH - _LEFT - _RIGHT
        yield f'<rect class="band" x="{_LEFT}" y="{high:.1f}" width="{width}" height="{low - high:.1f}"/>'


def _lines(test: TestWeight, old: float | None, y: Callable[[float], float]) -> Iterator[str]:
    right = WIDTH - _RIGHT
    new_y = y(test.weight)
    label_y = min(max(new_y + 4, 10), HEIGHT - 4)
    if old is not None:
        old_y = y(old)
        yield f'<line class="oldline" x1="{_LEFT}" x2="{right}" y1="{old_y:.1f}" y2="{old_y:.1f}"/>'
        old_label = min(max(old_y + 4, 10), HEIGHT - 4)
        if abs(old_label - label_y) >= _LABEL_GAP:
            yield f'<text class="oldtext" x="{right + 4}" y="{old_label:.1f}">{seconds(old)}</text>'
    yield f'<line class="newline" x1="{_LEFT}" x2="{right}" y1="{new_y:.1f}" y2="{new_y:.1f}"/>'
    yield f'<text class="newtext" x="{right + 4}" y="{label_y:.1f}">{seconds(test.weight)}</text>'


def _shift(test: TestWeight, x: Callable[[int], float], first: int) -> Iterator[str]:
    if test.shift is not None and test.shift.run > first:
        at = (x(test.shift.run) + x(test.shift.run - 1)) / 2
        yield f'<line class="shift" x1="{at:.1f}" x2="{at:.1f}" y1="2" y2="{HEIGHT - 2}"/>'


def _point(point: Point, x: float, y: float) -> Iterator[str]:
    title = f"<title>{seconds(point.seconds)}{_TITLES[point.mark]}</title>"
    if point.mark is Mark.TIMED_OUT:
        corners = f"{x - 4:.1f},{y + 3.5:.1f} {x + 4:.1f},{y + 3.5:.1f} {x:.1f},{y - 4:.1f}"
        yield f'<polygon class="timeout" points="{corners}">{title}</polygon>'
    else:
        kind = {Mark.USED: "used", Mark.FAILED: "failed"}.get(point.mark, "unused")
        yield f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="2.6">{title}</circle>'
