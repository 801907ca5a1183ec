"""How fast are logs read, and in how much memory? Ours against a plain regular-expression scan of the same lines.

The log is what 12 interleaved pods of a GPU suite print: noise of training, progress lines, a failure's traceback, and
at each pod's end a `--durations=0` table or our runner's blocks; every line with a timestamp and its pod. The scan
looks for rows with one regular expression line by line and keeps seconds by id: the least that any parser must do.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from shardlib.weights import logs, streams
from shardlib.weights.findings import Unread

PODS = 12
TESTS = 200  # of a pod and run
NOISE_LINES = 40  # for each test: what models print while they are trained (a guess)
_ROW = re.compile(r"(\d+\.\d+)s (setup|call|teardown) +(\S.*::.*)$|PYTEST-DURATION (\d+\.\d+) \S+ \S+ (\".*\")$")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this benchmark's arguments."""
    parser.add_argument("--megabytes", type=int, default=64, metavar="N", help="size of the log (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here")
    parser.add_argument("--measure", nargs=2, metavar=("READER", "LOG"), help=argparse.SUPPRESS)  # the child's own


def main(args: argparse.Namespace) -> int:
    """Prints MB/s and peak memory of both readers; 1 if they do not find the same rows."""
    if args.measure:
        print(json.dumps(_measure(args.measure[0], Path(args.measure[1]))))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        rows = _generate(log, args.megabytes << 20)
        size = log.stat().st_size / 1e6
        figures = {name: _child(name, log) for name in ("scan", "ours")}
    print(f"{size:.0f} MB of logs with {rows} rows, in a process of its own each")
    print(f"{'reader':8} {'MB/s':>8} {'CPU s':>8} {'peak MiB':>9} {'rows':>9}")
    for name, figure in figures.items():
        figure["megabytes_per_second"] = size / figure["cpu_seconds"]
        print(
            f"{name:8} {figure['megabytes_per_second']:8.1f} {figure['cpu_seconds']:8.1f} {figure['peak_mib']:9.0f} "
            f"{figure['rows']:9.0f}"
        )
    if args.json:
        args.json.write_text(json.dumps({"megabytes": size, "rows": rows, **figures}, indent=1) + "\n", "ascii")
    return 0 if all(figure["rows"] == rows for figure in figures.values()) else 1


def _child(name: str, log: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks", "parse", "--measure", name, str(log)]
    figures: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return figures


def _measure(name: str, log: Path) -> dict[str, float]:
    """Returns one reader's figures; CPU seconds, since the machine is shared."""
    began = time.process_time()
    with log.open("rb") as stream:
        rows = _READERS[name](stream)
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"cpu_seconds": seconds, "peak_mib": peak, "rows": rows}


def _scan(stream: object) -> int:
    rows, seconds = 0, {}
    for line in stream:  # type: ignore[attr-defined]
        match = _ROW.search(line.decode("utf-8"))
        if match:
            rows += 1
            seconds[match[3] or match[5]] = float(match[1] or match[4])
    return rows


def _ours(stream: object) -> int:
    unread = Unread(source="log")
    for found in logs.parse(streams.opened(stream), unread):
        if not found.samples:
            raise ValueError("a run without samples")
    if unread.total:
        raise ValueError(f"{unread.total} places could not be read: {unread.places}")
    return unread.seen["rows"]


_READERS = {"scan": _scan, "ours": _ours}


def _generate(path: Path, size: int) -> int:
    """Writes a log of about so many bytes, run after run; returns the number of rows in it."""
    chance = random.Random(5)
    written = rows = run = 0
    with path.open("w", encoding="utf-8", newline="\n") as out:
        while written < size:
            pods = [_pod(chance, f"gpu-tests-{run:04}-{pod:02}", blocks=run % 2 == 1) for pod in range(PODS)]
            for second, lines in enumerate(zip(*pods, strict=True)):
                for pod, (line, is_row) in enumerate(lines):
                    rows += is_row
                    clock = (
                        f"2026-11-{1 + run % 28:02}T{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}Z"
                    )
                    written += out.write(f"{clock} gpu-tests-{run:04}-{pod:02}: {line}\n")
            run += 1
    return rows


def _pod(chance: random.Random, name: str, *, blocks: bool) -> Iterator[tuple[str, bool]]:
    """Yields what one pod prints in one run, with whether it is a row; each pod as many lines."""
    shard, rows = name[-2:], []
    yield "===================== test session starts =====================", False
    for number in range(TESTS):
        node_id = f"tests/models/test_{shard}_{number // 20}.py::TestModel::test_step[{number}-bf16 tp={number % 8}]"
        seconds = round(chance.lognormvariate(2.5, 1.2), 2)
        rows.append((seconds, node_id))
        for step in range(NOISE_LINES):
            loss = chance.random()
            yield (
                f"step {step:5} loss {loss:.6f} grad_norm {loss * 3:.4f} lr 3.0e-04 tokens/s {int(loss * 1e6)} mem 61.2 GiB",
                False,
            )
        yield f"{node_id} PASSED [{100 * number // TESTS:3}%]", False
    yield "E       AssertionError: Tensor-likes are not close! Mismatched elements: 3 / 4096 (0.1%)", False
    if blocks:
        yield f"PYTEST-DURATION-BEGIN v1 shard={shard} attempt=0 group=g00001 tests={TESTS}", False
        for seconds, node_id in rows:
            yield f"PYTEST-DURATION {seconds:.3f} passed concurrent {json.dumps(node_id)}", True
        yield "PYTEST-DURATION-END group=g00001", False
    else:
        yield "===================== slowest durations ======================", False
        for seconds, node_id in rows:
            yield f"{seconds:.2f}s call     {node_id}", True
        yield "(400 durations < 0.005s hidden.  Use -vv to show these durations.)", False
    yield f"===================== {TESTS} passed in 1234.56s (0:20:34) =====================", False
