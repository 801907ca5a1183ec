"""`shardlib plan`: decides which shard runs which tests, stores the plan in the run's folder and shows it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from shardlib import durations as durations_file
from shardlib.collecting import document
from shardlib.collecting.document import Collection
from shardlib.commandline import at_least_one
from shardlib.commands.collect import collect_here
from shardlib.errors import Exit, PlanError, RunFolderError, UsageError
from shardlib.fields import short
from shardlib.model import Mode
from shardlib.packing import Strategy, pack
from shardlib.parameters import write_parameters
from shardlib.plan import Plan, Prediction
from shardlib.reports.plan_table import fan_out, parameters, table
from shardlib.runfolder import RunFolder
from shardlib.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    parser.add_argument("--run", type=Path, required=True, metavar="RUN", help="the run's folder, made if need be")
    add_planning_arguments(parser)
    parser.add_argument(
        "--collected",
        type=Path,
        metavar="FILE",
        help="what `shardlib collect` wrote; default: RUN/collect/collect.json if it is there, else collect now",
    )
    parser.add_argument("--random-seed", type=int, metavar="S", help="pytest-randomly's seed; default: a new one")
    parser.add_argument(
        "--image",
        metavar="IMAGE",
        help="the image under test: what the folder holds of another one is put aside, and everything runs again",
    )
    parser.add_argument(
        "--shard-folders", action="store_true", help="make RUN/shards/NAME, for pods that can write nowhere else"
    )
    parser.add_argument(
        "--parameters", type=Path, metavar="DIR", help="write what a workflow needs to know, one small file for each"
    )
    parser.add_argument(
        "--max-deadline",
        type=at_least_one,
        metavar="S",
        help="no shard's deadline is longer, in seconds, whatever timeouts its tests claim",
    )
    parser.add_argument(
        "--fan-out", action="store_true", help="stdout holds only the JSON list of GPU shards; the table goes to stderr"
    )


def add_planning_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options that say how to plan, which `local` has too."""
    parser.add_argument("--shards", type=at_least_one, required=True, metavar="N", help="nodes to spread over")
    parser.add_argument("--gpus", type=int, metavar="G", help="GPUs of a node; default: the setting gpus_per_node")
    parser.add_argument("--durations", type=Path, metavar="FILE", help='seconds by node id: {"a.py::test": 1.5}')
    parser.add_argument(
        "--strategy",
        choices=["timeline", "lpt"],
        default="timeline",
        help="timeline packs by wall clock; lpt is the classic by summed seconds, for comparison (default: timeline)",
    )
    parser.add_argument("--startup-seconds", type=float, metavar="S", help="predicted start of a worker")
    parser.add_argument("--gpu-hour-price", type=float, metavar="P", help="adds the predicted cost")


def main(args: argparse.Namespace) -> int:
    """Makes and stores the plan, and prints it; returns 0."""
    folder = RunFolder(args.run)
    own = folder.collection_path
    if args.collected and args.pytest_args:
        raise UsageError("--collected and arguments for pytest exclude each other: the tests are collected already")
    found = args.collected or (own if os.path.lexists(own) and not args.pytest_args else None)
    collection = document.load(found) if found else None
    durations = read_durations(args, args.durations or folder.brought_durations())
    if collection is None:
        seed = args.random_seed if args.random_seed is not None else earlier_seed(folder)
        collection = collect_here(args.pytest_args, gpus=args.gpus, random_seed=seed)
    plan = planned(args, collection, durations)
    if args.image and (aside := folder.begin(args.image)):
        print(
            f"another image than before, {args.image}: what ran in the other one is put aside, {aside}", file=sys.stderr
        )
    folder.write_plan(plan)
    if args.shard_folders:
        folder.make_shard_folders(shard.name for shard in plan.shards)
    if found is None or found.resolve() != own.resolve():
        folder.write_collection(collection.dumps())
    print(table(plan), file=sys.stderr if args.fan_out else sys.stdout)
    if args.parameters:
        write_parameters(args.parameters, parameters(plan, args.max_deadline))
    if args.fan_out:
        print(fan_out(plan, args.max_deadline))
    return Exit.GREEN


