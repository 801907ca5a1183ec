"""What nodes do with a list of groups, event by event, by the rules that the runner follows.

Used to predict, to pack and to draw; so a better packing model is never a different model. Pure.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from .dispatch import Placement, Seat, place, width_on
from .errors import PlanError
from .model import Group, Mode


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
    return schedule_nodes(groups, nodes=1, slots=slots, startup_ms=startup_ms)[0]


def schedule_nodes(groups: Sequence[Group], *, nodes: int, slots: int, startup_ms: int) -> list[Timeline]:
    """Return what each of several alike nodes does if all take their next group from one list.

    At the beginning each group, in the list's order, goes to the node with the fewest free slots that has room for it
    (best fit); later, to the node that has just become free. A node that is given its groups in the order of their
    start does the same again by itself: what a node leaves in the list did not fit it.

    Raises:
        PlanError: a group is wider than a node.
    """
    waiting = _Waiting(groups, slots)
    all_nodes = [_Node(slots, startup_ms) for _ in range(nodes)]
    events: list[tuple[int, int]] = []
    _begin(waiting, all_nodes, events)
    while events:
        now, number = heapq.heappop(events)
        node = all_nodes[number]
        if node.finish(now):
            while (found := waiting.first_that_fits(node)) is not None:
                heapq.heappush(events, (node.start(*found, now), number))
    return [node.timeline() for node in all_nodes]


class _Node:
    """The living workers of one node and what they run."""

    def __init__(self, slots: int, startup_ms: int) -> None:
        self.slots = slots
        self.free = slots  # slots that no busy worker holds
        self.seats: dict[str, Seat] = {}
        self._startup_ms = startup_ms
        self._running: list[tuple[int, str]] = []  # end, worker
        self._entries: list[Entry] = []

    def start(self, group: Group, placement: Placement, now: int) -> int:
        """Run the group; returns when it ends."""
        for worker in placement.evict:
            del self.seats[worker]
        started = placement.reuse is None
        worker = placement.reuse or f"w{len(self._entries)}"
        end = now + group.cost_ms + (self._startup_ms if started else 0)
        self.seats[worker] = Seat(worker=worker, mode=group.mode, slots=placement.slots, idle=False)
        self.free -= len(placement.slots)
        heapq.heappush(self._running, (end, worker))
        self._entries.append(Entry(group=group.id, slots=placement.slots, start_ms=now, end_ms=end, started=started))
        return end

    def finish(self, now: int) -> bool:
        """End all that ends at this moment, before anything starts; returns whether anything did."""
        before = self.free
        while self._running and self._running[0][0] == now:
            worker = heapq.heappop(self._running)[1]
            seat = self.seats.pop(worker)
            self.free += len(seat.slots)
            if not seat.mode.fresh_process:
                self.seats[worker] = Seat(worker=worker, mode=seat.mode, slots=seat.slots, idle=True)
        return self.free > before

    def timeline(self) -> Timeline:
        """What the node has done."""
        return Timeline(
            entries=tuple(self._entries), makespan_ms=max((entry.end_ms for entry in self._entries), default=0)
        )


class _Waiting:
    """The groups that have not started: a queue for each kind, since `place` treats groups of one kind alike."""

    def __init__(self, groups: Sequence[Group], slots: int) -> None:
        self._queues: dict[tuple[Mode, int], deque[tuple[int, Group]]] = {}
        for position, group in enumerate(groups):
            width = width_on(group, slots)
            if width > slots:
                raise PlanError(f"{_first_test(group)} needs {width} slots, a node has {slots}; give it fewer GPUs")
            self._queues.setdefault((group.mode, width), deque()).append((position, group))

    def kinds(self) -> list[tuple[Mode, int]]:
        """The kinds that are left, that of the list's first group first."""
        return sorted(self._queues, key=lambda kind: self._queues[kind][0][0])

    def take(self, kind: tuple[Mode, int], node: _Node) -> tuple[Group, Placement] | None:
        """Take out the first group of a kind, if the node can place it now."""
        if kind[1] > node.free:
            return None
        queue = self._queues[kind]
        placement = place(queue[0][1], list(node.seats.values()), node.slots)
        if placement is None:
            return None
        group = queue.popleft()[1]
        if not queue:
            del self._queues[kind]
        return group, placement

    def first_that_fits(self, node: _Node) -> tuple[Group, Placement] | None:
        """Take out the first group of the list that the node can place now; `None` if it can place none."""
        for kind in self.kinds():
            found = self.take(kind, node)
            if found is not None:
                return found
        return None


def _begin(waiting: _Waiting, nodes: Sequence[_Node], events: list[tuple[int, int]]) -> None:
    """Fill the empty nodes, each group on the fullest node that still has room; the lowest number among equals."""
    by_free: dict[int, list[int]] = {nodes[0].slots: list(range(len(nodes)))}  # heaps of node numbers
    while True:
        for kind in waiting.kinds():
            room = min((free for free, numbers in by_free.items() if numbers and free >= kind[1]), default=None)
            if room is not None:
                break
        else:
            return
        number = heapq.heappop(by_free[room])
        found = waiting.take(kind, nodes[number])
        if found is None:  # cannot be: an empty or partly busy node has no idle worker in the way
            raise AssertionError(f"{kind} does not fit {room} free slots")
        heapq.heappush(events, (nodes[number].start(*found, 0), number))
        heapq.heappush(by_free.setdefault(nodes[number].free, []), number)


def _first_test(group: Group) -> str:
    return group.tests[0].id if group.tests else group.id
