"""The settings of a tested repository: `[tool.shardlib]` in the pyproject.toml of pytest's rootdir."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardlib.errors import SettingsError
from shardlib.model import Mode

_TABLE = "tool.shardlib"
_DAY_SECONDS = 86_400
_MAX_GPUS = 64  # a guess: no node has more; keeps a typo from asking for a million slots
_MAX_BYTES = 1 << 44  # 16 TiB: more than any node's GPU memory


@dataclass(frozen=True, kw_only=True)
class ModeRule:
    """Gives a mode to the tests whose file or node id matches the glob `match` (`*` crosses `/`)."""

    match: str
    mode: Mode
    gpus: int | None = None  # None: the mode's own default


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every setting with its default; times in seconds, memory in bytes."""

    # Which tests are what (DESIGN 4).
    marker: str = "gpu"  # the marker's name; many suites have a bare `gpu` marker, which then means one GPU
    default_mode: Mode = Mode.CONCURRENT  # of tests that neither a marker nor a rule speaks of
    modes: tuple[ModeRule, ...] = ()  # the first rule that matches counts
    gpus_per_node: int = 8  # H100 nodes have 8; `--gpus` overrides it
    collect_gpus: int | None = None  # visible devices while collecting; None: one pass for each width that tests have
    cpu_slots: int = 8  # workers of the `cpu` shard: as many as its pod has cores (8 is a guess)

    # Predictions.
    startup_seconds: float = 10.0  # start of one worker: `import torch` and a CUDA context (a guess)
    unknown_seconds: float = 30.0  # weight of a test of which nothing is known: a guess between 2 s and 10 min

    # Limits.
    min_timeout_seconds: float = 60.0  # no test is killed before (a guess: JIT compilation takes tens of seconds)
    timeout_factor: float = 5.0  # times the known weight (a guess: slow nodes are 1.5-2x, a cold cache more)
    max_test_seconds: float = 1800.0  # limit of a test without a known weight: 3x the longest of real suites
    timeout_marker_margin_seconds: float = 30.0  # beyond a `timeout` marker, so that pytest-timeout acts first
    start_timeout_seconds: float = 300.0  # until a worker says it is ready: a cold image imports torch for minutes
    collect_timeout_seconds: float = 600.0  # a worker's collection of one file (imports may compile extensions)
    end_timeout_seconds: float = 60.0  # teardown of session fixtures when a worker ends (a guess)
    kill_grace_seconds: float = 5.0  # between TERM and KILL: time to write a traceback, not to finish

    # GPU memory.
    gpu_wait_seconds: float = 60.0  # how long a GPU may stay dirty after its worker died (drivers free it in seconds)
    max_dirty_gpu_memory: int = 1 << 30  # used before the first test: more than a context (~0.5 GiB) is foreign
    max_leftover_gpu_memory: int = 10 << 30  # kept by a worker after a file: above it, retire (a guess: 1/8 of a GPU)

    # Verdict.
    flaky: str = "green"  # a test that failed and passed on a person's retry: "green" (named) or "red"
    gpu_hour_price: float | None = None  # price of one GPU for one hour, in your currency; None: no costs are shown
    sticky_errors: tuple[str, ...] = (  # texts of CUDA errors after which no call in that process succeeds
        "device-side assert",
        "an illegal memory access",
        "an illegal instruction",
        "unspecified launch failure",
        "misaligned address",
        "invalid program counter",
        "operation not supported on global/shared address space",
        "hardware stack error",
        "the launch timed out and was terminated",
        "uncorrectable ECC error",
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "CUDA_ERROR_LAUNCH_FAILED",
        "CUDA_ERROR_ASSERT",
    )
    max_detail_bytes: int = 65_536  # of one failure's text in events and reports: several screens of traceback

    @classmethod
    def from_mapping(cls, table: Mapping[str, Any], where: str, source: str = "") -> Settings:
        """Returns the settings of `table`, checked whole; keys that are absent have their default.

        Args:
            table: names to values as TOML or JSON give them.
            where: the file, for messages.
            source: the file's text, from which messages take the key's line.

        Raises:
            SettingsError: an unknown key, a wrong type, or a value out of range.
        """
        place = _Place(where=where, source=source)
        names = [field.name for field in dataclasses.fields(cls)]
        for key in table:
            if key not in names:
                raise place.unknown(key, table[key], names)
        values = {key: _checked(key, value, place) for key, value in table.items() if key != "modes"}
        settings = cls(**values)
        rules = _rules(table.get("modes", []), settings.gpus_per_node, place)
        return dataclasses.replace(settings, modes=rules)

    def with_node(self, gpus: int) -> Settings:
        """Returns the same settings for nodes of `gpus` GPUs; SettingsError if a rule asks for more."""
        return Settings.from_mapping({**self.to_json(), "gpus_per_node": gpus}, f"--gpus {gpus}")

    def to_json(self) -> dict[str, Any]:
        """Returns every field as a JSON object; `from_json` is its inverse."""
        body: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            body[field.name] = list(value) if isinstance(value, tuple) else value
        body["default_mode"] = self.default_mode.value
        body["modes"] = [{"match": r.match, "mode": r.mode.value, "gpus": r.gpus} for r in self.modes]
        return body

    @classmethod
    def from_json(cls, value: object, where: str) -> Settings:
        """Returns the settings of a `to_json` object, every field of which must be there; else SettingsError."""
        if not isinstance(value, dict):
            raise SettingsError(f"{where}: settings is {_short(value)}, expected an object")
        missing = [field.name for field in dataclasses.fields(cls) if field.name not in value]
        if missing:
            raise SettingsError(f"{where}: settings lacks {', '.join(missing)}; make it again with this version")
        return cls.from_mapping({key: item for key, item in value.items() if item is not None}, where)


