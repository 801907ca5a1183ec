"""Predicted against actual makespans."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.makespan import add_arguments, bar, main, round_robin
from shardlib.model import Group, Mode, PlannedTest, Shard, WeightSource
from shardlib.plan import Plan, Prediction
from shardlib.pytestrun import PytestRun
from shardlib.settings import Settings

PYTEST = PytestRun(version="9", python="3", rootdir="/r", inifile=None, cwd="/r", args=(), hash_seed="0")


def a_plan(files: list[tuple[Mode, int, int]]) -> Plan:
    """One shard of 8 GPUs that runs everything, and one for the cpu tests; a file is (mode, gpus, tests)."""
    groups = tuple(
        Group(
            id=f"g{number:05}",
            file=f"f{number}.py",
            mode=mode,
            gpus=gpus,
            setup_ms=100,
            tests=tuple(
                PlannedTest(id=f"f{number}.py::t{test}", weight_ms=1000, source=WeightSource.KNOWN)
                for test in range(tests)
            ),
        )
        for number, (mode, gpus, tests) in enumerate(files, start=1)
    )
    names = {cpu: tuple(g.id for g in groups if (g.mode is Mode.CPU) == cpu) for cpu in (False, True)}
    shards = tuple(
        Shard(name="cpu" if cpu else "01", slots=8, groups=own, predicted_ms=1) for cpu, own in names.items() if own
    )
    prediction = Prediction(makespan_ms=1, lower_bound_ms=1, bottleneck="", known=1, estimated=0, stale=0)
    return Plan(
        pytest=PYTEST, settings=Settings(), strategy="timeline", shards=shards, groups=groups, prediction=prediction
    )


kinds = st.sampled_from([(Mode.CONCURRENT, 1), (Mode.ISOLATED, 4), (Mode.SEQUENTIAL, 8), (Mode.CPU, 0)])
files = st.lists(st.tuples(kinds, st.integers(1, 9)).map(lambda file: (*file[0], file[1])), min_size=1, max_size=12)


@given(files=files, shards=st.integers(1, 5))
def test_round_robin_deals_every_gpu_test_to_the_next_shard(files: list[tuple[Mode, int, int]], shards: int) -> None:
    files = [(Mode.CONCURRENT, 1, 1), *files]
    plan = a_plan(files)
    order = [test.id for group in plan.groups for test in group.tests]
    dealt = round_robin(plan, order, shards=shards, gpus=8)  # Plan itself proves exactly-once
    assert {test for group in dealt.groups for test in group.tests} == {t for g in plan.groups for t in g.tests}
    gpu_tests = [name for name in order if plan.group_of[name].mode is not Mode.CPU]
    for position, name in enumerate(gpu_tests):
        assert dealt.shard_of[dealt.group_of[name].id].name == f"{position % shards + 1:02}"
        assert (dealt.group_of[name].mode, dealt.group_of[name].gpus) == (
            plan.group_of[name].mode,
            plan.group_of[name].gpus,
        )
    assert [shard for shard in dealt.shards if shard.is_cpu] == [shard for shard in plan.shards if shard.is_cpu]
    assert dealt.prediction.makespan_ms == max(s.predicted_ms for s in dealt.shards if not s.is_cpu)


def test_round_robin_keeps_a_files_tests_of_one_shard_in_one_group() -> None:
    plan = a_plan([(Mode.CONCURRENT, 1, 5)])
    dealt = round_robin(plan, [test.id for test in plan.groups[0].tests], shards=2, gpus=8)
    assert [[test.id[-2:] for test in group.tests] for group in dealt.groups] == [["t0", "t2", "t4"], ["t1", "t3"]]


def test_a_bar_marks_the_prediction_where_it_lies() -> None:
    assert bar(30.0, 60.0, 60.0) == "=" * 30 + " " * 30 + "|"
    assert bar(60.0, 30.0, 60.0) == "=" * 30 + "|" + "=" * 29


@pytest.mark.slow
def test_all_three_strategies_really_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parser = ArgumentParser()
    add_arguments(parser)
    figures = tmp_path / "figures.json"
    options = ["--tests", "9", "--shards", "2", "--predicted-seconds", "2", "--json", str(figures)]
    assert main(parser.parse_args(options)) == 0
    strategies = json.loads(figures.read_text())["strategies"]
    assert set(strategies) == {"timeline", "lpt", "round-robin"}
    for one in strategies.values():
        assert set(one["actual_seconds"]) == {"01", "02", "cpu"}
        assert one["actual_makespan_seconds"] > 2  # ours without starts, here the lower bound: no plan sleeps less
        assert len(one["start_seconds"]) > 2
    assert "ours / lpt" in capsys.readouterr().out
