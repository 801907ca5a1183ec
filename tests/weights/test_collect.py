"""From sources to a samples folder: each run once, nothing left out in silence."""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
from pathlib import Path

import pytest

from shardlib import cli
from shardlib.commands import weights_collect
from shardlib.errors import UsageError, WeightsError
from shardlib.runfolder import RunFolder
from shardlib.weights import samples
from shardlib.weights.collect import Collector
from shardlib.weights.findings import Unread
from shardlib.weights.samples import Run
from tests import runs
from tests.weights import reading

TABLE = "\n".join(
    [
        "=========== slowest durations ===========",
        "1.50s call     a.py::one",
        "0.50s setup    a.py::one",
        "",
        "(3 durations < 0.005s hidden.  Use -vv to show these durations.)",
        "=========== 1 passed in 2.60s ===========",
        "",
    ]
)
BLOCK = (
    "PYTEST-DURATION-BEGIN v1 shard=03 attempt=0 group=g1 tests=1\n"
    'PYTEST-DURATION 1.400 passed cpu "a.py::one"\n'
    "PYTEST-DURATION-END group=g1\n"
)


def collect(folder: Path, *paths: Path, since: float | None = None, one_run_per: str = "session") -> Collector:
    collector = Collector(folder, since=since)
    for path in paths:
        collector.add_path(path, one_run_per=one_run_per)
    return collector


def stored(folder: Path) -> list[Run]:
    return sorted(reading.read_all(folder), key=lambda run: (run.when or 0.0, run.run))


def test_a_runs_folder_gives_own_seconds_and_setups(tmp_path: Path) -> None:
    runs.write_run(tmp_path / "runs" / "uid-1", runs.make_plan())
    collect(tmp_path / "samples", tmp_path / "runs")
    (run,) = stored(tmp_path / "samples")
    assert (run.run, run.kind, run.when) == ("uid-1", "events", 1.0)
    rows = {sample.id: sample for sample in run.samples}
    assert rows["a.py::one"].seconds == 1.5 - 0.25 - 0.125  # without the module's and the session's fixtures
    assert rows["a.py::two"].seconds == 1.5
    assert rows["a.py"].seconds == 0.5 + 0.25  # collected, and module fixtures
    assert {key: row.flags for key, row in rows.items() if row.flags} == {
        "a.py::one": ("first",),
        "c.py::four": ("first",),
    }
    assert {row.pod for row in rows.values()} == {"01/0", "02/0"}
    assert {row.mode for row in rows.values()} == {"concurrent"}
    assert {row.worker for row in rows.values()} == {"w1"}


@pytest.mark.parametrize(
    ("event", "flags"),
    [
        ({"outcome": "skipped", "seconds": 0.0}, ("skipped",)),
        ({"outcome": "timed_out"}, ("timed_out",)),
        ({"outcome": "crashed", "worker": None}, ("crashed",)),
        ({"outcome": "poisoned"}, ("collateral", "failed")),
        ({"outcome": "failed"}, ("failed",)),
        ({"outcome": "passed", "reruns": 2}, ("retried",)),
    ],
)
def test_outcomes_become_flags(tmp_path: Path, event: dict[str, object], flags: tuple[str, ...]) -> None:
    plan = runs.make_plan({"01": {"a.py": ["a.py::one", "a.py::two"]}})
    folder = runs.write_run(tmp_path / "run", plan)
    log = folder.path / "shards" / "01" / "events" / "0.jsonl"
    head = {"t": 20.0, "event": "finish", "worker": "w1", "group": "g00001", "id": "a.py::two", "seconds": 9.0}
    log.write_text(log.read_text("ascii") + json.dumps({**head, **event}) + "\n", "ascii")
    collect(tmp_path / "samples", folder.path)
    (run,) = stored(tmp_path / "samples")
    assert next(sample.flags for sample in run.samples if sample.id == "a.py::two") == flags


def test_tests_that_never_ran_have_no_row(tmp_path: Path) -> None:
    plan = runs.make_plan({"01": {"a.py": ["a.py::one", "a.py::two"]}})
    folder = runs.write_run(tmp_path / "run", plan)
    log = folder.path / "shards" / "01" / "events" / "0.jsonl"
    event = {"t": 20.0, "event": "finish", "group": "g00001", "id": "a.py::two", "outcome": "not_run", "seconds": 0.0}
    log.write_text(log.read_text("ascii") + json.dumps(event) + "\n", "ascii")
    collect(tmp_path / "samples", folder.path)
    assert {sample.id for sample in stored(tmp_path / "samples")[0].samples} == {"a.py::one", "a.py"}


