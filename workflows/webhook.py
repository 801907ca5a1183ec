"""What GitHub's deliveries start: event bindings, the small workflows that look at a pull request, and the sweep.

A binding takes one thing from a payload, the pull request's number, and submits a workflow that asks GitHub for the rest. Its
name is made up by the server: a delivery that comes again is one look more, while a fixed name would be answered by 500.
"""

from __future__ import annotations

from typing import Any

from hera.workflows import DAG, Container, CronWorkflow, Parameter, RetryStrategy, Task, WorkflowTemplate
from hera.workflows import models as m

from workflows import gate, pods
from workflows.chain import executor_name, semaphore_name
from workflows.linting.bindings import NUMBER
from workflows.objects import Object, bound_role, object_of, rule
from workflows.settings import Settings

_LOOKS_KEY = "gate-looks"
_LOOKS_AT_ONCE = 4  # whatever a burst of deliveries brings; one takes seconds, or minutes where it waits for a run

_LOOK_SECONDS = 900  # GitHub is waited for up to five minutes and a run for four
_LOOK_RETRIES = "4"
_WAITING_SECONDS = 86_400  # for its turn, too
_KEPT_SECONDS = 1800  # after their end: to read what they did
_TOKEN = "/var/run/secrets/argo"
_TOKEN_SECONDS = 3600
_SWEEP_SCHEDULE = "*/10 * * * *"

# Selectors: a field that a delivery lacks must make them false, for an error is a 500 that means nothing.
_EVENTS = {
    "submit": ("open-gate", 'payload.action in ["opened", "reopened", "synchronize"]'),
    "open-gate": ("open-gate", 'payload.action == "labeled" && payload.label?.name == "{label}"'),
    "close-gate": ("close-gate", 'payload.action == "closed"'),
}


def documents(settings: Settings) -> list[Object]:
    """Returns all that deliveries need in the namespace."""
    return [*bindings(settings), *looks(settings), sweep(settings), *accounts(settings), *roles(settings)]


def limits() -> dict[str, str]:
    """Returns how many looks run at once, for the semaphores' ConfigMap."""
    return {_LOOKS_KEY: str(_LOOKS_AT_ONCE)}


def bindings(settings: Settings) -> list[Object]:
    """Returns what a delivery submits, by its event and action; other repositories' are none of ours."""
    found = []
    for name, (command, selector) in _EVENTS.items():
        conditions = [
            'metadata["x-github-event"] == ["pull_request"]',
            f'payload.repository?.full_name == "{settings.repository}"',
            "payload.pull_request?.number != nil",
            selector.replace("{label}", settings.label),
        ]
        template = f"{settings.name}-{command}"
        submit = {
            "metadata": {"generateName": f'"{template}-" + {NUMBER} + "-"'},
            "workflowTemplateRef": {"name": template},
            "arguments": {"parameters": [{"name": "pr", "valueFrom": {"event": NUMBER}}]},
        }
        spec = {"event": {"selector": " && ".join(conditions)}, "submit": submit}
        binding = object_of(
            settings, "WorkflowEventBinding", f"{settings.name}-{name}", "argoproj.io/v1alpha1", spec=spec
        )
        found.append(binding)
    return found


def looks(settings: Settings) -> list[Object]:
    """Returns the WorkflowTemplates open-gate and close-gate, which both make the runs fit the pull request as it is."""
    return [_look(settings, command).to_dict() for command in ("open-gate", "close-gate")]


def sweep(settings: Settings) -> Object:
    """Returns the CronWorkflow that repairs what was missed: deliveries that were lost, checks that were left open."""
    own = [f"--repository={settings.repository}", *_where(settings), f"--label={settings.label}"]
    commands = {"follow": ["open-gate", "--lately", *own]}
    if gate.reports(settings):
        commands["follow"].append(f"--check-name={settings.check_name}")
        commands["write-checks"] = ["sweep", f"--check-name={settings.check_name}", *own]
    tasks: list[Task | m.DAGTask] = [Task(name=name, template=name) for name in commands]
    containers = [_container(settings, name, command) for name, command in commands.items()]
    cron: Object = CronWorkflow(
        name=f"{settings.name}-sweep",
        namespace=settings.namespace,
        schedules=[_SWEEP_SCHEDULE],
        concurrency_policy="Forbid",
        successful_jobs_history_limit=1,
        failed_jobs_history_limit=3,
        **_spec(settings, "sweep", [DAG(name="sweep", fail_fast=False, tasks=tasks), *containers]),
    ).to_dict()
    return cron


