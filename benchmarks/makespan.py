"""Predicted against actual makespans: runs the example suite for real, under ours, `lpt` and round-robin.

The suite's tests sleep, so 12 shards of 8 workers run at once on two cores and the wall clock is that of a cluster, but
for the workers' starts: those share the cores, and 96 of them begin together. So a pilot run at a tenth of the scale
measures what a start takes here, and that goes into every prediction. All is fixed before the first measurement.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.measuring import ProgramFailed, must, run, run_together, shardlib, start_seconds
from examples.gpu_suite.drawing import File, draw
from examples.gpu_suite.writing import durations, write
from shardlib.model import Group, PlannedTest, Shard
from shardlib.plan import Plan
from shardlib.runfolder import RunFolder
from shardlib.timeline import schedule

OURS, LPT, ROUND_ROBIN = "timeline", "lpt", "round-robin"
PILOT_SCALE = 0.1  # of the real one: the same plan, the same 96 starts at once, and soon over
BAR_CHARACTERS = 60
# What we promise: actual / predicted of ours within 10%, and these ratios of actual makespans.
PREDICTION_TARGET, LPT_TARGET, ROUND_ROBIN_TARGET = 0.10, 0.75, 0.60


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The suite and the simulated nodes that run it."""

    files: tuple[File, ...]
    shards: int
    gpus: int
    folder: Path  # holds suite/, collect.json, and what each run leaves

    @property
    def collected(self) -> Path:
        """What pytest collected: the same at every scale."""
        return self.folder / "collect.json"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One plan, really run. Seconds by shard: from the common start until the shard's runner ended."""

    plan: Plan
    actual_seconds: dict[str, float]
    start_seconds: list[float]  # of every worker
    cpu_seconds: float

    @property
    def predicted_makespan_seconds(self) -> float:
        """What the plan promised."""
        return self.plan.prediction.makespan_ms / 1000

    @property
    def makespan_seconds(self) -> float:
        """The wall clock of the slowest GPU shard; the cpu tests run elsewhere meanwhile."""
        return max(self.actual_seconds[shard.name] for shard in self.plan.shards if not shard.is_cpu)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this benchmark's arguments."""
    parser.add_argument("--predicted-seconds", type=float, default=300.0, help="of ours (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the suite (default: %(default)s)")
    parser.add_argument("--tests", type=int, default=2400, help="about how many (default: %(default)s)")
    parser.add_argument("--shards", type=int, default=12, help="simulated nodes (default: %(default)s)")
    parser.add_argument("--gpus", type=int, default=8, help="of each node, at least 8 (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="keep the suite and the runs in this new folder")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here")


def main(args: argparse.Namespace) -> int:
    """Measures the three strategies and prints their makespans; 1 unless every run was green."""
    with tempfile.TemporaryDirectory(prefix="shardlib-makespan-") as temporary:
        folder = (args.folder or Path(temporary) / "makespan").resolve()
        files = draw(seed=args.seed, tests=args.tests)
        cluster = Cluster(files=files, shards=args.shards, gpus=args.gpus, folder=folder)
        try:
            scale = prepare(cluster, args.predicted_seconds)
            startup = pilot(cluster, scale * PILOT_SCALE)
            measured = {name: measure(cluster, plan, scale) for name, plan in plans(cluster, scale, startup).items()}
        except ProgramFailed as error:
            print(error, file=sys.stderr)
            return 1
    print(f"seed {args.seed}; each test sleeps {scale:.4f} of its seconds; a worker's start: {startup:.2f} s")
    report(measured)
    if args.json:
        head = {"seed": args.seed, "tests": args.tests, "scale": scale, "startup_seconds": startup}
        args.json.write_text(json.dumps({**head, "strategies": as_json(measured)}, indent=1) + "\n", encoding="utf-8")
    return 0


