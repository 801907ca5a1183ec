"""The chain: which step waits for which, and the WorkflowTemplate around it."""

from __future__ import annotations

from hera.workflows import DAG, Parameter, Task, WorkflowTemplate
from hera.workflows import models as m
from hera.workflows.protocol import Templatable

from workflows import gate, images, steps
from workflows.settings import Settings

_NEEDED = "{{tasks.find-changed.outputs.parameters.gpu-code}} == true"
_SEMAPHORE_KEY = "gpu-runs"


def semaphore_name(settings: Settings) -> str:
    """Returns the name of the ConfigMap with the limits: of whole GPU runs, of looks at pull requests."""
    return f"{settings.name}-semaphore"


def executor_name(settings: Settings) -> str:
    """Returns the service account that Argo's own containers act as."""
    return f"{settings.name}-executor"


def workflow_template(settings: Settings) -> WorkflowTemplate:
    """Returns the whole chain; its parameters are a number, a commit and OWNER/NAME, and no other text of anybody."""
    templates: list[m.Template | Templatable] = [
        main(settings),
        gpu_run(settings),
        steps.find_changed(settings),
        *([steps.wait_for_label()] if settings.gate else []),
        *([gate.verify_gate(settings)] if gate.verifies(settings) else []),
        images.build_image(settings),
        steps.collect_tests(settings),
        steps.calculate_shards(settings),
        steps.gpu_tests(settings),
        steps.cpu_tests(settings),
        steps.gpu_tests_passed(settings),
        *([images.tag_image(settings, settings.tag)] if settings.tag else []),
        steps.conclude(settings),
    ]
    return WorkflowTemplate(
        name=settings.name,
        namespace=settings.namespace,
        entrypoint="main",
        on_exit="conclude",
        arguments=[Parameter(name="pr"), Parameter(name="sha"), Parameter(name="repo", value=settings.repository)],
        templates=templates,
        active_deadline_seconds=settings.deadline_seconds,
        ttl_strategy=m.TTLStrategy(seconds_after_completion=settings.ttl_days * 86_400),
        archive_logs=True if settings.artifacts else None,
        service_account_name=settings.name,
        automount_service_account_token=False,
        executor=m.ExecutorConfig(service_account_name=executor_name(settings)),
        image_pull_secrets=[m.LocalObjectReference(name=name) for name in settings.image_pull_secrets] or None,
        pod_metadata=m.Metadata(labels={"app.kubernetes.io/part-of": settings.name}),
    )


def main(settings: Settings) -> DAG:
    """Returns the chain's tasks. `failFast` is off, so that the verdict comes whatever fails."""
    image = f"{settings.build_image}@{_checked_digest()}"
    planned = "{{tasks.calculate-shards.outputs.parameters.%s}}"
    tasks: list[Task | m.DAGTask] = [
        Task(name="find-changed", template="find-changed"),
        *_gate(settings),
        _build(settings),
        _task("collect-tests", "build-image.Succeeded", image=image),
        _task("calculate-shards", "collect-tests.Succeeded", image=image),
        Task(
            name="gpu-tests",
            template="gpu-run",
            depends="calculate-shards.Succeeded",
            when=f"{planned % 'gpu-shards'} != 0",  # none is right where all tests are cpu tests: the plan says so
            arguments=_values(image=image, shards="{{tasks.calculate-shards.outputs.result}}"),
        ),
        Task(
            name="cpu-tests",
            template="cpu-tests",
            depends="calculate-shards.Succeeded",
            when=f"{planned % 'cpu-shards'} != 0",
            arguments=_values(image=image, minutes=planned % "cpu-minutes", deadline=planned % "cpu-deadline"),
        ),
        _task("gpu-tests-passed", f"{_ended('gpu-tests')} && {_ended('cpu-tests')}"),
    ]
    if settings.tag:
        head = _head(settings) if settings.tag_when == "merged" else []
        tag = Task(
            name="tag-image",
            template="tag-image",
            depends="gpu-tests-passed.Succeeded",
            arguments=[*_values(digest=_checked_digest()), *head],
        )
        tasks.append(tag)
    return DAG(name="main", fail_fast=False, tasks=tasks)


