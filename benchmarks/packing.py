"""Predicted makespans of ours and its peers, all run by the same timeline and measured against the same lower bound.

Real duration sets, 12 nodes of 8 GPUs: as they are (one test is mostly the floor), repeated until each slot's share is
twice the longest test, and with modes drawn by file and setups, at least ten files a slot.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.packing_peers import CONTENDERS, GPUS, SHARDS, Case, Lists
from benchmarks.packing_picture import picture
from benchmarks.suites import Suite, data_folder, filled, mixed, real_suites
from shardlib.bounds import lower_bound
from shardlib.durations import weigh
from shardlib.grouping import whole_groups
from shardlib.model import CollectedTest, Mode
from shardlib.packing import Strategy, pack
from shardlib.timeline import schedule

LEAST_FILES = 10 * SHARDS * GPUS
SEED = 1  # of the modes drawn by file
_NAMES = {
    "ours": "shardlib",
    "lpt": "longest test first, by summed seconds",
    "round-robin": "round-robin, test by test",
    "split chunks": "pytest-split, duration_based_chunks",
    "split least": "pytest-split, least_duration",
    "two-phase": "two-phase greedy",
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A case's figures: makespans in milliseconds by contender (`None`: it crashed), and how long ours took."""

    variant: str
    suite: str
    tests: int
    groups: int
    lower_bound_ms: int
    bottleneck: str
    pack_seconds: float
    makespans_ms: dict[str, int | None]

    def gap(self, contender: str) -> float | None:
        """How far above the lower bound the contender ends, as a fraction."""
        ms = self.makespans_ms[contender]
        return None if ms is None else ms / self.lower_bound_ms - 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this benchmark's arguments."""
    parser.add_argument("--startup-seconds", type=float, default=5.0, help="of a worker (default: %(default)s)")
    parser.add_argument("--big", action="store_true", help="also time 10,000 and 1,000,000 tests (a minute or two)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here")
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="draw the shards of the mixed suite in the middle, as SVG"
    )


def main(args: argparse.Namespace) -> int:
    """Packs every suite with every contender and prints the table; 1 if the duration sets are not there."""
    folder = data_folder()
    if folder is None:
        print("no duration sets here: set SHARDLIB_DATA to a folder that has durations/*.json (README.md, Benchmarks)")
        return 1
    rows, mixed_cases = [], []
    for case in cases(real_suites(folder), round(args.startup_seconds * 1000)):
        print(f"{case.variant}: {case.suite.name}, {len(case.suite.tests)} tests ...", file=sys.stderr)
        rows.append(measure(case))
        mixed_cases += [(rows[-1], case)] if case.variant == "mixed" else []
    print(f"Gap to the lower bound, {SHARDS} x {GPUS}, a worker's start {args.startup_seconds:g} s\n")
    for line in table(rows):
        print(line)
    big = []
    if args.big:
        print("\nTime to weigh and pack")
        for tests, files, shards in ((10_000, 800, 12), (1_000_000, 50_000, 1000)):
            big.append(time_big(tests, files, shards))
            print(
                "  {tests:>9,} tests {files:>6,} files {shards:>5,} shards  {seconds:6.2f} s  peak {peak_mb:,} MB  "
                "gap {gap:.2%}".format(**big[-1])
            )
    if args.picture:
        args.picture.write_text(draw(mixed_cases), "utf-8")
    if args.json:
        args.json.write_text(json.dumps({"rows": [asdict(row) for row in rows], "big": big}, indent=1), "utf-8")
    return 0


def cases(suites: Sequence[Suite], startup_ms: int) -> Iterator[Case]:
    """Yield every suite raw, repeated, and with mixed modes (the sets that have GPU counts keep theirs)."""
    for suite in suites:
        yield a_case("raw", suite, startup_ms)
    for suite in suites:
        yield a_case("repeated", filled(suite, SHARDS * GPUS), startup_ms)
    for suite in suites:
        own = any(test.mode is not Mode.CONCURRENT for test in suite.tests)
        modes = suite if own else mixed(suite, SEED)
        yield a_case("mixed", filled(modes, SHARDS * GPUS, LEAST_FILES), startup_ms)


def a_case(variant: str, suite: Suite, startup_ms: int) -> Case:
    """Return the suite weighed and bounded."""
    weights = weigh(suite.tests, suite.durations, unknown_seconds=30)
    whole = whole_groups(suite.tests, weights)
    bound = lower_bound(whole, shards=SHARDS, slots=GPUS, startup_ms=startup_ms)
    return Case(variant=variant, suite=suite, weights=weights, whole=whole, bound=bound, startup_ms=startup_ms)


