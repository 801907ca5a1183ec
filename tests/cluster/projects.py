"""Fixtures: the cluster, its images, and projects on it; without a cluster (`make cluster-test` brings one up) tests skip."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster import git_server, images
from tests.cluster.cluster import Cluster, Run
from tests.cluster.gated import GatedProject, accept, refuse, settings_of
from tests.cluster.installation import Installation, install, make_volume
from tests.cluster.registry import digest_of
from tests.cluster.repositories import Repository
from tests.gate.github_server import GitHubServer
from tests.gate.github_state import State

_NEEDED = ("ARGO_NAMESPACE", "TESTBED_REGISTRY", "TESTBED_NODE", "TESTBED_VOLUME", "TESTBED_HOME")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    missing = [name for name in _NEEDED if name not in os.environ]
    if missing:
        pytest.skip(f"needs a cluster with Argo ({', '.join(missing)} not set): make cluster-test")
    found = Cluster()
    make_volume(found)
    return found


@pytest.fixture(scope="session")
def built(cluster: Cluster) -> dict[str, str]:
    """The images by name, with their digests."""
    digests = {name: digest_of(cluster, f"{name}:latest") for name in images.SOURCES}
    assert None not in digests.values(), f"{digests}: make cluster makes them"
    return {name: f"{cluster.registry}/{name}@{digest}" for name, digest in digests.items()}


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("git") / "served"


@pytest.fixture(scope="session")
def git_url(cluster: Cluster, served: Path) -> Iterator[str]:
    served.mkdir()
    with git_server.serve(served, cluster.node_address) as url:
        yield url


@dataclass(frozen=True)
class Project:
    """A repository and the chain that tests its pull requests."""

    installation: Installation
    repository: Repository
    head: str  # of a branch with one changed file

    def submit(self, pr: int, sha: str) -> Run:
        """A submitted run, on its way to the gate."""
        return self.installation.submit(pr, sha)

    def opened(self, pr: int) -> Run:
        """A run of the head that somebody has just let pass the gate."""
        run = self.submit(pr, self.head)
        run.suspended()
        run.resume()
        return run

    def follow(self, name: str) -> Run:
        return Run(self.installation.cluster, name)

    def flag(self, name: str) -> None:
        """Puts a file where the suite's tests look for it."""
        (self.installation.cluster.volume / "control" / self.installation.name / name).touch()


ProjectMaker = Callable[..., Project]


@pytest.fixture
def project(
    cluster: Cluster, built: dict[str, str], served: Path, git_url: str, tmp_path: Path
) -> Callable[..., Project]:
    """Makes a project under a name of its own, so that tests do not meet, from files and settings."""

    def make(name: str, files: Mapping[str, str], **settings: object) -> Project:
        control = cluster.volume / "control" / name
        shutil.rmtree(control, ignore_errors=True)  # of an earlier session, like its workflows
        control.mkdir()
        for template in (name, f"{name}-open-gate", f"{name}-close-gate"):
            cluster.argo("delete", "--selector", f"workflows.argoproj.io/workflow-template={template}")
        installation = install(cluster, tmp_path / name, name, built, **{"git_url": git_url, **settings})
        repository = Repository.make(served, f"example/{name}", files)
        return Project(installation, repository, repository.push("pr", {"src/kernel.py": "# faster\n"}, base="main"))

    return make


GatedMaker = Callable[..., GatedProject]


@pytest.fixture
def gated(cluster: Cluster, project: ProjectMaker, tmp_path: Path) -> Iterator[GatedMaker]:
    """Makes a project as `project` does, behind the gate: with a GitHub of its own whose deliveries Argo's server takes."""
    with contextlib.ExitStack() as stack:

        def make(name: str, files: Mapping[str, str], **settings: object) -> GatedProject:
            github = stack.enter_context(GitHubServer(cluster.node_address))
            github.state = State(repository=f"example/{name}")
            own = settings_of(cluster, name, github, tmp_path / f"{name}-github")
            made = project(name, files, **{**own, **settings})
            stack.callback(refuse, cluster, name)
            return GatedProject(
                installation=made.installation,
                repository=made.repository,
                github=github,
                secret=accept(cluster, name),
                head=made.head,
            )

        yield make
