from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from shardlib.errors import SettingsError
from tests.workflows.chains import DIGEST, REQUIRED, ROOT, make_settings
from workflows import settings
from workflows.setting_checks import CHECKS, size
from workflows.settings import Settings


def test_every_setting_has_a_check_and_a_comment() -> None:
    names = [field.name for field in dataclasses.fields(Settings)]
    assert set(names) == CHECKS.keys()
    source = Path(settings.__file__).read_text()
    obvious = {"image_pull_secrets", "dockerfile", "base_branch", "shards", "cpu_tests_memory", "collect_memory"}
    obvious |= {"gpu_resource", "build_cpu", "build_deadline_seconds", "gpu_node_selector", "gpu_tolerations"}
    obvious |= {"gpu_priority_class"}
    commented = re.findall(r"^    (\w+): .*  # ", source, re.MULTILINE)
    assert set(names) - set(commented) <= obvious


def test_the_example_is_valid() -> None:
    assert settings.load(ROOT / "gpu-ci.toml").shards == 12


@pytest.mark.parametrize("missing", sorted(REQUIRED))
def test_what_has_no_default_must_be_given(missing: str) -> None:
    table = {key: value for key, value in REQUIRED.items() if key != missing}
    with pytest.raises(SettingsError, match=rf"gpu-ci\.toml: {missing} is missing"):
        Settings.from_mapping(table, "gpu-ci.toml")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("shards = 0", "shards = 0: expected an integer from 1 to 999"),
        ("shards = true", "shards = True: expected an integer"),
        ("shard = 12", "no such setting; did you mean 'shards'?"),
        ("zzz = 1", "zzz = 1: no such setting. The settings: name, namespace, "),
        ("gpu_labels.x = 1", "gpu_labels = 1: expected a table of Kubernetes labels"),
        ("[zzz.y]\nx = 1", "zzz = {'y': {'x': 1}}: no such setting."),
        ("gate = 'yes'", "gate = 'yes': expected true or false"),
        ("shm = 64", "shm = 64: expected a quantity in quotes"),
        ("shm = '64GB'", "shm = '64GB': expected a quantity"),
        ("shm = '600Gi'", "gpu_memory = '512Gi': expected more than shm = 600Gi"),
        ("gpu_resource = 'gpu'", "gpu_resource = 'gpu'"),
        ("pytest_args = 'tests'", "expected a list"),
        ("pytest_args = ['{{workflow.name}}']", "expected an argument of pytest"),
        ("durations = '/etc/passwd'", "expected a path in the repository"),
        ("durations = 'a/../../b'", "expected a path in the repository"),
        ("git_url = 'file:///tmp'", "expected https://HOST"),
        ("tools_user = 0", "expected an integer from 1"),
        ("tag_when = 'merged'", "tag_when = 'merged': expected github_secret with it"),
        ("tag_when = 'never'", "expected 'green' or 'merged'"),
        ("label = 'run \"it\"'", "expected a label of letters"),
        ("github_api = 'api.github.com'", "expected https://api.github.com"),
        ("[gpu_node_selector]\nx = 1", "gpu_node_selector = 1: expected a table of Kubernetes labels"),
        ("[[gpu_tolerations]]\nkeys = 'x'", "expected a list of tables"),
    ],
)
def test_a_wrong_setting_is_an_error_with_its_line(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "gpu-ci.toml"
    head = "".join(f'{key} = "{value}"\n' for key, value in REQUIRED.items())
    path.write_text(f"{head}\n{line}\n")
    with pytest.raises(SettingsError, match=re.escape(said)) as caught:
        settings.load(path)
    if "512Gi" not in said:  # a default has no line
        assert f"{path}:6: " in str(caught.value)


def test_a_key_of_the_same_name_in_another_table_is_not_the_setting(tmp_path: Path) -> None:
    path = tmp_path / "gpu-ci.toml"
    text = "shm = '600Gi'\n[gpu_labels]\ngpu_memory = 'x'\n"
    path.write_text("".join(f"{key} = '{value}'\n" for key, value in REQUIRED.items()) + text)
    with pytest.raises(SettingsError, match=rf"{path}: gpu_memory = '512Gi'"):  # a default has no line
        settings.load(path)


def test_toml_that_is_none_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "gpu-ci.toml"
    path.write_text("shards = = 1\n")
    with pytest.raises(SettingsError, match="line 1"):
        settings.load(path)
    with pytest.raises(SettingsError, match="cannot be read"):
        settings.load(tmp_path / "none.toml")


@pytest.mark.parametrize("key", ["tools_image", "kaniko_image"])
def test_images_that_hold_power_are_pinned_by_digest(key: str) -> None:
    image = "registry.example.com/x:latest"
    with pytest.raises(SettingsError, match=rf"{key} = .*: expected an image by digest"):
        make_settings(**{key: image})
    assert getattr(make_settings(allow_tags=True, **{key: image}), key) == image


def test_a_dockerfile_cannot_read_what_moves_the_tag() -> None:
    with pytest.raises(SettingsError, match="another Secret than registry_secret"):
        make_settings(registry_secret="a", tag_secret="a")


@pytest.mark.parametrize("missing", ["gate", "github_secret", "argo_server"])
def test_a_webhook_needs_a_gate_that_asks_github_and_a_server_that_submits(missing: str) -> None:
    values = {"gate": True, "github_secret": "github", "argo_server": "https://argo:2746"}
    assert make_settings(webhook=True, **values).webhook
    values = {key: value for key, value in values.items() if key != missing}
    with pytest.raises(SettingsError, match="webhook = True: expected gate = true, github_secret and argo_server"):
        make_settings(webhook=True, **values, **({"gate": False} if missing == "gate" else {}))


@pytest.mark.parametrize("key", ["registry_secret", "tag_secret"])
def test_github_s_credentials_are_no_registry_s(key: str) -> None:
    with pytest.raises(SettingsError, match="github_secret = 'a': expected another Secret"):
        make_settings(github_secret="a", **{key: "a"})


@pytest.mark.parametrize("image", [f"registry.example.com/x@{DIGEST}", "registry.example.com/x:main", "training"])
def test_the_image_is_a_repository_without_tag(image: str) -> None:
    with pytest.raises(SettingsError, match="without tag and digest"):
        make_settings(image=image)


@pytest.mark.parametrize(("text", "number"), [("64Gi", 64 * 2**30), ("500m", 0.5), ("8", 8.0), ("1.5G", 1.5e9)])
def test_quantities_are_read_as_kubernetes_does(text: str, number: float) -> None:
    assert size(text) == pytest.approx(number)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Settings)])
@pytest.mark.parametrize("value", ["{{workflow.name}}", "a\nb", 1.5, [["x"]], {"a": {}}, "", "x" * 10_000])
def test_no_setting_takes_a_template_or_nonsense(name: str, value: Any) -> None:
    if value == "" and name in ("tag", "check_name"):  # none, and so no step for it
        assert getattr(make_settings(**{name: ""}), name) == ""
        return
    with pytest.raises(SettingsError, match=name):
        make_settings(**{name: value})


def test_the_full_example_changes_every_default() -> None:
    full = settings.load(ROOT / "tests" / "workflows" / "full" / "gpu-ci.toml")
    plain = make_settings()
    # Without the gate there would be nothing for the webhook.
    assert [name for name in CHECKS if getattr(full, name) == getattr(plain, name)] == ["gate"]