def measure(case: Case) -> Row:
    """Return the makespans of all contenders."""
    began = time.perf_counter()
    ours = _pack(case, "timeline")
    seconds = time.perf_counter() - began
    makespans: dict[str, int | None] = {"ours": _makespan(ours, case)}
    makespans["lpt"] = _makespan(_pack(case, "lpt"), case)
    for name, contender in CONTENDERS.items():
        lists = contender(case)
        makespans[name] = None if lists is None else _makespan(lists, case)
    return Row(
        variant=case.variant,
        suite=case.suite.name,
        tests=len(case.suite.tests),
        groups=sum(len(groups) for groups in ours),
        lower_bound_ms=case.bound.ms,
        bottleneck=case.bound.why,
        pack_seconds=seconds,
        makespans_ms=makespans,
    )


def draw(measured: Sequence[tuple[Row, Case]]) -> str:
    """Return the picture of the case where `lpt`, the textbook's way, does neither well nor badly."""
    ordered = sorted(measured, key=lambda pair: (pair[0].gap("lpt") or 0, pair[0].suite))
    row, case = ordered[len(ordered) // 2]
    lists = {"ours": _pack(case, "timeline"), "lpt": _pack(case, "lpt")}
    lists |= {name: found for name, contender in CONTENDERS.items() if (found := contender(case)) is not None}
    times = {_NAMES[name]: [ms / 1000 for ms in _shards_ms(found, case)] for name, found in lists.items()}
    best_first = dict(sorted(times.items(), key=lambda pair: max(pair[1])))
    title = f"{row.suite}: {row.tests:,} tests with modes on {SHARDS} nodes of {GPUS} GPUs"
    return picture(title, row.lower_bound_ms / 1000, best_first)


def _pack(case: Case, strategy: Strategy) -> Lists:
    packing = pack(
        case.suite.tests,
        case.weights,
        shards=SHARDS,
        gpus=GPUS,
        cpu_slots=1,
        startup_ms=case.startup_ms,
        strategy=strategy,
    )
    by_id = {group.id: group for group in packing.groups}
    return [[by_id[name] for name in shard.groups] for shard in packing.shards]


def _makespan(lists: Lists, case: Case) -> int:
    return max(_shards_ms(lists, case))


def _shards_ms(lists: Lists, case: Case) -> list[int]:
    return [schedule(groups, slots=GPUS, startup_ms=case.startup_ms).makespan_ms for groups in lists]


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of the table: a block for each variant, with mean and worst gaps."""
    contenders = list(rows[0].makespans_ms)
    for variant in dict.fromkeys(row.variant for row in rows):
        block = [row for row in rows if row.variant == variant]
        yield f"{variant:<30} {'tests':>7} {'groups':>6} {'bound':>8} {'packed in':>9} " + _cells(contenders)
        for row in block:
            head = f"  {row.suite:<28} {row.tests:>7} {row.groups:>6} {row.lower_bound_ms / 1000:>6.0f} s"
            yield f"{head} {row.pack_seconds:>7.2f} s " + _cells([_percent(row.gap(name)) for name in contenders])
        gaps = [[gap for row in block if (gap := row.gap(name)) is not None] for name in contenders]
        means = [sum(each) / len(each) if each else None for each in gaps]
        yield f"  {'mean':<65} " + _cells([_percent(mean) for mean in means])
        yield f"  {'worst':<65} " + _cells([_percent(max(each, default=None)) for each in gaps])
        yield ""


def _cells(texts: Sequence[str]) -> str:
    return " ".join(f"{text:>12}" for text in texts)


def _percent(gap: float | None) -> str:
    return "crashes" if gap is None else f"{gap:.2%}"


def time_big(tests: int, files: int, shards: int) -> dict[str, float]:
    """Return how long a synthetic suite takes to weigh and pack, and the process's peak memory so far."""
    rng = random.Random(SEED)
    durations = {
        f"tests/part_{n % 100}/test_{n % files:05}.py::test_{n // files}": min(540.0, 2 * rng.lognormvariate(0, 1.2))
        for n in range(tests)
    }
    collected = [
        CollectedTest(id=key, file=key.partition("::")[0], mode=Mode.CONCURRENT, gpus=1) for key in sorted(durations)
    ]
    began = time.perf_counter()
    weights = weigh(collected, durations, unknown_seconds=30)
    packing = pack(collected, weights, shards=shards, gpus=GPUS, cpu_slots=1, startup_ms=5000)
    return {
        "tests": tests,
        "files": files,
        "shards": shards,
        "seconds": time.perf_counter() - began,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,  # kilobytes on Linux
        "gap": packing.makespan_ms / packing.lower_bound_ms - 1,
    }
