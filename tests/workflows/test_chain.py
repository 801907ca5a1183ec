"""What the rendered chain must have, whatever the settings; each test is named by what would go wrong."""

from __future__ import annotations

import argparse
import importlib
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.workflows.chains import ROOT, make_chain, task, template
from workflows import settings as settings_module
from workflows.render import template_document
from workflows.setting_checks import size

FULL = template_document(settings_module.load(ROOT / "tests" / "workflows" / "full" / "gpu-ci.toml"))
PLAIN = make_chain()
BOTH = pytest.mark.parametrize("chain", [PLAIN, FULL], ids=["plain", "full"])
FOREIGN = ["collect-tests", "gpu-tests", "cpu-tests"]  # these run code of a pull request


def commands(chain: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yields every command of shardlib in the manifests: the template's name, and the arguments after `shardlib`."""
    for one in chain["spec"]["templates"]:
        main = one.get("container") or one.get("script") or {}
        words = [*main.get("command", []), *main.get("args", [])]
        if words[:2] == ["sh", "-c"]:  # what the line's "$@" stands for
            words = [*words[2].partition('"$@"')[0].split(), *words[4:]]
        elif "source" in main:
            words = main["source"].replace('"$RUN"', "RUN").split()[1:]
        for marker in ("shardlib", "/opt/shardlib/shardlib.pyz"):
            if marker in words:
                yield one["name"], words[words.index(marker) + 1 :]


@BOTH
def test_every_command_exists_and_understands_its_arguments(chain: dict[str, Any]) -> None:
    found = list(commands(chain))
    names = {name for name, _ in found}
    pods = {one["name"] for one in chain["spec"]["templates"] if "container" in one or "script" in one}
    assert names == pods - {"build-image"}
    for _, (name, *arguments) in found:
        own = arguments[: arguments.index("--")] if "--" in arguments else arguments
        parser = argparse.ArgumentParser(exit_on_error=False)
        importlib.import_module(f"shardlib.commands.{name.replace('-', '_')}").add_arguments(parser)
        known, unknown = parser.parse_known_args([text.replace("{{retries}}", "0") for text in own])
        assert unknown == [], name
        assert known


@BOTH
def test_a_shard_gets_exactly_what_gpu_tests_need(chain: dict[str, Any]) -> None:
    pod = template(chain, "gpu-tests")
    main = pod["container"]
    own = main["resources"]
    (gpu,) = own["limits"].keys() - {"memory"}
    assert own["limits"][gpu] == own["requests"][gpu]
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} in main["env"]
    assert main["securityContext"]["capabilities"] == {"add": ["SYS_NICE"]}
    mounts = {mount["mountPath"]: mount for mount in main["volumeMounts"]}
    assert mounts["/dev/shm"]["name"] == "shm"
    (shm,) = (volume["emptyDir"] for volume in pod["volumes"] if volume["name"] == "shm")
    assert shm["medium"] == "Memory"
    assert size(own["limits"]["memory"]) > size(shm["sizeLimit"])  # it counts against the limit
    assert own["limits"]["memory"] == own["requests"]["memory"]
    assert pod["activeDeadlineSeconds"] == "{{inputs.parameters.deadline}}"


