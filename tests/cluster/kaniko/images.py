"""Images by name and by content, as registries have them. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OCI = "application/vnd.oci.image.manifest.v1+json"
DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
TYPES = (OCI, DOCKER, *INDEXES)
# Of a manifest: the media types of its configuration and of the layers that are added.
PARTS = {
    OCI: ("application/vnd.oci.image.config.v1+json", "application/vnd.oci.image.layer.v1.tar+gzip"),
    DOCKER: (
        "application/vnd.docker.container.image.v1+json",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
    ),
}
_NAME = re.compile(r"[a-z0-9._-]+(?:/[a-z0-9._-]+)*", re.ASCII)
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)


class RegistryError(Exception):
    """A registry does not answer, refuses, or holds something else than it was said to."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """An image: registry, repository, and a tag or a digest."""

    host: str
    path: str
    version: str

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Returns the image that a text names, `latest` where it names no tag; RegistryError if it is none."""
        name, at, digest = text.partition("@")
        head, colon, tag = name.rpartition(":")
        if not colon or "/" in tag:  # what looks like a tag is a port
            head, tag = name, "latest"
        host, slash, path = head.partition("/")
        if not slash or not (set(host) & set(".:") or host == "localhost"):
            host, path = "index.docker.io", head if slash else f"library/{head}"
        if not (_NAME.fullmatch(path) and _TAG.fullmatch(tag) and (_DIGEST.fullmatch(digest) or not at)):
            raise RegistryError(f"could not parse reference: {text}")
        return cls(host=host, path=path, version=digest or tag)

    def __str__(self) -> str:
        return f"{self.host}/{self.path}{'@' if self.version.startswith('sha256:') else ':'}{self.version}"


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A layer of an image: a file of this machine, or a blob of the image that it came with, or both."""

    digest: str
    diff_id: str
    size: int
    media_type: str
    file: Path | None = None
    origin: Reference | None = None


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image: its configuration, its layers from the lowest up, and the media type of its manifest."""

    config: Mapping[str, Any]
    layers: tuple[Layer, ...]
    media_type: str = DOCKER

    @property
    def layer_type(self) -> str:
        """The media type of layers that are added."""
        return PARTS[self.media_type][1]


def manifest_of(image: Image) -> tuple[bytes, bytes]:
    """Returns an image's configuration and manifest as they are pushed."""
    config = _json(image.config)
    config_type, _ = PARTS[image.media_type]
    layers = [{"mediaType": one.media_type, "size": one.size, "digest": one.digest} for one in image.layers]
    manifest = {
        "schemaVersion": 2,
        "mediaType": image.media_type,
        "config": {"mediaType": config_type, "size": len(config), "digest": digest_of(config)},
        "layers": layers,
    }
    return config, _json(manifest)


def digest_of(content: bytes) -> str:
    """Returns the digest by which registries name a content."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("utf-8")
