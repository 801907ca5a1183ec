"""`python -m workflows close-gate`: does what open-gate does; if GitHub says the pull request is closed, stops its runs."""

from __future__ import annotations

from workflows.commands.open_gate import add_arguments, main

__all__ = ["add_arguments", "main"]
