"""The lines of one pod in a log, without their prefixes: pytest sessions, with the tables and outcomes in them.

Which session a line belongs to depends on the lines before it: a header opens a table, a summary ends the session.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from shardlib.weights import prefixes, sessions
from shardlib.weights.findings import Unread
from shardlib.weights.prefixes import Line
from shardlib.weights.sessions import Session

PATIENCE = 20
"""So many lines in a row that are no rows end a table whose end was lost; seen ones have at most one."""

# All of these see a line without the blanks around it, and take time linear in its length, however it was made.
_HEADER = re.compile(r"=*\s*slowest\s+(?:(\d+)\s+)?(?:test\s+)?durations\s*=*")
_HIDDEN = re.compile(r"\((\d+(?:\.\d+)?) durations(?: < (\d{1,9}(?:\.\d+)?(?:e-\d+)?)s)? hidden\..*")
_SUMMARY = re.compile(
    r"(?:=+\s*)?(?:no tests ran|\d+ [a-z]+(?: [a-z]+)?(?:, \d+ [a-z]+(?: [a-z]+)?)*) in (\d+(?:\.\d+)?)(?:s| seconds)\b.*"
)
_START = re.compile(r"={3,} test session starts ={3,}")
_LIMIT = re.compile(r"timeout: (\d{1,9}(?:\.\d+)?)s")
_RULE = re.compile(r"={3,}|-{3,}|_{3,}|!{3,}")
_OUTCOME = r"(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS|RERUN)"
_PROGRESS = re.compile(rf" {_OUTCOME}(?= \(|$)")
_PERCENT = re.compile(r"\[\s{0,3}\d{1,3}%\]$")
_ENDING = re.compile(rf"{_OUTCOME} (\S.*::.*)")  # of the short summary; of xdist's progress
_SUBTEST = re.compile(r"SUB(?:PASSED|FAILED|SKIPPED)|\d+ subtests passed")


class PodLines:
    """The session that the lines with one prefix are in; `end` gets each that has ended."""

    def __init__(self, pod: str | None, unread: Unread, end: Callable[[Session], None]) -> None:
        self.session: Session | None = None
        self.in_table = False
        self._pod = pod
        self._unread = unread
        self._end = end
        self._strange = 0  # lines since the last row that a table should not have

    def read(self, number: int, line: Line) -> None:
        """Takes one line without its prefix."""
        text = line.text.strip()
        if row := sessions.ROW.fullmatch(text) or sessions.MARKDOWN_ROW.fullmatch(text):
            self._row(number, line, row)
        elif header := _HEADER.fullmatch(text):
            self._header(line, longest_only=header[1] is not None)
        elif hidden := _HIDDEN.fullmatch(text):
            self._hidden(hidden)
        elif summary := _SUMMARY.fullmatch(text):
            self._summary(summary)
        elif _START.fullmatch(text):
            self._close_table(finished=False)
            if self.session is not None and self.session.headers:
                self._begin(line)
        elif not self._other(line, text) and self.in_table and text:
            self._stranger(number, text)

    def _begin(self, line: Line) -> Session:
        if self.session is not None:
            self._end(self.session)
        self.session = Session(pod=self._pod, when=prefixes.seconds(line.stamp))
        return self.session

    def _open(self, line: Line) -> Session:
        """Returns the session that goes on, or a new one."""
        return self.session or self._begin(line)

    def _row(self, number: int, line: Line, row: re.Match[str]) -> None:
        node_id, seconds = row[3].rstrip(), float(row[1])
        file = node_id.partition("::")[0]
        if "::" not in node_id or not file or "\ufffd" in node_id:
            if self.in_table:
                self._unread.add(number, f"a row whose test is no node id: {line.text.strip()[:100]!r}")
            return
        if not self.in_table and re.search(r"\s", file):  # prose that looks like a row
            return
        self._strange = 0
        self._unread.seen["rows"] += 1
        self._open(line).add_row(node_id, row[2], seconds, line.worker)

    def _header(self, line: Line, *, longest_only: bool) -> None:
        """A table begins: of the session that goes on, or of a new one if that has ended."""
        session = self._open(line)
        if session.closed:
            session = self._begin(line)
        session.headers += 1
        session.longest_only |= longest_only
        self._unread.seen["tables"] += 1
        self.in_table, self._strange = True, 0

    def _hidden(self, hidden: re.Match[str]) -> None:
        session = self.session
        if session is None:
            return
        session.hidden_below = float(hidden[2] or 0)  # old versions say "(0.00 durations hidden."
        self._unread.hidden += int(hidden[1]) if hidden[2] else 0
        self._close_table(finished=True)

    def _summary(self, summary: re.Match[str]) -> None:
        """A session ends. Where prefixes tell shards apart it is complete; else another's rows may still come."""
        self._close_table(finished=True)
        session = self.session
        if session is None:
            return
        session.closed = True
        session.total = summary[1]
        session.subtests |= "subtests passed" in summary[0]
        if self._pod is not None:
            self._end(session)
            self.session = None

    def _close_table(self, *, finished: bool) -> None:
        if self.in_table and self.session is not None:
            self.session.finished |= finished
        self.in_table = False

    def _other(self, line: Line, text: str) -> bool:
        """Takes what is no part of a table; returns whether the line was known."""
        if _RULE.match(text):
            self._close_table(finished=True)
        elif limit := _LIMIT.fullmatch(text):
            self._fresh(line).limit = float(limit[1]) or None
        elif match := _ENDING.fullmatch(text):
            if line.worker:
                self._fresh(line).add_progress(match[2], match[1], line.worker)
            else:
                self._close_table(finished=True)
                self._open(line).add_ending(match[1], match[2])
        elif progress := _progress(text):
            self._fresh(line).add_progress(*progress, line.worker)
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
        self._unread.add(number, f"no row of the table around it: {text[:100]!r}")
        if self._strange >= PATIENCE:
            self._close_table(finished=False)


def _progress(text: str) -> tuple[str, str] | None:
    """Returns id and outcome of a line of `-v`: `ID PASSED`, perhaps with a reason in brackets and a percentage."""
    percent = _PERCENT.search(text, max(0, len(text) - len("[100%]")))
    text = text[: percent.start()].rstrip() if percent else text
    last = None
    for match in _PROGRESS.finditer(text):
        if match.end() == len(text) or text.endswith(")"):
            last = match
    if last is None or "::" not in text[: last.start()]:
        return None
    return text[: last.start()], last[1]
