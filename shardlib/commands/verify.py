"""`shardlib verify`: proves from the run's folder alone that every test counts once, and gives the verdict."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shardlib import evidence, safefiles
from shardlib.errors import Exit, ShardlibError
from shardlib.parameters import write_parameters
from shardlib.plan import Plan
from shardlib.reports import measure
from shardlib.reports.measure import Measures
from shardlib.reports.text import verdict_line, verdict_lines
from shardlib.reports.write import write_reports
from shardlib.runfolder import RunFolder
from shardlib.verdict import Verdict, judge


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("--run", type=Path, required=True, metavar="RUN", help="the run's folder")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="also write the merged JUnit XML here")
    parser.add_argument(
        "--summary-file", type=Path, metavar="FILE", help="also write the verdict in one line, with what made it red"
    )


def main(args: argparse.Namespace) -> int:
    """Prints the verdict and writes the reports; returns 0 if the run is green, else 1."""

    def conclude(line: str) -> None:
        if args.summary_file:
            write_parameters(args.summary_file.parent, {args.summary_file.name: line})

    try:
        return verify(RunFolder(args.run), junit=args.junit, conclude=conclude)
    except ShardlibError as err:
        conclude(f"no verdict: {err}")
        raise


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What a run's folder proves; `stopped` is whether a shard's last attempt was ended by a signal."""

    plan: Plan
    verdict: Verdict
    measures: Measures
    stopped: bool


def read(folder: RunFolder) -> Findings:
    """Returns what the folder proves.

    Raises:
        RunFolderError: there is no plan.
        PlanError: the plan is malformed.
    """
    plan = folder.read_plan()
    shards, unreadable = evidence.read(folder, [shard.name for shard in plan.shards])
    measures = measure.read(folder, plan)
    verdict = judge(plan, shards, (*unreadable, *measures.unreadable))
    stopped = any(shard.done is not None and shard.done["end"] == "stopped" for shard in shards.values())
    return Findings(plan=plan, verdict=verdict, measures=measures, stopped=stopped)


def publish(folder: RunFolder, findings: Findings) -> list[Path]:
    """Writes RUN/report/ and prints; returns the written paths, the JUnit XML's first. RunFolderError if it cannot."""
    plan, verdict, measures = findings.plan, findings.verdict, findings.measures
    paths = write_reports(folder, plan, verdict, measures)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a node id may hold what a terminal of another encoding cannot show
        sys.stdout.reconfigure(errors="backslashreplace")
    for line in verdict_lines(plan, verdict, measures):
        print(line)
    print(f"reports: {folder.path / 'report'}")
    return paths


def verify(folder: RunFolder, *, junit: Path | None = None, conclude: Callable[[str], None] = lambda _: None) -> int:
    """Judges the run, writes RUN/report/, prints, and returns the exit code; `conclude` gets the verdict in one line.

    Raises:
        RunFolderError: there is no plan, or the report cannot be written.
        PlanError: the plan is malformed.
    """
    findings = read(folder)
    paths = publish(folder, findings)
    if junit is not None:
        safefiles.replace(junit.parent, (junit.name,), paths[0].read_bytes())
    conclude(verdict_line(findings.plan, findings.verdict))
    return Exit.GREEN if findings.verdict.green else Exit.RED
