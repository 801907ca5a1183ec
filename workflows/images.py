"""The image under test: its commit's files, the build, and the tag that it earns."""

from __future__ import annotations

import re

from hera.workflows import Container, Parameter, RetryStrategy, UserContainer
from hera.workflows import models as m

from workflows import gate, pods, telling
from workflows.settings import Settings

DIGEST = "^sha256:[0-9a-f]{64}$"

_CONTEXT = "/kaniko/buildcontext"  # where Kaniko itself puts one: below /kaniko nothing becomes part of the image

# A Dockerfile runs in `main` and can exit with any code: only what happens beside it is retried.
_RETRY_EXPRESSION = "!(lastRetry.message contains 'specified deadline') && !(lastRetry.message startsWith 'main:')"


def build_image(settings: Settings) -> Container:
    """Builds the image under test at the commit with Kaniko and gives its digest.

    A Dockerfile runs as root in `main` and can read its credentials, which therefore open IMAGE-ci only. What reads the
    repository is in the init container, which has ended by then.
    """
    arguments = [
        f"--context=dir://{_CONTEXT}/source",
        f"--dockerfile={settings.dockerfile}",
        f"--destination={settings.build_image}:{{{{inputs.parameters.sha}}}}",
        f"--digest-file={telling.FOLDER}/digest",
        "--label=org.opencontainers.image.revision={{inputs.parameters.sha}}",
        "--push-retry=3",
    ]
    if settings.build_cache:  # one for each pull request, but one login opens them all
        arguments += ["--cache=true", f"--cache-repo={settings.build_image}/cache-pr-{{{{inputs.parameters.pr}}}}"]
    arguments += ["--insecure", "--insecure-pull"] if settings.registry_insecure else []
    key = settings.registry_secret
    return Container(
        name="build-image",
        image=settings.kaniko_image,
        command=["/kaniko/executor"],
        args=arguments,
        inputs=[Parameter(name=name) for name in ("sha", "pr", "repo")],
        outputs=[Parameter(name="digest", value_from=m.ValueFrom(path=f"{telling.FOLDER}/digest"))],
        resources=_build_resources(settings),
        init_containers=[telling.make(settings, {"digest": ""}), _fetch_source(settings)],
        volumes=[
            telling.volume(),
            pods.empty("source"),
            *(gate.volumes(settings) if settings.git_secret is None else []),
            *([pods.secret("registry", key)] if key else []),
        ],
        # Kaniko empties its file system between stages, but for what is mounted.
        volume_mounts=[
            *telling.mounts(["digest"]),
            pods.mount("source", _CONTEXT),
            *([pods.mount("registry", "/kaniko/.docker", read_only=True)] if key else []),
        ],
        node_selector=dict(settings.cpu_node_selector) or None,
        active_deadline_seconds=settings.build_deadline_seconds,
        pod_spec_patch=telling.no_progress(),
        retry_strategy=RetryStrategy(limit=str(pods.RETRIES), expression=_RETRY_EXPRESSION),
        archive_location=telling.no_log(),
    )


def git_token(settings: Settings) -> list[m.EnvVar]:
    """Returns the variable with a token for git, if there is a Secret of its own for that; else GitHub's App has one."""
    if settings.git_secret is None:
        return []
    selector = m.SecretKeySelector(name=settings.git_secret, key="token")
    return [m.EnvVar(name="SHARDLIB_GIT_TOKEN", value_from=m.EnvVarSource(secret_key_ref=selector))]


def _fetch_source(settings: Settings) -> UserContainer:
    """Returns the init container that makes a checkout of the commit, without its history."""
    command = [*gate.SHARDLIB, "fetch-source", f"--clone={settings.git_url}", "--repository={{inputs.parameters.repo}}"]
    command += ["--sha={{inputs.parameters.sha}}", f"--output={_CONTEXT}/source"]
    command += ["--submodules"] if settings.submodules else []
    as_app = settings.git_secret is None
    command += gate.asking(settings) if as_app else []
    mounts = [pods.mount("source", _CONTEXT), *(gate.mounts(settings) if as_app else [])]
    one = pods.init(settings, "fetch-source", command, *mounts)
    one.env = [m.EnvVar(name="HOME", value="/tmp"), *git_token(settings)]
    one.resources = _build_resources(settings)  # a pod is given what its largest container asks for: this costs nothing
    return one


def _build_resources(settings: Settings) -> m.ResourceRequirements:
    room = {"memory": settings.build_memory, "ephemeral-storage": settings.build_disk}
    return pods.resources({"cpu": settings.build_cpu, **room}, room)


def tag_image(settings: Settings, tag: str) -> Container:
    """Copies the tested digest into the image's own repository and moves the tag to it.

    Where it waits for the merge it says that it did not tag; close-gate then starts it again.
    """
    source = f"{settings.build_image}@{{{{inputs.parameters.digest}}}}"
    command = [*gate.SHARDLIB, "tag-image", f"--source={source}", f"--target={settings.image}:{tag}"]
    command += [f"--ledger={settings.mount}/tags", f"--uid={pods.UID}"]
    command += ["--created={{workflow.creationTimestamp}}"]
    command += ["--insecure"] if settings.registry_insecure else []
    key, merged = settings.tag_secret, settings.tag_when == "merged"
    command += ["--docker-config=/registry/config.json"] if key else []
    source_of = {option: f"{{{{inputs.parameters.{name}}}}}" for option, name in gate.NAMED.items()}
    command += (
        [*gate.asking(settings), *(f"--{option}={value}" for option, value in source_of.items())] if merged else []
    )
    return pods.tools(
        settings,
        "tag-image",
        [*command, "--if-merged", f"--parameters={pods.OUTPUTS}"] if merged else command,
        deadline_seconds=pods.SHORT_SECONDS,
        inputs=[Parameter(name=name) for name in ("digest", *(gate.NAMED.values() if merged else ()))],
        outputs=[pods.output("tagged")] if merged else [],
        volumes=[*([pods.secret("registry", key)] if key else []), *(gate.volumes(settings) if merged else [])],
        mounts=[
            *([pods.mount("registry", "/registry", read_only=True)] if key else []),
            *(gate.mounts(settings) if merged else []),
        ],
        # One at a time for an image, whoever tags it: the ledger is read, then written.
        synchronization=m.Synchronization(mutexes=[m.Mutex(name=f"tag-{re.sub('[^a-z0-9]+', '-', settings.image)}")]),
    )
