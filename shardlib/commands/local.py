"""`shardlib local`: collects, plans, runs every shard and verifies, all on this machine."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from shardlib import child
from shardlib.commandline import at_least_one
from shardlib.commands.collect import collect_here, summary
from shardlib.commands.plan import add_planning_arguments, earlier_seed, planned, read_durations
from shardlib.commands.verify import verify
from shardlib.errors import Exit, UsageError
from shardlib.escape import printable
from shardlib.gpus import NvidiaGpus
from shardlib.model import CPU_SHARD
from shardlib.plan import Plan
from shardlib.reports.plan_table import table
from shardlib.runfolder import RunFolder

_POLL_SECONDS = 0.1
_SAY_SECONDS = 10.0  # between two lines of progress
_END_SECONDS = 90.0  # a shard that is stopped ends its workers first; their own limits are below this by default
_TAIL_LINES = 15


@dataclass(frozen=True, kw_only=True)
class Node:
    """How each shard runs on this machine.

    `max_workers` None leaves as many as a shard has GPUs; the `cpu` shard never gets more than its part of the cores.
    """

    simulated: bool
    at_once: int
    max_workers: int | None
    cores: int

    def command(self, run: Path, shard: str) -> list[str]:
        """Returns the argv of one shard's process."""
        options = ["--simulated-gpus"] if self.simulated else []
        workers = self.max_workers
        if workers is None and shard == CPU_SHARD:
            workers = self.cores // self.at_once or 1
        if workers is not None:
            options += ["--max-workers", str(workers)]
        return child.command("shardlib.cli:main", "run", "--run", str(run), "--shard", shard, *options)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    parser.add_argument(
        "--run", type=Path, required=True, metavar="RUN", help="the run's folder; the same plan resumes"
    )
    add_planning_arguments(parser)
    parser.add_argument(
        "--at-once", type=at_least_one, default=1, metavar="N", help="shards that run at the same time (default: 1)"
    )
    parser.add_argument("--simulated-gpus", action="store_true", help="simulate the GPUs though there are some")
    parser.add_argument(
        "--max-workers",
        type=at_least_one,
        metavar="N",
        help="living workers of each shard; default with simulated GPUs: the cores, shared by the shards at once",
    )
    parser.add_argument("--junit", type=Path, metavar="FILE", help="also write the merged JUnit XML here")


def main(args: argparse.Namespace) -> int:
    """Does all of it; returns `verify`'s 0 or 1, or 75 if a shard said infrastructure or the run was stopped."""
    folder = RunFolder(args.run)
    real = NvidiaGpus.find(os.environ)
    shown = len(real.names) if real else 0
    node = _node(args, shown)
    plan = _make_plan(folder, args)
    if not node.simulated:
        _check_fits(plan, shown)
    print(f"\n{table(plan)}\n", flush=True)
    for line in _explained(plan, node):
        print(line, flush=True)
    open_shards = [shard.name for shard in plan.shards if not _is_green(folder, shard.name)]
    if len(open_shards) < len(plan.shards):
        print(f"resuming: {len(plan.shards) - len(open_shards)} of {len(plan.shards)} shards are green already")
    codes, stopped = run_shards(folder, plan, open_shards, node, say=_say)
    if stopped:
        _say(f"stopped; the same command with --run {args.run} goes on")
        return Exit.INFRASTRUCTURE
    print()
    code = verify(folder, junit=args.junit)
    return Exit.INFRASTRUCTURE if Exit.INFRASTRUCTURE in codes.values() else code


def run_shards(
    folder: RunFolder, plan: Plan, names: Sequence[str], node: Node, *, say: Callable[[str], None]
) -> tuple[dict[str, int], bool]:
    """Runs the shards in turn, `node.at_once` at a time; returns their exit codes, and whether a signal stopped it."""
    waiting, running = list(names), dict[str, _Running]()
    codes: dict[str, int] = {}
    began = said = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="shardlib-local-") as scratch,
        _stop_signals() as stopped,
        ExitStack() as end,
    ):
        end.callback(_end_all, running)
        while (waiting or running) and not stopped:
            while waiting and len(running) < node.at_once:
                name = waiting.pop(0)
                running[name] = _Running.start(folder, name, node, Path(scratch))
            time.sleep(_POLL_SECONDS)
            for name, one in list(running.items()):
                if (code := one.process.poll()) is not None:
                    codes[name] = code
                    del running[name]
                    say(
                        f"shard {name} {_word(code)} after {time.monotonic() - one.began:.1f} s ({len(codes)} of {len(names)})"
                    )
                    for line in _tail(one.log) if code not in (Exit.GREEN, Exit.RED) else []:
                        say(f"  {line}")
            if time.monotonic() - said > _SAY_SECONDS and running:
                said = time.monotonic()
                progress = ", ".join(f"shard {name} {one.progress()}" for name, one in running.items())
                say(f"{said - began:.0f} s: {len(codes)} of {len(names)} shards done; {progress}")
    return codes, bool(stopped)


