"""One small suite run twice, by plain pytest and by `shardlib local`, and what each says of every test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardlib import child
from shardlib.runfolder import RunFolder

_PLAIN = Path(__file__).with_name("plain.py")
# Of the pytest that runs this, or of the machine; the suites get their own.
_NOT_INHERITED = ("PYTEST_", "PYTHON", "COV_", "COVERAGE_", "CUDA_", "SHARDLIB_")


@dataclass
class Checkout:
    """A folder with tests; what the runs leave goes beside it, or to `results`. `cwd` is taken below `root`."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    results: Path | None = None
    timeout_seconds: float = 100.0

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), "utf-8")

    def read(self, name: str) -> list[str]:
        """Returns the lines of a file that the suite wrote, in order; no lines if it wrote none."""
        path = self.root / name
        return path.read_text("utf-8").splitlines() if path.exists() else []

    def plain(self, *args: str, cwd: str = ".") -> dict[str, tuple[str, str]]:
        """Returns plain pytest's outcome and reason for each node id."""
        out = (self.results or self.root.parent) / "plain.json"
        self._call([sys.executable, str(_PLAIN), str(out), *args], cwd)
        found: dict[str, list[str]] = json.loads(out.read_text("ascii"))["tests"]
        return {node_id: (outcome, reason) for node_id, (outcome, reason) in found.items()}

    def sharded(
        self,
        *args: str,
        cwd: str = ".",
        gpus: int = 1,
        shards: int = 1,
        workers: int = 1,
        durations: Path | None = None,
    ) -> Sharded:
        """Runs `shardlib local`; by default one worker runs file after file."""
        run = (self.results or self.root.parent) / "run"
        options = [f"--shards={shards}", f"--gpus={gpus}", f"--max-workers={workers}", "--simulated-gpus"]
        options += [f"--durations={durations}"] if durations else []
        command = child.command("shardlib.cli:main", "local", "--run", str(run), *options, "--", *args)
        code, output = self._call(command, cwd)
        return Sharded(folder=RunFolder(run), code=code, output=output)

    def _call(self, command: list[str], cwd: str) -> tuple[int, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
        done = subprocess.run(
            command,
            cwd=self.root / cwd,
            env={**inherited, "PYTHONHASHSEED": "0", **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=self.timeout_seconds,
        )
        sys.stdout.write(f"$ {' '.join(command[-6:])}: {done.returncode}\n{done.stdout}\n")  # shown if the test fails
        return done.returncode, done.stdout


@dataclass
class Sharded:
    """What a run left behind."""

    folder: RunFolder
    code: int
    output: str

    @property
    def entries(self) -> list[dict[str, Any]]:
        """The counted entry of each test, from the last version of each group's result."""
        found = []
        for name in self.folder.shard_names():
            shard = self.folder.shard(name)
            for group, versions in shard.results().items():
                result = shard.read_result(group, versions[-1])
                assert result["extra"] == []
                found += result["tests"]
        return found

    @property
    def tests(self) -> dict[str, dict[str, Any]]:
        """The entries by node id, each of which is counted once."""
        entries = self.entries
        tests = {entry["id"]: entry for entry in entries}
        assert len(tests) == len(entries), "a test is counted twice"
        return tests

    @property
    def outcomes(self) -> dict[str, tuple[str, str]]:
        """Outcome and reason of each test, as `Checkout.plain` gives them: no reason for failures."""
        quiet = ("passed", "failed", "error")
        return {
            node_id: (entry["outcome"], "" if entry["outcome"] in quiet else entry.get("reason", ""))
            for node_id, entry in self.tests.items()
        }

    def workers(self) -> int:
        """Returns how many workers were started, over all shards and attempts."""
        return sum(
            event["event"] == "worker_start"
            for name in self.folder.shard_names()
            for attempt in self.folder.shard(name).attempts()
            for event in self.folder.shard(name).read_events(attempt)
        )


def check_parity(
    checkout: Checkout, *args: str, cwd: str = ".", only_plain: tuple[str, ...] = (), **how: Any
) -> Sharded:
    """Runs both and compares them test by test; returns the sharded run for more.

    `only_plain` are arguments that make plain pytest do what shards do anyway.
    """
    plain = checkout.plain(*args, *only_plain, cwd=cwd)
    assert plain, "plain pytest ran nothing"
    sharded = checkout.sharded(*args, cwd=cwd, **how)
    assert sharded.outcomes == plain
    bad = any(outcome in ("failed", "error") for outcome, _ in plain.values())
    assert sharded.code == (1 if bad else 0)
    return sharded
