"""Durations: a file is exactly that or refused whole, by name; a test without one gets its nearest relatives' median."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.suites import data_folder
from shardlib import durations
from shardlib.durations import Weight, load, weigh
from shardlib.errors import DurationsError
from shardlib.model import CollectedTest, Mode, WeightSource

from .strategies import Suite, suites


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "durations.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def a_test(node_id: str, mode: Mode = Mode.CONCURRENT) -> CollectedTest:
    return CollectedTest(id=node_id, file=node_id.partition("::")[0], mode=mode, gpus=1)


@given(values=st.dictionaries(st.text(), st.floats(0, durations.MAX_SECONDS)))
def test_file_round_trips(values: dict[str, float], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = write(tmp_path_factory.mktemp("round"), json.dumps(values))
    assert load(path) == values


@pytest.mark.parametrize("text", ['{"a::b": 3}', '\ufeff{"a::b": 3.0}', '[["a::b", 3]]'])
def test_whole_seconds_a_byte_order_mark_and_the_older_list_are_read(text: str, tmp_path: Path) -> None:
    assert load(write(tmp_path, text)) == {"a::b": 3.0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1.0,\n "b": 2.0,\n}', "line 3, column 1"),
        ('{"a": 1.0}\n{"b": 2.0}', "line 2, column 1: Extra data"),
        ('{"a": 1.}', "line 1, column 8"),
        ("", "line 1, column 1"),
        ('{"a": NaN}', "has nan for 'a'; seconds must lie between 0 and 10000000: measure that test again"),
        ('{"a": -Infinity}', "has -inf for 'a'"),
        ('[["a", NaN]]', "has nan for 'a'"),
        ("NaN", "does not hold durations but nan"),
        ('{"a": 1e999}', "has inf for 'a'"),
        ('{"a": ' + "9" * 5000 + "}", "has inf for 'a'"),
        ('{"a": -0.1}', "has -0.1 for 'a'"),
        ('{"a": 1e12}', "between 0 and 10000000"),
        ('{"a": 1.0, "b": 1, "a": 1.0}', "the key 'a' twice"),
        ('[["a", 1.0], ["a", 2.0]]', "the key 'a' twice"),
        ('{"a": true}', "has True for 'a'"),
        ('{"a": "1.0"}', "has '1.0' for 'a'"),
        ('{"a": null}', "has None for 'a'"),
        ('{"a": {"b": 1}}', "has an object for 'a'"),
        ('[["a", 1.0, 2]]', "does not hold durations"),
        ("[1.0]", "does not hold durations"),
        ("3.5", "does not hold durations but 3.5"),
        ("null", "does not hold durations"),
        ("[" * 100_000, "nested too deeply"),
        (b'{"\xff": 1}', "not UTF-8 at byte 2"),
    ],
)
def test_anything_else_is_refused_with_its_place(text: str | bytes, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    with pytest.raises(DurationsError) as caught:
        load(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_huge_file_is_refused_before_it_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durations, "MAX_BYTES", 10)
    with pytest.raises(DurationsError, match="larger than 10 bytes"):
        load(write(tmp_path, '{"a::b": 1.0}'))


def test_missing_file_and_folder_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DurationsError, match=r"nothing\.json: No such file"):
        load(tmp_path / "nothing.json")
    with pytest.raises(DurationsError, match="Is a directory"):
        load(tmp_path)


def test_files_that_were_really_committed_broken_are_refused() -> None:
    folder = data_folder()
    if folder is None:
        pytest.skip("the real duration sets are not here; SHARDLIB_DATA says where they are")
    paths = sorted((folder / "invalid").iterdir())
    assert len(paths) >= 3
    for path in paths:
        with pytest.raises(DurationsError, match=r"line \d+, column \d+"):
            load(path)


def test_unseen_test_gets_its_nearest_relatives_median() -> None:
    known = {"f::g[1]": 1.0, "f::g[2]": 3.0, "f::g[gone]": 9.0, "f::h": 5.0, "e::x": 0.5}
    collected = [
        *(a_test(key) for key in ("f::g[1]", "f::g[2]", "f::h")),
        a_test("e::x", Mode.ISOLATED),
        a_test("f::g[new[]"),
        a_test("f::new"),
        a_test("d::new"),
        a_test("d::alone", Mode.ISOLATED),
        a_test("d::nothing", Mode.SEQUENTIAL),
    ]
    weights = weigh(collected, known, unknown_seconds=30)
    assert {key: (weight.ms, weight.source) for key, weight in weights.by_id.items()} == {
        "f::g[1]": (1000, WeightSource.KNOWN),
        "f::g[2]": (3000, WeightSource.KNOWN),
        "f::h": (5000, WeightSource.KNOWN),
        "e::x": (500, WeightSource.KNOWN),
        "f::g[new[]": (3000, WeightSource.FUNCTION),  # 1, 3, and the parameter that is gone
        "f::new": (4000, WeightSource.FILE),
        "d::new": (3000, WeightSource.MODE),
        "d::alone": (500, WeightSource.MODE),
        "d::nothing": (30000, WeightSource.UNKNOWN),
    }
    assert (weights.known, weights.estimated, weights.stale) == (4, 5, 1)


def test_key_without_a_test_is_a_files_setup_and_stale_if_the_file_is_gone() -> None:
    weights = weigh([a_test("f::a")], {"f": 1.5, "gone": 2.0, "f::a": 1.0}, unknown_seconds=1)
    assert weights.setup_ms == {"f": 1500}
    assert weights.stale == 1


@given(suites(gpus=2))
def test_weight_is_never_zero_and_every_test_has_one(suite: Suite) -> None:
    weights = suite.weights
    assert set(weights.by_id) == {test.id for test in suite.tests}
    assert all(weight.ms >= 1 for weight in weights.by_id.values())
    assert weights.known + weights.estimated == len(suite.tests)
    known = {WeightSource.KNOWN, WeightSource.SKIPPED}
    assert {key for key, weight in weights.by_id.items() if weight.source in known} == {
        test.id for test in suite.tests if test.id in suite.durations
    }


def test_a_duration_of_0_is_known_but_says_nothing_of_what_the_test_takes_if_it_runs() -> None:
    weights = weigh(
        [a_test("f::skipped"), a_test("f::fast")], {"f::skipped": 0.0, "f::fast": 0.0001}, unknown_seconds=1
    )
    assert weights.by_id["f::skipped"] == Weight(ms=1, source=WeightSource.SKIPPED)
    assert weights.by_id["f::fast"] == Weight(ms=1, source=WeightSource.KNOWN)
    assert (weights.known, weights.estimated) == (2, 0)
