"""Writes rendered manifests with each workflow's pods as plain Pods: a scanner that knows no Argo sees what they may do.

    python tools/workflow_pods.py manifests OUT

Accepted findings of checkov are noted on the pods, each with its reason: its own way to skip a check.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

DIGEST = "sha256:" + "0" * 64

# Accepted findings and their reasons. Of every pod:
NO_PROBES = "it ends by itself within activeDeadlineSeconds and serves nobody"
EVERYWHERE = {
    "CKV_K8S_8": NO_PROBES,
    "CKV_K8S_9": NO_PROBES,
    "CKV_K8S_11": "a limit of cores would only slow it down: requests share them out",
}
# Of pods that run code of a pull request:
FOREIGN = {
    "CKV_K8S_22": "tests and builds write where they like in their own container",
    "CKV_K8S_23": "the image under test has its own user, which is often root",
    "CKV_K8S_37": "root in that image without capabilities could not even change an owner",
    "CKV_K8S_40": "the image under test has its own user",
}
ACCEPTED: Mapping[str, Mapping[str, str]] = {
    "build-image": {
        **FOREIGN,
        "CKV_K8S_20": "RUN lines of a Dockerfile may use sudo",
        "CKV_K8S_28": "RUN lines of a Dockerfile have what they have in any build",
        "CKV_K8S_30": "Kaniko unpacks layers as root with the default capabilities",
        "CKV_K8S_31": "Kaniko has not been tried under a seccomp profile",
    },
    "collect-tests": FOREIGN,
    "cpu-tests": FOREIGN,
    "gpu-tests": {
        **FOREIGN,
        "CKV_K8S_25": "SYS_NICE binds memory to NUMA nodes",
        "CKV_K8S_28": "raw queue pairs of InfiniBand need it",
        "CKV_K8S_31": "the default profile refuses pidfd_getfd, by which processes share GPU memory",
    },
}


def pods(workflow: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields a Pod for each container or script template; templates in values become what they would be at run time."""
    spec = workflow["spec"].get("workflowSpec", workflow["spec"])  # a CronWorkflow's lies one deeper
    for template in spec["templates"]:
        main = template.get("container") or template.get("script")
        if main is None:
            continue
        own = {key: value for key, value in main.items() if key != "source"}
        reasons = {**EVERYWHERE, **ACCEPTED.get(template["name"], {})}
        notes = {f"checkov.io/skip{number}": f"{check}={why}" for number, (check, why) in enumerate(reasons.items())}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": template["name"],
                "namespace": workflow["metadata"]["namespace"],
                "annotations": notes,
                "labels": spec["podMetadata"]["labels"],
            },
            "spec": {
                "automountServiceAccountToken": spec["automountServiceAccountToken"],
                "serviceAccountName": spec["serviceAccountName"],
                "securityContext": template.get("securityContext", {}),
                "containers": [{"name": "main", **own}],
                "initContainers": template.get("initContainers", []),
                "volumes": template.get("volumes", []),
            },
        }
        yield json.loads(re.sub(r"\{\{.*?\}\}", _sample, json.dumps(pod)))


def _sample(tag: re.Match[str]) -> str:
    return f"registry.example.com/image@{DIGEST}" if tag[0] == "{{inputs.parameters.image}}" else "1"


def main() -> int:
    """Writes all into one file, for only together does a network policy belong to its pods; returns 0."""
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    found: list[Any] = []
    for path in sorted(source.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            found += pods(document) if document["kind"] in ("WorkflowTemplate", "CronWorkflow") else [document]
    out.mkdir(parents=True, exist_ok=True)
    (out / "all.yaml").write_text(yaml.safe_dump_all(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