def test_the_defaults_are_eight_gpus_twelve_shards_and_64_gib_of_shared_memory() -> None:
    pod = template(PLAIN, "gpu-tests")
    assert pod["container"]["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}} in pod["volumes"]
    assert "--shards 12 --gpus 8" in template(PLAIN, "calculate-shards")["script"]["source"]


@BOTH
@pytest.mark.parametrize("name", FOREIGN)
def test_code_of_a_pull_request_writes_its_own_folder_and_sees_no_other_run(chain: dict[str, Any], name: str) -> None:
    pod = template(chain, name)
    own = {"collect-tests": "collect", "gpu-tests": "shards/{{inputs.parameters.shard}}", "cpu-tests": "shards/cpu"}[
        name
    ]
    mounts = {mount["mountPath"]: mount for mount in pod["container"]["volumeMounts"]}
    writable = {path for path, mount in mounts.items() if mount["name"] == "ci" and not mount.get("readOnly")}
    assert writable == {f"/mnt/ci/runs/{{{{workflow.uid}}}}/{own}"}
    assert mounts["/mnt/ci"]["readOnly"] is True
    assert mounts["/mnt/ci/runs"]["name"] == "runs"  # an empty folder over everybody's
    assert {"name": "runs", "emptyDir": {}} in pod["volumes"]
    for path, mount in mounts.items():
        if path.startswith("/mnt/ci/runs/"):
            assert mount["subPath"] == path.removeprefix("/mnt/ci/")
    assert mounts["/opt/shardlib"]["readOnly"] is True
    assert not any("secret" in volume for volume in pod["volumes"])


@BOTH
@pytest.mark.parametrize("name", FOREIGN)
def test_the_runner_is_brought_by_a_trusted_image_and_never_taken_from_the_checkout(
    chain: dict[str, Any], name: str
) -> None:
    pod = template(chain, name)
    tools = template(chain, "gpu-tests-passed")["container"]["image"]
    assert {one["image"] for one in pod["initContainers"]} == {tools}
    assert pod["container"]["command"][1] == "/opt/shardlib/shardlib.pyz"
    assert pod["container"]["image"] == "{{inputs.parameters.image}}"


@BOTH
def test_tools_run_without_root_and_never_import_from_where_they_stand(chain: dict[str, Any]) -> None:
    tools = template(chain, "gpu-tests-passed")["container"]["image"]
    for one in chain["spec"]["templates"]:
        main = one.get("container") or one.get("script")
        if not main or main["image"] != tools:
            continue
        assert one["securityContext"]["runAsNonRoot"] is True
        assert "fsGroup" not in one["securityContext"]  # it would change the owner of everything on /mnt/ci
        assert main["securityContext"]["readOnlyRootFilesystem"] is True
        assert main["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        line = " ".join([*main["command"], main.get("source", "")])
        assert "python3 -P -m shardlib" in line


@BOTH
@pytest.mark.parametrize("name", ["collect-tests", "cpu-tests"])
def test_a_pod_without_gpus_sees_none_even_on_a_gpu_node(chain: dict[str, Any], name: str) -> None:
    main = template(chain, name)["container"]
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in main["env"]
    assert main["resources"]["limits"].keys() == {"memory"}


@BOTH
def test_infrastructure_is_retried_but_at_the_end(chain: dict[str, Any]) -> None:
    for one in chain["spec"]["templates"]:
        pod = "container" in one or "script" in one
        assert bool(one.get("retryStrategy")) == (pod and one["name"] != "conclude")


@BOTH
def test_a_build_is_not_retried_for_its_exit_code_which_a_dockerfile_chooses(chain: dict[str, Any]) -> None:
    expression = template(chain, "build-image")["retryStrategy"]["expression"]
    assert "exitCode" not in expression
    assert "!(lastRetry.message startsWith 'main:')" in expression


def test_what_may_read_the_repository_is_beside_the_build_and_never_in_it() -> None:
    secret = {"name": "git-token", "key": "token"}
    variable = {"name": "SHARDLIB_GIT_TOKEN", "valueFrom": {"secretKeyRef": secret}}
    app = {"name": "github", "mountPath": "/github", "readOnly": True}
    by_app, by_token = (
        template(make_chain(github_secret="github-app", **own), "build-image")
        for own in ({}, {"git_secret": "git-token", "submodules": True})
    )
    for one, env, mounts in ((by_app, [], [app]), (by_token, [variable], [])):
        (fetching,) = (init for init in one["initContainers"] if init["name"] == "fetch-source")
        assert [item for item in fetching["env"] if item["name"] != "HOME"] == env
        assert [mount for mount in fetching["volumeMounts"] if mount["name"] != "source"] == mounts
        assert ("--credentials=/github" in fetching["command"]) == bool(mounts)
        assert ("--submodules" in fetching["command"]) == (one is by_token)
        assert "env" not in one["container"]
        assert {mount["name"] for mount in one["container"]["volumeMounts"]} == {"told", "source"}


@BOTH
def test_progress_moves_and_sigterm_leaves_time_to_flush(chain: dict[str, Any]) -> None:
    for name in ("gpu-tests", "cpu-tests"):
        patch = json.loads(template(chain, name)["podSpecPatch"])
        assert patch["terminationGracePeriodSeconds"] >= 65  # end_timeout_seconds and kill_grace_seconds
        env = {one["name"]: {item["name"]: item["value"] for item in one["env"]} for one in patch["containers"]}
        assert env["wait"]["ARGO_PROGRESS_PATCH_TICK_DURATION"] == "5s"
        # Argo's wait container sees main's mounts below /mainctrfs, and reads what main writes.
        assert env["wait"]["ARGO_PROGRESS_FILE"] == "/mainctrfs" + env["main"]["ARGO_PROGRESS_FILE"]


@BOTH
def test_the_verdict_comes_whatever_the_shards_did_and_reads_no_aggregated_output(chain: dict[str, Any]) -> None:
    passed = task(chain, "gpu-tests-passed")
    for name in ("gpu-tests", "cpu-tests"):
        for how in ("Succeeded", "Failed", "Errored", "Skipped"):
            assert f"{name}.{how}" in passed["depends"]
    assert "arguments" not in passed
    assert template(chain, "main")["dag"]["failFast"] is False
    assert template(chain, "gpu-run")["dag"]["failFast"] is False
    assert task(chain, "tag-image")["depends"] == "gpu-tests-passed.Succeeded"


@BOTH
def test_after_the_gate_commit_and_digest_come_from_outputs_never_from_parameters(chain: dict[str, Any]) -> None:
    for one in chain["spec"]["templates"]:
        # The exit handler knows no outputs; it gives no verdict to a commit that the gate has not reported on.
        if one["name"] not in ("find-changed", "main", "conclude"):
            assert "workflow.parameters" not in json.dumps(one)
    for one in template(chain, "main")["dag"]["tasks"]:
        assert "workflow.parameters" not in json.dumps(one)


@BOTH
def test_a_digest_that_a_dockerfile_made_up_is_never_evaluated(chain: dict[str, Any]) -> None:
    used = [
        tag
        for tag in re.findall(r"\{\{.*?\}\}", json.dumps(template(chain, "main")))
        if "outputs.parameters.digest" in tag
    ]
    assert len(used) == 5  # collect, plan, gpu, cpu, tag
    for tag in used:
        assert tag.startswith("{{=tasks['build-image'].outputs.parameters.digest matches '^sha256:[0-9a-f]{64}$' ? ")


def test_only_tag_image_holds_what_moves_the_tag() -> None:
    holders = [one["name"] for one in FULL["spec"]["templates"] if "tag-registry" in json.dumps(one)]
    assert holders == ["tag-image"]
    assert [one["name"] for one in FULL["spec"]["templates"] if "build-registry" in json.dumps(one)] == ["build-image"]


def test_a_node_says_why_it_is_red() -> None:
    for name in ("gpu-tests", "cpu-tests", "gpu-tests-passed"):
        (summary,) = (one for one in template(PLAIN, name)["outputs"]["parameters"] if one["name"] == "summary")
        assert summary["valueFrom"]["default"]  # a killed pod wrote none, which must not turn into an Error
        main = template(PLAIN, name)["container"]
        assert main["command"][main["command"].index("--summary-file") + 1] == summary["valueFrom"]["path"]


def test_without_a_tag_there_is_no_step_that_could_move_one() -> None:
    chain = make_chain(tag="", tag_secret="tag-registry")
    assert "tag-image" not in {one["name"] for one in chain["spec"]["templates"]}
    assert "tag-registry" not in json.dumps(chain)


def test_the_exit_handler_cannot_fail() -> None:
    assert PLAIN["spec"]["onExit"] == "conclude"
    assert template(PLAIN, "conclude")["container"]["command"][2].endswith("|| true")


def test_only_people_with_a_repository_get_artifacts() -> None:
    assert "archiveLogs" not in PLAIN["spec"]
    assert FULL["spec"]["archiveLogs"] is True
    (report,) = template(FULL, "gpu-tests-passed")["outputs"]["artifacts"]
    assert report["optional"] is True


@BOTH
def test_a_plan_is_for_the_image_that_was_built_and_tested(chain: dict[str, Any]) -> None:
    """A run that starts again before its build gets another one, and what the first one proved must not count for it."""
    planned, tested = (
        {one["name"]: one["value"] for one in task(chain, name)["arguments"]["parameters"]}["image"]
        for name in ("calculate-shards", "gpu-tests")
    )
    assert planned == tested
    script = template(chain, "calculate-shards")["script"]
    assert {"name": "IMAGE", "value": "{{inputs.parameters.image}}"} in script["env"]
    assert ' --image "$IMAGE" ' in script["source"]


@BOTH
def test_who_plans_never_collects(chain: dict[str, Any]) -> None:
    """Where collect.json is missing it would, and run what else the tested code left in its folder."""
    assert ' --collected "$RUN/collect/collect.json" ' in template(chain, "calculate-shards")["script"]["source"]


def test_builds_share_no_layers_unless_asked_to() -> None:
    """The login of one build opens the caches of all: what it puts there would be in another's image."""
    plain, cached = (
        template(make_chain(**own), "build-image")["container"]["args"] for own in ({}, {"build_cache": True})
    )
    assert not any("cache" in word for word in plain)
    added = ["--cache=true", "--cache-repo=registry.example.com/ml/training-ci/cache-pr-{{inputs.parameters.pr}}"]
    assert [word for word in cached if word not in plain] == added
