"""Any log of pytest: `--durations` tables of every version, and our runner's PYTEST-DURATION blocks.

Lines are told apart by what they look like behind their prefixes, so that timestamps, pods, colours and progress bars
do not matter, and shards may be interleaved where their lines name them. A log is passed over quickly: only pieces in
which one of a few words stands are looked at by line.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

from shardlib.weights import prefixes, sessions, streams
from shardlib.weights.blocks import Blocks
from shardlib.weights.findings import Found, Unread
from shardlib.weights.prefixes import Line
from shardlib.weights.sessions import Session

PATIENCE = 20
"""So many lines in a row that are no rows end a table whose end was lost; seen ones have at most one."""

# A line outside a table has one of these, or it is of no interest: rows and outcomes name a test, which has `::`.
_WORDS = (
    *("::", "PYTEST-DURATION", "durations", "session starts", "timeout: "),
    *("passed", "failed", "skipped", "deselected", " error", "no tests ran"),
)

_HEADER = re.compile(r"\s*=*\s*slowest\s+(?:(\d+)\s+)?(?:test\s+)?durations\s*=*\s*")
_HIDDEN = re.compile(r"\s*\((\d+(?:\.\d+)?) durations(?: < (\d{1,9}(?:\.\d+)?(?:e-\d+)?)s)? hidden\..*")
_SUMMARY = re.compile(
    r"\s*=*\s*(?:no tests ran|\d+ [a-z]+(?: [a-z]+)?(?:, \d+ [a-z]+(?: [a-z]+)?)*) in (\d+(?:\.\d+)?)(?:s| seconds)\b.*"
)
_START = re.compile(r"\s*={3,} test session starts ={3,}\s*")
_LIMIT = re.compile(r"timeout: (\d{1,9}(?:\.\d+)?)s\s*")
_RULE = re.compile(r"\s*(?:={3,}|-{3,}|_{3,}|!{3,})")
_PROGRESS = re.compile(
    r"\s*(\S.*::.*) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS|RERUN)(?: \(.*\))?\s*(?:\[\s*\d+%\])?\s*"
)
_XDIST = re.compile(r"(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS|RERUN) (\S.*::.*?)\s*")
_ENDING = re.compile(r"(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS|RERUN) (\S.*::.*)")
_SUBTEST = re.compile(r"SUB(?:PASSED|FAILED|SKIPPED)|\d+ subtests passed")


def parse(stream: io.BufferedReader, unread: Unread) -> Iterator[Found]:
    """Yields the runs of a log: each session with a table, and the blocks, as soon as they cannot grow any more.

    Sessions that run at the same time under different prefixes are one run: the first of each prefix, the second, …
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
        self.blocks = Blocks(unread)
        self._units: dict[str | None, _Unit] = {}
        self._tables: set[str | None] = set()  # pods whose lines are in a table
        self._runs = 0  # so many were handed out

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
            if self.blocks.read(number, text):
                continue
            unit = self._units.get(text.pod)
            if unit is None:
                unit = _Unit(text.pod, self._runs, self.unread)
            unit.read(number, text)
            if unit.sessions:
                self._units[text.pod] = unit
            if unit.in_table:
                self._tables.add(text.pod)
            else:
                self._tables.discard(text.pod)

    def complete(self, *, all_of_them: bool = False) -> Iterator[Found]:
        """Yields the runs that no further line can belong to."""
        yield from self.blocks.complete(all_of_them=all_of_them)
        while self._units:
            last = max(unit.begun for unit in self._units.values())
            if self._runs >= last or not (all_of_them or all(u.begun > self._runs + 1 for u in self._units.values())):
                return
            members = [unit.sessions.pop(self._runs) for unit in self._units.values() if self._runs in unit.sessions]
            self._runs += 1
            samples = tuple(sample for session in members for sample in session.samples())
            if samples:
                times = [session.when for session in members if session.when is not None]
                seal = " ".join(session.total for session in members)
                yield Found(kind="durations", when=min(times, default=None), samples=samples, seal=seal)


