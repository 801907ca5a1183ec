"""`python -m workflows preflight`: checks a cluster for all that the chain needs; each line says what to do."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from shardlib.errors import Exit, InfrastructureError, RegistryError
from shardlib.registry import Registry
from workflows import settings, webhook
from workflows.chain import executor_name, semaphore_name
from workflows.cluster import Cluster
from workflows.settings import Settings

_CRDS = ("workflows", "workflowtemplates", "workflowtaskresults")
_CLIENTS = "argo-workflows-webhook-clients"  # of this name to Argo's server
_ARGO = "v4."  # the line that the chain is written for


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was looked at: whether it is right, and if not, what to do."""

    good: bool
    what: str
    todo: str = ""

    def __str__(self) -> str:
        """Returns one line for a person."""
        return f"{'ok  ' if self.good else 'FAIL'}  {self.what}{'' if self.good else f': {self.todo}'}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    parser.add_argument("--context", metavar="NAME", help="kubectl's context; default: the current one")


def main(args: argparse.Namespace) -> int:
    """Prints a line for each check; returns 0 if all are good, else 1."""
    own = settings.load(args.settings)
    cluster = Cluster.connect(args.context)
    checks = []
    for check in preflight(own, cluster):
        checks.append(check)
        print(check, flush=True)
    failed = sum(not check.good for check in checks)
    print(f"{len(checks)} checks, {failed} failed")
    return Exit.RED if failed else Exit.GREEN


def preflight(settings: Settings, cluster: Cluster) -> Iterator[Check]:
    """Yields the checks in the order in which a person would mend them."""
    for look in (_argo, _namespace, _installed, _rights, _secrets, _volume, _nodes, _registry):
        yield from _guarded(look, settings, cluster)


def _guarded(
    look: Callable[[Settings, Cluster], Iterator[Check]], settings: Settings, cluster: Cluster
) -> Iterator[Check]:
    """Yields the checks; one that the API server does not let us make is a failed one, and the others go on."""
    try:
        yield from look(settings, cluster)
    except InfrastructureError as err:
        yield Check(good=False, what=look.__name__.strip("_"), todo=f"cannot be checked: {err}")


def _argo(settings: Settings, cluster: Cluster) -> Iterator[Check]:
    versions = cluster.crd_versions()
    missing = [name for name in _CRDS if "v1alpha1" not in versions.get(f"{name}.argoproj.io", [])]
    todo = f"{', '.join(missing)} are missing; install Argo Workflows 4 with its full CRDs"
    yield Check(good=not missing, what="Argo's CRDs", todo=todo)
    images = cluster.controller_images(settings.namespace) or cluster.controller_images("argo")
    right = bool(images) and all(image.rpartition(":")[2].startswith(_ARGO) for image in images)
    found = ", ".join(images) or "none here or in namespace argo"
    yield Check(good=right, what=f"workflow controller ({found})", todo=f"the chain is written for Argo {_ARGO}x")


def _namespace(settings: Settings, cluster: Cluster) -> Iterator[Check]:
    labels = cluster.namespace_labels(settings.namespace)
    yield Check(
        good=labels is not None,
        what=f"namespace {settings.namespace}",
        todo=f"kubectl create namespace {settings.namespace}",
    )
    level = (labels or {}).get("pod-security.kubernetes.io/enforce", "privileged")
    yield Check(
        good=level == "privileged",
        what=f"Pod Security {level}",
        todo="the tests' SYS_NICE needs `privileged`; label the namespace so",
    )


def _installed(settings: Settings, cluster: Cluster) -> Iterator[Check]:
    wanted = [("ServiceAccount", settings.name), ("ServiceAccount", executor_name(settings))]
    wanted += [("ConfigMap", semaphore_name(settings))] if settings.runs_at_once or settings.webhook else []
    wanted += [("WorkflowTemplate", settings.name)]
    if settings.webhook:
        wanted += [("ServiceAccount", name) for name in (webhook.gate_name(settings), webhook.client_name(settings))]
        wanted += [("WorkflowTemplate", f"{settings.name}-{name}") for name in ("open-gate", "close-gate")]
        wanted += [
            ("WorkflowEventBinding", f"{settings.name}-{name}") for name in ("submit", "open-gate", "close-gate")
        ]
        wanted += [("CronWorkflow", f"{settings.name}-sweep")]
    for kind, name in wanted:
        good = cluster.exists(kind, settings.namespace, name)
        yield Check(good=good, what=f"{kind} {name}", todo="kubectl apply -k manifests/")


