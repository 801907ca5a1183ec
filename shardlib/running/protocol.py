"""How a worker and its runner talk: JSON lines over two pipes, one `write` for each line.

The worker shares its process with code that may close or reuse any file descriptor, fork, or raise out of a signal
handler in the middle of a write; the channel must neither lie nor write into somebody else's file.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
from collections.abc import Iterator
from typing import Any

# Exit status of a worker whose test took the channel away; named here so that the runner can explain it.
CHANNEL_LOST_STATUS = 71
# Above what a test suite opens by itself, so that `os.close(5)` in a test rarely meets us; well below ulimit's 1024.
_HIGH_FD = 200


def _move_high(fd: int) -> int:
    """Returns a copy of `fd` that exec closes, at a number out of the tests' way; closes `fd`."""
    high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH_FD)
    os.close(fd)
    return high


class EventChannel:
    """The worker's end: sends events, and ends the process rather than write anywhere else."""

    def __init__(self, fd: int) -> None:
        """Takes over the pipe's write end `fd`."""
        self._fd = _move_high(fd)
        self._pid = os.getpid()
        self._identity = self._identify()
        self._torn = False
        self._later = b""

    def send(self, event: str, *, later: bool = False, **fields: Any) -> None:
        """Sends one event; a process forked by a test sends nothing.

        `later` lets it travel with the next one: each write wakes the runner, which may have to share a core with us.
        """
        if os.getpid() != self._pid:
            return
        self._later += json.dumps({"event": event, **fields}).encode("ascii") + b"\n"
        if later:
            return
        data = memoryview(b"\n" + self._later if self._torn else self._later)
        self._later = b""
        try:
            if self._identify() != self._identity:
                os._exit(CHANNEL_LOST_STATUS)
            self._torn = True
            while data:
                data = data[os.write(self._fd, data) :]
            self._torn = False
        except OSError:
            os._exit(CHANNEL_LOST_STATUS)

    def _identify(self) -> tuple[int, int]:
        status = os.fstat(self._fd)
        return status.st_dev, status.st_ino


class CommandChannel:
    """The worker's other end: reads the runner's commands."""

    def __init__(self, fd: int) -> None:
        """Takes over the pipe's read end `fd`."""
        self._fd = _move_high(fd)
        self._lines = LineSplitter()

    def receive(self) -> dict[str, Any] | None:
        """Returns the next command, waiting for it; None when the runner is gone."""
        while True:
            for message in self._lines.messages():
                return message
            try:
                data = os.read(self._fd, 65536)
            except OSError:
                os._exit(CHANNEL_LOST_STATUS)
            if not data:
                return None
            self._lines.feed(data)

    def waits(self) -> bool:
        """Whether there is something to receive, or the runner is gone."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(0))


class LineSplitter:
    """Turns bytes as they arrive into JSON objects; a line that is none (torn by a signal) is dropped."""

    def __init__(self) -> None:
        """Starts with nothing read."""
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Adds what was read."""
        self._buffer += data

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yields each complete message once."""
        while (end := self._buffer.find(b"\n")) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if isinstance(message, dict):
                yield message
