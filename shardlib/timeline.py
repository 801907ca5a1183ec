"""What one node does with a list of groups, event by event, by the rules that the runner follows.

Used to predict, to pack and to draw; so a better packing model is never a different model. Pure.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from shardlib.dispatch import Placement, Seat, place, width_on
from shardlib.errors import PlanError
from shardlib.model import Group, Mode


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One group's time on its slots, in milliseconds since the node began.

    `start_ms` is when it takes its slots; if `started`, the worker's start comes first and is part of the entry.
    """

    group: str
    slots: tuple[int, ...]
    start_ms: int
    end_ms: int
    started: bool


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """What one node does: an entry for each group, in order of start, and the end of the last one."""

    entries: tuple[Entry, ...]
    makespan_ms: int


def schedule(groups: Sequence[Group], *, slots: int, startup_ms: int) -> Timeline:
    """Return when and where each group runs on a node of `slots` slots that works through the list.

    At every moment the first group of the list that `dispatch.place` can place starts (list scheduling with
    backfilling; Graham 1969: at most 2 - 1/slots times the optimum for groups of one slot). A worker's start takes
    `startup_ms`. Takes O(n k) placements for n groups of k kinds (mode and width), not O(n^2).

    Raises:
        PlanError: a group is wider than the node.
    """
    waiting = _Waiting(groups, slots)
    seats: dict[str, Seat] = {}
    running: list[tuple[int, str, bool]] = []  # end, worker, whether the worker ends too
    entries: list[Entry] = []
    now = 0
    while True:
        while (found := waiting.first_that_fits(list(seats.values()), slots)) is not None:
            group, placement = found
            for worker in placement.evict:
                del seats[worker]
            started = placement.reuse is None
            end = now + group.cost_ms + (startup_ms if started else 0)
            worker = placement.reuse or f"w{len(entries)}"
            seats[worker] = Seat(worker=worker, mode=group.mode, slots=placement.slots, idle=False)
            heapq.heappush(running, (end, worker, group.mode.fresh_process))
            entry = Entry(group=group.id, slots=placement.slots, start_ms=now, end_ms=end, started=started)
            entries.append(entry)
        if not running:
            break
        now = running[0][0]
        while running and running[0][0] == now:  # all that ends at this moment, before anything starts
            _, worker, ends = heapq.heappop(running)
            seat = seats.pop(worker)
            if not ends:
                seats[worker] = Seat(worker=worker, mode=seat.mode, slots=seat.slots, idle=True)
    return Timeline(entries=tuple(entries), makespan_ms=now)


class _Waiting:
    """The groups that have not started: a queue for each kind, since `place` treats groups of one kind alike."""

    def __init__(self, groups: Sequence[Group], slots: int) -> None:
        queues: dict[tuple[Mode, int], deque[tuple[int, Group]]] = {}
        for position, group in enumerate(groups):
            width = width_on(group, slots)
            if width > slots:
                raise PlanError(f"{_first_test(group)} needs {width} slots, a node has {slots}; give it fewer GPUs")
            queues.setdefault((group.mode, width), deque()).append((position, group))
        self._queues = queues

    def first_that_fits(self, seats: Sequence[Seat], slots: int) -> tuple[Group, Placement] | None:
        """Take out the first group of the list that can be placed now; `None` if none can."""
        available = slots - sum(len(seat.slots) for seat in seats if not seat.idle)
        for kind in sorted(self._queues, key=lambda kind: self._queues[kind][0][0]):
            if kind[1] > available:
                continue
            queue = self._queues[kind]
            placement = place(queue[0][1], seats, slots)
            if placement is not None:
                group = queue.popleft()[1]
                if not queue:
                    del self._queues[kind]
                return group, placement
        return None


def _first_test(group: Group) -> str:
    return group.tests[0].id if group.tests else group.id
