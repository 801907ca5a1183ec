"""`shardlib collect`: collects with pytest and writes collect.json."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from shardlib.collecting import document
from shardlib.collecting.collect import collect
from shardlib.collecting.document import Collection
from shardlib.errors import Exit
from shardlib.model import Mode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("collect.json"), metavar="FILE", help="default: collect.json"
    )
    parser.add_argument("--gpus", type=int, metavar="G", help="GPUs of a node; default: the setting gpus_per_node")
    parser.add_argument("--random-seed", type=int, metavar="S", help="pytest-randomly's seed; default: a new one")


def main(args: argparse.Namespace) -> int:
    """Collects and writes; returns 0, for whatever cannot be planned is an error."""
    collection = collect_here(args.pytest_args, gpus=args.gpus, random_seed=args.random_seed)
    document.write(collection, args.output)
    print(f"{summary(collection)}; written to {args.output}")
    return Exit.GREEN


def collect_here(args: Sequence[str], *, gpus: int | None = None, random_seed: int | None = None) -> Collection:
    """Returns what pytest collects in the current directory; says on stderr what it does and what is to note."""
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
