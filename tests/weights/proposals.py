"""Proposals written by hand, for the tests of review and accept; no numpy."""

from __future__ import annotations

from collections.abc import Sequence

from shardlib.weights.proposal import Flag, Mark, Point, Proposal, ProposedRun, Shift, SlowPod, TestWeight

DAY = 86_400.0
START = 1_750_000_000.0
RUNS = 10
HOSTILE = 'tests/t.py::t["<script>alert(1)</script>&{{x}}\n\x1b[31m\u202e"]'


def a_test(
    node_id: str,
    weight: float,
    *flags: Flag,
    samples: int = 10,
    scatter: float = 0.1,
    spread: float = 1.1,
    shift: Shift | None = None,
    mode: str | None = None,
    marks: Sequence[Mark] = (Mark.USED,) * RUNS,
) -> TestWeight:
    return TestWeight(
        id=node_id,
        mode=mode,
        weight=weight,
        p10=weight / spread,
        p90=weight * spread,
        samples=samples,
        effective=float(samples),
        scatter=scatter,
        last_seen=RUNS - 1,
        flags=flags,
        shift=shift,
        why=f"mean of {samples} observations",
        history=tuple(Point(run=run, seconds=weight, mark=mark) for run, mark in enumerate(marks)),
    )


def proposal_of(*tests: TestWeight, slow_pods: tuple[SlowPod, ...] = ()) -> Proposal:
    return Proposal(
        settings={
            "half_life_runs": 4.0,
            "half_life_tuned": True,
            "shift_up_runs": 2,
            "shift_down_runs": 4,
            "margin": False,
            "shards": 2,
        },
        runs=tuple(
            ProposedRun(run=f"run-{run}", when=START + run * DAY, kind="events", tests=len(tests), factor=1.0)
            for run in range(RUNS)
        ),
        slow_pods=slow_pods,
        tests=tuple(sorted(tests, key=lambda test: test.id)),
    )


def crowd(tests: int = 40, seconds: float = 10.0) -> list[TestWeight]:
    """Tests that nothing is odd about, beside which others are looked at."""
    return [a_test(f"tests/crowd_{number % 5}.py::t{number:02}", seconds) for number in range(tests)]


def in_use(*tests: TestWeight) -> dict[str, float]:
    """A durations file in which each test has its proposed weight."""
    return {test.id: test.weight for test in tests}
