"""What packing promises on real duration sets, 12 nodes of 8 GPUs; the figures of `python -m benchmarks packing`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.packing import cases
from benchmarks.packing_peers import Case
from benchmarks.suites import data_folder, real_suites
from shardlib.packing import Packing, pack

STARTUP_MS = 5000
MOST_TESTS = 40_000  # larger ones are left to the benchmark: they take seconds each, and are easier


def all_cases() -> Iterator[Case]:
    folder = data_folder()
    if folder is None:
        pytest.skip("the real duration sets are not here; SHARDLIB_DATA says where they are")
    small = [suite for suite in real_suites(folder) if len(suite.tests) < MOST_TESTS / 10]
    assert len(small) >= 8
    return (case for case in cases(small, STARTUP_MS) if len(case.suite.tests) <= MOST_TESTS)


def packed(case: Case) -> Packing:
    return pack(case.suite.tests, case.weights, shards=12, gpus=8, cpu_slots=1, startup_ms=case.startup_ms)


def test_makespan_is_near_the_lower_bound_and_at_the_floor_where_one_test_is_it() -> None:
    gaps: dict[str, dict[str, float]] = {"raw": {}, "repeated": {}, "mixed": {}}
    for case in all_cases():
        packing = packed(case)
        if case.variant == "raw":
            assert case.bound.is_longest_test
        gaps[case.variant][case.suite.name] = packing.makespan_ms / packing.lower_bound_ms - 1
    assert gaps["raw"] == dict.fromkeys(gaps["raw"], 0.0)
    for variant in ("repeated", "mixed"):
        assert len(gaps[variant]) >= 6
        assert max(gaps[variant].values()) <= 0.01, gaps[variant]
        assert sum(gaps[variant].values()) / len(gaps[variant]) <= 0.003, gaps[variant]
