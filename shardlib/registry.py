"""An OCI registry over HTTP, as far as it takes to give a digest a tag: manifests, blobs that are mounted, tokens.

After the OCI distribution specification 1.1 and Docker's token authentication. A manifest's bytes are never changed, since
they are what the digest is of.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Any

from shardlib.errors import InfrastructureError, RegistryError, UsageError
from shardlib.fields import parse, short

MAX_MANIFEST_BYTES = 4 << 20  # what registries accept at most
_TIMEOUT_SECONDS = 60.0
_MAX_DEPTH = 3  # an index of indexes of images; nothing real goes deeper
_REFERENCE = re.compile(
    r"(?P<host>[A-Za-z0-9.-]+(?::[0-9]{1,5})?)/(?P<path>[a-z0-9._-]+(?:/[a-z0-9._-]+)*)"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64})|:(?P<tag>\w[\w.-]{0,127}))",
    re.ASCII,
)
_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """An image by digest or by tag; exactly one of them is set."""

    host: str
    path: str
    digest: str | None = None
    tag: str | None = None

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Returns the reference that a text is; UsageError if it is none."""
        match = _REFERENCE.fullmatch(text)
        if match is None:
            raise UsageError(f"{short(text)} is no image: REGISTRY/PATH@sha256:... or REGISTRY/PATH:TAG")
        return cls(**match.groupdict())


@dataclass(frozen=True, kw_only=True)
class _Answer:
    status: int
    headers: Message
    body: bytes


