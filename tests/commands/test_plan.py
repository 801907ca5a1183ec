from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from shardlib import cli
from shardlib.collecting import document
from shardlib.collecting.document import Collection
from shardlib.commands.plan import make_plan
from shardlib.errors import PlanError, RunFolderError, SettingsError, UsageError
from shardlib.model import CollectedTest, Mode
from shardlib.plan import Plan
from shardlib.pytestrun import PytestRun
from shardlib.runfolder import RunFolder
from shardlib.settings import Settings
from tests.runs import attempt_body

RUN = PytestRun(version="9", python="3", rootdir="/r", inifile=None, cwd="/r", args=(), hash_seed="0")


def collected_test(name: str, mode: Mode = Mode.CONCURRENT, gpus: int = 1) -> CollectedTest:
    return CollectedTest(id=f"{name}.py::test", file=f"{name}.py", mode=mode, gpus=gpus, why=f"why of {name}")


def collection(*tests: CollectedTest, **settings: object) -> Collection:
    own = Settings.from_mapping(settings, "test")
    return Collection(
        pytest=RUN, settings=own, tests=tests or (collected_test("a"), collected_test("b"), collected_test("c"))
    )


@pytest.fixture
def collected(tmp_path: Path) -> Path:
    path = tmp_path / "collect.json"
    document.write(collection(collected_test("a"), collected_test("b"), collected_test("w", Mode.CPU, 0)), path)
    return path


def stored(run: Path) -> Plan:
    return RunFolder(run).read_plan()


def test_every_test_is_planned_once_with_the_reason_of_its_mode() -> None:
    plan = make_plan(collection(), shards=2)
    assert sorted(plan.group_of) == ["a.py::test", "b.py::test", "c.py::test"]
    assert {test.why for group in plan.groups for test in group.tests} == {"why of a", "why of b", "why of c"}


def test_options_outrank_settings_and_go_into_the_plan() -> None:
    plan = make_plan(
        collection(startup_seconds=1),
        shards=2,
        gpus=4,
        durations={"a.py::test": 100, "gone.py::test": 1},
        startup_seconds=3,
        gpu_hour_price=2.5,
        strategy="lpt",
    )
    assert (plan.settings.startup_seconds, plan.settings.gpu_hour_price, plan.settings.gpus_per_node) == (3.0, 2.5, 4)
    assert plan.strategy == "lpt"
    assert (plan.prediction.known, plan.prediction.estimated, plan.prediction.stale) == (1, 2, 1)
    assert plan.prediction.makespan_ms >= 103_000
    assert {shard.slots for shard in plan.shards} == {4}


@pytest.mark.parametrize("mode", [Mode.SEQUENTIAL, Mode.ISOLATED])
def test_whole_node_tests_keep_the_node_they_were_collected_for(mode: Mode) -> None:
    with pytest.raises(UsageError, match=r"w\.py::test.*nodes of 8 GPUs; collect again with --gpus 4"):
        make_plan(collection(collected_test("w", mode, 8)), shards=1, gpus=4)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(PlanError, match=r"w\.py::test.* 4 GPUs"):
        make_plan(collection(collected_test("w", gpus=4)), shards=1, gpus=2)
    with pytest.raises(SettingsError, match="--startup-seconds"):
        make_plan(collection(), shards=1, startup_seconds=-1)
    with pytest.raises(SettingsError, match="--gpu-hour-price"):
        make_plan(collection(), shards=1, gpu_hour_price=-1)


