"""Plain pytest's own word on each test: `python plain.py OUT.json [pytest arguments]` runs it with one recording plugin.

The outcomes are the categories under which pytest counts its reports; nothing of shardlib is used to get them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest


class Recorder:
    """Keeps, for each node id, the categories of its reports with their reasons, from its last try on."""

    def __init__(self) -> None:
        self.tests: dict[str, list[tuple[str, str]]] = {}
        self._config: Any = None

    def pytest_configure(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        category = self._config.hook.pytest_report_teststatus(report=report, config=self._config)[0]
        rows = self.tests.setdefault(report.nodeid, [])
        if category == "rerun":
            rows.clear()
        elif category and (report.failed or "subtest" not in type(report).__name__.lower()):
            rows.append((category, _reason(report)))

    def outcomes(self) -> dict[str, tuple[str, str]]:
        """Returns the worst category of each test, with its reason where that is not a failure's text.

        A failed subtest fails its test; what else becomes of a subtest is only its own.
        """
        return {node_id: _worst(rows) for node_id, rows in self.tests.items()}


def _reason(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return str(report.wasxfail)
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return ""


def _worst(rows: list[tuple[str, str]]) -> tuple[str, str]:
    for category in ("failed", "error", "xpassed", "xfailed", "skipped", "passed"):
        for name, reason in rows:
            if name == category or (category == "failed" and name in ("subtests failed", "subtest failed")):
                return category, reason
    return "nothing", repr(rows)


def main() -> int:
    out, *arguments = sys.argv[1:]
    sys.path.pop(0)  # this file's folder: pytest's own console script has none
    sys.argv = ["pytest", *arguments]
    recorder = Recorder()
    status = pytest.main(arguments, plugins=[recorder])
    Path(out).write_text(json.dumps({"status": int(status), "tests": recorder.outcomes()}), encoding="ascii")
    return int(status)


if __name__ == "__main__":
    raise SystemExit(main())
