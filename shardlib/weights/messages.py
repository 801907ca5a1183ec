"""What a failure's text says of how the test ended: pytest-timeout's, and pytest-xdist's of a worker that died. Pure."""

from __future__ import annotations

import re

_ENDINGS = {
    "timed_out": re.compile(r"Timeout \(?>\s*[\d.]+s"),
    "crashed": re.compile(r"worker '?gw\d+'? crashed while running"),
}


def flags(text: str) -> set[str]:
    """Returns which of `timed_out` and `crashed` (of `samples.FLAGS`) a failure's text tells."""
    return {flag for flag, pattern in _ENDINGS.items() if pattern.search(text)}
