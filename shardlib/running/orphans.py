"""Finds and ends what workers leave behind: children that called setsid, forked twice, or cleared their environment.

A leftover process keeps its GPU memory, so the next file would fail for want of it. Three traces lead to it: the
session that its worker opened, the worker's id in its environment, and, for a process whose parents are all dead, the
runner itself, which is the subreaper that such processes fall to.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# In every worker's environment: which run, shard, attempt and worker a process belongs to.
WORKER_VARIABLE = "SHARDLIB_WORKER"
_PR_SET_CHILD_SUBREAPER = 36
_PROC = Path("/proc")


@dataclass(frozen=True, kw_only=True)
class Process:
    """One line of the process table."""

    pid: int
    parent: int
    session: int
    zombie: bool


def become_subreaper() -> None:
    """Makes orphans below this process its children instead of init's (Linux; elsewhere nothing)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def processes() -> list[Process]:
    """Returns every process that can be seen; those that end meanwhile are left out."""
    found = []
    for entry in _PROC.iterdir() if _PROC.is_dir() else ():
        if entry.name.isdigit():
            try:
                # The command name is in parentheses and may hold anything, spaces and parentheses too.
                fields = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            except OSError:
                continue
            found.append(
                Process(pid=int(entry.name), parent=int(fields[1]), session=int(fields[3]), zombie=fields[0] == "Z")
            )
    return found


def of_worker(worker_id: str, session: int | None) -> list[Process]:
    """Returns the living processes of a worker: by its session, or by its id (or a prefix that ends with `/`)."""
    return [
        process
        for process in processes()
        if not process.zombie
        and process.pid != os.getpid()
        and (process.session == session or _belongs(process.pid, worker_id))
    ]


def adopted(known: Collection[int]) -> list[Process]:
    """Returns the children of this process that it did not start itself: orphans that fell to the subreaper."""
    return [process for process in processes() if process.parent == os.getpid() and process.pid not in known]


def end(find: Callable[[], list[Process]], *, patience_seconds: float = 5.0) -> int:
    """Kills what `find` returns until it returns nothing living; returns how many processes were killed.

    SIGKILL at once: these have outlived the process they belonged to. A process that cannot be killed (in a driver's
    uninterruptible call) is left after `patience_seconds`.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + patience_seconds
    while time.monotonic() < deadline:
        found = find()
        for process in found:
            if process.zombie:
                _reap(process.pid)
            else:
                killed.add(process.pid)
                _kill(process.pid)
        if not any(not process.zombie for process in found):
            break
        time.sleep(0.01)
    for pid in killed:
        _reap(pid)
    return len(killed)


def _belongs(pid: int, worker_id: str) -> bool:
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:  # ended, or another user's
        return False
    wanted = f"{WORKER_VARIABLE}={worker_id}".encode()
    return any(
        entry == wanted or (worker_id.endswith("/") and entry.startswith(wanted)) for entry in environment.split(b"\0")
    )


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _reap(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