class Registry:
    """One registry; `login` is "USER:PASSWORD", or None where anybody may. `insecure` means plain HTTP."""

    def __init__(self, host: str, *, login: str | None = None, insecure: bool = False) -> None:
        self._base = f"{'http' if insecure else 'https'}://{host}"
        self._login = login
        self._authorization: str | None = None
        self._opener = urllib.request.build_opener(_NoRedirect)

    def check(self) -> None:
        """Asks whether a registry answers here at all, with or without a login; RegistryError or InfrastructureError."""
        answer = self._send("GET", "/v2/", {}, None)
        if answer.status not in (200, 401, 403):
            raise RegistryError(f"GET {self._base}/v2/: {answer.status}, which is no registry's answer")

    def copy(self, source: Reference, target: Reference) -> str:
        """Gives the source's digest the target's tag and returns the digest; both lie in this registry.

        Blobs are mounted from the source's repository: nothing is downloaded but manifests.

        Raises:
            RegistryError: something is not there, not allowed, or not what its digest says.
            InfrastructureError: the registry does not answer, or fails.
        """
        if source.digest is None or target.tag is None or source.host != target.host:
            raise UsageError("copying is from REGISTRY/PATH@DIGEST to REGISTRY/PATH:TAG, in one registry")
        self._copy_manifest(source.path, source.digest, target.path, target.tag, depth=0)
        there = self._ask("HEAD", f"/v2/{target.path}/manifests/{target.tag}", {"Accept": ", ".join(_TYPES)})
        if there.headers.get("Docker-Content-Digest") not in (None, source.digest):
            raise RegistryError(
                f"{target.path}:{target.tag} is {there.headers['Docker-Content-Digest']} now: who moved it?"
            )
        return source.digest

    def _copy_manifest(self, source: str, digest: str, target: str, name: str, *, depth: int) -> None:
        answer = self._ask("GET", f"/v2/{source}/manifests/{digest}", {"Accept": ", ".join(_TYPES)})
        if f"sha256:{hashlib.sha256(answer.body).hexdigest()}" != digest:
            raise RegistryError(f"{source}@{digest}: the registry sent other bytes than the digest's")
        if source != target:
            body = parse(answer.body.decode("utf-8", "replace"), f"{source}@{digest}", RegistryError)
            children, blobs = _parts(body, f"{source}@{digest}")
            if children and depth >= _MAX_DEPTH:
                raise RegistryError(f"{source}@{digest}: indexes in indexes, {depth} deep")
            for child in children:
                self._copy_manifest(source, child, target, child, depth=depth + 1)
            for blob in blobs:
                self._mount(source, target, blob)
        kind = answer.headers.get("Content-Type") or _TYPES[2]
        self._ask("PUT", f"/v2/{target}/manifests/{name}", {"Content-Type": kind}, answer.body)

    def _mount(self, source: str, target: str, blob: str) -> None:
        query = urllib.parse.urlencode({"mount": blob, "from": source})
        answer = self._ask("POST", f"/v2/{target}/blobs/uploads/?{query}", {}, b"")
        if answer.status != 201:  # 202: it opened an upload instead
            raise RegistryError(
                f"{target}: the registry does not mount {blob} from {source}; may the login read {source}?"
            )

    def _ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None) -> _Answer:
        answer = self._send(method, path, headers, body)
        if answer.status == 401:
            self._authorization = self._authorize(answer.headers.get("WWW-Authenticate") or "")
            answer = self._send(method, path, headers, body)
        if answer.status >= 500 or answer.status == 429:
            raise InfrastructureError(f"{method} {self._base}{path}: {answer.status}")
        if answer.status >= 300:
            raise RegistryError(f"{method} {self._base}{path}: {answer.status} {short(answer.body[:300])}")
        return answer

    def _authorize(self, challenge: str) -> str:
        """Returns the Authorization header that a 401 asks for."""
        scheme, _, rest = challenge.partition(" ")
        basic = None if self._login is None else f"Basic {base64.b64encode(self._login.encode()).decode('ascii')}"
        if scheme.lower() == "basic" and basic:
            return basic
        asked = dict(re.findall(r'(\w+)="([^"]*)"', rest))
        if scheme.lower() != "bearer" or "realm" not in asked:
            raise RegistryError(f"{self._base}: not allowed without a login ({short(challenge)}); give --docker-config")
        query = urllib.parse.urlencode({key: asked[key] for key in ("service", "scope") if key in asked})
        answer = self._open("GET", f"{asked['realm']}?{query}", {"Authorization": basic} if basic else {}, None)
        if answer.status != 200:
            raise RegistryError(
                f"{asked['realm']}: {answer.status}: no token for {asked.get('scope')}; is the login right?"
            )
        body = parse(answer.body.decode("utf-8", "replace"), asked["realm"], RegistryError)
        token = body.get("token") or body.get("access_token") if isinstance(body, dict) else None
        if not isinstance(token, str):
            raise RegistryError(f"{asked['realm']}: answered without a token")
        return f"Bearer {token}"

    def _send(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> _Answer:
        own = {"Authorization": self._authorization} if self._authorization else {}
        return self._open(method, self._base + path, {**headers, **own}, body)

    def _open(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> _Answer:
        if not url.startswith(("https://", "http://")):
            raise RegistryError(f"{short(url)}: no address of a registry")
        request = urllib.request.Request(url, method=method, headers=dict(headers), data=body)
        try:
            with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                return _Answer(status=answer.status, headers=answer.headers, body=answer.read(MAX_MANIFEST_BYTES + 1))
        except urllib.error.HTTPError as err:
            with err:
                return _Answer(status=err.code, headers=err.headers, body=err.read(MAX_MANIFEST_BYTES))
        except OSError as err:  # URLError, timeouts and resets are kinds of it
            raise InfrastructureError(f"{method} {url}: {err}") from err


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows nothing: a redirect would take the login along to wherever it points."""

    def redirect_request(self, *_: Any) -> None:
        return None


def login_of(config: str, host: str) -> str | None:
    """Returns "USER:PASSWORD" for a registry from the text of Docker's config.json; None if it has none for it.

    Raises:
        UsageError: it is no such file. Its content is never in the message.
    """
    try:
        auth = json.loads(config)["auths"].get(host, {}).get("auth")
        return base64.b64decode(auth, validate=True).decode("utf-8") if auth else None
    except (ValueError, KeyError, AttributeError, TypeError) as err:
        raise UsageError(
            "--docker-config: is no config.json of Docker's: {'auths': {REGISTRY: {'auth': ...}}}"
        ) from err


def _parts(body: Any, where: str) -> tuple[list[str], list[str]]:
    """Returns the digests of an index's manifests, and those of an image's blobs."""
    try:
        if "manifests" in body:
            return [str(item["digest"]) for item in body["manifests"]], []
        return [], [str(item["digest"]) for item in (body["config"], *body["layers"])]
    except (TypeError, KeyError) as err:
        raise RegistryError(f"{where}: is no manifest of an image: {short(body)}") from err
