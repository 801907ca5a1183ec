from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shardlib import cli, ledger
from shardlib.errors import RegistryError, RunFolderError, UsageError
from tests.test_registry import StandIn, serving


@pytest.fixture
def registry() -> Iterator[StandIn]:
    with serving() as running:
        yield running


def tag(registry: StandIn, folder: Path, version: str, *, uid: str, created: str) -> str:
    """Tags as a run does, and returns the digest that it tested."""
    digest = registry.image("ml/x-ci", version)
    argv = ["tag-image", "--source", f"{registry.host}/ml/x-ci@{digest}", "--target", f"{registry.host}/ml/x:main"]
    assert cli.main([*argv, "--insecure", "--ledger", str(folder), "--uid", uid, "--created", created]) == 0
    return digest


def entry(created: str = "2026-11-30T12:00:00Z", run: str = "u") -> ledger.Entry:
    return ledger.Entry(image="host/x:main", digest="sha256:" + "1" * 64, run=run, created=created)


def test_an_older_run_that_ends_later_does_not_move_the_tag_back(
    registry: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tag(registry, tmp_path, "a", uid="1", created="2026-11-30T12:00:00Z")
    newer = tag(registry, tmp_path, "b", uid="2", created="2026-11-30T13:00:00+00:00")
    requests = len(registry.requests)
    tag(registry, tmp_path, "c", uid="3", created="2026-11-30T12:59:59Z")
    assert len(registry.requests) == requests
    assert f"is {newer} since the newer run 2" in capsys.readouterr().out


def test_a_run_may_tag_again_what_it_tagged(registry: StandIn, tmp_path: Path) -> None:
    for _ in range(2):
        before = len(registry.requests)
        tag(registry, tmp_path, "a", uid="1", created="2026-11-30T12:00:00Z")
        assert len(registry.requests) > before


def test_of_runs_of_the_same_second_one_is_the_newer_whoever_asks() -> None:
    one, two = entry(run="1"), entry(run="2")
    assert (one.is_older_than(two), two.is_older_than(one), one.is_older_than(one)) == (True, False, False)


def test_a_time_in_another_zone_is_the_same_time() -> None:
    assert not entry("2026-11-30T13:00:00+01:00").is_older_than(entry("2026-11-30T12:00:00Z"))


@pytest.mark.parametrize("created", ["", "yesterday", "2026-11-30T12:00:00", "{{workflow.creationTimestamp}}"])
def test_a_time_that_cannot_be_compared_is_refused(created: str) -> None:
    with pytest.raises(UsageError, match="--created"):
        entry(created)


@pytest.mark.parametrize("text", ["", "{}", '{"schema": "shardlib.tag/1"}', '{"schema": 1}', "\xff"])
def test_a_ledger_that_is_none_of_ours_is_refused(tmp_path: Path, text: str) -> None:
    ledger.write(tmp_path, entry())
    (file,) = tmp_path.iterdir()
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(RegistryError, match=file.name):
        ledger.read(tmp_path, "host/x:main")


def test_an_entry_of_another_image_is_refused(tmp_path: Path) -> None:
    ledger.write(tmp_path, entry())
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text().replace("host/x:main", "host/y:main"))
    with pytest.raises(RegistryError, match="no entry of host/x:main"):
        ledger.read(tmp_path, "host/x:main")


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    ledger.write(tmp_path / "a", entry())
    (file,) = (tmp_path / "a").iterdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / file.name).symlink_to(file)
    with pytest.raises(RunFolderError, match="link"):
        ledger.read(tmp_path / "b", "host/x:main")


def test_what_was_written_is_read(tmp_path: Path) -> None:
    assert ledger.read(tmp_path, "host/x:main") is None
    ledger.write(tmp_path, entry())
    assert ledger.read(tmp_path, "host/x:main") == entry()
    assert ledger.read(tmp_path, "host/x-main") is None


@pytest.mark.parametrize("without", ["--uid", "--created"])
def test_a_run_that_does_not_say_which_it_is_tags_nothing(
    registry: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str], without: str
) -> None:
    values = {"--uid": "1", "--created": "2026-11-30T12:00:00Z", without: ""}
    argv = ["tag-image", "--source", f"{registry.host}/x@sha256:{'1' * 64}", "--target", f"{registry.host}/x:main"]
    argv += ["--insecure", "--ledger", str(tmp_path / "ledger"), *(f"{name}={value}" for name, value in values.items())]
    assert cli.main(argv) == 11
    assert f"{without} is missing: --ledger needs it" in capsys.readouterr().err
    assert registry.requests == []
    assert not (tmp_path / "ledger").exists()
