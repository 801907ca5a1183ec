"""A small git server over HTTP: `git http-backend` behind Python's own server. It stands in for GitHub's.

It serves FOLDER/OWNER/NAME.git for fetching, any commit by its id as GitHub does. Left out: pushing, TLS, rights by
repository (a token opens all of them), and requests that are sent in chunks (git does so above 1 MB).
"""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
import threading
from collections.abc import Container, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_SETTINGS = {
    "uploadpack.allowAnySHA1InWant": "true",
    "uploadpack.allowFilter": "true",
    "http.receivepack": "false",
    "safe.directory": "*",  # a test's repositories may belong to somebody else
}


@contextlib.contextmanager
def serve(folder: Path, host: str, port: int = 0, *, tokens: Container[str] | None = None) -> Iterator[str]:
    """Serves the repositories of a folder and gives the URL that /OWNER/NAME.git follows.

    Args:
        folder: holds OWNER/NAME.git.
        host: the address to listen on.
        port: 0 takes a free one.
        tokens: who fetches must give one, as the name or as the password of a login; None: anybody may.
    """
    server = ThreadingHTTPServer((host, port), _handler(folder.resolve(), tokens))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://{host}:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(folder: Path, tokens: Container[str] | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            if "Content-Length" not in self.headers:
                self.send_error(411)
                return
            self._answer(self.rfile.read(int(self.headers["Content-Length"])))

        def log_message(self, format: str, *args: object) -> None:
            """Logs nothing: a test's output is for the test."""

        def _answer(self, body: bytes) -> None:
            if not _allowed(self.headers.get("Authorization"), tokens):
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            done = subprocess.run(
                ["git", "http-backend"], input=body, env=self._variables(), capture_output=True, check=False
            )
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode("latin-1").splitlines() if ": " in line)
            if not headers:
                self.send_error(500, done.stderr.decode("utf-8", "replace").strip())
                return
            self.send_response(int(headers.pop("Status", "200 OK").split()[0]))
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def _variables(self) -> dict[str, str]:
            path, _, query = self.path.partition("?")
            settings = {"GIT_CONFIG_COUNT": str(len(_SETTINGS))}
            for number, (name, value) in enumerate(_SETTINGS.items()):
                settings |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
            return {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(folder),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": self.headers.get("Content-Length", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "REMOTE_ADDR": self.client_address[0],
                **settings,
            }

    return Handler


def _allowed(authorization: str | None, tokens: Container[str] | None) -> bool:
    if tokens is None:
        return True
    scheme, _, encoded = (authorization or "").partition(" ")
    try:
        user, _, password = base64.b64decode(encoded, validate=True).decode("utf-8").partition(":")
    except ValueError:
        return False
    return scheme.lower() == "basic" and (user in tokens or password in tokens)
