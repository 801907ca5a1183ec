"""The command that starts a Python child which runs this very copy of shardlib, and nothing else of ours.

A checkout under test may hold its own `shardlib/`, and its tests must see the `sys.path` they would see under plain
pytest. So the child imports us by path (a folder, or a zipapp) and takes that path out again: once the package is
imported, its modules are found through its own `__path__`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import shardlib

_BOOT = (
    "import sys; root, entry, *sys.argv[1:] = sys.argv[1:]; "
    # `-c` puts '' first, unless PYTHONSAFEPATH is set: pytest's own console script has no such entry.
    "sys.path[:] = [p for p in sys.path if p]; "
    "sys.path.insert(0, root); import shardlib, importlib; sys.path.remove(root); "
    "module, _, name = entry.partition(':'); "
    "raise SystemExit(getattr(importlib.import_module(module), name)(sys.argv[1:]))"
)


def command(entry: str, *arguments: str, python: str = sys.executable) -> list[str]:
    """Returns the argv that calls `entry` ("module:function") with the list of arguments in a fresh interpreter.

    Args:
        entry: a function of ours that takes the arguments and returns an exit status.
        *arguments: what it gets; never node ids, which can be longer than an argument may be.
        python: the interpreter; it needs nothing of ours installed.
    """
    root = Path(shardlib.__file__).parent.parent
    return [python, "-c", _BOOT, str(root), entry, *arguments]
