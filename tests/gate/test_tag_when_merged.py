from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shardlib import cli
from tests.gate.github_server import GitHubServer
from tests.test_registry import StandIn, serving

TARGET = "ml/x"


@pytest.fixture
def registry() -> Iterator[StandIn]:
    with serving() as running:
        yield running


def tag(registry: StandIn, github: GitHubServer, folder: Path, *more: str) -> int:
    digest = registry.image("ml/x-ci", "a")
    argv = ["tag-image", "--source", f"{registry.host}/ml/x-ci@{digest}", "--target", f"{registry.host}/{TARGET}:main"]
    options = ["--insecure", "--if-merged", "--github-api", github.url, "--repository", "org/training", "--pr", "1"]
    options += ["--credentials", str(github.write_credentials(folder / "github")), "--parameters", str(folder)]
    return cli.main([*argv, *options, *more])


def test_a_tag_waits_for_the_merge_of_exactly_the_tested_head(
    registry: StandIn, server: GitHubServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = server.state.open("feature").head_sha
    for sha, merge, tagged in ((head, False, "false"), ("b" * 40, True, "false"), (head, False, "true")):
        if merge:
            server.state.merge(1)
        assert tag(registry, server, tmp_path, "--sha", sha) == 0
        assert (tmp_path / "tagged").read_text() == tagged
        moved = any(request.startswith("PUT") for request in map(str, registry.requests))
        assert moved == (tagged == "true")
    out = capsys.readouterr().out
    assert f"nothing is tagged: pull request 1 is not merged, and {head} was tested" in out
    assert f"nothing is tagged: pull request 1 was merged as {head}" in out


def test_whoever_cannot_ask_tags_nothing(registry: StandIn, server: GitHubServer, tmp_path: Path) -> None:
    head = server.state.open("feature").head_sha
    server.state.merge(1)
    server.fault("/repos/org/training/pulls/1", body=b'{"merged": true}')
    assert tag(registry, server, tmp_path, "--sha", head) == 19
    assert tag(registry, server, tmp_path, "--sha", "main") == 11
    assert not (tmp_path / "tagged").exists()
    assert not any(str(request).startswith("PUT") for request in registry.requests)
