"""Shards the CUDA tests that the numba wheel ships over 12 nodes of 8 simulated GPUs, twice, and proves each run.

The first run knows nothing about durations; the second plans with those that the first one measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba

HERE = Path(__file__).resolve().parent
SITE = Path(numba.__file__).parent.parent  # pytest's rootdir: node ids are the same wherever the wheel is installed
SHARDS, GPUS = 12, 8
ROWS = (
    ("verdict", lambda run: run["verdict"]),
    ("tests", lambda run: str(sum(run["outcomes"].values()))),
    ("weights known", lambda run: str(run["known_weights"])),
    ("predicted start and end", lambda run: f"{run['predicted_start_seconds']:.1f} s"),
    ("measured worker start", lambda run: f"{run['worker_start_seconds']:.1f} s"),
    ("measured worker end", lambda run: f"{run['worker_end_seconds']:.1f} s"),
    ("predicted makespan", lambda run: f"{run['predicted_makespan_seconds']:.1f} s"),
    ("actual makespan", lambda run: f"{run['makespan_seconds']:.1f} s"),
    ("wall clock here", lambda run: f"{run['wall_seconds']:.1f} s"),
)


def main() -> int:
    """Runs both and prints them side by side; returns 0 if both are green."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="where the two runs' folders go; default: a new temporary folder")
    out = parser.parse_args().out or Path(tempfile.mkdtemp(prefix="shardlib-demo-"))
    out.mkdir(parents=True, exist_ok=True)
    print(f"== numba {numba.__version__}, first run: nothing is known about durations\n", flush=True)
    first = run(out / "first", out)
    print("\n== second run: planned with what the first one measured\n", flush=True)
    durations = str(out / "first" / "report" / "durations.json")
    start = f"{first['worker_start_seconds'] + first['worker_end_seconds']:.2f}"
    second = run(out / "second", out, "--durations", durations, "--startup-seconds", start)
    print()
    for line in side_by_side(first, second):
        print(line)
    print(f"\nthe runs' folders, with their reports: {out}")
    return max(int(first["status"]), int(second["status"]))


def run(folder: Path, cwd: Path, *options: str) -> dict[str, Any]:
    """Runs `shardlib local` over the suite and returns its run.json with a few figures more."""
    began = time.monotonic()
    command = [sys.executable, "-m", "shardlib", "local", "--shards", str(SHARDS), "--gpus", str(GPUS)]
    command += ["--run", str(folder), "--simulated-gpus", *options, "--", *pytest_arguments()]
    status = subprocess.run(command, cwd=cwd, env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}, check=False).returncode
    report = folder / "report" / "run.json"
    if not report.exists():
        raise SystemExit(status or 1)
    plan = json.loads((folder / "plan" / "plan.json").read_text())
    return {
        **json.loads(report.read_text()),
        "status": status,
        "wall_seconds": time.monotonic() - began,
        "known_weights": plan["prediction"]["known"],
        "predicted_start_seconds": plan["settings"]["startup_seconds"],
    }


def pytest_arguments() -> list[str]:
    """Returns what selects the suite, without the tests that fail under plain pytest as well."""
    lines = (HERE / "deselected.txt").read_text().splitlines()
    deselected = [f"--deselect={line}" for line in lines if line and not line.startswith("#")]
    return ["-c", str(HERE / "pytest.ini"), f"--rootdir={SITE}", "--pyargs", "numba.cuda.tests", *deselected]


def side_by_side(first: dict[str, Any], second: dict[str, Any]) -> Iterator[str]:
    """Yields the two runs' figures as a table, and what they cannot say."""
    yield f"{'':24}{'first':>12}{'second':>12}"
    for title, show in ROWS:
        yield f"{title:24}{show(first):>12}{show(second):>12}"
    cores = len(os.sched_getaffinity(0))
    yield ""
    yield (
        f"numba's simulator computes on the CPU: on {cores} cores a shard runs at most {cores} workers where the plan "
        f"has {GPUS},\nso its actual times cannot match a plan for {SHARDS} nodes of {GPUS} GPUs each."
    )


if __name__ == "__main__":
    raise SystemExit(main())
