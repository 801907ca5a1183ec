"""The values that everything else passes around: tests, groups, shards and outcomes. Pure; imports nothing of ours."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Mode(str, Enum):
    """How a test may share a process and GPUs.

    A mode decides two things only: how many GPUs a worker holds, and whether it ends after one file.
    """

    CONCURRENT = "concurrent"
    SEQUENTIAL = "sequential"
    ISOLATED = "isolated"
    CPU = "cpu"

    @property
    def fresh_process(self) -> bool:
        """Whether each group of this mode gets a worker of its own, which ends with it."""
        return self is Mode.ISOLATED


class WeightSource(str, Enum):
    """Where a weight comes from, from best to worst; all but KNOWN are estimates."""

    KNOWN = "known"
    SKIPPED = "skipped"  # a duration of 0: whenever it was seen, it was skipped; what it takes if it runs is unknown
    FUNCTION = "function"  # median of the same function's other parameters
    FILE = "file"  # median of the same file's tests
    MODE = "mode"  # median of the same mode's tests
    UNKNOWN = "unknown"  # the setting `unknown_seconds`


class Outcome(str, Enum):
    """A test's one counted outcome."""

    PASSED = "passed"
    SKIPPED = "skipped"
    XFAILED = "xfailed"
    XPASSED = "xpassed"  # non-strict, as in pytest: not a failure
    FAILED = "failed"
    ERROR = "error"  # setup or teardown failed
    CRASHED = "crashed"  # its process died while it ran
    TIMED_OUT = "timed_out"  # its process was killed at its limit
    POISONED = "poisoned"  # failed with a sticky CUDA error: its process was retired
    MISSING = "missing"  # planned, but the worker did not collect it
    NOT_RUN = "not_run"  # its group was given up before it ran

    @property
    def ok(self) -> bool:
        """Whether a run in which every test ended so is green."""
        return self in _OK


_OK = frozenset({Outcome.PASSED, Outcome.SKIPPED, Outcome.XFAILED, Outcome.XPASSED})


@dataclass(frozen=True, kw_only=True)
class CollectedTest:
    """One item as pytest collected it, with its mode resolved.

    `file` is the path relative to rootdir with `/` (absolute where it lies outside). `gpus` is the width of its worker:
    0 for `cpu`, the whole node for `sequential`. `timeout_seconds` is pytest-timeout's limit for it, if it has one.
    """

    id: str
    file: str
    mode: Mode
    gpus: int
    timeout_seconds: float | None = None
    params: tuple[tuple[str, str], ...] = ()
    why: str = ""  # what gave it its mode and GPUs: marker, rule or default


@dataclass(frozen=True, kw_only=True)
class PlannedTest:
    """A test in a plan: what it is expected to take, and how that is known."""

    id: str
    weight_ms: int
    source: WeightSource
    timeout_seconds: float | None = None
    why: str = ""  # what gave it its mode and GPUs, for `shardlib explain`


@dataclass(frozen=True, kw_only=True)
class Group:
    """Tests of one file, same mode and GPUs, that one process runs in one go, in this order.

    `setup_ms` is the file's shared setup, paid once by each process that runs tests of the file. A file that was split
    gives several groups, each of which pays it.
    """

    id: str
    file: str
    mode: Mode
    gpus: int
    setup_ms: int
    tests: tuple[PlannedTest, ...]

    @property
    def cost_ms(self) -> int:
        """Expected milliseconds in a living worker: the setup and every test; no worker start."""
        return self.setup_ms + sum(test.weight_ms for test in self.tests)

    @property
    def width(self) -> int:
        """How many of a node's slots its worker holds: its GPUs, or one core's slot where it needs none."""
        return max(1, self.gpus)


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One pod's tests: ids of groups in planned-start order. `slots` are its GPUs, or its cpu workers for `cpu`."""

    name: str
    slots: int
    groups: tuple[str, ...]
    predicted_ms: int

    @property
    def is_cpu(self) -> bool:
        """Whether this is the shard of the `cpu` tests, which runs in a pod without GPUs."""
        return self.name == CPU_SHARD


CPU_SHARD = "cpu"
