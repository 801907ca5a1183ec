from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from shardlib.gate.runs import run_name
from tests.gate.argo_server import TOKEN, serving_argo
from tests.gate.github_server import USER_TOKEN, GitHubServer
from tests.repositories import commit, git
from tests.workflows.chains import REQUIRED, ROOT
from workflows.cli import main


def settings_file(folder: Path, **values: object) -> Path:
    path = folder / "gpu-ci.toml"
    required = {key: value for key, value in REQUIRED.items() if key not in values}
    lines = [
        f"{key} = {str(value).lower() if isinstance(value, bool) else repr(value)}" for key, value in values.items()
    ]
    path.write_text("\n".join([*(f"{key} = '{value}'" for key, value in required.items()), *lines]) + "\n")
    return path


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert main(["submit", "--help"]) == 0
    out = capsys.readouterr().out
    for name in ("render", "lint", "dry-run", "preflight", "submit", "--pr"):
        assert name in out


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["deploy"], "no command 'deploy'; the commands: render, lint"),
        (["submit"], "--pr, --sha\nusage: python -m workflows submit"),
        (["render", "--x"], "unrecognized arguments: --x\nusage: "),
        (["dry-run", "--shards", "0"], "argument --shards: '0': expected a whole number, at least 1"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 11
    assert said in capsys.readouterr().err


def test_no_command_shows_the_commands_and_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 11
    assert "  preflight " in capsys.readouterr().out


def test_wrong_settings_write_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = settings_file(tmp_path, shards=0)
    assert main(["render", "--settings", str(path), "-o", str(tmp_path / "out")]) == 12
    assert f"{path}:5: shards = 0" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_lint_is_green_for_the_settings_and_red_for_a_file_with_a_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")  # no argo, whatever this machine has
    path = settings_file(tmp_path)
    assert main(["lint", "--settings", str(path)]) == 0
    out = capsys.readouterr().out
    assert "0 findings by our rules and Argo's schema; argo lint: not installed" in out
    assert "note: github_secret is not set, so nothing asks GitHub: whoever may update workflows is the gate" in out
    assert main(["render", "--settings", str(path), "-o", str(tmp_path / "out")]) == 0
    broken = tmp_path / "out" / "gpu-ci.yaml"
    broken.write_text(
        broken.read_text().replace("depends: calculate-shards.Succeeded", "depends: find-changed.Succeeded")
    )
    assert main(["lint", "--settings", str(path), str(broken)]) == 1
    assert "does not depend on calculate-shards, so this hangs for ever" in capsys.readouterr().out
    broken.write_text("a: [")
    assert main(["lint", "--settings", str(path), "--", str(broken)]) == 11
    assert "is not valid YAML" in capsys.readouterr().err


def test_argo_s_own_lint_is_asked_where_there_is_one_and_its_complaint_is_red(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen.yaml"
    argo = tmp_path / "bin" / "argo"
    argo.parent.mkdir()
    monkeypatch.setenv("PATH", f"{argo.parent}{os.pathsep}{os.environ['PATH']}")
    path = settings_file(tmp_path)
    for code, verdict in ((0, "argo lint: no complaint"), (1, "argo lint: bad spec")):
        argo.write_text(
            f'#!/bin/sh\n[ "$1 $2" = "lint --offline" ] || exit 9\ncp "$3" {seen}\n'
            f"[ {code} = 0 ] || echo bad spec\nexit {code}\n"
        )
        argo.chmod(0o755)
        assert main(["lint", "--settings", str(path)]) == code
        assert verdict in capsys.readouterr().out
    kinds = [document["kind"] for document in yaml.safe_load_all(seen.read_text())]
    assert kinds == ["WorkflowTemplate", "Workflow"]  # without the second, parameters go unchecked


@pytest.mark.parametrize("command", ["open-gate", "close-gate"])
def test_ci_does_by_command_what_a_delivery_would(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardlib.gate.steering.LAG_SECONDS", 0.0)
    monkeypatch.setattr("shardlib.gate.steering.FIRST_PAUSE_SECONDS", 0.0)
    with GitHubServer() as github, serving_argo() as argo:
        path = settings_file(
            tmp_path, github_api=github.url, repository="org/training", namespace="ns", name="kernels", label="go"
        )
        head = github.state.open("feature").head_sha
        argv = [command, "--settings", str(path), "--pr", "1"]
        monkeypatch.delenv("GITHUB_TOKEN", raising=False)
        assert main(argv) == 11
        assert "--credentials is missing" in capsys.readouterr().err
        monkeypatch.setenv("GITHUB_TOKEN", USER_TOKEN)
        monkeypatch.setenv("ARGO_TOKEN", f"Bearer {TOKEN}")
        monkeypatch.setenv("ARGO_SERVER", argo.url.removeprefix("http://"))
        monkeypatch.setenv("ARGO_SECURE", "false")
        assert main(argv) == 0
        assert argo.workflows.calls == [f"submit {run_name('kernels', '1', head)}"]


@pytest.mark.slow
def test_a_dry_run_says_what_would_run_and_what_it_would_take(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    git(repo, "init", "--quiet", "--initial-branch=main")
    commit(
        repo,
        {"test_x.py": "def test_x(): pass\ndef test_y(): pass\n", "Dockerfile": "FROM x\n", "pytest.ini": "[pytest]\n"},
    )
    git(repo, "checkout", "--quiet", "-b", "feature")
    commit(repo, {"src/kernel.cu": "1", "README.md": "1"})
    path = settings_file(tmp_path, gpu_paths=["src/*"], pytest_args=["."])
    argv = ["dry-run", "--settings", str(path), "--repo", str(repo), "--shards", "2", "--gpu-hour-price", "2.5"]

    def dry_run(*more: str) -> subprocess.CompletedProcess[str]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "PYTHON"))}
        command = [sys.executable, "-m", "workflows", *argv, *more]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    done = dry_run("-o", str(tmp_path / "out.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr
    for line in (
        "2 files changed, 1 of them GPU code: GPU tests are needed",
        "waits for somebody, 72 h at most",
        "pushed to registry.example.com/ml/training-ci",
        "2 tests in 1 files: ",
        "makespan",
        "cost",
    ):
        assert line in done.stdout
    assert yaml.safe_load((tmp_path / "out.yaml").read_text().split("---\n")[0])["kind"] == "WorkflowTemplate"
    for program in ("nopython", str(tmp_path / "nopython")):
        done = dry_run("--python", program)
        assert (done.returncode, done.stdout) == (11, "")
        assert f"--python {program}: no such program" in done.stderr
    git(repo, "checkout", "--quiet", "main")
    assert "no GPU test is needed" in dry_run().stdout
    (repo / "test_x.py").write_text("import nowhere\n")
    assert dry_run().returncode == 13
