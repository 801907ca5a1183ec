from __future__ import annotations

from pathlib import Path

import pytest

import shardlib.durations
from shardlib import evidence
from shardlib.model import Outcome
from shardlib.reports.durations import dumps, durations
from shardlib.runfolder import RunFolder
from shardlib.verdict import judge
from tests.runs import attempt_body, finish, make_plan, result_body, write_run


def measured(folder: RunFolder) -> dict[str, float]:
    plan = folder.read_plan()
    verdict = judge(plan, *evidence.read(folder, [shard.name for shard in plan.shards]))
    return durations(verdict, {"a.py": 4.0})


def test_a_tests_seconds_are_without_the_fixtures_it_shared(tmp_path: Path) -> None:
    plan = make_plan({"01": {"a.py": ["a.py::one"]}})
    folder = RunFolder(tmp_path)
    folder.write_plan(plan)
    shard = folder.shard("01")
    shard.start_attempt(attempt_body(plan, "01"))
    body = result_body(plan, "01", "g00001")
    body["tests"][0]["shared_seconds"] = {"module": 1.0, "class": 0.25, "session": 0.125}
    shard.write_result("g00001", body)
    finish(shard, plan)
    assert measured(folder) == {"a.py": 4.0, "a.py::one": 0.125}


@pytest.mark.parametrize("outcome", list(Outcome))
def test_only_tests_that_ran_to_their_end_have_a_duration(tmp_path: Path, outcome: Outcome) -> None:
    found = measured(write_run(tmp_path, make_plan(), two=outcome.value))
    ended = outcome in (Outcome.PASSED, Outcome.FAILED, Outcome.XFAILED, Outcome.XPASSED)
    assert ("a.py::two" in found) is ended
    assert "a.py::one" in found


def test_the_file_is_one_that_plan_reads(tmp_path: Path) -> None:
    found = measured(write_run(tmp_path / "run", make_plan()))
    path = tmp_path / "durations.json"
    path.write_text(dumps(found))
    assert shardlib.durations.load(path) == found
