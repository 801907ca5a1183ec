"""A GitHub over HTTP for tests: the documented REST API as far as the gate uses it, with state that people change.

It has pull requests, labels, issue events, check suites and runs, repository activity, permissions, App tokens (a JWT's
signature and claims are really checked), ETags, pages by Link header, and faults by path. It leaves out: git itself (a
commit is only a sha), all fields that nothing of ours reads, GraphQL, webhooks, reviews, search, more than one base
repository, rate limits that count by themselves (a test scripts them as faults), and the permissions of a token: any
valid one may read all, and only an App may write check runs.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.gate import github_routes, github_shapes
from tests.gate.github_routes import Reply, Request, refuse
from tests.gate.github_state import APP_SLUG as APP_SLUG  # what its check runs say who wrote them
from tests.gate.github_state import State

USER_TOKEN = "ghp_aPersonsToken"
APP_ID, INSTALLATION = "4711", "99"


@dataclass(kw_only=True)
class Fault:
    """What happens to requests for a path instead of an answer, or before it.

    Attributes:
        path: a pattern that the path (without its query) matches whole.
        method: only for this one.
        times: how many requests it happens to; None for all.
        status: of the answer; None leaves the real answer.
        headers: added to the answer.
        body: of the answer; None leaves the real one.
        delay_seconds: before anything is sent.
        drip_seconds: between one byte of the body and the next.
        hang_up: the connection is closed in the middle of the body.
    """

    path: str
    method: str | None = None
    times: int | None = 1
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    delay_seconds: float = 0.0
    drip_seconds: float = 0.0
    hang_up: bool = False


class GitHubServer(ThreadingHTTPServer):
    """`with GitHubServer() as server:` runs one; `server.state` is what it knows, `server.requests` what it was asked."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, host: str = "127.0.0.1", port: int = 0, *, prefix: str = "") -> None:
        super().__init__((host, port), _Handler)
        self.prefix = prefix  # "/api/v3" on an Enterprise Server
        self.lock = threading.RLock()
        self.reset()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def reset(self) -> None:
        """Forgets everything, as if it had just been started."""
        self.state = State()
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        self.tokens: dict[str, tuple[str, float]] = {USER_TOKEN: ("user", float("inf"))}
        self.token_seconds = 3600.0

    @property
    def url(self) -> str:
        """What goes into `--github-api` on this machine."""
        return f"http://127.0.0.1:{self.server_address[1]}{self.prefix}"

    def __enter__(self) -> GitHubServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def fault(self, path: str, **what: Any) -> Fault:
        """Adds a fault (see `Fault`) and returns it."""
        self.faults.append(Fault(path=path, **what))
        return self.faults[-1]

    def primary_limit(self, path: str, *, reset_in: float = 1, times: int | None = 1) -> None:
        """The hour's requests are used up."""
        headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(time.time() + reset_in))}
        body = json.dumps({"message": "API rate limit exceeded for installation ID 99."}).encode()
        self.fault(path, status=403, headers=headers, body=body, times=times)

    def secondary_limit(self, path: str, *, retry_after: float | None = 1, times: int | None = 1) -> None:
        """Too many requests at once; GitHub does not always say for how long."""
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        body = json.dumps({"message": "You have exceeded a secondary rate limit."}).encode()
        self.fault(path, status=403, headers=headers, body=body, times=times)

    def write_credentials(self, folder: Path, *, app: bool = False) -> Path:
        """Writes what a mounted Secret would hold: the person's token, or the App's key; returns the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        values = {"token": USER_TOKEN}
        if app:
            values = {"app-id": APP_ID, "installation-id": INSTALLATION, "private-key": private_key()}
        for name, value in values.items():
            (folder / name).write_text(value + "\n")
        return folder

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a client that goes away in the middle is part of the tests."""

    def answer(self, request: Request, authorization: str) -> Reply:
        """Returns the reply to one request."""
        with self.lock:
            if match := re.fullmatch(r"/app/installations/(\d+)/access_tokens", request.path):
                return self._access_token(request, match[1], authorization)
            if not request.who:
                return refuse(401, "Bad credentials")
            return github_routes.answer(self.state, request)

    def who(self, authorization: str) -> str:
        """Returns whose valid token it is."""
        scheme, _, token = authorization.partition(" ")
        kind, ends = self.tokens.get(token, ("", 0.0))
        return kind if scheme.lower() in ("bearer", "token") and time.time() < ends else ""

    def _access_token(self, request: Request, installation: str, authorization: str) -> Reply:
        if request.method != "POST" or installation != INSTALLATION:
            return refuse(404, "Not Found")
        try:
            claims = jwt.decode(
                authorization.removeprefix("Bearer "),
                _key().public_key(),
                algorithms=["RS256"],
                options={"require": ["iat", "exp", "iss"]},
            )
        except jwt.PyJWTError as err:
            return refuse(401, f"A JSON web token could not be decoded: {err}")
        if claims["iss"] != APP_ID:
            return refuse(401, "Integration not found")
        if claims["exp"] > time.time() + 600:
            return refuse(401, "'Expiration time' claim ('exp') is too far in the future")
        token, ends = f"ghs_{secrets.token_hex(18)}", time.time() + self.token_seconds
        self.tokens[token] = "app", ends
        when = datetime.fromtimestamp(ends, timezone.utc)
        return Reply(status=201, body={"token": token, "expires_at": github_shapes.at(when), "permissions": {}})


