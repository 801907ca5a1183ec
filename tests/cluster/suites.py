"""Small suites whose tests wait for, or look at, files that the person at the other end puts beside the runs.

`/mnt/ci/control/CASE/FLAG` is such a file: pods see it, and cannot write it.
"""

from __future__ import annotations

from collections.abc import Mapping

DOCKERFILE = """\
FROM {registry}/small:latest
WORKDIR /workspace
COPY . .
"""

CONTROL = """\
import pathlib, time

FOLDER = pathlib.Path("/mnt/ci/control/{case}")

def there(flag):
    return (FOLDER / flag).exists()

def wait_for(flag):
    while not there(flag):
        time.sleep(0.1)
"""

QUICK = """\
import pytest

@pytest.mark.parametrize("case", range(4))
def test_passes(case): pass
"""


def suite(registry: str, case: str, **tests: str) -> dict[str, str]:
    """Returns the files of a repository with a test file for each name, beside a few tests that pass."""
    files = {
        "Dockerfile": DOCKERFILE.format(registry=registry),
        "pytest.ini": "[pytest]\nmarkers = gpu: how a test shares its process and GPUs\npythonpath = .\n",
        "control.py": CONTROL.format(case=case),
        **{f"tests/test_quick_{number}.py": QUICK for number in range(3)},
    }
    return {**files, **{f"tests/test_{name}.py": text for name, text in tests.items()}}


def merged(*parts: Mapping[str, str]) -> dict[str, str]:
    return {key: value for part in parts for key, value in part.items()}
