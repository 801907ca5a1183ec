"""collect.json: what collecting found. Reading it is reading what code of a pull request may have written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardlib import safefiles
from shardlib.errors import CollectError, PlanError, RunFolderError, SettingsError
from shardlib.fields import Fields, canonical, parse, short
from shardlib.model import CollectedTest, Mode
from shardlib.plan import MAX_TESTS
from shardlib.pytestrun import PytestRun, check_schema, read_pytest_run
from shardlib.settings import Settings

SCHEMA = "shardlib.collect/1"
MAX_BYTES = 1 << 30  # 1,000,000 tests with ids of 500 characters
_AGAIN = "collect again: shardlib collect"
_MODES = tuple(mode.value for mode in Mode)


@dataclass(frozen=True, kw_only=True)
class Collection:
    """The tests in pytest's order, how pytest was called, and notes for a person."""

    pytest: PytestRun
    settings: Settings
    tests: tuple[CollectedTest, ...]
    notes: tuple[str, ...] = ()

    def dumps(self) -> str:
        """Returns the document; `loads` is its inverse."""
        body = {
            "schema": SCHEMA,
            "pytest": self.pytest.to_json(),
            "settings": self.settings.to_json(),
            "tests": [to_json(test) for test in self.tests],
            "notes": list(self.notes),
        }
        return canonical(body) + "\n"


def write(collection: Collection, path: Path) -> None:
    """Writes collect.json whole, in the place of one that is there; CollectError if it cannot."""
    try:
        safefiles.replace(path.parent, (path.name,), collection.dumps().encode("ascii"))
    except (OSError, RunFolderError) as err:
        raise CollectError(f"{path}: cannot be written: {err}") from err


def load(path: Path, *, max_tests: int = MAX_TESTS, max_bytes: int = MAX_BYTES) -> Collection:
    """Returns what a collect.json says.

    Raises:
        PlanError: missing, no regular file, too large, no JSON, of another version, malformed, or a node id twice.
    """
    try:
        data = safefiles.read_bytes(path.parent, (path.name,), limit=max_bytes)
    except RunFolderError as err:
        raise PlanError(str(err)) from err
    if data is None:
        raise PlanError(f"{path}: no such file; `shardlib collect -o {path}` writes it")
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError as err:
        raise PlanError(f"{path}: byte {err.start} is not ASCII; {_AGAIN}") from err
    return loads(text, str(path), max_tests=max_tests)


def loads(text: str, where: str, *, max_tests: int = MAX_TESTS) -> Collection:
    """Returns what the text of a collect.json says; PlanError as `load`."""
    fields = Fields(parse(text, where, PlanError), where, PlanError)
    check_schema(fields, SCHEMA, _AGAIN)
    try:
        settings = Settings.from_json(fields.raw("settings"), where)
    except SettingsError as err:
        raise PlanError(str(err)) from err
    collection = Collection(
        pytest=read_pytest_run(fields.raw("pytest"), where),
        settings=settings,
        tests=tuple(
            read_test(test, f"{where}: tests[{index}]", settings.gpus_per_node)
            for index, test in enumerate(fields.array("tests", most=max_tests))
        ),
        notes=fields.texts("notes", most=max_tests),
    )
    fields.end()
    seen: set[str] = set()
    for test in collection.tests:
        if test.id in seen:
            raise PlanError(f"{where}: the node id {short(test.id)} is there twice; {_AGAIN}")
        seen.add(test.id)
    if not collection.tests:
        raise PlanError(f"{where}: no tests; {_AGAIN}")
    return collection


def to_json(test: CollectedTest) -> dict[str, Any]:
    """Returns a test as collect.json has it."""
    body: dict[str, Any] = {"id": test.id, "file": test.file, "mode": test.mode.value, "gpus": test.gpus}
    if test.timeout_seconds is not None:
        body["timeout_seconds"] = float(test.timeout_seconds)
    if test.params:
        body["params"] = dict(test.params)
    if test.why:
        body["why"] = test.why
    return body


def read_test(value: object, where: str, gpus_per_node: int) -> CollectedTest:
    """Returns the test of a `to_json` object; PlanError if it is malformed."""
    fields = Fields(value, where, PlanError)
    mode = Mode(fields.choice("mode", _MODES))
    params = fields.raw("params") if fields.has("params") else {}
    if not isinstance(params, dict) or not all(isinstance(text, str) for text in params.values()):
        raise fields.wrong("params", params, "an object of texts")
    low, high = (0, 0) if mode is Mode.CPU else (1, gpus_per_node)
    test = CollectedTest(
        id=fields.text("id"),
        file=fields.text("file"),
        mode=mode,
        gpus=fields.integer("gpus", low, high),
        timeout_seconds=fields.number("timeout_seconds", 0, 1e9) if fields.has("timeout_seconds") else None,
        params=tuple(params.items()),
        why=fields.text("why", most=1000) if fields.has("why") else "",
    )
    fields.end()
    return test
