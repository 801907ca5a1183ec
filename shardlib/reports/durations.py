"""The durations this run measured, in the durations file's format: for the next plan, not the reviewed file. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from shardlib.model import Outcome
from shardlib.verdict import CountedTest, Verdict

_RAN_TO_ITS_END = frozenset({Outcome.PASSED, Outcome.FAILED, Outcome.XFAILED, Outcome.XPASSED})
"""Outcomes whose seconds say what the test takes; a skip is no 0, a crash or a timeout cuts the test off."""


def durations(verdict: Verdict, setups: Mapping[str, float]) -> dict[str, float]:
    """Returns seconds by node id, and by file (a key without `::`) its shared setup.

    A test's own seconds are without the fixtures it shared: a file's are in the file's key, a session's in the start of
    each worker (`Measures.worker_start_seconds`). A test that did not run to its end is left out.
    """
    tests = {test.planned.id: _own_seconds(test) for test in verdict.tests if test.outcome in _RAN_TO_ITS_END}
    files = {file: seconds for file, seconds in setups.items() if "::" not in file}
    return {key: round(seconds, 4) for key, seconds in sorted({**files, **tests}.items())}


def dumps(seconds: Mapping[str, float]) -> str:
    """Returns the durations file's text, one key a line."""
    return json.dumps(seconds, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def _own_seconds(test: CountedTest) -> float:
    return max(0.0, test.seconds - sum(test.shared_seconds.values()))
