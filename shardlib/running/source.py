"""Where a runner's next group comes from. Today a shard's own list; a pool that shares a tail can take its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from shardlib.model import Group
from shardlib.running.grouprun import GroupRun


class Source(Protocol):
    """Hands out groups one at a time."""

    def next(self, fits: Callable[[Group], bool]) -> GroupRun | None:
        """Returns the next group that fits now, which is then the caller's; None if none does."""

    def give_back(self, run: GroupRun) -> None:
        """Takes back a group whose worker was lost, to be handed out before all others."""

    def wants(self, matches: Callable[[Group], bool]) -> bool:
        """Whether a group that matches is still to be handed out: then an idle worker of its kind is kept."""

    def drain(self) -> list[GroupRun]:
        """Hands out everything that is left, at once."""


class OwnList:
    """A shard's own groups in planned-start order; the first that fits, as in the timeline."""

    def __init__(self, runs: Iterable[GroupRun]) -> None:
        self._waiting = list(runs)

    def next(self, fits: Callable[[Group], bool]) -> GroupRun | None:
        """Returns the first group that fits now."""
        for index, run in enumerate(self._waiting):
            if fits(run.group):
                return self._waiting.pop(index)
        return None

    def give_back(self, run: GroupRun) -> None:
        """Puts the group in front."""
        self._waiting.insert(0, run)

    def wants(self, matches: Callable[[Group], bool]) -> bool:
        """Whether a waiting group matches."""
        return any(matches(run.group) for run in self._waiting)

    def drain(self) -> list[GroupRun]:
        """Hands out all waiting groups."""
        left, self._waiting = self._waiting, []
        return left
