"""The demo's own rules; the demo itself is `make demo`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

pytest.importorskip("numba")

from examples.numba import demo


def deselected() -> list[str]:
    return [argument.removeprefix("--deselect=") for argument in demo.pytest_arguments() if "--deselect=" in argument]


def test_every_deselected_test_is_in_the_pinned_wheel() -> None:
    assert deselected()
    for node_id in deselected():
        file, *inner = node_id.split("::")
        body: list[ast.stmt] = ast.parse((demo.SITE / file).read_text()).body
        for name in inner:
            found = [node for node in body if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name]
            assert found, f"{node_id}: no {name}"
            body = found[0].body


def test_node_ids_do_not_depend_on_where_the_wheel_is_installed() -> None:
    assert f"--rootdir={demo.SITE}" in demo.pytest_arguments()
    assert not any(Path(node_id).is_absolute() for node_id in deselected())


def test_the_two_runs_stand_side_by_side() -> None:
    figures = {"outcomes": {"passed": 3, "skipped": 4}, "verdict": "green", "known_weights": 0, "wall_seconds": 60.0}
    figures |= {"predicted_start_seconds": 10.0, "worker_start_seconds": 1.0, "worker_end_seconds": 0.5}
    figures |= {"predicted_makespan_seconds": 490.0, "makespan_seconds": 44.0}
    lines = list(demo.side_by_side(figures, {**figures, "known_weights": 3, "makespan_seconds": 21.0}))
    assert [line.split()[-2:] for line in lines if line.startswith("tests")] == [["7", "7"]]
    assert [line.split()[-4:] for line in lines if line.startswith("actual")] == [["44.0", "s", "21.0", "s"]]
    assert any("cannot match" in line for line in lines)
