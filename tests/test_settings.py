from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib.errors import SettingsError
from shardlib.model import Mode
from shardlib.settings import ModeRule, Settings, load


def read(tmp_path: Path, text: str) -> Settings:
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    return load(tmp_path)


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, text)
    return str(caught.value)


@pytest.mark.versions
def test_without_a_file_or_a_table_everything_has_its_default(tmp_path: Path) -> None:
    assert load(tmp_path) == Settings()
    assert read(tmp_path, "[project]\nname = 'x'\n") == Settings()


@pytest.mark.versions
def test_a_table_is_read_whole(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        """
        [tool.shardlib]
        marker = "cuda"
        default_mode = "isolated"
        gpus_per_node = 4
        unknown_seconds = 12
        sticky_errors = ["boom"]
        [[tool.shardlib.modes]]
        match = "tests/dist/*"
        mode = "isolated"
        gpus = 4
        [[tool.shardlib.modes]]
        match = "tests/cpu/*"
        mode = "cpu"
        """,
    )
    assert settings == Settings(
        marker="cuda",
        default_mode=Mode.ISOLATED,
        gpus_per_node=4,
        unknown_seconds=12.0,
        sticky_errors=("boom",),
        modes=(
            ModeRule(match="tests/dist/*", mode=Mode.ISOLATED, gpus=4),
            ModeRule(match="tests/cpu/*", mode=Mode.CPU),
        ),
    )


def test_an_unknown_key_is_refused_with_its_line_and_what_was_meant(tmp_path: Path) -> None:
    message = refusal(tmp_path, '[project]\nmarkr = 1\n\n[tool.shardlib]\n# comment\nmarkr = "gpu"\n')
    assert f"{tmp_path}/pyproject.toml:6: tool.shardlib.markr = 'gpu'" in message
    assert "did you mean 'marker'?" in message
    assert "gpus_per_node" in message  # the valid ones are listed
    message = refusal(tmp_path, "[tool.shardlib]\nzzz = 1\n")
    assert "pyproject.toml:2: tool.shardlib.zzz = 1: no such setting. The settings: marker, " in message


def test_a_wrong_value_in_a_rule_is_refused_with_the_line_of_that_rule(tmp_path: Path) -> None:
    head = '[tool.shardlib]\n[[tool.shardlib.modes]]\nmatch = "a"\nmode = "cpu"\n'
    message = refusal(tmp_path, head + '[[tool.shardlib.modes]]\nmatch = "b"\nmode = "isolatd"\n')
    assert "pyproject.toml:7: tool.shardlib.modes[1].mode = 'isolatd'" in message
    assert "did you mean 'isolated'?" in message


def test_a_table_in_the_place_of_a_value_is_refused_with_the_line_of_its_header(tmp_path: Path) -> None:
    message = refusal(tmp_path, '[tool.shardlib]\n\n[tool.shardlib.modes]\nmatch = "a"\n')
    assert "pyproject.toml:3: tool.shardlib.modes = " in message


def test_rules_as_inline_tables_are_refused_with_the_line_of_the_list(tmp_path: Path) -> None:
    message = refusal(tmp_path, '[tool.shardlib]\nmodes = [\n  {match = "a", mode = "cpu", gpus = 1},\n]\n')
    assert "pyproject.toml:2: tool.shardlib.modes[0].gpus" in message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gpus_per_node", "0"),
        ("gpus_per_node", "65"),
        ("gpus_per_node", "8.0"),
        ("gpus_per_node", "true"),
        ("cpu_slots", "0"),
        ("collect_gpus", "-1"),
        ("startup_seconds", "-0.5"),
        ("startup_seconds", "nan"),
        ("startup_seconds", "inf"),
        ("startup_seconds", '"10"'),
        ("unknown_seconds", "0"),
        ("timeout_factor", "0.5"),
        ("gpu_hour_price", "-1"),
        ("flaky", '"yellow"'),
        ("marker", '"a b"'),
        ("marker", '""'),
        ("default_mode", "1"),
        ("sticky_errors", '"text"'),
        ("sticky_errors", '[""]'),
        ("modes", '"isolated"'),
        ("modes", '[{mode = "cpu"}]'),
        ("modes", '[{match = "x", mode = "isolated", gpus = 9}]'),
        ("modes", '[{match = "x", mode = "isolated", gpus = 0}]'),
        ("modes", '[{match = "x", mode = "sequential", gpus = 2}]'),
        ("modes", '[{match = "x", mode = "cpu", gpu = 2}]'),
        ("max_detail_bytes", "1" * 5000),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(tmp_path: Path, key: str, value: str) -> None:
    message = refusal(tmp_path, f"[tool.shardlib]\n{key} = {value}\n")
    assert str(tmp_path / "pyproject.toml") in message
    assert key in message or "TOML" in message


@pytest.mark.parametrize("text", ["[tool.shardlib\n", "tool = 3\n", "[tool]\nshardlib = 3\n", "a = " + "[" * 3000])
def test_a_file_that_is_no_toml_or_no_table_is_refused(tmp_path: Path, text: str) -> None:
    assert "pyproject.toml" in refusal(tmp_path, text)


def test_a_rule_must_fit_the_node_that_the_command_line_names() -> None:
    settings = Settings.from_mapping({"modes": [{"match": "x", "mode": "isolated", "gpus": 8}]}, "f")
    with pytest.raises(SettingsError, match=r"--gpus: tool\.shardlib\.modes\[0\]\.gpus = 8"):
        settings.with_values("--gpus", gpus_per_node=4)
    assert settings.with_values("--gpus", gpus_per_node=16).gpus_per_node == 16


RULES = st.lists(
    st.one_of(
        st.builds(ModeRule, match=st.text(min_size=1), mode=st.sampled_from(list(Mode))),
        st.builds(ModeRule, match=st.text(min_size=1), mode=st.just(Mode.ISOLATED), gpus=st.integers(1, 8)),
    ),
    max_size=3,
).map(tuple)


@given(
    st.builds(
        Settings,
        default_mode=st.sampled_from(list(Mode)),
        modes=RULES,
        collect_gpus=st.none() | st.integers(0, 8),
        gpu_hour_price=st.none() | st.floats(0, 1000),
        startup_seconds=st.floats(0, 100),
        sticky_errors=st.lists(st.text(min_size=1)).map(tuple),
    )
)
def test_settings_survive_json(settings: Settings) -> None:
    assert Settings.from_json(settings.to_json(), "x") == settings


@pytest.mark.parametrize("value", [None, [], {}, {"marker": "gpu"}])
def test_json_that_lacks_settings_is_refused(value: Any) -> None:
    with pytest.raises(SettingsError, match="settings"):
        Settings.from_json(value, "plan.json")
