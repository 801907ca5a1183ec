"""What goes wrong in one run, drawn from a seed: which test commits which fault, and who is killed when. Pure."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from shardlib.model import Group, Mode, Outcome, PlannedTest, WeightSource

FILES, TESTS_IN_FILE = 25, 20
SHARDS, SLOTS = ("01", "02", "03"), 3
# One mode for each file, over and over.
_MODES = (
    (Mode.CONCURRENT, 1),
    (Mode.CONCURRENT, 2),
    (Mode.CONCURRENT, 1),
    (Mode.ISOLATED, 1),
    (Mode.CONCURRENT, 1),
    (Mode.SEQUENTIAL, SLOTS),
    (Mode.CONCURRENT, 1),
    (Mode.ISOLATED, 2),
)

_CRASHED, _TIMED_OUT, _FAILED = {Outcome.CRASHED}, {Outcome.TIMED_OUT}, {Outcome.FAILED}
_PASSED = {Outcome.PASSED}
# What each fault deserves.
DESERVED: Mapping[str, set[Outcome]] = {
    "segfault": _CRASHED,
    "exit 0": _CRASHED,
    "abort": _CRASHED,
    "kill itself": _CRASHED,
    "close all": _CRASHED,
    "close streams": _FAILED,  # pytest itself breaks on a closed capture
    "hang": _TIMED_OUT,
    "hang in C": _TIMED_OUT,
    "hang deaf": _TIMED_OUT,
    "teardown hangs": _TIMED_OUT,
    "fail": _FAILED,
    "sys.exit": _FAILED,
    "pytest.exit": _FAILED,
    "interrupt": _FAILED,
    "sticky": {Outcome.POISONED},
    "close stdout": _PASSED,
    "print": _PASSED,
    "child": _PASSED,
    "child in session": _PASSED,
    "child escaped": _PASSED,
    "child with memory": _PASSED,
    "fork returns": _PASSED,
    "change directory": _PASSED,
    "replace handlers": _PASSED,
    "leave memory": _PASSED,
}
HARMLESS = [kind for kind, outcomes in DESERVED.items() if outcomes == _PASSED]
LETHAL = [kind for kind, outcomes in DESERVED.items() if outcomes == _CRASHED]


class Theme(Enum):
    """How the faults of a scenario are drawn."""

    GENTLE = "gentle"  # only faults that let their test pass, and killed runners: the run must end green
    ROUGH = "rough"  # everything, anywhere
    CLUSTERED = "clustered"  # lethal faults one after the other: groups are given up


class Target(Enum):
    """Who gets a signal."""

    RUNNER = "runner"
    EVERYTHING = "everything"  # as a container's end does: every process, in any order
    WORKER = "worker"
    WORKER_GROUP = "worker group"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What a test does when it runs: each time, or only the first time in this run."""

    kind: str
    once: bool


@dataclass(frozen=True, kw_only=True)
class Kill:
    """A signal from outside, so many seconds after the start of an attempt."""

    after_seconds: float
    target: Target
    signal: int


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One run: the shards' groups, what their tests do, and what happens to their processes."""

    seed: int
    theme: Theme
    groups: Mapping[str, Sequence[Group]]
    faults: Mapping[str, Fault]
    kills: Mapping[str, Sequence[Kill]]


def draw(seed: int, theme: Theme, faults: int) -> Scenario:
    """Returns the scenario of a seed with so many faults, about one in six of them a kill from outside."""
    dice = random.Random(f"{seed} {theme.value}")
    groups = _groups(dice)
    tests = [test.id for shard in groups.values() for group in shard for test in group.tests]
    kills = max(len(SHARDS), faults // 6)
    shards: dict[str, list[Kill]] = {shard: [] for shard in SHARDS}
    for number in range(kills):
        shards[SHARDS[number % len(SHARDS)]].append(_kill(dice, theme))
    chosen = _clusters(dice, groups, faults - kills) if theme is Theme.CLUSTERED else dice.sample(tests, faults - kills)
    kinds = _kinds(dice, theme)
    return Scenario(
        seed=seed,
        theme=theme,
        groups=groups,
        faults={test: Fault(kind=next(kinds), once=dice.random() < 0.5) for test in chosen},
        kills=shards,
    )


def _groups(dice: random.Random) -> dict[str, list[Group]]:
    """Deals the files to the shards; every fifth is split into two groups."""
    shards: dict[str, list[Group]] = {shard: [] for shard in SHARDS}
    count = 0
    for number in range(FILES):
        mode, gpus = _MODES[number % len(_MODES)]
        file = f"test_{number:02}.py"
        cut = dice.randrange(1, TESTS_IN_FILE) if number % 5 == 0 else TESTS_IN_FILE
        for part in (range(cut), range(cut, TESTS_IN_FILE)):
            if not part:
                continue
            count += 1
            tests = tuple(PlannedTest(id=f"{file}::test_it[{n}]", weight_ms=1, source=WeightSource.KNOWN) for n in part)
            group = Group(id=f"g{count:05}", file=file, mode=mode, gpus=gpus, setup_ms=0, tests=tests)
            shards[dice.choice(SHARDS) if count > len(SHARDS) else SHARDS[count - 1]].append(group)
    return shards


def _kinds(dice: random.Random, theme: Theme) -> Iterator[str]:
    """Yields kinds for ever: a shuffled round of all that the theme has, then the next, so that none is left out."""
    kinds = {Theme.GENTLE: HARMLESS, Theme.ROUGH: list(DESERVED), Theme.CLUSTERED: LETHAL}[theme]
    while True:
        yield from dice.sample(kinds, len(kinds))


def _clusters(dice: random.Random, groups: Mapping[str, Sequence[Group]], count: int) -> list[str]:
    """Returns tests in runs of two to five neighbours: some groups survive theirs, some are given up."""
    everything = [group for shard in groups.values() for group in shard]
    chosen: dict[str, None] = {}
    while len(chosen) < count:
        group, length = dice.choice(everything), dice.randint(2, 5)
        start = dice.randrange(max(1, len(group.tests) - length))
        chosen.update(dict.fromkeys(test.id for test in group.tests[start : start + length]))
    return list(chosen)[:count]


def _kill(dice: random.Random, theme: Theme) -> Kill:
    # A worker that is killed from outside fails its test, which would not be gentle.
    target = dice.choice([Target.RUNNER, Target.EVERYTHING] if theme is Theme.GENTLE else list(Target))
    signals = [signal.SIGKILL, signal.SIGTERM]
    if target in (Target.WORKER, Target.WORKER_GROUP):
        signals.append(signal.SIGSTOP)  # it hangs from then on, wherever it is
    return Kill(after_seconds=dice.uniform(0.1, 4.0), target=target, signal=dice.choice(signals))