def _rights(settings: Settings, cluster: Cluster) -> Iterator[Check]:
    namespace, executor = settings.namespace, executor_name(settings)
    for verb in ("create", "patch"):
        good = cluster.can(verb, "workflowtaskresults", namespace, account=executor, group="argoproj.io")
        yield Check(good=good, what=f"{executor} may {verb} workflowtaskresults", todo="kubectl apply -k manifests/")
    # What the tests' account must not be able to do, should its token ever reach them.
    for verb, resource, group in (
        ("get", "secrets", ""),
        ("create", "pods", ""),
        ("update", "workflows", "argoproj.io"),
    ):
        bad = cluster.can(verb, resource, namespace, account=settings.name, group=group)
        yield Check(
            good=not bad, what=f"{settings.name} may not {verb} {resource}", todo="remove the binding that lets it"
        )


def _secrets(settings: Settings, cluster: Cluster) -> Iterator[Check]:
    token = f"{executor_name(settings)}.service-account-token"
    wanted: list[tuple[str, str, tuple[str, ...], str]] = [
        (token, "kubernetes.io/service-account-token", ("token",), "kubectl apply -k manifests/")
    ]
    docker = (
        "kubectl create secret docker-registry NAME --docker-server=... --docker-username=... --docker-password=..."
    )
    for name in (settings.registry_secret, settings.tag_secret, *settings.image_pull_secrets):
        if name:
            wanted.append(
                (name, "kubernetes.io/dockerconfigjson", (".dockerconfigjson",), docker.replace("NAME", name))
            )
    if settings.git_secret:
        todo = f"kubectl create secret generic {settings.git_secret} --from-literal=token=..."
        wanted.append((settings.git_secret, "Opaque", ("token",), todo))
    if settings.github_secret:
        todo = f"kubectl create secret generic {settings.github_secret} --from-literal=app-id=... (docs/github.md)"
        wanted.append((settings.github_secret, "Opaque", ("private-key", "token"), todo))
    if settings.webhook:
        client = webhook.client_name(settings)
        wanted.append((f"{client}.service-account-token", *wanted[0][1:]))
        wanted.append(
            (_CLIENTS, "Opaque", (client,), f"create it with the webhook's secret under {client} (docs/github.md)")
        )
    for name, kind, keys, todo in wanted:
        found = cluster.secret(settings.namespace, name)
        good = found is not None and found[0] == kind and any(key in found[1] for key in keys)
        told = "" if found is None or good else f" (has type {found[0]}, keys {', '.join(sorted(found[1])) or 'none'})"
        yield Check(good=good, what=f"Secret {name}{told}", todo=f"{todo} -n {settings.namespace}")


def _volume(settings: Settings, cluster: Cluster) -> Iterator[Check]:
    found = cluster.claim(settings.namespace, settings.pvc)
    todo = f"create it in {settings.namespace}, ReadWriteMany; docs/operations.md says what it must be"
    good = found is not None and found[0] == "Bound"
    yield Check(good=good, what=f"PersistentVolumeClaim {settings.pvc}{f' ({found[0]})' if found else ''}", todo=todo)
    shared = found is not None and "ReadWriteMany" in found[1]
    yield Check(
        good=shared, what=f"{settings.pvc} is ReadWriteMany", todo="shards on several nodes write to it at once"
    )


def _nodes(settings: Settings, cluster: Cluster) -> Iterator[Check]:
    nodes, fit = cluster.free_nodes(settings.gpu_resource, settings.gpus, settings.gpu_node_selector)
    yield Check(
        good=fit >= settings.shards,
        what=f"{fit} of {nodes} matching nodes have {settings.gpus} {settings.gpu_resource} for {settings.shards} shards",
        todo="fewer nodes than shards: the rest waits; set shards, gpu_node_selector, or install the device plugin",
    )


def _registry(settings: Settings, cluster: Cluster) -> Iterator[Check]:
    """Asks from this machine, which may see the registry where the cluster does not, and the other way round."""
    host = settings.image.partition("/")[0]
    told = ""
    try:
        Registry(host, insecure=settings.registry_insecure).check()
    except (RegistryError, InfrastructureError) as err:
        told = str(err)
    yield Check(
        good=not told, what=f"registry {host}, from here", todo=f"{told}; is image right, and registry_insecure?"
    )
