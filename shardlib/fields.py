"""Strict reading of JSON objects that someone else may have written: every field typed, bounded and known. Pure."""

from __future__ import annotations

import json
from typing import Any

from shardlib.errors import ShardlibError

MAX_TEXT = 1 << 20  # characters of one text: ids of 10,000 are real, a megabyte is not


def parse(text: str, where: str, error: type[ShardlibError]) -> Any:
    """Returns the value of a JSON text; `error` if it is no JSON, has a key twice, or holds NaN or Infinity."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = dict(pairs)
        if len(keys) != len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise ValueError(f"the key {short(twice)} is there twice")
        return keys

    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is no JSON number")

    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    except (ValueError, RecursionError) as err:
        raise error(f"{where}: not valid JSON: {err}") from err


def canonical(value: Any) -> str:
    """Returns the one JSON text of a value: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def short(value: object) -> str:
    """Returns a value as a message shows it: its repr, at most 100 characters."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python prints
        return f"a huge {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:97]}..."


class Fields:
    """One JSON object under inspection; each method takes one field out or raises `error` naming field and place."""

    def __init__(self, value: object, where: str, error: type[ShardlibError]) -> None:
        if not isinstance(value, dict):
            raise error(f"{where} is {short(value)}, expected an object")
        self._left: dict[str, Any] = dict(value)
        self._where = where
        self._error = error

    def wrong(self, key: str, value: object, expected: str) -> ShardlibError:
        """Returns the error that says that a field is not what it must be."""
        return self._error(f"{self._where}: {key!r} is {short(value)}, expected {expected}")

    def has(self, key: str) -> bool:
        """Whether an optional field is there (null counts as absent)."""
        if self._left.get(key, self) is None:
            del self._left[key]
        return key in self._left

    def raw(self, key: str) -> Any:
        """Returns a field unchecked."""
        if key not in self._left:
            raise self._error(f"{self._where}: {key!r} is missing")
        return self._left.pop(key)

    def text(self, key: str, *, most: int = MAX_TEXT, empty: bool = False) -> str:
        """Returns a text of at most `most` characters."""
        value = self.raw(key)
        if not isinstance(value, str) or len(value) > most or not (value or empty):
            raise self.wrong(key, value, f"a text of {'0' if empty else '1'} to {most} characters")
        return value

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        """Returns a text that is one of `choices`."""
        value = self.raw(key)
        if not isinstance(value, str) or value not in choices:
            raise self.wrong(key, value, f"one of {', '.join(choices)}")
        return value

    def integer(self, key: str, low: int, high: int) -> int:
        """Returns an integer between `low` and `high`, both included."""
        value = self.raw(key)
        if type(value) is not int or not low <= value <= high:
            raise self.wrong(key, value, f"an integer from {low} to {high}")
        return value

    def number(self, key: str, low: float, high: float) -> float:
        """Returns a finite number between `low` and `high`, both included."""
        value = self.raw(key)
        if type(value) not in (int, float) or not low <= value <= high:
            raise self.wrong(key, value, f"a number from {low:g} to {high:g}")
        return float(value)

    def array(self, key: str, *, most: int) -> list[Any]:
        """Returns a list of at most `most` elements, which are not checked."""
        value = self.raw(key)
        if not isinstance(value, list) or len(value) > most:
            raise self.wrong(
                key, f"a list of {len(value)}" if isinstance(value, list) else value, f"a list of <= {most}"
            )
        return value

    def texts(self, key: str, *, most: int) -> tuple[str, ...]:
        """Returns a list of texts, empty ones included."""
        value = self.array(key, most=most)
        for item in value:
            if not isinstance(item, str) or len(item) > MAX_TEXT:
                raise self.wrong(key, item, "a list of texts")
        return tuple(value)

    def end(self) -> None:
        """Raises if a field is left that nobody asked for."""
        if self._left:
            raise self._error(f"{self._where}: unknown field {short(min(self._left))}: is it of another version?")
