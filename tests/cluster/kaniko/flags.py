"""Kaniko's command line: every flag that version 1.28.3 has, and what the stand-in makes of it. Pure.

From Kaniko's cmd/executor/cmd/root.go. An unknown flag, a missing or a malformed value ends as it does there. A flag that
Kaniko has falls into one of three groups: it is *used*; it is *ignored*, because it changes only how long a build takes
or what is logged; or it is *refused*, because a build without it would give something else than Kaniko's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum


class FlagError(Exception):
    """The command line is none that Kaniko takes, or one that the stand-in cannot follow."""


class Kind(str, Enum):
    """What a flag's value is."""

    TEXT = "text"
    BOOL = "bool"
    NUMBER = "number"
    DURATION = "duration"
    PAIR = "pair"  # key=value


_TEXT, _BOOL, _NUMBER, _DURATION, _PAIR = Kind

USED: Mapping[str, Kind] = {
    "build-arg": _TEXT,
    "cache": _BOOL,  # only for what Kaniko checks about it: nothing is cached
    "cache-repo": _TEXT,
    "context": _TEXT,
    "context-sub-path": _TEXT,
    "destination": _TEXT,
    "digest-file": _TEXT,
    "dockerfile": _TEXT,
    "ignore-path": _TEXT,
    "insecure": _BOOL,
    "insecure-pull": _BOOL,
    "insecure-registry": _TEXT,
    "label": _TEXT,
    "no-push": _BOOL,
    "no-push-cache": _BOOL,
    "skip-push-permission-check": _BOOL,
}

IGNORED: Mapping[str, Kind] = {
    "cache-copy-layers": _BOOL,
    "cache-dir": _TEXT,
    "cache-run-layers": _BOOL,
    "cache-ttl": _DURATION,
    "compressed-caching": _BOOL,
    "force": _BOOL,
    "force-build-metadata": _BOOL,
    "image-download-retry": _NUMBER,
    "image-fs-extract-retry": _NUMBER,
    "log-format": _TEXT,
    "log-timestamp": _BOOL,
    "pre-cleanup": _BOOL,  # always done: the stand-in's image is not empty, Kaniko's is
    "push-retry": _NUMBER,
    "skip-unused-stages": _BOOL,
    "verbosity": _TEXT,
}

REFUSED: Mapping[str, Kind] = {
    "annotation": _PAIR,
    "azure-container-registry-config": _TEXT,
    "bucket": _TEXT,
    "cleanup": _BOOL,
    "compression": _TEXT,
    "compression-level": _NUMBER,
    "credential-helpers": _TEXT,
    "custom-platform": _TEXT,
    "customPlatform": _TEXT,
    "dryrun": _BOOL,
    "git": _PAIR,
    "help": _BOOL,
    "ignore-var-run": _BOOL,
    "image-format": _TEXT,
    "image-name-tag-with-digest-file": _TEXT,
    "image-name-with-digest-file": _TEXT,
    "kaniko-dir": _TEXT,
    "materialize": _BOOL,
    "oci-layout-path": _TEXT,
    "preserve-context": _BOOL,
    "push-ignore-immutable-tag-errors": _BOOL,
    "registry-certificate": _PAIR,
    "registry-client-cert": _PAIR,
    "registry-map": _PAIR,
    "registry-mirror": _TEXT,
    "reproducible": _BOOL,
    "secret": _PAIR,
    "single-snapshot": _BOOL,
    "skip-default-registry-fallback": _BOOL,
    "skip-tls-verify": _BOOL,
    "skip-tls-verify-pull": _BOOL,
    "skip-tls-verify-registry": _TEXT,
    "snapshot-mode": _TEXT,
    "snapshotMode": _TEXT,
    "tar-path": _TEXT,
    "tarPath": _TEXT,
    "target": _TEXT,
    "use-new-run": _BOOL,
    "whitelist-var-run": _BOOL,
}

# What Kaniko would read from its environment, with the same effect as a refused flag.
REFUSED_VARIABLES = ("KANIKO_NO_PUSH", "KANIKO_REGISTRY_MAP", "KANIKO_REGISTRY_MIRROR", "KANIKO_PRESERVE_CONTEXT")

