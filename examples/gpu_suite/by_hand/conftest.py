"""What a GPU suite brings with it, without GPUs: `gpus` instead of devices, `work` instead of kernels."""

import os
import time
from collections.abc import Callable

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("time_scale", "seconds to sleep for each second of work; GPU_SUITE_SCALE overrides it", default="1")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu(mode, gpus): how the test may share a process, and how many GPUs it needs")


@pytest.fixture(scope="session")
def gpus() -> list[str]:
    """The GPUs this process may use, as CUDA would see them; eight of them where nothing restricts it."""
    visible = os.getenv("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7")
    return [gpu for gpu in visible.split(",") if gpu]


@pytest.fixture(scope="session")
def work(request: pytest.FixtureRequest) -> Callable[[float], None]:
    """Takes as long as the GPUs would; a session fixture lives as long as its worker."""
    scale = float(os.getenv("GPU_SUITE_SCALE") or request.config.getini("time_scale"))

    def sleep(seconds: float) -> None:
        time.sleep(seconds * scale)

    return sleep


@pytest.fixture(autouse=True)
def enough_gpus(request: pytest.FixtureRequest, gpus: list[str]) -> None:
    """Fails a test that was given fewer GPUs than its marker asks for."""
    marker = request.node.get_closest_marker("gpu")
    wanted = (marker.kwargs.get("gpus") or 0) if marker else 0
    if len(gpus) < wanted:
        pytest.fail(f"the marker asks for {wanted} GPUs, and this process sees {len(gpus)}")
