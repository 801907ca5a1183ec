"""Any log of pytest: `--durations` tables of every version, and our runner's PYTEST-DURATION blocks.

Lines are told apart by what they look like behind their prefixes, so that timestamps, pods, colours and progress bars
do not matter, and shards may be interleaved where their lines name them. A log is passed over quickly: only pieces in
which one of a few words stands are looked at by line.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

from shardlib.weights import prefixes, streams
from shardlib.weights.blocks import Blocks
from shardlib.weights.findings import Found, Unread
from shardlib.weights.gathering import Gathering
from shardlib.weights.podlines import PodLines
from shardlib.weights.prefixes import Line
from shardlib.weights.sessions import Session

# A line outside a table has one of these, or it is of no interest: rows and outcomes name a test, which has `::`.
_WORDS = (
    *("::", "PYTEST-DURATION", "durations", "session starts", "timeout: "),
    *("passed", "failed", "skipped", "deselected", " error", "no tests ran"),
)


def parse(stream: io.BufferedReader, unread: Unread) -> Iterator[Found]:
    """Yields the runs of a log: each session with a table, and the blocks, as soon as they cannot grow any more.

    Which sessions under different prefixes are one run, `gathering` says.
    """
    reader = _Reader(unread)
    for number, text in streams.chunks(stream, unread):
        _read(reader, number, text)
        yield from reader.complete()
    yield from reader.complete(all_of_them=True)


def _read(reader: _Reader, number: int, text: str) -> None:
    """Gives the reader those of a piece's lines that matter; most are passed over without being cut out."""
    starts = _of_interest(text)
    at, next_start = 0, 0
    while at < len(text):
        start = at
        if not reader.in_table:
            while next_start < len(starts) and starts[next_start] < at:
                next_start += 1
            if next_start == len(starts):
                return
            start = starts[next_start]
            number += text.count("\n", at, start)
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        reader.read(number, text[start:end])
        at, number = end + 1, number + 1


def _of_interest(text: str) -> list[int]:
    """Returns where the lines begin that have one of the words; searching word by word is the fastest way (measured)."""
    starts = set()
    for word in _WORDS:
        found = text.find(word)
        while found >= 0:
            starts.add(text.rfind("\n", 0, found) + 1)
            end = text.find("\n", found)
            found = text.find(word, end) if end >= 0 else -1
    return sorted(starts)


class _Reader:
    """Sorts lines to the sessions of their prefixes."""

    def __init__(self, unread: Unread) -> None:
        self.unread = unread
        self._blocks = Blocks(unread)
        self._runs = Gathering()
        self._pods: dict[str | None, PodLines] = {}
        self._tables: set[str | None] = set()  # pods whose lines are in a table

    @property
    def in_table(self) -> bool:
        """Whether each line must be looked at: one that is no row would belong to a table."""
        return bool(self._tables)

    def read(self, number: int, line: str) -> None:
        """Takes one line; a progress bar that overwrote it may have left several texts in it."""
        first: Line | None = None
        for part in prefixes.bare(line).split("\r"):
            if not part.strip():
                continue
            text = prefixes.strip(part)
            if first is None:
                first = text
            elif text.pod is None:
                text = Line(text=text.text, pod=first.pod, worker=text.worker, stamp=first.stamp)
            if not self._blocks.read(number, text):
                self._read(number, text)

    def complete(self, *, all_of_them: bool = False) -> Iterator[Found]:
        """Yields the runs that no further line can belong to."""
        if all_of_them:
            for pod in self._pods.values():
                self._end(pod.session)
        yield from self._blocks.complete(all_of_them=all_of_them)
        yield from self._runs.complete(all_of_them=all_of_them)

    def _read(self, number: int, line: Line) -> None:
        pod = self._pods.get(line.pod) or PodLines(line.pod, self.unread, self._end)
        pod.read(number, line)
        if pod.session is None:
            self._pods.pop(line.pod, None)
        else:
            self._pods[line.pod] = pod
        if pod.in_table:
            self._tables.add(line.pod)
        else:
            self._tables.discard(line.pod)

    def _end(self, session: Session | None) -> None:
        if session is not None:
            self._runs.add(session)
