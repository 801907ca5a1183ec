"""Hypothesis strategies for suites and groups: all modes, ties, zeros, one-test files, ids that need quoting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from shardlib.durations import Weights, weigh
from shardlib.model import CollectedTest, Group, Mode, PlannedTest, WeightSource

_GPU_MODES = (Mode.CONCURRENT, Mode.CONCURRENT, Mode.ISOLATED, Mode.SEQUENTIAL)


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Collected tests by file, each file's in pytest's order, and their durations."""

    files: tuple[tuple[CollectedTest, ...], ...]
    durations: dict[str, float]

    @property
    def tests(self) -> tuple[CollectedTest, ...]:
        return tuple(test for file in self.files for test in file)

    @property
    def weights(self) -> Weights:
        return weigh(self.tests, self.durations, unknown_seconds=0.03)


def milliseconds(most: int = 60) -> st.SearchStrategy[int]:
    """Weights with many ties."""
    return st.one_of(st.integers(1, most), st.sampled_from([1, 10, 10, 20]))


@st.composite
def groups(draw: st.DrawFn, *, slots: int, most: int = 12, least_ms: int = 0) -> list[Group]:
    """Groups of one test each that fit a node of so many slots."""
    result = []
    for number in range(draw(st.integers(0, most))):
        mode = draw(st.sampled_from(_GPU_MODES))
        gpus = slots if mode is Mode.SEQUENTIAL else draw(st.integers(1, slots))
        ms = draw(st.integers(least_ms, 30))
        test = PlannedTest(id=f"f{number}::t", weight_ms=ms, source=WeightSource.KNOWN)
        result.append(Group(id=f"g{number}", file=f"f{number}", mode=mode, gpus=gpus, setup_ms=0, tests=(test,)))
    return result


@st.composite
def suites(draw: st.DrawFn, *, gpus: int, most_files: int = 8, most_tests: int = 6, cpu: bool = True) -> Suite:
    """Files of tests; modes mostly by file, some files with several; some durations are zero or unknown."""
    modes = (*_GPU_MODES, Mode.CPU) if cpu else _GPU_MODES
    durations: dict[str, float] = {}
    files = []
    for number in range(draw(st.integers(1, most_files))):
        name = f"tests/test {number}.py"
        if draw(st.booleans()):
            durations[name] = draw(st.sampled_from([0.0, 0.002, 0.02]))
        kind = draw(_kind(modes, gpus))
        tests = []
        for at in range(draw(st.integers(1, most_tests))):
            mode, width = draw(_kind(modes, gpus)) if draw(st.integers(0, 9)) == 0 else kind
            test = CollectedTest(id=f"{name}::test[{at} é]", file=name, mode=mode, gpus=width)
            tests.append(test)
            if draw(st.integers(0, 9)):
                durations[test.id] = draw(st.one_of(st.just(0.0), milliseconds().map(lambda ms: ms / 1000)))
        files.append(tuple(tests))
    return Suite(files=tuple(files), durations=durations)


@st.composite
def _kind(draw: st.DrawFn, modes: Sequence[Mode], gpus: int) -> tuple[Mode, int]:
    mode = draw(st.sampled_from(modes))
    widths = {Mode.CPU: st.just(0), Mode.SEQUENTIAL: st.just(gpus)}
    return mode, draw(widths.get(mode, st.integers(1, gpus)))
