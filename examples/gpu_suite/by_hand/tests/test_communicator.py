"""`isolated`: a fresh process that ends with the file, and GPUs of its own; for what cannot be undone in a process."""

from collections.abc import Callable

import pytest

COMMUNICATORS: list[list[str]] = []  # like a process group: made once in a process, seen by the tests that follow in it


@pytest.mark.gpu(mode="isolated", gpus=4)
class TestFourRanks:
    def test_initialise(self, work: Callable[[float], None], gpus: list[str]) -> None:
        assert len(gpus) >= 4
        COMMUNICATORS.append(gpus[:4])
        work(8)

    def test_all_reduce(self, work: Callable[[float], None]) -> None:
        assert COMMUNICATORS
        work(30)


@pytest.mark.gpu(mode="isolated", gpus=2)  # another width: a process of its own, in which nothing is initialised
def test_two_ranks(work: Callable[[float], None], gpus: list[str]) -> None:
    assert len(gpus) >= 2
    work(12)
