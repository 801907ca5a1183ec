"""What one pytest item is to us. Collecting and workers both use it, so that they can compare what they see."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING

from shardlib.model import CollectedTest
from shardlib.modes import MarkerData, resolve
from shardlib.settings import Settings

if TYPE_CHECKING:
    import pytest

_MAX_PARAM = 200  # characters of one parameter shown to a person
_MAX_TIMEOUT = 1e9  # seconds: the most that collect.json holds; who asks for more means "none"
_PLAIN = (int, float, complex, str, bytes, bool, type(None))


def describe(item: pytest.Item, settings: Settings) -> CollectedTest:
    """Returns an item with its mode and GPUs resolved; SettingsError if its markers cannot be."""
    file = file_of(item.path, item.config.rootpath)
    markers = [MarkerData(args=mark.args, kwargs=mark.kwargs) for mark in item.iter_markers(settings.marker)]
    resolved = resolve(item.nodeid, file, markers, settings)
    params = getattr(getattr(item, "callspec", None), "params", {})
    return CollectedTest(
        id=item.nodeid,
        file=file,
        mode=resolved.mode,
        gpus=resolved.gpus,
        timeout_seconds=timeout_of(item),
        params=tuple((str(name)[:_MAX_PARAM], show(value)) for name, value in params.items()),
        why=resolved.why,
    )


def register_marker(config: pytest.Config, settings: Settings) -> None:
    """Declares our marker, so that pytest neither warns of it nor refuses it."""
    config.addinivalue_line("markers", f"{settings.marker}(mode, gpus): how shardlib runs the test")


def file_of(path: Path, rootdir: Path) -> str:
    """Returns a path relative to rootdir with `/`; absolute if it lies outside."""
    try:
        return path.relative_to(rootdir).as_posix()
    except ValueError:
        return path.as_posix()


def timeout_of(item: pytest.Item) -> float | None:
    """Returns pytest-timeout's limit in seconds: the marker's, else the option's or ini's; None without any."""
    if not item.config.pluginmanager.hasplugin("timeout"):
        return None
    value: object = getattr(item.config, "_env_timeout", None)  # option, environment and ini, as the plugin read them
    marker = item.get_closest_marker("timeout")
    if marker is not None:
        given = marker.args[0] if marker.args else marker.kwargs.get("timeout")
        value = value if given is None else given
    try:
        seconds = float(value)  # type: ignore[arg-type]  # whatever it is, the plugin would try the same
    except (TypeError, ValueError):
        return None
    return min(seconds, _MAX_TIMEOUT) if seconds > 0 else None


def show(value: object) -> str:
    """Returns a parameter for a person: plain values by repr, others by type, so that no foreign code is called."""
    if type(value) in _PLAIN:
        try:
            text = repr(value)
        except ValueError:  # an integer of more digits than Python prints
            text = "a huge int"
    elif isinstance(value, Enum):
        text = f"{type(value).__qualname__}.{value.name}"
    elif isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        inner = [show(item) if type(item) in _PLAIN else type(item).__qualname__ for item in value[:20]]
        text = f"{type(value).__name__}({', '.join(inner)})"
    elif isinstance(value, (type, FunctionType)):
        text = value.__qualname__
    else:
        text = f"<{type(value).__module__}.{type(value).__qualname__}>"
    return text if len(text) <= _MAX_PARAM else f"{text[: _MAX_PARAM - 3]}..."
