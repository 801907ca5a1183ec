"""The chain installed on the cluster as a user does it: settings, `python -m workflows render`, `kubectl apply -k`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardlib.gate.runs import run_name
from tests.cluster.cluster import Cluster, Run

ROOT = Path(__file__).parent.parent.parent
PVC = "mnt-ci"
TOOLS_USER = 65532

# What a machine of two cores has room for; everything else is a user's default.
SMALL: Mapping[str, Any] = {
    "pvc": PVC,
    "registry_insecure": True,
    "tools_cpu": "20m",
    "build_cpu": "20m",
    "build_memory": "1Gi",
    "build_disk": "2Gi",
    "collect_cpu": "20m",
    "collect_memory": "512Mi",
    "cpu_tests_cpu": "20m",
    "cpu_tests_memory": "512Mi",
    "gpu_cpu": "20m",
    "gpu_memory": "768Mi",
    "shm": "64Mi",
    "grace_seconds": 30,
    "pytest_args": ["tests"],
    "run_args": ["--simulated-gpus"],
}


@dataclass(frozen=True)
class Installation:
    """One set of settings, installed under a name of its own, so that tests do not meet."""

    cluster: Cluster
    settings: Path
    name: str

    def submit(self, pr: int, sha: str) -> Run:
        """Submits as CI does without a webhook."""
        self.workflows("submit", "--pr", str(pr), "--sha", sha)
        return Run(self.cluster, run_name(self.name, str(pr), sha))

    def workflows(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs `python -m workflows` with these settings."""
        command = [sys.executable, "-m", "workflows", arguments[0], "--settings", str(self.settings), *arguments[1:]]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done


def install(cluster: Cluster, folder: Path, name: str, images: Mapping[str, str], **settings: Any) -> Installation:
    """Renders the settings into a folder and applies them."""
    values = {
        **SMALL,
        "name": name,
        "namespace": cluster.namespace,
        "repository": f"example/{name}",
        "image": f"{cluster.registry}/{name}",
        "tools_image": images["ci-tools"],
        "kaniko_image": images["kaniko"],
        **settings,
    }
    folder.mkdir(parents=True)
    file = folder / "gpu-ci.toml"
    # JSON's texts, numbers and lists are TOML's, too; tables do not occur.
    file.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()))
    installation = Installation(cluster, file, name)
    installation.workflows("render", "-o", str(folder / "manifests"))
    cluster.kubectl("apply", "--server-side", "-k", str(folder / "manifests"))
    return installation


def make_volume(cluster: Cluster) -> None:
    """Makes the claim behind /mnt/ci from a folder of the node, writable for CI tools as docs/operations.md says."""
    for folder in (cluster.volume / "runs", cluster.volume / "tags"):
        folder.mkdir(exist_ok=True)
        subprocess.run(["chown", f"{TOOLS_USER}:{TOOLS_USER}", str(folder)], check=True)
    (cluster.volume / "control").mkdir(exist_ok=True)
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": PVC}
    size = {"storage": "10Gi"}
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": PVC},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "capacity": size,
                "hostPath": {"path": str(cluster.volume), "type": "Directory"},
                "storageClassName": "",
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": PVC, "namespace": cluster.namespace},
            "spec": {**spec, "resources": {"requests": size}},
        },
    )
    cluster.kubectl("wait", "--for=jsonpath={.status.phase}=Bound", f"pvc/{PVC}", "-n", cluster.namespace)
