"""The steps of the chain, one function each: a command of shardlib in the right image. docs/architecture.md has Argo's facts."""

from __future__ import annotations

from hera.workflows import Container, Parameter, Script, Suspend
from hera.workflows import models as m

from workflows import gate, images, pods, telling
from workflows.settings import Settings

_SHARDLIB = gate.SHARDLIB
_LONG_SECONDS = 3600  # steps that read or pack a large run
_TOLD = {"progress": "", "summary": pods.silent("the shard")}  # what a shard's pod tells Argo


def find_changed(settings: Settings) -> Container:
    """Says whether GPU code changed; its outputs, checked, are what later steps use instead of the parameters."""
    globs = [f"--glob={glob}" for glob in settings.gpu_paths]
    command = [
        "find-changed",
        f"--clone={settings.git_url}",
        *gate.asking(settings),
        f"--base={settings.base_branch}",
        *globs,
    ]
    command += ["--repository={{workflow.parameters.repo}}", "--head={{workflow.parameters.sha}}"]
    command += ["--pr={{workflow.parameters.pr}}", f"--parameters={pods.OUTPUTS}"]
    verifies = gate.verifies(settings)
    command += [f"--label={settings.label}"] if verifies else []
    report = gate.report_env(settings, repo="{{workflow.parameters.repo}}", sha="{{workflow.parameters.sha}}")
    return pods.tools(
        settings,
        "find-changed",
        gate.reporting(settings, command),
        deadline_seconds=pods.SHORT_SECONDS,
        outputs=[pods.output(name) for name in ("gpu-code", "sha", "pr", "repo", *(["labelled"] if verifies else []))],
        env=[*images.git_token(settings), *report],
        volumes=gate.volumes(settings),
        mounts=gate.mounts(settings),
        shared=False,
    )


def wait_for_label() -> Suspend:
    """Waits until it is resumed. It has no duration, whose end would let everything pass; the workflow's deadline ends it."""
    return Suspend(name="wait-for-label")


def collect_tests(settings: Settings) -> Container:
    """Collects in the image under test, without GPUs; what it writes is read as hostile input by calculate-shards."""
    folder = f"{pods.run_folder(settings)}/collect"
    command = pods.shardlib_in_image(settings, "collect", "-o", f"{folder}/collect.json", "--gpus", str(settings.gpus))
    command += ["--durations", settings.durations] if settings.durations else []
    pod, main = pods.plain_context()
    return Container(
        name="collect-tests",
        image="{{inputs.parameters.image}}",
        command=[*command, "--", *settings.pytest_args],
        working_dir=settings.workdir,
        inputs=[Parameter(name="image")],
        env=[_no_gpus()],
        pod_security_context=pod,
        security_context=main,
        resources=pods.resources(
            {"cpu": settings.collect_cpu, "memory": settings.collect_memory}, {"memory": settings.collect_memory}
        ),
        init_containers=[pods.bring_shardlib(settings), pods.make_folder(settings, "collect")],
        volumes=pods.foreign_volumes(settings),
        volume_mounts=pods.run_mounts(settings, own="collect", plan=False),
        node_selector=dict(settings.cpu_node_selector) or None,
        active_deadline_seconds=_LONG_SECONDS,
        pod_spec_patch=telling.no_progress(),
        retry_strategy=pods.retry(settings),
        archive_location=telling.no_log(),
    )


def calculate_shards(settings: Settings) -> Script:
    """Plans; its result, all of stdout, is the list that gpu-tests fans out over."""
    options = f"--shards {settings.shards} --gpus {settings.gpus} --max-deadline {settings.shard_deadline_seconds}"
    options += f' --image "$IMAGE" --shard-folders --parameters {pods.OUTPUTS} --fan-out'
    names = ("gpu-shards", "cpu-shards", "cpu-minutes", "cpu-deadline", "prediction")
    like = pods.tools(settings, "calculate-shards", [], deadline_seconds=_LONG_SECONDS)
    return Script(
        name="calculate-shards",
        image=settings.tools_image,
        command=["sh"],
        # One fixed line: `$$` and `$(NAME)` would be rewritten in here, and a template in a value would be evaluated.
        # --collected, for if it were missing, plan would collect here, and run what else lies in the folder of collect-tests.
        source=f'exec {" ".join(_SHARDLIB)} plan --run "$RUN" --collected "$RUN/collect/collect.json" {options}',
        inputs=[Parameter(name="image")],
        outputs=[pods.output(name) for name in names],
        env=[
            m.EnvVar(name="HOME", value="/tmp"),
            m.EnvVar(name="RUN", value=pods.run_folder(settings)),
            m.EnvVar(name="IMAGE", value="{{inputs.parameters.image}}"),
        ],
        resources=like.resources,
        volumes=like.volumes,
        volume_mounts=like.volume_mounts,
        node_selector=like.node_selector,
        pod_security_context=like.pod_security_context,
        security_context=like.security_context,
        active_deadline_seconds=_LONG_SECONDS,
        retry_strategy=pods.retry(settings),
    )


