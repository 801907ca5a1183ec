"""What the pods of the chain have in common: mounts, users, retries, what brings the runner into a foreign image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hera.workflows import Container, Parameter, RetryStrategy, UserContainer
from hera.workflows import models as m

from workflows.settings import Settings

UID = "{{workflow.uid}}"  # stays over `argo retry`, is new with `argo resubmit`
OUTPUTS = "/tmp/outputs"
SHORT_SECONDS = 900  # deadline of steps of seconds, with a cold image pull inside (a guess)

# Tried on Argo 4.0.5 with every kind of failure (docs/architecture.md): infrastructure is retried, a red test (exit 1) and
# what looks like a test's fault (out of memory, the deadline) never. 64 and Error may be our mistakes, hence the limit.
RETRY_EXPRESSION = (
    "!(lastRetry.message contains 'specified deadline') && "
    "(lastRetry.status == 'Error' || lastRetry.exitCode in ['64','75','143'] || !(lastRetry.message startsWith 'main:'))"
)
RETRIES = 2

_DISPLAY_KEY = "workflows.argoproj.io/display-name"

_TOOLS_MEMORY = ("512Mi", "4Gi")  # request and limit; planning a million tests takes 1 GiB
_SMALL = m.ResourceRequirements.model_validate(
    {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}
)


@dataclass(kw_only=True)
class NamedContainer(Container):
    """A container template whose nodes have a name of their own in Argo's UI, made of its inputs.

    Argo reads it from the annotations of the template itself, which Hera 7.1 has no field for: its `annotations` are the
    pod's.
    """

    display_name: str

    def _build_template(self) -> m.Template:
        template: m.Template = super()._build_template()
        template.annotations = {_DISPLAY_KEY: self.display_name}
        return template


def run_folder(settings: Settings) -> str:
    """Returns the run's folder as every pod sees it."""
    return f"{settings.mount}/runs/{UID}"


def retry(settings: Settings) -> RetryStrategy:
    """Returns the strategy that retries infrastructure failures, and those alone."""
    affinity = m.RetryAffinity(node_anti_affinity=m.RetryNodeAntiAffinity()) if settings.other_node else None
    return RetryStrategy(limit=str(RETRIES), expression=RETRY_EXPRESSION, affinity=affinity)


def resources(requests: Mapping[str, str], limits: Mapping[str, str]) -> m.ResourceRequirements:
    """Returns requests and limits, always literals: Argo cannot substitute there."""
    return m.ResourceRequirements.model_validate({"requests": dict(requests), "limits": dict(limits)})


def shared_volume(settings: Settings) -> m.Volume:
    """Returns the volume behind /mnt/ci."""
    claim = m.PersistentVolumeClaimVolumeSource(claim_name=settings.pvc)
    return m.Volume(name="ci", persistent_volume_claim=claim)


def empty(name: str, *, memory: str | None = None) -> m.Volume:
    """Returns an empty folder that lives as long as the pod; in memory if a size is given for it."""
    source = {"medium": "Memory", "sizeLimit": memory} if memory else {}
    return m.Volume(name=name, empty_dir=m.EmptyDirVolumeSource.model_validate(source))


def secret(name: str, secret_name: str) -> m.Volume:
    """Returns a dockerconfigjson Secret as a folder with config.json in it."""
    items = [m.KeyToPath(key=".dockerconfigjson", path="config.json")]
    return m.Volume(name=name, secret=m.SecretVolumeSource(secret_name=secret_name, items=items))


def mount(name: str, path: str, *, sub_path: str | None = None, read_only: bool | None = None) -> m.VolumeMount:
    """Returns a mount of a volume or of a folder in it."""
    return m.VolumeMount(name=name, mount_path=path, sub_path=sub_path, read_only=read_only)


def run_mounts(settings: Settings, *, own: str, plan: bool) -> list[m.VolumeMount]:
    """Returns what a pod that runs code of a pull request sees of /mnt/ci: all but other runs, and its own folder.

    An empty folder hides the runs; over it lie the plan, read-only, and `own`, the one place that it can write to.
    """
    mounts = [
        mount("ci", settings.mount, read_only=True),
        mount("runs", f"{settings.mount}/runs"),
        mount("shardlib", "/opt/shardlib", read_only=True),
    ]
    if plan:
        mounts.append(mount("ci", f"{run_folder(settings)}/plan", sub_path=f"runs/{UID}/plan", read_only=True))
    mounts.append(mount("ci", f"{run_folder(settings)}/{own}", sub_path=f"runs/{UID}/{own}"))
    return mounts


def foreign_volumes(settings: Settings) -> list[m.Volume]:
    """Returns the volumes of `run_mounts`."""
    return [shared_volume(settings), empty("runs"), empty("shardlib")]


