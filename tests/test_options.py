from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shardlib import child
from shardlib.errors import UsageError
from shardlib.options import check_arguments, neutralise

pytestmark = pytest.mark.versions

ROOT = str(Path(__file__).parent.parent)
SUITE = "import os, pathlib\ndef test_a():\n    pathlib.Path('ran').touch()\n    assert 'PYTEST_XDIST_WORKER' not in os.environ\ndef test_b(): assert 0\ndef test_c(): pass\n"

# A worker in small: pytest.main with the plugin and nothing else.
RUNNER = """
import sys, json, pytest
sys.path.insert(0, sys.argv[1])
from shardlib.options import PytestOptions
options = PytestOptions(random_seed=7)
seen = []
class Seen:
    def pytest_runtest_logreport(self, report):
        if report.when == "call": seen.append(report.nodeid.rpartition("::")[2])
status = int(pytest.main(sys.argv[3:], plugins=[options, Seen()]))
json.dump({"status": status, "neutralised": options.neutralised, "refused": options.refused, "seen": sorted(seen),
           "seed": options.random_seed}, open(sys.argv[2], "w"))
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_s.py").write_text(SUITE)
    return tmp_path


def run(suite: Path, *args: str) -> dict[str, object]:
    import json

    own = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    result = suite / "result.json"
    result.unlink(missing_ok=True)
    command = [sys.executable, "-c", RUNNER, ROOT, str(result), *args]
    done = subprocess.run(
        command, cwd=suite, env=own, capture_output=True, check=False, text=True, stdin=subprocess.DEVNULL
    )
    assert result.exists(), done.stdout + done.stderr
    answer: dict[str, object] = json.loads(result.read_text())
    return answer


ALL = ["test_a", "test_b", "test_c"]


def needs(module: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=f"{module} is not installed")


@pytest.mark.parametrize(
    ("args", "label"),
    [
        (["-x"], "-x/--maxfail"),
        (["--maxfail=1"], "-x/--maxfail"),
        (["--lf"], "--lf/--ff/--nf"),
        (["--ff"], "--lf/--ff/--nf"),
        (["--nf"], "--lf/--ff/--nf"),
        (["--sw"], "--sw"),
        (["--stepwise-skip"], "--sw"),
        (["--junitxml=out.xml"], "--junit-xml"),
        (["--cache-clear"], "--cache-clear"),
        (["--basetemp=base"], "--basetemp"),
        pytest.param(["-n", "2"], "-n/--dist/--tx", marks=needs("xdist")),
        pytest.param(["-n", "auto", "--dist", "loadfile"], "-n/--dist/--tx", marks=needs("xdist")),
        pytest.param(["-d", "--tx", "2*popen"], "-n/--dist/--tx", marks=needs("xdist")),
        pytest.param(["--dist", "loadscope"], "-n/--dist/--tx", marks=needs("xdist")),
        pytest.param(["--splits", "3", "--group", "1"], "--splits/--group", marks=needs("pytest_split")),
        pytest.param(["--store-durations"], "--store-durations", marks=needs("pytest_split")),
        pytest.param(["--forked"], "--forked", marks=needs("pytest_forked")),
        pytest.param(["--report-log=out.json"], "--report-log", marks=needs("pytest_reportlog")),
        pytest.param(["--html=out.html"], "--html", marks=needs("pytest_html")),
        pytest.param(["--session-timeout=0.001"], "--session-timeout", marks=needs("pytest_timeout")),
    ],
)
def test_what_cannot_hold_in_a_worker_is_neutralised_and_said(suite: Path, args: list[str], label: str) -> None:
    run(suite)  # so that the cache knows a failure and what is new
    before = {path.name for path in suite.iterdir()}
    answer = run(suite, *args)
    assert answer["neutralised"] == [label]
    assert answer["seen"] == ALL
    assert answer["status"] == 1
    assert {path.name for path in suite.iterdir()} == before  # no report, no base folder


@needs("xdist")
def test_addopts_in_the_ini_file_are_neutralised_too(suite: Path) -> None:
    (suite / "pytest.ini").write_text("[pytest]\naddopts = -n auto -x -p no:randomly\n")
    answer = run(suite)
    assert answer["neutralised"] == ["-n/--dist/--tx", "-x/--maxfail"]
    assert answer["seen"] == ALL


@needs("pytest_timeout")
def test_a_session_timeout_in_the_ini_file_is_neutralised_too(suite: Path) -> None:
    (suite / "pytest.ini").write_text("[pytest]\nsession_timeout = 0.001\n")
    answer = run(suite)
    assert answer["neutralised"] == ["--session-timeout"]
    assert answer["seen"] == ALL


def test_nothing_is_said_of_options_that_hold(suite: Path) -> None:
    answer = run(
        suite, "-k", "not test_b", "-vv", "--tb=short", "-W", "error", "-p", "no:cacheprovider", "--durations=3"
    )
    assert answer["neutralised"] == []
    assert answer["seen"] == ["test_a", "test_c"]
    assert answer["status"] == 0


@needs("xdist")
def test_xdist_switched_off_by_the_user_is_not_worth_a_word(suite: Path) -> None:
    assert run(suite, "-n", "0")["neutralised"] == []


@pytest.mark.parametrize(
    "option",
    [
        "--pdb",
        "--trace",
        "--collect-only",
        "--co",
        "--setup-only",
        "--setup-plan",
        "--fixtures",
        "--funcargs",
        "--fixtures-per-test",
        "--markers",
        "--help",
        "-h",
        "--cache-show",
    ],
)
def test_what_asks_for_something_else_than_a_run_is_refused_and_nothing_runs(suite: Path, option: str) -> None:
    answer = run(suite, option)
    assert "cannot be used through shardlib" in str(answer["refused"])
    assert "--" in str(answer["refused"])
    assert answer["status"] == 4
    assert not (suite / "ran").exists()


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_refused_before_pytest_starts(option: str) -> None:
    with pytest.raises(UsageError, match=option):
        check_arguments(["tests", option])


@needs("pytest_randomly")
def test_pytest_randomly_gets_our_seed_unless_the_user_gives_one(suite: Path) -> None:
    assert run(suite)["seed"] == 7
    assert run(suite, "-p", "randomly")["seed"] == 7
    assert run(suite, "--randomly-seed=3")["seed"] == 3
    assert run(suite, "-p", "no:randomly")["seed"] is None


def test_only_fields_that_exist_are_set() -> None:
    class Options:
        maxfail = 3

    options = Options()
    assert neutralise(options, {"maxfail": 0, "numprocesses": None})
    assert options.maxfail == 0
    assert not hasattr(options, "numprocesses")
    assert not neutralise(options, {"maxfail": 0})


def test_the_child_command_imports_this_copy(tmp_path: Path) -> None:
    done = subprocess.run(
        child.command("shardlib.collecting.plugin:main"), cwd=tmp_path, capture_output=True, check=False, text=True
    )
    assert "IndexError" in done.stderr  # it is our main, which misses its argument
