from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.kaniko import flags
from tests.cluster.kaniko.flags import IGNORED, REFUSED, USED, FlagError, Kind, parse

SAMPLE = {Kind.TEXT: "a=b", Kind.BOOL: "true", Kind.NUMBER: "3", Kind.DURATION: "6h30m", Kind.PAIR: "key=value"}
# What workflows/steps.py passes; a flag that the stand-in did not know would turn the whole chain red on the testbed.
OURS = [
    "--context=git://example.invalid/o/n.git#0123",
    "--dockerfile=Dockerfile",
    "--destination=registry:5000/app-ci:0123",
    "--digest-file=/outputs/digest",
    "--cache=true",
    "--cache-repo=registry:5000/app-ci/cache-pr-1",
    "--label=org.opencontainers.image.revision=0123",
    "--push-retry=3",
    "--insecure",
    "--insecure-pull",
]


def test_what_build_image_passes_is_taken() -> None:
    options = parse(OURS)
    assert options.destinations == ("registry:5000/app-ci:0123",)
    assert options.labels == ("org.opencontainers.image.revision=0123",)
    assert options.insecure
    assert options.insecure_pull
    assert options.check_push


def test_a_value_may_follow_its_flag_and_flags_have_short_names() -> None:
    options = parse(["-d", "a/b", "--destination", "a/c", "-f=Other", "-c/here", "--no-push=false"])
    assert options.destinations == ("a/b", "a/c")
    assert (options.dockerfile, options.context, options.no_push) == ("Other", "/here", False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--no-such-flag"], "unknown flag: --no-such-flag"),
        (["--Context=x"], "unknown flag: --Context"),
        (["--no-push", "-x"], "unknown shorthand flag: 'x' in -x"),
        (["--context"], "flag needs an argument: --context"),
        (["--cache=perhaps"], 'invalid argument "perhaps" for "--cache" flag'),
        (["--push-retry=often"], 'invalid argument "often" for "--push-retry" flag'),
        (["--cache-ttl=6"], 'invalid argument "6" for "--cache-ttl" flag'),
        (["--no-push", "true"], 'unknown command "true" for "executor"'),
        (["--no-push", "--", "x"], 'unknown command "x" for "executor"'),
        (["push"], "the stand-in does not implement it"),
        ([], "you must provide --destination, or use --no-push"),
        (["--no-push", "--cache"], "specify cache repo with --cache-repo"),
    ],
)
def test_what_kaniko_refuses_is_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(FlagError) as caught:
        parse(arguments)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_flag_that_would_change_the_image_is_refused_by_name(name: str) -> None:
    with pytest.raises(FlagError, match=f"^--{name}: Kaniko has this flag, but the stand-in does not implement it$"):
        parse(["--no-push", f"--{name}={SAMPLE[REFUSED[name]]}"])


@pytest.mark.parametrize("name", sorted(IGNORED))
def test_a_flag_that_changes_no_image_is_taken(name: str) -> None:
    assert parse(["--no-push", f"--{name}={SAMPLE[IGNORED[name]]}"]) == parse(["--no-push"])


def test_every_flag_is_in_one_group() -> None:
    # Kaniko 1.28.3 has 68 of its own, cobra adds --help, and one comes with its logins for Azure.
    assert len(USED) + len(IGNORED) + len(REFUSED) == len(flags._KINDS) == 70


@given(st.lists(st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=6), max_size=4))
def test_any_command_line_gives_options_or_a_flag_error(arguments: list[str]) -> None:
    with contextlib.suppress(FlagError):
        options = parse(arguments)
        assert options.no_push or options.destinations
