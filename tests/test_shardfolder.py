from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib import shardfolder
from shardlib.errors import InfrastructureError, RunFolderError
from shardlib.runfolder import RunFolder
from shardlib.shardfolder import ShardFolder
from tests.runs import attempt_body, finish, make_plan, result_body


def test_attempts_are_numbered_and_say_how_they_ended(tmp_path: Path) -> None:
    plan, shard = make_plan(), RunFolder(tmp_path).shard("01")
    assert shard.attempts() == []
    assert [shard.start_attempt(attempt_body(plan, "01")) for _ in range(3)] == [0, 1, 2]
    assert shard.attempts() == [0, 1, 2]
    assert shard.read_attempt(2) == {**attempt_body(plan, "01"), "attempt": 2}
    assert shard.read_done(1) is None
    finish(shard, plan, 1, status=1)
    done = shard.read_done(1)
    assert done is not None
    assert (done["attempt"], done["end"], done["exit"]) == (1, "finished", 1)
    with pytest.raises(RunFolderError, match="an attempt ends once"):
        finish(shard, plan, 1)


def test_runners_that_start_at_once_get_numbers_of_their_own(tmp_path: Path) -> None:
    plan, shard = make_plan(), RunFolder(tmp_path).shard("01")
    numbers: list[int] = []
    threads = [
        threading.Thread(target=lambda: numbers.append(shard.start_attempt(attempt_body(plan, "01")))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(8))


def test_a_link_that_was_made_but_whose_reply_was_lost_is_still_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def lossy(*args: Any, **kwargs: Any) -> None:
        link(*args, **kwargs)
        raise FileExistsError(17, "File exists")

    monkeypatch.setattr(os, "link", lossy)
    shard = RunFolder(tmp_path).shard("01")
    assert shard.start_attempt(attempt_body(make_plan(), "01")) == 0
    assert shard.attempts() == [0]


def test_results_get_the_next_version(tmp_path: Path) -> None:
    plan, shard = make_plan(), RunFolder(tmp_path).shard("01")
    assert shard.results() == {}
    body = result_body(plan, "01", "g00001")
    assert [shard.write_result("g00001", body) for _ in range(11)] == list(range(11))
    assert shard.write_result("g00002", result_body(plan, "01", "g00002")) == 0
    assert shard.results() == {"g00001": list(range(11)), "g00002": [0]}
    assert shard.read_result("g00001", 10) == {**body, "version": 10}


def test_nothing_temporary_is_left_or_listed(tmp_path: Path) -> None:
    plan, shard = make_plan(), RunFolder(tmp_path).shard("01")
    shard.start_attempt(attempt_body(plan, "01"))
    (tmp_path / "shards" / "01" / "attempts" / ".tmp-of-a-killed-runner").write_text("{")
    assert shard.attempts() == [0]
    shard.start_attempt(attempt_body(plan, "01"))
    assert sorted(path.name for path in (tmp_path / "shards" / "01" / "attempts").iterdir()) == [
        ".tmp-of-a-killed-runner",
        "0.json",
        "1.json",
    ]


@given(texts=st.lists(st.text(st.characters(), max_size=30), max_size=8), torn=st.integers(0, 40))
def test_events_come_back_as_they_were_but_for_a_torn_last_line(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], torn: int
) -> None:
    path = tmp_path_factory.mktemp("run")
    shard = RunFolder(path).shard("01")
    log = shard.event_log(0)
    events = [{"t": index, "event": "note", "text": text} for index, text in enumerate(texts)]
    for event in events:
        log.append(event)
    log.sync()
    log.close()
    log.close()
    file = path / "shards" / "01" / "events" / "0.jsonl"
    file.write_bytes(file.read_bytes() + b'{"t": 99, "event": "note", "text": "torn"}'[:torn])
    assert list(shard.read_events(0)) == events


def test_an_attempt_without_a_log_has_no_events(tmp_path: Path) -> None:
    assert list(RunFolder(tmp_path).shard("01").read_events(0)) == []


def test_a_log_is_begun_once(tmp_path: Path) -> None:
    shard = RunFolder(tmp_path).shard("01")
    shard.event_log(0).close()
    with pytest.raises(RunFolderError, match=r"0\.jsonl"):
        shard.event_log(0)


def test_a_full_disk_is_infrastructure(tmp_path: Path) -> None:
    log = shardfolder.EventLog(os.open("/dev/full", os.O_WRONLY), Path("/dev/full"))
    with pytest.raises(InfrastructureError, match="No space"):
        log.append({"t": 0, "event": "note"})
    log.close()


