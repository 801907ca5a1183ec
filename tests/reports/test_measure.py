from __future__ import annotations

from pathlib import Path

import pytest

from shardlib.reports import measure
from shardlib.reports.run import idle_gpu_seconds
from tests.runs import attempt_body, make_plan, write_events, write_run


def test_times_come_from_the_events(tmp_path: Path) -> None:
    plan = make_plan()
    measures = measure.read(write_run(tmp_path, plan), plan)
    first = measures.shards["01"]
    assert measures.unreadable == ()
    assert (first.seconds, first.workers, measures.makespan_seconds) == (10.0, 1, 10.0)
    # 2 s to be ready, and the session fixture in the first test of each of two groups
    assert first.worker_starts == (2.25,)
    assert first.busy_gpu_seconds == 2.0 + 2 * 2.0
    assert idle_gpu_seconds(plan.shards[0], first) == 8 * 10.0 - 6.0


def test_a_files_setup_is_its_import_and_shared_fixtures_but_no_session_fixture(tmp_path: Path) -> None:
    plan = make_plan()
    assert measure.read(write_run(tmp_path, plan), plan).setups == {"a.py": 0.75, "b.py": 0.75, "c.py": 0.75}


def test_a_setup_is_the_mean_over_the_processes_that_paid_it(tmp_path: Path) -> None:
    plan = make_plan({"01": {"a.py": ["a.py::one"]}})
    folder = write_run(tmp_path, plan)
    shard = folder.shard("01")
    log = shard.event_log(shard.start_attempt(attempt_body(plan, "01")))
    for worker in ("w1", "w2"):
        log.append({"t": 1, "event": "collected", "worker": worker, "group": "g00001", "seconds": 3.0})
    log.close()
    assert measure.read(folder, plan).setups == {"a.py": pytest.approx((0.75 + 3 + 3) / 3)}


def test_all_attempts_of_a_shard_count(tmp_path: Path) -> None:
    plan = make_plan()
    folder = write_run(tmp_path, plan)
    shard = folder.shard("02")
    write_events(shard, plan, shard.start_attempt(attempt_body(plan, "02")))
    assert measure.read(folder, plan).shards["02"].seconds == 20.0
    assert measure.read(folder, plan).makespan_seconds == 20.0


def test_the_shard_without_gpus_is_not_in_the_makespan(tmp_path: Path) -> None:
    plan = make_plan({"01": {"a.py": ["a.py::one"]}, "cpu": {"b.py": ["b.py::two"]}})
    folder = write_run(tmp_path, plan)
    shard = folder.shard("cpu")
    write_events(shard, plan, shard.start_attempt(attempt_body(plan, "cpu")))
    measures = measure.read(folder, plan)
    assert (measures.makespan_seconds, measures.shards["cpu"].seconds) == (10.0, 20.0)
    assert idle_gpu_seconds(plan.shard("cpu"), measures.shards["cpu"]) is None


@pytest.mark.parametrize(
    "line",
    [
        '{"t":1,"event":"worker_ready","worker":"w1","seconds":"2"}',
        '{"t":1,"event":"finish","worker":"w1","group":"g00009"}',
        '{"t":1,"event":"finish","worker":"w1","group":"g00001","shared_seconds":[1]}',
        '{"t":1,"event":"collected","worker":["w1"],"group":"g00001","seconds":1}',
        '{"t":1,"event":"group","group":["g00001"],"seconds":1}',
        '{"t":1,"event":"group","group":"g00009","seconds":1}',
        "garbage",
    ],
)
def test_an_event_of_another_shape_is_named_and_what_is_before_it_counts(tmp_path: Path, line: str) -> None:
    plan = make_plan()
    folder = write_run(tmp_path, plan)
    with (tmp_path / "shards/01/events/0.jsonl").open("a") as stream:
        stream.write(line + "\n")
    measures = measure.read(folder, plan)
    assert len(measures.unreadable) == 1
    assert "01" in measures.unreadable[0]
    assert measures.shards["01"].seconds == 10.0
