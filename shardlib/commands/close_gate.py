"""`shardlib close-gate`: makes the runs fit a pull request, as open-gate does: stops them if GitHub says it is closed."""

from __future__ import annotations

from shardlib.commands.open_gate import add_arguments, main

__all__ = ["add_arguments", "main"]
