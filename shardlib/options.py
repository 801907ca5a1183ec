"""The user's pytest options, made to hold in a process of ours: a pytest plugin for the collecting child and workers.

All of them stay in force but for those that cannot: what starts processes, picks tests by what ran before, stops early or
writes one file from many processes is neutralised (`neutralised` says what); what asks for something else than a test
run is refused.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import pytest

from shardlib.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class _Neutral:
    """Options as the user knows them, with the parsed fields behind them and the values that switch them off."""

    label: str
    fields: dict[str, Any]


_NEUTRAL = (
    # xdist reads them in its pytest_cmdline_main: ours is a wrapper and comes before.
    _Neutral(
        label="-n/--dist/--tx",
        fields={"numprocesses": None, "maxprocesses": None, "dist": "no", "tx": [], "distload": False},
    ),
    _Neutral(label="-f/--looponfail", fields={"looponfail": False}),
    _Neutral(label="--forked", fields={"forked": False, "boxed": False}),
    _Neutral(label="--splits/--group", fields={"splits": None, "group": None}),
    _Neutral(label="--store-durations", fields={"store_durations": False, "clean_durations": False}),
    _Neutral(label="--num-shards/--shard-id", fields={"num_shards": 1, "shard_id": 0}),
    _Neutral(label="--junit-xml", fields={"xmlpath": None}),
    _Neutral(label="--report-log", fields={"report_log": None}),
    _Neutral(label="--html", fields={"htmlpath": None}),
    _Neutral(label="--json-report", fields={"json_report": False}),
    _Neutral(label="-x/--maxfail", fields={"maxfail": 0}),
    _Neutral(label="--lf/--ff/--nf", fields={"lf": False, "failedfirst": False, "newfirst": False}),
    _Neutral(label="--sw", fields={"stepwise": False, "stepwise_skip": False, "stepwise_reset": False}),
    _Neutral(label="--cache-clear", fields={"cacheclear": False}),  # many processes share the cache
    _Neutral(label="--basetemp", fields={"basetemp": None}),  # each process would empty the others'
)

_NO_SESSION_TIMEOUT = 10**9  # seconds: pytest-timeout's option outranks its ini key, and it has no "off"

# One process sees a part of the coverage: `coverage combine` and `coverage report` come after the run. pytest-cov keeps a
# namespace of its own; its `--cov-report` is never empty, so whoever measures coverage is told.
_COVERAGE = _Neutral(label="--cov-report/--cov-fail-under", fields={"cov_report": {}, "cov_fail_under": 0})

_REFUSED = {
    "usepdb": "--pdb",
    "trace": "--trace",
    "collectonly": "--collect-only",
    "setuponly": "--setup-only",
    "setupplan": "--setup-plan",
    "showfixtures": "--fixtures",
    "show_fixtures_per_test": "--fixtures-per-test",
    "markers": "--markers",
    "help": "--help",
    "version": "--version",
    "cacheshow": "--cache-show",
}


class PytestOptions:
    """The plugin object; pass it to `pytest.main(args, plugins=[...])` before any other of ours.

    Attributes:
        neutralised: labels of the options that were set and are ignored, in a fixed order; complete once pytest has
            been configured.
        refused: the message for the user, if pytest stopped because of an option that cannot work; else None.
        random_seed: pytest-randomly's seed in force; None where it is not installed.
    """

    def __init__(self, *, random_seed: int | None = None) -> None:
        """Takes the seed that pytest-randomly gets where the user's arguments give none."""
        self.neutralised: list[str] = []
        self.refused: str | None = None
        self.random_seed: int | None = None
        self._seed = random_seed

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> Generator[None, Any, None]:
        """Acts on the parsed options before any other plugin has looked at them."""
        options = config.option
        for name, label in _REFUSED.items():
            if getattr(options, name, None):
                self.refused = refusal(label)
                raise pytest.UsageError(self.refused)
        for neutral in _NEUTRAL:
            if neutralise(options, neutral.fields):
                self.neutralised.append(neutral.label)
        if getattr(options, "session_timeout", None) or _ini(config, "session_timeout"):
            options.session_timeout = _NO_SESSION_TIMEOUT
            self.neutralised.append("--session-timeout")
        coverage = config.pluginmanager.getplugin("_cov")
        if coverage is not None and neutralise(coverage.options, _COVERAGE.fields):
            self.neutralised.append(_COVERAGE.label)
        if hasattr(options, "randomly_seed"):
            if options.randomly_seed in ("default", "last") and self._seed is not None:
                options.randomly_seed = self._seed
            if isinstance(options.randomly_seed, int):
                self.random_seed = options.randomly_seed
        yield


def refusal(label: str) -> str:
    """Returns the message for an option that asks for something else than a test run."""
    return f"{label} cannot be used through shardlib: call pytest itself for it"


def check_arguments(args: list[str]) -> None:
    """Raises UsageError for an argument that newer pytests act on before they load any plugin."""
    for arg in args:
        if arg in ("--version", "-V"):
            raise UsageError(refusal(arg))


def neutralise(options: Any, fields: dict[str, Any]) -> bool:
    """Sets the fields that exist to the given values; returns whether one of them was really in force."""
    was_set = False
    for name, value in fields.items():
        if hasattr(options, name):
            found = getattr(options, name)
            # Falsy values are these plugins' ways to say "off": `-n 0`, an absent list, no path.
            was_set |= bool(found) and found != value
            setattr(options, name, value)
    return was_set


def _ini(config: pytest.Config, name: str) -> object:
    """Returns an ini value; None if no plugin defined that key."""
    try:
        return config.getini(name)
    except ValueError:
        return None
