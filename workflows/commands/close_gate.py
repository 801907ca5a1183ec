"""`python -m workflows close-gate`: the same for a pull request that was closed, whose runs it stops."""

from __future__ import annotations

from workflows.commands.open_gate import add_arguments, main

__all__ = ["add_arguments", "main"]
