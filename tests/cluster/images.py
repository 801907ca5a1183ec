"""The images of the cluster tests, made on this machine from Dockerfiles as the testbed makes them."""

from __future__ import annotations

from pathlib import Path

from tests.cluster import containers

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
BASE = "base"  # the testbed's: Debian with Python
DOCKERFILES = {
    "ci-tools": ROOT / "containers" / "ci-tools.Dockerfile",
    "numba": ROOT / "containers" / "training.Dockerfile",
    "kaniko": HERE / "dockerfiles" / "kaniko.Dockerfile",
    "small": HERE / "dockerfiles" / "small.Dockerfile",
}


def build() -> dict[str, str]:
    """Returns the full name of each image, with its digest; makes those whose inputs changed."""
    return {
        name: containers.build(HERE / "testbed", dockerfile, name, BASE, ROOT)
        for name, dockerfile in DOCKERFILES.items()
    }
