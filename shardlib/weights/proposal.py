"""proposal.json: the weights that `fit` proposes, with all that a person needs to judge them. Standard library only.

    {"schema": "shardlib.proposal/1",
     "settings": {"half_life_runs", "half_life_tuned", "shift_up_runs", "shift_down_runs", "margin", "shards"},
     "runs": [{"run", "when": unix seconds or null, "kind", "tests", "factor"}],
     "slow_pods": [{"run": index, "pod", "factor"}],
     "tests": [{"id", "mode", "weight", "p10", "p90", "samples", "effective", "scatter", "last_seen": index of a run,
                "flags": [...], "shift": null or {"run": index, "factor"}, "why": text,
                "history": [[index of a run, seconds, mark], ...]}]}

Runs are oldest first, and their factor is how slow they were (1: as usual). A history holds the newest HISTORY_RUNS.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from shardlib import safefiles
from shardlib.durations import MAX_SECONDS
from shardlib.errors import WeightsError
from shardlib.fields import Fields, parse

SCHEMA = "shardlib.proposal/1"
MAX_BYTES = 2 << 30
MAX_TESTS = 1_000_000
HISTORY_RUNS = 40  # points of a picture that is 300 pixels wide
_AGAIN = "make it again: shardlib weights fit"


class Flag(str, Enum):
    """What is odd about a test's history."""

    SHIFTED = "shifted"  # its level changed for good
    FLAKY = "flaky"  # two speeds, or it fails and passes
    TIMED_OUT = "timed_out"  # in two runs or more
    SKIPPED_AS_0 = "skipped_as_0"  # about 0 s where it otherwise takes long: a skip written as a duration
    UNIT = "unit"  # an observation of about 1000 times its median: milliseconds taken for seconds
    PLACEHOLDER = "placeholder"  # one number, again and again or for many tests: nobody measured it
    THIN = "thin"  # fewer than three observations
    SKIPPED = "skipped"  # in every run: its weight is what the skip takes
    ESTIMATED = "estimated"  # no observation: its relatives' median
    UNSEEN = "unseen"  # not in the newest runs


class Mark(str, Enum):
    """What became of a point of a test's history."""

    USED = ""
    TIMED_OUT = "t"
    SKIPPED = "s"
    FAILED = "f"
    RETRIED = "r"
    COLD = "c"  # first in its process
    OLD = "o"  # before the level shift
    DROPPED = "x"  # cut off, carried over, or it looks wrong


@dataclass(frozen=True, kw_only=True)
class Point:
    """One observation: the index of its run, seconds as measured, and whether it counts."""

    run: int
    seconds: float
    mark: Mark


@dataclass(frozen=True, kw_only=True)
class Shift:
    """A level shift: the first run after it, and its factor."""

    run: int
    factor: float


@dataclass(frozen=True, kw_only=True)
class TestWeight:
    """A test (an id without `::`: a file's setup) and what is proposed for it; seconds.

    `effective` is how many observations the recency leaves, `scatter` the standard deviation of log seconds.
    """

    __test__ = False  # no test class, whatever pytest thinks of its name

    id: str
    mode: str | None
    weight: float
    p10: float
    p90: float
    samples: int
    effective: float
    scatter: float
    last_seen: int
    flags: tuple[Flag, ...]
    shift: Shift | None
    why: str
    history: tuple[Point, ...]

    @property
    def is_setup(self) -> bool:
        """Whether this is a file's shared setup."""
        return "::" not in self.id


@dataclass(frozen=True, kw_only=True)
class ProposedRun:
    """A run that the fit saw. `factor`: how much slower it was than the one in the middle."""

    run: str
    when: float | None
    kind: str
    tests: int
    factor: float


@dataclass(frozen=True, kw_only=True)
class SlowPod:
    """A pod that was slower than the pod in the middle of its run, by this factor."""

    run: int
    pod: str
    factor: float


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What `fit` proposes; runs oldest first, tests sorted by id."""

    settings: Mapping[str, float | bool]
    runs: tuple[ProposedRun, ...]
    slow_pods: tuple[SlowPod, ...]
    tests: tuple[TestWeight, ...]


def write(proposal: Proposal, path: Path) -> None:
    """Writes the document whole, in the place of one that is there; ShardlibError if it cannot."""
    safefiles.replace(path.parent, (path.name,), dumps(proposal).encode("ascii"))


def load(path: Path) -> Proposal:
    """Returns what a proposal.json says.

    Raises:
        WeightsError: missing, no JSON, of another version, or malformed; naming the field.
    """
    data = safefiles.read_bytes(path.parent, (path.name,), limit=MAX_BYTES)
    if data is None:
        raise WeightsError(f"{path}: no such file; `shardlib weights fit SAMPLES -o {path}` writes it")
    try:
        return loads(data.decode("ascii"), str(path))
    except UnicodeDecodeError as err:
        raise WeightsError(f"{path}: byte {err.start} is not ASCII; {_AGAIN}") from err


def dumps(proposal: Proposal) -> str:
    """Returns the document's text, a test a line; `loads` is its inverse."""
    head = {
        "schema": SCHEMA,
        "settings": dict(proposal.settings),
        "runs": [vars(run) for run in proposal.runs],
        "slow_pods": [vars(pod) for pod in proposal.slow_pods],
    }
    lines = [_compact(_test_to_json(test)) for test in proposal.tests]
    return f'{_compact(head)[:-1]},"tests":[\n' + ",\n".join(lines) + "\n]}\n"