def test_two_attempts_of_a_test_are_two_rows(tmp_path: Path) -> None:
    plan = runs.make_plan()
    folder = runs.write_run(tmp_path / "run", plan)
    shard = folder.shard("02")
    runs.write_events(shard, plan, shard.start_attempt(runs.attempt_body(plan, "02")))
    collect(tmp_path / "samples", folder.path)
    pods = [sample.pod for sample in stored(tmp_path / "samples")[0].samples if sample.id == "c.py::four"]
    assert pods == ["02/0", "02/1"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "not a JSON record"),
        ('{"t":1,"event":"finish","group":"g00001","id":"zz","outcome":"passed","seconds":1}', "not of group"),
        ('{"t":1,"event":"finish","group":"g9","id":"zz","outcome":"passed","seconds":1}', "not this shard's"),
        ('{"t":1,"event":"finish","group":"g00001","id":"a.py::one","outcome":"passed","seconds":-1}', "seconds"),
    ],
)
def test_a_forged_event_ends_its_log_and_is_said(tmp_path: Path, line: str, why: str) -> None:
    folder = runs.write_run(tmp_path / "run", runs.make_plan())
    log = folder.path / "shards" / "01" / "events" / "0.jsonl"
    log.write_text(log.read_text("ascii") + line + "\n", "ascii")
    report = collect(tmp_path / "samples", folder.path).report
    assert why in report.unread[0].places[0]
    assert len([row for row in stored(tmp_path / "samples")[0].samples if "::" in row.id]) == 4


def test_attempts_of_another_plan_are_left_out_and_said(tmp_path: Path) -> None:
    plan = runs.make_plan()
    folder = runs.write_run(tmp_path / "run", plan)
    folder.shard("02").start_attempt(runs.attempt_body(plan, "02", digest="0" * 64))
    assert "ran another plan" in collect(tmp_path / "samples", folder.path).report.unread[0].places[0]


def test_a_run_without_a_readable_plan_is_said(tmp_path: Path) -> None:
    folder = runs.write_run(tmp_path / "run", runs.make_plan())
    (folder.path / "plan" / "plan.json").write_text("{}", "ascii")
    report = collect(tmp_path / "samples", folder.path).report
    assert report.silent == [str(folder.path)]
    assert len(report.unread) == 1


def test_the_same_log_elsewhere_packed_or_again_is_one_run(tmp_path: Path) -> None:
    for place in ("a", "b"):
        (tmp_path / "logs" / place).mkdir(parents=True)
        (tmp_path / "logs" / place / "shard.log").write_text(TABLE, "utf-8")
    (tmp_path / "logs" / "b" / "packed.log.gz").write_bytes(gzip.compress(TABLE.encode()))
    first = collect(tmp_path / "samples", tmp_path / "logs").report
    again = collect(tmp_path / "samples", tmp_path / "logs").report
    assert len(stored(tmp_path / "samples")) == 1
    assert (first.runs["durations"], len(first.again)) == (2, 1)
    assert all("told already" in line or "::" not in line for line in again.again)


def test_new_content_under_an_old_name_is_another_run(tmp_path: Path) -> None:
    log = tmp_path / "latest.log"
    for text in (TABLE, TABLE.replace("1.50s", "1.70s")):
        log.write_text(text, "utf-8")
        collect(tmp_path / "samples", log)
    assert [run.samples[0].seconds for run in stored(tmp_path / "samples")] == [2.0, 2.2]


def test_equal_sessions_of_one_log_are_runs_in_its_order(tmp_path: Path) -> None:
    other = TABLE.replace("1.50s", "1.70s")
    (tmp_path / "log").write_text(TABLE + other + TABLE, "utf-8")
    collect(tmp_path / "samples", tmp_path / "log")
    assert [run.samples[0].seconds for run in stored(tmp_path / "samples")] == [2.0, 2.2, 2.0]


def test_events_outrank_what_another_source_tells_of_the_run(tmp_path: Path) -> None:
    collector = collect(tmp_path / "samples", runs.write_run(tmp_path / "uid-1", runs.make_plan()).path)
    for kind in ("block", "events"):
        rows = tuple(samples.Sample(id=f"a.py::{number}", seconds=1.0) for number in range(20))
        run = Run(run="uid-1", when=2.0, kind=kind, source="cluster", samples=rows)
        collector.add_runs([run], Unread(source="cluster"))
    assert len(collector.report.again) == 1
    assert [(run.kind, run.when) for run in stored(tmp_path / "samples")] == [("events", 2.0)]


@pytest.mark.parametrize("text", [TABLE + BLOCK, BLOCK + TABLE])
def test_a_log_with_blocks_counts_by_its_blocks(tmp_path: Path, text: str) -> None:
    (tmp_path / "log").write_text(text, "utf-8")
    report = collect(tmp_path / "samples", tmp_path / "log").report
    assert [(run.kind, run.samples[0].seconds) for run in stored(tmp_path / "samples")] == [("block", 1.4)]
    assert sum(report.runs.values()) == 1
    assert report.again