class _Unit:
    """The sessions of the lines with one prefix, one after the other."""

    def __init__(self, pod: str | None, index: int, unread: Unread) -> None:
        self.sessions: dict[int, Session] = {}
        self.begun = index  # the number of sessions, those of other units before its first line included
        self.in_table = False
        self._pod = pod
        self._unread = unread
        self._strange = 0  # lines since the last row that a table should not have

    def read(self, number: int, line: Line) -> None:
        """Takes one line without its prefix."""
        text = line.text
        if row := sessions.ROW.fullmatch(text) or sessions.MARKDOWN_ROW.fullmatch(text):
            self._row(number, line, row)
        elif header := _HEADER.fullmatch(text):
            self._header(line, None if header[1] is None else int(header[1]))
        elif hidden := _HIDDEN.fullmatch(text):
            self._hidden(hidden)
        elif summary := _SUMMARY.fullmatch(text):
            self._summary(summary)
        elif _START.fullmatch(text):
            self._close_table(finished=False)
            if self._current is not None and self._current.headers:
                self._begin(line)
        elif not self._other(line) and self.in_table and text.strip():
            self._stranger(number, text)

    @property
    def _current(self) -> Session | None:
        return self.sessions.get(self.begun - 1)

    def _begin(self, line: Line) -> Session:
        """Returns a new session, in the place of one without a row: sessions are counted by their tables."""
        if self._current is not None and not self._current.rows:
            self.begun -= 1
        session = Session(pod=self._pod, when=prefixes.seconds(line.stamp))
        self.sessions[self.begun] = session
        self.begun += 1
        return session

    def _open(self, line: Line) -> Session:
        """Returns the session that goes on, or a new one."""
        return self._current or self._begin(line)

    def _row(self, number: int, line: Line, row: re.Match[str]) -> None:
        node_id, seconds = row[3].rstrip(), float(row[1])
        file = node_id.partition("::")[0]
        if "::" not in node_id or "\ufffd" in node_id:
            if self.in_table:
                self._unread.add(number, f"a row whose test is no node id: {line.text.strip()[:100]!r}")
            return
        if not self.in_table and (not file or re.search(r"\s", file)):  # prose that looks like a row
            return
        self._strange = 0
        self._unread.seen["rows"] += 1
        self._open(line).add_row(node_id, row[2], seconds, line.worker)

    def _header(self, line: Line, longest: int | None) -> None:
        """A table begins: of the session that goes on, or of a new one if that has ended."""
        session = self._open(line)
        if session.closed:
            session = self._begin(line)
        session.headers += 1
        session.longest_only |= longest is not None
        self._unread.seen["tables"] += 1
        self.in_table, self._strange = True, 0

    def _hidden(self, hidden: re.Match[str]) -> None:
        session = self._current
        if session is None:
            return
        session.hidden_below = float(hidden[2] or 0)  # old versions say "(0.00 durations hidden."
        self._unread.hidden += int(hidden[1]) if hidden[2] else 0
        self._close_table(finished=True)

    def _summary(self, summary: re.Match[str]) -> None:
        self._close_table(finished=True)
        session = self._current
        if session is not None:
            session.closed = True
            session.total = summary[1]
            session.subtests |= "subtests passed" in summary[0]

    def _close_table(self, *, finished: bool) -> None:
        if self.in_table and self._current is not None:
            self._current.finished |= finished
        self.in_table = False

    def _other(self, line: Line) -> bool:
        """Takes what is no part of a table; returns whether the line was known."""
        text = line.text
        if _RULE.match(text):
            self._close_table(finished=True)
        elif limit := _LIMIT.fullmatch(text):
            self._fresh(line).limit = float(limit[1]) or None
        elif match := _XDIST.fullmatch(text) if line.worker else None:
            self._fresh(line).add_progress(match[2], match[1], line.worker)
        elif match := _ENDING.fullmatch(text):
            self._close_table(finished=True)
            self._open(line).add_ending(match[1], match[2].rstrip())
        elif match := _PROGRESS.fullmatch(text):
            self._fresh(line).add_progress(match[1].strip(), match[2], line.worker)
        elif _SUBTEST.search(text):
            self._fresh(line).subtests = True
        else:
            return False
        return True

    def _fresh(self, line: Line) -> Session:
        """Returns the session that this line of its beginning or middle belongs to: never one that has ended."""
        session = self._open(line)
        return self._begin(line) if session.closed else session

    def _stranger(self, number: int, text: str) -> None:
        self._strange += 1
        self._unread.add(number, f"no row of the table around it: {text.strip()[:100]!r}")
        if self._strange >= PATIENCE:
            self._close_table(finished=False)
