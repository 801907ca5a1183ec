from __future__ import annotations

from typing import Any

import pytest

from shardlib.errors import SettingsError
from shardlib.model import Mode
from shardlib.modes import MarkerData, Resolved, resolve
from shardlib.settings import ModeRule, Settings

ID, FILE = "tests/dist/test_a.py::test_b[1]", "tests/dist/test_a.py"
DIST = (ModeRule(match="tests/dist/*", mode=Mode.ISOLATED, gpus=4),)


def mark(*args: Any, **kwargs: Any) -> MarkerData:
    return MarkerData(args=args, kwargs=kwargs)


def found(*markers: MarkerData, **settings: Any) -> tuple[Mode, int]:
    resolved: Resolved = resolve(ID, FILE, markers, Settings(**settings))
    return resolved.mode, resolved.gpus


def test_without_marker_and_rule_the_default_mode_counts_with_its_own_width() -> None:
    assert found() == (Mode.CONCURRENT, 1)
    assert found(default_mode=Mode.CPU) == (Mode.CPU, 0)
    assert found(default_mode=Mode.SEQUENTIAL) == (Mode.SEQUENTIAL, 8)
    assert found(default_mode=Mode.ISOLATED, gpus_per_node=4) == (Mode.ISOLATED, 4)


def test_a_bare_marker_means_one_gpu_whatever_the_default() -> None:
    assert found(mark()) == (Mode.CONCURRENT, 1)
    assert found(mark(), default_mode=Mode.ISOLATED) == (Mode.ISOLATED, 1)
    assert found(mark(), default_mode=Mode.CPU) == (Mode.CONCURRENT, 1)
    assert found(mark(), default_mode=Mode.SEQUENTIAL) == (Mode.SEQUENTIAL, 8)


def test_a_mode_by_marker_has_its_own_default_width() -> None:
    assert found(mark(mode="isolated")) == (Mode.ISOLATED, 8)
    assert found(mark(mode="isolated", gpus=2)) == (Mode.ISOLATED, 2)
    assert found(mark(mode="sequential")) == (Mode.SEQUENTIAL, 8)
    assert found(mark(mode="sequential", gpus=8)) == (Mode.SEQUENTIAL, 8)
    assert found(mark(mode="cpu")) == (Mode.CPU, 0)
    assert found(mark(mode="concurrent")) == (Mode.CONCURRENT, 1)
    assert found(mark(gpus=2)) == (Mode.CONCURRENT, 2)


def test_the_nearest_marker_wins_keyword_by_keyword() -> None:
    assert found(mark(gpus=2), mark(mode="isolated", gpus=4)) == (Mode.ISOLATED, 2)
    assert found(mark(mode="concurrent"), mark(mode="isolated", gpus=4)) == (Mode.CONCURRENT, 4)


def test_a_nearer_mode_of_fixed_width_overrides_gpus_from_farther_out() -> None:
    assert found(mark(mode="cpu"), mark(gpus=2)) == (Mode.CPU, 0)
    assert found(mark(mode="sequential"), mark(gpus=2)) == (Mode.SEQUENTIAL, 8)


def test_a_rule_says_what_no_marker_says() -> None:
    assert found(modes=DIST) == (Mode.ISOLATED, 4)
    assert found(mark(), modes=DIST) == (Mode.ISOLATED, 4)
    assert found(mark(gpus=2), modes=DIST) == (Mode.ISOLATED, 2)
    assert found(mark(mode="concurrent"), modes=DIST) == (Mode.CONCURRENT, 1)


@pytest.mark.parametrize("match", ["tests/dist/*", "tests/*", "*::test_b*", ID, FILE, "tests/dist/test_?.py"])
def test_a_rule_matches_files_and_node_ids(match: str) -> None:
    assert found(modes=(ModeRule(match=match, mode=Mode.CPU),)) == (Mode.CPU, 0)


@pytest.mark.parametrize("match", ["dist/*", "tests/dist", "*.txt", "TESTS/*"])
def test_a_rule_must_match_the_whole_of_it(match: str) -> None:
    assert found(modes=(ModeRule(match=match, mode=Mode.CPU),)) == (Mode.CONCURRENT, 1)


def test_the_first_rule_that_matches_counts() -> None:
    rules = (ModeRule(match="*.txt", mode=Mode.CPU), *DIST, ModeRule(match="*", mode=Mode.SEQUENTIAL))
    assert found(modes=rules) == (Mode.ISOLATED, 4)


@pytest.mark.parametrize(
    ("marker", "named"),
    [
        (mark(mode="isolatd"), ["'isolatd'", "did you mean 'isolated'", "concurrent, sequential, isolated, cpu"]),
        (mark(mode=3), ["unknown mode 3", "isolated"]),
        (mark(mode=Mode), ["unknown mode"]),
        (mark(gpus=0), ["gpus=0", "1 to 8"]),
        (mark(gpus=-1), ["gpus=-1"]),
        (mark(gpus=9), ["gpus=9", "gpus_per_node"]),
        (mark(gpus="2"), ["gpus='2'", "integer"]),
        (mark(gpus=2.0), ["gpus=2.0"]),
        (mark(gpus=True), ["gpus=True"]),
        (mark(gpus=None), ["gpus=None"]),
        (mark(mode="cpu", gpus=1), ["'cpu'", "gpus=1"]),
        (mark(mode="sequential", gpus=2), ["'sequential'", "gpus=2"]),
        (mark("isolated"), ["'isolated'", "position", "mode=..., gpus=..."]),
        (mark(gpu=2), ["gpu=2", "did you mean 'gpus'"]),
    ],
)
def test_a_marker_that_cannot_be_is_refused_naming_test_value_and_choices(marker: MarkerData, named: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        found(marker)
    for text in [ID, "gpu", *named]:
        assert text in str(caught.value)


def test_a_wrong_marker_is_refused_even_where_a_nearer_one_overrides_it() -> None:
    with pytest.raises(SettingsError, match="gpus=99"):
        found(mark(gpus=1), mark(gpus=99))


def test_gpus_on_a_test_that_a_rule_gives_to_cpu_is_refused_naming_the_rule() -> None:
    with pytest.raises(SettingsError, match=r"gpus=2 does not go with mode 'cpu'.*tests/dist"):
        found(mark(gpus=2), modes=(ModeRule(match="tests/dist/*", mode=Mode.CPU),))


@pytest.mark.parametrize(
    ("markers", "rules", "why"),
    [
        ([], (), "default_mode"),
        ([mark(mode="cpu")], (), "marker gpu"),
        ([mark()], (), "bare"),
        ([], DIST, "tests/dist/*"),
        ([mark(gpus=2)], DIST, "gpus by marker"),
    ],
)
def test_it_says_what_decided(markers: list[MarkerData], rules: tuple[ModeRule, ...], why: str) -> None:
    assert why in resolve(ID, FILE, markers, Settings(modes=rules)).why
