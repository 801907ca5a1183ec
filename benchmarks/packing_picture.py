"""The packing benchmark as a picture: each contender's shards on one scale of time, and what waits for the slowest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.packing_peers import GPUS
from shardlib.escape import xml_text
from shardlib.reports.picture import clock

_WIDTH, _MARGIN = 960, 12
_BAR, _STEP = 4, 5
_HEAD, _PANEL_GAP = 20, 12
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f; }
.told { font-weight: 600; }
.busy { fill: #2f6fde; }
.idle { fill: #d0d7de; }
.bound { stroke: #cf222e; stroke-width: 1.5; stroke-dasharray: 4 3; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .busy { fill: #4c8dff; } .idle { fill: #3d444d; } .bound { stroke: #ff7b72; }
}
"""


def picture(title: str, bound_seconds: float, shards: Mapping[str, Sequence[float]]) -> str:
    """Returns an SVG with a panel for each contender: a bar for each shard, and in grey the time that its GPUs wait.

    Args:
        title: the picture's.
        bound_seconds: the makespan that no plan can beat.
        shards: wall-clock seconds of each shard, by contender, the best one first.
    """
    longest = max(max(times) for times in shards.values())
    scale = (_WIDTH - 2 * _MARGIN) / longest
    parts, y = [f'<text x="{_MARGIN}" y="16">{xml_text(title)}</text>'], 30
    for name, times in shards.items():
        parts += _panel(_told(name, times, bound_seconds), sorted(times, reverse=True), y, scale)
        y += _HEAD + _STEP * len(times) + _PANEL_GAP
    x = _MARGIN + bound_seconds * scale
    parts.append(f'<line class="bound" x1="{x:.1f}" x2="{x:.1f}" y1="24" y2="{y - _PANEL_GAP}"/>')
    parts.append(f'<text x="{x:.1f}" y="{y + 2}">no plan ends before {clock(bound_seconds)}</text>')
    size = f'viewBox="0 0 {_WIDTH} {y + 10}" role="img" aria-label="{xml_text(title)}"'
    return "\n".join(
        [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', f"<style>{_STYLE}</style>", *parts, "</svg>\n"]
    )


def _told(name: str, times: Sequence[float], bound_seconds: float) -> str:
    makespan = max(times)
    paid, above = makespan * len(times) * GPUS / 3600, makespan / bound_seconds - 1
    return f"{name}: {clock(makespan)}, {paid:.1f} GPU hours paid, {above:.1%} above the lower bound"


def _panel(told: str, times: Sequence[float], y: int, scale: float) -> Iterator[str]:
    makespan = times[0]
    yield f'<text class="told" x="{_MARGIN}" y="{y + 12}">{xml_text(told)}</text>'
    for row, seconds in enumerate(times):
        top = y + _HEAD + row * _STEP
        yield f'<rect class="idle" x="{_MARGIN}" y="{top}" width="{makespan * scale:.1f}" height="{_BAR}"/>'
        yield f'<rect class="busy" x="{_MARGIN}" y="{top}" width="{seconds * scale:.1f}" height="{_BAR}"/>'
