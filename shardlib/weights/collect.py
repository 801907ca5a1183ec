"""From sources to a samples folder: each run once, the most telling of its sources, and a report of all that was not."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from shardlib.weights import samplefiles, sources
from shardlib.weights.findings import Found, Unread
from shardlib.weights.samples import KINDS, Run, Sample
from shardlib.weights.sources import Source

_ONE_DAY = 86400.0
_TICK = 0.001  # seconds between sessions that say no time: their order in the file is that of the runs
_DIGEST_CHARACTERS = 12
_PACKED = re.compile(r"\.gz$")


@dataclass
class Report:
    """What a collection did, for a person: `runs` and `rows` by kind, and everything that was left out, by why."""

    runs: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    hidden: int = 0
    old: int = 0
    again: list[str] = field(default_factory=list)  # runs that another source told, or that were there already
    silent: list[str] = field(default_factory=list)  # sources without a run
    unread: list[Unread] = field(default_factory=list)


class Collector:
    """Writes runs to a samples folder; what is there from earlier collections stays, and is not written twice."""

    def __init__(self, folder: Path, *, since: float | None = None) -> None:
        """`since` in unix seconds: older runs are left out; a run of unknown time is as old as its file."""
        self.report = Report()
        self._folder = folder
        self._since = since
        self._kinds: dict[str, str] = {}  # by run
        self._digests: dict[str, str] = {}  # run by digest
        if folder.is_dir():
            for head in map(samplefiles.read_head, samplefiles.paths(folder)):
                self._note(head.run, head.kind)

    def add_path(self, root: Path, *, one_run_per: str = "session") -> None:
        """Collects everything at or below a path.

        Args:
            root: a run's folder, a file, or a folder of either.
            one_run_per: what makes a run of several sessions or files: `session`, `file`, or `folder`.
        """
        together: dict[Path, list[tuple[Source, Found]]] = {}
        for source in sources.find(root):
            if self._too_old(source.modified, slack=_ONE_DAY if source.is_run else 0.0):
                self.report.old += 1
                continue
            unread = Unread(source=str(source.path))
            if source.is_run or one_run_per == "session":
                self._add_sessions(source, unread)
            else:
                found = list(sources.parse(source, unread))
                self._close(unread, bool(found))
                key = source.path if one_run_per == "file" else source.path.parent
                together.setdefault(key, []).extend((source, each) for each in found)
        for path, members in together.items():
            self._add_merged(path, members)

    def add_runs(self, runs: Iterable[Run], unread: Unread) -> None:
        """Collects runs that have ids of their own, such as those of a cluster."""
        found = False
        for run in runs:
            found = True
            self._write(run)
        self._close(unread, found)

    def _add_sessions(self, source: Source, unread: Unread) -> None:
        """Writes each run of a source as it comes, so that a log of any size is never in memory whole."""
        digests: Counter[str] = Counter()
        tables: list[Run] = []
        kinds: set[str] = set()
        for found in sources.parse(source, unread):
            run = _run(source, found, digests)
            kinds.add(found.kind)
            if self._write(run) and found.kind == "durations":
                tables.append(Run(run=run.run, when=None, kind=run.kind, source="", samples=run.samples[:0]))
        if {"block", "durations"} <= kinds:  # the same tests, as workers printed them: the block counts
            for run in tables:
                (self._folder / samplefiles.file_name(run.run)).unlink()
                self.report.runs["durations"] -= 1
            self.report.again.append(f"{source.path}: tables of a log that has blocks")
        self._close(unread, bool(kinds))

    def _add_merged(self, path: Path, members: list[tuple[Source, Found]]) -> None:
        kind = min((found.kind for _, found in members), key=KINDS.index)
        rows: dict[tuple[str, str | None, str | None], Sample] = {}
        counts: Counter[Path] = Counter()
        for source, found in members:
            counts[source.path] += 1
            if found.kind != kind:
                self.report.again.append(f"{source.path}: {found.kind} of a run that has {kind}")
                continue
            name = f"{source.path.name}#{counts[source.path]}"
            for sample in found.samples:
                own = sample if found.kind == "block" else replace(sample, pod=f"{name} {sample.pod or ''}".rstrip())
                rows.setdefault((own.id, own.pod, own.worker), own)
        times = [found.when if found.when is not None else source.modified for source, found in members]
        merged = Found(kind=kind, when=min(times), samples=tuple(rows.values()))
        self._write(_run(Source(path=path, is_run=False, modified=min(times)), merged, Counter()))

    def _write(self, run: Run) -> bool:
        """Writes a run unless it is too old or told already; returns whether it was written."""
        if run.when is not None and self._too_old(run.when):
            self.report.old += 1
            return False
        _, at, digest = run.run.rpartition("@")
        there = self._digests.get(digest, run.run) if at else run.run
        kind = self._kinds.get(there)
        if there != run.run or (kind is not None and KINDS.index(kind) < KINDS.index(run.kind)):
            self.report.again.append(f"{run.source}: {run.kind} of the run {there}, which {kind} told already")
            return False
        if "@" not in run.run and kind == run.kind and self._shrinks(run):
            self.report.again.append(f"{run.source}: the run {run.run} had more rows before; are logs gone?")
            return False
        samplefiles.write(self._folder, run)
        self._note(run.run, run.kind)
        self.report.runs[run.kind] += 1
        self.report.rows[run.kind] += len(run.samples)
        return True

    def _shrinks(self, run: Run) -> bool:
        """Whether less is left of a run than is stored: pods are deleted with their logs, the samples stay."""
        path = self._folder / samplefiles.file_name(run.run)
        return path.is_file() and samplefiles.read_head(path).rows > len(run.samples)

    def _note(self, run: str, kind: str) -> None:
        self._kinds[run] = kind
        if "@" in run:
            self._digests[run.rpartition("@")[2]] = run

    def _too_old(self, when: float, slack: float = 0.0) -> bool:
        return self._since is not None and when < self._since - slack

    def _close(self, unread: Unread, found: bool) -> None:
        self.report.hidden += unread.hidden
        if not found:
            self.report.silent.append(unread.source)
        if unread.total:
            self.report.unread.append(unread)


def _run(source: Source, found: Found, digests: Counter[str]) -> Run:
    """Returns a found run with an id: a run folder's name, or a file's name with a digest of what was found.

    So a file that is copied, packed or renamed by its folder is the same run, and `latest.log` with new content is
    another one. Sessions that are equal to the last digit are told apart by their order in the file.
    """
    when = found.when if found.when is not None else source.modified + digests.total() * _TICK
    if source.is_run:
        return Run(
            run=source.path.resolve().name, when=when, kind=found.kind, source=str(source.path), samples=found.samples
        )
    digest = _digest(found)
    digests[digest] += 1
    count = f"-{digests[digest]}" if digests[digest] > 1 else ""
    name = _PACKED.sub("", source.path.name)
    return Run(
        run=f"{name}@{digest}{count}", when=when, kind=found.kind, source=str(source.path), samples=found.samples
    )


def _digest(found: Found) -> str:
    head = json.dumps([found.kind, found.when, found.seal])
    digest = hashlib.sha256(head.encode("ascii"))
    for part in _texts(found.samples):
        digest.update(part.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:_DIGEST_CHARACTERS]


def _texts(rows: Iterable[Sample]) -> Iterator[str]:
    for row in rows:
        yield f"{row.id}\0{row.seconds}\0{row.outcome}\0{row.pod}\n"
