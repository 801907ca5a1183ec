"""The example suite: what is drawn, what is written, and that pytest runs it."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.gpu_suite.__main__ import main
from examples.gpu_suite.drawing import LONGEST_SECONDS, MIX, SHORTEST_SECONDS, File, draw
from examples.gpu_suite.writing import durations, source, write
from shardlib import child

BY_HAND = Path(__file__).parents[2] / "examples" / "gpu_suite" / "by_hand"


def seconds_of(files: tuple[File, ...]) -> list[float]:
    return [seconds for file in files for function in file.functions for seconds in function.seconds.values()]


def run_pytest(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


@given(seed=st.integers(), tests=st.integers(1, 300))
def test_same_seed_draws_the_same_suite_and_every_name_once(seed: int, tests: int) -> None:
    files = draw(seed=seed, tests=tests)
    assert files == draw(seed=seed, tests=tests)
    assert len({file.name for file in files}) == len(files)
    assert all(SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS for seconds in seconds_of(files))
    assert len(durations(files, scale=1.0)) == len(files) + len(seconds_of(files))


def test_each_marker_gets_its_share_of_the_tests() -> None:
    files = draw(seed=3, tests=2000)
    for marker, share in MIX:
        count = len(seconds_of(tuple(file for file in files if file.marker == marker)))
        assert count == round(share * 2000)


def test_durations_have_the_spread_of_real_suites() -> None:
    seconds = seconds_of(draw(seed=3, tests=4000))
    assert 6 <= statistics.median(seconds) <= 22
    assert 0.9 <= statistics.stdev(map(math.log, seconds)) <= 1.6
    assert max(seconds) > 300


def test_every_file_is_python_that_names_its_marker() -> None:
    for file in draw(seed=4, tests=60):
        text = source(file)
        compile(text, file.name, "exec")
        assert (file.marker.mode or "gpus=1") in text


def test_pytest_runs_exactly_what_the_durations_name(tmp_path: Path) -> None:
    out = tmp_path / "suite"
    files = draw(seed=5, tests=40)
    write(files, out, scale=0.0001)
    ended = run_pytest(out, "-v", "-W", "error")
    assert ended.returncode == 0, ended.stdout
    known = json.loads((out / "gpu_test_durations.json").read_text())
    ran = {line.split(" PASSED")[0] for line in ended.stdout.splitlines() if " PASSED" in line}
    assert ran == {key for key in known if "::" in key}
    assert {key for key in known if "::" not in key} == {f"tests/{file.name}" for file in files}


def test_a_test_sleeps_its_seconds_times_the_scale(tmp_path: Path) -> None:
    out = tmp_path / "suite"
    write(draw(seed=5, tests=9), out, scale=0.01)
    known = json.loads((out / "gpu_test_durations.json").read_text())
    (out / "conftest.py").write_text(
        (out / "conftest.py").read_text().replace("time.sleep(", "print('\\nSLEPT', ").replace("import time\n", "")
    )
    ended = run_pytest(out, "-s")
    slept = [float(line.split()[1]) for line in ended.stdout.splitlines() if line.startswith("SLEPT")]
    assert sorted(slept) == pytest.approx(sorted(known.values()))


def test_a_test_with_too_few_gpus_fails(tmp_path: Path) -> None:
    ended = run_pytest(BY_HAND, "tests/test_communicator.py", env={"CUDA_VISIBLE_DEVICES": "0", "GPU_SUITE_SCALE": "0"})
    assert ended.returncode == 1
    assert "asks for 4 GPUs, and this process sees 1" in ended.stdout


def test_the_suite_written_by_hand_passes_under_plain_pytest() -> None:
    ended = run_pytest(BY_HAND, "-W", "error", env={"GPU_SUITE_SCALE": "0"})
    assert ended.returncode == 0, ended.stdout


@pytest.mark.slow
def test_the_suite_written_by_hand_shows_every_mode_and_runs_in_it(tmp_path: Path) -> None:
    collected, run = tmp_path / "collect.json", tmp_path / "run"
    shardlib("collect", "-o", collected, "--", "tests")
    tests = json.loads(collected.read_text())["tests"]
    assert {(test["file"], test["mode"], test["gpus"]) for test in tests} == {
        ("tests/test_attention.py", "concurrent", 1),
        ("tests/test_attention.py", "concurrent", 2),
        ("tests/test_communicator.py", "isolated", 4),
        ("tests/test_communicator.py", "isolated", 2),
        ("tests/test_throughput.py", "sequential", 8),
        ("tests/test_tokenizer.py", "cpu", 0),
    }
    shardlib("plan", "--shards", "1", "--gpus", "8", "--run", run, "--collected", collected)
    for shard in ("01", "cpu"):
        shardlib("run", "--run", run, "--shard", shard, "--simulated-gpus")
    shardlib("verify", "--run", run)


def shardlib(*arguments: str | Path) -> None:
    env = {"GPU_SUITE_SCALE": "0"}
    ended = subprocess.run(
        child.command("shardlib.cli:main", *map(str, arguments)),
        cwd=BY_HAND,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_folder_that_holds_something_is_refused_and_left_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(SystemExit):
        main([str(tmp_path), "--tests", "3"])
    assert "not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
