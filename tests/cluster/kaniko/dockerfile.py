"""Reads a Dockerfile: the instructions that our images and tests need, each with its line; any other is refused. Pure.

Left out of the language: ADD, HEALTHCHECK, SHELL, VOLUME, EXPOSE, ONBUILD, STOPSIGNAL, MAINTAINER, here-documents, flags
of RUN and FROM, `COPY --link|--chmod|--exclude`, a changed escape character, and defaults inside defaults.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .quoting import DockerfileError, error, split

_OTHERS = ("ADD", "EXPOSE", "HEALTHCHECK", "MAINTAINER", "ONBUILD", "SHELL", "STOPSIGNAL", "VOLUME")
_HEREDOC = re.compile(r"<<-?[\"']?[A-Za-z_]")
_ESCAPE = re.compile(r"#\s*escape\s*=\s*(\S+)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Arg:
    """ARG: names with their defaults, None if there is none."""

    defaults: Mapping[str, str | None]
    line: int


@dataclass(frozen=True, kw_only=True)
class Run:
    """RUN; the shell form is one text."""

    command: str | tuple[str, ...]
    line: int


@dataclass(frozen=True, kw_only=True)
class Copy:
    """COPY; `stage` is what --from names, `owner` what --chown does."""

    sources: tuple[str, ...]
    target: str
    stage: str | None
    owner: str | None
    line: int


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """ENV or LABEL: names and values, not expanded yet."""

    kind: str
    values: tuple[tuple[str, str], ...]
    line: int


@dataclass(frozen=True, kw_only=True)
class Word:
    """WORKDIR or USER."""

    kind: str
    value: str
    line: int


@dataclass(frozen=True, kw_only=True)
class Start:
    """ENTRYPOINT or CMD; the shell form is one text."""

    kind: str
    command: str | tuple[str, ...]
    line: int


Instruction = Arg | Run | Copy | Pairs | Word | Start


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One FROM and what follows it; `base` is not expanded yet."""

    base: str
    name: str | None
    instructions: tuple[Instruction, ...]
    line: int


@dataclass(frozen=True, kw_only=True)
class Dockerfile:
    """The arguments before the first FROM, and the stages."""

    arguments: tuple[Arg, ...]
    stages: tuple[Stage, ...]

    def stage_index(self, name: str, before: int) -> int | None:
        """Returns the stage before number `before` that a FROM or a --from names, or None."""
        for index in reversed(range(before)):
            if self.stages[index].name == name.lower():
                return index
        return int(name) if name.isdecimal() and int(name) < before else None


def parse(text: str) -> Dockerfile:
    """Returns what a Dockerfile says; DockerfileError with the line otherwise."""
    arguments: list[Arg] = []
    stages: list[Stage] = []
    body: list[Instruction] = []
    for line, content in _logical_lines(text):
        keyword, _, rest = content.partition(" ")
        keyword, rest = keyword.upper(), rest.strip()
        if not rest:
            raise error(line, f"{keyword} requires at least one argument")
        if keyword == "FROM":
            body = []
            stages.append(_stage(rest, line))
            continue
        instruction = _instruction(keyword, rest, line)
        if stages:
            body.append(instruction)
            last = stages[-1]
            stages[-1] = Stage(base=last.base, name=last.name, instructions=tuple(body), line=last.line)
        elif isinstance(instruction, Arg):
            arguments.append(instruction)
        else:
            raise error(line, "no build stage in current context")
    if not stages:
        raise DockerfileError("dockerfile must contain at least one FROM instruction")
    return Dockerfile(arguments=tuple(arguments), stages=tuple(stages))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields the instructions with the line that each starts at; comments and continuations are gone."""
    start, pending = 0, ""
    for number, raw in enumerate(text.splitlines(), 1):
        if raw.lstrip().startswith("#"):
            escape = _ESCAPE.match(raw.strip())
            if escape and escape[1] != "\\":
                raise error(number, "another escape character is not implemented here")
            continue
        if not raw.strip():
            continue
        start = start or number
        body = re.sub(r"\\[ \t]*$", "", raw)
        pending += body
        if body == raw:
            yield start, re.sub(r"^\s*(\S+)\s*", r"\1 ", pending).strip()
            start, pending = 0, ""
    if pending.strip():
        yield start, pending.strip()


def _stage(rest: str, line: int) -> Stage:
    words = rest.split()
    if words[0].startswith("--"):
        raise error(line, f"FROM {words[0]} is not implemented here")
    if len(words) == 3 and words[1].upper() == "AS":
        return Stage(base=words[0], name=words[2].lower(), instructions=(), line=line)
    if len(words) != 1:
        raise error(line, "FROM requires either one or three arguments")
    return Stage(base=words[0], name=None, instructions=(), line=line)


def _instruction(keyword: str, rest: str, line: int) -> Instruction:
    if keyword in ("RUN", "COPY") and _HEREDOC.search(rest):
        raise error(line, "here-documents are not implemented here")
    if keyword == "ARG":
        names = (word.partition("=") for word in split(rest, line))
        return Arg(defaults={name: value if equals else None for name, equals, value in names}, line=line)
    if keyword == "RUN":
        if rest.startswith("--"):
            raise error(line, f"RUN {rest.split()[0]} is not implemented here")
        return Run(command=_command(rest), line=line)
    if keyword == "COPY":
        return _copy(rest, line)
    if keyword in ("ENV", "LABEL"):
        return Pairs(kind=keyword, values=_pairs(keyword, rest, line), line=line)
    if keyword in ("WORKDIR", "USER"):
        return Word(kind=keyword, value=rest, line=line)
    if keyword in ("ENTRYPOINT", "CMD"):
        return Start(kind=keyword, command=_command(rest), line=line)
    if keyword in _OTHERS:
        raise error(line, f"{keyword} is an instruction that is not implemented here")
    raise error(line, f"unknown instruction: {keyword}")


def _copy(rest: str, line: int) -> Copy:
    flags: dict[str, str] = {}
    while rest.startswith("--"):
        flag, _, rest = rest.partition(" ")
        rest = rest.lstrip()
        name, _, value = flag.partition("=")
        if name not in ("--from", "--chown"):
            raise error(line, f"COPY {name} is not implemented here")
        flags[name] = value
    command = _command(rest)
    words = split(rest, line) if isinstance(command, str) else list(command)
    if len(words) < 2:
        raise error(line, "COPY requires at least two arguments")
    *sources, target = words
    return Copy(sources=tuple(sources), target=target, stage=flags.get("--from"), owner=flags.get("--chown"), line=line)


def _pairs(keyword: str, rest: str, line: int) -> tuple[tuple[str, str], ...]:
    words = split(rest, line)
    if "=" not in words[0]:  # the old form: ENV NAME the rest of the line
        name, _, value = rest.partition(" ")
        if not value.strip():
            raise error(line, f"{keyword} must have two arguments")
        return ((name, value.strip()),)
    pairs = [word.partition("=") for word in words]
    for name, equals, _ in pairs:
        if not equals or not name:
            raise error(line, f"Syntax error - can't find = in {name!r}. Must be of the form: name=value")
    return tuple((name, value) for name, _, value in pairs)


def _command(text: str) -> str | tuple[str, ...]:
    """Returns the words of the exec form, or the text of the shell form."""
    if text.startswith("["):
        try:
            words = json.loads(text)
        except ValueError:
            return text  # as Docker does: what is no JSON is for the shell
        if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
            return tuple(words)
    return text
