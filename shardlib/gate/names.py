"""What names a pull request and its commit: exact patterns, since these values become parts of manifests and addresses."""

from __future__ import annotations

import re
from typing import Any

from shardlib.errors import UsageError

SHA = re.compile(r"[0-9a-f]{40}")
NUMBER = re.compile(r"[0-9]{1,9}")
REPOSITORY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*/[A-Za-z0-9_][A-Za-z0-9_.-]*")

_EXPECTED = {
    SHA: "a commit's 40 hexadecimal digits",
    NUMBER: "a pull request's number",
    REPOSITORY: "OWNER/NAME",
}


def need(option: str, value: Any, by: str) -> None:
    """Raises UsageError if the option has no value, which the option `by` makes necessary."""
    if value in (None, ""):
        raise UsageError(f"{option} is missing: {by} needs it")


def check(option: str, value: Any, pattern: re.Pattern[str]) -> str:
    """Returns the value if it is exactly what the pattern says; UsageError naming the option otherwise."""
    if value in (None, ""):
        raise UsageError(f"{option} is missing: expected {_EXPECTED[pattern]}")
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise UsageError(f"{option} {value!r}: expected {_EXPECTED[pattern]}")
    return value
