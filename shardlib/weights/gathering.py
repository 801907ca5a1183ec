"""Sessions of a log to runs: which pods' sessions belong together, in memory that does not grow with the log. Pure.

A log may hold many runs, one after the other or of several pods at once, and nothing in it says which sessions are of
one run. So a session joins the oldest run that is open, unless its pod has a session there already or most of its tests
do: then it is of a later run. Two runs are open at a time, since pods end at different moments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from shardlib.weights.findings import Found
from shardlib.weights.samples import Sample
from shardlib.weights.sessions import Session

OPEN_RUNS = 2
MOST_REPEATED = 0.5
"""Of a session's tests: pods of one run share few tests (a retried one's, a cpu smoke test), two runs most (a guess)."""


@dataclass
class _Run:
    pods: set[str | None] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)
    samples: list[Sample] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    totals: list[str] = field(default_factory=list)

    def takes(self, pod: str | None, samples: tuple[Sample, ...]) -> bool:
        repeated = sum(sample.id in self.ids for sample in samples)
        return pod not in self.pods and repeated <= MOST_REPEATED * len(samples)

    def add(self, session: Session, samples: tuple[Sample, ...]) -> None:
        self.pods.add(session.pod)
        self.ids.update(sample.id for sample in samples)
        self.samples += samples
        self.times += [] if session.when is None else [session.when]
        self.totals.append(session.total)


class Gathering:
    """Takes ended sessions in the log's order, and hands out the runs that can get no more."""

    def __init__(self) -> None:
        self._open: list[_Run] = []

    def add(self, session: Session) -> None:
        """Takes a session that has ended; one without rows is no run."""
        samples = session.samples()
        if not samples:
            return
        run = next((run for run in self._open if run.takes(session.pod, samples)), None)
        if run is None:
            run = _Run()
            self._open.append(run)
        run.add(session, samples)

    def complete(self, *, all_of_them: bool = False) -> Iterator[Found]:
        """Yields the runs that no further session will join."""
        while len(self._open) > (0 if all_of_them else OPEN_RUNS):
            run = self._open.pop(0)
            seal = " ".join(run.totals)
            yield Found(kind="durations", when=min(run.times, default=None), samples=tuple(run.samples), seal=seal)
