"""Turns what workers say, and how they end, into outcomes: each message is one step of a small state machine.

What a worker says about tests that are not its group's is ignored, since it shares its process with the code under test.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from shardlib.model import Outcome
from shardlib.running.grouprun import GroupRun
from shardlib.running.journal import Journal
from shardlib.running.limits import test_limit_seconds
from shardlib.running.pool import Gone, Pool, Worker
from shardlib.running.process import explain_status
from shardlib.running.protocol import CHANNEL_LOST_STATUS
from shardlib.settings import Settings

# When no worker has ever become ready, so many failed starts end the shard: the image or the arguments are broken.
_MAX_FAILED_STARTS = 3
# How the reason of a kill begins when the test that ran had its time.
_HUNG = "no end after"


class Queue(Protocol):
    """Where groups go that lost their worker, and whence all the rest comes when none can be run."""

    def give_back(self, run: GroupRun) -> None:
        """Takes a group for a fresh worker."""

    def drain(self) -> list[GroupRun]:
        """Hands out every group that has no worker."""

    def write_order(self, run: GroupRun) -> Path:
        """Returns the file that tells a worker to run the group."""


@dataclass(kw_only=True)
class Assignment:
    """What a worker is doing: the group, since when, and the test that runs in it now."""

    run: GroupRun
    began: float
    running: str | None = None
    finished_any: bool = False


@dataclass(kw_only=True)
class History:
    """What a worker has done: how many groups it took before, and the last test it finished.

    `retired`: it is no longer fit, and nothing of its end counts.
    """

    now: Assignment | None = None
    groups: int = 0
    last_test: str | None = None
    retired: bool = False


class Referee:
    """Hears the workers of one shard and decides; the journal writes it down."""

    def __init__(
        self, *, pool: Pool, journal: Journal, settings: Settings, queue: Queue, gpu_names: tuple[str, ...]
    ) -> None:
        """`gpu_names` are the node's, for messages."""
        self._pool = pool
        self._journal = journal
        self._settings = settings
        self._queue = queue
        self._gpu_names = gpu_names
        self._ever_ready = False
        self._failed_starts = 0
        self.stopping = False

    def started(self, worker: Worker, run: GroupRun) -> None:
        """Notes that a worker was started for a group."""
        worker.state = History(now=Assignment(run=run, began=time.monotonic()))
        self._journal.event("worker_start", worker=worker.id, mode=worker.mode.value, gpus=self._names(worker))

    def assign(self, worker: Worker, run: GroupRun) -> None:
        """Gives an idle worker a group."""
        worker.idle = False
        worker.state.now = Assignment(run=run, began=time.monotonic())
        self._order(worker)

    def _order(self, worker: Worker) -> None:
        worker.process.send("run", order=str(self._queue.write_order(worker.state.now.run)))
        worker.within(self._settings.collect_timeout_seconds, "collecting its file took too long")

    # --- what workers say -------------------------------------------------------------------------------------------

    def heard(self, worker: Worker, body: dict[str, Any]) -> None:
        """Takes one message of a worker."""
        kind = body.get("event")
        history: History = worker.state
        if kind == "ready":
            self._ready(worker)
        elif kind == "end_failed":
            self._ended_badly(worker, str(body.get("text")))
        elif history.now is None or (self.stopping and kind != "finish"):
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
                worker.within(limit, f"{_HUNG} {limit:.0f} s")
                self._journal.event("start", worker=worker.id, group=history.now.run.group.id, id=test)
            elif kind == "report":
                self._journal.event("report", worker=worker.id, **{k: v for k, v in body.items() if k != "event"})
            elif kind == "finish":
                self._finished(worker, history.now, test, body)

    def _ready(self, worker: Worker) -> None:
        self._ever_ready = True
        self._failed_starts = 0
        seconds = time.monotonic() - worker.started
        self._journal.event("worker_ready", worker=worker.id, seconds=round(seconds, 6))
        if worker.state.now is not None and not self.stopping:
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
            history: History = worker.state
            history.now = None
            self._pool.end(worker)  # what it ran counts, and so does how its session ends
            self._queue.give_back(now.run)
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
        if worker.killed_for.startswith(_HUNG) and test == now.running:
            # The signal that asks for the stacks can wake a call that hung: the test has had its time all the same.
            outcome = Outcome.TIMED_OUT
            fields |= {"reason": worker.killed_for, "detail": worker.process.tail()}
        if self.stopping and not outcome.ok:
            return  # the signal that stops the container may be why: the next attempt decides
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
            self._queue.give_back(now.run)
        else:
            self._complete(now, where=self._where(worker), leftover=leftover)
        worker.deadline = float("inf")
        if leftover is not None and leftover > self._settings.max_leftover_gpu_memory:
            self._journal.note(
                f"{now.run.group.file} left {leftover >> 20} MiB on {self._where(worker)}: {worker.id} is retired"
            )
            self._pool.end(worker)
        elif worker.mode.fresh_process:
            self._pool.end(worker)
        else:
            worker.idle = True

    # --- ends -------------------------------------------------------------------------------------------------------

    def gone(self, gone: Gone) -> None:
        """Decides what a worker's end means for its test and its group."""
        worker, status = gone.worker, gone.worker.process.status
        history: History = worker.state
        why = worker.killed_for or explain_status(status)
        asked = worker.asked_to_end
        took = {} if asked is None else {"seconds": round(time.monotonic() - asked, 6)}
        self._journal.event("worker_end", worker=worker.id, status=status, why=why, **took)
        if worker.orphans_killed:
            after = f" after {history.last_test}" if history.last_test else ""
            self._journal.note(f"killed {worker.orphans_killed} processes that {worker.id} left behind{after}")
        if self.stopping:
            return
        if history.now is not None:
            self._died(worker, history.now, why)
        elif not history.retired and (status != 0 or worker.killed_for):
            self._ended_badly(worker, f"{why}\n{worker.process.tail()}")

    def _died(self, worker: Worker, now: Assignment, why: str) -> None:
        """Gives the running test its outcome and the rest of the group to a fresh worker, or gives the group up."""
        if worker.process.status == CHANNEL_LOST_STATUS:
            why = f"its process lost the channel to the runner (closed file descriptors?): {why}"
        tail = worker.process.tail()
        if now.running is not None:
            timed_out = worker.killed_for.startswith(_HUNG) or "+ Timeout +" in tail  # pytest-timeout's banner
            outcome = Outcome.TIMED_OUT if timed_out else Outcome.CRASHED
            now.run.finish(now.running, by_itself=False)
            self._journal.finish(now.running, outcome, reason=why, detail=tail, worker=worker.id)
        else:
            self._journal.note(f"{worker.id} ended in {now.run.group.id} while no test ran: {why}")
        if not self._ever_ready:
            self._failed_starts += 1
            if self._failed_starts >= _MAX_FAILED_STARTS:
                self._give_up([now.run, *self._queue.drain()], why, tail)
                return
        go_on = now.run.worker_ended(finished_any=now.finished_any)
        if now.run.left and not go_on:
            self._give_up([now.run], why, tail)
        else:
            self._release(now)

    def _release(self, now: Assignment) -> None:
        """Completes a group whose worker is lost, or puts it back for a fresh one."""
        if now.run.left:
            self._queue.give_back(now.run)
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
        if self.stopping or history.retired or history.last_test is None:
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

    def _names(self, worker: Worker) -> list[str]:
        return [self._gpu_names[slot] for slot in worker.slots] if self._gpu_names else []

    def _where(self, worker: Worker) -> str:
        names = self._names(worker)
        return f"{worker.id} (GPU {','.join(names)})" if names else worker.id


def _outcome(value: object) -> Outcome:
    """Returns a worker's word for an outcome, ERROR for anything that is none: only a forger says so."""
    return next((outcome for outcome in Outcome if outcome.value == value), Outcome.ERROR)
