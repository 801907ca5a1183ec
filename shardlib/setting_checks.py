"""Whether a setting's value is what it must be; messages name file, line, key, value and the choices. Pure."""

from __future__ import annotations

import dataclasses
import difflib
from dataclasses import dataclass
from typing import Any

from shardlib.fields import short
from shardlib.model import Mode
from shardlib.places import Place

TABLE = "tool.shardlib"
_DAY_SECONDS = 86_400
_MAX_GPUS = 64  # a guess: no node has more; keeps a typo from asking for a million slots
_MAX_BYTES = 1 << 44  # 16 TiB: more than any node's GPU memory


@dataclass(frozen=True, kw_only=True)
class ModeRule:
    """Gives a mode to the tests whose file or node id matches the glob `match` (`*` crosses `/`)."""

    match: str
    mode: Mode
    gpus: int | None = None  # None: the mode's own default


def unfit(mode: Mode, gpus: object, gpus_per_node: int) -> str | None:
    """Returns what is wrong with `gpus` GPUs for a test of `mode` on such a node; None if nothing is."""
    if type(gpus) is not int or not 1 <= gpus <= gpus_per_node:
        return f"gpus={short(gpus)} must be an integer from 1 to {gpus_per_node} (gpus_per_node)"
    if mode is Mode.CPU:
        return f"gpus={gpus} does not go with mode 'cpu', which has none: leave gpus out"
    if mode is Mode.SEQUENTIAL and gpus != gpus_per_node:
        return f"gpus={gpus} does not go with mode 'sequential', which holds the whole node: leave gpus out"
    return None


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


def checked(key: str, value: Any, place: Place) -> Any:
    """Returns the value of a setting (but `modes`) as Settings holds it; SettingsError if it is wrong."""
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


def _mode(value: object, key: str, place: Place, rule: int | None = None) -> Mode:
    if isinstance(value, str) and value in {mode.value for mode in Mode}:
        return Mode(value)
    near = difflib.get_close_matches(str(value), [mode.value for mode in Mode], n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise place.wrong(key, value, f"one of {_MODES}{hint}", rule)


def mode_rules(value: object, gpus_per_node: int, place: Place) -> tuple[ModeRule, ...]:
    """Returns the value of the setting `modes`; SettingsError if a rule is wrong."""
    if not isinstance(value, list) or not all(isinstance(rule, dict) for rule in value):
        raise place.wrong("modes", value, f"a list of tables: [[{TABLE}.modes]]")
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
