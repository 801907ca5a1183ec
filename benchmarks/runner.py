"""What the runner costs: the CUDA tests of the numba wheel, and many tests that do nothing, under peers and under ours.

Every contender runs the same tests on the same number of slots, in turn, in several rounds, and must agree with plain
pytest on which tests there are and which fail. A contender's figures are the medians of its rounds.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring import must, run, run_together, shardlib, start_seconds

SLOTS = 4
TINY_FILES = 20
OVERHEAD_TARGET_SECONDS = 0.002  # a test, beyond plain pytest in one process
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
# numba's simulator of CUDA; collection and workers of ours fix the hash seed, so the others get the same one.
ENV = {"NUMBA_ENABLE_CUDASIM": "1", "PYTHONHASHSEED": "0"}

Outcomes = dict[tuple[str, str], str]  # by class name and name of a JUnit test case: failed, skipped or passed


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A suite to run: pytest's arguments, and the folder in which its durations lie and its rounds work."""

    arguments: tuple[str, ...]
    slots: int
    folder: Path

    @property
    def durations(self) -> Path:
        """What plain pytest took for each test, in pytest-split's format and ours."""
        return self.folder / "durations.json"


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round of one contender. `around_seconds` is what a pipeline does once for all shards, before and after."""

    wall_seconds: float
    cpu_seconds: float
    outcomes: Outcomes
    around_seconds: float = 0.0


_WORST_FIRST = ("failed", "skipped", "passed")
Contender = Callable[[Suite, Path], Round]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this benchmark's arguments."""
    parser.add_argument("--rounds", type=int, default=3, help="of each contender (default: %(default)s)")
    parser.add_argument("--package", default="numba.cuda.tests", help="whose tests to run (default: %(default)s)")
    parser.add_argument("--tiny-tests", type=int, default=2000, help="that do nothing (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round's figures here")


def main(args: argparse.Namespace) -> int:
    """Runs all contenders and prints the tables; 1 if one of them saw other tests or other outcomes than pytest."""
    for module in ("numba", "xdist", "pytest_split"):
        if importlib.util.find_spec(module) is None:
            raise SystemExit(f"{module} is not installed: pip install 'shardlib[bench,demo]'")
    with tempfile.TemporaryDirectory(prefix="shardlib-runner-") as name:
        numba = packaged_suite(Path(name) / "numba", args.package)
        slots = race(numba, {"pytest": plain, "xdist": xdist, "split + xdist": split, "shardlib": ours}, args.rounds)
        tiny = tiny_suite(Path(name) / "tiny", args.tiny_tests)
        alone = race(tiny, {"pytest": plain, "xdist": xdist, "shardlib": ours}, args.rounds)
    agree = report(f"{args.package} on {SLOTS} slots", slots, against="xdist")
    agree &= report("tests that do nothing, one worker", alone, against="pytest")
    target = f"target: at most {OVERHEAD_TARGET_SECONDS * 1000:g} ms"
    print(f"overhead of shardlib over pytest: {overhead_seconds(alone) * 1000:.2f} ms a test ({target})")
    if args.json:
        figures = {"package": slots, "nothing": alone}
        args.json.write_text(json.dumps({name: as_json(rounds) for name, rounds in figures.items()}, indent=1) + "\n")
    return 0 if agree else 1


def packaged_suite(folder: Path, package: str) -> Suite:
    """Returns the suite of an installed package, after a first run under plain pytest that measured its durations."""
    spec = importlib.util.find_spec(package.partition(".")[0])
    if spec is None or spec.origin is None:
        raise SystemExit(f"{package} is not installed")
    root = Path(spec.origin).parent.parent
    return _measured(folder, slots=SLOTS, arguments=("--rootdir", str(root), "--pyargs", package))


def tiny_suite(folder: Path, tests: int) -> Suite:
    """Returns a suite of tests that do nothing, so that all that is measured is what runs them."""
    (folder / "tests").mkdir(parents=True)
    for number in range(TINY_FILES):
        names = range(number, tests, TINY_FILES)
        source = "".join(f"def test_{name}() -> None:\n    pass\n\n\n" for name in names)
        (folder / "tests" / f"test_{number:02}.py").write_text(source, encoding="utf-8")
    return _measured(folder, slots=1, arguments=("--rootdir", str(folder), str(folder / "tests")))


def _measured(folder: Path, *, slots: int, arguments: tuple[str, ...]) -> Suite:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")  # no other configuration is looked for
    suite = Suite(arguments=("-c", str(folder / "pytest.ini"), *arguments), slots=slots, folder=folder)
    storing = ("--store-durations", "--durations-path", str(suite.durations))
    must(run([*PYTEST, *storing, *suite.arguments], cwd=folder, env=ENV, log=folder / "first.log"), 0, 1)
    return suite