class _Handler(BaseHTTPRequestHandler):
    server: GitHubServer
    protocol_version = "HTTP/1.1"
    timeout = 60
    disable_nagle_algorithm = True  # headers and body are two writes: the second would wait for the first one's ACK

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _handle(self) -> None:
        address = urlsplit(self.path)
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = address.path.removeprefix(self.server.prefix)
        self.server.requests.append(f"{self.command} {path}{'?' if address.query else ''}{address.query}")
        fault = self._fault(path)
        if fault and fault.delay_seconds:
            time.sleep(fault.delay_seconds)
        reply = self._reply(address.query, path, data)
        if reply.status == 200 and self.command == "GET":
            reply.headers["ETag"] = f'W/"{hashlib.sha256(json.dumps(reply.body).encode()).hexdigest()}"'
            if self.headers.get("If-None-Match") == reply.headers["ETag"]:
                reply = Reply(status=304, headers={"ETag": reply.headers["ETag"]})
        self._send(reply, fault)

    do_GET = do_POST = do_PATCH = do_DELETE = _handle

    def _reply(self, query: str, path: str, data: bytes) -> Reply:
        authorization = self.headers.get("Authorization") or ""
        try:
            body = json.loads(data) if data else None
        except ValueError:
            return refuse(400, "Problems parsing JSON")
        if not self.headers.get("User-Agent"):
            return refuse(403, "Request forbidden by administrative rules.")
        request = Request(
            method=self.command,
            path=path,
            query=dict(parse_qsl(query)),
            body=body,
            who=self.server.who(authorization),
            url=f"http://{self.headers.get('Host')}{self.server.prefix}",
        )
        return self.server.answer(request, authorization)

    def _fault(self, path: str) -> Fault | None:
        with self.server.lock:
            for fault in self.server.faults:
                if re.fullmatch(fault.path, path) and fault.method in (None, self.command) and fault.times != 0:
                    fault.times = None if fault.times is None else fault.times - 1
                    return fault
        return None

    def _send(self, reply: Reply, fault: Fault | None) -> None:
        status = fault.status if fault and fault.status else reply.status
        real = b"" if status == 304 else json.dumps(reply.body).encode()
        body = fault.body if fault and fault.body is not None else real
        headers = {"Content-Type": "application/json; charset=utf-8", "Content-Length": str(len(body))}
        headers |= {"X-RateLimit-Limit": "5000", "X-RateLimit-Remaining": "4999", "X-GitHub-Request-Id": "0"}
        headers |= {**reply.headers, **(fault.headers if fault else {})}
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if fault and fault.hang_up:
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
        elif fault and fault.drip_seconds:
            for index in range(len(body)):
                self.wfile.write(body[index : index + 1])
                time.sleep(fault.drip_seconds)
        else:
            self.wfile.write(body)


@cache
def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@cache
def private_key() -> str:
    """Returns the App's private key as GitHub hands it out, in PEM."""
    encoding, none = serialization.Encoding.PEM, serialization.NoEncryption()
    return _key().private_bytes(encoding, serialization.PrivateFormat.TraditionalOpenSSL, none).decode()
