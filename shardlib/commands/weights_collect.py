"""`shardlib weights collect`: gathers what tests took, from runs' folders, any logs, and Argo, into a samples folder."""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from shardlib.errors import Exit, UsageError, WeightsError
from shardlib.weights import argo_server, kube, podlogs, samples
from shardlib.weights.collect import Collector, Report
from shardlib.weights.findings import Unread
from shardlib.weights.podlogs import PodLog

_SHOWN = 10  # names of each sort; a count says the rest
_UNITS = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the step's options."""
    parser.add_argument(
        "--from",
        dest="paths",
        action="append",
        type=Path,
        default=[],
        metavar="PATH",
        help="a run's folder, a file, or a folder of either (logs, JUnit XML, report logs, .test_durations; gzip too)",
    )
    parser.add_argument(
        "--since", type=since, metavar="AGE", help="leave out older runs: 21d, 12h, 3w, or a date like 2026-11-09"
    )
    parser.add_argument(
        "--one-run-per",
        choices=["session", "file", "folder"],
        default="session",
        help="what makes one run of several logs: folder, if each run has a folder with a log a shard (default: session)",
    )
    parser.add_argument(
        "--from-argo",
        action="append",
        default=[],
        metavar="NAMESPACE",
        help="logs of the workflows' pods that are still there, through the kubernetes client; with --argo-server, "
        "the archived logs instead",
    )
    parser.add_argument(
        "--context", metavar="NAME", help="kubeconfig's context; default: this pod's, or the current one"
    )
    parser.add_argument(
        "--argo-server",
        metavar="URL",
        help="Argo's server, which has the archived logs (S3 and others); ARGO_TOKEN is sent as its Authorization",
    )
    parser.add_argument("--argo-ca", metavar="FILE", help="the server's own certificate authority")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="the samples folder")


def main(args: argparse.Namespace) -> int:
    """Collects, and prints what was found and what was not; returns 0.

    Raises:
        WeightsError: nothing was found at all, or a source is not there.
    """
    if not args.paths and not args.from_argo:
        raise UsageError("nothing to collect: name a source with --from or --from-argo")
    if args.argo_server and not args.from_argo:
        raise UsageError("--argo-server without --from-argo: which namespace?")
    collector = Collector(args.output, since=args.since)
    for path in args.paths:
        collector.add_path(path, one_run_per=args.one_run_per)
    for namespace in args.from_argo:
        unread = Unread(source=f"{args.argo_server or 'cluster'}/{namespace}")
        collector.add_runs(podlogs.runs(_pods(args, namespace), unread), unread)
    report = collector.report
    for line in lines(report, args.output):
        print(line)
    if not report.runs and not report.again and not report.old:
        raise WeightsError("no durations in any source; run pytest with --durations=0, or name other sources")
    return Exit.GREEN


def _pods(args: argparse.Namespace, namespace: str) -> Iterator[PodLog]:
    if args.argo_server is None:
        return kube.pod_logs(kube.connect(args.context), namespace, since=args.since)
    server = argo_server.Server(
        url=args.argo_server, authorization=os.environ.get("ARGO_TOKEN") or None, ca_file=args.argo_ca
    )
    return argo_server.pod_logs(server, namespace, since=args.since)


def lines(report: Report, folder: Path) -> list[str]:
    """Returns the report as a person reads it: what there is, then what was left out, worst last."""
    kinds = ", ".join(f"{report.runs[kind]} from {kind}" for kind in samples.KINDS if report.runs[kind])
    shown = [f"{folder}: {sum(report.runs.values())} runs, {sum(report.rows.values())} rows ({kinds or 'nothing new'})"]
    if report.hidden:
        shown.append(f"pytest left {report.hidden} short rows out of its tables (--durations-min)")
    if report.old:
        shown.append(f"{report.old} runs or files are older than --since")
    shown += _named("told already", report.again)
    shown += _named("without durations", report.silent)
    total = sum(unread.total for unread in report.unread)
    if total:
        shown.append(f"{total} places could not be read:")
        places = [place for unread in report.unread for place in unread.places]
        shown += [f"  {place}" for place in places[: 2 * _SHOWN]]
        if total > 2 * _SHOWN:
            shown.append(f"  ... and {total - min(len(places), 2 * _SHOWN)} more")
    return shown


def since(text: str, now: float | None = None) -> float:
    """Returns the unix seconds that an age before now, or a date (UTC), means; argparse's error otherwise."""
    moment = time.time() if now is None else now
    match = re.fullmatch(r"(\d{1,6})([hdw])", text)
    if match:
        return moment - int(match[1]) * _UNITS[match[2]]
    try:
        return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is no age like 21d, 12h, 3w, and no date like 2026-11-09") from None


def _named(what: str, names: list[str]) -> list[str]:
    if not names:
        return []
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return [f"{len(names)} {what}: {'; '.join(names[:_SHOWN])}{more}"]
