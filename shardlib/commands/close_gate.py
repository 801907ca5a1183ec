"""`shardlib close-gate`: stops the runs of a pull request that is closed; if it is open again by now, they follow that."""

from __future__ import annotations

from shardlib.commands.open_gate import add_arguments, main

__all__ = ["add_arguments", "main"]
