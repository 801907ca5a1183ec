from __future__ import annotations

import base64
import hashlib
import json
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from shardlib import cli
from shardlib.errors import InfrastructureError, RegistryError, UsageError
from shardlib.registry import Reference, Registry, login_of

LOGIN = "ci:se:cret"
INDEX = "application/vnd.oci.image.index.v1+json"
IMAGE = "application/vnd.oci.image.manifest.v1+json"


class StandIn(ThreadingHTTPServer):
    """A registry as the specification has it: manifests by digest and tag, mounted blobs, bearer tokens on demand."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.manifests: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.blobs: set[tuple[str, str]] = set()
        self.asks_for_token = False
        self.asks_for_basic = False
        self.mounts = True
        self.fails = 0
        self.lies = False
        self.redirects = False
        self.requests: list[str] = []

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    def push(self, path: str, kind: str, body: dict[str, Any]) -> str:
        data = json.dumps(body, indent=3).encode()  # whose bytes no other writer would choose
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.manifests[path, digest] = kind, data
        return digest

    def image(self, path: str, name: str) -> str:
        digests = [f"sha256:{hashlib.sha256(f'{name}{part}'.encode()).hexdigest()}" for part in range(3)]
        self.blobs |= {(path, digest) for digest in digests}
        config, *layers = ({"digest": digest} for digest in digests)
        return self.push(path, IMAGE, {"mediaType": IMAGE, "config": config, "layers": layers})


class _Handler(BaseHTTPRequestHandler):
    server: StandIn

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.path.startswith("/token?"):
            asked = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            basic = f"Basic {base64.b64encode(LOGIN.encode()).decode()}"
            good = asked["service"] == ["registry"] and self.headers.get("Authorization") == basic
            self._answer(200 if good else 401, json.dumps({"token": "t0ken"}).encode())
        elif self._allowed():
            kind, data = self._manifest()
            data = data + b" " if self.server.lies else data
            digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
            self._answer(200 if kind else 404, data, {"Content-Type": kind, "Docker-Content-Digest": digest})

    do_HEAD = do_GET

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if self._allowed():
            path, _, name = self.path.removeprefix("/v2/").partition("/manifests/")
            body = json.loads(data)
            parts = [*([body["config"]] if "config" in body else []), *body.get("layers", [])]
            known = all((path, part["digest"]) in self.server.blobs for part in parts)
            known = known and all((path, item["digest"]) in self.server.manifests for item in body.get("manifests", []))
            if known:
                self.server.manifests[path, name] = self.headers["Content-Type"], data
            self._answer(201 if known else 400, b"" if known else b"MANIFEST_BLOB_UNKNOWN")

    def do_POST(self) -> None:
        if self._allowed():
            address = urllib.parse.urlsplit(self.path)
            query = urllib.parse.parse_qs(address.query)
            target = address.path.removeprefix("/v2/").removesuffix("/blobs/uploads/")
            there = self.server.mounts and (query["from"][0], query["mount"][0]) in self.server.blobs
            if there:
                self.server.blobs.add((target, query["mount"][0]))
            self._answer(201 if there else 202, b"")

    def _manifest(self) -> tuple[str, bytes]:
        path, _, name = self.path.removeprefix("/v2/").partition("/manifests/")
        return self.server.manifests.get((path, name), ("", b""))

    def _allowed(self) -> bool:
        self.server.requests.append(f"{self.command} {self.path}")
        basic = f"Basic {base64.b64encode(LOGIN.encode()).decode()}"
        if self.server.fails:
            self.server.fails -= 1
            self._answer(503, b"")
        elif self.server.redirects:
            self._answer(307, b"", {"Location": f"http://{self.server.host}/elsewhere"})
        elif self.server.asks_for_token and self.headers.get("Authorization") != "Bearer t0ken":
            realm = f'Bearer realm="http://{self.server.host}/token",service="registry",scope="repository:x:pull,push"'
            self._answer(401, b"", {"WWW-Authenticate": realm})
        elif self.server.asks_for_basic and self.headers.get("Authorization") != basic:
            self._answer(401, b"", {"WWW-Authenticate": 'Basic realm="x"'})
        else:
            return True
        return False

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def serving() -> Iterator[StandIn]:
    with StandIn() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def registry() -> Iterator[StandIn]:
    with serving() as running:
        yield running


def tag(
    registry: StandIn, digest: str, *, source: str = "ml/x-ci", target: str = "ml/x", login: str | None = None
) -> str:
    client = Registry(registry.host, login=login, insecure=True)
    return client.copy(
        Reference(host=registry.host, path=source, digest=digest),
        Reference(host=registry.host, path=target, tag="main"),
    )


def test_a_tag_names_the_same_bytes_in_another_repository(registry: StandIn) -> None:
    digest = registry.image("ml/x-ci", "a")
    assert tag(registry, digest) == digest
    assert registry.manifests["ml/x", "main"] == registry.manifests["ml/x-ci", digest]
    assert {blob for path, blob in registry.blobs if path == "ml/x"} == {b for p, b in registry.blobs if p == "ml/x-ci"}


def test_in_the_same_repository_only_the_tag_is_written(registry: StandIn) -> None:
    digest = registry.image("ml/x", "a")
    tag(registry, digest, source="ml/x")
    assert [request.split("/")[0] for request in registry.requests] == ["GET ", "PUT ", "HEAD "]


def test_an_index_takes_its_images_along(registry: StandIn) -> None:
    images = [registry.image("ml/x-ci", name) for name in ("amd64", "arm64")]
    digest = registry.push("ml/x-ci", INDEX, {"mediaType": INDEX, "manifests": [{"digest": one} for one in images]})
    tag(registry, digest)
    assert {("ml/x", name) for name in ("main", *images)} <= registry.manifests.keys()
    assert registry.manifests["ml/x", "main"][0] == INDEX


def test_tokens_and_logins_are_used_as_they_are_asked_for(registry: StandIn) -> None:
    digest = registry.image("ml/x-ci", "a")
    registry.asks_for_token = True
    assert tag(registry, digest, login=LOGIN) == digest
    registry.asks_for_token, registry.asks_for_basic = False, True
    assert tag(registry, digest, login=LOGIN) == digest


@pytest.mark.parametrize("kind", ["asks_for_token", "asks_for_basic"])
def test_without_a_login_nothing_is_tagged(registry: StandIn, kind: str) -> None:
    digest = registry.image("ml/x-ci", "a")
    setattr(registry, kind, True)
    with pytest.raises(RegistryError, match=r"not allowed without a login|is the login right"):
        tag(registry, digest)
    assert ("ml/x", "main") not in registry.manifests


def test_bytes_that_are_not_the_digest_s_are_refused(registry: StandIn) -> None:
    digest = registry.image("ml/x-ci", "a")
    registry.lies = True
    with pytest.raises(RegistryError, match="other bytes"):
        tag(registry, digest)
    assert ("ml/x", "main") not in registry.manifests


def test_a_registry_that_asks_for_a_login_answers_and_anything_else_is_none(registry: StandIn) -> None:
    registry.asks_for_basic = True
    Registry(registry.host, insecure=True).check()
    registry.asks_for_basic, registry.redirects = False, True
    with pytest.raises(RegistryError, match="307, which is no registry"):
        Registry(registry.host, insecure=True).check()
    with pytest.raises(InfrastructureError):
        Registry("127.0.0.1:1", insecure=True).check()


def test_what_is_no_image_or_is_not_there_is_refused(registry: StandIn) -> None:
    with pytest.raises(RegistryError, match="404"):
        tag(registry, "sha256:" + "0" * 64)
    digest = registry.push("ml/x-ci", IMAGE, {"layers": "x"})
    with pytest.raises(RegistryError, match="no manifest of an image"):
        tag(registry, digest)
    deep = registry.image("ml/x-ci", "a")
    for _ in range(5):
        deep = registry.push("ml/x-ci", INDEX, {"manifests": [{"digest": deep}]})
    with pytest.raises(RegistryError, match="indexes in indexes"):
        tag(registry, deep)


def test_a_registry_that_does_not_mount_is_named(registry: StandIn) -> None:
    digest = registry.image("ml/x-ci", "a")
    registry.mounts = False
    with pytest.raises(RegistryError, match="does not mount"):
        tag(registry, digest)


def test_a_redirect_takes_no_login_along(registry: StandIn) -> None:
    digest = registry.image("ml/x-ci", "a")
    registry.redirects = True
    with pytest.raises(RegistryError, match="307"):
        tag(registry, digest, login=LOGIN)
    assert len(registry.requests) == 1


def test_the_command_tags_and_tells_infrastructure_from_refusals(
    registry: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = registry.image("ml/x-ci", "a")
    registry.asks_for_token = True
    config = tmp_path / "config.json"
    auth = base64.b64encode(LOGIN.encode()).decode()
    config.write_text(json.dumps({"auths": {registry.host: {"auth": auth}}}))
    argv = ["tag-image", "--source", f"{registry.host}/ml/x-ci@{digest}", "--target", f"{registry.host}/ml/x:main"]
    assert cli.main([*argv, "--insecure", "--docker-config", str(config)]) == 0
    assert capsys.readouterr().out == f"{registry.host}/ml/x:main is {digest}\n"
    assert cli.main([*argv, "--insecure"]) == 18
    registry.fails = 1
    assert cli.main([*argv, "--insecure", "--docker-config", str(config)]) == 75
    registry.shutdown()
    registry.server_close()
    assert cli.main([*argv, "--insecure"]) == 75
    assert LOGIN not in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "ml/x",
        "host/x",
        "host/x@sha256:0",
        "host/x:",
        "host/X:main",
        "host/x:main@sha256:" + "0" * 64,
        "host/x:a b",
        "h/x:t\n",
    ],
)
def test_what_is_no_image_s_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no image"):
        Reference.parse(text)


@pytest.mark.parametrize("text", ["", "[]", '{"auths": 1}', '{"auths": {"h": {"auth": "%%"}}}', '{"auths": {"h": 1}}'])
def test_a_config_that_is_none_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(UsageError, match="--docker-config"):
        login_of(text, "h")
    assert login_of('{"auths": {"other": {"auth": "eA=="}}}', "h") is None
