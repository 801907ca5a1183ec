"""The settings of a tested repository: `[tool.shardlib]` in the pyproject.toml of pytest's rootdir."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardlib.errors import SettingsError
from shardlib.fields import short
from shardlib.model import Mode
from shardlib.places import Place
from shardlib.setting_checks import TABLE, ModeRule, checked, mode_rules

__all__ = ["ModeRule", "Settings", "load"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every setting with its default; times in seconds, memory in bytes."""

    # Which tests run in which mode, and what a node has.
    marker: str = "gpu"  # the marker's name; many suites have a bare `gpu` marker, which then means one GPU
    default_mode: Mode = Mode.CONCURRENT  # of tests that neither a marker nor a rule speaks of
    modes: tuple[ModeRule, ...] = ()  # the first rule that matches counts
    gpus_per_node: int = 8  # H100 nodes have 8; `--gpus` overrides it
    collect_gpus: int | None = None  # visible devices while collecting; None: one pass for each width that tests have
    cpu_slots: int = 8  # workers of the `cpu` shard: as many as its pod has cores (8 is a guess)

    # Predictions.
    startup_seconds: float = 10.0  # a worker's start and end: `import torch`, a CUDA context made and left (a guess)
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
        place = Place(where=where, source=source, table=TABLE)
        names = [field.name for field in dataclasses.fields(cls)]
        for key in table:
            if key not in names:
                raise place.unknown(key, table[key], names)
        values = {key: checked(key, value, place) for key, value in table.items() if key != "modes"}
        settings = cls(**values)
        rules = mode_rules(table.get("modes", []), settings.gpus_per_node, place)
        return dataclasses.replace(settings, modes=rules)

    def with_values(self, where: str, **values: Any) -> Settings:
        """Returns the settings with some values changed, checked whole; `where` says who changed them."""
        return Settings.from_json({**self.to_json(), **values}, where)

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
            raise SettingsError(f"{where}: settings is {short(value)}, expected an object")
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
        raise SettingsError(f"{path}: {TABLE} is {short(table)}, expected a table")
    return Settings.from_mapping(table, str(path), text)
