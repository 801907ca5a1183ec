"""Runs one shard's groups over a pool of workers: an event-driven list scheduler with the timeline's own rules.

Who says what, and what it means for a test, is the referee's; here groups meet slots.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shardlib.dispatch import Placement, Seat, place, width_on
from shardlib.model import Group, Mode
from shardlib.running.grouprun import GroupRun
from shardlib.running.journal import Journal
from shardlib.running.pool import Message, Pool, Worker
from shardlib.running.referee import Referee
from shardlib.running.source import Source
from shardlib.settings import Settings


@dataclass(kw_only=True)
class Pending:
    """A group that has its slots and waits for the workers on them to end."""

    run: GroupRun
    placement: Placement


class ShardRunner:
    """Takes groups from a source until none is left; `stop` ends it early."""

    def __init__(
        self,
        *,
        source: Source,
        pool: Pool,
        journal: Journal,
        settings: Settings,
        slots: int,
        max_workers: int,
        gpu_names: tuple[str, ...],
        write_order: Callable[[GroupRun], Path],
    ) -> None:
        """`max_workers` caps the living workers below `slots`; `write_order` stores what a worker is asked to run."""
        self._source = source
        self._pool = pool
        self._journal = journal
        self._referee = Referee(pool=pool, journal=journal, settings=settings, queue=self, gpu_names=gpu_names)
        self._slots = slots
        self._max_workers = max_workers
        self._write_order = write_order
        self._pending: list[Pending] = []
        self._came_back = True
        self._seats_seen: list[tuple[str, bool]] = []
        self._stop_asked = False

    def run(self) -> None:
        """Runs until every group has its result, or it was asked to stop and every worker has ended."""
        while True:
            if self._stop_asked and not self._referee.stopping:
                self._stop()
            if not self._referee.stopping and self._may_place():
                self._dispatch()
            if self._pool.is_empty and not self._pending:
                return
            for happened in self._pool.wait():
                if isinstance(happened, Message):
                    self._referee.heard(happened.worker, happened.body)
                else:
                    self._referee.gone(happened)

    @property
    def stopped(self) -> bool:
        """Whether the shard was ended early."""
        return self._referee.stopping

    def ask_to_stop(self) -> None:
        """Ends the shard soon; a signal handler may call this."""
        self._stop_asked = True

    def _stop(self) -> None:
        """Ends all workers; tests that run now stay unfinished."""
        self._referee.stopping = True
        self._journal.note("asked to stop: ending the workers")
        self._pending.clear()
        for worker in self._pool.workers:
            self._pool.kill(worker, "the shard was stopped")

    # --- the referee's queue -----------------------------------------------------------------------------------------

    def give_back(self, run: GroupRun) -> None:
        """Takes a group that lost its worker; it goes first."""
        self._source.give_back(run)
        self._came_back = True

    def drain(self) -> list[GroupRun]:
        """Hands out every group that has no worker."""
        runs = [*(pending.run for pending in self._pending), *self._source.drain()]
        self._pending.clear()
        return runs

    def write_order(self, run: GroupRun) -> Path:
        """Returns the file that tells a worker to run the group."""
        return self._write_order(run)

    # --- handing out groups -----------------------------------------------------------------------------------------

    def _may_place(self) -> bool:
        """Whether a seat changed or a group came back since the last dispatch: most messages change neither."""
        return self._came_back or self._seats_now() != self._seats_seen

    def _seats_now(self) -> list[tuple[str, bool]]:
        return [(seat.worker, seat.idle) for seat in self._pool.seats()]

    def _dispatch(self) -> None:
        """Gives groups to slots while any fits, then ends the idle workers that no group needs."""
        while (run := self._source.next(self._fits())) is not None:
            placement = self._place(run.group)
            assert placement is not None
            if placement.reuse is not None:
                self._referee.assign(self._worker(placement.reuse), run)
                continue
            for name in placement.evict:
                self._pool.end(self._worker(name))
            self._pending.append(Pending(run=run, placement=placement))
        for pending in [p for p in self._pending if self._is_vacant(p.placement)]:
            self._pending.remove(pending)
            worker = self._pool.start(pending.run.group.mode, pending.placement.slots)
            self._referee.started(worker, pending.run)
        for worker in self._pool.workers:
            if worker.idle and not self._source.wants(lambda group, worker=worker: self._suits(worker, group)):  # type: ignore[misc]
                self._pool.end(worker)
        self._came_back, self._seats_seen = False, self._seats_now()

    def _fits(self) -> Callable[[Group], bool]:
        """Returns a test for groups at this moment; groups of one mode and width fare alike."""
        known: dict[tuple[Mode, int], bool] = {}

        def fits(group: Group) -> bool:
            kind = group.mode, group.width
            if kind not in known:
                known[kind] = self._place(group) is not None
            return known[kind]

        return fits

    def _place(self, group: Group) -> Placement | None:
        """Asks the shared policy, with the cap on living workers on top."""
        seats = self._pool.seats()
        seats += [
            Seat(worker=f"pending {p.run.group.id}", mode=p.run.group.mode, slots=p.placement.slots, idle=False)
            for p in self._pending
        ]
        placement = place(group, [*seats], self._slots)
        if placement is None or placement.reuse is not None:
            return placement
        living = len(seats) - len(placement.evict)
        spare = [seat.worker for seat in seats if seat.idle and seat.worker not in placement.evict]
        too_many = max(0, living + 1 - self._max_workers)
        if too_many > len(spare):
            return None
        evict = (*placement.evict, *spare[:too_many])
        return Placement(slots=placement.slots, reuse=None, evict=evict)

    def _is_vacant(self, placement: Placement) -> bool:
        """Whether the workers that a placement ends are gone, their memory too."""
        seats = self._pool.seats()
        held = {slot for seat in seats for slot in seat.slots}
        ending = {seat.worker for seat in seats} & set(placement.evict)
        return not ending and held.isdisjoint(placement.slots)

    def _suits(self, worker: Worker, group: Group) -> bool:
        width = width_on(group, self._slots)
        return not group.mode.fresh_process and group.mode is worker.mode and width == len(worker.slots)

    def _worker(self, name: str) -> Worker:
        return next(worker for worker in self._pool.workers if worker.id == name)


def order_body(run: GroupRun, *, siblings: tuple[str, ...]) -> str:
    """Returns the JSON text that a worker reads: which file to collect, and what to run of it."""
    group = run.group
    return json.dumps(
        {
            "group": group.id,
            "file": group.file,
            "mode": group.mode.value,
            "gpus": group.gpus,
            "tests": run.left,
            "siblings": siblings,
        }
    )
