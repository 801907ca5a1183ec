"""`sequential`: the whole node, and nothing beside it, so that a measurement means something."""

from collections.abc import Callable

import pytest

pytestmark = pytest.mark.gpu(mode="sequential")


@pytest.fixture(scope="module")
def model(work: Callable[[float], None]) -> str:
    work(25)
    return "a model on every GPU"


@pytest.mark.parametrize("batch", [1, 32])
def test_tokens_per_second(model: str, work: Callable[[float], None], batch: int) -> None:
    work(20 + batch)
