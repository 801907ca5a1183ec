"""The run's folder: all that the steps of a run share. The only module that touches it.

One writer for each file, complete the moment its name exists; readers treat it as hostile (`safefiles`, `records`).
docs/architecture.md has the layout.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from shardlib import records, safefiles
from shardlib.errors import PlanError, RunFolderError, ShardlibError
from shardlib.plan import Plan
from shardlib.records import Record

# Bounds for hostile files; each is far above what a large run writes (guesses).
MAX_PLAN_BYTES = 1 << 30  # 1,000,000 tests with ids of 500 characters
MAX_RECORD_BYTES = 4 << 20
MAX_DURATIONS_BYTES = 256 << 20
MAX_RESULT_BYTES = 512 << 20  # a file's tests, each with at most `max_detail_bytes` of text
MAX_EVENTS_BYTES = 8 << 30
MAX_EVENT_BYTES = 64 << 20  # one line: the ids that a worker misses, or one failure's text

_SHARD = re.compile(r"[0-9]{2,9}|cpu")
_GROUP = re.compile(r"g[0-9]{5,9}")
_ATTEMPT = re.compile(r"(0|[1-9][0-9]{0,5})\.(json|done)")
_RESULT = re.compile(r"(g[0-9]{5,9})\.(0|[1-9][0-9]{0,5})\.json")
_REPORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class RunFolder:
    """A run's folder, which need not exist yet."""

    path: Path

    def begin(self, image: str) -> Path | None:
        """Makes the folder one for an image; returns where what was found of another image was put, None if nothing was.

        A workflow that starts again before its build gets another image, of which nothing is proved by what ran in the
        first one. The collection stays: it is newer than the build.
        """
        data = safefiles.read_bytes(self.path, ("plan", "image"), limit=MAX_RECORD_BYTES)
        if data == image.encode("utf-8"):
            return None
        found = safefiles.names(self.path, ())
        aside = ("earlier", str(len(safefiles.names(self.path, ("earlier",))) + 1))
        left = [name for name in ("shards", "report", "plan") if name in found]  # the plan, with the mark in it, last
        for name in left:
            safefiles.move(self.path, (name,), (*aside, name))
        safefiles.replace(self.path, ("plan", "image"), image.encode("utf-8"))
        return self.path.joinpath(*aside) if left else None

    def write_plan(self, plan: Plan) -> None:
        """Stores the plan; one with the same digest that is there already is success.

        Raises:
            RunFolderError: another plan is there, and a shard has started with it.
        """
        text = plan.dumps().encode("ascii")
        if safefiles.create(self.path, ("plan", "plan.json"), text):
            return
        try:
            there = self.read_plan().digest
        except PlanError as err:
            there = f"unreadable ({err})"
        if there == plan.digest:
            return
        if self.has_attempts():
            raise RunFolderError(
                f"{self.path}: shards have started with another plan (digest {there}, not {plan.digest}); "
                "use a new folder, or plan with the same tests and arguments to resume"
            )
        safefiles.replace(self.path, ("plan", "plan.json"), text)

    def read_plan(self) -> Plan:
        """Returns the stored plan; RunFolderError if there is none, PlanError if it is malformed."""
        where = self.path / "plan" / "plan.json"
        data = safefiles.read_bytes(self.path, ("plan", "plan.json"), limit=MAX_PLAN_BYTES)
        if data is None:
            raise RunFolderError(f"{where}: no such file; `shardlib plan --run {self.path} --shards N` writes it")
        try:
            return Plan.loads(data.decode("ascii"), str(where))
        except UnicodeDecodeError as err:
            raise PlanError(
                f"{where}: byte {err.start} is not ASCII; plans are written by `shardlib plan` only"
            ) from err

    @property
    def collection_path(self) -> Path:
        """Where what pytest collected is kept, as `document` reads it."""
        return self.path / "collect" / "collect.json"

    def write_collection(self, text: str) -> None:
        """Keeps what pytest collected, in the place of an older one; a workflow's collect-tests brings its own."""
        safefiles.replace(self.path, ("collect", "collect.json"), text.encode("ascii"))

    def brought_durations(self) -> Path | None:
        """Returns the path of the durations file that `collect` brought along; None if it brought none.

        Raises:
            RunFolderError: it is no regular file, or too large. What it says is for the reader to check.
        """
        parts = ("collect", "durations.json")
        stream = safefiles.open_stream(self.path, parts, limit=MAX_DURATIONS_BYTES)
        if stream is None:
            return None
        stream.close()
        return self.path.joinpath(*parts)

    def make_shard_folders(self, names: Iterable[str]) -> None:
        """Makes each shard's folder, for pods that can write nowhere else and run as a user of their own.

        Each pod gets only its own folder mounted, so that it may be open to all. Empty ones of an earlier plan go.
        """
        wanted = set(names)
        for name in wanted:
            _match(_SHARD, name, self.path / "shards")
        for name in sorted(wanted):
            safefiles.make_open_folder(self.path, ("shards", name))
        for name in set(self.shard_names()) - wanted:
            with suppress(OSError):  # one that is not empty is a stranger, and for the verdict to name
                (self.path / "shards" / name).rmdir()

    def has_attempts(self) -> bool:
        """Whether a shard of any plan has started in this folder."""
        return any(self.shard(name).attempts() for name in self.shard_names())

    def shard_names(self) -> list[str]:
        """Returns the names of the shards that have a folder; RunFolderError if something else lies there."""
        found = safefiles.names(self.path, ("shards",))
        for name in found:
            _match(_SHARD, name, self.path / "shards")
        return found

    def shard(self, name: str) -> ShardFolder:
        """Returns the folder of one shard, which need not exist."""
        _match(_SHARD, name, self.path / "shards")
        return ShardFolder(self.path, name)

    def log_path(self, name: str) -> Path:
        """Returns where `local` keeps what a shard printed; its folder is made. In a pod, the pod's log has it."""
        _match(_SHARD, name, self.path / "logs")
        path = self.path / "logs" / f"{name}.log"
        path.parent.mkdir(exist_ok=True)
        return path

    def report_path(self, name: str) -> Path:
        """Returns the path of a file of the report."""
        _match(_REPORT, name, self.path / "report")
        return self.path / "report" / name

    def write_report(self, name: str, text: str) -> Path:
        """Writes a file of the report at once, in the place of an older one; returns its path."""
        path = self.report_path(name)
        safefiles.replace(self.path, ("report", name), text.encode("utf-8"))
        return path


