"""The images of the cluster tests: `python -m tests.cluster.images` makes them, before the cluster's network is entered."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from tests.cluster import containers

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
BASE = "base"  # the testbed's: Debian with Python
SOURCES = {  # Dockerfile and context
    "ci-tools": (ROOT / "containers" / "ci-tools.Dockerfile", ROOT),
    "numba": (ROOT / "containers" / "training.Dockerfile", ROOT / "examples" / "numba"),
    "kaniko": (HERE / "dockerfiles" / "kaniko.Dockerfile", HERE),
    "small": (HERE / "dockerfiles" / "small.Dockerfile", HERE / "dockerfiles"),
}


def main() -> None:
    """Makes those whose inputs changed; the registry has them as NAME:latest once the testbed is up."""
    for name, (dockerfile, context) in SOURCES.items():
        began = time.monotonic()
        containers.build(HERE / "testbed", dockerfile, name, BASE, context)
        seconds, megabytes = time.monotonic() - began, size(name) / 1e6
        print(f"{'image ' + name:<44} {megabytes:6.0f} MB {seconds:9.1f} s", flush=True)


def size(name: str) -> int:
    """Returns the bytes of an image's layers, compressed as the registry has them."""
    layout = Path(os.environ.get("TESTBED_HOME", "/var/tmp/argo-testbed")) / "images" / name
    index = json.loads((layout / "index.json").read_text())
    manifest = json.loads(_blob(layout, index["manifests"][0]["digest"]))
    return sum(int(layer["size"]) for layer in manifest["layers"])


def _blob(layout: Path, digest: str) -> str:
    return layout.joinpath("blobs", *digest.split(":")).read_text()


if __name__ == "__main__":
    main()
