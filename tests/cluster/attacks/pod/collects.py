"""A conftest that uses the pod in which tests are collected, and there alone: what it finds is told, what it can be is ruined."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import looking

KIND, CASE = "KIND", "CASE"

# It outlives pytest, and acts once the collection is written.
DAEMON = """
import os, pathlib, sys, time
kind, case, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
target, new = folder / "collect.json", folder / "new"
evil = f"import pathlib\\npathlib.Path('/mnt/ci/runs/forged-{case}').touch()\\ndef test_evil(): pass\\n"
if kind == "removed":
    (folder / "conftest.py").write_text(evil)
    (folder / "test_evil.py").write_text(evil)
while not target.is_file():
    time.sleep(0.0005)
text = target.read_text()
end = time.monotonic() + 20
while time.monotonic() < end:
    if kind == "removed":
        target.unlink(missing_ok=True)
        continue
    if kind == "forged":
        new.write_text(text.replace("test_passes", "{{workflow.name}}"))
    elif kind == "malformed":
        new.write_text(text[:-20])
    elif kind == "link":
        new.symlink_to("/etc/passwd")
    elif kind == "fifo":
        os.mkfifo(new)
    elif kind == "huge":
        new.touch()
        os.truncate(new, 2 << 30)
    os.replace(new, target)
    time.sleep(0.0005)
"""


def _everything(run: Path) -> None:
    for place in ("plan", "shards/01"):  # which goes into the folder that hides other runs
        looking.refused(run / place / "forged")
    for place in ("plan", "shards/01"):  # which goes into the folder that hides other runs
        looking.refused(run / place / "forged")
    written = [
        str(path) for path in map(Path, ("/mnt/ci/forged", "/mnt/ci/control/forged")) if not looking.refused(path)
    ]
    looking.tell(
        run / "collect" / "found.json",
        secrets=looking.secrets(),
        runs=[path.name for path in looking.RUNS.iterdir()],
        api=[looking.api(f"/api/v1/namespaces/argo/{what}") for what in ("secrets", "pods")],
        unmounted=looking.unmounts("/mnt/ci/runs"),
        written=written,
    )
    for name in ("outputs/parameters/tmp/outputs/summary", "progress", "ctr/main/combined", "ctr/main/stdout"):
        place = Path("/var/run/argo", name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to("/var/run/secrets/kubernetes.io/serviceaccount/token")


with contextlib.suppress(ValueError):
    _run = looking.own_run()
    if looking.mounted(_run / "collect"):
        if KIND == "looks":
            _everything(_run)
        else:
            command = [sys.executable, "-c", DAEMON, KIND, CASE, str(_run / "collect")]
            subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
