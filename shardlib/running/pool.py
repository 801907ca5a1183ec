"""The living workers of a node: starts, watches, ends and buries them. Knows processes and GPUs, not tests."""

from __future__ import annotations

import selectors
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from shardlib.dispatch import Seat
from shardlib.errors import InfrastructureError
from shardlib.model import Mode
from shardlib.running import orphans
from shardlib.running.process import WorkerProcess
from shardlib.settings import Settings

# A worker that dies unasked may have met the SIGTERM that ends the whole container, before the runner saw its own.
_DOUBT_SECONDS = 0.5
# Between asking a hanging worker for its stacks and the first signal.
_STACKS_SECONDS = 0.3
# SIGKILL works within a moment, or the process sits in a driver's call from which only a reboot brings it back.
_UNKILLABLE_SECONDS = 30.0
# How often a GPU whose worker has ended is looked at until its memory is free.
_MEMORY_POLL_SECONDS = 0.1


class Launch(Protocol):
    """Starts a worker process for a mode on slots."""

    def __call__(self, worker: str, slots: tuple[int, ...]) -> WorkerProcess:
        """Returns the started process."""


class Stage(Enum):
    """How far the end of a worker's process has come."""

    ALIVE = "alive"
    STACKS = "asked for its stacks"
    TERMINATED = "sent SIGTERM"
    KILLED = "sent SIGKILL"
    EXITED = "exited"


@dataclass(eq=False, kw_only=True)
class Worker:
    """One worker; the pool sets what is about its process, the shard's runner the rest."""

    id: str
    mode: Mode
    slots: tuple[int, ...]
    process: WorkerProcess
    memory_before: int
    started: float
    asked_to_end: float | None = None
    idle: bool = False
    ending: bool = False  # told to end: its exit is no surprise
    killed_for: str = ""  # why the runner killed it
    deadline: float = float("inf")
    deadline_why: str = ""
    stage: Stage = Stage.ALIVE
    channel_open: bool = True
    orphans_killed: int = 0
    state: Any = field(default=None)

    def within(self, seconds: float, why: str) -> None:
        """Gives the worker so long until the pool kills it for `why`; infinity for no limit."""
        if self.stage is Stage.ALIVE:
            self.deadline, self.deadline_why = time.monotonic() + seconds, why


@dataclass(frozen=True)
class Message:
    """A worker said something."""

    worker: Worker
    body: dict[str, Any]


@dataclass(frozen=True)
class Gone:
    """A worker's process, and all it started, has ended; its slots follow when their memory is free."""

    worker: Worker


