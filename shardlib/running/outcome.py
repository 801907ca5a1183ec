"""From pytest's reports of one test to its one outcome; the same rules as pytest's own summary. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from shardlib.model import Outcome


@dataclass
class Tries:
    """Collects the reports of one test as they happen.

    pytest-rerunfailures runs a test several times and reports each try: a setup report begins a try, and the last try
    counts. A subtest's report (pytest 9, pytest-subtests) belongs to the call phase.
    """

    reports: list[pytest.TestReport] = field(default_factory=list)
    reruns: int = 0
    seconds: float = 0.0

    def add(self, report: pytest.TestReport) -> None:
        """Takes the next report."""
        if report.when == "setup" and not is_subtest(report):
            self.reports.clear()
        if report.outcome == "rerun":  # type: ignore[comparison-overlap]  # pytest-rerunfailures' own value
            self.reruns += 1
        if not is_subtest(report):
            self.seconds += report.duration
        self.reports.append(report)

    def outcome(self) -> Outcome:
        """Returns the outcome that counts; ERROR when pytest reported nothing at all."""
        categories = [_category(report) for report in self.reports]
        for outcome in _WORST_FIRST:
            if outcome in categories:
                return outcome
        return Outcome.ERROR if not categories else Outcome.PASSED

    def reason(self) -> str:
        """Returns one line: why it was skipped or expected to fail, or the failure's last line."""
        for report in self.reports:
            if _category(report) in (None, Outcome.PASSED):
                continue
            if hasattr(report, "wasxfail"):
                return str(report.wasxfail)
            if report.outcome == "skipped":
                return _skip_reason(report)
        failed = [report for report in self.reports if report.failed]
        return crash_line(failed[0]) if failed else ""

    def failures(self) -> list[pytest.TestReport]:
        """Returns the reports that failed, in order."""
        return [report for report in self.reports if report.failed]


# What decides when a test's phases disagree: a failed call outranks an error in teardown, and so on.
_WORST_FIRST = (Outcome.FAILED, Outcome.ERROR, Outcome.XPASSED, Outcome.XFAILED, Outcome.SKIPPED)


def is_subtest(report: object) -> bool:
    """Whether a report is about a subtest (pytest 9's SubtestReport, pytest-subtests' SubTestReport)."""
    return type(report).__name__.lower() == "subtestreport"


def _category(report: pytest.TestReport) -> Outcome | None:
    if is_subtest(report):
        return Outcome.FAILED if report.failed and not hasattr(report, "wasxfail") else None
    if hasattr(report, "wasxfail"):
        if report.skipped:
            return Outcome.XFAILED
        if report.passed:
            return Outcome.XPASSED
    if report.failed:
        return Outcome.ERROR if report.when in ("setup", "teardown") else Outcome.FAILED  # pytest-forked has others
    return Outcome.SKIPPED if report.skipped else None


def _skip_reason(report: pytest.TestReport) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    return reason.removeprefix("Skipped: ")


def crash_line(report: pytest.TestReport) -> str:
    """Returns one line for a failed report: that of pytest's short summary, else the first that pytest marks as the error.

    A fixture that is not found has no crash, and its text begins with where the test is.
    """
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = str(crash.message if crash is not None else report.longreprtext).strip().splitlines()
    marked = [line[1:].strip() for line in lines if crash is None and line.startswith("E  ")]
    return (*marked, *lines, report.outcome)[0][:500]


def detail(reports: Sequence[pytest.TestReport], limit: int) -> str:
    """Returns the failures' text with what the test printed, at most about `limit` characters: head and tail."""
    parts: list[str] = []
    for report in reports:
        parts.append(f"{report.when}:\n{shorten(report.longreprtext, limit)}")
        parts.extend(f"----- {name} -----\n{shorten(text, limit // 4)}" for name, text in report.sections)
    return shorten("\n".join(parts), limit)


def shorten(text: str, limit: int) -> str:
    """Returns `text`, or its first and last `limit / 2` characters with what is left out said between them."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"


def sticky_error(reports: Sequence[pytest.TestReport], patterns: Sequence[str]) -> str | None:
    """Returns the first of `patterns` that a failure's text contains: a CUDA error after which the process is lost."""
    texts = [report.longreprtext for report in reports]
    texts += [text[-100_000:] for report in reports for _, text in report.sections]
    return next((pattern for pattern in patterns for text in texts if pattern in text), None)


def report_fields(report: pytest.TestReport, limit: int) -> dict[str, Any]:
    """Returns what the event log keeps of one report."""
    fields: dict[str, Any] = {"when": report.when, "outcome": report.outcome, "seconds": round(report.duration, 6)}
    if hasattr(report, "wasxfail"):
        fields["reason"] = str(report.wasxfail)[:500]
    if is_subtest(report):
        context = getattr(report, "context", None)
        fields["subtest"] = shorten(f"{getattr(context, 'msg', None)!r} {getattr(context, 'kwargs', {})!r}", 500)
    if report.failed:
        fields["detail"] = detail([report], limit)
    elif report.skipped and "reason" not in fields:
        fields["reason"] = _skip_reason(report)[:500]
    return fields
