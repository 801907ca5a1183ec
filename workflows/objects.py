"""What the chain needs in its namespace beside the WorkflowTemplate: accounts with least rights, and the semaphore."""

from __future__ import annotations

from typing import Any

from workflows.chain import executor_name, semaphore_name
from workflows.settings import Settings

Object = dict[str, Any]
_RBAC = "rbac.authorization.k8s.io/v1"


def accounts(settings: Settings) -> list[Object]:
    """Returns the service accounts: the pods' own, which has no rights and no token, and the executor's.

    Argo's containers get the executor's token from the Secret, of this very name; the tests never see it.
    """
    executor = executor_name(settings)
    secret = object_of(
        settings,
        "Secret",
        f"{executor}.service-account-token",
        annotations={"kubernetes.io/service-account.name": executor},
        type="kubernetes.io/service-account-token",
    )
    return [
        object_of(settings, "ServiceAccount", settings.name, automountServiceAccountToken=False),
        object_of(settings, "ServiceAccount", executor, automountServiceAccountToken=False),
        secret,
    ]


def roles(settings: Settings) -> list[Object]:
    """Returns the executor's role, and one for the people who submit, resume, retry and stop: bound to nobody here."""
    executor, operator = executor_name(settings), f"{settings.name}-operator"
    results = rule("argoproj.io", ["workflowtaskresults"], ["create", "patch"])
    people = [
        rule("argoproj.io", ["workflows"], ["create", "get", "list", "patch", "update", "watch"]),
        rule("argoproj.io", ["workflowtemplates"], ["get", "list", "watch"]),
        rule("argoproj.io", ["workflowtaskresults"], ["get", "list"]),
        rule("", ["pods"], ["delete", "get", "list", "watch"]),  # `argo retry` deletes the pods that it repeats
        rule("", ["pods/log"], ["get"]),
    ]
    return [
        *bound_role(settings, executor, [results]),
        object_of(settings, "Role", operator, _RBAC, rules=people),
    ]


def network_policies(settings: Settings) -> list[Object]:
    """Returns the policy by which nobody can call a pod of the chain, such as another pull request's: none serves."""
    selector = {"matchLabels": {"app.kubernetes.io/part-of": settings.name}}
    spec = {"podSelector": selector, "policyTypes": ["Ingress"], "ingress": []}
    return [object_of(settings, "NetworkPolicy", f"{settings.name}-no-ingress", "networking.k8s.io/v1", spec=spec)]


def config_maps(settings: Settings, data: dict[str, str]) -> list[Object]:
    """Returns the semaphores' limits; nothing where there is none."""
    return [object_of(settings, "ConfigMap", semaphore_name(settings), data=data)] if data else []


def bound_role(settings: Settings, account: str, rules: list[Object]) -> list[Object]:
    """Returns a role and its binding to the service account of its name."""
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account}
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": settings.namespace}]
    return [
        object_of(settings, "Role", account, _RBAC, rules=rules),
        object_of(settings, "RoleBinding", account, _RBAC, roleRef=reference, subjects=subjects),
    ]


def rule(group: str, resources: list[str], verbs: list[str]) -> Object:
    """Returns one rule of a role."""
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def object_of(
    settings: Settings,
    kind: str,
    name: str,
    version: str = "v1",
    *,
    annotations: dict[str, str] | None = None,
    **fields: Any,
) -> Object:
    """Returns an object of Kubernetes in the chain's namespace."""
    labels = {"app.kubernetes.io/part-of": settings.name}
    metadata: Object = {"name": name, "namespace": settings.namespace, "labels": labels}
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}
