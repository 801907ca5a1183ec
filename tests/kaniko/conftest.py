"""A registry with a login, a git server and a base image for builds with the stand-in for Kaniko."""

from __future__ import annotations

import base64
import io
import json
import shutil
import socket
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.kaniko.images import DOCKER, OCI, digest_of

EXECUTOR = Path(__file__).parents[1] / "cluster" / "kaniko" / "executor"
LOGIN = "build:secret"
_HTPASSWD = "build:$2b$04$3NQ9pBZwxTiF1aUIn8.yjuH57vnmxW0B1Rz6kq/JS.0GoBtVavrzC\n"  # bcrypt of the password
_CONFIG = """
version: 0.1
log: {{accesslog: {{disabled: false}}, level: info}}
storage: {{filesystem: {{rootdirectory: {folder}/data}}, delete: {{enabled: true}}}}
http: {{addr: "127.0.0.1:{port}"}}
auth: {{htpasswd: {{realm: test, path: {folder}/htpasswd}}}}
"""
_GIT = ["git", "-c", "user.name=nobody", "-c", "user.email=nobody@example.invalid", "-c", "commit.gpgsign=false"]


@dataclass(frozen=True, kw_only=True)
class Registry:
    """A running registry; `log` is what it logged, requests included."""

    host: str
    log: Path

    def get(
        self, path: str, *, method: str = "GET", body: bytes | None = None, kind: str = "*/*"
    ) -> tuple[Message, bytes]:
        login = base64.b64encode(LOGIN.encode()).decode()
        headers = {"Authorization": f"Basic {login}", "Content-Type" if body is not None else "Accept": kind}
        url = path if "://" in path else f"http://{self.host}/v2/{path}"
        with urllib.request.urlopen(urllib.request.Request(url, data=body, headers=headers, method=method)) as answer:
            return answer.headers, answer.read()

    def put_blob(self, repository: str, content: bytes) -> dict[str, Any]:
        headers, _ = self.get(f"{repository}/blobs/uploads/", method="POST", body=b"")
        place = headers["Location"]
        self.get(f"{place}&digest={digest_of(content)}", method="PUT", body=content, kind="application/octet-stream")
        return {"size": len(content), "digest": digest_of(content)}

    def put_base(self, repository: str, kind: str, files: dict[str, bytes | str]) -> str:
        """Puts an image of one uncompressed layer there, without any code of the stand-in; returns its full name.

        Contents are bytes; a text is where a link leads.
        """
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for name, content in files.items():
                info = tarfile.TarInfo(name)
                if isinstance(content, str):
                    info.type, info.linkname = tarfile.SYMTYPE, content
                    tar.addfile(info)
                else:
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
        layer = archive.getvalue()
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": ["PATH=/usr/bin:/bin", "LEVEL=base"], "Cmd": ["sh"], "WorkingDir": "/base"},
            "rootfs": {"type": "layers", "diff_ids": [digest_of(layer)]},
        }
        oci = kind == OCI
        config_kind = (
            "application/vnd.oci.image.config.v1+json" if oci else "application/vnd.docker.container.image.v1+json"
        )
        layer_kind = "application/vnd.oci.image.layer.v1.tar" if oci else "application/vnd.docker.image.rootfs.diff.tar"
        manifest = {
            "schemaVersion": 2,
            "mediaType": kind,
            "config": {"mediaType": config_kind, **self.put_blob(repository, json.dumps(config).encode())},
            "layers": [{"mediaType": layer_kind, **self.put_blob(repository, layer)}],
        }
        self.get(f"{repository}/manifests/1", method="PUT", body=json.dumps(manifest).encode(), kind=kind)
        return f"{self.host}/{repository}:1"

    def image(self, repository: str, version: str) -> tuple[dict[str, Any], dict[str, Any], str]:
        """Returns an image's manifest, its configuration, and its digest."""
        headers, body = self.get(f"{repository}/manifests/{version}", kind=f"{OCI}, {DOCKER}")
        manifest = json.loads(body)
        _, config = self.get(f"{repository}/blobs/{manifest['config']['digest']}")
        return manifest, json.loads(config), headers["Docker-Content-Digest"]

    def layers(self, repository: str, version: str) -> Iterator[tarfile.TarFile]:
        """Yields an image's layers from the lowest up; every blob must be what its digest says."""
        manifest, config, _ = self.image(repository, version)
        assert len(manifest["layers"]) == len(config["rootfs"]["diff_ids"])
        for layer in manifest["layers"]:
            _, blob = self.get(f"{repository}/blobs/{layer['digest']}")
            assert (digest_of(blob), len(blob)) == (layer["digest"], layer["size"])
            with tarfile.open(fileobj=io.BytesIO(blob)) as archive:
                yield archive

    def files(self, repository: str, version: str) -> dict[str, tarfile.TarInfo]:
        """Returns what an image's layers hold by name, of the highest one that has it."""
        return {member.name: member for layer in self.layers(repository, version) for member in layer}

    def contents(self, repository: str, version: str) -> dict[str, bytes]:
        """Returns what the files of an image's layers hold."""
        found = {}
        for layer in self.layers(repository, version):
            for member in layer:
                content = layer.extractfile(member) if member.isfile() else None
                if content is not None:
                    found[member.name] = content.read()
        return found


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("the program docker-registry is not installed (Debian: docker-registry)")
    folder = tmp_path_factory.mktemp("registry")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "htpasswd").write_text(_HTPASSWD)
    (folder / "config.yml").write_text(_CONFIG.format(folder=folder, port=port))
    log = folder / "log"
    with (
        log.open("wb") as file,
        subprocess.Popen([program, "serve", folder / "config.yml"], stdout=file, stderr=file) as server,
    ):
        try:
            _wait(server, port, log)
            yield Registry(host=f"127.0.0.1:{port}", log=log)
        finally:
            server.kill()


def _wait(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/")
        except urllib.error.HTTPError as err:
            err.close()
            return  # 401: it is there, and wants a login
        except OSError:
            time.sleep(0.05)
    pytest.fail(f"docker-registry does not answer: {log.read_text()}")


def write(folder: Path, files: dict[str, str]) -> Path:
    """Returns the folder, now with these files."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def log_in(folder: Path, registry: Registry, login: str = LOGIN) -> None:
    """Writes Docker's file of logins into a folder."""
    folder.mkdir()
    auth = base64.b64encode(login.encode()).decode()
    (folder / "config.json").write_text(json.dumps({"auths": {registry.host: {"auth": auth}}}))


def ended(done: subprocess.CompletedProcess[str], code: int, *messages: str) -> None:
    assert done.returncode == code, done.stderr
    for message in messages:
        assert message in done.stderr


Execute = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def execute(tmp_path: Path) -> Execute:
    """Gives a function that runs the executor as a pod does: its own process, only the variables given."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        own = {"PATH": "/usr/bin:/bin", "KANIKO_DIR": str(tmp_path / "work"), "DOCKER_CONFIG": str(tmp_path / "docker")}
        command = [sys.executable, "-I", str(EXECUTOR), *arguments]
        return subprocess.run(
            command, env={**own, **variables}, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=120
        )

    return run
