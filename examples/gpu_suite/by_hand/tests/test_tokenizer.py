"""`cpu`: needs no GPU, so it runs in a pod without any. pyproject.toml says so, for want of a marker."""

from collections.abc import Callable


def test_round_trip(work: Callable[[float], None]) -> None:
    work(3)


def test_special_tokens(work: Callable[[float], None]) -> None:
    work(2)
