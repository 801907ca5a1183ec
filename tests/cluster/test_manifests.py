"""What is stored in manifests/, asked of the ones whose word counts: Argo's lint and the API server's schemas."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from tests.cluster.cluster import Cluster
from tests.cluster.installation import ROOT

pytestmark = pytest.mark.cluster

SETTINGS = {"manifests": "gpu-ci.toml", "tests/workflows/full/manifests": "tests/workflows/full/gpu-ci.toml"}


@pytest.mark.parametrize("settings", SETTINGS.values())
def test_argo_lints_what_is_rendered(cluster: Cluster, settings: str) -> None:
    command = [sys.executable, "-m", "workflows", "lint", "--settings", settings]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "argo lint: no complaint" in done.stdout


@pytest.mark.parametrize("folder", SETTINGS)
def test_the_api_server_takes_the_stored_manifests(cluster: Cluster, folder: str) -> None:
    text = cluster.kubectl("kustomize", str(ROOT / folder))
    documents = list(yaml.safe_load_all(text))
    (namespace,) = {document["metadata"]["namespace"] for document in documents}
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    options = ["--server-side", "--dry-run=server", "--validate=strict", "-f", "-"]
    assert cluster.kubectl("apply", *options, stdin=text).count("serverside-applied") == len(documents)
