"""Where samples come from on this machine: runs' folders and files below a path, each with the parser for its content."""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from shardlib.errors import WeightsError
from shardlib.weights import events, junit, logs, reportlog, splits, streams
from shardlib.weights.findings import Found, Unread

Parser = Callable[[io.BufferedReader, Unread], Iterator[Found]]

_HEAD_BYTES = 1 << 16
_NOT_LOGS = frozenset({".git", "__pycache__", "node_modules"})
_REPORT = re.compile(r'\{.{0,100000}"\$report_type"')
_DURATIONS = re.compile(r'\s*(?:\{\s*"(?:[^"\\]|\\.){1,20000}"\s*:\s*-?[\d.]|\[\s*\[\s*")')


@dataclass(frozen=True, kw_only=True)
class Source:
    """A run's folder or a file; `modified` is its unix time, which is no earlier than what it tells of."""

    path: Path
    is_run: bool
    modified: float


def find(root: Path) -> Iterator[Source]:
    """Yields the sources at or below a path, in order of their names; links below it are not followed.

    Raises:
        WeightsError: there is no such path, or it cannot be listed.
    """
    if events.is_run_folder(root):
        yield Source(path=root, is_run=True, modified=(root / "plan" / "plan.json").stat().st_mtime)
        return
    try:
        status = root.stat()
        if not stat.S_ISDIR(status.st_mode):
            if not stat.S_ISREG(status.st_mode):
                raise WeightsError(f"{root}: neither a folder nor a regular file")
            yield Source(path=root, is_run=False, modified=status.st_mtime)
            return
        with os.scandir(root) as entries:
            below = sorted(entries, key=lambda entry: entry.name)
    except OSError as err:
        raise WeightsError(f"cannot read {root}: {err.strerror}; is it what --from should name?") from err
    for entry in below:
        if entry.name in _NOT_LOGS or entry.is_symlink():
            continue
        if entry.is_dir() or entry.is_file():
            yield from find(Path(entry.path))


def parse(source: Source, unread: Unread) -> Iterator[Found]:
    """Yields the runs of a source."""
    if source.is_run:
        yield from events.parse(source.path, unread)
        return
    try:
        with source.path.open("rb") as raw:
            yield from parse_stream(streams.opened(raw), unread)
    except OSError as err:
        unread.add(None, f"cannot be read: {err.strerror or err}")


def parse_stream(stream: io.BufferedReader, unread: Unread) -> Iterator[Found]:
    """Yields the runs of a stream of bytes, parsed as what they look like."""
    try:
        head = stream.peek(_HEAD_BYTES)[:_HEAD_BYTES]
    except (EOFError, OSError):  # a broken archive: the parser says where
        head = b""
    yield from parser_for(head)(stream, unread)


def parser_for(head: bytes) -> Parser:
    """Returns the parser for a content, by its first bytes: names of files say little in CI."""
    text = head.decode(streams.encoding(head) or "latin-1", "replace").lstrip("\ufeff \t\r\n")
    if text.startswith(("<?xml", "<testsuite")):
        return junit.parse
    if _REPORT.match(text.partition("\n")[0]):
        return reportlog.parse
    if _DURATIONS.match(text):
        return splits.parse
    return logs.parse
