"""GitHub's REST API: JSON, pages, and errors that say what to do; nothing is believed that is not exactly as documented."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from shardlib import __version__
from shardlib.errors import GateError, UsageError
from shardlib.escape import printable
from shardlib.fields import parse, short
from shardlib.gate.credentials import Credentials, Installation, Token, read_credentials
from shardlib.gate.transport import PATIENCE_SECONDS, Answer, Transport

MAX_ITEMS = 5000
"""Of one list: no pull request that people work on has as many events (a guess)."""

_MAX_PAGES = 100
_MAX_KEPT = 100  # answers that are kept for asking "has it changed?"
_PATH = re.compile(r"(?:/[A-Za-z0-9_.~%:@+-]+)+")
_NEXT = re.compile(r'<([\x21-\x3b\x3d\x3f-\x7e]{1,4000})>\s*;\s*rel="next"')
_HEADERS = {
    "Accept": "application/vnd.github+json",
    "X-GitHub-Api-Version": "2022-11-28",
    "User-Agent": f"shardlib/{__version__}",
}
_HINTS = {
    301: "it has moved: was the repository renamed? put its new name into the settings",
    401: "the credentials are wrong or have ended",
    403: "the credentials may not do this; see the App's permissions",
    404: "there is no such thing, or the credentials may not see it",
}


class StatusError(GateError):
    """GitHub refuses, with a status that is no reason to try again."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class GitHub:
    """One GitHub as one App or one person sees it. Paths begin with `/` and are quoted by the caller."""

    def __init__(self, url: str, credentials: Credentials, transport: Transport) -> None:
        self._url = url
        self._credentials = credentials
        self._transport = transport
        self._kept: dict[str, tuple[str, Answer]] = {}

    def token(self) -> str:
        """Returns a token that is valid now, for what speaks to this GitHub by other ways, as git; errors as in `get`."""
        return self._credentials.token()

    def get(self, path: str, **query: str | int) -> Any:
        """Returns the value of one answer; one that has not changed since is not counted against the rate limit.

        Raises:
            StatusError: GitHub refuses; `status` says how.
            GateError: the answer is malformed.
            InfrastructureError: GitHub is down, or limits for longer than our patience.
        """
        return self._value(self._get(self._address(path, query)), path)

    def pages(self, path: str, *, items: str | None = None, most: int = MAX_ITEMS, **query: str | int) -> Iterator[Any]:
        """Yields the items of all pages of a list; errors as in `get`, and GateError if there are more than `most`.

        Args:
            path: the list's.
            items: the field that holds the items where an answer is an object (`check_runs`).
            most: the items that are believed.
            query: what goes with the path; pages have 100 items unless it says otherwise.
        """
        address: str | None = self._address(path, {"per_page": 100, **query})
        seen = 0
        for _ in range(_MAX_PAGES):
            if address is None:
                return
            answer = self._get(address)
            value = self._value(answer, path)
            if items is not None:
                value = value.get(items) if isinstance(value, dict) else None
            if not isinstance(value, list):
                raise GateError(f"{self._url}{path}: {short(value)}, expected a list{f' {items!r}' if items else ''}")
            seen += len(value)
            if seen > most:
                break
            yield from value
            address = self._next(answer, path)
        if address is not None:
            raise GateError(f"{self._url}{path}: more than {most} entries, or {_MAX_PAGES} pages: too many to judge")

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Returns the answer's value; errors as in `get`. May arrive twice."""
        return self._value(self._ask("POST", self._address(path, {}), body=body), path)

    def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        """Returns the answer's value; errors as in `get`. May arrive twice."""
        return self._value(self._ask("PATCH", self._address(path, {}), body=body), path)

    def _address(self, path: str, query: Mapping[str, str | int]) -> str:
        if not _PATH.fullmatch(path) or "/../" in f"{path}/" or "/./" in f"{path}/":
            raise ValueError(f"{path!r} is no quoted path")
        return f"{self._url}{path}{'?' if query else ''}{urlencode(query)}"

    def _get(self, address: str) -> Answer:
        kept = self._kept.get(address)
        answer = self._ask("GET", address, headers={"If-None-Match": kept[0]} if kept else {})
        if kept and answer.status == 304:
            return kept[1]
        if (tag := answer.headers.get("etag", "")) and len(self._kept) < _MAX_KEPT:
            self._kept[address] = tag, answer
        return answer

    def _ask(
        self,
        method: str,
        address: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Answer:
        token = self._credentials.token()
        own = {**_HEADERS, **(headers or {}), "Authorization": f"Bearer {token}"}
        data = None if body is None else json.dumps(body).encode("ascii")
        answer = self._transport.send(method, address, own, data)
        if answer.status in (200, 201, 204) or (answer.status == 304 and headers):
            return answer
        told = _message(answer.body, token)
        hint = _HINTS.get(301 if 300 <= answer.status < 400 else answer.status, "it does not take this")
        raise StatusError(f"{method} {printable(address)}: {answer.status} {told}: {hint}", answer.status)

    def _value(self, answer: Answer, path: str) -> Any:
        if answer.status == 204:
            return None
        where = f"{self._url}{path}"
        try:
            text = answer.body.decode("utf-8")
        except UnicodeDecodeError as err:
            raise GateError(f"{where}: not UTF-8; is it GitHub?") from err
        return parse(text, where, GateError)

    def _next(self, answer: Answer, path: str) -> str | None:
        match = _NEXT.search(answer.headers.get("link", ""))
        if match is None:
            return None
        if not match[1].startswith(f"{self._url}/"):  # the token is for this host alone
            raise GateError(f"{self._url}{path}: the next page is at {printable(match[1])}, on another host")
        return match[1]


def connect(
    api_url: str,
    credentials: Path | str,
    *,
    patience_seconds: float = PATIENCE_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
) -> GitHub:
    """Returns a client; nothing is sent before it is asked for something.

    Args:
        api_url: `https://api.github.com`, or `https://HOST/api/v3` of an Enterprise Server.
        credentials: the folder of a mounted Secret (see `credentials.read_credentials`), or a token.
        patience_seconds: how long all its requests together may wait for a GitHub that fails or limits.
        sleep: waits so many seconds.

    Raises:
        UsageError: the address is none, or the folder holds no credentials.
    """
    url = api_url.rstrip("/")
    if not re.fullmatch(r"https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?:/[A-Za-z0-9_./-]*)?", url):
        raise UsageError(f"--github-api {api_url!r}: expected https://api.github.com or https://HOST/api/v3")
    transport = Transport(patience_seconds=patience_seconds, sleep=sleep)
    found = Token(value=credentials) if isinstance(credentials, str) else read_credentials(credentials)
    return GitHub(url, found if isinstance(found, Token) else Installation(found, url, transport), transport)


def _message(body: bytes, token: str) -> str:
    """Returns what GitHub says of an error, in one short printable line without our token."""
    try:
        value = json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        value = None
    told = value.get("message") if isinstance(value, dict) else None
    return printable(told.replace(token, "***"), 200) if isinstance(told, str) else ""
