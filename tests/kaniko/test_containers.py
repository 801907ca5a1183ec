"""Our own Dockerfiles, and what becomes of one on the testbed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.cluster import containers
from tests.cluster.kaniko import stages
from tests.cluster.kaniko.dockerfile import Copy, Pairs, Run, Word, parse
from tests.cluster.kaniko.quoting import DockerfileError

ROOT = Path(__file__).parents[2]
OURS = sorted((ROOT / "containers").glob("*.Dockerfile"))
BASE = {"Env": ["PATH=/bin"], "WorkingDir": ""}


@pytest.mark.parametrize("file", OURS, ids=lambda path: path.name)
def test_our_dockerfiles_need_nothing_that_only_one_builder_has(file: Path) -> None:
    parsed = parse(file.read_text())
    plans = stages.plan(parsed, {"PYTHON_IMAGE": "base"})
    assert list(plans) == [0, 1]
    last = parsed.stages[-1].instructions
    assert (
        any(isinstance(one, Pairs) and ("PATH", "/venv/bin:$PATH") in one.values for one in last)
        or plans[1].parent == 0
    )
    assert any(isinstance(one, Word) and one.kind == "WORKDIR" for one in last)


def test_the_training_image_has_the_versions_of_the_extra_demo() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text()
    (extra,) = re.findall(r"^demo = \[(.*?)^\]", pyproject, re.MULTILINE | re.DOTALL)
    pins = set(re.findall(r'"([\w-]+==[\w.]+)', extra))
    (run,) = (
        one
        for stage in parse((ROOT / "containers/training.Dockerfile").read_text()).stages
        for one in stage.instructions
        if isinstance(one, Run)
    )
    wanted = set(re.findall(r"[\w-]+==[\w.]+", str(run.command)))
    assert len(wanted) == 3
    assert wanted <= pins


def test_a_stage_is_cut_before_each_copy_that_follows_a_run() -> None:
    text = """FROM a
    ARG VERSION=1
    COPY one two /in/
    WORKDIR /src
    RUN first $VERSION
    ENV PATH=/venv/bin:$PATH NAME="two words"
    RUN second
    COPY three .
    USER 5:6
    LABEL x=$VERSION
    ENTRYPOINT ["a", "b c"]
    CMD shell form
    """
    (first, second), config = containers.segments(parse(text).stages[0].instructions, BASE, {})
    assert [target for _, target in first.copies] == ["/in/"]
    assert first.script.splitlines() == [
        "(export PATH=/bin VERSION=1; mkdir -p /src; cd /src; first $VERSION)",
        "(export NAME='two words' PATH=/venv/bin:/bin VERSION=1; mkdir -p /src; cd /src; second)",
    ]
    assert ([copy.sources for copy, _ in second.copies], second.copies[0][1]) == ([("three",)], "/src/")
    assert second.script == "true"
    assert config == [
        "--config.workingdir=/src",
        "--config.env=PATH=/venv/bin:/bin",
        "--config.env=NAME=two words",
        "--config.user=5:6",
        "--config.label=x=1",
        "--config.entrypoint=a",
        "--config.entrypoint=b c",
        "--config.cmd=/bin/sh",
        "--config.cmd=-c",
        "--config.cmd=shell form",
    ]


def test_a_run_sees_the_variables_and_the_folder_that_it_has_in_a_build(tmp_path: Path) -> None:
    text = f'FROM a\nWORKDIR {tmp_path}/new\nENV NAME="it\'s"\nRUN echo "$NAME" > here && false\n'
    ((segment,), _) = containers.segments(parse(text).stages[0].instructions, {"Env": ["PATH=/usr/bin:/bin"]}, {})
    done = subprocess.run(
        ["/bin/sh", "-ec", segment.script + "\necho went on"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert (tmp_path / "new" / "here").read_text() == "it's\n"


def test_copy_takes_what_git_knows_and_nothing_that_it_ignores(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    for name in (".gitignore", "tracked", "sub/new", "sub/ignored.log", "all.log/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("*.log\n")
    subprocess.run(["git", "-C", tmp_path, "add", "tracked"], check=True)
    copy = Copy(sources=(".",), target="/there", stage=None, owner=None, line=1)
    found = containers._entries(copy, "/there", tmp_path)
    assert [one.name for one in found] == ["there/.gitignore", "there/sub", "there/sub/new", "there/tracked"]


def test_what_the_testbed_cannot_do_is_refused() -> None:
    with pytest.raises(DockerfileError, match="line 2: COPY --chown is not implemented here"):
        containers.segments(parse("FROM a\nCOPY --chown=1 a b").stages[0].instructions, BASE, {})