def test_a_table_is_printed_and_the_plan_stored(
    tmp_path: Path, collected: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert cli.main(["plan", "--shards", "2", "--run", str(run), "--collected", str(collected)]) == 0
    out = capsys.readouterr().out
    assert "3 tests in 3 files: 2 shards of 8 GPUs" in out
    assert re.search(r"^01 .*#+ .*1 concurrent$", out, re.MULTILINE)
    assert re.search(r"^cpu .*1 cpu$", out, re.MULTILINE)
    assert "0 known, 3 estimated, 0 stale" in out
    assert "lower bound" in out
    assert "cost" not in out
    assert len(stored(run).groups) == 3


def test_fan_out_alone_is_on_stdout_and_holds_texts_of_integers(
    tmp_path: Path, collected: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["plan", "--shards", "12", "--run", str(tmp_path / "run"), "--collected", str(collected), "--fan-out"]
    assert cli.main(argv) == 0
    out, err = capsys.readouterr()
    shards = json.loads(out)
    assert [(shard["shard"], shard["of"]) for shard in shards] == [("01", "02"), ("02", "02")]
    for shard in shards:
        assert sorted(shard) == ["deadline", "minutes", "of", "shard"]
        assert re.fullmatch(r"[0-9]+\.[0-9]", shard["minutes"])
        assert int(shard["deadline"]) % 60 == 0
        assert int(shard["deadline"]) > 3 * 40
    assert out.count("\n") == 1
    assert "3 tests" in err


def test_another_image_begins_anew_where_another_plan_would_be_refused(
    tmp_path: Path, collected: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    argv = ["plan", "--run", str(run), "--collected", str(collected)]
    assert cli.main([*argv, "--shards", "2", "--image", "ci@sha256:1"]) == 0
    folder = RunFolder(run)
    folder.shard("01").start_attempt(attempt_body(folder.read_plan(), "01"))
    assert cli.main([*argv, "--shards", "1", "--image", "ci@sha256:1"]) == RunFolderError.exit_code
    assert cli.main([*argv, "--shards", "1", "--image", "ci@sha256:2", "--fan-out"]) == 0
    out, err = capsys.readouterr()
    assert f"what ran in the other one is put aside, {run / 'earlier' / '1'}" in err
    assert "put aside" not in out
    assert not folder.has_attempts()
    assert [shard.name for shard in stored(run).shards] == ["01", "cpu"]


def test_a_suite_of_cpu_tests_alone_fans_out_to_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "collect.json"
    document.write(collection(collected_test("w", Mode.CPU, 0)), path)
    run = tmp_path / "run"
    assert cli.main(["plan", "--shards", "12", "--run", str(run), "--collected", str(path), "--fan-out"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert [shard.name for shard in stored(run).shards] == ["cpu"]


def test_the_same_plan_again_is_success_and_another_is_refused_once_a_shard_has_started(
    tmp_path: Path, collected: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    argv = ["plan", "--run", str(run), "--collected", str(collected), "--shards"]
    assert cli.main([*argv, "1"]) == 0
    assert cli.main([*argv, "1"]) == 0
    assert cli.main([*argv, "2"]) == 0  # nothing has started
    digest = stored(run).digest
    RunFolder(run).shard("01").start_attempt({"digest": digest, "shard": "01", "rerun": "all", "host": "h"})
    assert cli.main([*argv, "2"]) == 0
    assert cli.main([*argv, "1"]) == 16
    assert "another plan" in capsys.readouterr().err
    assert stored(run).digest == digest


@pytest.mark.parametrize(
    ("argv", "code", "named"),
    [
        (["--shards", "0"], 11, "--shards: '0': expected a whole number, at least 1"),
        (["--shards", "x"], 11, "--shards"),
        (["--shards", "1", "--collected", "missing.json"], 15, "missing.json"),
        (["--shards", "1", "--gpus", "0"], 12, "gpus_per_node = 0"),
        (["--shards", "1", "--", "tests"], 11, "exclude each other"),
        (["--shards", "1", "--strategy", "best"], 11, "timeline"),
        (["--shards", "1", "--durations", "missing.json"], 14, "missing.json"),
        (["--shards", "1", "--max-deadline", "0"], 11, "--max-deadline: '0'"),
    ],
)
def test_what_is_wrong_is_refused_and_nothing_written(
    tmp_path: Path, collected: Path, capsys: pytest.CaptureFixture[str], argv: list[str], code: int, named: str
) -> None:
    run = tmp_path / "run"
    assert cli.main(["plan", "--run", str(run), "--collected", str(collected), *argv]) == code
    assert named in capsys.readouterr().err
    assert not run.exists()


@pytest.mark.parametrize(
    ("command", "option", "code", "named"),
    [
        ("collect", "--gpus=800", 12, "gpus_per_node = 800"),
        *(
            (command, *rest)
            for command in ("plan", "local")
            for rest in (
                ("--durations=missing.json", 14, "missing.json"),
                ("--gpus=800", 12, "gpus_per_node = 800"),
                ("--startup-seconds=-1", 12, "startup_seconds = -1"),
                ("--gpu-hour-price=nan", 12, "gpu_hour_price = nan"),
            )
        ),
    ],
)
def test_a_cheap_mistake_is_found_before_anything_is_collected(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    option: str,
    code: int,
    named: str,
) -> None:
    monkeypatch.setattr("shardlib.commands.collect.collect", lambda *args, **more: pytest.fail("collected"))
    run = [] if command == "collect" else ["--run", str(tmp_path / "run"), "--shards", "1"]
    assert cli.main([command, *run, option]) == code
    assert named in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_collection_from_elsewhere_is_kept_in_the_runs_folder(tmp_path: Path, collected: Path) -> None:
    run = tmp_path / "run"
    argv = ["plan", "--shards", "2", "--run", str(run)]
    assert cli.main([*argv, "--collected", str(collected)]) == 0
    assert document.load(RunFolder(run).collection_path) == document.load(collected)
    own = RunFolder(run).collection_path
    before = own.stat()
    assert cli.main([*argv, "--collected", str(own.parent / ".." / "collect" / "collect.json")]) == 0
    after = own.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)  # its folder may be read-only


def test_a_workflow_gets_its_parameters_and_each_shard_a_folder_of_its_own(tmp_path: Path, collected: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "parameters"
    argv = ["plan", "--run", str(run), "--collected", str(collected), "--shard-folders", "--parameters", str(out)]
    assert cli.main([*argv, "--shards", "2"]) == 0
    told = {path.name: path.read_text() for path in out.iterdir()}
    assert sorted(told) == ["cpu-deadline", "cpu-minutes", "cpu-shards", "gpu-shards", "prediction"]
    assert (told["gpu-shards"], told["cpu-shards"]) == ("2", "1")
    assert int(told["cpu-deadline"]) > 0
    assert told["prediction"].startswith("3 tests, makespan ")
    folders = {path.name: path.stat().st_mode & 0o777 for path in (run / "shards").iterdir()}
    assert folders == {"01": 0o777, "02": 0o777, "cpu": 0o777}
    assert cli.main([*argv, "--shards", "1"]) == 0  # nothing has started: the folder of shard 02 goes
    assert sorted(path.name for path in (run / "shards").iterdir()) == ["01", "cpu"]


def test_no_claimed_timeout_holds_a_node_longer_than_the_workflow_lets_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "collect.json"
    tests = (
        replace(collected_test("a"), timeout_seconds=1e9),
        replace(collected_test("w", Mode.CPU, 0), timeout_seconds=1e9),
    )
    document.write(collection(*tests), path)
    argv = ["plan", "--run", str(tmp_path / "run"), "--collected", str(path), "--shards", "1", "--fan-out"]
    assert cli.main([*argv, "--parameters", str(tmp_path / "out"), "--max-deadline", "3600"]) == 0
    assert [shard["deadline"] for shard in json.loads(capsys.readouterr().out)] == ["3600"]
    assert (tmp_path / "out" / "cpu-deadline").read_text() == "3600"
    assert cli.main([*argv, "--max-deadline", "0"]) == 11


def test_durations_that_collect_brought_are_used_and_not_believed(
    tmp_path: Path, collected: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    brought = tmp_path / "run" / "collect" / "durations.json"
    brought.parent.mkdir(parents=True)
    argv = ["plan", "--run", str(tmp_path / "run"), "--collected", str(collected), "--shards", "1"]
    brought.write_text('{"a.py::test": 77}')
    assert cli.main(argv) == 0
    assert "1 known, 2 estimated" in capsys.readouterr().out
    brought.write_text('{"a.py::test": NaN}')
    assert cli.main(argv) == 14
    brought.unlink()
    brought.symlink_to("/etc/passwd")
    assert cli.main(argv) == 16
    assert "is a link" in capsys.readouterr().err


@pytest.mark.versions
def test_plan_collects_itself_keeps_what_it_found_and_gives_the_same_plan_again(tmp_path: Path) -> None:
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "pytest.ini").write_text("[pytest]\n")
    (suite / "test_a.py").write_text("import pytest\n@pytest.mark.parametrize('x', range(3))\ndef test_a(x): pass\n")
    root = Path(cli.__file__).parent.parent
    code = f"import sys; sys.path.insert(0, {str(root)!r}); from shardlib.cli import main; raise SystemExit(main())"

    def shardlib(*argv: str) -> str:
        own = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
        done = subprocess.run(
            [sys.executable, "-c", code, *argv], cwd=suite, env=own, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run = tmp_path / "run"
    shardlib("plan", "--shards", "1", "--gpus", "1", "--run", str(run), "--", "test_a.py")
    plan = stored(run)
    assert sorted(plan.group_of) == [f"test_a.py::test_a[{x}]" for x in range(3)]
    assert plan.pytest.args == ("test_a.py",)
    shardlib("plan", "--shards", "1", "--gpus", "1", "--run", str(run), "--", "test_a.py")
    assert stored(run).digest == plan.digest  # whatever pytest-randomly draws
    shardlib("plan", "--shards", "1", "--run", str(run))  # from RUN/collect/collect.json
    assert stored(run).digest == plan.digest
    (suite / "durations.json").write_text('{"test_a.py::test_a[0]": 5}')
    own = ["--durations", "durations.json", "-o", str(tmp_path / "c" / "c.json")]
    shardlib("collect", "--gpus", "1", *own, "--", "test_a.py")
    assert (tmp_path / "c" / "durations.json").read_text() == '{"test_a.py::test_a[0]": 5}'
    assert {test.id for test in document.load(tmp_path / "c" / "c.json").tests} == set(plan.group_of)
    assert "concurrent, 1 GPU" in shardlib("explain", "--run", str(run), "test_a.py::test_a[1]")


@pytest.mark.parametrize("kind", ["a dangling link", "a link", "a fifo", "a folder"])
def test_nothing_is_collected_here_where_something_lies_in_the_collections_place(
    tmp_path: Path, collected: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "run" / "collect" / "collect.json"
    own.parent.mkdir(parents=True)
    if "link" in kind:
        own.symlink_to(collected if kind == "a link" else tmp_path / "nowhere")
    elif kind == "a fifo":
        os.mkfifo(own)
    else:
        own.mkdir()
    assert cli.main(["plan", "--shards", "2", "--run", str(tmp_path / "run")]) == PlanError.exit_code
    assert "collect.json: " in capsys.readouterr().err
