"""The images of the cluster tests: `python -m tests.cluster.images` makes them, before the cluster's network is entered."""

from __future__ import annotations

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
        print(f"{'image ' + name:<58} {time.monotonic() - began:6.1f} s", flush=True)


if __name__ == "__main__":
    main()
