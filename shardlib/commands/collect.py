"""`shardlib collect`: collects with pytest and writes collect.json."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from shardlib import safefiles
from shardlib.collecting import document
from shardlib.collecting.collect import collect
from shardlib.collecting.document import Collection
from shardlib.errors import CollectError, Exit, ShardlibError
from shardlib.model import Mode
from shardlib.runfolder import MAX_DURATIONS_BYTES
from shardlib.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("collect.json"), metavar="FILE", help="default: collect.json"
    )
    parser.add_argument("--gpus", type=int, metavar="G", help="GPUs of a node; default: the setting gpus_per_node")
    parser.add_argument(
        "--durations",
        type=Path,
        metavar="FILE",
        help="put a copy of the checkout's durations file beside the output, where `plan` finds it",
    )
    parser.add_argument("--random-seed", type=int, metavar="S", help="pytest-randomly's seed; default: a new one")


def main(args: argparse.Namespace) -> int:
    """Collects and writes; returns 0, for whatever cannot be planned is an error."""
    collection = collect_here(args.pytest_args, gpus=args.gpus, random_seed=args.random_seed)
    if args.durations:
        _bring(args.durations, args.output.parent)
    document.write(collection, args.output)
    print(f"{summary(collection)}; written to {args.output}")
    return Exit.GREEN


def _bring(durations: Path, folder: Path) -> None:
    """Copies the durations file, unread: who plans does not believe it, and says what is wrong with it."""
    try:
        with durations.open("rb") as stream:
            data = stream.read(MAX_DURATIONS_BYTES + 1)
    except OSError as err:
        raise CollectError(
            f"--durations {durations}: cannot be read: {err.strerror}; give the checkout's file"
        ) from err
    if len(data) > MAX_DURATIONS_BYTES:
        raise CollectError(f"--durations {durations}: more than {MAX_DURATIONS_BYTES} bytes")
    try:
        safefiles.replace(folder, ("durations.json",), data)
    except (OSError, ShardlibError) as err:
        raise CollectError(f"{folder / 'durations.json'}: cannot be written: {err}") from err


def collect_here(args: Sequence[str], *, gpus: int | None = None, random_seed: int | None = None) -> Collection:
    """Returns what pytest collects in the current directory; says on stderr what it does and what is to note."""
    if gpus is not None:
        Settings().with_values("--gpus", gpus_per_node=gpus)  # else found wrong when pytest has imported everything
    collection = collect(args, environ=os.environ, gpus=gpus, random_seed=random_seed, say=_say)
    for note in collection.notes:
        _say(f"note: {note}")
    return collection


def summary(collection: Collection) -> str:
    """Returns one line: how many tests, in how many files, of which modes."""
    modes = Counter(test.mode for test in collection.tests)
    parts = ", ".join(f"{modes[mode]} {mode.value}" for mode in Mode if modes[mode])
    return f"{len(collection.tests)} tests in {len({test.file for test in collection.tests})} files ({parts})"


def _say(text: str) -> None:
    print(f"shardlib: {text}", file=sys.stderr, flush=True)
