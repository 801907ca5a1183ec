from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.kaniko.dockerfile import Arg, Copy, Pairs, Run, Start, Word, parse
from tests.cluster.kaniko.quoting import DockerfileError, expand
from tests.cluster.kaniko.stages import plan

EXAMPLE = r"""# syntax=docker/dockerfile:1
ARG BASE=python:3.12

FROM ${BASE} AS Build
# a comment
RUN one \
    # a comment inside

    two
FROM scratch
copy --from=build --chown=1:2 /out "/a b" /there/
COPY ["x y", "./"]
ENV A=1 B="two words" C=three\ four
ENV OLD the rest
WORKDIR sub/$A
USER nobody:nogroup
LABEL x=y
ENTRYPOINT ["python3", "-P"]
CMD exec sh
"""


def test_each_instruction_is_read_with_its_line() -> None:
    file = parse(EXAMPLE)
    assert file.arguments == (Arg(defaults={"BASE": "python:3.12"}, line=2),)
    build, last = file.stages
    assert (build.base, build.name, last.base, last.name) == ("${BASE}", "build", "scratch", None)
    (run,) = build.instructions
    assert isinstance(run, Run)
    assert isinstance(run.command, str)
    assert (run.command.split(), run.line) == (["one", "two"], 6)
    assert last.instructions == (
        Copy(sources=("/out", '"/a b"'), target="/there/", stage="build", owner="1:2", line=11),
        Copy(sources=("x y",), target="./", stage=None, owner=None, line=12),
        Pairs(kind="ENV", values=(("A", "1"), ("B", '"two words"'), ("C", r"three\ four")), line=13),
        Pairs(kind="ENV", values=(("OLD", "the rest"),), line=14),
        Word(kind="WORKDIR", value="sub/$A", line=15),
        Word(kind="USER", value="nobody:nogroup", line=16),
        Pairs(kind="LABEL", values=(("x", "y"),), line=17),
        Start(kind="ENTRYPOINT", command=("python3", "-P"), line=18),
        Start(kind="CMD", command="exec sh", line=19),
    )


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("FROM a\nFRM b", 2, "unknown instruction: FRM"),
        ("FROM a\nHEALTHCHECK NONE", 2, "HEALTHCHECK is an instruction that is not implemented here"),
        ("FROM a\nADD x y", 2, "ADD is an instruction"),
        ("RUN x\nFROM a", 1, "no build stage in current context"),
        ("FROM a b", 1, "FROM requires either one or three arguments"),
        ("FROM --platform=linux/arm64 a", 1, "FROM --platform=linux/arm64 is not implemented"),
        ("FROM a\n\nRUN --mount=type=bind,target=/x ls", 3, "RUN --mount=type=bind,target=/x is not implemented"),
        ("FROM a\nCOPY --link x y", 2, "COPY --link is not implemented"),
        ("FROM a\nCOPY x", 2, "COPY requires at least two arguments"),
        ("FROM a\nRUN <<EOF\nls\nEOF", 2, "here-documents"),
        ("FROM a\nENV A=1 B", 2, "can't find = in 'B'"),
        ('FROM a\nENV A="1', 2, "a quote is not closed"),
        ("FROM a\nRUN", 2, "RUN requires at least one argument"),
        ("# escape=`\nFROM a", 1, "another escape character"),
    ],
)
def test_what_is_wrong_or_not_implemented_is_refused_with_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(DockerfileError, match=f"^dockerfile parse error on line {line}: .*{re.escape(message)}"):
        parse(text)


def test_a_file_without_a_stage_is_refused() -> None:
    with pytest.raises(DockerfileError, match="at least one FROM"):
        parse("# nothing\nARG A\n")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$A", "one"),
        ("x${A}y", "xoney"),
        ("${NONE:-other}", "other"),
        ("${EMPTY:-other}", "other"),
        ("${EMPTY-other}", ""),
        ("${A:+other}", "other"),
        ("${NONE:+other}", ""),
        ("$NONE", ""),
        ("'$A'", "$A"),
        ('"$A two"', "one two"),
        (r"\$A", "$A"),
        (r'"\$A \n"', r"$A \n"),
        (r"three\ four", "three four"),
    ],
)
def test_variables_and_quotes_are_read_as_docker_reads_them(text: str, value: str) -> None:
    assert expand(text, {"A": "one", "EMPTY": ""}, 1) == value


@pytest.mark.parametrize("text", ["${A:-${B}}", "${A%x}", "$(ls)", "'open", '"open'])
def test_a_word_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(DockerfileError, match="line 7"):
        expand(text, {}, 7)


@given(st.text(max_size=60), st.sampled_from(["", "FROM a\n", "FROM a\nRUN ", "FROM a\nENV ", "FROM a\nCOPY "]))
def test_any_text_is_read_or_refused(text: str, before: str) -> None:
    with contextlib.suppress(DockerfileError):
        assert parse(before + text).stages


def test_only_stages_that_the_last_one_needs_are_built() -> None:
    file = parse(
        "FROM a AS one\nFROM b AS two\nFROM one AS three\nFROM c\nCOPY --from=three /x /y /\nCOPY --from=0 z z"
    )
    plans = plan(file, {})
    assert list(plans) == [0, 2, 3]
    assert [plans[index].parent for index in plans] == [None, 0, None]
    assert (plans[0].saved, plans[2].saved, plans[3].saved) == (("z",), ("/x", "/y"), ())
    assert plans[3].origins == {"three": 2, "0": 0}


def test_a_base_without_a_value_and_a_stage_that_is_not_there_are_refused() -> None:
    with pytest.raises(DockerfileError, match=re.escape("line 2: base name (${BASE}) should not be blank")):
        plan(parse("ARG BASE\nFROM ${BASE}"), {})
    with pytest.raises(DockerfileError, match="line 2: COPY --from=later"):
        plan(parse("FROM a\nCOPY --from=later x y"), {})