def _gate(settings: Settings) -> list[Task]:
    """Returns what a head has to pass. The suspend only waits: whoever may update workflows can end it; verify-gate asks.

    Where the label is there from the start nobody has to wait. Without GPU code both are skipped, and all that follows.
    """
    if not settings.gate:
        return []
    if not gate.verifies(settings):
        return [Task(name="wait-for-label", template="wait-for-label", depends="find-changed.Succeeded", when=_NEEDED)]
    unlabelled = f"{_NEEDED} && {{{{tasks.find-changed.outputs.parameters.labelled}}}} != true"
    return [
        Task(name="wait-for-label", template="wait-for-label", depends="find-changed.Succeeded", when=unlabelled),
        Task(
            name="verify-gate",
            template="verify-gate",
            depends="wait-for-label.Succeeded || wait-for-label.Skipped",
            when=_NEEDED,
            arguments=_outputs("find-changed", "sha", "pr", "repo"),
        ),
    ]


def _build(settings: Settings) -> Task:
    """Returns the build of what the gate let through: its outputs, never the workflow's parameters."""
    after = "wait-for-label" if settings.gate else "find-changed"
    return Task(
        name="build-image",
        template="build-image",
        depends=f"{'verify-gate' if gate.verifies(settings) else after}.Succeeded",
        when=None if settings.gate else _NEEDED,
        arguments=_head(settings),
    )


def _head(settings: Settings) -> list[Parameter | m.Parameter | m.Artifact]:
    """Returns the commit that may run, and whose it is: what verify-gate passed on, where there is one."""
    return _outputs("verify-gate" if gate.verifies(settings) else "find-changed", "sha", "pr", "repo")


def gpu_run(settings: Settings) -> DAG:
    """Returns the fan-out, one pod a shard; as a DAG of its own, so that a semaphore keeps two runs from interleaving.

    It has no `timeout`, which would count the waiting.
    """
    item = {name: f"{{{{item.{name}}}}}" for name in ("shard", "of", "minutes", "deadline")}
    shard = Task(
        name="shard",
        template="gpu-tests",
        with_param="{{inputs.parameters.shards}}",
        arguments=_values(image="{{inputs.parameters.image}}", **item),
    )
    selector = m.ConfigMapKeySelector(name=semaphore_name(settings), key=_SEMAPHORE_KEY)
    semaphore = m.Synchronization(semaphores=[m.SemaphoreRef(config_map_key_ref=selector)])
    return DAG(
        name="gpu-run",
        inputs=[Parameter(name="image"), Parameter(name="shards")],
        synchronization=semaphore if settings.runs_at_once else None,
        fail_fast=False,
        tasks=[shard],
    )


def semaphore_data(settings: Settings) -> dict[str, str]:
    """Returns the limit of whole GPU runs, for the semaphores' ConfigMap; empty if there is none."""
    return {_SEMAPHORE_KEY: str(settings.runs_at_once)} if settings.runs_at_once else {}


def _checked_digest() -> str:
    """Returns the build's digest as an expression: a Dockerfile can write anything there, templates included.

    Text that is put in by `{{tasks…}}` is evaluated again; the value of an expression is only taken if it is a digest.
    """
    digest = "tasks['build-image'].outputs.parameters.digest"
    return f"{{{{={digest} matches '{images.DIGEST}' ? {digest} : 'sha256:not-a-digest'}}}}"


def _task(name: str, depends: str, **arguments: str) -> Task:
    return Task(name=name, template=name, depends=depends, arguments=_values(**arguments) or None)


def _values(**values: str) -> list[Parameter | m.Parameter | m.Artifact]:
    return [Parameter(name=name, value=value) for name, value in values.items()]


def _outputs(task: str, *names: str) -> list[Parameter | m.Parameter | m.Artifact]:
    return [Parameter(name=name, value=f"{{{{tasks.{task}.outputs.parameters.{name}}}}}") for name in names]


def _ended(task: str) -> str:
    """Returns the condition that a task ended in any way, or was not needed."""
    return "(" + " || ".join(f"{task}.{how}" for how in ("Succeeded", "Failed", "Errored", "Skipped")) + ")"