@dataclass(frozen=True)
class ShardFolder:
    """One shard's part of the run's folder: the only place that the shard's runner writes to."""

    root: Path
    name: str

    def attempts(self) -> list[int]:
        """Returns the numbers of the shard's attempts, ascending."""
        return sorted(number for number, kind in self._attempt_files() if kind == "json")

    def start_attempt(self, body: Record) -> int:
        """Returns the number k of a new attempt, after it was recorded as `body` with "attempt": k.

        Two runners that start at the same moment get two numbers.
        """
        attempt = max(self.attempts(), default=-1) + 1
        while not self._create(("attempts", f"{attempt}.json"), {**body, "attempt": attempt}):
            attempt += 1
        return attempt

    def read_attempt(self, attempt: int) -> Record:
        """Returns the record of an attempt's start; RunFolderError if there is none."""
        body = self._read(("attempts", f"{attempt}.json"), records.ATTEMPT, limit=MAX_RECORD_BYTES)
        if body is None:
            raise RunFolderError(f"{self._path('attempts', f'{attempt}.json')}: no such attempt")
        return body

    def finish_attempt(self, attempt: int, body: Record) -> None:
        """Records how an attempt ended, last of all; RunFolderError if that is recorded already."""
        if not self._create(("attempts", f"{attempt}.done"), {**body, "attempt": attempt}):
            raise RunFolderError(f"{self._path('attempts', f'{attempt}.done')}: exists; an attempt ends once")

    def read_done(self, attempt: int) -> Record | None:
        """Returns how an attempt ended, or None if it did not (yet): it was killed, or still runs."""
        return self._read(("attempts", f"{attempt}.done"), records.DONE, limit=MAX_RECORD_BYTES)

    def event_log(self, attempt: int) -> EventLog:
        """Returns the new log of an attempt's events; RunFolderError if it exists."""
        parts = self._parts("events", f"{attempt}.jsonl")
        return EventLog(safefiles.open_append(self.root, parts), self.root.joinpath(*parts))

    def read_events(self, attempt: int) -> Iterator[Record]:
        """Yields an attempt's events in order; a last line without its end is one that was never written whole.

        Raises:
            RunFolderError: naming file and line that hold something else.
        """
        parts = self._parts("events", f"{attempt}.jsonl")
        where = self.root.joinpath(*parts)
        stream = safefiles.open_stream(self.root, parts, limit=MAX_EVENTS_BYTES)
        if stream is None:
            return
        with stream:
            number = 0
            while line := stream.readline(MAX_EVENT_BYTES + 1):
                number += 1
                if len(line) > MAX_EVENT_BYTES:
                    raise RunFolderError(f"{where}:{number}: a line of more than {MAX_EVENT_BYTES} bytes")
                if not line.endswith(b"\n"):
                    return
                yield records.loads(line, f"{where}:{number}", records.EVENT)

    def write_result(self, group: str, body: Record) -> int:
        """Returns the version c under which the group's result was recorded, as `body` with "version": c."""
        _match(_GROUP, group, self._path("results"))
        version = max(self.results().get(group, []), default=-1) + 1
        while not self._create(("results", f"{group}.{version}.json"), {**body, "version": version}):
            version += 1
        return version

    def results(self) -> dict[str, list[int]]:
        """Returns the versions there are by group, ascending; the last one counts."""
        found: dict[str, list[int]] = {}
        for name in safefiles.names(self.root, self._parts("results")):
            match = _match(_RESULT, name, self._path("results"))
            found.setdefault(match[1], []).append(int(match[2]))
        return {group: sorted(versions) for group, versions in found.items()}

    def read_result(self, group: str, version: int) -> Record:
        """Returns one version of a group's result; RunFolderError if there is none."""
        parts = ("results", f"{group}.{version}.json")
        body = self._read(parts, records.RESULT, limit=MAX_RESULT_BYTES)
        if body is None:
            raise RunFolderError(f"{self._path(*parts)}: no such result")
        records.check_tests(body, str(self._path(*parts)))
        return body

    def _attempt_files(self) -> Iterator[tuple[int, str]]:
        for name in safefiles.names(self.root, self._parts("attempts")):
            match = _match(_ATTEMPT, name, self._path("attempts"))
            yield int(match[1]), match[2]

    def _create(self, parts: tuple[str, ...], body: Record) -> bool:
        return safefiles.create(self.root, self._parts(*parts), records.dumps(body))

    def _read(self, parts: tuple[str, ...], shape: records.Shape, *, limit: int) -> Record | None:
        data = safefiles.read_bytes(self.root, self._parts(*parts), limit=limit)
        return None if data is None else records.loads(data, str(self._path(*parts)), shape)

    def _parts(self, *parts: str) -> tuple[str, ...]:
        return ("shards", self.name, *parts)

    def _path(self, *parts: str) -> Path:
        return self.root.joinpath(*self._parts(*parts))


class EventLog:
    """What happens in one attempt, as JSON lines, each appended by one write."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self.path = path
        self._descriptor = descriptor

    def append(self, event: Record) -> None:
        """Appends one event; InfrastructureError if the disk is full or the mount is lost."""
        safefiles.write(self._descriptor, records.dumps(event), self.path)

    def sync(self) -> None:
        """Waits until all events are on the disk; errors as in `append`."""
        safefiles.sync(self._descriptor, self.path)

    def close(self) -> None:
        """Syncs and closes the log; a second call does nothing."""
        if self._descriptor >= 0:
            with suppress(ShardlibError):  # the reason to stop may be that the disk is gone
                self.sync()
            os.close(self._descriptor)
            self._descriptor = -1


def _match(pattern: re.Pattern[str], name: str, where: Path) -> re.Match[str]:
    match = pattern.fullmatch(name)
    if match is None:
        raise RunFolderError(f"{where}: {name[:100]!r} does not belong here (expected {pattern.pattern})")
    return match
