"""Programs under measurement: started together, timed to their end, charged for all that they started, and proved."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from shardlib import child
from shardlib.runfolder import RunFolder


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a program ended. `cpu_seconds` counts its descendants too, as far as they were waited for."""

    status: int
    wall_seconds: float
    cpu_seconds: float
    log: Path

    def tail(self) -> str:
        """Returns the end of what it printed, for an error message."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-4000:]


class ProgramFailed(Exception):
    """A program under measurement ended in a way that makes its figures worthless."""


def start_seconds(run: Path) -> list[float]:
    """Returns what each worker of a run's folder cost beside its groups: its start and its end, over all attempts."""
    costs: dict[tuple[str, int, str], float] = {}
    for shard in (RunFolder(run).shard(name) for name in RunFolder(run).shard_names()):
        for attempt in shard.attempts():
            for event in shard.read_events(attempt):
                if event["event"] in ("worker_ready", "worker_end") and "seconds" in event:
                    key = (shard.name, attempt, event["worker"])
                    costs[key] = costs.get(key, 0.0) + float(event["seconds"])
    return list(costs.values())


def shardlib(*arguments: str | Path) -> list[str]:
    """Returns the argv of this very copy's command line."""
    return child.command("shardlib.cli:main", *map(str, arguments))


def run(argv: Sequence[str], *, cwd: Path, log: Path, env: Mapping[str, str] | None = None) -> Ended:
    """Returns how one program ended; see `run_together`."""
    return run_together({log.name: argv}, cwd=cwd, logs=log.parent, env=env)[log.name]


def run_together(
    programs: Mapping[str, Sequence[str]], *, cwd: Path, logs: Path, env: Mapping[str, str] | None = None
) -> dict[str, Ended]:
    """Starts the programs at once and returns how each ended, by name.

    Args:
        programs: argv by name.
        cwd: where they run.
        logs: each prints to the file with its name here.
        env: what is added to the environment.

    Wall seconds run from one common start, before the first program, to the end of each: what is waited for.
    """
    begin = time.monotonic()
    started: dict[str, subprocess.Popen[bytes]] = {}
    waits: dict[str, Future[Ended]] = {}
    with ThreadPoolExecutor(max_workers=len(programs)) as threads:
        try:
            for name, argv in programs.items():
                started[name] = _start(argv, cwd, logs / name, env or {})
                waits[name] = threads.submit(_wait, started[name], begin, logs / name)
            return {name: wait.result() for name, wait in waits.items()}
        except BaseException:
            for process in started.values():
                if process.returncode is None:
                    with suppress(ProcessLookupError):  # it ended just now
                        os.killpg(process.pid, signal.SIGTERM)  # a shard's runner then ends its workers
            raise


def _start(argv: Sequence[str], cwd: Path, log: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            argv,
            cwd=cwd,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _wait(process: subprocess.Popen[bytes], begin: float, log: Path) -> Ended:
    _, status, usage = os.wait4(process.pid, 0)  # Popen.wait does not tell what it used
    process.returncode = os.waitstatus_to_exitcode(status)
    return Ended(
        status=process.returncode,
        wall_seconds=time.monotonic() - begin,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        log=log,
    )


def must(ended: Ended, *statuses: int) -> Ended:
    """Returns it, if it ended with one of the statuses (none named: 0); raises ProgramFailed with its output."""
    if ended.status not in (statuses or (0,)):
        raise ProgramFailed(f"{ended.log.name} ended with {ended.status}:\n{ended.tail()}")
    return ended