def accounts(settings: Settings) -> list[Object]:
    """Returns the accounts of what looks and of who delivers, with the Secret by which Argo's server acts as the latter."""
    client = client_name(settings)
    annotations = {"kubernetes.io/service-account.name": client}
    name, kind = f"{client}.service-account-token", "kubernetes.io/service-account-token"
    return [
        object_of(settings, "ServiceAccount", gate_name(settings), automountServiceAccountToken=False),
        object_of(settings, "ServiceAccount", client, automountServiceAccountToken=False),
        object_of(settings, "Secret", name, annotations=annotations, type=kind),
    ]


def roles(settings: Settings) -> list[Object]:
    """Returns what looks may do: what resuming, stopping and retrying take; and what submits for a delivery."""
    look = [
        rule("argoproj.io", ["workflows"], ["create", "get", "list", "patch", "update"]),
        rule("argoproj.io", ["workflowtemplates"], ["get"]),
        rule("", ["pods"], ["delete"]),  # a retry deletes the pods that it repeats
    ]
    deliver = [
        rule("argoproj.io", ["workfloweventbindings"], ["list"]),
        rule("argoproj.io", ["workflowtemplates"], ["get"]),
        rule("argoproj.io", ["workflows"], ["create"]),
    ]
    names = ((gate_name(settings), look), (client_name(settings), deliver))
    return [one for name, rules in names for one in bound_role(settings, name, rules)]


def gate_name(settings: Settings) -> str:
    """Returns the service account of the workflows that look."""
    return f"{settings.name}-gate"


def client_name(settings: Settings) -> str:
    """Returns the service account as which Argo's server acts for GitHub's signed deliveries."""
    return f"{settings.name}-webhook"


def _look(settings: Settings, command: str) -> WorkflowTemplate:
    words = [command, "--pr={{workflow.parameters.pr}}", "--take-over={{workflow.name}}"]
    words += [f"--repository={settings.repository}", *_where(settings), f"--label={settings.label}"]
    selector = m.ConfigMapKeySelector(name=semaphore_name(settings), key=_LOOKS_KEY)
    return WorkflowTemplate(
        name=f"{settings.name}-{command}",
        namespace=settings.namespace,
        arguments=[Parameter(name="pr")],
        synchronization=m.Synchronization(semaphores=[m.SemaphoreRef(config_map_key_ref=selector)]),
        **_spec(settings, command, [_container(settings, command, words)]),
    )


def _spec(settings: Settings, entrypoint: str, templates: list[Any]) -> dict[str, Any]:
    return {
        "entrypoint": entrypoint,
        "templates": templates,
        "active_deadline_seconds": _WAITING_SECONDS,
        "ttl_strategy": m.TTLStrategy(seconds_after_completion=_KEPT_SECONDS),
        "service_account_name": gate_name(settings),
        "automount_service_account_token": False,
        "executor": m.ExecutorConfig(service_account_name=executor_name(settings)),
        "image_pull_secrets": [m.LocalObjectReference(name=name) for name in settings.image_pull_secrets] or None,
        "pod_metadata": m.Metadata(labels={"app.kubernetes.io/part-of": settings.name}),
    }


def _container(settings: Settings, name: str, command: list[str]) -> Container:
    """Returns a container with GitHub's credentials and a token of an hour for Argo's server, in `main` alone."""
    token = m.ServiceAccountTokenProjection(path="token", expiration_seconds=_TOKEN_SECONDS)
    projected = m.ProjectedVolumeSource(sources=[m.VolumeProjection(service_account_token=token)])
    one = pods.tools(
        settings,
        name,
        [*gate.SHARDLIB, *command],
        deadline_seconds=_LOOK_SECONDS,
        volumes=[*gate.volumes(settings), m.Volume(name="argo-token", projected=projected)],
        mounts=[*gate.mounts(settings), pods.mount("argo-token", _TOKEN, read_only=True)],
        shared=False,
    )
    backoff = m.Backoff.model_validate({"duration": "15s", "factor": 2})
    one.retry_strategy = RetryStrategy(limit=_LOOK_RETRIES, expression=pods.RETRY_EXPRESSION, backoff=backoff)
    return one


def _where(settings: Settings) -> list[str]:
    argo = [f"--argo-server={settings.argo_server}", f"--argo-token={_TOKEN}/token"]
    return [*gate.asking(settings), *argo, f"--namespace={settings.namespace}", f"--template={settings.name}"]
