"""One pytest session in a log: the rows of its durations tables and what its other lines say about the tests. Pure.

A table has a row for each phase of each test, and may have it several times: a plugin replays reports (pytest #9838,
the same seconds or a hundredth apart), pytest-rerunfailures tries again, subtests report under their test's id. So of
one phase the longest row counts, and the phases are added once.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

from shardlib.durations import MAX_SECONDS
from shardlib.weights import messages
from shardlib.weights.samples import Sample

SAME_SECONDS = 0.011
"""Rows of one phase that differ by no more are one measurement, printed twice after rounding."""
NEGLIGIBLE_SECONDS = 0.05
"""Phases below this may be missing from a table without the test counting as truncated (no rule of `review` looks at less)."""
TIMEOUT_SLACK_SECONDS = 0.1
"""A test killed at its limit shows the limit and at most so much more (seen: 600.00 to 600.02)."""
_MAX_ENDING_CHARACTERS = 16 << 20  # 100,000 failures of a line each
_MOST_DASHES = 100  # in an id; a message may have any number
_ROUND_LIMIT_SECONDS = 60.0  # limits that people set are whole minutes; a wait of 30 s is as common as a limit

ROW = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)s\s+(setup|call|teardown)\s+(\S.*)")
MARKDOWN_ROW = re.compile(
    r"\s*\|\s*\d+\s*\|\s*(\d{1,12}(?:\.\d{1,9})?)\s*\|\s*(setup|call|teardown)\s*\|\s*`(.+)`\s*\|\s*"
)

_OUTCOMES = {
    "PASSED": "passed",
    "FAILED": "failed",
    "ERROR": "error",
    "SKIPPED": "skipped",
    "XFAIL": "xfailed",
    "XPASS": "xpassed",
}


@dataclass
class Session:
    """Gathers one session's lines; `limit` is pytest-timeout's, `hidden_below` the table's own threshold (None: no word)."""

    pod: str | None = None
    when: float | None = None
    headers: int = 0
    closed: bool = False  # its summary line was seen
    longest_only: bool = False  # the table holds the slowest N
    finished: bool = False  # the table ended as tables do
    hidden_below: float | None = None
    limit: float | None = None
    subtests: bool = False
    total: str = ""  # the summary's own seconds
    rows: dict[str, dict[str, list[float]]] = field(default_factory=lambda: defaultdict(dict))
    outcomes: dict[str, str] = field(default_factory=dict)
    workers: dict[str, str] = field(default_factory=dict)
    rerun: set[str] = field(default_factory=set)
    endings: list[tuple[str, str]] = field(default_factory=list)  # short summary lines: word, rest
    ending_characters: int = 0

    def add_row(self, node_id: str, phase: str, seconds: float, worker: str | None) -> None:
        """Takes one row of a table."""
        self.rows[node_id].setdefault(phase, []).append(seconds)
        if worker is not None:
            self.workers[node_id] = worker

    def add_progress(self, node_id: str, word: str, worker: str | None) -> None:
        """Takes a line of `-v`: how a test ended."""
        if word == "RERUN":
            self.rerun.add(node_id)
        elif self.outcomes.get(node_id) not in ("failed", "error"):  # a later line may be a subtest's or a teardown's
            self.outcomes[node_id] = _OUTCOMES[word]
        if worker is not None:
            self.workers[node_id] = worker

    def add_ending(self, word: str, rest: str) -> None:
        """Takes a line of the short summary; only so many, since an application's own log may look like it."""
        self.ending_characters += len(rest)
        if self.ending_characters <= _MAX_ENDING_CHARACTERS:
            self.endings.append((word, rest))

    def samples(self) -> tuple[Sample, ...]:
        """Returns a sample for each test that has a row, in the table's order."""
        timed_out, crashed = self._read_endings()
        timed_out |= self._at_the_limit()
        found = []
        for node_id, phases in self.rows.items():
            outcome = self.outcomes.get(node_id)
            flags = [
                ("skipped", outcome == "skipped"),
                ("timed_out", node_id in timed_out),
                ("retried", node_id in self.rerun or self._differs(phases)),
                ("crashed", node_id in crashed),
                ("failed", outcome in ("failed", "error")),
                ("truncated", self._lacks_time(phases)),
            ]
            found.append(
                Sample(
                    id=node_id,
                    seconds=min(MAX_SECONDS, round(sum(max(values) for values in phases.values()), 6)),
                    outcome=outcome,
                    pod=self.pod,
                    worker=self.workers.get(node_id),
                    flags=tuple(flag for flag, is_so in flags if is_so),
                )
            )
        return tuple(found)

    def _differs(self, phases: dict[str, list[float]]) -> bool:
        """Whether a phase was measured more than once; the call rows of subtests lie inside their test's own."""
        return any(
            max(values) - min(values) > SAME_SECONDS
            for phase, values in phases.items()
            if not (self.subtests and phase == "call")
        )

    def _lacks_time(self, phases: dict[str, list[float]]) -> bool:
        """Whether phases that matter may be missing: the table was cut, or it says that the call did not happen."""
        if self.hidden_below is not None:
            return self.hidden_below > NEGLIGIBLE_SECONDS
        if self.longest_only or not self.finished:
            return True
        return "call" not in phases

    def _at_the_limit(self) -> set[str]:
        """Tests whose seconds are the limit's: the session's own, or a round number that the slowest tests share."""
        seconds = {node_id: max(map(max, phases.values())) for node_id, phases in self.rows.items()}
        limit, least = self.limit, 1
        if limit is None and seconds:
            limit = max(seconds.values()) // _ROUND_LIMIT_SECONDS * _ROUND_LIMIT_SECONDS
            least = 2
        if not limit:
            return set()
        found = {key for key, value in seconds.items() if limit <= value <= limit + TIMEOUT_SLACK_SECONDS}
        return found if len(found) >= least else set()

    def _read_endings(self) -> tuple[set[str], set[str]]:
        """Returns who timed out and who crashed by the short summary, and notes its outcomes.

        The line is `FAILED id - message`, and ids may hold ` - `: the id is one that has a row.
        """
        timed_out, crashed = set(), set()
        for word, rest in self.endings:
            node_id = self._known_id(rest)
            if node_id is None:
                continue
            if word == "RERUN":
                self.rerun.add(node_id)
                continue
            self.outcomes[node_id] = _OUTCOMES[word]
            told = messages.flags(rest[len(node_id) :])
            if "timed_out" in told:
                timed_out.add(node_id)
            if "crashed" in told:
                crashed.add(node_id)
        return timed_out, crashed

    def _known_id(self, rest: str) -> str | None:
        """Returns the longest id with a row that the text begins with, up to its end or a ` - `."""
        known, end = None, -1
        for _ in range(_MOST_DASHES):
            end = rest.find(" - ", end + 1)
            part = rest if end < 0 else rest[:end]
            if part in self.rows:
                known = part
            if end < 0:
                break
        return known
