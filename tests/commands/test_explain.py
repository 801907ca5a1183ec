from __future__ import annotations

import re
from pathlib import Path

import pytest

from shardlib import cli
from shardlib.collecting.document import Collection
from shardlib.commands.explain import explain
from shardlib.commands.plan import make_plan
from shardlib.errors import UsageError
from shardlib.model import CollectedTest, Mode
from shardlib.plan import Plan
from shardlib.pytestrun import PytestRun
from shardlib.runfolder import RunFolder
from shardlib.settings import Settings

RUN = PytestRun(version="9", python="3", rootdir="/r", inifile=None, cwd="/r", args=(), hash_seed="0")


@pytest.fixture
def plan() -> Plan:
    tests = (
        CollectedTest(id="a.py::test_one", file="a.py", mode=Mode.ISOLATED, gpus=2, why="marker gpu"),
        CollectedTest(id="a.py::test_two", file="a.py", mode=Mode.ISOLATED, gpus=2, why="marker gpu"),
        CollectedTest(id="b.py::test_limit\n", file="b.py", mode=Mode.CONCURRENT, gpus=1, timeout_seconds=7),
        CollectedTest(id="a.py::test_skip", file="a.py", mode=Mode.ISOLATED, gpus=2, why="marker gpu"),
        CollectedTest(id="c.py::test_cpu", file="c.py", mode=Mode.CPU, gpus=0, why="default_mode"),
    )
    durations = {"a.py": 3.0, "a.py::test_one": 5.0, "a.py::test_two": 4.0, "a.py::test_skip": 0.0}
    collection = Collection(pytest=RUN, settings=Settings(startup_seconds=10), tests=tests)
    return make_plan(collection, shards=1, durations=durations)


def test_it_says_mode_weight_place_start_and_limit(plan: Plan) -> None:
    text = explain(plan, "a.py::test_two")
    assert re.search(r"mode +isolated, 2 GPUs; by marker gpu", text)
    assert re.search(r"weight +4\.0 s, known", text)
    assert re.search(r"shard +01 of 1, predicted", text)  # as `run` and the fan-out count: of those with GPUs
    assert re.search(r"position +2 of 3 in the group, after 3\.0 s of the file's setup", text)
    assert re.search(r"start +18\.0 s after", text)  # start-up, setup, test_one
    assert re.search(r"limit +1m 00s.*timeout_factor", text)


def test_an_estimated_weight_and_its_limit_say_so(plan: Plan) -> None:
    text = explain(plan, "c.py::test_cpu")
    assert re.search(r"mode +cpu, no GPU; by default_mode", text)
    assert "unknown_seconds" in text
    assert re.search(r"shard +cpu, predicted", text)
    assert re.search(r"limit +30m 00s.*max_test_seconds", text)


def test_a_test_that_was_always_skipped_has_the_limit_of_an_unknown_one(plan: Plan) -> None:
    text = explain(plan, "a.py::test_skip")
    assert re.search(r"weight +0\.0 s, known: 0 in the durations file", text)
    assert re.search(r"limit +30m 00s.*max_test_seconds", text)


def test_a_limit_of_pytest_timeout_is_named_and_an_odd_id_is_quoted(plan: Plan) -> None:
    text = explain(plan, "b.py::test_limit\n")
    assert text.startswith("'b.py::test_limit\\n'\n")
    assert re.search(r"limit +37\.0 s.*pytest-timeout", text)


@pytest.mark.parametrize(
    ("asked", "suggested"),
    [("a.py::test_onee", "a.py::test_one"), ("test_two", "a.py::test_two"), ("c.py::test_gpu", "c.py::test_cpu")],
)
def test_an_unknown_id_is_refused_with_ids_that_look_like_it(plan: Plan, asked: str, suggested: str) -> None:
    with pytest.raises(UsageError) as caught:
        explain(plan, asked)
    assert f"{asked!r} is not in the plan; did you mean" in str(caught.value)
    assert suggested in str(caught.value)


def test_an_id_like_no_other_is_refused_with_the_command_that_lists_them(plan: Plan) -> None:
    with pytest.raises(UsageError, match="`pytest --collect-only -q` lists what pytest finds"):
        explain(plan, "zzz")


def test_the_command_reads_the_runs_plan(tmp_path: Path, plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    RunFolder(tmp_path / "run").write_plan(plan)
    assert cli.main(["explain", "--run", str(tmp_path / "run"), "a.py::test_one"]) == 0
    assert capsys.readouterr().out.startswith("a.py::test_one\n  mode ")
    assert cli.main(["explain", "--run", str(tmp_path / "run"), "zzz"]) == 11
    assert cli.main(["explain", "--run", str(tmp_path / "nothing"), "zzz"]) == 16