@pytest.mark.parametrize(
    "line",
    [b"\n", b"[]\n", b"{}\n", b'{"t":0,"event":1}\n', b'{"t":NaN,"event":"x"}\n', b"\xff\n", b"[" * 99999 + b"\n"],
)
def test_garbage_between_events_is_named_with_its_line(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "shards" / "01" / "events" / "0.jsonl"
    file.parent.mkdir(parents=True)
    file.write_bytes(b'{"t":0,"event":"note"}\n' + line + b'{"t":1,"event":"note"}\n')
    with pytest.raises(RunFolderError, match=r"0\.jsonl:2"):
        list(RunFolder(tmp_path).shard("01").read_events(0))


def test_a_line_beyond_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shardfolder, "MAX_EVENT_BYTES", 100)
    shard = RunFolder(tmp_path).shard("01")
    log = shard.event_log(0)
    log.append({"t": 0, "event": "note", "text": "x" * 100})
    log.close()
    with pytest.raises(RunFolderError, match=r"0\.jsonl:1: a line of more than 100"):
        list(shard.read_events(0))


def _green_shard(path: Path) -> ShardFolder:
    plan, shard = make_plan(), RunFolder(path).shard("01")
    shard.start_attempt(attempt_body(plan, "01"))
    shard.write_result("g00001", result_body(plan, "01", "g00001"))
    finish(shard, plan)
    return shard


def _read_all(shard: ShardFolder) -> None:
    shard.read_attempt(0)
    shard.read_done(0)
    shard.read_result("g00001", 0)


FILES = ["attempts/0.json", "attempts/0.done", "results/g00001.0.json"]


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("what", ["link", "fifo", "folder", "socket", "huge"])
def test_readers_take_regular_files_of_bounded_size_only(
    tmp_path: Path, file: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = _green_shard(tmp_path)
    path = tmp_path / "shards" / "01" / file
    content = path.read_bytes()
    path.unlink()
    if what == "link":
        path.with_name(".elsewhere").write_bytes(content)
        path.symlink_to(".elsewhere")
    elif what == "fifo":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    elif what == "socket":
        import socket

        monkeypatch.chdir(path.parent)  # a socket's path is short
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    else:
        path.touch()
        os.truncate(path, shardfolder.MAX_RESULT_BYTES + 1)
    with pytest.raises(RunFolderError, match=path.name.replace(".", r"\.")):
        _read_all(shard)


@pytest.mark.parametrize("folder", ["shards", "shards/01", "shards/01/attempts", "shards/01/results"])
def test_no_link_is_followed_below_the_runs_folder(tmp_path: Path, folder: str) -> None:
    shard = _green_shard(tmp_path)
    real = tmp_path / folder
    real.rename(tmp_path / "moved")
    real.symlink_to(tmp_path / "moved")
    with pytest.raises(RunFolderError, match="link"):
        _read_all(shard)
    with pytest.raises(RunFolderError, match="link"):
        _green_shard(tmp_path)


@pytest.mark.parametrize("name", ["g00001.json", "g00001.01.json", "g1.0.json", "g00001.0.json.bak", "x\ny"])
def test_a_foreign_file_among_results_is_refused_by_name(tmp_path: Path, name: str) -> None:
    shard = _green_shard(tmp_path)
    (tmp_path / "shards" / "01" / "results" / name).touch()
    with pytest.raises(RunFolderError, match="does not belong here"):
        shard.results()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("digest", 1),
        ("shard", None),
        ("attempt", True),
        ("attempt", -1),
        ("attempt", 1.0),
        ("extra", "text"),
        ("extra", [1]),
        ("tests", {}),
        ("tests", ["x"]),
        ("tests", [{"id": "a", "outcome": "passed", "attempt": 0}]),
        ("tests", [{"id": "a", "outcome": "good", "attempt": 0, "seconds": 1}]),
        ("tests", [{"id": "a", "outcome": "passed", "attempt": 0, "seconds": 1e999}]),
        ("tests", [{"id": "a", "outcome": "passed", "attempt": 0, "seconds": -1}]),
        ("tests", [{"id": "a", "outcome": "passed", "attempt": 0, "seconds": 10**400}]),
        ("tests", [{"id": "a", "outcome": "passed", "attempt": 0, "seconds": 1, "earlier": ["good"]}]),
        ("tests", [{"id": "a", "outcome": "passed", "attempt": 0, "seconds": 1, "shared_seconds": {"module": "x"}}]),
        ("tests", [{"id": "a", "outcome": "passed", "attempt": 0, "seconds": 1, "detail": 5}]),
    ],
)
def test_a_record_of_another_shape_is_refused_by_field(tmp_path: Path, key: str, value: object) -> None:
    shard = _green_shard(tmp_path)
    path = tmp_path / "shards" / "01" / "results" / "g00001.0.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}).replace("Infinity", "1e999"))
    with pytest.raises(RunFolderError, match=f"g00001.0.json.*{key}"):
        shard.read_result("g00001", 0)