def read_durations(args: argparse.Namespace, path: Path | None) -> dict[str, float]:
    """Returns the durations to plan with; refuses, before anything is collected, the options that it could not be with.

    Raises:
        DurationsError: the durations file is wrong.
        SettingsError: a value out of range.
    """
    _with_options(Settings(), args.gpus, args.startup_seconds, args.gpu_hour_price)
    return durations_file.load(path) if path else {}


def earlier_seed(folder: RunFolder) -> int | None:
    """Returns the seed of the plan that the folder has, so that planning again gives the same plan; else None."""
    try:
        return folder.read_plan().pytest.random_seed
    except (PlanError, RunFolderError):  # none there, or one that a new plan replaces
        return None


def planned(args: argparse.Namespace, collection: Collection, durations: Mapping[str, float]) -> Plan:
    """Returns the plan that the options of `add_planning_arguments` ask for; errors as in `make_plan`."""
    return make_plan(
        collection,
        shards=args.shards,
        gpus=args.gpus,
        durations=durations,
        strategy=args.strategy,
        startup_seconds=args.startup_seconds,
        gpu_hour_price=args.gpu_hour_price,
    )


def make_plan(
    collection: Collection,
    *,
    shards: int,
    gpus: int | None = None,
    durations: Mapping[str, float] | None = None,
    strategy: Strategy = "timeline",
    startup_seconds: float | None = None,
    gpu_hour_price: float | None = None,
) -> Plan:
    """Returns the plan of a collection; values that are None are the settings'.

    Raises:
        PlanError: a test does not fit a node.
        UsageError: tests were collected for nodes of another size.
        SettingsError: a value out of range.
    """
    settings = collection.settings
    if gpus is not None and gpus != settings.gpus_per_node:
        _check_node(collection, gpus)
    settings = _with_options(settings, gpus, startup_seconds, gpu_hour_price)
    weights = durations_file.weigh(collection.tests, durations or {}, unknown_seconds=settings.unknown_seconds)
    packing = pack(
        collection.tests,
        weights,
        shards=shards,
        gpus=settings.gpus_per_node,
        cpu_slots=settings.cpu_slots,
        startup_ms=round(settings.startup_seconds * 1000),
        strategy=strategy,
    )
    why = {test.id: test.why for test in collection.tests}
    groups = (
        replace(group, tests=tuple(replace(test, why=why[test.id]) for test in group.tests)) for group in packing.groups
    )
    return Plan(
        pytest=collection.pytest,
        settings=settings,
        strategy=strategy,
        shards=packing.shards,
        groups=tuple(groups),
        prediction=Prediction(
            makespan_ms=packing.makespan_ms,
            lower_bound_ms=packing.lower_bound_ms,
            bottleneck=packing.bottleneck,
            known=weights.known,
            estimated=weights.estimated,
            stale=weights.stale,
        ),
    )


def _with_options(
    settings: Settings, gpus: int | None, startup_seconds: float | None, gpu_hour_price: float | None
) -> Settings:
    """Returns the settings with the values of options in their place; SettingsError if one is out of range."""
    if gpus is not None:
        settings = settings.with_values("--gpus", gpus_per_node=gpus)
    if startup_seconds is not None:
        settings = settings.with_values("--startup-seconds", startup_seconds=startup_seconds)
    if gpu_hour_price is not None:
        settings = settings.with_values("--gpu-hour-price", gpu_hour_price=gpu_hour_price)
    return settings


def _check_node(collection: Collection, gpus: int) -> None:
    """Raises if a test takes all GPUs of a node: it was collected seeing another number of them."""
    node = collection.settings.gpus_per_node
    for test in collection.tests:
        if test.mode in (Mode.SEQUENTIAL, Mode.ISOLATED) and test.gpus == node:
            raise UsageError(
                f"--gpus {gpus}: {short(test.id)} takes a whole node and was collected for nodes of {node} GPUs; "
                f"collect again with --gpus {gpus}"
            )
