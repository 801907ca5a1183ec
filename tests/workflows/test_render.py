from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from shardlib.errors import UsageError
from tests.workflows.chains import ROOT, make_settings
from workflows import settings
from workflows.commands.lint import lint_texts
from workflows.render import dumps, render, write

STORED = {
    "manifests": "gpu-ci.toml",  # as a user installs them
    "tests/workflows/full/manifests": "tests/workflows/full/gpu-ci.toml",  # every setting other than its default
}


def run(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [sys.executable, *command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("folder", "source"), STORED.items())
def test_the_stored_manifests_are_what_the_settings_render(folder: str, source: str) -> None:
    texts = render(settings.load(ROOT / source))
    stored = {path.name: path.read_text("utf-8") for path in (ROOT / folder).iterdir()}
    assert stored == texts, f"python -m workflows render --settings {source} -o {folder}, and look at the difference"


@pytest.mark.parametrize("source", STORED.values())
def test_no_rule_complains_of_them(source: str) -> None:
    own = settings.load(ROOT / source)
    assert lint_texts(render(own), artifacts=own.artifacts) == []


def test_equal_settings_give_equal_texts_whatever_the_hash_seed() -> None:
    code = "from workflows.cli import main; main(['render'])"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_the_file_alone_prints_the_yaml_from_any_folder(tmp_path: Path) -> None:
    done = run(str(ROOT / "workflows" / "gpu_ci.py"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    kinds = [document["kind"] for document in yaml.safe_load_all(done.stdout)]
    assert kinds[0] == "WorkflowTemplate"
    assert sorted(set(kinds)) == [
        "ConfigMap",
        "CronWorkflow",
        "NetworkPolicy",
        "Role",
        "RoleBinding",
        "Secret",
        "ServiceAccount",
        "WorkflowEventBinding",
        "WorkflowTemplate",
    ]


def test_kustomization_names_every_file(tmp_path: Path) -> None:
    done = run("-m", "workflows", "render", "-o", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "out").iterdir()}
    kustomization = yaml.safe_load((tmp_path / "out" / "kustomization.yaml").read_text())
    assert set(kustomization["resources"]) == names - {"kustomization.yaml"}


def test_a_stranger_among_the_manifests_is_not_installed_in_silence(tmp_path: Path) -> None:
    (tmp_path / "old.yaml").write_text("kind: Secret\n")
    with pytest.raises(UsageError, match=r"old\.yaml"):
        write(render(make_settings()), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["old.yaml"]


@pytest.mark.parametrize(
    "text", ["y", "N", "on", "No", "null", "1e3", "0777", "1:30", "- a", "a: b", "{{x}}", "é", "a\nb"]
)
def test_a_text_stays_a_text(text: str) -> None:
    written = dumps([{text: text}])
    assert yaml.safe_load(written) == {text: text}
    if text in ("y", "N", "on", "No"):
        assert f"'{text}': '{text}'" in written


def test_accepted_findings_of_the_scanner_are_of_pods_that_exist(tmp_path: Path) -> None:
    done = run("tools/workflow_pods.py", "manifests", str(tmp_path))
    assert done.returncode == 0, done.stderr
    documents = list(yaml.safe_load_all((tmp_path / "all.yaml").read_text()))
    pods = {document["metadata"]["name"]: document for document in documents if document["kind"] == "Pod"}
    assert {"build-image", "collect-tests", "cpu-tests", "gpu-tests", "calculate-shards"} <= pods.keys()
    text = (ROOT / "tools" / "workflow_pods.py").read_text()
    accepted = set(re.findall(r'^    "([a-z-]+)": (?:\{|FOREIGN)', text, re.MULTILINE))
    assert accepted
    assert accepted <= pods.keys()
    assert "{{" not in str(pods)