@dataclass(frozen=True, kw_only=True)
class _Running:
    process: subprocess.Popen[bytes]
    log: Path
    progress_file: Path
    began: float

    @classmethod
    def start(cls, folder: RunFolder, name: str, node: Node, scratch: Path) -> _Running:
        log, progress = folder.log_path(name), scratch / f"{name}.progress"
        with log.open("ab") as output:
            process = subprocess.Popen(
                node.command(folder.path, name),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "ARGO_PROGRESS_FILE": str(progress)},
            )
        return cls(process=process, log=log, progress_file=progress, began=time.monotonic())

    def progress(self) -> str:
        try:
            return self.progress_file.read_text("ascii").strip() or "starting"
        except FileNotFoundError:
            return "starting"


def _make_plan(folder: RunFolder, args: argparse.Namespace) -> Plan:
    durations = read_durations(args, args.durations)
    collection = collect_here(args.pytest_args, gpus=args.gpus, random_seed=earlier_seed(folder))
    print(summary(collection), flush=True)
    plan = planned(args, collection, durations)
    folder.write_plan(plan)
    folder.write_collection(collection.dumps())
    return plan


def _node(args: argparse.Namespace, shown: int) -> Node:
    """Returns how shards run here: on the GPUs that are shown, on simulated ones if there are none."""
    simulated = args.simulated_gpus or shown == 0
    if not simulated and args.at_once > 1:
        raise UsageError(f"--at-once {args.at_once}: each shard needs this machine's GPUs for itself, so one at a time")
    cores = len(os.sched_getaffinity(0))
    cap = max(1, cores // args.at_once) if simulated else None
    workers = cap if args.max_workers is None else args.max_workers
    return Node(simulated=simulated, at_once=args.at_once, max_workers=workers, cores=cores)


def _check_fits(plan: Plan, shown: int) -> None:
    """Raises UsageError if a shard needs more GPUs than are shown."""
    needed = max((shard.slots for shard in plan.shards if not shard.is_cpu), default=0)
    if shown < needed:
        raise UsageError(f"--gpus {needed}: this machine shows {shown} GPUs; plan for those, or pass --simulated-gpus")


def _explained(plan: Plan, node: Node) -> Iterator[str]:
    """Yields what makes this machine's times differ from the plan's."""
    slots = max(shard.slots for shard in plan.shards)
    if node.simulated:
        yield f"GPUs are simulated: {slots} a shard, none of them real"
    if node.max_workers is not None and node.max_workers < slots:
        yield (
            f"at most {node.max_workers} living workers a shard, not {slots}: this machine has {node.cores} cores for "
            f"{node.at_once} shard{'' if node.at_once == 1 else 's'} at once, so tests that compute take longer than planned"
        )


def _is_green(folder: RunFolder, name: str) -> bool:
    """Whether the shard's last attempt left nothing to do."""
    shard = folder.shard(name)
    attempts = shard.attempts()
    done = shard.read_done(attempts[-1]) if attempts else None
    return done is not None and (done["end"], done["exit"]) == ("finished", Exit.GREEN)


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """Yields a list that is filled by the signals that ask us to stop."""
    came: list[int] = []
    old = {number: signal.signal(number, lambda got, _: came.append(got)) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _end_all(running: dict[str, _Running]) -> None:
    """Asks the shards to stop, which keeps what they have finished, and kills what does not end."""
    for one in running.values():
        one.process.terminate()
    deadline = time.monotonic() + _END_SECONDS
    for one in running.values():
        try:
            one.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.process.kill()
            one.process.wait()


def _tail(log: Path) -> list[str]:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [printable(line) for line in lines[-_TAIL_LINES:]]


def _word(code: int) -> str:
    words = {0: "green", 1: "red", 75: "stopped or ended by its node's failure (75)"}
    return words.get(code, f"failed with status {code}")


def _say(line: str) -> None:
    print(line, flush=True)
