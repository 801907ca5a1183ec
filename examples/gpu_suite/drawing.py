"""Draws a suite whose durations have the shape of real GPU suites. Pure: the same seed and size, the same suite.

The figures come from ten duration files that public repositories commit (pytest-split's format), of which only the tests
between 2 s and 600 s count here: seconds are about lognormal, the logs' standard deviation is 1.0 to 1.6 in all and 0.5
to 0.85 inside one file (tests of a file resemble each other), the median is 6 to 22 s, and a file has 2 to 7 such tests
in the median and up to tens.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

SHORTEST_SECONDS, LONGEST_SECONDS = 2.0, 600.0
MEDIAN_SECONDS = 12.0
SIGMA_BETWEEN_FILES, SIGMA_WITHIN_FILE = 0.9, 0.75  # together 1.17
MEDIAN_TESTS_PER_FILE, SIGMA_TESTS_PER_FILE, MOST_TESTS_PER_FILE = 5.0, 0.9, 40
# Reading some GB of weights from a shared file system. A guess: the duration files do not tell setups apart.
MEDIAN_LOAD_SECONDS, SIGMA_LOAD, SHORTEST_LOAD_SECONDS, LONGEST_LOAD_SECONDS = 15.0, 0.6, 3.0, 60.0
TESTS_PER_FUNCTION = 6  # a longer table of parameters is divided among several functions

SUBJECTS = ("attention", "moe", "quantize", "rope", "sampling", "checkpoint", "optimizer", "compile", "comm")
ACTIONS = ("forward", "backward", "generate", "resume", "compare", "export", "shapes")
CASES = ("bf16", "fp16", "fp8", "int8", "long", "ragged", "paged", "tied", "causal", "dense")


@dataclass(frozen=True, kw_only=True)
class Marker:
    """What `@pytest.mark.gpu(...)` says; a keyword that is None is left out."""

    mode: str | None
    gpus: int | None


@dataclass(frozen=True, kw_only=True)
class Function:
    """One parametrized test function: the seconds of each case, by the case's name."""

    name: str
    seconds: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class File:
    """One test file: tests that need the same marker and share one model, which takes `load_seconds` to load."""

    name: str
    marker: Marker
    load_seconds: float
    functions: tuple[Function, ...]


# (marker, share of the tests): most GPU tests need one GPU and no process of their own.
MIX: tuple[tuple[Marker, float], ...] = (
    (Marker(mode=None, gpus=1), 0.70),
    (Marker(mode="concurrent", gpus=2), 0.06),
    (Marker(mode="concurrent", gpus=4), 0.04),
    (Marker(mode="isolated", gpus=1), 0.04),
    (Marker(mode="isolated", gpus=2), 0.04),
    (Marker(mode="isolated", gpus=4), 0.02),
    (Marker(mode="isolated", gpus=8), 0.02),
    (Marker(mode="sequential", gpus=None), 0.03),
    (Marker(mode="cpu", gpus=None), 0.05),
)


def draw(*, seed: int, tests: int, mix: tuple[tuple[Marker, float], ...] = MIX) -> tuple[File, ...]:
    """Returns files of about `tests` tests in all, in the order in which pytest collects them.

    Args:
        seed: of the generator; nothing else is random.
        tests: how many tests; each marker of the mix gets its share, at least one.
        mix: markers and their shares, which add up to 1.
    """
    rng = random.Random(seed)
    files: list[File] = []
    for marker, share in mix:
        files += _draw_files(rng, marker, max(1, round(share * tests)))
    rng.shuffle(files)
    return tuple(sorted((_named(file, number) for number, file in enumerate(files)), key=lambda file: file.name))


def _draw_files(rng: random.Random, marker: Marker, tests: int) -> Iterator[File]:
    while tests > 0:
        count = min(tests, _lognormal(rng, MEDIAN_TESTS_PER_FILE, SIGMA_TESTS_PER_FILE, 1, MOST_TESTS_PER_FILE))
        tests -= math.ceil(count)
        yield _draw_file(rng, marker, math.ceil(count))


def _draw_file(rng: random.Random, marker: Marker, count: int) -> File:
    median = _lognormal(rng, MEDIAN_SECONDS, SIGMA_BETWEEN_FILES, SHORTEST_SECONDS, LONGEST_SECONDS)
    seconds = [_lognormal(rng, median, SIGMA_WITHIN_FILE, SHORTEST_SECONDS, LONGEST_SECONDS) for _ in range(count)]
    load = _lognormal(rng, MEDIAN_LOAD_SECONDS, SIGMA_LOAD, SHORTEST_LOAD_SECONDS, LONGEST_LOAD_SECONDS)
    actions = rng.sample(ACTIONS, math.ceil(count / TESTS_PER_FUNCTION))
    functions = []
    for action in actions:
        part, seconds = seconds[:TESTS_PER_FUNCTION], seconds[TESTS_PER_FUNCTION:]
        functions.append(
            Function(name=f"test_{action}", seconds=dict(zip(rng.sample(CASES, len(part)), part, strict=True)))
        )
    return File(name=rng.choice(SUBJECTS), marker=marker, load_seconds=load, functions=tuple(functions))


def _named(file: File, number: int) -> File:
    return File(
        name=f"test_{file.name}_{number:04}.py",
        marker=file.marker,
        load_seconds=file.load_seconds,
        functions=file.functions,
    )


def _lognormal(rng: random.Random, median: float, sigma: float, low: float, high: float) -> float:
    """Draws until a value lies between low and high, so that neither end gathers a heap of equal values."""
    while True:
        value = round(rng.lognormvariate(math.log(median), sigma), 1)
        if low <= value <= high:
            return value
