"""The gate needs PyJWT, which the tests on old and new interpreters and with foreign plugins do without."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

collect_ignore_glob = [] if find_spec("jwt") else ["test_*.py"]

if find_spec("jwt"):
    from tests.gate.github_server import GitHubServer

    @pytest.fixture(scope="session")
    def running_server() -> Iterator[GitHubServer]:
        with GitHubServer() as running:
            yield running

    @pytest.fixture
    def server(running_server: GitHubServer) -> GitHubServer:
        running_server.reset()
        return running_server

    @pytest.fixture
    def secret(server: GitHubServer, tmp_path: Path) -> Path:
        """An App's credentials, as a mounted Secret has them."""
        return server.write_credentials(tmp_path / "secret", app=True)
