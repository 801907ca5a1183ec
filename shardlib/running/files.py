"""A pytest plugin that collects one file after another in a living session, as if pytest collected them all at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from shardlib.collecting.items import file_of
from shardlib.running import outcome as outcomes
from shardlib.running.selection import Selection, select


@dataclass(frozen=True, kw_only=True)
class Collected:
    """A file's items by node id, and what could not be collected on the way to them."""

    items: dict[str, pytest.Item]
    errors: list[str]


class FileCollector:
    """The plugin; `collect` may be called from the run-test loop on."""

    def __init__(self, *, max_detail: int) -> None:
        """`max_detail` bounds the characters of an error."""
        self._max_detail = max_detail
        self._selection: Selection | None = None
        self._directories: dict[tuple[Path, pytest.Collector], pytest.Collector | None] = {}
        self._collected: dict[str, Collected] = {}
        self._errors: list[str] = []

    def collect(self, session: pytest.Session, name: str) -> Collected:
        """Returns what is in a file, named as `file_of` does; it is collected once in a worker's life."""
        if name not in self._collected:
            self._errors = []
            self._select(session, name)
            items = [item for item in session.items if file_of(item.path, session.config.rootpath) == name]
            self._collected[name] = Collected(items={item.nodeid: item for item in items}, errors=self._errors)
        return self._collected[name]

    def _select(self, session: pytest.Session, name: str) -> None:
        """Lets pytest collect, under every plugin's hooks, what of the user's arguments leads to the file."""
        config = session.config
        failed_before, arguments = session.testsfailed, config.args
        file = Path(os.path.normpath(config.rootpath / name))
        cwd, packages = config.invocation_params.dir, bool(config.getoption("pyargs"))
        self._selection = select(file, arguments, cwd=cwd, packages=packages)
        config.args = list(self._selection.arguments)
        # pytest 7 leaves out what an earlier collection saw, the `__init__.py` of a package too.
        getattr(config.pluginmanager, "_duplicatepaths", set()).clear()
        try:
            config.hook.pytest_collection(session=session)
        except pytest.UsageError as error:  # an argument that names something that is not there (any more)
            self._errors.append(str(error))
        finally:
            config.args = arguments
        # A collection error would otherwise make pytest end the session before its next test.
        session.testsfailed = failed_before

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> bool | None:
        """Collects nothing at the session's start, and later what `collect` asks pytest for."""
        if self._selection is not None:
            return None
        session.items = []
        session.testscollected = 0
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Keeps pytest off everything but the way to the current file."""
        return True if self._selection is not None and self._selection.ignores(collection_path) else None

    @pytest.hookimpl(hookwrapper=True, optionalhook=True)  # pytest 8 has it; 7 knows no directories
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> Iterator[None]:
        """Gives a directory the same node in every collection: fixtures of a conftest.py belong to it (pytest 9.1)."""
        outcome: Any = yield
        outcome.force_result(self._directories.setdefault((path, parent), outcome.get_result()))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_collection_finish(self, session: pytest.Session) -> Iterator[None]:
        """Keeps what pytest 9.1 would forget: conftests loaded at the start whose directories come with later files."""
        pending: dict[Path, object] = getattr(session._fixturemanager, "_pending_conftests", {})
        kept = dict(pending)
        yield
        pending.update(kept)

    @pytest.hookimpl
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keeps what could not be collected."""
        if report.failed:
            text = outcomes.shorten(report.longreprtext, self._max_detail)
            self._errors.append(f"{report.nodeid}: {text}")
