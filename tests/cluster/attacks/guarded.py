"""A registry with rights: Docker's own, told by a small token server which login may do what to which repository.

It is what a cloud's registry is with scoped logins, for the tests. Left out: TLS, refresh tokens, OAuth's POST.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import json
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

SERVICE = "registry"
_ISSUER = "tokens"
_LIFETIME_SECONDS = 300
_WAIT_SECONDS = 20.0

Rights = Mapping[str, Sequence[str]]  # repository, or what it begins with and `*`: actions


@dataclass(frozen=True)
class Guarded:
    """A running registry and its logins; `config` is what a Secret of type dockerconfigjson holds."""

    address: str
    passwords: Mapping[str, str]

    def config(self, login: str) -> str:
        auth = base64.b64encode(f"{login}:{self.passwords[login]}".encode()).decode()
        return json.dumps({"auths": {self.address: {"auth": auth}}})


@dataclass(frozen=True)
class _Key:
    private: rsa.RSAPrivateKey
    certificate: x509.Certificate

    @classmethod
    def make(cls) -> _Key:
        private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _ISSUER)])
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = x509.CertificateBuilder(name, name, private.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(hours=1))
        builder = builder.not_valid_after(now + datetime.timedelta(days=1))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        return cls(private, builder.sign(private, hashes.SHA256()))

    def token(self, login: str, access: list[dict[str, Any]]) -> str:
        now = int(time.time())
        claims = {"iss": _ISSUER, "sub": login, "aud": SERVICE, "nbf": now - 10, "iat": now, "jti": str(uuid.uuid4())}
        chain = [base64.b64encode(self.certificate.public_bytes(serialization.Encoding.DER)).decode()]
        body = {**claims, "exp": now + _LIFETIME_SECONDS, "access": access}
        return jwt.encode(body, self.private, algorithm="RS256", headers={"x5c": chain})


@contextlib.contextmanager
def serve(folder: Path, host: str, logins: Mapping[str, Rights]) -> Iterator[Guarded]:
    """Starts both; `logins` are the rights by login, of which nobody else has any."""
    folder.mkdir(parents=True)
    key = _Key.make()
    (folder / "bundle.pem").write_bytes(key.certificate.public_bytes(serialization.Encoding.PEM))
    passwords = {login: uuid.uuid4().hex for login in logins}
    tokens = ThreadingHTTPServer((host, 0), _handler(key, passwords, logins))
    thread = threading.Thread(target=tokens.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    with ThreadingHTTPServer((host, 0), BaseHTTPRequestHandler) as probe:
        address = f"{host}:{probe.server_address[1]}"
    config = folder / "config.yml"
    realm = f"http://{host}:{tokens.server_address[1]}/token"
    config.write_text(_CONFIG.format(folder=folder, address=address, realm=realm, service=SERVICE, issuer=_ISSUER))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(["docker-registry", "serve", str(config)], stdout=log, stderr=log)
    try:
        _wait(process, address, folder / "log")
        yield Guarded(address, passwords)
    finally:
        process.terminate()
        process.wait(10)
        tokens.shutdown()
        thread.join()
        tokens.server_close()


_CONFIG = """\
version: 0.1
log: {{level: warn, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: "{folder}/data"}}}}
http: {{addr: "{address}"}}
auth:
  token: {{realm: "{realm}", service: "{service}", issuer: "{issuer}", rootcertbundle: "{folder}/bundle.pem"}}
"""


def _wait(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        assert process.poll() is None, log.read_text()
        try:
            urllib.request.urlopen(f"http://{address}/v2/", timeout=5).close()
        except urllib.error.HTTPError as err:
            err.close()  # 401, which is an answer
            return
        except OSError:
            assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


def granted(rights: Rights, scope: str) -> dict[str, Any] | None:
    """Returns what a login gets of the scope `repository:PATH:ACTIONS`; None if it is no scope."""
    kind, _, rest = scope.partition(":")
    path, _, actions = rest.rpartition(":")
    if kind != "repository" or not path:
        return None
    allowed = {
        action
        for pattern, some in rights.items()
        if path == pattern or (pattern.endswith("*") and path.startswith(pattern[:-1]))
        for action in some
    }
    return {"type": kind, "name": path, "actions": sorted(allowed & set(actions.split(",")))}


def _handler(key: _Key, passwords: Mapping[str, str], logins: Mapping[str, Rights]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            login = _login(self.headers.get("Authorization", ""), passwords)
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            scopes = [one for text in query.get("scope", []) for one in text.split()]
            access = [found for scope in scopes if (found := granted(logins.get(login, {}), scope))]
            body = json.dumps({"token": key.token(login, access)}).encode()
            self.send_response(200 if login else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Logs nothing: a test's output is for the test."""

    return Handler


def _login(header: str, passwords: Mapping[str, str]) -> str:
    """Returns who gave the right password; "" for everybody else, who gets no token."""
    scheme, _, encoded = header.partition(" ")
    try:
        login, _, password = base64.b64decode(encoded).decode().partition(":")
    except ValueError:
        return ""
    return login if scheme == "Basic" and password and passwords.get(login) == password else ""