def race(suite: Suite, contenders: Mapping[str, Contender], rounds: int) -> dict[str, list[Round]]:
    """Runs the contenders in turn, so that what else the machine does meets all of them; returns their rounds."""
    ran: dict[str, list[Round]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name, contender in contenders.items():
            work = suite.folder / f"{number}-{name.replace(' ', '')}"
            work.mkdir()
            ran[name].append(contender(suite, work))
            print(f"  round {number + 1}: {name} {ran[name][-1].wall_seconds:.1f} s", file=sys.stderr)
    return ran


def plain(suite: Suite, work: Path) -> Round:
    """Plain pytest: one process."""
    return _peer([()], suite, work)


def xdist(suite: Suite, work: Path) -> Round:
    """pytest-xdist with a worker for each slot; a file stays in one worker, as with ours."""
    return _peer([("-n", str(suite.slots), "--dist", "loadfile")], suite, work)


def split(suite: Suite, work: Path) -> Round:
    """pytest-split between two halves of the slots, pytest-xdist inside each, as pipelines combine them."""
    splitting = ("--splits", "2", "--durations-path", str(suite.durations))
    workers = ("-n", str(suite.slots // 2), "--dist", "loadfile")
    return _peer([(*splitting, "--group", str(group), *workers) for group in (1, 2)], suite, work)


def _peer(processes: Sequence[tuple[str, ...]], suite: Suite, work: Path) -> Round:
    reports = [work / f"{number}.xml" for number in range(len(processes))]
    programs = {
        f"{report.stem}.log": (*PYTEST, *options, "--junitxml", str(report), *suite.arguments)
        for report, options in zip(reports, processes, strict=True)
    }
    ended = [must(one, 0, 1) for one in run_together(programs, cwd=work, logs=work, env=ENV).values()]
    return Round(
        wall_seconds=max(one.wall_seconds for one in ended),
        cpu_seconds=sum(one.cpu_seconds for one in ended),
        outcomes=read_outcomes(reports),
    )


def ours(suite: Suite, work: Path) -> Round:
    """One shard of so many simulated GPUs; collecting, planning and verifying are timed apart."""
    folder, collected, report = work / "run", work / "collect.json", work / "merged.xml"
    startup = _startup_seconds(suite)
    planning = ("--shards", "1", "--gpus", str(suite.slots), "--startup-seconds", f"{startup:.3f}")
    steps = {
        "collect": shardlib("collect", "-o", collected, "--", *suite.arguments),
        "plan": shardlib("plan", *planning, "--durations", suite.durations, "--run", folder, "--collected", collected),
        "run": shardlib("run", "--run", folder, "--shard", "01", "--simulated-gpus"),
        "verify": shardlib("verify", "--run", folder, "--junit", report),
    }
    ended = {}
    for name, argv in steps.items():
        red = (0, 1) if name in {"run", "verify"} else (0,)
        ended[name] = must(run(argv, cwd=work, env=ENV, log=work / f"{name}.log"), *red)
    return Round(
        wall_seconds=ended["run"].wall_seconds,
        cpu_seconds=ended["run"].cpu_seconds,
        outcomes=read_outcomes([report]),
        around_seconds=sum(one.wall_seconds for name, one in ended.items() if name != "run"),
    )


def _startup_seconds(suite: Suite) -> float:
    """What worker starts took in the rounds before; the first round knows nothing."""
    before = [seconds for run in suite.folder.glob("*/run") for seconds in start_seconds(run)]
    return statistics.median(before) if before else 1.0


def read_outcomes(reports: Sequence[Path]) -> Outcomes:
    """Returns each test's outcome from JUnit reports; of a test with several cases (subtests) the worst counts."""
    outcomes: Outcomes = {}
    for report in reports:
        for case in ET.parse(report).iter("testcase"):
            key = (case.get("classname", ""), case.get("name", ""))
            outcomes[key] = min(outcomes.get(key, "passed"), _outcome(case), key=_WORST_FIRST.index)
    return outcomes


def _outcome(case: ET.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "skipped" if case.find("skipped") is not None else "passed"


def overhead_seconds(ran: Mapping[str, Sequence[Round]]) -> float:
    """Returns what ours takes beyond plain pytest, in wall seconds a test."""
    tests = len(ran["pytest"][0].outcomes)
    return (median(ran["shardlib"], "wall_seconds") - median(ran["pytest"], "wall_seconds")) / tests


def report(title: str, ran: Mapping[str, Sequence[Round]], *, against: str) -> bool:
    """Prints a table, walls also as ratios to one contender's; returns whether all agree on every test."""
    expected = ran["pytest"][0].outcomes
    print(
        f"\n{title}\n{'':15}{'wall s':>9}{'/ ' + against:>10}{'CPU s':>9}{'/ pytest':>10}{'around s':>10}  tests  failed"
    )
    agree = True
    for name, rounds in ran.items():
        wall, cpu = median(rounds, "wall_seconds"), median(rounds, "cpu_seconds")
        wall_ratio, cpu_ratio = wall / median(ran[against], "wall_seconds"), cpu / median(ran["pytest"], "cpu_seconds")
        outcomes = rounds[-1].outcomes
        figures = f"{wall:9.2f}{wall_ratio:10.3f}{cpu:9.2f}{cpu_ratio:10.3f}{median(rounds, 'around_seconds'):10.2f}"
        print(f"{name:15}{figures}{len(outcomes):7}{list(outcomes.values()).count('failed'):8}")
        for number, one in enumerate(rounds):
            for key in sorted(key for key, _ in one.outcomes.items() ^ expected.items()):
                print(f"  round {number + 1}: not as under pytest: {'::'.join(key)}")
                agree = False
    return agree


def median(rounds: Sequence[Round], field: str) -> float:
    """Returns the median of one figure over the rounds."""
    return statistics.median(float(getattr(one, field)) for one in rounds)


def as_json(ran: Mapping[str, Sequence[Round]]) -> dict[str, list[dict[str, float | int]]]:
    """Returns every round's figures, by contender, as they are written to a file."""
    return {
        name: [
            {
                "wall_seconds": one.wall_seconds,
                "cpu_seconds": one.cpu_seconds,
                "around_seconds": one.around_seconds,
                "tests": len(one.outcomes),
                "failed": list(one.outcomes.values()).count("failed"),
            }
            for one in rounds
        ]
        for name, rounds in ran.items()
    }