def prepare(cluster: Cluster, predicted_seconds: float) -> float:
    """Writes and collects the suite; returns the scale at which our plan predicts so many seconds without starts."""
    suite = cluster.folder / "suite"
    write(cluster.files, suite, scale=1.0)
    collect = shardlib("collect", "-o", cluster.collected, "--", "tests")
    must(run(collect, cwd=suite, log=cluster.folder / "collect.log"))
    unscaled = make_plan(cluster, OURS, scale=1.0, startup=0.0)
    return predicted_seconds * 1000 / unscaled.prediction.makespan_ms


def pilot(cluster: Cluster, scale: float) -> float:
    """Returns the mean seconds of a worker's start under the load of all shards at once."""
    measured = measure(cluster, make_plan(cluster, OURS, scale=scale, startup=1.0, name="pilot"), scale)
    return statistics.fmean(measured.start_seconds)


def plans(cluster: Cluster, scale: float, startup: float) -> dict[str, Plan]:
    """Returns the plan of each strategy."""
    ours, lpt = (make_plan(cluster, strategy, scale=scale, startup=startup) for strategy in (OURS, LPT))
    order = [test["id"] for test in json.loads(cluster.collected.read_text(encoding="utf-8"))["tests"]]
    return {OURS: ours, LPT: lpt, ROUND_ROBIN: round_robin(ours, order, shards=cluster.shards, gpus=cluster.gpus)}


def make_plan(cluster: Cluster, strategy: str, *, scale: float, startup: float, name: str = "") -> Plan:
    """Returns what `shardlib plan` plans for the suite at a scale, every duration known."""
    name = name or f"{strategy}-at-{scale:.4f}"
    known = cluster.folder / f"{name}.durations.json"
    known.write_text(json.dumps(durations(cluster.files, scale=scale)), encoding="utf-8")
    folder = cluster.folder / f"{name}.plan"
    nodes = ("--shards", str(cluster.shards), "--gpus", str(cluster.gpus), "--startup-seconds", f"{startup:.3f}")
    files = ("--durations", known, "--collected", cluster.collected, "--run", folder)
    argv = shardlib("plan", "--strategy", strategy, *nodes, *files)
    must(run(argv, cwd=cluster.folder / "suite", log=cluster.folder / f"{name}.plan.log"))
    return RunFolder(folder).read_plan()


def round_robin(plan: Plan, order: Sequence[str], *, shards: int, gpus: int) -> Plan:
    """Returns the same tests dealt out to the shards one by one, in the order in which pytest collects them.

    What CI does without weights. Each shard runs its files in that order too; the tests of one file, mode and GPU count
    that fall to a shard are one group, which pays the file's setup. The cpu shard stays as it is.
    """
    kept = [group for shard in plan.shards if shard.is_cpu for group in plan.groups_of(shard)]
    known = {test.id: test for group in plan.groups for test in group.tests}
    dealt: list[dict[tuple[object, ...], tuple[Group, list[PlannedTest]]]] = [{} for _ in range(shards)]
    ours = {group.id for group in kept}
    gpu_tests = [name for name in order if plan.group_of[name].id not in ours]
    for number, name in enumerate(gpu_tests):
        like = plan.group_of[name]
        key = (like.file, like.mode, like.gpus)
        dealt[number % shards].setdefault(key, (like, []))[1].append(known[name])
    groups, made = list(kept), [shard for shard in plan.shards if shard.is_cpu]
    startup_ms = round(plan.settings.startup_seconds * 1000)
    unused = iter(f"g{number:05}" for number in range(1, len(known) + 1) if f"g{number:05}" not in ours)
    for number, files in enumerate(filter(None, dealt), start=1):
        own = [replace(like, id=next(unused), tests=tuple(tests)) for like, tests in files.values()]
        groups += own
        predicted_ms = schedule(own, slots=gpus, startup_ms=startup_ms).makespan_ms
        names = tuple(group.id for group in own)
        made.append(Shard(name=f"{number:02}", slots=gpus, groups=names, predicted_ms=predicted_ms))
    makespan_ms = max(shard.predicted_ms for shard in made if not shard.is_cpu)
    prediction = replace(plan.prediction, makespan_ms=makespan_ms, bottleneck="")
    return replace(plan, strategy=ROUND_ROBIN, shards=tuple(made), groups=tuple(groups), prediction=prediction)


