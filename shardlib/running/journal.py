"""What a shard's attempt tells: events as they happen, results by group, lines for a person, progress for Argo."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from shardlib.escape import printable
from shardlib.model import Group, Outcome, Shard
from shardlib.resume import TestState
from shardlib.shardfolder import EventLog, ShardFolder

# Lines of a failure's text that the log shows; the report has all of it.
_DETAIL_LINES = 40


class Journal:
    """The one writer of a shard's events and results; `say` prints a line."""

    def __init__(
        self,
        *,
        folder: ShardFolder,
        shard: Shard,
        attempt: int,
        digest: str,
        groups: Mapping[str, Group],
        states: dict[str, TestState],
        say: Callable[[str], None],
        progress_file: Path | None = None,
    ) -> None:
        """`groups` are the shard's own; `states` those of all their tests, as earlier attempts left them."""
        self._folder = folder
        self._log: EventLog = folder.event_log(attempt)
        self._shard = shard
        self._attempt = attempt
        self._digest = digest
        self._group_of = {test.id: group for group in groups.values() for test in group.tests}
        self._states = states
        self._say = say
        self._progress_file = progress_file
        self._began = time.monotonic()
        self._extra: dict[str, list[str]] = {}
        self._done = sum(not state.open for state in states.values())
        self.notes: list[str] = []
        self._progress()

    # --- events -----------------------------------------------------------------------------------------------------

    def event(self, event: str, **fields: Any) -> None:
        """Appends one event."""
        self._log.append({"t": round(time.monotonic() - self._began, 6), "event": event, **fields})

    def note(self, text: str) -> None:
        """Records and prints something that a person should know and that decides nothing."""
        self.notes.append(text)
        self.event("note", text=text)
        self._line(f"note: {text}")

    def finish(self, test: str, outcome: Outcome, **fields: Any) -> None:
        """Records a test's outcome; called again for the same test, the later word counts."""
        body = {"id": test, "outcome": outcome.value, "seconds": 0.0, **fields}
        self.event("finish", group=self._group_of[test].id, **body)
        self._done += self._states[test].open
        self._states[test].finish(self._attempt, body)
        if not outcome.ok:
            self._line(f"{outcome.value.upper()} {printable(test)} - {printable(body.get('reason', ''))}")
            for line in str(body.get("detail", "")).splitlines()[-_DETAIL_LINES:]:
                self._say(f"    | {printable(line)}")
        self._progress()

    def knows(self, group: str, test: str) -> bool:
        """Whether the test is one of the group's: what a worker says is not believed beyond that."""
        return test in self._group_of and self._group_of[test].id == group

    def group_of(self, test: str) -> Group:
        """Returns the group of a planned test."""
        return self._group_of[test]

    def add_extra(self, group: str, tests: Iterable[str]) -> None:
        """Remembers what a worker collected beyond the plan, for the group's result."""
        known = self._extra.setdefault(group, [])
        for test in tests:
            if test not in known:
                known.append(test)
                self._line(f"EXTRA {printable(test)} - collected here, but not in the plan")

    # --- results ----------------------------------------------------------------------------------------------------

    def group_done(self, group: Group, *, seconds: float, where: str, leftover_bytes: int | None = None) -> None:
        """Records a complete group's result and prints its line and its durations block."""
        more = {} if leftover_bytes is None else {"leftover_bytes": leftover_bytes}
        self.event("group", group=group.id, seconds=round(seconds, 6), **more)
        self.write_result(group)
        self._line(
            f"{group.id} {printable(group.file)}  {group.mode.value} on {where}: {len(group.tests)} tests in {seconds:.1f} s "
            f"(planned {group.cost_ms / 1000:.1f} s)  {self._done}/{len(self._states)} tests done"
        )
        self._durations_block(group)

    def write_result(self, group: Group) -> None:
        """Writes the group's next result version, after its events are on the disk."""
        self._log.sync()
        self._folder.write_result(
            group.id,
            {
                "digest": self._digest,
                "shard": self._shard.name,
                "group": group.id,
                "attempt": self._attempt,
                "tests": [self._states[test.id].counted() for test in group.tests],
                "extra": self._extra.get(group.id, []),
            },
        )

    def is_complete(self, group: Group) -> bool:
        """Whether each of the group's tests has an outcome."""
        return all(not self._states[test.id].open for test in group.tests)

    def is_written(self, group: Group) -> bool:
        """Whether the group's last result version says what its tests' states say."""
        versions = self._folder.results().get(group.id)
        if not versions:
            return False
        written = self._folder.read_result(group.id, versions[-1])["tests"]
        return bool(written == [self._states[test.id].counted() for test in group.tests])

    def failures(self) -> list[str]:
        """Returns the node ids that do not pass, unfinished ones too."""
        return [test for test, state in self._states.items() if state.open or not state.passed]

    def failure_lines(self) -> list[str]:
        """Returns a line for each of them: what happened, which test, why."""
        lines = []
        for test in self.failures():
            state = self._states[test]
            event = {"outcome": "unfinished"} if state.open else state.history[-1][1]
            lines.append(f"{event['outcome'].upper()} {printable(test)} - {printable(event.get('reason', ''))}")
        return lines

    def extras(self) -> list[str]:
        """Returns everything that was collected beyond the plan in this attempt."""
        return [test for tests in self._extra.values() for test in tests]

    def close(self) -> None:
        """Ends the event log."""
        self._log.close()

    # --- for people -------------------------------------------------------------------------------------------------

    def _line(self, text: str) -> None:
        self._say(f"[{time.monotonic() - self._began:7.1f} s] {text}")

    def _durations_block(self, group: Group) -> None:
        """Prints what docs/architecture.md calls the log's block: what any log reader can find again."""
        rows = []
        for test in group.tests:
            attempt, event = self._states[test.id].history[-1]
            if attempt == self._attempt:
                node_id = json.dumps(test.id, ensure_ascii=True)
                rows.append(f"PYTEST-DURATION {event['seconds']:.3f} {event['outcome']} {group.mode.value} {node_id}")
        head = f"shard={self._shard.name} attempt={self._attempt} group={group.id} tests={len(rows)}"
        for line in (f"PYTEST-DURATION-BEGIN v1 {head}", *rows, f"PYTEST-DURATION-END group={group.id}"):
            self._say(line)

    def _progress(self) -> None:
        """Writes `done/total` where Argo reads it; a progress file that cannot be written stops nothing."""
        if self._progress_file is not None and self._states:
            try:
                self._progress_file.write_text(f"{self._done}/{len(self._states)}\n", encoding="ascii")
            except OSError:
                self._progress_file = None
