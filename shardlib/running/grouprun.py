"""One group's way through an attempt: what is left to run, and when to give it up. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shardlib.model import Group, PlannedTest

# A group is given up when so many workers in a row ended without finishing one of its tests: enough for a test that
# kills its process beside one that does the same, few enough to end when the GPU or the image is broken (a guess).
MAX_BARREN_WORKERS = 3


@dataclass
class GroupRun:
    """The tests that still have to run, in order; the workers may change meanwhile."""

    group: Group
    left: list[str]
    barren_workers: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, group: Group, tests: Iterable[str]) -> GroupRun:
        """Starts with the tests (a subset of the group's) to run in this attempt."""
        return cls(group=group, left=list(tests))

    def finish(self, test: str, *, by_itself: bool) -> None:
        """Takes a test off; one that finished `by_itself` (not by its process's death) shows that workers can work."""
        self.left.remove(test)
        if by_itself:
            self.barren_workers = 0

    def worker_ended(self, *, finished_any: bool) -> bool:
        """Notes that the group lost its worker; returns whether to go on with a fresh one."""
        self.barren_workers = 0 if finished_any else self.barren_workers + 1
        return self.barren_workers < MAX_BARREN_WORKERS

    def test(self, node_id: str) -> PlannedTest:
        """Returns the planned test with that id."""
        return next(test for test in self.group.tests if test.id == node_id)
