"""The default mode: the tests share a process and the model in it, on one GPU, beside other files on other GPUs."""

from collections.abc import Callable

import pytest


@pytest.fixture(scope="module")
def model(work: Callable[[float], None]) -> str:
    work(15)  # loaded once for the file, because a file never leaves its process
    return "a model"


@pytest.mark.parametrize("length", [128, 1024, 8192])
def test_forward(model: str, work: Callable[[float], None], length: int) -> None:
    work(2 + length / 512)


def test_backward(model: str, work: Callable[[float], None]) -> None:
    work(20)


# The closest marker wins: this test of the file runs elsewhere, with two GPUs.
@pytest.mark.gpu(gpus=2)
def test_tensor_parallel(model: str, work: Callable[[float], None], gpus: list[str]) -> None:
    assert len(gpus) >= 2
    work(25)
