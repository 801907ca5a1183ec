"""The shapes of the JSON records in a run's folder, checked before anything believes them. Pure.

docs/architecture.md has the formats. Unknown keys are let through, so that a newer writer does no harm; a known key of
another type, a number that is not finite, or JSON that is no object is refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn

from shardlib.errors import RunFolderError
from shardlib.fields import short
from shardlib.model import Outcome

Record = dict[str, Any]

_TEXTS = (list, str)
_NUMBER = (float,)
_TEXT = (str,)
_COUNT = (int,)

ATTEMPT = {"digest": _TEXT, "shard": _TEXT, "attempt": _COUNT, "rerun": _TEXT, "host": _TEXT, "started": _NUMBER}
DONE = {"digest": _TEXT, "shard": _TEXT, "attempt": _COUNT, "end": _TEXT, "exit": _COUNT, "notes": _TEXTS}
RESULT = {"digest": _TEXT, "shard": _TEXT, "group": _TEXT, "version": _COUNT, "attempt": _COUNT, "extra": _TEXTS}
EVENT = {"event": _TEXT, "t": _NUMBER}
_TEST = {"id": _TEXT, "outcome": _TEXT, "attempt": _COUNT, "seconds": _NUMBER}
_TEST_OPTIONAL = {"reason": _TEXT, "detail": _TEXT, "note": _TEXT, "reruns": _COUNT, "earlier": _TEXTS}

Shape = Mapping[str, tuple[type, ...]]


def dumps(body: Record) -> bytes:
    """Returns the record as one line of ASCII JSON with its newline, whatever node ids it holds."""
    return json.dumps(body, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


def loads(data: bytes, where: str, shape: Shape) -> Record:
    """Returns the object in `data`, with the fields of `shape` checked.

    Raises:
        RunFolderError: naming `where`, the field and what is wrong.
    """
    try:
        body = json.loads(data.decode("ascii"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as err:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise RunFolderError(f"{where}: not a JSON record: {err}") from err
    if not isinstance(body, dict):
        raise RunFolderError(f"{where}: a JSON {type(body).__name__} where an object should be")
    check(body, shape, where)
    return body


def check_tests(body: Record, where: str) -> None:
    """Checks the tests of a result record as `loads` checks its other fields."""
    tests = body.get("tests")
    if not isinstance(tests, list):
        raise RunFolderError(f"{where}: 'tests' is {short(tests)}, not a list")
    for index, test in enumerate(tests):
        place = f"{where}: tests[{index}]"
        if not isinstance(test, dict):
            raise RunFolderError(f"{place} is {short(test)}, not an object")
        check(test, _TEST, place)
        check(test, {key: kind for key, kind in _TEST_OPTIONAL.items() if test.get(key) is not None}, place)
        for outcome in [test["outcome"], *(test.get("earlier") or [])]:
            if outcome not in _OUTCOMES:
                raise RunFolderError(f"{place}: outcome {short(outcome)} is none of {', '.join(sorted(_OUTCOMES))}")
        shared_seconds(test, place)


def shared_seconds(test: Record, where: str) -> dict[str, float]:
    """Returns seconds by fixture scope of a test's record or `finish` event; RunFolderError if it has another shape."""
    shared = test.get("shared_seconds")
    if shared is None:
        return {}
    if not isinstance(shared, dict) or not all(_is(value, _NUMBER) for value in shared.values()):
        raise RunFolderError(f"{where}: 'shared_seconds' is {short(shared)}, not seconds by scope")
    return {scope: float(seconds) for scope, seconds in shared.items()}


def check(body: Record, shape: Shape, where: str) -> None:
    """Checks that the fields of `shape` are there and have their kinds; RunFolderError naming the first that has not."""
    for key, kind in shape.items():
        if key not in body:
            raise RunFolderError(f"{where}: {key!r} is missing")
        if not _is(body[key], kind):
            names = " of ".join(part.__name__ for part in kind)
            raise RunFolderError(f"{where}: {key!r} is {short(body[key])}, not {names}")


def _is(value: object, kind: tuple[type, ...]) -> bool:
    """Whether the value has the kind; numbers must be finite and not negative, for all of ours are times and counts."""
    if kind == _TEXTS:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if kind == _COUNT:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if kind == _NUMBER:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and _is_time(value)
    return isinstance(value, kind)


def _is_time(value: float) -> bool:
    try:
        return math.isfinite(value) and value >= 0
    except OverflowError:  # an integer beyond any float
        return False


_OUTCOMES = frozenset(outcome.value for outcome in Outcome)


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")