def load(rootdir: Path) -> Settings:
    """Returns the settings of `rootdir`'s pyproject.toml; the defaults where there is none; else SettingsError."""
    path = rootdir / "pyproject.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError) as err:
        raise SettingsError(f"{path}: cannot be read: {err}") from err
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")  # pytest brings tomli on 3.10
    try:
        table = toml.loads(text).get("tool", {}).get("shardlib", {})
    except (ValueError, AttributeError, RecursionError) as err:
        raise SettingsError(f"{path}: is not valid TOML: {err}") from err
    if not isinstance(table, dict):
        raise SettingsError(f"{path}: {_TABLE} is {_short(table)}, expected a table")
    return Settings.from_mapping(table, str(path), text)


def unfit(mode: Mode, gpus: object, gpus_per_node: int) -> str | None:
    """Returns what is wrong with `gpus` GPUs for a test of `mode` on such a node; None if nothing is."""
    if type(gpus) is not int or not 1 <= gpus <= gpus_per_node:
        return f"gpus={_short(gpus)} must be an integer from 1 to {gpus_per_node} (gpus_per_node)"
    if mode is Mode.CPU:
        return f"gpus={gpus} does not go with mode 'cpu', which has none: leave gpus out"
    if mode is Mode.SEQUENTIAL and gpus != gpus_per_node:
        return f"gpus={gpus} does not go with mode 'sequential', which holds the whole node: leave gpus out"
    return None


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where a table was read, to say it in messages."""

    where: str
    source: str

    def wrong(self, key: str, value: object, expected: str, rule: int | None = None) -> SettingsError:
        name = key if rule is None else f"modes[{rule}].{key}"
        return SettingsError(f"{self._at(key, rule)}: {_TABLE}.{name} = {_short(value)}: expected {expected}")

    def unknown(self, key: str, value: object, names: list[str], rule: int | None = None) -> SettingsError:
        near = difflib.get_close_matches(key, names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        name = key if rule is None else f"modes[{rule}].{key}"
        return SettingsError(
            f"{self._at(key, rule)}: {_TABLE}.{name} = {_short(value)}: no such setting{hint} "
            f"The settings: {', '.join(names)}"
        )

    def _at(self, key: str, rule: int | None) -> str:
        line = _line(self.source, key, rule)
        return self.where if line is None else f"{self.where}:{line}"


def _line(source: str, key: str, rule: int | None) -> int | None:
    """Returns the 1-based line that sets `key` in our table (in the `rule`-th of its mode rules), if it is found."""
    table, count, found = "", -1, None
    pattern = re.compile(rf"""\s*["']?{re.escape(key)}["']?\s*=""")
    for number, text in enumerate(source.splitlines(), 1):
        header = re.match(r"\s*\[{1,2}\s*([\w.-]+)\s*\]{1,2}\s*(#.*)?$", text)
        if header:
            table = header[1]
            count += table == f"{_TABLE}.modes"
        elif pattern.match(text) and (table == _TABLE if rule is None else (table, count) == (f"{_TABLE}.modes", rule)):
            return number
        elif rule is not None and table == _TABLE and re.match(r"\s*modes\s*=", text):
            found = number  # rules as inline tables: the list's line is all that can be said
    return found


_MODES = ", ".join(repr(mode.value) for mode in Mode)

# Integers, then floats, with their least and greatest value; a None default means that the value may be left out.
_INTEGERS = {
    "gpus_per_node": (1, _MAX_GPUS),
    "collect_gpus": (0, _MAX_GPUS),
    "cpu_slots": (1, 1024),
    "max_dirty_gpu_memory": (0, _MAX_BYTES),
    "max_leftover_gpu_memory": (0, _MAX_BYTES),
    "max_detail_bytes": (256, 1 << 24),
}
_NUMBERS = {
    "startup_seconds": (0.0, 3600.0),
    "unknown_seconds": (0.001, _DAY_SECONDS),
    "min_timeout_seconds": (0.1, _DAY_SECONDS),
    "timeout_factor": (1.0, 1000.0),
    "max_test_seconds": (0.1, _DAY_SECONDS),
    "timeout_marker_margin_seconds": (0.0, _DAY_SECONDS),
    "start_timeout_seconds": (1.0, _DAY_SECONDS),
    "collect_timeout_seconds": (1.0, _DAY_SECONDS),
    "end_timeout_seconds": (0.1, _DAY_SECONDS),
    "kill_grace_seconds": (0.0, 3600.0),
    "gpu_wait_seconds": (0.0, 3600.0),
    "gpu_hour_price": (0.0, 1e6),
}


def _checked(key: str, value: Any, place: _Place) -> Any:
    if key in _INTEGERS:
        low, high = _INTEGERS[key]
        if type(value) is int and low <= value <= high:
            return value
        raise place.wrong(key, value, f"an integer from {low} to {high}")
    if key in _NUMBERS:
        least, most = _NUMBERS[key]
        if type(value) in (int, float) and least <= value <= most:
            return float(value)
        raise place.wrong(key, value, f"a number from {least:g} to {most:g}")
    if key == "default_mode":
        return _mode(value, key, place)
    if key == "flaky":
        if value in ("green", "red"):
            return value
        raise place.wrong(key, value, "'green' or 'red'")
    if key == "marker":
        if isinstance(value, str) and value.isidentifier():
            return value
        raise place.wrong(key, value, "the name of a marker, such as 'gpu'")
    if not isinstance(value, list) or not all(isinstance(text, str) and text for text in value):
        raise place.wrong(key, value, "a list of texts, none of them empty")
    return tuple(value)


def _mode(value: object, key: str, place: _Place, rule: int | None = None) -> Mode:
    if isinstance(value, str) and value in {mode.value for mode in Mode}:
        return Mode(value)
    near = difflib.get_close_matches(str(value), [mode.value for mode in Mode], n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise place.wrong(key, value, f"one of {_MODES}{hint}", rule)


def _rules(value: object, gpus_per_node: int, place: _Place) -> tuple[ModeRule, ...]:
    if not isinstance(value, list) or not all(isinstance(rule, dict) for rule in value):
        raise place.wrong("modes", value, f"a list of tables: [[{_TABLE}.modes]]")
    names = [field.name for field in dataclasses.fields(ModeRule)]
    rules = []
    for index, rule in enumerate(value):
        for key in rule:
            if key not in names:
                raise place.unknown(key, rule[key], names, index)
        match, gpus = rule.get("match"), rule.get("gpus")
        if not isinstance(match, str) or not match:
            raise place.wrong("match", match, "a glob over files or node ids, such as 'tests/dist/*'", index)
        mode = _mode(rule.get("mode"), "mode", place, index)
        complaint = None if gpus is None else unfit(mode, gpus, gpus_per_node)
        if complaint:
            raise place.wrong("gpus", gpus, f"a number of GPUs that fits; {complaint}", index)
        rules.append(ModeRule(match=match, mode=mode, gpus=gpus))
    return tuple(rules)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
