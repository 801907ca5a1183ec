"""One shard's part of the run's folder: its attempts, events and results.

One writer for each file, as in `runfolder`; readers treat it as hostile, since the code under test can write it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from shardlib import records, safefiles
from shardlib.errors import RunFolderError, ShardlibError
from shardlib.records import Record

# Bounds for hostile files; each is far above what a large run writes (guesses).
MAX_RECORD_BYTES = 4 << 20
MAX_RESULT_BYTES = 512 << 20  # a file's tests, each with at most `max_detail_bytes` of text
MAX_EVENTS_BYTES = 8 << 30
MAX_EVENT_BYTES = 64 << 20  # one line: the ids that a worker misses, or one failure's text

_GROUP = re.compile(r"g[0-9]{5,9}")
_ATTEMPT = re.compile(r"(0|[1-9][0-9]{0,5})\.(json|done)")
_RESULT = re.compile(r"(g[0-9]{5,9})\.(0|[1-9][0-9]{0,5})\.json")


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
        match_name(_GROUP, group, self._path("results"))
        version = max(self.results().get(group, []), default=-1) + 1
        while not self._create(("results", f"{group}.{version}.json"), {**body, "version": version}):
            version += 1
        return version

    def results(self) -> dict[str, list[int]]:
        """Returns the versions there are by group, ascending; the last one counts."""
        found: dict[str, list[int]] = {}
        for name in safefiles.names(self.root, self._parts("results")):
            match = match_name(_RESULT, name, self._path("results"))
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
            match = match_name(_ATTEMPT, name, self._path("attempts"))
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


def match_name(pattern: re.Pattern[str], name: str, where: Path) -> re.Match[str]:
    """Returns the match of a file's or folder's whole name; RunFolderError naming one that has another shape."""
    match = pattern.fullmatch(name)
    if match is None:
        raise RunFolderError(f"{where}: {name[:100]!r} does not belong here (expected {pattern.pattern})")
    return match
