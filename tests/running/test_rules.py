"""The runner's pure rules."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shardlib.gpus import SimulatedGpus
from shardlib.model import Group, Mode, PlannedTest, WeightSource
from shardlib.running.environment import worker_environment
from shardlib.running.grouprun import MAX_BARREN_WORKERS, GroupRun
from shardlib.running.limits import test_limit_seconds as limit_seconds
from shardlib.running.outcome import shorten
from shardlib.running.protocol import EventChannel, LineSplitter
from shardlib.running.source import OwnList
from shardlib.settings import Settings

SETTINGS = Settings(startup_seconds=10, min_timeout_seconds=60, timeout_factor=5, max_test_seconds=1800)


def group(*names: str, gpus: int = 1) -> Group:
    tests = tuple(PlannedTest(id=name, weight_ms=1000, source=WeightSource.KNOWN) for name in names)
    return Group(id="g00001", file="f", mode=Mode.CONCURRENT, gpus=gpus, setup_ms=20_000, tests=tests)


@pytest.mark.parametrize(
    ("weight_ms", "source", "timeout", "expected"),
    [
        (1_000, WeightSource.KNOWN, None, 60),  # the floor
        (100_000, WeightSource.KNOWN, None, 5 * 100 + 20 + 10),
        (1_000, WeightSource.FILE, None, 1800),  # an estimate
        (1_000, WeightSource.UNKNOWN, None, 1800),
        (1, WeightSource.SKIPPED, None, 1800),  # if it runs after all
        (100_000, WeightSource.KNOWN, 40.0, 70),  # pytest-timeout acts first
    ],
)
def test_a_tests_limit(weight_ms: int, source: WeightSource, timeout: float | None, expected: float) -> None:
    test = PlannedTest(id="t", weight_ms=weight_ms, source=source, timeout_seconds=timeout)
    assert limit_seconds(test, group("t"), SETTINGS) == expected


def test_barren_workers_count_in_a_row_only() -> None:
    run = GroupRun.of(group("a", "b", "c"), ["a", "b", "c"])
    for _ in range(MAX_BARREN_WORKERS - 1):
        assert run.worker_ended(finished_any=False)
    run.finish("a", by_itself=True)
    assert run.worker_ended(finished_any=True)
    for _ in range(MAX_BARREN_WORKERS - 1):
        assert run.worker_ended(finished_any=False)
    assert not run.worker_ended(finished_any=False)
    assert run.left == ["b", "c"]


def test_own_list_keeps_the_planned_order_but_lets_smaller_groups_pass() -> None:
    wide, narrow = GroupRun.of(group("a", gpus=8), ["a"]), GroupRun.of(group("b"), ["b"])
    source = OwnList([wide, narrow])
    assert source.next(lambda g: g.gpus <= 1) is narrow
    assert source.next(lambda g: g.gpus <= 1) is None
    assert source.wants(lambda g: g.gpus == 8)
    source.give_back(narrow)
    assert source.drain() == [narrow, wide]
    assert source.drain() == []


def test_a_worker_sees_its_gpus_and_shares_no_compiler_cache(tmp_path: Path) -> None:
    base = {"TORCH_EXTENSIONS_DIR": "/cache/torch", "PYTEST_ADDOPTS": "-x", "PATH": "/bin"}
    made = worker_environment(
        base, worker_id="x/01/0/w3", gpus=["4", "5"], slots=[4, 5], scratch=tmp_path, hash_seed="0",
        coverage_file=tmp_path / ".coverage.w3",
    )  # fmt: skip
    assert made["CUDA_VISIBLE_DEVICES"] == "4,5"
    assert made["TORCH_EXTENSIONS_DIR"] == "/cache/torch/slot-4"
    assert made["TRITON_CACHE_DIR"].startswith(str(tmp_path))
    assert made["PYTHONHASHSEED"] == "0"
    assert made["PATH"] == "/bin"
    assert "PYTEST_ADDOPTS" not in made  # the plan's arguments have it


def test_ids_made_from_sets_are_those_that_were_collected(tmp_path: Path) -> None:
    made = worker_environment(
        {"PYTHONHASHSEED": "7"},
        worker_id="w",
        gpus=[],
        slots=[0],
        scratch=tmp_path,
        hash_seed="0",
        coverage_file=tmp_path / "c",
    )
    assert made["PYTHONHASHSEED"] == "0"
    assert made["CUDA_VISIBLE_DEVICES"] == ""


def test_torn_and_foreign_lines_are_dropped_and_the_rest_is_heard() -> None:
    lines = LineSplitter()
    lines.feed(b'{"event": "a"}\n{"event": "to')
    assert list(lines.messages()) == [{"event": "a"}]
    lines.feed(b'rn\n[1]\nnoise\n{"event": "b"}\n{"ev')
    assert list(lines.messages()) == [{"event": "b"}]


def test_a_forked_child_sends_nothing() -> None:
    read, write = os.pipe()
    channel = EventChannel(write)
    pid = os.fork()
    if pid == 0:
        channel.send("forged")
        os._exit(0)
    os.waitpid(pid, 0)
    channel.send("real")
    assert os.read(read, 1000) == b'{"event": "real"}\n'
    os.close(read)


def test_what_may_wait_travels_with_the_next_event() -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    channel = EventChannel(write)
    channel.send("one", later=True)
    with pytest.raises(BlockingIOError):
        os.read(read, 1000)
    channel.send("two")
    assert os.read(read, 1000) == b'{"event": "one"}\n{"event": "two"}\n'
    os.close(read)


def test_simulated_memory_is_free_when_its_process_is_gone(tmp_path: Path) -> None:
    gpus = SimulatedGpus(2, tmp_path)
    (tmp_path / "1" / str(os.getpid())).write_text("5000")
    (tmp_path / "1" / "99999999").write_text("7000")
    assert [gpus.used_bytes(slot) for slot in (0, 1)] == [0, 5000]


def test_long_text_keeps_its_head_and_its_tail() -> None:
    short = shorten("a" * 1000 + "b" * 1000, 100)
    assert short.startswith("a" * 50)
    assert short.endswith("b" * 50)
    assert "1900 characters left out" in short
