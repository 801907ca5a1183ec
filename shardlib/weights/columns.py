"""A run's samples by columns, as its file has them: 5,000,000 rows are a usual read, and none gets an object. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, repeat
from typing import Any, Generic, NoReturn, TypeVar

from shardlib.durations import MAX_SECONDS
from shardlib.errors import WeightsError
from shardlib.fields import short
from shardlib.weights.samples import FLAGS, MAX_ID, Sample

_FLAGS = frozenset(FLAGS)

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Repeated(Generic[T]):
    """A column in which neighbours are mostly equal: each value, and how many rows in a row have it."""

    values: Sequence[T]
    counts: Sequence[int]

    def __iter__(self) -> Iterator[T]:
        """Yields each row's value."""
        return chain.from_iterable(map(repeat, self.values, self.counts))


@dataclass(frozen=True, kw_only=True)
class Table:
    """Samples by columns of equal length; names and meanings are those of `Sample`."""

    id: Sequence[str]
    seconds: Sequence[float]
    outcome: Repeated[str | None]
    pod: Repeated[str | None]
    worker: Repeated[str | None]
    mode: Repeated[str | None]
    flags: Repeated[tuple[str, ...]]


def to_table(samples: Iterable[Sample]) -> Table:
    """Returns samples as columns, by pod and worker and else in their order; seconds to the microsecond."""
    samples = sorted(samples, key=lambda sample: (sample.pod or "", sample.worker or ""))
    return Table(
        id=[sample.id for sample in samples],
        seconds=[round(sample.seconds, 6) for sample in samples],
        outcome=_repeated(sample.outcome for sample in samples),
        pod=_repeated(sample.pod for sample in samples),
        worker=_repeated(sample.worker for sample in samples),
        mode=_repeated(sample.mode for sample in samples),
        flags=_repeated(sample.flags for sample in samples),
    )


def to_lines(table: Table) -> list[dict[str, Any]]:
    """Returns a table as one JSON object a column."""
    lines: list[dict[str, Any]] = [{"id": table.id}, {"seconds": table.seconds}]
    for name in _NAMES[2:]:
        column: Repeated[Any] = getattr(table, name)
        values = [list(value) if name == "flags" else value for value in column.values]
        lines.append({name: [[value, count] for value, count in zip(values, column.counts, strict=True)]})
    return lines


def from_lines(lines: Iterable[object], rows: int, where: str) -> Table:
    """Returns the table of so many rows that a file's lines from the second on hold; they are checked whole.

    Raises:
        WeightsError: naming line, row and value of what is not as the format has it.
    """
    columns: dict[str, Any] = {}
    for number, body in enumerate(lines, start=2):
        name = _NAMES[len(columns)] if len(columns) < len(_NAMES) else None
        if name is None or not isinstance(body, dict) or list(body) != [name]:
            expected = f"the column {name!r}" if name else "the file's end"
            raise WeightsError(f"{where}:{number}: {short(body)} where {expected} should be; collect again")
        columns[name] = _CHECKS[name](body[name], rows, f"{where}:{number}: {name}")
    if len(columns) < len(_NAMES):
        raise WeightsError(f"{where}: the column {_NAMES[len(columns)]!r} is missing; collect again")
    return Table(**columns)


def _repeated(column: Iterable[T]) -> Repeated[T]:
    runs = [(value, sum(1 for _ in same)) for value, same in groupby(column)]
    return Repeated(values=[value for value, _ in runs], counts=[count for _, count in runs])


def _ids(body: object, rows: int, where: str) -> list[Any]:
    ids = _array(body, rows, where)
    if not (set(map(type, ids)) <= {str} and all(ids) and max(map(len, ids), default=0) <= MAX_ID):
        _refuse(ids, where, lambda value: type(value) is str and 0 < len(value) <= MAX_ID, "a node id")
    return ids


def _seconds(body: object, rows: int, where: str) -> list[Any]:
    seconds = _array(body, rows, where)
    numbers = set(map(type, seconds)) <= {int, float}
    in_bounds = numbers and min(seconds, default=0) >= 0 and max(seconds, default=0) <= MAX_SECONDS
    if not in_bounds or math.isnan(sum(seconds)):  # min and max may pass over a NaN
        _refuse(seconds, where, _are_seconds, f"0 to {MAX_SECONDS:.0f}")
    return seconds


def _texts(body: object, rows: int, where: str) -> Repeated[Any]:
    return _runs(body, rows, where, lambda value: value is None or type(value) is str, "a text or null")


def _flags(body: object, rows: int, where: str) -> Repeated[Any]:
    runs = _runs(body, rows, where, _are_flags, f"a list of {', '.join(FLAGS)}")
    return Repeated(values=[tuple(flags) for flags in runs.values], counts=runs.counts)


_CHECKS: dict[str, Callable[[object, int, str], Any]] = {
    "id": _ids,
    "seconds": _seconds,
    "outcome": _texts,
    "pod": _texts,
    "worker": _texts,
    "mode": _texts,
    "flags": _flags,
}
_NAMES = tuple(_CHECKS)


def _runs(body: object, rows: int, where: str, fits: Callable[[Any], bool], expected: str) -> Repeated[Any]:
    if not isinstance(body, list):
        raise WeightsError(f"{where} is {short(body)}, expected a list of [value, count]; collect again")
    for place, run in enumerate(body):
        if not (type(run) is list and len(run) == 2 and type(run[1]) is int and 0 < run[1] <= rows and fits(run[0])):
            raise WeightsError(
                f"{where}[{place}] is {short(run)}, expected [{expected}, rows that have it]; collect again"
            )
    counts = [count for _, count in body]
    if sum(counts) != rows:
        raise WeightsError(f"{where} has {sum(counts)} rows, expected {rows}; collect again")
    return Repeated(values=[value for value, _ in body], counts=counts)


def _array(body: object, rows: int, where: str) -> list[Any]:
    if not isinstance(body, list) or len(body) != rows:
        found = f"{len(body)} rows" if isinstance(body, list) else short(body)
        raise WeightsError(f"{where} has {found}, expected a list of {rows}; collect again")
    return body


def _refuse(column: Sequence[Any], where: str, fits: Callable[[Any], bool], expected: str) -> NoReturn:
    place, value = next((place, value) for place, value in enumerate(column) if not fits(value))
    raise WeightsError(f"{where}[{place}] is {short(value)}, expected {expected}; collect again")


def _are_seconds(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value <= MAX_SECONDS  # type: ignore[operator]  # false for NaN


def _are_flags(value: object) -> bool:
    if not isinstance(value, list) or not all(isinstance(flag, str) for flag in value):
        return False
    return len(set(value)) == len(value) and _FLAGS.issuperset(value)
