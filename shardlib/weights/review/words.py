"""Seconds, factors and dates as a person reads them. Pure."""

from __future__ import annotations

from datetime import datetime, timezone

from shardlib.reports.plan_table import duration

DAY = 86_400.0


def seconds(value: float) -> str:
    """Returns seconds for a person: `0.04 s`, `3.2 s`, `13m 20s`."""
    return f"{value:.2f} s" if value < 1 else duration(round(value * 1000))


def day(when: float | None) -> str:
    """Returns the day of unix seconds, in UTC; `unknown` for None."""
    return datetime.fromtimestamp(when, tz=timezone.utc).strftime("%Y-%m-%d") if when is not None else "unknown"


def days(value: float) -> str:
    """Returns a span of seconds in days: `less than a day`, `1 day`, `12 days`."""
    whole = int(value // DAY)
    return "less than a day" if whole < 1 else f"{whole} day{'s' if whole != 1 else ''}"


def percent(value: float) -> str:
    """Returns a change with its sign: `-3.1 %`."""
    return f"{100 * value:+.1f} %"


def plural(count: int, singular: str, several: str | None = None) -> str:
    """Returns a count with its noun: `1 test`, `2,400 tests`."""
    return f"{count:,} {singular if count == 1 else several or singular + 's'}"
