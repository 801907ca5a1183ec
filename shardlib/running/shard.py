"""Runs one shard's groups over a pool of workers: an event-driven list scheduler with the timeline's own rules.

Each message of a worker is one step of a small state machine; what a worker says about tests that are not its group's
is ignored, since it shares its process with the code under test.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardlib.dispatch import Placement, Seat, place, width_on
from shardlib.model import Group, Outcome
from shardlib.running.grouprun import GroupRun
from shardlib.running.journal import Journal
from shardlib.running.limits import test_limit_seconds
from shardlib.running.pool import Gone, Message, Pool, Worker
from shardlib.running.process import explain_status
from shardlib.running.protocol import CHANNEL_LOST_STATUS
from shardlib.running.source import Source
from shardlib.settings import Settings

# When no worker has ever become ready, so many failed starts end the shard: the image or the arguments are broken.
_MAX_FAILED_STARTS = 3


@dataclass(kw_only=True)
class Assignment:
    """What a worker is doing: the group, since when, and the test that runs in it now."""

    run: GroupRun
    began: float
    running: str | None = None
    finished_any: bool = False
    retire: str = ""


@dataclass(kw_only=True)
class History:
    """What a worker has done: how many groups it took before, and the last test it finished."""

    now: Assignment | None = None
    groups: int = 0
    last_test: str | None = None
    retired: bool = False


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
        self._settings = settings
        self._slots = slots
        self._max_workers = max_workers
        self._gpu_names = gpu_names
        self._write_order = write_order
        self._pending: list[Pending] = []
        self._ever_ready = False
        self._failed_starts = 0
        self._stop_asked = False
        self._stopping = False

    def run(self) -> None:
        """Runs until every group has its result, or it was asked to stop and every worker has ended."""
        while True:
            if self._stop_asked and not self._stopping:
                self._stop()
            if not self._stopping:
                self._dispatch()
            if self._pool.is_empty and not self._pending:
                return
            for happened in self._pool.wait():
                if isinstance(happened, Message):
                    self._heard(happened.worker, happened.body)
                else:
                    self._gone(happened)

    @property
    def stopped(self) -> bool:
        """Whether the shard was ended early."""
        return self._stopping

    def ask_to_stop(self) -> None:
        """Ends the shard soon; a signal handler may call this."""
        self._stop_asked = True

    def _stop(self) -> None:
        """Ends all workers; tests that run now stay unfinished."""
        self._stopping = True
        self._journal.note("asked to stop: ending the workers")
        self._pending.clear()
        for worker in self._pool.workers:
            self._pool.kill(worker, "the shard was stopped")

    # --- handing out groups -----------------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Gives groups to slots while any fits, then ends the idle workers that no group needs."""
        while (run := self._source.next(lambda group: self._place(group) is not None)) is not None:
            placement = self._place(run.group)
            assert placement is not None
            if placement.reuse is not None:
                self._assign(self._worker(placement.reuse), run)
                continue
            for name in placement.evict:
                self._pool.end(self._worker(name))
            self._pending.append(Pending(run=run, placement=placement))
        for pending in [p for p in self._pending if self._is_vacant(p.placement)]:
            self._pending.remove(pending)
            self._start(pending)
        for worker in self._pool.workers:
            if worker.idle and not self._source.wants(lambda group, worker=worker: self._suits(worker, group)):  # type: ignore[misc]
                self._pool.end(worker)

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

    def _start(self, pending: Pending) -> None:
        worker = self._pool.start(pending.run.group.mode, pending.placement.slots)
        worker.state = History(now=Assignment(run=pending.run, began=time.monotonic()))
        self._journal.event("worker_start", worker=worker.id, mode=worker.mode.value, gpus=self._names(worker))

    def _assign(self, worker: Worker, run: GroupRun) -> None:
        worker.idle = False
        worker.state.now = Assignment(run=run, began=time.monotonic())
        self._order(worker)

    def _order(self, worker: Worker) -> None:
        worker.process.send("run", order=str(self._write_order(worker.state.now.run)))
        worker.within(self._settings.collect_timeout_seconds, "collecting its file took too long")

    # --- what workers say -------------------------------------------------------------------------------------------

    def _heard(self, worker: Worker, body: dict[str, Any]) -> None:
        kind = body.get("event")
        history: History = worker.state
        if kind == "ready":
            self._ready(worker, body)
        elif kind == "end_failed":
            self._ended_badly(worker, str(body.get("text")))
        elif history.now is None or (self._stopping and kind != "finish"):
            return
        elif kind == "collected":
            self._collected(worker, history.now, body)
        elif kind == "group_done":
            self._group_done(worker, history.now)
        elif self._journal.knows(history.now.run.group.id, test := str(body.get("id"))):
            if kind == "start" and worker.killed_for:
                return  # it goes down: this test is the next worker's
            if kind == "start":
                history.now.running = test
                limit = test_limit_seconds(history.now.run.test(test), history.now.run.group, self._settings)
                worker.within(limit, f"no end after {limit:.0f} s")
                self._journal.event("start", worker=worker.id, group=history.now.run.group.id, id=test)
            elif kind == "report":
                self._journal.event("report", worker=worker.id, **{k: v for k, v in body.items() if k != "event"})
            elif kind == "finish":
                self._finished(worker, history.now, test, body)

    def _ready(self, worker: Worker, body: dict[str, Any]) -> None:
        self._ever_ready = True
        self._failed_starts = 0
        seconds = time.monotonic() - worker.started
        self._journal.event("worker_ready", worker=worker.id, seconds=round(seconds, 6))
        if worker.state.now is not None and not self._stopping:
            worker.state.now.began = time.monotonic()
            self._order(worker)

    def _collected(self, worker: Worker, now: Assignment, body: dict[str, Any]) -> None:
        group = now.run.group
        missing = [test for test in body.get("missing", []) if test in now.run.left]
        fields = {name: body.get(name, []) for name in ("missing", "extra", "errors")}
        self._journal.event("collected", worker=worker.id, group=group.id, seconds=body.get("seconds"), **fields)
        if missing and worker.state.groups > 0:
            # What ran before in this process may be the reason: a fresh one decides.
            self._journal.note(
                f"{group.id}: {worker.id} misses {len(missing)} tests of {group.file}; trying a fresh one"
            )
            self._retire(worker)
            self._pool.end(worker)
            self._source.give_back(now.run)
            return
        self._journal.add_extra(group.id, [test for test in fields["extra"] if isinstance(test, str)])
        why = "; ".join(map(str, fields["errors"])) or f"{group.file} does not have it in this process"
        for test in missing:
            now.run.finish(test, by_itself=True)
            self._journal.finish(
                test, Outcome.MISSING, reason="planned, but the worker did not collect it", detail=why, worker=worker.id
            )
        if missing:
            worker.process.send("go on")
        worker.within(self._settings.collect_timeout_seconds, "its first test did not start")

    def _finished(self, worker: Worker, now: Assignment, test: str, body: dict[str, Any]) -> None:
        if test not in now.run.left:
            return
        outcome = _outcome(body.get("outcome"))
        fields = {k: body[k] for k in ("seconds", "shared_seconds", "reason", "detail", "reruns", "note") if k in body}
        if worker.killed_for and test == now.running:
            # The signal that asks for the stacks can wake a call that hung: the test has had its time all the same.
            outcome = Outcome.TIMED_OUT
            fields |= {"reason": worker.killed_for, "detail": worker.process.tail()}
        self._journal.finish(test, outcome, worker=worker.id, **fields)
        now.run.finish(test, by_itself=True)
        now.running, now.finished_any = None, True
        worker.state.last_test = test
        worker.within(self._settings.end_timeout_seconds, "the next test did not start")
        if worker.killed_for:
            worker.process.kill()  # before it gets far with the next test, which is a fresh worker's
            self._retire(worker)
            self._release(now)
        elif body.get("retire"):
            self._journal.note(f"{worker.id} is retired after {test}: {body['retire']}")
            self._retire(worker)
            worker.ending = True
            worker.within(self._settings.end_timeout_seconds, "its worker did not end")
            self._release(now)

    def _group_done(self, worker: Worker, now: Assignment) -> None:
        history: History = worker.state
        history.now, history.groups = None, history.groups + 1
        leftover = self._pool.leftover(worker)
        if now.run.left:  # only a worker that was tampered with says so
            self._source.give_back(now.run)
        else:
            self._complete(now, where=self._where(worker), leftover=leftover)
        worker.deadline = float("inf")
        if leftover is not None and leftover > self._settings.max_leftover_gpu_memory:
            self._journal.note(
                f"{now.run.group.file} left {leftover >> 20} MiB on {self._where(worker)}: {worker.id} is retired"
            )
            self._retire(worker)
            self._pool.end(worker)
        elif worker.mode.fresh_process:
            self._pool.end(worker)
        else:
            worker.idle = True

    # --- ends -------------------------------------------------------------------------------------------------------

    def _gone(self, gone: Gone) -> None:
        worker, status = gone.worker, gone.worker.process.status
        history: History = worker.state
        why = worker.killed_for or explain_status(status)
        self._journal.event("worker_end", worker=worker.id, status=status, why=why)
        if worker.orphans_killed:
            after = f" after {history.last_test}" if history.last_test else ""
            self._journal.note(f"killed {worker.orphans_killed} processes that {worker.id} left behind{after}")
        if self._stopping:
            return
        if history.now is not None:
            self._died(worker, history.now, why)
        elif not history.retired and (status != 0 or worker.killed_for):
            self._ended_badly(worker, f"{why}\n{worker.process.tail()}")

    def _died(self, worker: Worker, now: Assignment, why: str) -> None:
        """Gives the running test its outcome and the rest of the group to a fresh worker, or gives the group up."""
        if worker.process.status == CHANNEL_LOST_STATUS or not (worker.channel_open or worker.killed_for):
            why = f"its process lost the channel to the runner (closed file descriptors?): {why}"
        tail = worker.process.tail()
        if now.running is not None:
            timed_out = worker.killed_for.startswith("no end after") or "+ Timeout +" in tail  # pytest-timeout's banner
            outcome = Outcome.TIMED_OUT if timed_out else Outcome.CRASHED
            now.run.finish(now.running, by_itself=False)
            self._journal.finish(now.running, outcome, reason=why, detail=tail, worker=worker.id)
        else:
            self._journal.note(f"{worker.id} ended in {now.run.group.id} while no test ran: {why}")
        if not self._ever_ready:
            self._failed_starts += 1
            if self._failed_starts >= _MAX_FAILED_STARTS:
                self._give_up([now.run, *self._source.drain(), *(p.run for p in self._pending)], why, tail)
                self._pending.clear()
                return
        go_on = now.run.worker_ended(finished_any=now.finished_any)
        if now.run.left and not go_on:
            self._give_up([now.run], why, tail)
        else:
            self._release(now)

    def _release(self, now: Assignment) -> None:
        """Completes a group whose worker is lost, or puts it back for a fresh one."""
        if now.run.left:
            self._source.give_back(now.run)
        else:
            self._complete(now, where="a worker that ended")

    def _give_up(self, runs: list[GroupRun], why: str, tail: str) -> None:
        for run in runs:
            for test in list(run.left):
                run.finish(test, by_itself=False)
                reason = f"not run: workers for {run.group.id} end without finishing a test: {why}"
                self._journal.finish(test, Outcome.NOT_RUN, reason=reason, detail=tail)
            self._journal.group_done(run.group, seconds=run.seconds, where="no worker")

    def _complete(self, now: Assignment, *, where: str, leftover: int | None = None) -> None:
        now.run.seconds += time.monotonic() - now.began
        self._journal.group_done(now.run.group, seconds=now.run.seconds, where=where, leftover_bytes=leftover)

    def _ended_badly(self, worker: Worker, text: str) -> None:
        """Charges a failed end of the session to the worker's last test, as plain pytest does."""
        history: History = worker.state
        if history.retired or history.last_test is None:
            self._journal.note(f"{worker.id} did not end well: {text}")
            return
        test, history.retired = history.last_test, True
        reason = f"its worker did not end well: {text.splitlines()[0]}"
        self._journal.finish(test, Outcome.ERROR, reason=reason[:500], detail=text, worker=worker.id)
        if self._journal.is_complete(group := self._journal.group_of(test)):
            self._journal.write_result(group)

    def _retire(self, worker: Worker) -> None:
        """Lets nothing of this worker's end count: it is no longer fit, and its group goes elsewhere."""
        worker.state.now, worker.state.retired, worker.idle = None, True, False

    def _worker(self, name: str) -> Worker:
        return next(worker for worker in self._pool.workers if worker.id == name)

    def _names(self, worker: Worker) -> list[str]:
        return [self._gpu_names[slot] for slot in worker.slots] if self._gpu_names else []

    def _where(self, worker: Worker) -> str:
        names = self._names(worker)
        return f"{worker.id} (GPU {','.join(names)})" if names else worker.id


def _outcome(value: object) -> Outcome:
    """Returns a worker's word for an outcome, ERROR for anything that is none: only a forger says so."""
    return next((outcome for outcome in Outcome if outcome.value == value), Outcome.ERROR)


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
