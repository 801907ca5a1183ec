"""Tests that try to get out of their pod; each passes where it is kept in."""

from __future__ import annotations

import errno
import shutil
import time
from pathlib import Path

import looking
import pytest

pytestmark = pytest.mark.gpu(mode="MODE")
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
ARGO = Path("/var/run/argo")


def test_no_file_and_no_environment_holds_a_token_or_a_login() -> None:
    assert looking.secrets() == {}


def test_the_search_finds_a_token_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(
        "eyJhbGciOiJSUzI1NiIsImtpZCI6IkFCIn0.eyJhdWQiOlsiaHR0cHM6Ly9r.c2lnbmF0dXJlc2lnbmF0dXJl"
    )
    (tmp_path / "config.json").write_text('{"auths": {"registry.example.com": {"auth": "YTpi"}}}')
    assert len(looking.secrets(str(tmp_path))) == 2


@pytest.mark.parametrize("what", ["secrets", "pods", "serviceaccounts"])
def test_the_api_server_tells_nothing(what: str) -> None:
    assert looking.api(f"/api/v1/namespaces/argo/{what}") in (401, 403)


def test_workflows_cannot_be_seen_or_resumed() -> None:
    assert looking.api("/apis/argoproj.io/v1alpha1/namespaces/argo/workflows") in (401, 403)


def test_of_other_runs_and_shards_nothing_is_there_and_what_is_written_stays_in_the_pod() -> None:
    """In the folder that hides the other runs anything can be made; the run's own folder must have none of it."""
    own = looking.own_run()
    assert not (own / "collect" / "collect.json").exists()
    (shard,) = (own / "shards").iterdir()
    for place in {"shards/02", "shards/01", "shards/cpu", "collect", "report"} - {f"shards/{shard.name}"}:
        (own / place).mkdir(parents=True)
        (own / place / "forged").write_text("FORGED")
    (looking.RUNS / "victim").mkdir()
    (looking.RUNS / "victim" / "forged").write_text("FORGED")
    shutil.rmtree(looking.RUNS / "victim")


def test_what_hides_them_cannot_be_taken_away() -> None:
    assert not looking.unmounts(str(looking.RUNS))
    assert not looking.unmounts("/mnt/ci")


def test_the_plan_cannot_be_written() -> None:
    plan = looking.own_run() / "plan"
    assert looking.refused(plan / "plan.json")
    assert looking.refused(plan / "forged")
    assert not looking.makes_writable(str(plan))


def test_the_shared_volume_cannot_be_written() -> None:
    for name in ("forged", "control/forged", "tags/forged"):
        assert looking.refused(Path("/mnt/ci", name))
    assert not looking.makes_writable("/mnt/ci")


def test_the_disks_of_the_node_cannot_be_read() -> None:
    assert not any(looking.reads_disk(major, minor) for major in (8, 252, 253, 254, 259) for minor in (0, 1))


def test_nothing_comes_in_the_place_of_what_argo_reads() -> None:
    link = Path("/told/link")  # beside the mounts, which makes a rename one within a file system
    link.symlink_to(TOKEN)
    for name in ("summary", "progress"):
        with pytest.raises(OSError, match="busy") as refused:
            link.rename(f"/told/{name}")
        assert refused.value.errno in (errno.EBUSY, errno.EXDEV)
    link.unlink()


def test_argo_is_led_to_its_token_by_no_link() -> None:
    """Whoever reads what main writes has a token, and follows links; the workflow and wait's log must not have it."""
    places = [
        ARGO / "outputs/parameters/told/summary",
        ARGO / "outputs/parameters/tmp/outputs/summary",
        ARGO / "progress",
    ]
    places += [ARGO / "ctr/main/combined", ARGO / "ctr/main/stdout", ARGO / "outputs/artifacts/told/summary.tgz"]
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(TOKEN)
    Path("/told").rename("/told-before")  # the folder around a mount can be moved, in here
    Path("/told").mkdir()
    for name in ("summary", "progress"):
        Path("/told", name).symlink_to(TOKEN)
    time.sleep(7)  # wait looks every few seconds
    for name in ("summary", "progress"):
        Path("/told", name).unlink()
    Path("/told").rmdir()
    Path("/told-before").rename("/told")