def gpu_tests(settings: Settings) -> Container:
    """Runs one shard on all GPUs of a node."""
    gpus = {settings.gpu_resource: str(settings.gpus)}
    return pods.NamedContainer(
        name="gpu-tests",
        display_name="shard-{{inputs.parameters.shard}}-of-{{inputs.parameters.of}}-{{inputs.parameters.minutes}}-min",
        labels=dict(settings.gpu_labels) or None,
        image="{{inputs.parameters.image}}",
        command=_run_command(settings, "{{inputs.parameters.shard}}"),
        working_dir=settings.workdir,
        inputs=[Parameter(name=name) for name in ("image", "shard", "of", "minutes", "deadline")],
        outputs=[pods.summary("the shard", telling.FOLDER)],
        env=[m.EnvVar(name="NVIDIA_VISIBLE_DEVICES", value="all")],
        resources=pods.resources(
            {"cpu": settings.gpu_cpu, "memory": settings.gpu_memory, **gpus}, {"memory": settings.gpu_memory, **gpus}
        ),
        security_context=m.SecurityContext(
            allow_privilege_escalation=False,
            capabilities=m.Capabilities(add=["SYS_NICE"]),  # NUMA binding
        ),
        init_containers=[pods.bring_shardlib(settings), telling.make(settings, _TOLD)],
        volumes=[*pods.foreign_volumes(settings), telling.volume(), pods.empty("shm", memory=settings.shm)],
        volume_mounts=[
            *pods.run_mounts(settings, own="shards/{{inputs.parameters.shard}}", plan=True),
            *telling.mounts(_TOLD),
            pods.mount("shm", "/dev/shm"),
        ],
        node_selector=dict(settings.gpu_node_selector) or None,
        tolerations=[m.Toleration.model_validate(dict(item)) for item in settings.gpu_tolerations] or None,
        priority_class_name=settings.gpu_priority_class,
        active_deadline_seconds="{{inputs.parameters.deadline}}",
        pod_spec_patch=telling.pod_patch(settings),
        retry_strategy=pods.retry(settings),
        archive_location=telling.no_log(),
    )


def cpu_tests(settings: Settings) -> Container:
    """Runs the shard of the tests that need no GPU, where there is none."""
    pod, main = pods.plain_context()
    return pods.NamedContainer(
        name="cpu-tests",
        display_name="cpu-tests-{{inputs.parameters.minutes}}-min",
        image="{{inputs.parameters.image}}",
        command=_run_command(settings, "cpu"),
        working_dir=settings.workdir,
        inputs=[Parameter(name=name) for name in ("image", "minutes", "deadline")],
        outputs=[pods.summary("the shard", telling.FOLDER)],
        env=[_no_gpus()],
        pod_security_context=pod,
        security_context=main,
        resources=pods.resources(
            {"cpu": settings.cpu_tests_cpu, "memory": settings.cpu_tests_memory}, {"memory": settings.cpu_tests_memory}
        ),
        init_containers=[pods.bring_shardlib(settings), telling.make(settings, _TOLD)],
        volumes=[*pods.foreign_volumes(settings), telling.volume()],
        volume_mounts=[*pods.run_mounts(settings, own="shards/cpu", plan=True), *telling.mounts(_TOLD)],
        node_selector=dict(settings.cpu_node_selector) or None,
        active_deadline_seconds="{{inputs.parameters.deadline}}",
        pod_spec_patch=telling.pod_patch(settings),
        retry_strategy=pods.retry(settings),
        archive_location=telling.no_log(),
    )


def gpu_tests_passed(settings: Settings) -> Container:
    """Gives the verdict from the run's folder alone; exits 1 unless all is proven, so that `argo retry` has its way."""
    run = pods.run_folder(settings)
    command = [*_SHARDLIB, "verify", "--run", run, "--summary-file", f"{pods.OUTPUTS}/summary"]
    report = m.Artifact(
        name="report", path=f"{run}/report/report.html", optional=True, archive=m.ArchiveStrategy(none=m.NoneStrategy())
    )
    outputs: list[Parameter | m.Artifact] = [pods.summary("the verdict")]
    return pods.tools(
        settings,
        "gpu-tests-passed",
        command,
        deadline_seconds=_LONG_SECONDS,
        outputs=[*outputs, report] if settings.artifacts else outputs,
    )


def conclude(settings: Settings) -> Container:
    """Reports the end, as the exit handler; it never fails, for that would turn a green run red.

    It has no retry strategy: past the workflow's deadline Argo fails whatever has one, exit handlers too.
    """
    line = f'{" ".join(_SHARDLIB)} conclude "$@" || true'
    arguments = ["--run", pods.run_folder(settings), "--status", "{{workflow.status}}", *gate.concluding(settings)]
    return pods.tools(
        settings,
        "conclude",
        ["sh", "-c", line, "conclude", *arguments],
        deadline_seconds=pods.SHORT_SECONDS,
        retries=False,
        volumes=gate.volumes(settings) if gate.reports(settings) else [],
        mounts=gate.mounts(settings) if gate.reports(settings) else [],
    )


def _run_command(settings: Settings, shard: str) -> list[str]:
    options = ["--run", pods.run_folder(settings), "--shard", shard, "--retries", "{{retries}}"]
    return pods.shardlib_in_image(
        settings, "run", *options, "--summary-file", f"{telling.FOLDER}/summary", *settings.run_args
    )


def _no_gpus() -> m.EnvVar:
    """An image that asks for all GPUs would get them on a GPU node, whatever the pod asked for."""
    return m.EnvVar(name="NVIDIA_VISIBLE_DEVICES", value="void")
