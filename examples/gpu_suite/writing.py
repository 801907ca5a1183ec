"""Writes a drawn suite as a folder that pytest runs, and what it takes as a durations file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from examples.gpu_suite.drawing import File, Function, Marker

CONFTEST = Path(__file__).parent / "by_hand" / "conftest.py"

_PYPROJECT = """\
[tool.pytest.ini_options]
testpaths = ["tests"]
time_scale = "{scale}"  # GPU_SUITE_SCALE overrides it

[tool.shardlib]
default_mode = "concurrent"
"""

_FILE = '''\
"""Drawn by `python -m examples.gpu_suite`."""

import pytest

pytestmark = pytest.mark.gpu({marker})


@pytest.fixture(scope="module")
def model(work):
    work({load})
    return "a model"
'''

_FUNCTION = """

{table} = {{
{rows}
}}


@pytest.mark.parametrize("case", {table})
def {name}(model, work, case):
    work({table}[case])
"""


def write(files: Sequence[File], out: Path, *, scale: float) -> None:
    """Writes the suite to `out`, with `gpu_test_durations.json` beside it: what a run at this scale takes.

    Args:
        files: as drawn.
        out: a folder that does not exist yet, or an empty one.
        scale: a test sleeps its drawn seconds times this.

    Raises:
        FileExistsError: `out` holds something already.
    """
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        raise FileExistsError(f"{out} is not empty: name a new folder for the suite")
    tests = out / "tests"
    tests.mkdir()
    for file in files:
        (tests / file.name).write_text(source(file), encoding="utf-8")
    shutil.copyfile(CONFTEST, out / "conftest.py")
    (out / "pyproject.toml").write_text(_PYPROJECT.format(scale=scale), encoding="utf-8")
    text = json.dumps(durations(files, scale=scale), indent=1, sort_keys=True)
    (out / "gpu_test_durations.json").write_text(text + "\n", encoding="utf-8")


def source(file: File) -> str:
    """Returns the text of one test file."""
    head = _FILE.format(marker=_arguments(file.marker), load=file.load_seconds)
    return head + "".join(_function(function) for function in file.functions)


def durations(files: Sequence[File], *, scale: float) -> dict[str, float]:
    """Returns seconds by node id; a key without `::` is a file's shared setup."""
    seconds: dict[str, float] = {}
    for file in files:
        path = f"tests/{file.name}"
        seconds[path] = _scaled(file.load_seconds, scale)
        for function in file.functions:
            for case, value in function.seconds.items():
                seconds[f"{path}::{function.name}[{case}]"] = _scaled(value, scale)
    return seconds


def _arguments(marker: Marker) -> str:
    mode = [] if marker.mode is None else [f'mode="{marker.mode}"']
    gpus = [] if marker.gpus is None else [f"gpus={marker.gpus}"]
    return ", ".join(mode + gpus)


def _function(function: Function) -> str:
    rows = "\n".join(f'    "{case}": {seconds},' for case, seconds in function.seconds.items())
    table = function.name.removeprefix("test_").upper() + "_SECONDS"
    return _FUNCTION.format(name=function.name, table=table, rows=rows)


def _scaled(seconds: float, scale: float) -> float:
    return round(seconds * scale, 4)