def bring_shardlib(settings: Settings) -> UserContainer:
    """Returns the init container that puts the runner beside the image under test, which needs nothing of ours."""
    command = ["cp", "/opt/shardlib/shardlib.pyz", "/bring/shardlib.pyz"]
    return init(settings, "bring-shardlib", command, mount("shardlib", "/bring"))


def make_folder(settings: Settings, own: str) -> UserContainer:
    """Returns the init container that makes a folder of the run, for a main of any user to write to."""
    command = ["install", "-d", "-m", "0777", f"{run_folder(settings)}/{own}"]
    return init(settings, "make-folder", command, mount("ci", settings.mount))


def shardlib_in_image(settings: Settings, *arguments: str) -> list[str]:
    """Returns the command that runs shardlib in the image under test, where no checkout's own can win."""
    return [settings.python, "/opt/shardlib/shardlib.pyz", *arguments]


def summary(what: str, folder: str = OUTPUTS) -> Parameter:
    """Returns the output parameter that says why a node is red; there even where the pod was killed before it said so."""
    return Parameter(name="summary", value_from=m.ValueFrom(path=f"{folder}/summary", default=silent(what)))


def silent(what: str) -> str:
    """Returns what a summary is where nobody wrote one."""
    return f"{what} said nothing: it was killed, or ran out of memory or time; see the node's message"


def output(name: str) -> Parameter:
    """Returns an output parameter from the file of its name; a step that does not write it is an error."""
    return Parameter(name=name, value_from=m.ValueFrom(path=f"{OUTPUTS}/{name}"))


def tools_context(settings: Settings) -> tuple[m.PodSecurityContext, m.SecurityContext]:
    """Returns the security contexts of pods from the CI tools image: no root, no capability, nothing to write to."""
    uid = settings.tools_user
    # No fsGroup: it would make Kubernetes change the owner of everything on /mnt/ci.
    seccomp = m.SeccompProfile(type="RuntimeDefault")
    pod = m.PodSecurityContext(run_as_non_root=True, run_as_user=uid, run_as_group=uid, seccomp_profile=seccomp)
    return pod, _locked(uid)


def plain_context() -> tuple[m.PodSecurityContext, m.SecurityContext]:
    """Returns the contexts of pods that run code of a pull request without GPUs, as their image's own user."""
    pod = m.PodSecurityContext(seccomp_profile=m.SeccompProfile(type="RuntimeDefault"))
    return pod, m.SecurityContext(allow_privilege_escalation=False, capabilities=m.Capabilities(drop=["NET_RAW"]))


def tools(
    settings: Settings,
    name: str,
    command: Sequence[str],
    *,
    deadline_seconds: int,
    inputs: Sequence[Parameter] = (),
    outputs: Sequence[Parameter | m.Artifact] = (),
    volumes: Sequence[m.Volume] = (),
    mounts: Sequence[m.VolumeMount] = (),
    env: Sequence[m.EnvVar] = (),
    shared: bool = True,
    retries: bool = True,
    synchronization: m.Synchronization | None = None,
) -> Container:
    """Returns a step in the CI tools image; it sees /mnt/ci whole if `shared`."""
    pod, main = tools_context(settings)
    ci = ([shared_volume(settings)], [mount("ci", settings.mount)]) if shared else ([], [])
    return Container(
        name=name,
        image=settings.tools_image,
        command=list(command),
        inputs=list(inputs),
        outputs=list(outputs),
        env=[m.EnvVar(name="HOME", value="/tmp"), *env],
        resources=resources({"cpu": settings.tools_cpu, "memory": _TOOLS_MEMORY[0]}, {"memory": _TOOLS_MEMORY[1]}),
        volumes=[*ci[0], empty("tmp"), *volumes],
        volume_mounts=[*ci[1], mount("tmp", "/tmp"), *mounts],
        node_selector=dict(settings.cpu_node_selector) or None,
        pod_security_context=pod,
        security_context=main,
        active_deadline_seconds=deadline_seconds,
        retry_strategy=retry(settings) if retries else None,
        synchronization=synchronization,
    )


def init(settings: Settings, name: str, command: list[str], *mounts: m.VolumeMount) -> UserContainer:
    """Returns an init container from the CI tools image."""
    return UserContainer(
        name=name,
        image=settings.tools_image,
        command=command,
        volume_mounts=list(mounts),
        security_context=_locked(settings.tools_user),
        resources=_SMALL,
    )


def _locked(uid: int) -> m.SecurityContext:
    return m.SecurityContext(
        run_as_non_root=True,
        run_as_user=uid,
        allow_privilege_escalation=False,
        read_only_root_filesystem=True,
        capabilities=m.Capabilities(drop=["ALL"]),
    )
