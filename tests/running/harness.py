"""Runs real shards of small suites in a folder: a plan by hand, `shardlib run` as a process, its files read back."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardlib import child
from shardlib.model import CPU_SHARD, Group, Mode, PlannedTest, Shard, WeightSource
from shardlib.plan import Plan, Prediction
from shardlib.pytestrun import PytestRun
from shardlib.runfolder import RunFolder
from shardlib.settings import Settings

# Small limits, so that a hang costs a test seconds; a weight of 1 ms and factor 1 leave min_timeout_seconds.
QUICK = {
    "startup_seconds": 0.0,
    "min_timeout_seconds": 5.0,
    "timeout_factor": 1.0,
    "max_test_seconds": 5.0,
    "end_timeout_seconds": 10.0,
    "kill_grace_seconds": 0.3,
    "gpu_wait_seconds": 1.0,
    "max_dirty_gpu_memory": 1 << 20,
    "max_leftover_gpu_memory": 1 << 24,
}


@dataclass
class Suite:
    """A checkout with tests, and one shard's plan over them."""

    root: Path
    args: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def run_path(self) -> Path:
        return self.root.parent / "run"

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.run_path)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), "utf-8")

    def plan(
        self, *groups: tuple[str, list[str]], slots: int = 2, modes: dict[int, tuple[Mode, int]] | None = None
    ) -> Plan:
        """Stores a plan with one group for each (file, names of tests); `modes` by position, concurrent on 1 by default."""
        made = []
        for index, (file, names) in enumerate(groups):
            mode, gpus = (modes or {}).get(index, (Mode.CONCURRENT, 1))
            tests = tuple(PlannedTest(id=f"{file}::{name}", weight_ms=1, source=WeightSource.KNOWN) for name in names)
            made.append(Group(id=f"g{index + 1:05}", file=file, mode=mode, gpus=gpus, setup_ms=0, tests=tests))
        by_shard = {
            "01": [group.id for group in made if group.mode is not Mode.CPU],
            CPU_SHARD: [group.id for group in made if group.mode is Mode.CPU],
        }
        plan = Plan(
            pytest=PytestRun(
                version="any",
                python="any",
                rootdir=str(self.root),
                inifile=None,
                cwd=str(self.root),
                args=self.args,
                hash_seed="0",
            ),
            settings=Settings.from_mapping({**QUICK, **self.settings}, "test"),
            strategy="timeline",
            shards=tuple(
                Shard(name=name, slots=slots, groups=tuple(ids), predicted_ms=1)
                for name, ids in by_shard.items()
                if ids
            ),
            groups=tuple(made),
            prediction=Prediction(makespan_ms=1, lower_bound_ms=1, bottleneck="", known=1, estimated=0, stale=0),
        )
        self.folder.write_plan(plan)
        return plan

    def start(self, *options: str, shard: str = "01") -> subprocess.Popen[str]:
        """Starts `shardlib run` on the shard."""
        argv = child.command("shardlib.cli:main", "run", "--run", str(self.run_path), "--shard", shard)
        return subprocess.Popen(
            [*argv, "--simulated-gpus", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **self.environment},
        )

    def run(self, *options: str, shard: str = "01") -> Ran:
        """Runs the shard to its end."""
        process = self.start(*options, shard=shard)
        output, _ = process.communicate(timeout=120)
        sys.stdout.write(output)  # pytest shows it when the test fails
        return Ran(suite=self, code=process.returncode, output=output, shard=shard)


@dataclass
class Ran:
    """What one attempt left behind."""

    suite: Suite
    code: int
    output: str
    shard: str

    @property
    def tests(self) -> dict[str, dict[str, Any]]:
        """The counted entry of each test, by its name behind the first `::`."""
        folder = self.suite.folder.shard(self.shard)
        entries = {}
        for group, versions in folder.results().items():
            for test in folder.read_result(group, versions[-1])["tests"]:
                entries[test["id"].partition("::")[2]] = test
        return entries

    @property
    def outcomes(self) -> dict[str, str]:
        """The counted outcome of each test."""
        return {name: test["outcome"] for name, test in self.tests.items()}

    def events(self, kind: str, attempt: int = 0) -> list[dict[str, Any]]:
        """The events of one kind."""
        return [e for e in self.suite.folder.shard(self.shard).read_events(attempt) if e["event"] == kind]


def processes_with(suite: Suite) -> list[int]:
    """Returns the living processes that were started below a run of this suite, by the worker id they inherited."""
    found = []
    place = hashlib.sha256(str(suite.run_path.resolve()).encode()).hexdigest()[:12]
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if f"-{place}/".encode() in environment:
                found.append(int(entry.name))
    return found
