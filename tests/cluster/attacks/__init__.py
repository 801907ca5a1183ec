"""What hostile pull requests hold. Files of `pod/` are text here: they run in pods only, and nothing imports them."""

from __future__ import annotations

from pathlib import Path

_POD = Path(__file__).parent / "pod"


def code(name: str) -> str:
    """Returns a file that a pull request puts into its repository."""
    return (_POD / f"{name}.py").read_text(encoding="utf-8")
