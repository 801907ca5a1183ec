"""An OCI registry over HTTP: images are pulled to files and pushed from files, blobs are mounted where that is possible.

After the OCI distribution specification 1.1, with Basic and token authentication. Left out: mirrors, credential helpers,
client certificates, chunked uploads, and plain HTTP that nobody asked for (Kaniko falls back to it for local addresses).
"""

from __future__ import annotations

import base64
import json
import platform
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any

from .images import INDEXES, PARTS, TYPES, Image, Layer, Reference, RegistryError, digest_of

_TIMEOUT_SECONDS = 120.0
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, kw_only=True)
class _Answer:
    status: int
    headers: Message
    url: str
    body: bytes


class Registry:
    """One registry; `login` is "USER:PASSWORD" or None, `plain` means HTTP without TLS."""

    def __init__(self, host: str, *, login: str | None, plain: bool) -> None:
        self._base = f"{'http' if plain else 'https'}://{host}"
        self._login = login
        self._authorization: str | None = None

    def check_push(self, target: Reference) -> None:
        """Opens an upload and gives it up again; RegistryError if the login may not."""
        answer = self._ask("POST", f"/v2/{target.path}/blobs/uploads/")
        self._ask("DELETE", urllib.parse.urljoin(answer.url, answer.headers["Location"]), accepted=(404,))

    def pull(self, source: Reference) -> Image:
        """Returns an image for this machine's architecture; its layers are still in the registry."""
        kind, manifest = self._manifest(source, source.version)
        if kind in INDEXES:
            wanted = _ARCHITECTURES.get(platform.machine(), platform.machine())
            fitting = [
                one["digest"]
                for one in manifest["manifests"]
                if one.get("platform", {}).get("architecture") == wanted and one["platform"].get("os") == "linux"
            ]
            if not fitting:
                raise RegistryError(f"{source}: no child with platform linux/{wanted}")
            kind, manifest = self._manifest(source, fitting[0])
        if kind not in PARTS:
            raise RegistryError(f"{source}: a manifest of type {kind} is not implemented here")
        config = json.loads(self._blob(source, manifest["config"]["digest"]))
        layers = zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True)
        return Image(
            config=config,
            layers=tuple(
                Layer(
                    digest=one["digest"],
                    diff_id=diff_id,
                    size=one["size"],
                    media_type=one["mediaType"],
                    origin=source,
                )
                for one, diff_id in layers
            ),
            media_type=kind,
        )

    def download(self, layer: Layer, folder: Path) -> Path:
        """Returns a file with a layer of an image that was pulled."""
        if layer.origin is None:
            raise RegistryError(f"{layer.digest} is in no registry")
        target = folder / layer.digest.replace(":", "-")
        if not target.exists():
            target.write_bytes(self._blob(layer.origin, layer.digest))
        return target

    def has_or_mounts(self, target: Reference, layer: Layer) -> bool:
        """Says whether a layer is in the target's repository, after mounting it from its origin's if that can be."""
        there = self._ask("HEAD", f"/v2/{target.path}/blobs/{layer.digest}", accepted=(404,))
        if there.status == 200:
            return True
        if layer.origin is None or layer.origin.host != target.host:
            return False
        query = urllib.parse.urlencode({"mount": layer.digest, "from": layer.origin.path})
        answer = self._ask("POST", f"/v2/{target.path}/blobs/uploads/?{query}")
        if answer.status != 201:  # it opened an upload instead, which nobody will use
            self._ask("DELETE", urllib.parse.urljoin(answer.url, answer.headers["Location"]), accepted=(404,))
        return answer.status == 201

    def upload(self, target: Reference, digest: str, content: bytes) -> None:
        """Puts a blob into the target's repository."""
        answer = self._ask("POST", f"/v2/{target.path}/blobs/uploads/")
        place = urllib.parse.urljoin(answer.url, answer.headers["Location"])
        place += ("&" if "?" in place else "?") + urllib.parse.urlencode({"digest": digest})
        self._ask("PUT", place, {"Content-Type": "application/octet-stream"}, content)

    def put_manifest(self, target: Reference, manifest: bytes, media_type: str) -> None:
        """Gives the target's tag a manifest, whose blobs are all there."""
        self._ask("PUT", f"/v2/{target.path}/manifests/{target.version}", {"Content-Type": media_type}, manifest)

    def _manifest(self, source: Reference, version: str) -> tuple[str, Any]:
        answer = self._ask("GET", f"/v2/{source.path}/manifests/{version}", {"Accept": ", ".join(TYPES)})
        if version.startswith("sha256:") and digest_of(answer.body) != version:
            raise RegistryError(f"{source}: the registry sent other bytes than the digest's")
        return (answer.headers.get("Content-Type") or "").partition(";")[0], json.loads(answer.body)

    def _blob(self, source: Reference, digest: str) -> bytes:
        content = self._ask("GET", f"/v2/{source.path}/blobs/{digest}").body
        if digest_of(content) != digest:
            raise RegistryError(f"{source}: the registry sent other bytes than those of {digest}")
        return content

    def _ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        *,
        accepted: tuple[int, ...] = (),
    ) -> _Answer:
        url = urllib.parse.urljoin(self._base, path)
        answer = self._send(method, url, headers or {}, body)
        if answer.status == 401:
            self._authorization = self._authorize(answer.headers.get("WWW-Authenticate") or "")
            answer = self._send(method, url, headers or {}, body)
        if answer.status >= 300 and answer.status not in accepted:
            raise RegistryError(f"{method} {url}: {answer.status} {answer.body[:500].decode('utf-8', 'replace')}")
        return answer

    def _authorize(self, challenge: str) -> str:
        """Returns the Authorization header that a 401 asks for."""
        scheme, _, rest = challenge.partition(" ")
        basic = f"Basic {base64.b64encode(self._login.encode()).decode('ascii')}" if self._login else ""
        if scheme.lower() == "basic" and basic:
            return basic
        asked = dict(re.findall(r'(\w+)="([^"]*)"', rest))
        if scheme.lower() != "bearer" or "realm" not in asked:
            raise RegistryError(
                f"{self._base}: UNAUTHORIZED: authentication required ({challenge}), and no login for it"
            )
        query = [("service", asked.get("service", "")), *(("scope", one) for one in asked.get("scope", "").split())]
        url = f"{asked['realm']}?{urllib.parse.urlencode(query)}"
        answer = _open("GET", url, {"Authorization": basic} if basic else {}, None)
        if answer.status != 200:
            raise RegistryError(f"GET {url}: {answer.status}")
        token = json.loads(answer.body)
        return f"Bearer {token.get('token') or token['access_token']}"

    def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> _Answer:
        own = {"Authorization": self._authorization} if self._authorization else {}
        return _open(method, url, {**headers, **own}, body)


def logins(folder: Path) -> dict[str, str]:
    """Returns "USER:PASSWORD" by registry from a folder's config.json, Docker's file of logins; none without the file."""
    file = folder / "config.json"
    if not file.exists():
        return {}
    found = {}
    for name, entry in json.loads(file.read_text(encoding="utf-8")).get("auths", {}).items():
        host = re.sub(r"^https?://|/.*$", "", name)
        if "auth" in entry:
            found[host] = base64.b64decode(entry["auth"]).decode("utf-8")
        elif "username" in entry:
            found[host] = f"{entry['username']}:{entry['password']}"
    return found


def _open(method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> _Answer:
    request = urllib.request.Request(url, data=body, headers=dict(headers), method=method)
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
            return _Answer(status=answer.status, headers=answer.headers, url=url, body=answer.read())
    except urllib.error.HTTPError as err:
        with err:
            return _Answer(status=err.code, headers=err.headers, url=url, body=err.read())
    except OSError as err:
        raise RegistryError(f"{method} {url}: {err}") from err