def measure(cluster: Cluster, plan: Plan, scale: float) -> Measured:
    """Runs all shards of a plan at once, proves that every test ran once and passed, and returns how long it took."""
    print(f"{plan.strategy}: predicted {plan.prediction.makespan_ms / 1000:.1f} s", file=sys.stderr)
    work = cluster.folder / f"{plan.strategy}-{plan.digest[:8]}"
    work.mkdir()
    RunFolder(work / "run").write_plan(plan)
    programs = {
        f"{shard.name}.log": shardlib("run", "--run", work / "run", "--shard", shard.name, "--simulated-gpus")
        for shard in plan.shards
    }
    env = {"GPU_SUITE_SCALE": repr(scale)}
    ended = run_together(programs, cwd=cluster.folder / "suite", logs=work, env=env)
    for one in ended.values():
        must(one)
    must(run(shardlib("verify", "--run", work / "run"), cwd=work, log=work / "verify.log"))
    return Measured(
        plan=plan,
        actual_seconds={name.removesuffix(".log"): one.wall_seconds for name, one in ended.items()},
        start_seconds=start_seconds(work / "run"),
        cpu_seconds=sum(one.cpu_seconds for one in ended.values()),
    )


def report(measured: Mapping[str, Measured]) -> None:
    """Prints the makespans, the targets, and a bar for each shard."""
    ours = measured[OURS].makespan_seconds
    print(
        f"\n{'':13}{'predicted s':>12}{'actual s':>10}{'ratio':>7}{'ours / it':>11}{'starts':>8}{'mean s':>8}{'CPU s':>8}"
    )
    for name, one in measured.items():
        predicted, actual = one.predicted_makespan_seconds, one.makespan_seconds
        starts = f"{len(one.start_seconds):8}{statistics.fmean(one.start_seconds):8.2f}{one.cpu_seconds:8.0f}"
        print(f"{name:13}{predicted:12.1f}{actual:10.1f}{actual / predicted:7.3f}{ours / actual:11.3f}{starts}")
    off = abs(ours / measured[OURS].predicted_makespan_seconds - 1)
    _target("ours is within 10% of its prediction", off, PREDICTION_TARGET)
    _target("ours / lpt", ours / measured[LPT].makespan_seconds, LPT_TARGET)
    _target("ours / round-robin", ours / measured[ROUND_ROBIN].makespan_seconds, ROUND_ROBIN_TARGET)
    longest = max(max(one.actual_seconds.values()) for one in measured.values())
    for name, one in measured.items():
        print(f"\n{name}: = actual, | predicted")
        for shard in one.plan.shards:
            actual = one.actual_seconds[shard.name]
            print(f"  {shard.name:>4} {actual:7.1f} s {bar(actual, shard.predicted_ms / 1000, longest)}")


def _target(name: str, value: float, most: float) -> None:
    print(f"target {'met' if value <= most else 'MISSED'}: {name}: {value:.3f}, at most {most:g}")


def bar(actual: float, predicted: float, longest: float) -> str:
    """Returns the actual seconds as a bar, with a mark at the predicted ones."""
    cells = ["="] * round(BAR_CHARACTERS * actual / longest)
    mark = round(BAR_CHARACTERS * predicted / longest)
    cells += [" "] * (mark + 1 - len(cells))
    cells[mark] = "|"
    return "".join(cells)


def as_json(measured: Mapping[str, Measured]) -> dict[str, Any]:
    """Returns all figures, by strategy."""
    return {
        name: {
            "predicted_makespan_seconds": one.predicted_makespan_seconds,
            "actual_makespan_seconds": one.makespan_seconds,
            "predicted_seconds": {shard.name: shard.predicted_ms / 1000 for shard in one.plan.shards},
            "actual_seconds": one.actual_seconds,
            "start_seconds": one.start_seconds,
            "cpu_seconds": one.cpu_seconds,
        }
        for name, one in measured.items()
    }
