"""Durations as people keep them, `{"path::test[param]": seconds}`, and the weight that each collected test gets from them.

A key without `::` is a file's shared setup. `load` reads the file and refuses whatever is not exactly that; `weigh` is
pure.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NoReturn

from shardlib.errors import DurationsError
from shardlib.model import CollectedTest, WeightSource

MAX_BYTES = 512 * 1024 * 1024  # a million tests take about 100 MB
MAX_SECONDS = 10_000_000.0  # 115 days: surely another unit (milliseconds, nanoseconds)

_SHAPE = 'the file must be one JSON object {"path::test[param]": seconds}'


@dataclass(frozen=True, kw_only=True)
class Weight:
    """What one test is expected to take, at least 1 ms, and how that is known."""

    ms: int
    source: WeightSource


@dataclass(frozen=True, kw_only=True)
class Weights:
    """The weights of all collected tests.

    `setup_ms` holds the files whose shared setup is known. `stale` counts the durations that no collected test has.
    """

    by_id: dict[str, Weight]
    setup_ms: dict[str, int]
    known: int
    estimated: int
    stale: int


class _Pairs(list[tuple[str, object]]):
    """A JSON object's members as they stand in the file, so that a key that stands there twice is seen."""


def load(path: Path) -> dict[str, float]:
    """Return the seconds of each node id (and of each file's setup) in a durations file.

    Reads `{"node id": seconds}` and pytest-split's older list of `["node id", seconds]`.

    Raises:
        DurationsError: the file cannot be read, is not JSON, repeats a key, or holds anything but finite seconds
            from 0 to `MAX_SECONDS`. It names the file and the line and column, or the key.
    """
    data = _parse(path, _read(path))
    pairs = data if isinstance(data, _Pairs) else _older_format(path, data)
    seconds: dict[str, float] = {}
    for key, value in pairs:
        if key in seconds:
            _refuse(path, f"has the key {key!r} twice", "keep one of them")
        if not isinstance(value, float):
            _refuse(path, f"has {_shown(value)} for {key!r}", "every value must be a number of seconds")
        if not 0 <= value <= MAX_SECONDS:  # false for NaN as well
            step = f"seconds must lie between 0 and {MAX_SECONDS:.0f}: measure that test again, or drop its entry"
            _refuse(path, f"has {value} for {key!r}", step)
        seconds[key] = value
    return seconds


def weigh(tests: Sequence[CollectedTest], durations: Mapping[str, float], *, unknown_seconds: float) -> Weights:
    """Return each test's weight: its duration, or an estimate where it has none.

    An estimate is the median of the durations of the same function's other parameters, else of the same file's tests,
    else of the same mode's collected tests, else `unknown_seconds`. Durations of tests that are gone still serve the
    estimates of their function and file. Milliseconds, never 0: a duration of 0 is known to be a skip, and a test that
    runs after all must not be killed after five times nothing.
    """
    ids = {test.id for test in tests}
    files = {test.file for test in tests}
    missing = [test for test in tests if test.id not in durations]
    estimate = _Estimates(tests, durations, unknown_seconds) if missing else None
    by_id: dict[str, Weight] = {}
    for test in tests:
        if test.id in durations:
            seconds = durations[test.id]
            source = WeightSource.KNOWN if seconds > 0 else WeightSource.SKIPPED
            by_id[test.id] = Weight(ms=_weight_ms(seconds), source=source)
        elif estimate is not None:
            by_id[test.id] = estimate(test)
    setup_ms = {key: round(s * 1000) for key, s in durations.items() if "::" not in key and key in files}
    return Weights(
        by_id=by_id,
        setup_ms=setup_ms,
        known=len(tests) - len(missing),
        estimated=len(missing),
        stale=sum(1 for key in durations if key not in ids and key not in setup_ms),
    )


class _Estimates:
    """The medians of everything that is known, looked up from the nearest relative outwards."""

    def __init__(self, tests: Sequence[CollectedTest], durations: Mapping[str, float], unknown_seconds: float) -> None:
        functions: dict[str, list[float]] = defaultdict(list)
        files: dict[str, list[float]] = defaultdict(list)
        modes: dict[str, list[float]] = defaultdict(list)
        for key, seconds in durations.items():
            if "::" in key:
                functions[_function(key)].append(seconds)
                files[key.partition("::")[0]].append(seconds)
        for test in tests:
            if test.id in durations:
                modes[test.mode.value].append(durations[test.id])
        self._functions = {key: median(values) for key, values in functions.items()}
        self._files = {key: median(values) for key, values in files.items()}
        self._modes = {key: median(values) for key, values in modes.items()}
        self._unknown_seconds = unknown_seconds

    def __call__(self, test: CollectedTest) -> Weight:
        for table, key, source in (
            (self._functions, _function(test.id), WeightSource.FUNCTION),
            (self._files, test.id.partition("::")[0], WeightSource.FILE),
            (self._modes, test.mode.value, WeightSource.MODE),
        ):
            if key in table:
                return Weight(ms=_weight_ms(table[key]), source=source)
        return Weight(ms=_weight_ms(self._unknown_seconds), source=WeightSource.UNKNOWN)


def _function(node_id: str) -> str:
    """The node id without its parameters: what `[` opens after the file's name (which may hold a `[` too)."""
    file, separator, rest = node_id.partition("::")
    return file + separator + rest.partition("[")[0]


def _weight_ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _read(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as err:
        raise DurationsError(f"cannot read the durations file {path}: {err.strerror}; check its path") from err
    if len(raw) > MAX_BYTES:
        _refuse(path, f"is larger than {MAX_BYTES} bytes", "is it a durations file?")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        raise DurationsError(f"{path} is not UTF-8 at byte {err.start}; {_SHAPE}") from err


def _parse(path: Path, text: str) -> object:
    try:  # NaN and Infinity are floats here, for `load` to refuse with their key
        data: object = json.loads(text, object_pairs_hook=_Pairs, parse_int=float)
    except json.JSONDecodeError as err:
        message = f"{path}, line {err.lineno}, column {err.colno}: {err.msg}; {_SHAPE}"
        raise DurationsError(message) from err
    except RecursionError as err:
        raise DurationsError(f"{path} is nested too deeply; {_SHAPE}") from err
    return data


def _older_format(path: Path, data: object) -> list[tuple[str, object]]:
    """pytest-split before 0.2: a list of `["node id", seconds]`."""
    pairs = []
    for entry in data if isinstance(data, list) else [None]:
        if not (type(entry) is list and len(entry) == 2 and isinstance(entry[0], str)):
            _refuse(path, f"does not hold durations but {_shown(data)}", _SHAPE)
        pairs.append((entry[0], entry[1]))
    return pairs


def _refuse(path: Path, what: str, next_step: str) -> NoReturn:
    raise DurationsError(f"{path} {what}; {next_step}")


def _shown(value: object) -> str:
    if isinstance(value, _Pairs):
        return "an object"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