def loads(text: str, where: str) -> Proposal:
    """Returns what the text of a proposal.json says; WeightsError as `load`."""
    fields = Fields(parse(text, where, WeightsError), where, WeightsError)
    schema = fields.raw("schema")
    if schema != SCHEMA:
        raise WeightsError(f"{where}: schema is {schema!r}, expected {SCHEMA!r}; {_AGAIN}")
    settings = fields.raw("settings")
    if not isinstance(settings, dict) or not all(type(value) in (int, float, bool) for value in settings.values()):
        raise fields.wrong("settings", settings, "an object of numbers")
    runs = tuple(
        _read_run(value, f"{where}: runs[{n}]") for n, value in enumerate(fields.array("runs", most=MAX_TESTS))
    )
    pods = tuple(
        _read_pod(value, f"{where}: slow_pods[{n}]", len(runs))
        for n, value in enumerate(fields.array("slow_pods", most=MAX_TESTS))
    )
    tests = tuple(
        _read_test(value, f"{where}: tests[{n}]", len(runs))
        for n, value in enumerate(fields.array("tests", most=MAX_TESTS))
    )
    fields.end()
    if len({test.id for test in tests}) != len(tests):
        raise WeightsError(f"{where}: a test is there twice; {_AGAIN}")
    return Proposal(settings=settings, runs=runs, slow_pods=pods, tests=tests)


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _test_to_json(test: TestWeight) -> dict[str, Any]:
    body = dict(vars(test))
    body["flags"] = [flag.value for flag in test.flags]
    body["shift"] = vars(test.shift) if test.shift else None
    body["history"] = [[point.run, point.seconds, point.mark.value] for point in test.history]
    return body


def _read_run(value: object, where: str) -> ProposedRun:
    fields = Fields(value, where, WeightsError)
    run = ProposedRun(
        run=fields.text("run"),
        when=fields.number("when", 0, 1e12) if fields.has("when") else None,
        kind=fields.text("kind"),
        tests=fields.integer("tests", 0, MAX_TESTS),
        factor=fields.number("factor", 0, 1e9),
    )
    fields.end()
    return run


def _read_pod(value: object, where: str, runs: int) -> SlowPod:
    fields = Fields(value, where, WeightsError)
    pod = SlowPod(
        run=fields.integer("run", 0, runs - 1), pod=fields.text("pod"), factor=fields.number("factor", 0, 1e9)
    )
    fields.end()
    return pod


def _read_test(value: object, where: str, runs: int) -> TestWeight:
    fields = Fields(value, where, WeightsError)
    flags = fields.texts("flags", most=len(Flag))
    unknown = set(flags) - {flag.value for flag in Flag}
    if unknown:
        raise fields.wrong("flags", min(unknown), f"some of {', '.join(flag.value for flag in Flag)}")
    test = TestWeight(
        id=fields.text("id"),
        mode=fields.text("mode") if fields.has("mode") else None,
        weight=fields.number("weight", 0, MAX_SECONDS),
        p10=fields.number("p10", 0, MAX_SECONDS),
        p90=fields.number("p90", 0, MAX_SECONDS),
        samples=fields.integer("samples", 0, runs),
        effective=fields.number("effective", 0, runs),
        scatter=fields.number("scatter", 0, 1e9),
        last_seen=fields.integer("last_seen", 0, runs - 1),
        flags=tuple(Flag(flag) for flag in flags),
        shift=_read_shift(fields.raw("shift"), where, runs) if fields.has("shift") else None,
        why=fields.text("why", empty=True),
        history=tuple(_read_point(point, where, runs) for point in fields.array("history", most=HISTORY_RUNS)),
    )
    fields.end()
    return test


def _read_shift(value: object, where: str, runs: int) -> Shift:
    fields = Fields(value, f"{where}: shift", WeightsError)
    shift = Shift(run=fields.integer("run", 0, runs - 1), factor=fields.number("factor", 0, 1e12))
    fields.end()
    return shift


_MARKS = {mark.value: mark for mark in Mark}


def _read_point(value: object, where: str, runs: int) -> Point:
    if not (isinstance(value, list) and len(value) == 3):
        raise WeightsError(f"{where}: history has {value!r}, expected [run, seconds, mark]; {_AGAIN}")
    run, seconds, mark = value
    if type(run) is not int or not 0 <= run < runs or not isinstance(mark, str) or mark not in _MARKS:
        raise WeightsError(f"{where}: history has {value!r}, expected [run, seconds, mark]; {_AGAIN}")
    if type(seconds) not in (int, float) or not 0 <= seconds <= MAX_SECONDS:
        raise WeightsError(f"{where}: history has {seconds!r} seconds, expected 0 to {MAX_SECONDS:.0f}; {_AGAIN}")
    return Point(run=run, seconds=float(seconds), mark=_MARKS[mark])
