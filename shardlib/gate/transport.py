"""HTTP to one GitHub: bounded in size and time, no redirect followed, retried as GitHub asks for it.

GitHub's rules ("Best practices for using the REST API", "Rate limits for the REST API"): wait `Retry-After` seconds; else,
if `X-RateLimit-Remaining` is 0, until `X-RateLimit-Reset`; else a minute and longer each time. Whatever is sent may be
sent twice, so callers send only what does no harm twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count

import urllib3
from urllib3.exceptions import HTTPError, InvalidHeader

from shardlib.errors import GateError, InfrastructureError
from shardlib.escape import printable

PATIENCE_SECONDS = 300.0
"""That one process waits for a GitHub that fails or limits, in all: a step has 15 minutes (a guess)."""

MAX_BYTES = 16 << 20  # of one answer; a page of 100 pull requests has about 3 MB
_CONNECT_SECONDS = 10.0
_READ_SECONDS = 30.0  # without a single byte; GitHub itself gives up after 10
_ANSWER_SECONDS = 60.0  # for a whole answer, however steadily it drips
_CHUNK = 1 << 16
_LIMITED_SECONDS = 60.0  # what the rules above ask for at least where no header says more
_LONGEST_SECONDS = 30.0  # between two tries of a server that fails


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport:
    """Sends requests until they are answered or patience is at its end; `sleep` is there for tests."""

    def __init__(
        self,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        read_seconds: float = _READ_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        timeout = urllib3.Timeout(connect=min(_CONNECT_SECONDS, read_seconds), read=read_seconds)
        self._pool = urllib3.PoolManager(timeout=timeout)
        self._patience = self._left = patience_seconds
        self._sleep = sleep

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> Answer:
        """Returns the answer, whatever its status, unless that says to come back later.

        Raises:
            InfrastructureError: GitHub is down, or limits for longer than our patience.
            GateError: the answer is too large.
        """
        for attempt in count():
            began = time.monotonic()
            try:
                answer = self._once(method, url, headers, body)
            except HTTPError as err:
                wait, why = _backoff(attempt), printable(str(err))
            else:
                asked = pause(answer, attempt, time.time())
                if asked is None:
                    return answer
                wait, why = asked, f"status {answer.status}"
            self._left -= time.monotonic() - began  # what failed slowly took its time, too
            if wait > self._left:
                raise InfrastructureError(
                    f"{method} {printable(url)}: {why}; the next try would be in {wait:.0f} s, and of the "
                    f"{self._patience:.0f} s that are waited in all {max(self._left, 0):.0f} are left; try again later"
                )
            self._left -= wait
            self._sleep(wait)
        raise AssertionError("count() has no end")

    def _once(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        deadline = time.monotonic() + _ANSWER_SECONDS
        response = self._pool.request(
            method,
            url,
            headers=dict(headers),
            body=body,
            redirect=False,  # it would take the token along to wherever it points
            retries=False,
            preload_content=False,
            decode_content=False,
        )
        data = bytearray()
        try:
            while chunk := response.read1(_CHUNK, decode_content=False):
                data += chunk
                if len(data) > MAX_BYTES:
                    raise GateError(f"{method} {printable(url)}: answered more than {MAX_BYTES} bytes; is it GitHub?")
                if time.monotonic() > deadline:
                    raise HTTPError(f"the answer was not complete after {_ANSWER_SECONDS:.0f} s")
        finally:
            response.close()  # does nothing to a connection that has been read to its end
        return Answer(
            status=response.status,
            headers={name.lower(): value for name, value in response.headers.items()},
            body=bytes(data),
        )


def pause(answer: Answer, attempt: int, now: float) -> float | None:
    """Returns the seconds to wait before the next try; None if the answer is one.

    Args:
        answer: what came back.
        attempt: tries of this request before this one.
        now: the time, in seconds since the epoch, which is what GitHub counts in.
    """
    limits = answer.headers.get("x-ratelimit-remaining") == "0"
    told = answer.headers.get("retry-after")
    spoken = b"rate limit" in answer.body[:2000].lower()
    limited = answer.status == 429 or (answer.status == 403 and (limits or told is not None or spoken))
    if not limited and answer.status < 500:
        return None
    if told is not None:
        try:
            return max(float(urllib3.Retry().parse_retry_after(told)), 1.0)
        except InvalidHeader:
            return _LIMITED_SECONDS
    reset = answer.headers.get("x-ratelimit-reset", "")
    if limited and limits and reset.isascii() and reset.isdigit() and len(reset) < 15:
        return max(int(reset) - now, 0.0) + 1.0
    return _LIMITED_SECONDS * 2.0 ** min(attempt, 10) if limited else _backoff(attempt)


def _backoff(attempt: int) -> float:
    return min(2.0 ** min(attempt, 10), _LONGEST_SECONDS)
