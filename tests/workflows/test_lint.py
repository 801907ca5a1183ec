"""Each rule goes red by exactly the mistake that it is for: the rendered chain, damaged in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.workflows.chains import damaged, findings, make_chain, rules, task, template
from workflows.linting.rules import MAX_TASKS, yaml_booleans
from workflows.linting.schema import check

CHAIN = make_chain()
Chain = dict[str, Any]
MISTAKES: list[tuple[str, Callable[[Chain], Any]]] = []


def mistake(rule: str) -> Callable[[Callable[[Chain], Any]], Callable[[Chain], Any]]:
    """Registers a damage with the one rule that must find it."""

    def register(damage: Callable[[Chain], Any]) -> Callable[[Chain], Any]:
        MISTAKES.append((rule, damage))
        return damage

    return register


@mistake("ancestor")
def a_result_of_a_task_that_is_no_ancestor(chain: Chain) -> None:
    task(chain, "gpu-tests")["depends"] = "find-changed.Succeeded"


@mistake("ancestor")
def an_output_in_when_of_a_task_that_is_no_ancestor(chain: Chain) -> None:
    task(chain, "find-changed")["when"] = "{{tasks.build-image.outputs.parameters.digest}} != x"


@mistake("ancestor")
def an_expression_that_names_a_task_that_is_no_ancestor(chain: Chain) -> None:
    task(chain, "calculate-shards")["when"] = "{{=tasks['cpu-tests'].outputs.parameters.summary}} != x"


@mistake("ancestor")
def a_task_in_a_template_that_is_no_dag(chain: Chain) -> None:
    template(chain, "conclude")["container"]["command"] += ["{{tasks.find-changed.outputs.parameters.sha}}"]


@mistake("aggregated")
def an_output_aggregated_over_the_fan_out(chain: Chain) -> None:
    dag = template(chain, "gpu-run")["dag"]["tasks"]
    arguments = {"parameters": [{"name": "digest", "value": "{{tasks.shard.outputs.parameters.summary}}"}]}
    dag.append({"name": "sum", "template": "tag-image", "depends": "shard", "arguments": arguments})


@mistake("prefix")
def an_unknown_prefix(chain: Chain) -> None:
    task(chain, "shard", "gpu-run")["arguments"]["parameters"][1]["value"] = "{{itm.shard}}"


@mistake("undeclared")
def an_item_without_a_fan_out(chain: Chain) -> None:
    del task(chain, "shard", "gpu-run")["withParam"]


@mistake("undeclared")
def an_input_that_is_not_declared(chain: Chain) -> None:
    template(chain, "gpu-tests")["container"]["command"][-1] = "{{inputs.parameters.shards}}"


@mistake("undeclared")
def a_workflow_parameter_that_is_not_declared(chain: Chain) -> None:
    template(chain, "find-changed")["container"]["command"][-1] = "{{workflow.parameters.title}}"


@mistake("undeclared")
def an_output_that_the_template_does_not_have(chain: Chain) -> None:
    task(chain, "cpu-tests")["when"] = "{{tasks.calculate-shards.outputs.parameters.cpus}} != 0"


@mistake("undeclared")
def the_result_of_a_step_that_is_no_script(chain: Chain) -> None:
    task(chain, "calculate-shards")["when"] = "{{tasks.collect-tests.outputs.result}} != x"


@mistake("undeclared")
def the_status_before_the_end(chain: Chain) -> None:
    template(chain, "gpu-tests-passed")["container"]["command"] += ["{{workflow.status}}"]


@mistake("undeclared")
def a_count_of_retries_where_there_are_none(chain: Chain) -> None:
    del template(chain, "gpu-tests")["retryStrategy"]


@mistake("expression")
def an_expression_that_does_not_parse(chain: Chain) -> None:
    task(chain, "tag-image")["arguments"]["parameters"][0]["value"] = "{{=tasks['build-image'.outputs}}"


@mistake("task")
def a_template_that_does_not_exist(chain: Chain) -> None:
    task(chain, "tag-image")["template"] = "tag-images"


@mistake("task")
def a_missing_argument(chain: Chain) -> None:
    task(chain, "gpu-tests")["arguments"]["parameters"].pop()


@mistake("task")
def a_superfluous_argument(chain: Chain) -> None:
    task(chain, "gpu-tests")["arguments"]["parameters"].append({"name": "title", "value": "x"})


@mistake("task")
def a_dependency_that_does_not_exist(chain: Chain) -> None:
    task(chain, "tag-image")["depends"] += " && lint.Succeeded"


@mistake("task")
def a_result_that_argo_does_not_know(chain: Chain) -> None:
    task(chain, "tag-image")["depends"] = "gpu-tests-passed.Succeded"


@mistake("cycle")
def a_cycle(chain: Chain) -> None:
    task(chain, "find-changed")["depends"] = "tag-image.Succeeded"


@mistake("retry")
def a_retry_expression_with_one_equals_sign(chain: Chain) -> None:
    template(chain, "gpu-tests")["retryStrategy"]["expression"] = "lastRetry.exitCode = '75'"


@mistake("retry")
def a_retry_expression_with_an_unknown_name(chain: Chain) -> None:
    template(chain, "gpu-tests")["retryStrategy"]["expression"] = "lastRetry.exitcode == '75'"


@mistake("retry")
def a_retry_of_everything(chain: Chain) -> None:
    del template(chain, "gpu-tests")["retryStrategy"]["expression"]


@mistake("retry")
def a_retry_without_end(chain: Chain) -> None:
    del template(chain, "gpu-tests")["retryStrategy"]["limit"]


@mistake("task-count")
def more_tasks_than_the_server_takes(chain: Chain) -> None:
    tasks = template(chain, "main")["dag"]["tasks"]
    tasks += [{"name": f"more-{number}", "template": "find-changed"} for number in range(MAX_TASKS + 1 - len(tasks))]


@mistake("literal")
def a_number_of_gpus_by_template(chain: Chain) -> None:
    template(chain, "gpu-tests")["container"]["resources"]["limits"]["nvidia.com/gpu"] = "{{inputs.parameters.of}}"


@mistake("literal")
def an_init_container_s_memory_by_template(chain: Chain) -> None:
    template(chain, "gpu-tests")["initContainers"][0]["resources"]["limits"]["memory"] = "{{inputs.parameters.of}}"


@mistake("name")
def an_underscore(chain: Chain) -> None:
    chain["metadata"]["name"] = "gpu_ci"


@mistake("name")
def a_name_of_64_characters(chain: Chain) -> None:
    chain["metadata"]["name"] = "x" * 64


@mistake("name")
def two_templates_of_one_name(chain: Chain) -> None:
    chain["spec"]["templates"].append(damaged(template(chain, "conclude")))


@mistake("gate")
def a_gate_that_opens_by_itself(chain: Chain) -> None:
    template(chain, "wait-for-label")["suspend"] = {"duration": "3600"}


@mistake("gate")
def a_gate_with_a_deadline_that_argo_ignores(chain: Chain) -> None:
    template(chain, "wait-for-label")["activeDeadlineSeconds"] = 60


@mistake("gate")
def a_gate_with_supplied_outputs(chain: Chain) -> None:
    template(chain, "wait-for-label")["outputs"] = {"parameters": [{"name": "x", "valueFrom": {"supplied": {}}}]}


@mistake("gate")
def a_gate_that_waits_for_ever(chain: Chain) -> None:
    del chain["spec"]["activeDeadlineSeconds"]


@mistake("gate")
def a_build_where_nobody_waited_and_nobody_was_asked(chain: Chain) -> None:
    task(chain, "build-image")["depends"] = "wait-for-label.Succeeded || wait-for-label.Skipped"


@mistake("ending")
def a_template_that_fails_fast(chain: Chain) -> None:
    template(chain, "main")["failFast"] = True


@mistake("ending")
def a_hook_on_a_task(chain: Chain) -> None:
    task(chain, "gpu-tests")["hooks"] = {"exit": {"template": "conclude"}}


@mistake("ending")
def an_exit_handler_that_retries(chain: Chain) -> None:
    template(chain, "conclude")["retryStrategy"] = template(chain, "collect-tests")["retryStrategy"]


@mistake("ending")
def a_timeout_that_counts_the_waiting(chain: Chain) -> None:
    template(chain, "gpu-run")["timeout"] = "1h"


@mistake("ending")
def a_pod_that_nothing_ends(chain: Chain) -> None:
    del template(chain, "gpu-tests")["activeDeadlineSeconds"]


@mistake("token")
def a_token_beside_the_tests(chain: Chain) -> None:
    del chain["spec"]["automountServiceAccountToken"]


@mistake("token")
def a_token_in_one_pod(chain: Chain) -> None:
    template(chain, "gpu-tests")["automountServiceAccountToken"] = True


@mistake("token")
def an_executor_without_an_account(chain: Chain) -> None:
    del chain["spec"]["executor"]


@mistake("secret")
def a_secret_that_the_build_could_read(chain: Chain) -> None:
    source = {"secretKeyRef": {"name": "git-token", "key": "token"}}
    template(chain, "build-image")["container"]["env"] = [{"name": "GIT_TOKEN", "valueFrom": source}]


@mistake("secret")
def a_secret_that_all_of_which_tests_could_read(chain: Chain) -> None:
    template(chain, "gpu-tests")["container"]["envFrom"] = [{"secretRef": {"name": "git-token"}}]


@mistake("secret")
def what_fetches_the_source_mounted_in_the_build(chain: Chain) -> None:
    one = template(chain, "build-image")
    one["volumes"].append({"name": "git", "secret": {"secretName": "git-token"}})
    one["container"]["volumeMounts"].append({"name": "git", "mountPath": "/git"})


@mistake("secret")
def a_projected_secret_in_the_tests(chain: Chain) -> None:
    one = template(chain, "collect-tests")
    one["volumes"].append({"name": "all", "projected": {"sources": [{"secret": {"name": "git-token"}}]}})
    one["container"]["volumeMounts"].append({"name": "all", "mountPath": "/all"})


@mistake("link")
def an_output_that_wait_would_follow_a_link_for(chain: Chain) -> None:
    template(chain, "gpu-tests")["outputs"]["parameters"][0]["valueFrom"]["path"] = "/tmp/outputs/summary"


@mistake("link")
def an_output_in_a_folder_that_the_build_can_put_a_link_in(chain: Chain) -> None:
    mounts = template(chain, "build-image")["container"]["volumeMounts"]
    (mounted,) = (one for one in mounts if one["name"] == "told")
    mounted["mountPath"] = "/told"
    del mounted["subPath"]


@mistake("link")
def a_log_that_argo_archives(chain: Chain) -> None:
    template(chain, "collect-tests")["archiveLocation"] = {"archiveLogs": True}


@mistake("link")
def progress_that_wait_would_follow_a_link_for(chain: Chain) -> None:
    del template(chain, "collect-tests")["podSpecPatch"]


@mistake("display-name")
def a_display_name_with_a_comma(chain: Chain) -> None:
    name = "shard {{inputs.parameters.shard}}, {{inputs.parameters.minutes}} min"
    template(chain, "gpu-tests")["annotations"]["workflows.argoproj.io/display-name"] = name


@mistake("display-name")
def a_display_name_on_the_pod(chain: Chain) -> None:
    one = template(chain, "cpu-tests")
    one["metadata"] = {"annotations": one.pop("annotations")}


@mistake("untrusted")
def a_title_as_a_parameter(chain: Chain) -> None:
    chain["spec"]["arguments"]["parameters"].append({"name": "title"})


@mistake("untrusted")
def a_template_in_a_script(chain: Chain) -> None:
    template(chain, "calculate-shards")["script"]["source"] += " {{workflow.name}}"


@mistake("untrusted")
def code_in_a_manifest(chain: Chain) -> None:
    template(chain, "calculate-shards")["script"]["source"] += "\nrm -rf /"


@mistake("untrusted")
def a_process_id_that_argo_rewrites(chain: Chain) -> None:
    template(chain, "calculate-shards")["script"]["source"] += " >$$"


@mistake("artifact")
def logs_without_an_artifact_repository(chain: Chain) -> None:
    chain["spec"]["archiveLogs"] = True


@mistake("artifact")
def a_report_without_an_artifact_repository(chain: Chain) -> None:
    template(chain, "gpu-tests-passed")["outputs"]["artifacts"] = [{"name": "report", "path": "/r"}]


def test_the_rendered_chain_has_no_finding() -> None:
    assert findings(CHAIN) == []


@pytest.mark.parametrize(("rule", "damage"), MISTAKES, ids=[damage.__name__ for _, damage in MISTAKES])
def test_a_mistake_is_found_by_the_rule_that_is_for_it(rule: str, damage: Callable[[Chain], Any]) -> None:
    chain = damaged(CHAIN)
    damage(chain)
    assert rules(chain) == {rule}


def test_every_rule_has_a_mistake() -> None:
    known = {"ancestor", "aggregated", "prefix", "undeclared", "expression", "task", "cycle", "retry", "task-count"}
    known |= {"literal", "name", "gate", "ending", "token", "secret", "link", "display-name", "untrusted", "artifact"}
    assert {rule for rule, _ in MISTAKES} == known


@pytest.mark.parametrize("text", ["name: n", "y: 1", "a: [yes]", "args: {x: Off}", "- on"])
def test_a_boolean_of_yaml_1_1_is_found_with_its_line(text: str) -> None:
    (finding,) = yaml_booleans(f"# comment\n{text}\n", "file.yaml")
    assert finding.place == "file.yaml:2"
    assert not list(yaml_booleans("a: 'n'\nb: \"yes\"\nc: nob\nd: true\n", "file.yaml"))


def test_a_typo_is_no_field_of_the_schema() -> None:
    chain = damaged(CHAIN)
    task(chain, "tag-image")["dependz"] = task(chain, "tag-image").pop("depends")
    (finding,) = check(chain, "chain.yaml")
    assert finding.place == "chain.yaml: spec.templates.main.dag.tasks.tag-image.dependz"


def test_a_wrong_type_is_refused_by_the_schema() -> None:
    chain = damaged(CHAIN)
    template(chain, "gpu-tests")["container"]["command"] = "python3"
    assert [finding.rule for finding in check(chain, "chain.yaml")] == ["schema"]
    assert not list(check(CHAIN, "chain.yaml"))