_KINDS = {**USED, **IGNORED, **REFUSED}
_SHORT = {"b": "bucket", "c": "context", "d": "destination", "f": "dockerfile", "h": "help", "v": "verbosity"}
_SUBCOMMANDS = ("completion", "help", "login", "push", "version")
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
_VALUES = {
    Kind.TEXT: re.compile(r".*", re.DOTALL),
    Kind.BOOL: re.compile("|".join(_BOOLEANS)),
    Kind.NUMBER: re.compile(r"[+-]?(\d+|0[xX][0-9a-fA-F]+)", re.ASCII),
    Kind.DURATION: re.compile(r"[+-]?(0|(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))+", re.ASCII),
    Kind.PAIR: re.compile(r"[^=]*=.*", re.DOTALL),
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a build is asked for."""

    context: str = "/workspace/"
    context_sub_path: str = ""
    dockerfile: str = "Dockerfile"
    destinations: tuple[str, ...] = ()
    digest_file: str = ""
    no_push: bool = False
    insecure: bool = False
    insecure_pull: bool = False
    insecure_registries: tuple[str, ...] = ()
    build_args: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    ignore_paths: tuple[str, ...] = ()
    check_push: bool = True  # whether to find out before the build if the destinations may be written


def parse(arguments: Sequence[str]) -> Options:
    """Returns the options of a command line (without the program's name); FlagError says why there are none."""
    given: dict[str, list[str]] = {}
    for name, value in _flags(arguments):
        if not _VALUES[_KINDS[name]].fullmatch(value):
            raise FlagError(f'invalid argument "{value}" for "--{name}" flag: it must be a {_KINDS[name].value}')
        given.setdefault(name, []).append(value)
    refused = sorted(set(given) & set(REFUSED))
    if refused:
        raise FlagError(f"--{refused[0]}: Kaniko has this flag, but the stand-in does not implement it")
    return _options(given)


def _options(given: Mapping[str, Sequence[str]]) -> Options:
    def text(name: str, default: str = "") -> str:
        return given.get(name, [default])[-1]

    def flag(name: str) -> bool:
        return _BOOLEANS[text(name, "false")]

    no_push, destinations = flag("no-push"), tuple(given.get("destination", ()))
    if not no_push and not destinations:
        raise FlagError("you must provide --destination, or use --no-push")
    if flag("cache") and no_push and not flag("no-push-cache") and not text("cache-repo"):
        raise FlagError("cache flags invalid: if using cache with --no-push, specify cache repo with --cache-repo")
    return Options(
        context=text("context", Options.context),
        context_sub_path=text("context-sub-path"),
        dockerfile=text("dockerfile", Options.dockerfile),
        destinations=destinations,
        digest_file=text("digest-file"),
        no_push=no_push,
        insecure=flag("insecure"),
        insecure_pull=flag("insecure-pull"),
        insecure_registries=tuple(given.get("insecure-registry", ())),
        build_args=tuple(given.get("build-arg", ())),
        labels=tuple(given.get("label", ())),
        ignore_paths=tuple(given.get("ignore-path", ())),
        check_push=not no_push and not flag("skip-push-permission-check"),
    )


def _flags(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields name and value of each flag, read as the pflag library reads them."""
    left = list(arguments)
    while left:
        word = left.pop(0)
        if word == "--":
            left = [*left[:1]]  # the first word after it is a command's name, and Kaniko has none of these
            word = left.pop(0) if left else ""
            if not word:
                return
        elif word.startswith("-") and len(word) > 1:
            yield _flag(word, left)
            continue
        if word in _SUBCOMMANDS:
            raise FlagError(f"{word}: Kaniko has this command, but the stand-in does not implement it")
        raise FlagError(f'unknown command "{word}" for "executor"')


def _flag(word: str, left: list[str]) -> tuple[str, str]:
    """Returns a flag with its value, which may be the next of the words that are `left`."""
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        if not name or name.startswith("-"):
            raise FlagError(f"bad flag syntax: {word}")
        if name not in _KINDS:
            raise FlagError(f"unknown flag: --{name}")
        missing = f"flag needs an argument: --{name}"
    else:
        letter, rest = word[1], word[2:]
        if letter not in _SHORT:
            raise FlagError(f"unknown shorthand flag: {letter!r} in {word}")
        name, equals, value = _SHORT[letter], rest and "=", rest.removeprefix("=")
        missing = f"flag needs an argument: {letter!r} in {word}"
    if equals:
        return name, value
    if _KINDS[name] is Kind.BOOL:
        return name, "true"
    if not left:
        raise FlagError(missing)
    return name, left.pop(0)
