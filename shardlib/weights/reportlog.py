"""pytest-reportlog's JSON lines: exact seconds of each phase. One run for each session in the file."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from shardlib.durations import MAX_SECONDS
from shardlib.weights import messages, streams
from shardlib.weights.findings import Found, Unread
from shardlib.weights.samples import Sample

_PHASES = ("setup", "call", "teardown")


@dataclass
class _Test:
    phases: dict[str, float] = field(default_factory=dict)
    outcome: str = "passed"
    worker: str | None = None
    flags: set[str] = field(default_factory=set)


def parse(stream: io.BufferedReader, unread: Unread) -> Iterator[Found]:
    """Yields the sessions of a report log; a line that is no report is counted, a torn last line too."""
    session = _Session()
    for number, line in _lines(stream, unread):
        if not line.strip():
            continue
        try:
            body = json.loads(line)
        except (ValueError, RecursionError) as err:
            unread.add(number, f"not a JSON line: {err}")
            continue
        kind = body.get("$report_type") if isinstance(body, dict) else None
        if kind == "SessionStart":
            yield from session.found()
            session = _Session()
        elif kind == "TestReport":
            why = session.add(body)
            if why:
                unread.add(number, why)
            else:
                unread.seen["rows"] += 1
        elif kind is None and not (isinstance(body, dict) and "exitstatus" in body):
            unread.add(number, f"no report: {line[:100]!r}")
    yield from session.found()


@dataclass
class _Session:
    when: float | None = None
    tests: dict[str, _Test] = field(default_factory=dict)

    def add(self, body: dict[str, Any]) -> str | None:
        """Takes one report; returns what is wrong with it. A second setup begins another try: the last one counts."""
        node_id, phase, seconds = body.get("nodeid"), body.get("when"), body.get("duration")
        if not isinstance(node_id, str) or not node_id or phase not in _PHASES or not _is_seconds(seconds):
            return f"a report without id, phase or seconds: {str(node_id)[:100]!r}"
        test = self.tests.setdefault(node_id, _Test())
        if phase in test.phases and phase == "setup":
            test.phases, test.outcome, test.flags = {}, "passed", {"retried"}
        test.phases[phase] = max(float(seconds), test.phases.get(phase, 0.0))  # xdist may send a report twice
        worker, start = body.get("worker_id"), body.get("start")
        if isinstance(worker, str) and worker.startswith("gw"):
            test.worker = worker
        if _is_seconds(start, most=1e11):
            self.when = start if self.when is None else min(self.when, start)
        self._judge(test, body, str(phase))
        return None

    def found(self) -> Iterator[Found]:
        """Yields the session, if it has tests."""
        samples = tuple(
            Sample(
                id=node_id,
                seconds=round(sum(test.phases.values()), 6),
                outcome=test.outcome,
                worker=test.worker,
                flags=tuple(sorted(test.flags)),
            )
            for node_id, test in self.tests.items()
        )
        if samples:
            yield Found(kind="reportlog", when=self.when, samples=samples)

    @staticmethod
    def _judge(test: _Test, body: dict[str, Any], phase: str) -> None:
        outcome, xfail = body.get("outcome"), "wasxfail" in body
        if outcome == "rerun":
            test.flags.add("retried")
        elif outcome == "skipped":
            test.outcome = "xfailed" if xfail else "skipped"
            test.flags |= set() if xfail else {"skipped"}
        elif outcome == "failed":
            test.outcome = "failed" if phase == "call" else ("error" if test.outcome == "passed" else test.outcome)
            test.flags |= {"failed"} | messages.flags(json.dumps(body.get("longrepr"))[-4000:])
        elif outcome == "passed" and xfail:
            test.outcome = "xpassed"


def _lines(stream: io.BufferedReader, unread: Unread) -> Iterator[tuple[int, str]]:
    for first, text in streams.chunks(stream, unread):
        yield from enumerate(text.removesuffix("\n").split("\n"), first)


def _is_seconds(value: object, most: float = MAX_SECONDS) -> TypeGuard[float]:
    return type(value) in (int, float) and 0 <= value <= most  # type: ignore[operator]  # false for NaN
