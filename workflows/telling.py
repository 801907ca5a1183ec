"""What pods that run code of a pull request tell Argo, by no way on which that code could lead Argo elsewhere.

Argo's wait container, which has the executor's token, reads outputs, progress and logs to archive where main could put
anything in their place, and it follows links: one to the token shows the token in the workflow (seen on Argo 4.0.5).
Nobody can put a link in the place of a mount.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from hera.workflows import UserContainer
from hera.workflows import models as m

from workflows import pods
from workflows.settings import Settings

FOLDER = "/told"  # each file in it is a mount of its own

_SIZE = "64Ki"  # a line and a number; the workflow, which etcd takes 1.5 MB of, keeps what a shard says
_PROGRESS_TICK = "5s"  # how often the wait container passes ARGO_PROGRESS_FILE on; its own default is a minute


def volume() -> m.Volume:
    """Returns the volume of what a pod that runs code of a pull request tells Argo; a full one is a full disk."""
    return pods.empty("told", memory=_SIZE)


def make(settings: Settings, texts: Mapping[str, str]) -> UserContainer:
    """Returns the init container that makes the files of `mounts`, for a main of any user to write to.

    `texts` is what they say, by name, where main says nothing.
    """
    line = f'set -e; umask 0; cd {FOLDER}; for one; do printf %s "${{one#*=}}" >"${{one%%=*}}"; done'
    command = ["sh", "-c", line, "make-told", *(f"{name}={text}" for name, text in texts.items())]
    return pods.init(settings, "make-told", command, pods.mount("told", FOLDER))


def mounts(names: Iterable[str]) -> list[m.VolumeMount]:
    """Returns a mount for each file that a pod tells Argo."""
    return [pods.mount("told", f"{FOLDER}/{name}", sub_path=name) for name in names]


def no_log() -> m.ArtifactLocation:
    """Returns what keeps Argo from archiving the log of a pod that runs code of a pull request, for the same reason."""
    return m.ArtifactLocation(archive_logs=False)


def pod_patch(settings: Settings) -> str:
    """Returns the patch for pods that run tests: time to flush after SIGTERM, and progress that moves.

    Argo's own file of the progress lies where main could put a link in its place; this one is a mount (`mounts`).
    """
    progress = f"{FOLDER}/progress"
    wait = {"ARGO_PROGRESS_PATCH_TICK_DURATION": _PROGRESS_TICK, "ARGO_PROGRESS_FILE": f"/mainctrfs{progress}"}
    containers = [_env_patch("main", {"ARGO_PROGRESS_FILE": progress}), _env_patch("wait", wait)]
    return json.dumps({"terminationGracePeriodSeconds": settings.grace_seconds, "containers": containers})


def no_progress() -> str:
    """Returns the patch for other pods that run code of a pull request: wait looks for no progress, nor follows a link."""
    return json.dumps({"containers": [_env_patch("wait", {"ARGO_PROGRESS_FILE_TICK_DURATION": "0s"})]})


def _env_patch(container: str, values: Mapping[str, str]) -> dict[str, object]:
    return {"name": container, "env": [{"name": name, "value": value} for name, value in values.items()]}
