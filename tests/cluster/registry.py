"""The registry as the tests ask it."""

from __future__ import annotations

import urllib.error
import urllib.request

from tests.cluster.cluster import Cluster

_MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")


def digest_of(cluster: Cluster, image: str) -> str | None:
    """The digest that a tag names now; None if there is no such tag."""
    name, _, tag = image.rpartition(":")
    request = urllib.request.Request(f"http://{cluster.registry}/v2/{name}/manifests/{tag}", method="HEAD")
    request.add_header("Accept", ", ".join(_MANIFESTS))
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return str(answer.headers["Docker-Content-Digest"])
    except urllib.error.HTTPError as err:
        with err:
            if err.code == 404:
                return None
        raise
