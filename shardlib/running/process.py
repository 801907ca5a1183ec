"""A worker as its runner sees it: a process, three pipes, and the tail of what it printed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from shardlib import child
from shardlib.running.protocol import LineSplitter
from shardlib.running.worker import STACKS_SIGNAL

# What is kept of a worker's own output, to explain its death; its tests' output comes with their reports.
TAIL_BYTES = 64 * 1024
_READ_BYTES = 256 * 1024


class WorkerProcess:
    """Starts a worker and carries bytes; knows nothing of tests."""

    def __init__(self, hello: Path, environment: Mapping[str, str], *, python: str) -> None:
        """Starts the process; `hello` is the JSON file it reads first.

        It opens a session of its own, so that it and its children can be killed, and found, together.
        """
        command_read, self.commands = os.pipe()
        self.events, event_write = os.pipe()
        self.output, output_write = os.pipe()
        argv = child.command(
            "shardlib.running.worker:main",
            str(command_read),
            str(event_write),
            str(os.getpid()),
            str(hello),
            python=python,
        )
        try:
            self._popen = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output_write,
                stderr=output_write,
                pass_fds=(command_read, event_write),
                env=dict(environment),
                start_new_session=True,
            )
        finally:
            for fd in (command_read, event_write, output_write):
                os.close(fd)
        for fd in (self.events, self.output):
            os.set_blocking(fd, False)
        self._lines = LineSplitter()
        self._tail = bytearray()

    @property
    def pid(self) -> int:
        """The process id, which is also its session's and its process group's."""
        return self._popen.pid

    @property
    def status(self) -> int | None:
        """The exit status, minus the signal if one killed it; None while it lives."""
        return self._popen.poll()

    def send(self, command: str, **fields: Any) -> None:
        """Sends a command; a worker that is gone gets it no more, which its exit tells."""
        line = json.dumps({"command": command, **fields}).encode("ascii") + b"\n"
        with suppress(BrokenPipeError):
            os.write(self.commands, line)

    def read_events(self) -> tuple[list[dict[str, Any]], bool]:
        """Returns the messages that have come, and whether the worker's end is still open."""
        is_open = True
        while (data := _read(self.events)) is not None:
            if not data:
                is_open = False
                break
            self._lines.feed(data)
        return list(self._lines.messages()), is_open

    def read_output(self) -> bool:
        """Takes what the worker printed into the tail; returns whether its end is still open."""
        # Bounded for one call, so that a worker that prints without end does not stop the runner.
        for _ in range(16):
            data = _read(self.output)
            if data is None:
                return True
            if not data:
                return False
            self._tail += data
            del self._tail[:-TAIL_BYTES]
        return True

    def tail(self) -> str:
        """Returns the end of what the worker printed."""
        return self._tail.decode("utf-8", "replace").strip()

    def ask_for_stacks(self) -> None:
        """Makes the worker print where each of its threads is, even inside C code."""
        self._signal(STACKS_SIGNAL, group=False)

    def terminate(self) -> None:
        """Asks the process group to end."""
        self._signal(signal.SIGTERM, group=True)

    def kill(self) -> None:
        """Kills the process group."""
        self._signal(signal.SIGKILL, group=True)

    def close(self) -> None:
        """Closes the runner's ends of the pipes."""
        for fd in (self.commands, self.events, self.output):
            os.close(fd)

    def _signal(self, number: int, *, group: bool) -> None:
        if self.status is not None:
            return
        with suppress(ProcessLookupError, PermissionError):
            (os.killpg if group else os.kill)(self.pid, number)


def _read(fd: int) -> bytes | None:
    """Returns bytes, b"" at the end, or None when there is nothing now."""
    try:
        return os.read(fd, _READ_BYTES)
    except BlockingIOError:
        return None


def explain_status(status: int | None) -> str:
    """Returns an exit status in words."""
    if status is None:
        return "still running"
    if status < 0:
        try:
            return f"killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"killed by signal {-status}"
    return f"exit status {status}"
