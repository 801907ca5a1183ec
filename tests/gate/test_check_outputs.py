"""What a step wrote for the workflow is also what its check says."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlib import cli
from tests.gate.github_server import GitHubServer
from tests.gate.github_state import sha


def check(server: GitHubServer, folder: Path, *more: str) -> int:
    options = ["--github-api", server.url, "--credentials", str(server.write_credentials(folder / "app", app=True))]
    options += ["--repository", "org/training", "--sha", sha("feature"), "--uid", "uid-1"]
    options += ["--started", "2026-03-02T12:00:00Z", *more]
    return cli.main(["check", "--outputs", str(folder / "outputs"), *options])


@pytest.mark.parametrize(
    ("outputs", "title"),
    [
        ({"gpu-code": "false", "sha": "x"}, "Not needed: no GPU code changed"),
        ({"gpu-code": "false", "labelled": "true"}, "Not needed: no GPU code changed"),
        ({"gpu-code": "true", "labelled": "false", "sha": "x"}, "Waiting for the label run-gpu-tests"),
        ({"gpu-code": "true", "labelled": "true", "sha": "x"}, "Waiting for the label run-gpu-tests"),
        ({"gpu-code": "true", "sha": "x"}, "Running"),  # there is no gate
        ({"reason": "open", "sha": "x"}, "Running"),
        ({"reason": "closed: the head is another"}, "Refused: closed: the head is another"),
        ({}, None),  # it failed before it knew anything
        (None, None),
    ],
)
def test_the_state_follows_from_what_the_step_wrote(
    server: GitHubServer, tmp_path: Path, outputs: dict[str, str] | None, title: str | None
) -> None:
    server.state.open("feature")
    if outputs is not None:
        (tmp_path / "outputs").mkdir()
        for name, text in outputs.items():
            (tmp_path / "outputs" / name).write_text(text)
    assert check(server, tmp_path) == 0
    found = [run["output"]["title"] for run in server.state.check_runs.values()]
    assert found == ([title] if title else [])


def test_a_state_and_outputs_are_one_too_many(server: GitHubServer, tmp_path: Path) -> None:
    assert check(server, tmp_path, "--state", "running") == 11
    assert server.requests == []
