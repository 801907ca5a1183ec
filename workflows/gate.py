"""verify-gate and the check on GitHub: what the chain asks GitHub, and tells it."""

from __future__ import annotations

from collections.abc import Sequence

from hera.workflows import Container, Parameter
from hera.workflows import models as m

from workflows import pods
from workflows.settings import Settings

SHARDLIB = ("python3", "-P", "-m", "shardlib")  # -P: nothing is imported from the working directory
CREDENTIALS = "/github"
NAMED = {"repository": "repo", "pr": "pr", "sha": "sha"}
"""The options that say which commit is meant, each with the parameter of its value."""

_DEADLINE_SECONDS = 900  # GitHub is waited for up to five minutes, with a cold image pull before it (a guess)
_LINK = "{{workflow.name}}?uid={{workflow.uid}}"


def verifies(settings: Settings) -> bool:
    """Whether the chain has a verify-gate: without GitHub's credentials, whoever may resume is the gate."""
    return settings.gate and settings.github_secret is not None


def reports(settings: Settings) -> bool:
    """Whether the chain writes a check on the head."""
    return settings.github_secret is not None and settings.check_name != ""


def verify_gate(settings: Settings) -> Container:
    """Asks GitHub whether the head may run; its outputs are what all later steps use, and are no commit if it may not."""
    values = {name: f"{{{{inputs.parameters.{name}}}}}" for name in NAMED.values()}
    command = ["verify-gate", *asking(settings), f"--label={settings.label}", f"--parameters={pods.OUTPUTS}"]
    command += [f"--{option}={values[name]}" for option, name in NAMED.items()]
    command += ["--allow-forks"] if settings.allow_forks else []
    refused = [
        Parameter(name=name, value_from=m.ValueFrom(path=f"{pods.OUTPUTS}/{name}", default="refused"))
        for name in ("sha", "pr", "repo")
    ]
    return pods.tools(
        settings,
        "verify-gate",
        reporting(settings, command),
        deadline_seconds=_DEADLINE_SECONDS,
        inputs=[Parameter(name=name) for name in ("sha", "pr", "repo")],
        outputs=[*refused, pods.summary("verify-gate")],
        env=report_env(settings, repo=values["repo"], sha=values["sha"]),
        volumes=volumes(settings),
        mounts=mounts(settings),
        shared=False,
    )


def asking(settings: Settings) -> list[str]:
    """Returns the options by which a command asks GitHub; none where there are no credentials."""
    if settings.github_secret is None:
        return []
    return [f"--github-api={settings.github_api}", f"--credentials={CREDENTIALS}"]


def reporting(settings: Settings, command: Sequence[str]) -> list[str]:
    """Returns the container's command for one of shardlib's: after it, the check says what its outputs mean.

    If it cannot be written the step fails, too, and is tried again: a verdict is only put on a commit for which the gate
    reported before that it runs, so a run without that report would be for nothing.
    """
    shardlib = " ".join(SHARDLIB)
    if not reports(settings):
        return [*SHARDLIB, *command]
    options = '--repository "$REPO" --sha "$SHA" --uid "$RUN_UID" --started "$RUN_STARTED" --url "$RUN_LINK"'
    github = f'--github-api "$GITHUB_API" --credentials {CREDENTIALS} --check-name "$CHECK_NAME" --label "$LABEL"'
    check = f"{shardlib} check --outputs {pods.OUTPUTS} {github} {options}"
    line = f'{shardlib} "$@"; CODE=$?; {check}; CHECKED=$?; [ "$CODE" != 0 ] || CODE=$CHECKED; exit "$CODE"'
    return ["sh", "-c", line, *command[:1], *command]


def report_env(settings: Settings, *, repo: str, sha: str) -> list[m.EnvVar]:
    """Returns the variables that `reporting` uses: in an environment no text can be anything but text."""
    if not reports(settings):
        return []
    values = {
        "GITHUB_API": settings.github_api,
        "CHECK_NAME": settings.check_name,
        "LABEL": settings.label,
        "REPO": repo,
        "SHA": sha,
        "RUN_UID": pods.UID,
        "RUN_STARTED": "{{workflow.creationTimestamp}}",
        "RUN_LINK": link(settings),
    }
    return [m.EnvVar(name=name, value=value) for name, value in values.items()]


def concluding(settings: Settings) -> list[str]:
    """Returns the options by which `shardlib conclude` writes the check, too.

    It is told the commit by parameters, which `argo retry -p` can change: so it gives a verdict only to a commit on which
    a step of this workflow has reported before.
    """
    if not reports(settings):
        return []
    options = [*asking(settings), f"--check-name={settings.check_name}", f"--label={settings.label}"]
    options += ["--repository={{workflow.parameters.repo}}", "--sha={{workflow.parameters.sha}}"]
    return [
        *options,
        f"--uid={pods.UID}",
        "--started={{workflow.creationTimestamp}}",
        f"--url={link(settings)}",
    ]


def link(settings: Settings) -> str:
    """Returns the run's address in Argo's UI; empty if there is none."""
    return "" if settings.argo_ui is None else f"{settings.argo_ui}/workflows/{settings.namespace}/{_LINK}"


def volumes(settings: Settings) -> list[m.Volume]:
    """Returns GitHub's credentials as a folder with a file for each key, if there are any."""
    if settings.github_secret is None:
        return []
    return [m.Volume(name="github", secret=m.SecretVolumeSource(secret_name=settings.github_secret))]


def mounts(settings: Settings) -> list[m.VolumeMount]:
    """Returns the mount of `volumes`."""
    return [pods.mount("github", CREDENTIALS, read_only=True)] if settings.github_secret else []
