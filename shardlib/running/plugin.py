"""The pytest plugin inside a worker: takes a group when told, runs its tests, reports as it goes.

Session fixtures live as long as the worker; module fixtures end with the group, because the last test of a group is
given a boundary item, whose parent is the Session, as its next one.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from shardlib.collecting.items import describe, register_marker
from shardlib.model import Outcome
from shardlib.running import outcome as outcomes
from shardlib.running.files import FileCollector
from shardlib.running.protocol import CommandChannel, EventChannel
from shardlib.settings import Settings


class Boundary(pytest.Item):
    """The `nextitem` at a group's end: it shares no collector but the Session with any test."""

    def runtest(self) -> None:
        """Never called."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Order:
    """What the runner asks for: tests of one file in this order; `siblings` are the file's tests in other groups."""

    group: str
    file: str
    mode: str
    gpus: int
    tests: tuple[str, ...]
    siblings: tuple[str, ...]


class WorkerPlugin:
    """Drives one worker process; `receive` gives the next order, None to end."""

    def __init__(
        self,
        events: EventChannel,
        commands: CommandChannel,
        *,
        receive: Callable[[dict[str, Any]], Order | None],
        files: FileCollector,
        settings: Settings,
        rootdir: str,
        cache_dir: Path,
        started: float,
    ) -> None:
        """Takes the channels; `rootdir` is the plan's, `started` the monotonic time of the process's start."""
        self._events = events
        self._commands = commands
        self._receive = receive
        self._files = files
        self._settings = settings
        self._rootdir = rootdir
        self._cache_dir = cache_dir
        self._started = started
        self._pid = os.getpid()
        self._any_bad = False
        self._tries = outcomes.Tries()
        self._shared_seconds: dict[str, float] = {}
        self._fixture_depth = 0

    @pytest.hookimpl
    def pytest_configure(self, config: pytest.Config) -> None:
        """Declares the marker, as collecting did (`--strict-markers`), and gives this process a cache of its own."""
        register_marker(config, self._settings)
        if hasattr(config, "cache"):  # `-o cache_dir` would be an unknown key under `-p no:cacheprovider`
            config.cache._cachedir = self._cache_dir

    def _compare(self, items: dict[str, pytest.Item], order: Order) -> tuple[list[str], list[str]]:
        """Returns what the plan has and this process lacks, and what it has that the plan lacks."""
        known = {*order.tests, *order.siblings}
        missing = [test for test in order.tests if test not in items]
        extra = []
        for node_id, item in items.items():
            if node_id not in known:
                test = describe(item, self._settings)
                if (test.mode.value, test.gpus) == (order.mode, order.gpus):
                    extra.append(node_id)
        return missing, extra

    # --- running ----------------------------------------------------------------------------------------------------

    @pytest.hookimpl
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Serves the runner's orders until it says that there are no more."""
        if str(session.config.rootpath) != self._rootdir:
            raise pytest.UsageError(f"rootdir is {session.config.rootpath} here, but {self._rootdir} in the plan")
        cwd = Path.cwd()
        self._events.send("ready", seconds=time.monotonic() - self._started)
        while (command := self._commands.receive()) is not None:
            order = self._receive(command)
            if order is None:
                break
            os.chdir(cwd)  # a test of the group before may have left it elsewhere
            if not self._run_group(session, order):
                break
        self._end_session(session)
        return True

    def _run_group(self, session: pytest.Session, order: Order) -> bool:
        """Runs one group; returns whether this process is fit for another."""
        began = time.monotonic()
        collected = self._files.collect(session, order.file)
        items = collected.items
        missing, extra = self._compare(items, order)
        self._events.send(
            "collected",
            seconds=time.monotonic() - began,
            missing=missing,
            extra=extra,
            errors=collected.errors if missing else [],
        )
        if missing and not self._goes_on():
            return False
        todo = [items[test] for test in order.tests if test in items]
        boundary = Boundary.from_parent(session, name="shardlib: end of group")
        for item, following in zip(todo, [*todo[1:], boundary]):  # noqa: B905  # all may be missing
            if self._commands.waits():  # only "halt", or the runner's end, can come before the group's end
                return False
            if not self._run_test(session, item, following):
                return False
        self._events.send("group_done")
        return True

    def _goes_on(self) -> bool:
        """Asks the runner whether to run a group of which tests are missing, or to leave it to a fresh process."""
        command = self._commands.receive()
        return command is not None and command.get("command") == "go on"

    def _run_test(self, session: pytest.Session, item: pytest.Item, following: pytest.Item) -> bool:
        """Runs one test and reports it; returns whether this process is fit for another."""
        self._tries = outcomes.Tries()
        self._shared_seconds = {}
        self._fixture_depth = 0
        self._events.send("start", id=item.nodeid)
        retire = None
        result: dict[str, Any] = {}
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        except (KeyboardInterrupt, pytest.exit.Exception) as interruption:
            text = f"{type(interruption).__name__} ended the pytest session inside this test: {interruption}"
            result = {"outcome": Outcome.FAILED.value, "reason": text[:500], "detail": text[:2000]}
            retire = "the test ended its pytest session"
        if os.getpid() != self._pid:
            os._exit(0)  # a child that a test forked and let return into pytest: the parent goes on with the session
        result = {**self._result(), **result}
        if result["outcome"] == Outcome.POISONED.value:
            retire = f"sticky CUDA error: {result['note']}"
        elif retire is None and any(getattr(stream, "closed", False) for stream in (sys.stdout, sys.stderr)):
            retire = "the test closed its output streams"
        elif retire is None and (session.shouldstop or session.shouldfail):
            retire = f"a plugin or test asked pytest to stop: {session.shouldstop or session.shouldfail}"
        self._events.send("finish", id=item.nodeid, **result, retire=retire)
        self._any_bad |= retire is not None or not Outcome(result["outcome"]).ok
        return retire is None

    def _result(self) -> dict[str, Any]:
        tries = self._tries
        limit = self._settings.max_detail_bytes
        result: dict[str, Any] = {"outcome": tries.outcome().value, "seconds": round(tries.seconds, 6)}
        if self._shared_seconds:
            result["shared_seconds"] = {scope: round(seconds, 6) for scope, seconds in self._shared_seconds.items()}
        if reason := tries.reason():
            result["reason"] = reason[:500]
        if tries.reruns:
            result["reruns"] = tries.reruns
        if failures := tries.failures():
            result["detail"] = outcomes.detail(failures, limit)
            if sticky := outcomes.sticky_error(failures, self._settings.sticky_errors):
                result |= {"outcome": Outcome.POISONED.value, "note": sticky}
        elif not tries.reports:
            result["reason"] = "pytest reported nothing for this test"
        return result

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Streams each failure as it happens, so that a process that dies later loses none; the rest may wait."""
        self._tries.add(report)
        fields = outcomes.report_fields(report, self._settings.max_detail_bytes)
        self._events.send("report", later=not report.failed, id=report.nodeid, **fields)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        """Measures what fixtures that outlive a test cost, so that a file's setup is not learnt as its first test's."""
        if fixturedef.scope == "function" or self._fixture_depth:
            yield
            return
        began = time.monotonic()
        self._fixture_depth += 1
        try:
            yield
        finally:
            self._fixture_depth -= 1
            spent = time.monotonic() - began
            self._shared_seconds[fixturedef.scope] = self._shared_seconds.get(fixturedef.scope, 0.0) + spent

    def _end_session(self, session: pytest.Session) -> None:
        """Ends the session fixtures now, while a failure can still be told as the last test's."""
        try:
            session._setupstate.teardown_exact(None)
        except BaseException as error:  # noqa: BLE001  # pytest.fail and SystemExit too, as pytest itself reports them
            self._any_bad = True
            self._end_failed(f"ending the session's fixtures failed: {type(error).__name__}: {error}")

    def ended(self, status: int) -> None:
        """Tells the runner if pytest's exit status says more than the tests' outcomes: a hook failed the session."""
        fine = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        if status not in fine and not self._any_bad:
            self._end_failed(f"pytest's exit status is {status} though no test failed: a plugin or a conftest.py did")

    def _end_failed(self, text: str) -> None:
        self._events.send("end_failed", text=text[: self._settings.max_detail_bytes])
