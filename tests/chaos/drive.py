"""Runs a scenario for real: a pod for each shard, all at once, killed as drawn and started again as Argo would."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardlib import child
from shardlib.model import Shard
from shardlib.plan import Plan, Prediction
from shardlib.pytestrun import PytestRun
from shardlib.runfolder import RunFolder
from shardlib.running.orphans import WORKER_VARIABLE, processes
from shardlib.settings import Settings
from tests.running.harness import QUICK

from .scenario import SLOTS, Kill, Scenario, Target

# A healthy test of this suite takes milliseconds; the limit leaves room for a machine that starts ten processes at once.
_LIMITS = {
    **QUICK,
    "min_timeout_seconds": 4.0,
    "start_timeout_seconds": 20.0,
    "collect_timeout_seconds": 8.0,
    "end_timeout_seconds": 6.0,
    "gpus_per_node": SLOTS,
}
_POLL_SECONDS = 0.02
# Far beyond what an attempt of this suite can take: only a runner that hangs gets there.
_PATIENCE_SECONDS = 240.0
_TEST_FILE = """\
import pytest


@pytest.mark.parametrize("number", range({count}))
def test_it(number, act):
    act()
"""


@dataclass
class Pod:
    """One shard's processes over all its starts; `place` is its folder: the account, and its simulated GPUs."""

    shard: str
    place: Path
    dice: random.Random
    kills: list[Kill]
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    hard: bool = False  # the present start was ended by SIGKILL, so nobody tidied up
    finished: bool = False
    starts: int = 0
    hard_starts: set[int] = field(default_factory=set)
    killed_workers: set[str] = field(default_factory=set)
    hits: int = 0
    left_behind: list[str] = field(default_factory=list)

    def account(self) -> list[dict[str, Any]]:
        """What the tests themselves said, in order; lines of processes that a test forked are left out."""
        path = self.place / "account"
        lines = [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []
        owners = {(line["test"], line["worker"]): line["pid"] for line in reversed(lines) if line["what"] == "start"}
        return [line for line in lines if owners.get((line["test"], line["worker"])) == line["pid"]]

    def mine(self) -> list[int]:
        """The living processes that inherited the pod's environment, the runner among them."""
        mark = f"CHAOS_PLACE={self.place}".encode()
        return [p.pid for p in processes() if not p.zombie and mark in _environment(p.pid)]


class Cluster:
    """The checkout, the run's folder and the pods of one scenario."""

    def __init__(self, scenario: Scenario, root: Path) -> None:
        self.scenario = scenario
        self.checkout, self.folder = root / "checkout", RunFolder(root / "run")
        self.pods = {
            shard: Pod(
                shard=shard,
                place=root / "pods" / shard,
                dice=random.Random(f"{scenario.seed} {shard}"),
                kills=list(scenario.kills[shard]),
            )
            for shard in scenario.groups
        }
        # `sleep` of a number that nobody else sleeps: the name of the processes that have no environment.
        self.sleep = f"{600 + int.from_bytes(os.urandom(6), 'big') / 2**48:.12f}"
        self._write_checkout()
        self.plan = _plan(scenario, self.checkout)
        self.folder.write_plan(self.plan)

    def run(self) -> None:
        """Starts each shard until an attempt finishes, as automatic retries would; kills as the scenario has it."""
        for pod in self.pods.values():
            pod.finished = False
        while not all(pod.finished for pod in self.pods.values()):
            for pod in self.pods.values():
                if not pod.finished:
                    self._step(pod)
            time.sleep(_POLL_SECONDS)

    def escaped(self) -> list[int]:
        """The living processes that cleared their environment."""
        return [p.pid for p in processes() if not p.zombie and self.sleep.encode() in _command_line(p.pid)]

    def clean_up(self) -> None:
        """Kills whatever is left, whatever went wrong."""
        for pod in self.pods.values():
            _kill(pod.mine(), signal.SIGKILL)
            if pod.process is not None:
                pod.process.wait()
        _kill(self.escaped(), signal.SIGKILL)

    def _step(self, pod: Pod) -> None:
        if pod.process is None:
            self._start(pod)
        elif pod.process.poll() is not None:
            self._ended(pod, pod.process.returncode)
        elif pod.kills and time.monotonic() - pod.started > pod.kills[0].after_seconds:
            self._strike(pod, pod.kills.pop(0), pod.process.pid)
        elif time.monotonic() - pod.started > _PATIENCE_SECONDS:
            raise AssertionError(f"shard {pod.shard} does not end; see {pod.place}/log")

    def _start(self, pod: Pod) -> None:
        argv = child.command("shardlib.cli:main", "run", "--run", str(self.folder.path), "--shard", pod.shard)
        environment = {
            **os.environ,
            "PYTHONDONTWRITEBYTECODE": "1",
            "CHAOS_PLACE": str(pod.place),
            "CHAOS_SLEEP": self.sleep,
            "SHARDLIB_SIMULATED_GPUS": str(pod.place / "gpus"),
        }
        with (pod.place / "log").open("ab") as log:
            pod.process = subprocess.Popen(
                [*argv, "--simulated-gpus"], stdout=log, stderr=log, env=environment, start_new_session=True
            )
        pod.started, pod.hard = time.monotonic(), False

    def _ended(self, pod: Pod, code: int) -> None:
        attempts = self.folder.shard(pod.shard).attempts()
        done = self.folder.shard(pod.shard).read_done(attempts[-1]) if len(attempts) > pod.starts else None
        if done is not None:
            assert code == done["exit"] or code < 0, f"exit {code}, but its record says {done}"
            pod.left_behind += [f"attempt {attempts[-1]}: {_command_line(pid)!r}" for pid in pod.mine()]
            pod.finished = done["end"] == "finished"
        else:
            assert code < 0, f"shard {pod.shard} exited {code} without a record; see {pod.place}/log"
        if pod.hard:
            pod.hard_starts |= set(attempts[pod.starts :])
        pod.starts, pod.process = len(attempts), None

    def _strike(self, pod: Pod, kill: Kill, runner: int) -> None:
        """Sends the signal; remembers which workers were meant, for they may fail a test that did nothing wrong."""
        workers = [p.pid for p in processes() if p.parent == runner and p.session == p.pid and not p.zombie]
        workers = [pid for pid in workers if _worker(pid)]
        pod.hits += 1
        if kill.target is Target.RUNNER:
            _kill([runner], kill.signal)
        elif kill.target is Target.EVERYTHING:
            everyone = pod.mine()
            pod.dice.shuffle(everyone)
            _kill(everyone, kill.signal)
        elif workers:
            victim = pod.dice.choice(workers)
            pod.killed_workers.add(_worker(victim))
            with suppress(ProcessLookupError):
                (os.killpg if kill.target is Target.WORKER_GROUP else os.kill)(victim, kill.signal)
        else:  # there is no worker yet, or none now
            pod.hits -= 1
            pod.kills.insert(0, kill)
        pod.hard |= kill.signal == signal.SIGKILL and kill.target in (Target.RUNNER, Target.EVERYTHING)

    def _write_checkout(self) -> None:
        self.checkout.mkdir(parents=True)
        (self.checkout / "pytest.ini").write_text("[pytest]\n", "ascii")
        shutil.copy(Path(__file__).with_name("faulty.py"), self.checkout / "conftest.py")
        faults = {test: {"kind": fault.kind, "once": fault.once} for test, fault in self.scenario.faults.items()}
        (self.checkout / "faults.json").write_text(json.dumps(faults), "ascii")
        counts: dict[str, int] = {}
        for group in (group for groups in self.scenario.groups.values() for group in groups):
            counts[group.file] = counts.get(group.file, 0) + len(group.tests)
        for file, count in counts.items():
            (self.checkout / file).write_text(_TEST_FILE.format(count=count), "ascii")
        for pod in self.pods.values():
            pod.place.mkdir(parents=True)


def _plan(scenario: Scenario, checkout: Path) -> Plan:
    return Plan(
        pytest=PytestRun(
            version="any", python="any", rootdir=str(checkout), inifile=None, cwd=str(checkout), args=(), hash_seed="0"
        ),
        settings=Settings.from_mapping(_LIMITS, "chaos"),
        strategy="timeline",
        shards=tuple(
            Shard(name=name, slots=SLOTS, groups=tuple(group.id for group in groups), predicted_ms=1)
            for name, groups in scenario.groups.items()
        ),
        groups=tuple(
            sorted((group for groups in scenario.groups.values() for group in groups), key=lambda group: group.id)
        ),
        prediction=Prediction(makespan_ms=1, lower_bound_ms=1, bottleneck="", known=500, estimated=0, stale=0),
    )


def _kill(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _worker(pid: int) -> str:
    """The worker's id of a process, with its attempt; empty if it has none."""
    prefix = f"{WORKER_VARIABLE}=".encode()
    found = (entry for entry in _environment(pid) if entry.startswith(prefix))
    return next(found, b"").removeprefix(prefix).decode("ascii")


def _environment(pid: int) -> list[bytes]:
    return _read(pid, "environ")


def _command_line(pid: int) -> list[bytes]:
    return _read(pid, "cmdline")


def _read(pid: int, name: str) -> list[bytes]:
    try:
        return Path("/proc", str(pid), name).read_bytes().split(b"\0")
    except OSError:
        return []
