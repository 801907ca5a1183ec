"""The gate as rendered: what stands between a change and a build, with GitHub's credentials and without."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shardlib.commands import check, conclude
from tests.workflows.chains import make_chain, rules, task, template

GITHUB = {"github_secret": "github-app"}
OPEN = make_chain(gate=False)
RESUMED = make_chain()
VERIFIED = make_chain(**GITHUB, argo_ui="https://argo.example.com", label="gpu: go")
NEEDED = "{{tasks.find-changed.outputs.parameters.gpu-code}} == true"


def names(chain: dict[str, Any]) -> set[str]:
    return {one["name"] for one in chain["spec"]["templates"]}


def sources(chain: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in task(chain, "build-image")["arguments"]["parameters"]}


@pytest.mark.parametrize("chain", [OPEN, RESUMED, VERIFIED], ids=["open", "resumed", "verified"])
def test_no_rule_complains(chain: dict[str, Any]) -> None:
    assert rules(chain) == set()


def test_without_a_gate_the_change_alone_decides() -> None:
    assert not {"wait-for-label", "verify-gate"} & names(OPEN)
    assert task(OPEN, "build-image")["depends"] == "find-changed.Succeeded"
    assert task(OPEN, "build-image")["when"] == NEEDED


def test_without_github_whoever_may_resume_is_the_gate() -> None:
    assert "verify-gate" not in names(RESUMED)
    assert task(RESUMED, "wait-for-label")["when"] == NEEDED
    assert task(RESUMED, "build-image")["depends"] == "wait-for-label.Succeeded"
    assert "--github-api" not in json.dumps(RESUMED)


def test_with_github_a_resume_only_lets_verify_gate_ask() -> None:
    assert task(VERIFIED, "verify-gate")["depends"] == "wait-for-label.Succeeded || wait-for-label.Skipped"
    assert task(VERIFIED, "verify-gate")["when"] == NEEDED  # without GPU code the suspend is skipped, too
    assert task(VERIFIED, "build-image")["depends"] == "verify-gate.Succeeded"
    assert "when" not in task(VERIFIED, "build-image")
    assert template(VERIFIED, "wait-for-label")["suspend"] == {}


def test_who_is_labelled_already_waits_for_nobody() -> None:
    unlabelled = "{{tasks.find-changed.outputs.parameters.labelled}} != true"
    assert task(VERIFIED, "wait-for-label")["when"] == f"{NEEDED} && {unlabelled}"


def test_everything_after_the_gate_uses_what_it_verified() -> None:
    assert sources(VERIFIED) == {
        name: f"{{{{tasks.verify-gate.outputs.parameters.{name}}}}}" for name in ("sha", "pr", "repo")
    }
    text = json.dumps(
        [
            one
            for one in template(VERIFIED, "main")["dag"]["tasks"]
            if one["name"] not in ("wait-for-label", "verify-gate")
        ]
    )
    assert "find-changed.outputs" not in text
    outputs = {one["name"]: one for one in template(VERIFIED, "verify-gate")["outputs"]["parameters"]}
    for name in ("sha", "pr", "repo"):  # a refusal writes none, and must stay a refusal: an Error would be retried
        assert outputs[name]["valueFrom"]["default"] == "refused"


def test_verify_gate_asks_about_the_label_of_the_settings_and_lets_forks_in_only_if_told() -> None:
    command = template(VERIFIED, "verify-gate")["container"]["command"]
    assert {"--label=gpu: go", "--credentials=/github", "--github-api=https://api.github.com"} <= set(command)
    assert "--allow-forks" not in command
    assert "--allow-forks" in template(make_chain(**GITHUB, allow_forks=True), "verify-gate")["container"]["command"]


def test_github_s_credentials_are_in_trusted_pods_alone() -> None:
    holders = {one["name"] for one in VERIFIED["spec"]["templates"] if "github-app" in json.dumps(one)}
    assert holders == {"find-changed", "verify-gate", "build-image", "conclude"}
    holders.remove("build-image")  # beside which it is, and not in it: test_chain
    tools = template(VERIFIED, "gpu-tests-passed")["container"]["image"]
    assert {template(VERIFIED, name)["container"]["image"] for name in holders} == {tools}


def test_without_a_check_s_name_none_is_written() -> None:
    chain = make_chain(**GITHUB, check_name="")
    assert "shardlib check" not in json.dumps(chain)
    assert "--credentials" not in str(template(chain, "conclude"))
    assert template(chain, "verify-gate")["container"]["command"][4] == "verify-gate"


def test_a_tag_that_waits_for_the_merge_asks_about_the_commit_that_was_verified() -> None:
    chain = make_chain(**GITHUB, tag_when="merged")
    assert rules(chain) == set()
    given = {one["name"]: one["value"] for one in task(chain, "tag-image")["arguments"]["parameters"]}
    assert given.pop("digest") == task(VERIFIED, "tag-image")["arguments"]["parameters"][0]["value"]
    assert given == sources(chain)
    words = template(chain, "tag-image")["container"]["command"]
    assert {"--if-merged", "--credentials=/github", "--sha={{inputs.parameters.sha}}"} <= set(words)
    (tagged,) = template(chain, "tag-image")["outputs"]["parameters"]
    assert tagged["name"] == "tagged"  # by which close-gate knows that the tag is still to come
    assert "--if-merged" not in str(VERIFIED)


def test_the_check_links_to_the_run_and_the_exit_handler_concludes_it() -> None:
    words = template(VERIFIED, "conclude")["container"]["command"][4:]
    parser = argparse.ArgumentParser(exit_on_error=False)
    conclude.add_arguments(parser)
    args = parser.parse_args(words)
    assert args.url == "https://argo.example.com/workflows/gpu-ci/{{workflow.name}}?uid={{workflow.uid}}"
    assert (args.sha, args.label, args.check_name) == ("{{workflow.parameters.sha}}", "gpu: go", "gpu-tests")


@pytest.mark.parametrize("step", ["find-changed", "verify-gate"])
@pytest.mark.parametrize(("code", "check_code"), [(0, 0), (0, 75), (1, 0), (1, 1), (19, 0), (75, 75)])
def test_a_step_ends_as_its_command_does_or_as_its_check_does(
    step: str, code: int, check_code: int, tmp_path: Path
) -> None:
    """Runs the rendered line with a stand-in for python3 that notes how it is called."""
    main = template(VERIFIED, step)["container"]
    fake = tmp_path / "python3"
    fake.write_text(
        f"#!{sys.executable}\nimport json, sys\n"
        f"with open({str(tmp_path / 'calls')!r}, 'a') as file: print(json.dumps(sys.argv[1:]), file=file)\n"
        f"sys.exit({check_code} if sys.argv[4] == 'check' else {code})\n"
    )
    fake.chmod(0o755)
    own = {one["name"]: one["value"] for one in main["env"] if "value" in one}
    own["REPO"] = "a b; touch /x"  # text stays text, whatever it is
    done = subprocess.run(
        main["command"], env={**own, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}, check=False
    )
    assert done.returncode == (code or check_code)  # without a check that says that it runs, a verdict counts nowhere
    calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    assert [call[:4] for call in calls] == [["-P", "-m", "shardlib", step], ["-P", "-m", "shardlib", "check"]]
    parser = argparse.ArgumentParser(exit_on_error=False)
    check.add_arguments(parser)
    args = parser.parse_args(calls[1][4:])
    assert (args.label, args.repository, args.outputs) == ("gpu: go", "a b; touch /x", Path("/tmp/outputs"))
