"""Who we are to GitHub: a token, or a GitHub App's installation, from the files of a mounted Secret.

An App's private key signs a JSON Web Token, which GitHub exchanges for a token of an hour ("Generating a JSON Web Token
(JWT) for a GitHub App", "Generating an installation access token"). Neither is ever in a message.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

import jwt

from shardlib.errors import GateError, UsageError
from shardlib.fields import Fields, parse
from shardlib.gate.transport import Transport

_MAX_BYTES = 64 << 10  # of one file; a key has 2 kB
_TOKEN = re.compile(r"[\x21-\x7e]{1,2000}")  # what may stand in a header
_APP_ID = re.compile(r"[A-Za-z0-9.]{1,64}")  # a number, or a client id
_DRIFT_SECONDS = 60  # as GitHub recommends
_JWT_SECONDS = 540  # GitHub takes ten minutes at most
_RENEW_SECONDS = 300  # before its end, so that no request goes out with a token that ends on its way


class Credentials(Protocol):
    """Anything that has a token."""

    def token(self) -> str:
        """Returns a token that is valid now."""


@dataclass(frozen=True, kw_only=True)
class Token:
    """A token that somebody made by hand."""

    value: str = field(repr=False)

    def token(self) -> str:
        """Returns it."""
        return self.value


@dataclass(frozen=True, kw_only=True)
class App:
    """A GitHub App as it is installed on one organisation."""

    app_id: str
    installation_id: str
    private_key: str = field(repr=False)


class Installation:
    """An App's tokens, each made when the one before is about to end."""

    def __init__(self, app: App, url: str, transport: Transport) -> None:
        self._app = app
        self._url = f"{url}/app/installations/{app.installation_id}/access_tokens"
        self._transport = transport
        self._token, self._ends = "", 0.0

    def token(self) -> str:
        """Returns a token that is valid for five more minutes at least.

        Raises:
            UsageError: the private key is none.
            GateError: GitHub refuses, or answers something else.
            InfrastructureError: GitHub is down.
        """
        if time.time() > self._ends - _RENEW_SECONDS:
            self._token, self._ends = self._make()
        return self._token

    def _make(self) -> tuple[str, float]:
        headers = {"Accept": "application/vnd.github+json", "User-Agent": "shardlib", "Authorization": self._signed()}
        answer = self._transport.send("POST", self._url, headers)
        if answer.status != 201:
            raise GateError(
                f"POST {self._url}: {answer.status}: no token for app {self._app.app_id}; are app-id, installation-id "
                "and private-key of the same GitHub App, and is it installed?"
            )
        fields = Fields(parse(answer.body.decode("utf-8", "replace"), self._url, GateError), self._url, GateError)
        token, ends = fields.raw("token"), fields.raw("expires_at")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise GateError(f"{self._url}: the answer holds no token")
        try:
            return token, datetime.fromisoformat(str(ends).replace("Z", "+00:00")).timestamp()
        except (ValueError, OverflowError) as err:
            raise fields.wrong("expires_at", ends, "a time") from err

    def _signed(self) -> str:
        now = int(time.time())
        claims = {"iat": now - _DRIFT_SECONDS, "exp": now + _JWT_SECONDS, "iss": self._app.app_id}
        try:
            return f"Bearer {jwt.encode(claims, self._app.private_key, algorithm='RS256')}"
        except (jwt.PyJWTError, ValueError, TypeError):
            # Not chained: the cause may quote the key.
            raise UsageError("credentials: private-key is no RSA key in PEM; use the file that GitHub made") from None


def read_credentials(folder: Path) -> Token | App:
    """Returns what a mounted Secret holds: `token`, or `app-id`, `installation-id` and `private-key`.

    Raises:
        UsageError: it holds neither, or something that cannot be one. No content is ever in the message.
    """
    if (folder / "token").exists():
        return Token(value=_text(folder / "token", _TOKEN, "a token"))
    if not (folder / "app-id").exists():
        raise UsageError(f"--credentials {folder}: holds neither token nor app-id; is the Secret mounted there?")
    return App(
        app_id=_text(folder / "app-id", _APP_ID, "the App's id, or its client id"),
        installation_id=_text(folder / "installation-id", re.compile("[0-9]{1,20}"), "a number"),
        private_key=_text(folder / "private-key", re.compile(r"-----BEGIN [\s\x21-\x7e]+"), "a key in PEM"),
    )


def _text(path: Path, pattern: re.Pattern[str], expected: str) -> str:
    try:
        with path.open("rb") as stream:  # a Secret's files are links: Kubernetes swaps them as one
            text = stream.read(_MAX_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        text = ""
    if not pattern.fullmatch(text):
        raise UsageError(f"--credentials {path.parent}: {path.name} is not {expected}")
    return text
