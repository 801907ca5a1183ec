"""The page and the terminal say the same, and no node id gets out of its place."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib.weights.proposal import Flag, Mark, Proposal, Shift, SlowPod
from shardlib.weights.review.compare import compare
from shardlib.weights.review.page import page
from shardlib.weights.review.shards import Realised, RunEffect
from shardlib.weights.review.summary import Sheet
from shardlib.weights.review.terminal import lines, sparks

from ..proposals import DAY, HOSTILE, RUNS, START, a_test, crowd, in_use, proposal_of

VOID = {"meta", "br"}
OPTIONAL_END = {"th", "td"}


class Strict(HTMLParser):
    """Notes every element, and whether each is closed in its turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not any(name.startswith("on") or name in ("href", "src") for name, _ in attrs)
        self.seen.append(tag)
        if tag not in VOID | OPTIONAL_END:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in OPTIONAL_END:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(text: str) -> Strict:
    parser = Strict()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


def sheet(proposal: Proposal, current: dict[str, float], *, name: str | None = "gpu_test_durations.json") -> Sheet:
    both = Realised(shard_seconds=(100.0, 80.0)), Realised(shard_seconds=(90.0, 90.0))
    return Sheet(
        proposal=proposal,
        review=compare(proposal, current, shards=2),
        effects=[RunEffect(run=RUNS - 1, tests=40, old=both[0], new=both[1])],
        now=START + (RUNS + 1) * DAY,
        current_name=name,
        nodes_known=False,
    )


def test_nothing_to_look_at_is_said_in_one_line() -> None:
    tests = crowd()
    shown = sheet(proposal_of(*tests), in_use(*tests))
    assert next(lines(shown)) == "Nothing needs attention."
    text = page(shown)
    assert "<h1>Nothing needs attention.</h1>" in text
    assert "<article" not in text


@pytest.mark.parametrize("evil", [HOSTILE, "</code></p><img src=x onerror=alert(1)>.py::t", "a::${{ x }}\x00\udcff"])
def test_hostile_text_stays_text(evil: str) -> None:
    skipped = a_test(evil + "3", 0.0, Flag.SKIPPED)
    proposal = proposal_of(*crowd(), a_test(evil, 90.0, Flag.PLACEHOLDER), a_test(evil + "2", 4.0), skipped)
    proposal = replace(
        proposal,
        runs=tuple(replace(run, run=f"{evil}{run.run}") for run in proposal.runs),
        slow_pods=(SlowPod(run=RUNS - 1, pod=evil, factor=1.3),),
    )
    shown = sheet(proposal, {**in_use(*crowd()), evil: 5.0, evil + "gone": 3.0}, name=evil)
    plain = sheet(proposal_of(*crowd(), a_test("a::t", 90.0, Flag.PLACEHOLDER)), in_use(*crowd()) | {"a::t": 5.0})
    parser = parsed(page(shown))
    assert set(parser.seen) <= set(parsed(page(plain)).seen) | {
        "table",
        "tr",
        "td",
        "th",
        "details",
        "summary",
        "section",
    }
    assert not any("\x1b" in text or "\u202e" in text for text in parser.text)
    assert all(line.isprintable() for line in lines(shown))


@given(st.text(st.characters(), min_size=1))
def test_any_id_makes_a_page_that_parses(node_id: str) -> None:
    proposal = proposal_of(*crowd(8), a_test(node_id, 500.0, Flag.TIMED_OUT))
    text = page(sheet(proposal, {}))
    text.encode()
    assert parsed(text).seen.count("article") == 1


def test_page_and_terminal_show_the_worst_first_with_its_picture() -> None:
    marks = (Mark.USED,) * 7 + (Mark.TIMED_OUT, Mark.TIMED_OUT, Mark.USED)
    timed = a_test("a::hangs", 50.0, Flag.TIMED_OUT, marks=marks)
    moved = a_test("a::moved", 300.0, Flag.SHIFTED, shift=Shift(run=7, factor=10.0))
    wrong = a_test("a::held", 60.0, Flag.PLACEHOLDER)
    current = in_use(*crowd()) | {"a::hangs": 50.0, "a::moved": 30.0, "a::held": 20.0}
    shown = sheet(proposal_of(*crowd(), timed, moved, wrong), current)
    text = page(shown)
    places = [text.index(f'class="id">{key}<') for key in ("a::held", "a::moved", "a::hangs")]
    assert places == sorted(places)
    assert text.count('class="timeout"') == 2
    assert text.count('class="history"') == 3
    assert 'class="shift"' in text
    assert "90.0 s with the new ones (-10.0 %)" in text.replace("1m 30s", "90.0 s")
    terminal = list(lines(shown))
    assert terminal[0] == ("3 tests need a look; 1 of them is implausible and will not be accepted without --yes.")
    assert any(line.endswith(sparks(timed)) for line in terminal)
    assert sparks(timed) == "9999999tt9"


def test_tests_that_every_run_skipped_are_named() -> None:
    tests = [*crowd(), a_test("a::skip", 0.0, Flag.SKIPPED)]
    text = page(sheet(proposal_of(*tests), in_use(*tests)))
    assert "Always skipped" in text
    assert "a::skip" in text
    assert "Always skipped" not in page(sheet(proposal_of(*crowd()), in_use(*crowd())))


def test_old_data_is_called_old() -> None:
    shown = replace(sheet(proposal_of(*crowd()), {}), now=START + 60 * DAY)
    assert any("51 days old: is this still the suite?" in line for line in lines(shown))


def test_first_time_there_is_nothing_in_use() -> None:
    text = page(sheet(proposal_of(*crowd()), {}, name=None))
    assert "without any weights" in text
    assert "New tests" not in text
