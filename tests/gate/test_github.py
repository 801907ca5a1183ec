from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib.errors import GateError, InfrastructureError, UsageError
from shardlib.gate import credentials, github, transport
from shardlib.gate.credentials import Token
from shardlib.gate.github import GitHub, StatusError, connect
from shardlib.gate.transport import Answer, Transport, pause
from tests.gate.github_server import USER_TOKEN, GitHubServer
from tests.gate.github_state import sha

PULL = "/repos/org/training/pulls/1"
EVENTS = "/repos/org/training/issues/1/events"
CHECKS = "/repos/org/training/check-runs"


class Naps:
    """Waits without waiting, and says for how long."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


@pytest.fixture
def naps() -> Naps:
    return Naps()


@pytest.fixture
def client(server: GitHubServer, naps: Naps) -> GitHub:
    server.state.open("feature")
    return connect(server.url, USER_TOKEN, sleep=naps)


def number(client: GitHub) -> Any:
    return client.get(PULL)["number"]


def test_a_list_is_all_its_pages_in_order_and_a_field_may_hold_it(server: GitHubServer, client: GitHub) -> None:
    for _ in range(5):
        server.state.label(1)
        server.state.unlabel(1)
    events = list(client.pages(EVENTS, per_page=3))
    assert [event["id"] for event in events] == [event["id"] for event in server.state.events[1]]
    assert len([request for request in server.requests if EVENTS in request]) == 4
    server.state.add_suite(sha("feature"), "another")
    suites = client.pages(
        f"/repos/org/training/commits/{sha('feature')}/check-suites", items="check_suites", per_page=1
    )
    assert [suite["app"]["slug"] for suite in suites] == ["shardlib-gate", "another"]


def test_a_list_without_end_is_refused(server: GitHubServer, client: GitHub) -> None:
    for _ in range(5):
        server.state.label(1)
        server.state.unlabel(1)
    with pytest.raises(GateError, match="more than 9 entries"):
        list(client.pages(EVENTS, most=9, per_page=3))
    assert len(list(client.pages(EVENTS, most=10, per_page=3))) == 10
    server.fault(EVENTS, times=None, headers={"Link": f'<{server.url}{EVENTS}?page=2>; rel="next"'}, body=b"[]")
    with pytest.raises(GateError, match="100 pages"):
        list(client.pages(EVENTS))


@pytest.mark.parametrize(
    "target", ["http://elsewhere.example/x", "{url}@elsewhere.example/x", "{url}.elsewhere.example/x", "//x/y"]
)
def test_the_next_page_is_never_fetched_from_another_host(server: GitHubServer, client: GitHub, target: str) -> None:
    link = f'<{target.format(url=server.url)}>; rel="next"'
    server.fault(EVENTS, headers={"Link": link}, body=b"[]")
    with pytest.raises(GateError, match="on another host"):
        list(client.pages(EVENTS))


def test_a_redirect_is_an_error_and_takes_no_token_along(server: GitHubServer, client: GitHub) -> None:
    with GitHubServer() as other:
        for status in (301, 302, 307, 308):
            server.fault(PULL, status=status, headers={"Location": f"{other.url}/x"}, body=b"{}")
            with pytest.raises(StatusError, match="was the repository renamed"):
                client.get(PULL)
        assert other.requests == []


def test_what_has_not_changed_is_not_sent_again_and_what_has_is_seen(server: GitHubServer, client: GitHub) -> None:
    assert number(client) == number(client) == 1
    server.state.close(1)
    assert client.get(PULL)["state"] == "closed"
    server.fault(PULL, status=304, body=b"")
    assert client.get(PULL)["state"] == "closed"


def test_not_modified_without_a_question_is_refused(server: GitHubServer, client: GitHub) -> None:
    server.fault(PULL, status=304, body=b"")
    with pytest.raises(GateError):
        client.get(PULL)


@pytest.mark.parametrize("status", [500, 502, 503, 504, 429])
def test_a_server_that_fails_for_a_while_is_asked_again(
    server: GitHubServer, client: GitHub, naps: Naps, status: int
) -> None:
    server.fault(PULL, status=status, times=2, body=b"<html>unicorn</html>")
    assert number(client) == 1
    assert len(naps.taken) == 2
    assert naps.taken[0] < naps.taken[1]


def test_a_connection_that_breaks_is_made_again(server: GitHubServer, client: GitHub, naps: Naps) -> None:
    server.fault(PULL, hang_up=True)
    assert number(client) == 1
    assert len(naps.taken) == 1


def test_retry_after_is_waited_out(server: GitHubServer, client: GitHub, naps: Naps) -> None:
    server.secondary_limit(PULL, retry_after=17)
    assert number(client) == 1
    assert naps.taken == [17]


def test_the_reset_of_the_hour_is_waited_for(server: GitHubServer, client: GitHub, naps: Naps) -> None:
    server.primary_limit(PULL, reset_in=100)
    assert number(client) == 1
    (nap,) = naps.taken
    assert 50 < nap <= 101  # slow machines take some of it


def test_a_limit_that_does_not_say_for_how_long_is_waited_for_a_minute_and_longer(
    server: GitHubServer, client: GitHub, naps: Naps
) -> None:
    server.secondary_limit(PULL, retry_after=None, times=2)
    assert number(client) == 1
    assert naps.taken == [60, 120]


def test_a_limit_that_is_too_long_ends_at_once_with_its_reason(
    server: GitHubServer, client: GitHub, naps: Naps
) -> None:
    server.primary_limit(PULL, reset_in=3000)
    with pytest.raises(InfrastructureError, match=r"pulls/1: status 403; the next try would be in \d{4} s"):
        client.get(PULL)
    assert naps.taken == []


def test_patience_is_for_all_requests_together(server: GitHubServer, client: GitHub, naps: Naps) -> None:
    server.secondary_limit(PULL, retry_after=140, times=None)
    with pytest.raises(InfrastructureError, match="of the 300 s that are waited in all"):
        client.get(PULL)
    server.secondary_limit(EVENTS, retry_after=140)
    with pytest.raises(InfrastructureError):
        list(client.pages(EVENTS))
    assert naps.taken == [140, 140]


def test_nothing_that_is_waited_for_is_waited_for_without_end(server: GitHubServer, client: GitHub, naps: Naps) -> None:
    server.secondary_limit(PULL, retry_after=0, times=None)
    with pytest.raises(InfrastructureError):
        client.get(PULL)
    assert sum(naps.taken) <= 300


def test_nobody_there_is_infrastructure(naps: Naps) -> None:
    with pytest.raises(InfrastructureError, match="refused"):
        connect("http://127.0.0.1:1", "t", sleep=naps).get(PULL)
    assert len(naps.taken) > 3


def test_a_server_that_says_nothing_or_drips_is_given_up(server: GitHubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.state.open("feature")
    hasty = GitHub(server.url, Token(value=USER_TOKEN), Transport(patience_seconds=0, read_seconds=0.1))
    server.fault(PULL, delay_seconds=1)
    with pytest.raises(InfrastructureError, match="timed out"):
        hasty.get(PULL)
    monkeypatch.setattr(transport, "_ANSWER_SECONDS", 0.2)
    server.fault(PULL, drip_seconds=0.02)
    with pytest.raises(InfrastructureError, match="not complete after"):
        hasty.get(PULL)


def test_an_answer_without_bounds_is_refused(
    server: GitHubServer, client: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "MAX_BYTES", 100_000)
    server.fault(PULL, body=b"[" + b" " * 200_000 + b"]")
    with pytest.raises(GateError, match="more than 100000 bytes"):
        client.get(PULL)


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"{", b'{"a": 1, "a": 2}', b"[NaN]", b"\xff\xfe", b"[" * 100_000],
    ids=["empty", "html", "torn", "twice", "nan", "bytes", "deep"],
)
def test_what_is_no_json_is_refused(server: GitHubServer, client: GitHub, body: bytes) -> None:
    server.fault(PULL, body=body)
    with pytest.raises(GateError):
        client.get(PULL)


@pytest.mark.parametrize("body", [b"{}", b'"x"', b"null", b'{"check_runs": {}}'])
def test_what_is_no_list_has_no_pages(server: GitHubServer, client: GitHub, body: bytes) -> None:
    server.fault(EVENTS, body=body)
    with pytest.raises(GateError, match="expected a list"):
        list(client.pages(EVENTS, items="check_runs"))


@pytest.mark.parametrize(
    ("status", "hint"),
    [(401, "credentials are wrong"), (403, "may not"), (404, "no such"), (422, "does not take this")],
)
def test_a_refusal_is_not_tried_again_and_says_what_to_do(
    server: GitHubServer, client: GitHub, naps: Naps, status: int, hint: str
) -> None:
    server.fault(PULL, status=status, body=json.dumps({"message": "No\x1b[2J way"}).encode())
    with pytest.raises(StatusError, match=hint) as caught:
        client.get(PULL)
    assert caught.value.status == status
    assert r"No\x1b[2J way" in str(caught.value)
    assert naps.taken == []


def test_a_wrong_token_is_refused_and_no_message_holds_a_token(server: GitHubServer) -> None:
    with pytest.raises(StatusError) as caught:
        connect(server.url, "wr0ng").get(PULL)
    assert caught.value.status == 401
    server.fault(PULL, status=422, body=json.dumps({"message": f"you said {USER_TOKEN}{' ' * 200}"}).encode())
    with pytest.raises(StatusError, match=r"you said \*\*\*"):
        connect(server.url, USER_TOKEN).get(PULL)


@pytest.mark.parametrize("path", ["repos", "/repos/../app", "/repos/x?y", "/repos/x y", "/repos/x#y", "/repos/ü", ""])
def test_a_path_that_is_not_quoted_is_a_bug(client: GitHub, path: str) -> None:
    with pytest.raises(ValueError, match="no quoted path"):
        client.get(path)


@pytest.mark.parametrize("url", ["", "api.github.com", "ftp://x", "https://user:pw@x", "https://x/?a=b", "https://x y"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="--github-api"):
        connect(url, "t")


def test_an_enterprise_server_has_its_api_below_a_path() -> None:
    with GitHubServer(prefix="/api/v3") as server:
        for _ in range(3):
            server.state.open("feature")
        client = connect(f"{server.url.replace('127.0.0.1', 'localhost')}/", USER_TOKEN)
        found = client.pages("/repos/org/training/pulls", per_page=1)
        assert [pull["number"] for pull in found] == [3, 2, 1]


# The App


@pytest.fixture
def app(server: GitHubServer, tmp_path: Path) -> GitHub:
    server.state.open("feature")
    return connect(server.url, server.write_credentials(tmp_path / "app", app=True), patience_seconds=0)


def test_an_app_gets_a_token_once_and_may_write_checks(server: GitHubServer, app: GitHub) -> None:
    body = {"name": "gpu-tests", "head_sha": sha("feature"), "status": "in_progress"}
    run = app.post(CHECKS, body)
    assert app.patch(f"{CHECKS}/{run['id']}", {"conclusion": "success"})["status"] == "completed"
    assert len([request for request in server.requests if "access_tokens" in request]) == 1
    with pytest.raises(StatusError, match="403"):
        connect(server.url, USER_TOKEN).post(CHECKS, body)


def test_a_token_is_renewed_before_its_end(server: GitHubServer, app: GitHub) -> None:
    server.token_seconds = 200  # less than what is left of one when it is renewed
    assert (number(app), number(app)) == (1, 1)
    assert len([request for request in server.requests if "access_tokens" in request]) == 2


def test_a_key_of_another_app_is_refused(server: GitHubServer, tmp_path: Path) -> None:
    folder = server.write_credentials(tmp_path, app=True)
    (folder / "app-id").write_text("4712")
    with pytest.raises(GateError, match="of the same GitHub App"):
        connect(server.url, folder).get(PULL)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"token": 7, "expires_at": "2030-01-01T00:00:00Z"},
        {"token": "a\r\nX: y", "expires_at": "2030-01-01T00:00:00Z"},
        {"token": "t"},
    ]
    + [{"token": "t", "expires_at": value} for value in (None, "soon", 5)],
)
def test_a_malformed_token_is_refused(server: GitHubServer, app: GitHub, answer: dict[str, Any]) -> None:
    server.fault("/app/installations/99/access_tokens", status=201, body=json.dumps(answer).encode())
    with pytest.raises(GateError):
        app.get(PULL)
    assert server.requests == ["POST /app/installations/99/access_tokens"]


def test_the_jwt_is_in_date_for_a_clock_that_drifts(
    server: GitHubServer, app: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = time.time() + 50
    monkeypatch.setattr("shardlib.gate.credentials.time.time", lambda: ahead)
    assert number(app) == 1


@pytest.mark.parametrize(
    ("files", "wrong"),
    [
        ({}, "neither token nor app-id"),
        ({"token": ""}, "token is not a token"),
        ({"token": "two words"}, "token is not a token"),
        ({"token": "ü"}, "token is not a token"),
        ({"app-id": "1"}, "installation-id is not a number"),
        ({"app-id": "1", "installation-id": "../1"}, "installation-id is not a number"),
        ({"app-id": "1", "installation-id": "1", "private-key": "secret"}, "private-key is not a key in PEM"),
    ],
)
def test_credentials_that_are_none_are_named_but_not_shown(tmp_path: Path, files: dict[str, str], wrong: str) -> None:
    for name, value in files.items():
        (tmp_path / name).write_text(value)
    with pytest.raises(UsageError, match=wrong) as caught:
        connect("https://api.github.com", tmp_path)
    assert "secret" not in str(caught.value)


def test_a_key_that_only_looks_like_one_is_not_shown(server: GitHubServer, tmp_path: Path) -> None:
    folder = server.write_credentials(tmp_path, app=True)
    (folder / "private-key").write_text("-----BEGIN RSA PRIVATE KEY-----\nc2VjcmV0\n-----END RSA PRIVATE KEY-----")
    with pytest.raises(UsageError, match="no RSA key") as caught:
        connect(server.url, folder).get(PULL)
    assert "c2VjcmV0" not in repr(caught.value)
    assert caught.value.__cause__ is None


@given(
    status=st.sampled_from([200, 304, 403, 404, 422, 429, 500, 503]),
    headers=st.fixed_dictionaries(
        {},
        optional={
            "retry-after": st.one_of(st.text(max_size=8), st.integers(-5, 10**6).map(str)),
            "x-ratelimit-remaining": st.sampled_from(["0", "1", ""]),
            "x-ratelimit-reset": st.one_of(st.text(max_size=20), st.integers(-5, 10**12).map(str)),
        },
    ),
    body=st.sampled_from([b"", b"You have exceeded a secondary rate limit", b"\xff"]),
    attempt=st.integers(0, 10**6),
)
def test_a_pause_is_a_second_or_more_whatever_headers_say(
    status: int, headers: dict[str, str], body: bytes, attempt: int
) -> None:
    asked = pause(Answer(status=status, headers=headers, body=body), attempt, now=1000.0)
    assert asked is None or asked >= 1
    assert (asked is None) <= (status not in (429, 500, 503))
    assert (asked is not None) <= (status in (403, 429, 500, 503))


def test_modules_of_the_client_name_no_token_when_shown() -> None:
    assert "s3cret" not in repr(Token(value="s3cret"))
    assert "s3cret" not in repr(credentials.App(app_id="1", installation_id="2", private_key="s3cret"))
    assert github.MAX_ITEMS > 100
