"""What the chain needs in its namespace beside the WorkflowTemplate: accounts with least rights, and the semaphore."""

from __future__ import annotations

from typing import Any

from workflows.chain import executor_name, semaphore_data, semaphore_name
from workflows.settings import Settings

Object = dict[str, Any]
_RBAC = "rbac.authorization.k8s.io/v1"


def accounts(settings: Settings) -> list[Object]:
    """Returns the service accounts: the pods' own, which has no rights and no token, and the executor's.

    Argo's containers get the executor's token from the Secret, of this very name (ARGO_FACTS k); the tests never see it.
    """
    executor = executor_name(settings)
    secret = _object(
        settings,
        "Secret",
        f"{executor}.service-account-token",
        annotations={"kubernetes.io/service-account.name": executor},
        type="kubernetes.io/service-account-token",
    )
    return [
        _object(settings, "ServiceAccount", settings.name, automountServiceAccountToken=False),
        _object(settings, "ServiceAccount", executor, automountServiceAccountToken=False),
        secret,
    ]


def roles(settings: Settings) -> list[Object]:
    """Returns the executor's role, and one for the people who submit, resume, retry and stop: bound to nobody here."""
    executor, operator = executor_name(settings), f"{settings.name}-operator"
    results = _rule("argoproj.io", ["workflowtaskresults"], ["create", "patch"])
    people = [
        _rule("argoproj.io", ["workflows"], ["create", "get", "list", "patch", "update", "watch"]),
        _rule("argoproj.io", ["workflowtemplates"], ["get", "list", "watch"]),
        _rule("argoproj.io", ["workflowtaskresults"], ["get", "list"]),
        _rule("", ["pods"], ["delete", "get", "list", "watch"]),  # `argo retry` deletes the pods that it repeats
        _rule("", ["pods/log"], ["get"]),
    ]
    return [
        _object(settings, "Role", executor, _RBAC, rules=[results]),
        _object(
            settings,
            "RoleBinding",
            executor,
            _RBAC,
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": executor},
            subjects=[{"kind": "ServiceAccount", "name": executor, "namespace": settings.namespace}],
        ),
        _object(settings, "Role", operator, _RBAC, rules=people),
    ]


def network_policies(settings: Settings) -> list[Object]:
    """Returns the policy by which nobody can call a pod of the chain, such as another pull request's: none serves."""
    selector = {"matchLabels": {"app.kubernetes.io/part-of": settings.name}}
    spec = {"podSelector": selector, "policyTypes": ["Ingress"], "ingress": []}
    return [_object(settings, "NetworkPolicy", f"{settings.name}-no-ingress", "networking.k8s.io/v1", spec=spec)]


def config_maps(settings: Settings) -> list[Object]:
    """Returns the semaphore that caps whole GPU runs; nothing where there is no cap."""
    if not settings.runs_at_once:
        return []
    return [_object(settings, "ConfigMap", semaphore_name(settings), data=semaphore_data(settings))]


def _rule(group: str, resources: list[str], verbs: list[str]) -> Object:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _object(
    settings: Settings,
    kind: str,
    name: str,
    version: str = "v1",
    *,
    annotations: dict[str, str] | None = None,
    **fields: Any,
) -> Object:
    labels = {"app.kubernetes.io/part-of": settings.name}
    metadata: Object = {"name": name, "namespace": settings.namespace, "labels": labels}
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}
