"""`shardlib local` as a user calls it: a process in a checkout, its exit code, its files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardlib import child, cli
from shardlib.collecting import document
from shardlib.commands.local import Node
from shardlib.errors import Exit, UsageError
from shardlib.gpus import SimulatedGpus
from shardlib.runfolder import RunFolder

SUITE = {
    "test_a.py": """
        import pytest
        @pytest.mark.parametrize("x", range(3))
        def test_quick(x): pass
        """,
    "test_b.py": """
        from pathlib import Path
        import pytest
        def test_switch(): assert not Path("broken").exists()
        @pytest.mark.gpu(mode="cpu")
        def test_without_gpu(): pass
        """,
    "test_c.py": """
        import time
        from pathlib import Path
        def test_first(): pass
        def test_waits():
            Path("waiting").touch()
            while Path("hold").exists(): time.sleep(0.05)
        """,
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    path = tmp_path / "checkout"
    path.mkdir()
    for name, text in SUITE.items():
        (path / name).write_text(textwrap.dedent(text))
    (path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\nmarkers = ["gpu"]\n[tool.shardlib]\ncollect_gpus = 2\nunknown_seconds = 1\n'
    )
    return path


def command(checkout: Path, *options: str) -> list[str]:
    run = ["--run", str(checkout.parent / "run"), "--simulated-gpus"]
    return child.command("shardlib.cli:main", "local", "--shards", "2", "--gpus", "2", *run, *options, "--", ".")


def local(checkout: Path, *options: str) -> subprocess.CompletedProcess[str]:
    arguments = command(checkout, *options)
    return subprocess.run(arguments, cwd=checkout, capture_output=True, text=True, timeout=600, check=False)


def attempts(checkout: Path) -> dict[str, list[int]]:
    folder = RunFolder(checkout.parent / "run")
    return {name: folder.shard(name).attempts() for name in folder.shard_names()}


def test_all_shards_run_and_the_run_is_proved(checkout: Path) -> None:
    done = local(checkout, "--at-once", "2", "--junit", str(checkout.parent / "merged.xml"))
    assert done.returncode == Exit.GREEN, done.stdout + done.stderr
    assert "GREEN: 7 tests in 3 shards, each counted exactly once (7 passed)" in done.stdout
    assert "GPUs are simulated" in done.stdout
    assert attempts(checkout) == {"01": [0], "02": [0], "cpu": [0]}
    assert len(document.load(RunFolder(checkout.parent / "run").collection_path).tests) == 7
    assert "test_quick" in (checkout.parent / "merged.xml").read_text()
    assert "PYTEST-DURATION" in (checkout.parent / "run" / "logs" / "01.log").read_text()


def test_a_failure_is_red_and_the_same_command_runs_only_what_is_not_green(checkout: Path) -> None:
    (checkout / "broken").touch()
    done = local(checkout)
    assert done.returncode == Exit.RED, done.stdout + done.stderr
    assert "test_b.py::test_switch" in done.stdout
    (checkout / "broken").unlink()
    done = local(checkout)
    assert done.returncode == Exit.GREEN, done.stdout + done.stderr
    assert "resuming: 2 of 3 shards are green already" in done.stdout
    assert "flaky (failed in an earlier attempt, passed now): 1" in done.stdout
    assert sorted(map(len, attempts(checkout).values())) == [1, 1, 2]


def test_the_measured_durations_plan_the_next_run(checkout: Path) -> None:
    assert local(checkout).returncode == Exit.GREEN
    durations = checkout.parent / "run" / "report" / "durations.json"
    measured = json.loads(durations.read_text())
    assert {key for key in measured if "::" not in key} == set(SUITE)
    assert "test_b.py::test_switch" in measured
    again = ["--shards", "1", "--run", str(checkout.parent / "again"), "--durations", str(durations)]
    done = local(checkout, *again, "--max-workers", "1")
    assert done.returncode == Exit.GREEN, done.stdout + done.stderr
    assert "at most 1 living workers a shard, not 8" in done.stdout
    assert "7 known, 0 estimated, 0 stale" in done.stdout


@pytest.fixture
def held(checkout: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run in which a test waits for as long as the file `hold` is there."""
    (checkout / "hold").touch()
    process = subprocess.Popen(command(checkout), cwd=checkout, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        while not (checkout / "waiting").exists():
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.05)
        yield process
    finally:
        (checkout / "hold").unlink(missing_ok=True)
        process.terminate()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_shards_and_the_same_command_goes_on(
    checkout: Path, held: subprocess.Popen[bytes], number: int
) -> None:
    held.send_signal(number)
    output, _ = held.communicate()
    assert held.returncode == Exit.INFRASTRUCTURE, output
    assert b"stopped; the same command" in output
    ends = [
        done["end"]
        for name, numbers in attempts(checkout).items()
        for done in [RunFolder(checkout.parent / "run").shard(name).read_done(number) for number in numbers]
        if done
    ]
    assert "stopped" in ends
    (checkout / "hold").unlink()
    done = local(checkout)
    assert done.returncode == Exit.GREEN, done.stdout + done.stderr
    assert "7 passed" in done.stdout


def test_a_shard_whose_runner_is_killed_is_named_and_red(checkout: Path, held: subprocess.Popen[bytes]) -> None:
    children = Path(f"/proc/{held.pid}/task/{held.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)
    (checkout / "hold").unlink()
    output, _ = held.communicate()
    assert held.returncode == Exit.RED
    assert b"failed with status -9" in output
    assert b"attempt 0 did not finish" in output


def test_the_cpu_shard_never_gets_more_workers_than_cores() -> None:
    node = Node(simulated=False, at_once=1, max_workers=None, cores=3)
    assert "--max-workers" not in node.command(Path("run"), "01")
    assert node.command(Path("run"), "cpu")[-2:] == ["--max-workers", "3"]


@pytest.mark.parametrize("option", ["--shards", "--at-once", "--max-workers"])
def test_less_than_one_is_refused_before_anything_is_collected(checkout: Path, option: str) -> None:
    done = local(checkout, option, "0")
    assert done.returncode == UsageError.exit_code
    assert f"{option}: '0': expected a whole number, at least 1" in done.stderr
    assert not (checkout.parent / "run").exists()


def test_shards_at_once_on_real_gpus_are_refused_before_anything_is_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shardlib.commands.local.NvidiaGpus.find", lambda environ: SimulatedGpus(2, tmp_path))
    monkeypatch.setattr("shardlib.commands.collect.collect", lambda *args, **more: pytest.fail("collected"))
    assert cli.main(["local", "--run", str(tmp_path / "run"), "--shards", "2", "--at-once", "2"]) == 11
    assert "--at-once 2: each shard needs this machine's GPUs" in capsys.readouterr().err
