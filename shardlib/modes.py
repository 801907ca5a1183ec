"""Which mode a test has and how many GPUs its worker holds. Pure: markers and settings in, a value out.

What the nearest marker does not say, the next one up (class, module) says; then the first matching rule of the
settings; then `default_mode`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from shardlib.errors import SettingsError
from shardlib.fields import short
from shardlib.model import Mode
from shardlib.setting_checks import ModeRule, unfit
from shardlib.settings import Settings

_KEYWORDS = ("mode", "gpus")
_FIXED_WIDTH = (Mode.CPU, Mode.SEQUENTIAL)


@dataclass(frozen=True, kw_only=True)
class MarkerData:
    """The arguments of one `@pytest.mark.gpu(...)`."""

    args: tuple[object, ...] = ()
    kwargs: Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A test's mode, its worker's GPUs (0 for `cpu`, the node's for `sequential`), and what decided it."""

    mode: Mode
    gpus: int
    why: str


def resolve(node_id: str, file: str, markers: Sequence[MarkerData], settings: Settings) -> Resolved:
    """Returns the mode and GPUs of a test; `markers` come nearest first.

    A marker that says nothing (`@pytest.mark.gpu`) and that no rule explains means one GPU, in the default mode where
    that has GPUs, else `concurrent`.

    Raises:
        SettingsError: a marker or a rule that cannot be, naming the test, the value and the choices.
    """
    for marker in markers:
        _check_marker(node_id, marker, settings)
    gpus_at = _nearest(markers, "gpus")
    mode_at = _nearest(markers, "mode")
    rule = None if mode_at is not None else _first_rule(node_id, file, settings)
    if mode_at is not None:
        mode, why = Mode(markers[mode_at].kwargs["mode"]), f"marker {settings.marker}"
    elif rule is not None:
        mode, why = rule.mode, f"rule {short(rule.match)} of tool.shardlib.modes"
    else:
        mode, why = settings.default_mode, "default_mode"
        if markers and mode is Mode.CPU:  # the marker says that it needs a GPU, whatever most tests are
            mode, why = Mode.CONCURRENT, f"marker {settings.marker}"
    # A mode that fixes the width overrides the `gpus` of a marker farther out, such as the module's.
    if gpus_at is not None and not (mode in _FIXED_WIDTH and mode_at is not None and mode_at < gpus_at):
        gpus = markers[gpus_at].kwargs["gpus"]
        complaint = unfit(mode, gpus, settings.gpus_per_node)
        if complaint:
            raise SettingsError(f"{short(node_id)}: marker {settings.marker}: {complaint} (mode by {why})")
        assert isinstance(gpus, int)
        by = "" if why.startswith("marker") else f", gpus by marker {settings.marker}"
        return Resolved(mode=mode, gpus=gpus, why=why + by)
    if rule is not None and rule.gpus is not None:
        return Resolved(mode=mode, gpus=rule.gpus, why=why)
    if rule is None and mode_at is None and markers and mode is not Mode.SEQUENTIAL:
        return Resolved(mode=mode, gpus=1, why=f"marker {settings.marker} (bare: one GPU), mode by {why}")
    return Resolved(mode=mode, gpus=default_width(mode, settings.gpus_per_node), why=why)


def default_width(mode: Mode, gpus_per_node: int) -> int:
    """Returns how many GPUs a worker of this mode holds where nothing says it."""
    return {Mode.CPU: 0, Mode.CONCURRENT: 1, Mode.SEQUENTIAL: gpus_per_node, Mode.ISOLATED: gpus_per_node}[mode]


def _nearest(markers: Sequence[MarkerData], keyword: str) -> int | None:
    return next((at for at, marker in enumerate(markers) if keyword in marker.kwargs), None)


def _first_rule(node_id: str, file: str, settings: Settings) -> ModeRule | None:
    for rule in settings.modes:
        # A node id's brackets are a character class to a glob: the id itself, written out, matches too.
        if rule.match in (file, node_id) or fnmatchcase(file, rule.match) or fnmatchcase(node_id, rule.match):
            return rule
    return None


def _check_marker(node_id: str, marker: MarkerData, settings: Settings) -> None:
    where = f"{short(node_id)}: marker {settings.marker}"
    if marker.args:
        raise SettingsError(
            f"{where}: {short(marker.args[0])} is given by position; write {settings.marker}(mode=..., gpus=...)"
        )
    for keyword, value in marker.kwargs.items():
        if keyword not in _KEYWORDS:
            near = difflib.get_close_matches(keyword, _KEYWORDS, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise SettingsError(f"{where}: unknown keyword {keyword}={short(value)}{hint}; it takes mode and gpus")
    if "gpus" in marker.kwargs:
        complaint = unfit(Mode.CONCURRENT, marker.kwargs["gpus"], settings.gpus_per_node)
        if complaint:
            raise SettingsError(f"{where}: {complaint}")
    modes = [mode.value for mode in Mode]
    mode = marker.kwargs.get("mode", modes[0])
    if not isinstance(mode, str) or mode not in modes:
        near = difflib.get_close_matches(str(mode), modes, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise SettingsError(f"{where}: unknown mode {short(mode)}{hint}; the modes: {', '.join(modes)}")
