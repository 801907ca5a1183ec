"""The parts of one attempt wired together: GPUs, workers, the pool and the loop that gives them groups."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from shardlib import gpus
from shardlib.errors import InfrastructureError
from shardlib.model import Group, Shard
from shardlib.plan import Plan
from shardlib.resume import Rerun, TestState
from shardlib.runfolder import RunFolder
from shardlib.running import orphans
from shardlib.running.environment import worker_environment
from shardlib.running.grouprun import GroupRun
from shardlib.running.journal import Journal
from shardlib.running.pool import Pool
from shardlib.running.process import WorkerProcess
from shardlib.running.shard import ShardRunner, order_body
from shardlib.running.source import OwnList

_DIRTY_POLL_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How an attempt runs, beside what the plan says.

    `rerun` None chooses by what came before. `max_workers` None means as many as the slots. `retries` is Argo's count.
    """

    rerun: Rerun | None = None
    retries: int = 0
    max_workers: int | None = None
    simulated_gpus: bool = False
    python: str = sys.executable
    progress_file: Path | None = None
    environment: Mapping[str, str]
    say: Callable[[str], None]
    conclude: Callable[[str], None] = lambda _: None  # gets how the shard ended, in one line


class Wiring:
    """Wires the parts of one attempt together and runs it."""

    def __init__(
        self,
        plan: Plan,
        shard: Shard,
        attempt: int,
        folder: RunFolder,
        options: RunOptions,
        journal: Journal,
        states: dict[str, TestState],
    ) -> None:
        self._plan, self._shard, self._options, self._journal = plan, shard, options, journal
        self._states = states
        self._scratch = Path(tempfile.mkdtemp(prefix="shardlib-"))
        place = hashlib.sha256(str(folder.path.resolve()).encode()).hexdigest()[:12]
        self._family = f"{plan.digest[:12]}-{place}/{shard.name}/"  # also finds what earlier attempts left behind
        self._attempt = attempt
        simulated = Path(options.environment.get(gpus.SIMULATED_VARIABLE) or self._scratch / "gpus")
        simulate_in = simulated if options.simulated_gpus else None
        self._gpus = gpus.find(0 if shard.is_cpu else shard.slots, simulate_in=simulate_in)
        self._siblings: dict[tuple[str, str, int], list[str]] = {}
        for group in plan.groups:
            ids = self._siblings.setdefault(_kind(group), [])
            ids += [test.id for test in group.tests]

    def run(self) -> bool:
        """Runs what is open; returns whether it was stopped early."""
        try:
            killed = orphans.end(lambda: orphans.of_worker(self._family, None))
            if killed:
                self._journal.note(f"killed {killed} processes of an earlier attempt")
            self._wait_for_clean_gpus()
            return self._run_groups()
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _run_groups(self) -> bool:
        runs = []
        for group in self._plan.groups_of(self._shard):
            todo = [test.id for test in group.tests if self._states[test.id].open]
            if todo:
                runs.append(GroupRun.of(group, todo))
        pool = Pool(
            settings=self._plan.settings,
            launch=self._launch,
            memory=self._memory,
            worker_id=self._worker_id,
            note=self._journal.note,
        )
        cap = self._options.max_workers
        runner = ShardRunner(
            source=OwnList(runs),
            pool=pool,
            journal=self._journal,
            settings=self._plan.settings,
            slots=self._shard.slots,
            max_workers=self._shard.slots if cap is None else cap,
            gpu_names=self._gpus.names,
            write_order=self._write_order,
        )
        with _stopping(runner.ask_to_stop):
            try:
                runner.run()
            finally:
                pool.close()
        return runner.stopped

    def _wait_for_clean_gpus(self) -> None:
        """Waits until no GPU is in use; InfrastructureError naming those that somebody else holds."""
        limit, deadline = (
            self._plan.settings.max_dirty_gpu_memory,
            time.monotonic() + self._plan.settings.gpu_wait_seconds,
        )
        while True:
            used = {name: self._gpus.used_bytes(slot) or 0 for slot, name in enumerate(self._gpus.names)}
            dirty = [f"GPU {name} ({bytes_ >> 20} MiB)" for name, bytes_ in used.items() if bytes_ > limit]
            if not dirty:
                return
            if time.monotonic() > deadline:
                raise InfrastructureError(
                    f"before the first test, somebody else holds memory of {', '.join(dirty)}; "
                    "the node has a leftover process: nvidia-smi on the host names it"
                )
            time.sleep(_DIRTY_POLL_SECONDS)

    def _memory(self, slots: tuple[int, ...]) -> int | None:
        if not self._gpus.names:
            return None
        used = [self._gpus.used_bytes(slot) for slot in slots]
        return None if None in used else sum(bytes_ or 0 for bytes_ in used)

    def _worker_id(self, worker: str) -> str:
        return f"{self._family}{self._attempt}/{worker}"

    def _launch(self, worker: str, slots: tuple[int, ...]) -> WorkerProcess:
        run = self._plan.pytest
        scratch = self._scratch / worker
        scratch.mkdir()
        hello = {
            "settings": self._plan.settings.to_json(),
            "rootdir": run.rootdir,
            "cwd": run.cwd,
            "args": run.args,
            "random_seed": run.random_seed,
            "cache_dir": str(scratch / "cache"),
        }
        (scratch / "hello.json").write_text(json.dumps(hello), "ascii")
        environment = worker_environment(
            self._options.environment,
            worker_id=self._worker_id(worker),
            gpus=[self._gpus.names[slot] for slot in slots] if self._gpus.names else [],
            slots=slots,
            scratch=self._scratch,
            hash_seed=run.hash_seed,
            coverage_file=Path(run.cwd) / f".coverage.shard-{self._shard.name}.{self._attempt}.{worker}",
        )
        environment |= self._gpus.environment()
        return WorkerProcess(scratch / "hello.json", environment, python=self._options.python)

    def _write_order(self, run: GroupRun) -> Path:
        path = self._scratch / f"{run.group.id}.json"
        own = {test.id for test in run.group.tests}
        siblings = (*(own - set(run.left)), *(i for i in self._siblings[_kind(run.group)] if i not in own))
        path.write_text(order_body(run, siblings=siblings), "ascii")
        return path


def _kind(group: Group) -> tuple[str, str, int]:
    return group.file, group.mode.value, group.gpus


@contextmanager
def _stopping(ask: Callable[[], None]) -> Iterator[None]:
    """Makes SIGTERM and SIGINT end the shard in order: flush, end the workers, exit 75."""
    old = {number: signal.signal(number, lambda *_: ask()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
