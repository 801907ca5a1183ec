"""What past runs took: the values that parsers yield, `weights collect` stores and `weights fit` counts."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("events", "block", "reportlog", "junit", "durations", "pytest-split")
"""Where a run's rows come from, the most telling first: of two sources of one run, the earlier kind counts."""

FLAGS = (
    "skipped",  # its seconds are no measurement
    "timed_out",  # it was killed: it takes at least so long
    "retried",  # it ran more than once, or its seconds are of one of several tries
    "first",  # the first test in its process, which pays what the process sets up
    "collateral",  # its process had a sticky CUDA error
    "crashed",  # its process died: it takes at least so long
    "failed",
    "truncated",  # the log does not hold all of its time
)

MAX_ID = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """What one test took once, in seconds: setup, call and teardown together.

    An id without `::` is a file's shared setup, once for each process that paid it. `pod` is what shares its speed: a
    shard's attempt, or the log's pod. `worker` is the process in it. None is unknown.
    """

    id: str
    seconds: float
    outcome: str | None = None
    pod: str | None = None
    worker: str | None = None
    mode: str | None = None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a suite: an id that no other run has, unix seconds (None: unknown), its kind, and where it was found."""

    run: str
    when: float | None
    kind: str
    source: str
    samples: tuple[Sample, ...]