def test_the_logs_of_a_folder_are_one_run_where_that_is_said(tmp_path: Path) -> None:
    for build in ("build-1", "build-2"):
        (tmp_path / "logs" / build).mkdir(parents=True)
        for shard in ("01", "02"):
            text = TABLE.replace("a.py", f"{shard}.py").replace("1.50s", f"{build[-1]}.50s")
            (tmp_path / "logs" / build / f"{shard}.log").write_text(text, "utf-8")
    collect(tmp_path / "samples", tmp_path / "logs", one_run_per="folder")
    assert [[(row.id, row.pod) for row in run.samples] for run in stored(tmp_path / "samples")] == 2 * [
        [("01.py::one", "01.log#1"), ("02.py::one", "02.log#1")]
    ]


def test_older_runs_are_left_out(tmp_path: Path) -> None:
    old = tmp_path / "old.log"
    old.write_text(TABLE, "utf-8")
    os.utime(old, (1000, 1000))
    dated = tmp_path / "dated.log"
    dated.write_text("".join(f"2026-09-11T15:05:09Z {line}\n" for line in TABLE.splitlines()), "utf-8")
    run = runs.write_run(tmp_path / "uid", runs.make_plan())
    for since, expected in ((None, 3), (1789139100.0, 1), (1789139200.0, 0)):
        folder = tmp_path / f"samples {since}"
        report = collect(folder, old, dated, run.path, since=since).report
        assert (len(stored(folder)) if folder.exists() else 0, report.old) == (expected, 3 - expected)


def test_a_run_whose_logs_are_going_keeps_its_rows(tmp_path: Path) -> None:
    rows = tuple(samples.Sample(id=f"a.py::{number}", seconds=1.0) for number in range(3))
    for count in (3, 2):
        collector = Collector(tmp_path)
        run = Run(run="uid", when=2.0, kind="block", source="cluster", samples=rows[:count])
        collector.add_runs([run], Unread(source="cluster"))
        assert (len(collector.report.again), len(stored(tmp_path)[0].samples)) == (3 - count, 3)


def test_links_below_a_folder_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.log").write_text(TABLE, "utf-8")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "link.log").symlink_to(tmp_path / "secret.log")
    (tmp_path / "logs" / "loop").symlink_to(tmp_path / "logs")
    assert not collect(tmp_path / "samples", tmp_path / "logs").report.runs


def test_what_holds_no_durations_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing here\n", "utf-8")
    assert collect(tmp_path / "samples", tmp_path).report.silent == [str(tmp_path / "notes.txt")]


def test_the_command_prints_what_it_found_and_what_it_could_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.log").write_text(TABLE + "PYTEST-DURATION x\n", "utf-8")
    (tmp_path / "logs" / "notes.txt").write_text("nothing\n", "utf-8")
    assert cli.main(["weights", "collect", "--from", str(tmp_path / "logs"), "-o", str(tmp_path / "samples")]) == 0
    out = capsys.readouterr().out
    assert "1 runs, 1 rows (1 from durations)" in out
    assert "pytest left 3 short rows out" in out
    assert f"1 without durations: {tmp_path / 'logs' / 'notes.txt'}" in out
    assert "1 places could not be read:" in out
    assert f"{tmp_path / 'logs' / 'a.log'}:7: a block's row that is none" in out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], UsageError.exit_code),
        (["--from", "nothing-here"], WeightsError.exit_code),
        (["--since", "soon", "--from", "."], UsageError.exit_code),
    ],
)
def test_a_wrong_call_writes_nothing(tmp_path: Path, arguments: list[str], code: int) -> None:
    assert cli.main(["weights", "collect", *arguments, "-o", str(tmp_path / "samples")]) == code
    assert not (tmp_path / "samples").exists()


def test_no_durations_at_all_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing\n", "utf-8")
    assert (
        cli.main(["weights", "collect", "--from", str(tmp_path), "-o", str(tmp_path / "s")]) == WeightsError.exit_code
    )


def test_ages_and_dates_are_moments() -> None:
    assert weights_collect.since("21d", now=21 * 86400.0) == 0.0
    assert weights_collect.since("2w", now=14 * 86400.0 + 5) == 5.0
    assert weights_collect.since("12h", now=43200.0) == 0.0
    assert weights_collect.since("1970-01-02") == 86400.0
    with pytest.raises(argparse.ArgumentTypeError, match="no age like 21d"):
        weights_collect.since("yesterday")


def test_a_run_that_went_on_replaces_its_file(tmp_path: Path) -> None:
    plan = runs.make_plan()
    folder = runs.write_run(tmp_path / "uid", plan)
    shutil.rmtree(folder.path / "shards" / "02")
    for expected in (3, 4):
        collect(tmp_path / "samples", folder.path)
        (run,) = stored(tmp_path / "samples")
        assert len([row for row in run.samples if "::" in row.id]) == expected
        shard = RunFolder(folder.path).shard("02")
        runs.write_events(shard, plan, shard.start_attempt(runs.attempt_body(plan, "02")))
