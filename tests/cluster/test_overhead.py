"""What the chain costs beside the bare fan-out that a user would write: the same image, GPUs and sleeps."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tests.cluster.cluster import Cluster, Node, Run
from tests.cluster.projects import ProjectMaker
from tests.cluster.suites import suite

pytestmark = [pytest.mark.cluster, pytest.mark.alone]

SLEEP_SECONDS, FILES, SHARDS, GPUS = 4, 24, 12, 8
SLEEPS = f"""
import time, pytest

@pytest.mark.gpu(gpus={GPUS})
def test_sleeps(): time.sleep({SLEEP_SECONDS})
"""


def test_the_chain_beside_a_bare_fan_out(cluster: Cluster, project: ProjectMaker, record_property: Any) -> None:
    tests = {f"sleeps_{number}": SLEEPS for number in range(FILES)}
    made = project("overhead", suite(cluster.registry, "overhead", **tests), shards=SHARDS, gpus=GPUS)
    run = made.opened(1)
    chain = run.end("Succeeded")
    image = f"{cluster.registry}/overhead-ci@{chain.node('build-image').output('digest')}"
    bare = bare_fan_out(cluster, image).end("Succeeded")
    shards, pods = chain.attempts("gpu-tests"), bare.attempts("shard")
    whole = span([node for node in chain.nodes if node.template not in ("find-changed", "wait-for-label")])
    figures = {
        "chain from the gate to the tag": whole,
        "chain's shards": span(shards),
        "bare fan-out": span(pods),
        "chain / bare": whole / span(pods),
        "shards / bare": span(shards) / span(pods),
    }
    for name, value in figures.items():
        record_property(name, value)
        print(f"{name:<32} {value:8.2f}")
    assert len(shards) == len(pods) == SHARDS


def bare_fan_out(cluster: Cluster, image: str) -> Run:
    """Every pod runs the files that sums of seconds would give it, by plain pytest."""
    files = " ".join(f"tests/test_sleeps_$((I + {step})).py" for step in range(0, FILES, SHARDS))
    container = {
        "image": image,
        "command": ["sh", "-c", f"python3 -m pytest -q {files}"],
        "workingDir": "/workspace",
        "env": [{"name": "I", "value": "{{inputs.parameters.i}}"}],
        "resources": {
            "requests": {"cpu": "20m", "memory": "64Mi"},
            "limits": {"memory": "768Mi", "nvidia.com/gpu": str(GPUS)},
        },
    }
    fan_out = {
        "name": "shard",
        "template": "shard",
        "arguments": {"parameters": [{"name": "i", "value": "{{item}}"}]},
        "withSequence": {"count": str(SHARDS)},
    }
    spec = {
        "entrypoint": "main",
        "templates": [
            {"name": "main", "dag": {"tasks": [fan_out]}},
            {"name": "shard", "inputs": {"parameters": [{"name": "i"}]}, "container": container},
        ],
    }
    name = "bare-fan-out"
    cluster.argo("delete", name, check=False)
    cluster.apply(
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Workflow",
            "metadata": {"name": name, "namespace": cluster.namespace},
            "spec": spec,
        }
    )
    return Run(cluster, name)


def span(nodes: list[Node]) -> float:
    """Seconds from the first start to the last end; Argo keeps whole seconds."""
    ended = [node.body for node in nodes if node.body.get("finishedAt")]
    start, end = min(node["startedAt"] for node in ended), max(node["finishedAt"] for node in ended)
    return (_time(end) - _time(start)).total_seconds()


def _time(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z")
