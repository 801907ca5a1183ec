"""The verdict on folders made by the package's own writers, then damaged one thing at a time."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib import evidence
from shardlib.model import Outcome
from shardlib.plan import Plan
from shardlib.runfolder import RunFolder
from shardlib.verdict import Kind, Verdict, judge
from tests.runs import LAYOUT, attempt_body, finish, make_plan, result_body, write_run

RESULT = "shards/01/results/g00001.0.json"
GOOD = ["passed", "skipped", "xfailed", "xpassed"]
BAD = sorted({outcome.value for outcome in Outcome} - set(GOOD))


def verdict_on(folder: RunFolder) -> Verdict:
    plan = folder.read_plan()
    return judge(plan, *evidence.read(folder, [shard.name for shard in plan.shards]))


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def edit_tests(path: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    tests = json.loads(path.read_text())["tests"]
    change(tests)
    edit(path, tests=tests)


def instead(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def test_every_test_counted_once_and_good_is_green(tmp_path: Path) -> None:
    verdict = verdict_on(write_run(tmp_path, make_plan(), one="skipped", two="xfailed", four="xpassed"))
    assert verdict.reasons == ()
    assert verdict.green
    assert [test.planned.id for test in verdict.tests] == ["a.py::one", "a.py::two", "b.py::C::three[x]", "c.py::four"]


@pytest.mark.parametrize("outcome", BAD)
def test_any_other_outcome_is_red_by_its_tests_name(tmp_path: Path, outcome: str) -> None:
    verdict = verdict_on(write_run(tmp_path, make_plan(), two=outcome))
    reason = verdict.reasons[0]
    assert not verdict.green
    assert (reason.id, reason.shard, reason.group) == ("a.py::two", "01", "g00001")
    assert reason.kind is (Kind.LOST if outcome in ("missing", "not_run") else Kind.FAILED)
    assert outcome.replace("_", " ") in reason.text


def test_a_folder_with_a_plan_only_is_red_for_each_shard_and_test(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_plan(make_plan())
    verdict = verdict_on(folder)
    assert [reason.id for reason in verdict.reasons if reason.kind is Kind.LOST] == [
        test.planned.id for test in verdict.tests
    ]
    assert [reason.text for reason in verdict.reasons if reason.kind is Kind.SHARD] == [
        "shard 01: never started",
        "shard 02: never started",
    ]


# Each breaks one rule of a green run; the text is in one of the reasons.
DAMAGE: dict[str, Callable[[Path, Plan], object]] = {
    "shard 02: never started": lambda run, plan: shutil.rmtree(run / "shards" / "02"),
    "attempt 0 did not finish": lambda run, plan: (run / "shards/01/attempts/0.done").unlink(),
    "ended as 'stopped'; run it again": lambda run, plan: edit(run / "shards/01/attempts/0.done", end="stopped"),
    "exited 1: GPU 3 was dirty": lambda run, plan: edit(
        run / "shards/01/attempts/0.done", exit=1, notes=["GPU 3 was dirty"]
    ),
    "attempt 1 did not finish": lambda run, plan: RunFolder(run).shard("01").start_attempt(attempt_body(plan, "01")),
    "attempt 0 is missing before attempt 1": lambda run, plan: (run / "shards/01/attempts/0.json").rename(
        run / "shards/01/attempts/1.json"
    ),
    "says digest 'other'": lambda run, plan: edit(run / "shards/01/attempts/0.json", digest="other"),
    "says shard '02', not '01'": lambda run, plan: edit(run / "shards/01/attempts/0.json", shard="02"),
    "says digest 'done', not": lambda run, plan: edit(run / "shards/01/attempts/0.done", digest="done"),
    "group g00001 has no result": lambda run, plan: (run / RESULT).unlink(),
    "result 0: a record says digest ''": lambda run, plan: edit(run / RESULT, digest=""),
    "result 0: a record says version 7": lambda run, plan: edit(run / RESULT, version=7),
    "result 0: a record says group 'g00002'": lambda run, plan: edit(run / RESULT, group="g00002"),
    "result versions [1] have a hole": lambda run, plan: (run / RESULT).rename(run / RESULT.replace(".0.", ".1.")),
    "written by attempt 4, which never started": lambda run, plan: edit(run / RESULT, attempt=4),
    "no result of group g00001 names it": lambda run, plan: edit_tests(run / RESULT, lambda tests: tests.pop()),
    "counted 2 times": lambda run, plan: edit_tests(run / RESULT, lambda tests: tests.append(tests[0])),
    "the plan does not have it in this group": lambda run, plan: edit_tests(
        run / RESULT, lambda tests: tests.append({**tests[0], "id": "a.py::stranger"})
    ),
    "was collected by the worker": lambda run, plan: edit(run / RESULT, extra=["a.py::new"]),
    "from attempt 3, which attempt 0 cannot know": lambda run, plan: edit_tests(
        run / RESULT, lambda tests: tests[0].update(attempt=3)
    ),
    "a result of group g00003, which is not this shard's": lambda run, plan: (
        RunFolder(run).shard("01").write_result("g00003", result_body(plan, "01", "g00003"))
    ),
    "a result of group g00009, which": lambda run, plan: (
        RunFolder(run).shard("01").write_result("g00009", {**result_body(plan, "01", "g00001"), "group": "g00009"})
    ),
    "the plan has no shard 07": lambda run, plan: RunFolder(run).shard("07").start_attempt(attempt_body(plan, "07")),
    "not a JSON record": lambda run, plan: (run / RESULT).write_bytes(b"\x00"),
    "not a regular file": lambda run, plan: instead(run / RESULT, os.mkfifo),
    "'README' does not belong here": lambda run, plan: (run / "shards" / "README").touch(),
    "'core' does not belong here": lambda run, plan: (run / "shards/01/results/core").touch(),
    "is a link": lambda run, plan: instead(run / RESULT, lambda path: path.symlink_to("/etc/passwd")),
    "'outcome' is missing": lambda run, plan: edit_tests(run / RESULT, lambda tests: tests[0].pop("outcome")),
}


@pytest.mark.parametrize("text", DAMAGE)
def test_one_damage_is_red_and_named(tmp_path: Path, text: str) -> None:
    plan = make_plan()
    folder = write_run(tmp_path, plan)
    assert verdict_on(folder).green
    DAMAGE[text](tmp_path, plan)
    verdict = verdict_on(folder)
    assert not verdict.green
    assert any(text in reason.text for reason in verdict.reasons), verdict.reasons


def test_the_highest_version_counts(tmp_path: Path) -> None:
    plan = make_plan()
    folder = write_run(tmp_path, plan, one="failed")
    shard = folder.shard("01")
    shard.start_attempt(attempt_body(plan, "01"))
    shard.write_result("g00001", result_body(plan, "01", "g00001", attempt=1))
    finish(shard, plan, 1)
    assert verdict_on(folder).green
    shard.start_attempt(attempt_body(plan, "01"))
    shard.write_result("g00001", result_body(plan, "01", "g00001", attempt=2, two="crashed"))
    finish(shard, plan, 2, status=1)
    assert [reason.id for reason in verdict_on(folder).reasons if reason.id] == ["a.py::two"]


def test_a_superseded_attempt_cannot_turn_a_later_failure_green(tmp_path: Path) -> None:
    plan = make_plan()
    folder = write_run(tmp_path, plan)
    shard = folder.shard("01")
    shard.start_attempt(attempt_body(plan, "01"))
    shard.write_result("g00001", result_body(plan, "01", "g00001", attempt=1, one="failed"))
    finish(shard, plan, 1)
    shard.write_result("g00001", result_body(plan, "01", "g00001", attempt=0))
    assert any("was superseded before it wrote it" in reason.text for reason in verdict_on(folder).reasons)


def test_an_unreadable_newest_version_never_falls_back_to_an_older_one(tmp_path: Path) -> None:
    plan = make_plan()
    folder = write_run(tmp_path, plan)
    folder.shard("01").write_result("g00001", result_body(plan, "01", "g00001", one="failed"))
    (tmp_path / RESULT.replace(".0.", ".1.")).write_text("{")
    verdict = verdict_on(folder)
    assert {reason.kind for reason in verdict.reasons} == {Kind.LOST, Kind.UNREADABLE}


@pytest.mark.parametrize(("setting", "green"), [("green", True), ("red", False)])
def test_passed_now_and_failed_before_is_flaky_and_the_setting_decides(
    tmp_path: Path, setting: str, green: bool
) -> None:
    folder = write_run(tmp_path, make_plan(flaky=setting))
    edit_tests(tmp_path / RESULT, lambda tests: tests[0].update(earlier=["crashed"]))
    verdict = verdict_on(folder)
    assert [test.planned.id for test in verdict.tests if test.flaky] == ["a.py::one"]
    assert verdict.green is green
    assert [reason.id for reason in verdict.reasons] == ([] if green else ["a.py::one"])


@pytest.mark.parametrize(("earlier", "now"), [("passed", "passed"), ("not_run", "passed"), ("failed", "failed")])
def test_what_did_not_fail_before_or_fails_now_is_not_flaky(tmp_path: Path, earlier: str, now: str) -> None:
    folder = write_run(tmp_path, make_plan(flaky="red"))
    edit_tests(tmp_path / RESULT, lambda tests: tests[0].update(earlier=[earlier], outcome=now))
    assert not any(test.flaky for test in verdict_on(folder).tests)


def test_failures_come_first(tmp_path: Path) -> None:
    folder = write_run(tmp_path, make_plan(), one="failed")
    shutil.rmtree(tmp_path / "shards" / "02")
    (tmp_path / "shards" / "README").touch()
    kinds = [reason.kind for reason in verdict_on(folder).reasons]
    assert kinds[0] is Kind.FAILED
    assert kinds == sorted(kinds)


@given(data=st.data())
def test_no_file_can_be_removed_from_a_green_run(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """But for the event logs, which prove nothing."""
    run = tmp_path_factory.mktemp("run")
    folder = write_run(run, make_plan({**LAYOUT, "cpu": {"d.py": ["d.py::five"]}}))
    assert verdict_on(folder).green
    files = sorted(path for path in (run / "shards").rglob("*") if path.is_file() and path.suffix != ".jsonl")
    data.draw(st.sampled_from(files)).unlink()
    assert not verdict_on(folder).green