class Pool:
    """The workers of one node, watched by one selector."""

    def __init__(
        self,
        *,
        settings: Settings,
        launch: Launch,
        memory: Callable[[tuple[int, ...]], int | None],
        worker_id: Callable[[str], str],
        note: Callable[[str], None],
    ) -> None:
        """Takes what it needs from outside.

        Args:
            settings: limits and thresholds.
            launch: starts a process.
            memory: bytes in use on slots, None where that cannot be read.
            worker_id: a worker's name in the environment of its processes.
            note: takes a text for a person.
        """
        self._settings = settings
        self._launch = launch
        self._memory = memory
        self._worker_id = worker_id
        self._note = note
        self._selector = selectors.DefaultSelector()
        self._workers: list[Worker] = []
        self._draining: list[tuple[Worker, float]] = []
        self._count = 0
        self._wakeup_read, self._wakeup_write = socket.socketpair()
        for end in (self._wakeup_read, self._wakeup_write):
            end.setblocking(False)
        self._selector.register(self._wakeup_read, selectors.EVENT_READ)
        # Signals (a child's death, our own SIGTERM) wake the selector through this socket.
        self._old_wakeup = signal.set_wakeup_fd(self._wakeup_write.fileno(), warn_on_full_buffer=False)
        self._old_child = signal.signal(signal.SIGCHLD, lambda number, frame: None)
        orphans.become_subreaper()

    @property
    def workers(self) -> list[Worker]:
        """The workers whose process is not known to have ended."""
        return list(self._workers)

    def seats(self) -> list[Seat]:
        """Returns who holds which slots, for `dispatch.place`; freed GPUs that are not yet clean count as held."""
        living = [Seat(worker=w.id, mode=w.mode, slots=w.slots, idle=w.idle) for w in self._workers]
        draining = [Seat(worker=w.id, mode=w.mode, slots=w.slots, idle=False) for w, _ in self._draining]
        return living + draining

    @property
    def is_empty(self) -> bool:
        """Whether no process lives and no slot is held."""
        return not self._workers and not self._draining

    def start(self, mode: Mode, slots: tuple[int, ...]) -> Worker:
        """Starts a worker."""
        self._count += 1
        name = f"w{self._count}"
        before = self._memory(slots) or 0
        worker = Worker(
            id=name,
            mode=mode,
            slots=slots,
            process=self._launch(name, slots),
            memory_before=before,
            started=time.monotonic(),
        )
        self._selector.register(worker.process.events, selectors.EVENT_READ, worker)
        self._selector.register(worker.process.output, selectors.EVENT_READ, worker)
        self._workers.append(worker)
        worker.within(self._settings.start_timeout_seconds, "its worker did not start")
        return worker

    def end(self, worker: Worker) -> None:
        """Tells a worker that waits for a command to end its session and exit."""
        worker.idle, worker.ending, worker.asked_to_end = False, True, time.monotonic()
        worker.process.send("end")
        worker.within(self._settings.end_timeout_seconds, "its worker did not end")

    def kill(self, worker: Worker, why: str, *, stacks: bool = False) -> None:
        """Begins to end a worker by force; `Gone` follows."""
        if worker.stage is not Stage.ALIVE:
            return
        worker.idle, worker.killed_for = False, why
        worker.process.send("halt")  # a signal may wake a call that hangs, or be ignored: no other test may start there
        if stacks:
            worker.process.ask_for_stacks()
            worker.stage, worker.deadline = Stage.STACKS, time.monotonic() + _STACKS_SECONDS
        else:
            self._terminate(worker)

    def leftover(self, worker: Worker) -> int | None:
        """Returns the bytes on the worker's GPUs beyond what was there when it started; None if unknown."""
        now = self._memory(worker.slots)
        return None if now is None else max(0, now - worker.memory_before)

    def wait(self) -> Iterator[Message | Gone]:
        """Sleeps until something happens or is due, and yields what happened."""
        due = [worker.deadline for worker in self._workers]
        due += [time.monotonic() + _MEMORY_POLL_SECONDS for _ in self._draining]
        timeout = max(0.0, min(due) - time.monotonic()) if due else None
        if timeout is not None and timeout == float("inf"):
            timeout = None
        for key, _ in self._selector.select(timeout):
            if key.data is None:
                self._drain_wakeups()
            elif key.fd == key.data.process.output:
                if not key.data.process.read_output():
                    self._selector.unregister(key.fd)
            else:
                yield from self._messages(key.data)
        for worker in self.workers:
            yield from self._check(worker)
        self._draining = [(worker, since) for worker, since in self._draining if not self._is_clean(worker, since)]

    def close(self) -> None:
        """Ends whatever process is left below this one, and lets the signals go."""
        killed = orphans.end(lambda: orphans.adopted(known=[worker.process.pid for worker in self._workers]))
        if killed:
            self._note(f"killed {killed} processes that tests left behind")
        signal.set_wakeup_fd(self._old_wakeup)
        signal.signal(signal.SIGCHLD, self._old_child)
        self._selector.close()
        self._wakeup_read.close()
        self._wakeup_write.close()

    # --- one worker -------------------------------------------------------------------------------------------------

    def _messages(self, worker: Worker) -> Iterator[Message]:
        messages, is_open = worker.process.read_events()
        for body in messages:
            yield Message(worker, body)
        if not is_open and worker.channel_open:
            worker.channel_open = False
            self._selector.unregister(worker.process.events)
            # Either it is exiting, or its code closed our pipe: a moment tells.
            worker.within(_DOUBT_SECONDS * 2, "its process lost the channel to the runner")

    def _check(self, worker: Worker) -> Iterator[Message | Gone]:
        now = time.monotonic()
        if worker.process.status is not None:
            if worker.stage is not Stage.EXITED:
                expected = (worker.ending and worker.process.status == 0) or bool(worker.killed_for)
                worker.stage, worker.deadline = Stage.EXITED, now if expected else now + _DOUBT_SECONDS
                worker.idle = False
                yield from self._messages(worker)
            if now >= worker.deadline:
                self._bury(worker)
                yield Gone(worker)
        elif now >= worker.deadline:
            self._escalate(worker)

    def _escalate(self, worker: Worker) -> None:
        if worker.stage is Stage.ALIVE:
            self.kill(worker, worker.deadline_why, stacks=True)
        elif worker.stage is Stage.STACKS:
            self._terminate(worker)
        elif worker.stage is Stage.TERMINATED:
            worker.process.kill()
            worker.stage, worker.deadline = Stage.KILLED, time.monotonic() + _UNKILLABLE_SECONDS
        elif worker.stage is Stage.KILLED:
            raise InfrastructureError(
                f"worker {worker.id} (process {worker.process.pid}) survives SIGKILL: "
                "it hangs in the kernel or a driver; this node needs a look"
            )

    def _terminate(self, worker: Worker) -> None:
        worker.process.terminate()
        worker.stage = Stage.TERMINATED
        worker.deadline = time.monotonic() + self._settings.kill_grace_seconds

    def _bury(self, worker: Worker) -> None:
        """Takes what is still to read, ends what the worker left behind, and frees or watches its slots."""
        worker.process.read_output()
        name, session = self._worker_id(worker.id), worker.process.pid
        worker.orphans_killed = orphans.end(lambda: orphans.of_worker(name, session))
        worker.process.read_output()
        for fd in (worker.process.events, worker.process.output):
            if fd in self._selector.get_map():
                self._selector.unregister(fd)
        worker.process.close()
        self._workers.remove(worker)
        self._draining.append((worker, time.monotonic()))

    def _is_clean(self, worker: Worker, since: float) -> bool:
        left = self.leftover(worker)
        if left is None or left <= self._settings.max_dirty_gpu_memory:
            return True
        if time.monotonic() - since < self._settings.gpu_wait_seconds:
            return False
        waited = self._settings.gpu_wait_seconds
        self._note(f"slots {worker.slots} still hold {left >> 20} MiB {waited:.0f} s after {worker.id} ended")
        return True

    def _drain_wakeups(self) -> None:
        try:
            while self._wakeup_read.recv(4096):
                pass
        except BlockingIOError:
            pass
