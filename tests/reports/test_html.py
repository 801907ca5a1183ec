from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib import evidence
from shardlib.reports import measure
from shardlib.reports.html import page
from shardlib.reports.spans import SpanReader
from shardlib.runfolder import RunFolder
from shardlib.verdict import judge
from tests.runs import make_plan, write_run

TAGS = {
    "html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "br", "details", "summary", "span", "code", "pre",
    "ul", "li", "svg", "line", "rect", "text", "table", "tr", "th", "td",
}  # fmt: skip


class Reader(HTMLParser):
    """What a browser would make of the page: its tags, attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.data: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.data.append(data)


def read(folder: RunFolder) -> Reader:
    plan = folder.read_plan()
    measures = measure.read(folder, plan)
    verdict = judge(plan, *evidence.read(folder, [shard.name for shard in plan.shards]))
    reader = Reader()
    reader.feed(page(plan, verdict, measures))
    return reader


def test_the_verdict_and_the_failures_come_first(tmp_path: Path) -> None:
    text = [data for data in read(write_run(tmp_path, make_plan(), two="timed_out")).data if data.strip()]
    headings = [text.index(heading) for heading in ("Why it is red", "Shards", "What each GPU did", "Slowest tests")]
    assert headings == sorted(headings)
    assert text.index("timed out") < text.index("Shards")
    assert "a.py::two" in text


def test_a_green_page_gives_no_reasons(tmp_path: Path) -> None:
    assert "Why it is red" not in read(write_run(tmp_path, make_plan())).data


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "&lt;b&gt;", "</title>"]
)
def test_a_hostile_id_is_shown_as_text(tmp_path: Path, name: str) -> None:
    plan = make_plan({"01": {name: [name]}})
    reader = read(write_run(tmp_path, plan, **{name.rpartition("::")[2]: "failed"}))
    assert reader.tags <= TAGS
    assert name in reader.data


@given(st.text(min_size=1))
def test_no_id_adds_a_tag_or_an_attribute(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    plain = read(write_run(tmp_path_factory.mktemp("run"), make_plan({"01": {"a": ["a"]}}), a="failed"))
    hostile = make_plan({"01": {name: [name]}})
    reader = read(write_run(tmp_path_factory.mktemp("run"), hostile, **{name.rpartition("::")[2]: "failed"}))
    assert reader.tags == plain.tags
    assert reader.attributes == plain.attributes


def test_spans_tell_starts_from_groups_and_follow_a_second_attempt() -> None:
    reader = SpanReader()
    reader.add_attempt(
        [
            {"t": 0.0, "event": "worker_start", "worker": "w1", "gpus": ["2", "3"]},
            {"t": 2.0, "event": "worker_ready", "worker": "w1"},
            {"t": 3.0, "event": "collected", "worker": "w1", "group": "g00001", "seconds": 0.5},
            {"t": 9.0, "event": "group", "group": "g00001"},
            {"t": 9.5, "event": "collected", "worker": "w1", "group": "g00002", "seconds": 0.25},
            {"t": 11.0, "event": "worker_end", "worker": "w1"},
        ]
    )
    reader.add_attempt([{"t": 1.0, "event": "worker_start", "worker": "w1", "gpus": []}, {"t": 4.0, "event": "note"}])
    seen = [(span.lanes, span.begin, span.end, span.group) for span in reader.spans]
    assert seen == [
        (("2", "3"), 0.0, 2.0, None),
        (("2", "3"), 2.5, 9.0, "g00001"),
        (("2", "3"), 9.25, 11.0, "g00002"),
        (("0",), 12.0, 15.0, None),
    ]
