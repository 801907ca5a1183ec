"""Builds by the executor as a program: context from a git server, image to a registry, no root needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.kaniko.images import DOCKER, OCI
from tests.kaniko.conftest import Execute, Registry, ended, log_in, write


@pytest.mark.parametrize("kind", [OCI, DOCKER])
def test_an_image_is_built_at_a_commit_and_pushed(
    registry: Registry, execute: Execute, tmp_path: Path, kind: str
) -> None:
    log_in(tmp_path / "docker", registry)
    name = "oci" if kind == OCI else "docker"
    base = registry.put_base(f"{name}-base", kind, {"base/file": b"base"})
    dockerfile = f"""ARG BASE={base}
    FROM $BASE
    ARG WHO=nobody
    ENV LEVEL="$LEVEL and $WHO" OTHER=$WHO
    WORKDIR sub
    USER 7:8
    COPY --chown=5 file ./
    COPY tree /there
    LABEL mine=$OTHER
    ENTRYPOINT ["/program"]
    """
    context = write(tmp_path / "context", {"Dockerfile": dockerfile, "file": "tested", "tree/leaf": "leaf"})
    destinations = [f"{registry.host}/{name}:{one}" for one in ("one", "other")]
    digest_file = tmp_path / "outputs" / "digest"
    done = execute(
        f"--context=dir://{context}",
        *(f"--destination={one}" for one in destinations),
        f"--digest-file={digest_file}",
        "--build-arg=WHO=me",
        "--label=org.example.sha=abc",
        "--insecure",
        "--insecure-pull",
        "--cache=true",
        f"--cache-repo={registry.host}/{name}/cache",
        "--push-retry=3",
    )
    ended(done, 0, "Skipping unpacking as no commands require it.", f"Pushed {registry.host}/{name}@sha256:")
    manifest, config, digest = registry.image(name, "one")
    assert digest_file.read_text() == digest == registry.image(name, "other")[2]
    assert manifest["mediaType"] == kind
    own = config["config"]
    assert own["Env"] == ["PATH=/usr/bin:/bin", "LEVEL=base and me", "OTHER=me"]
    assert (own["WorkingDir"], own["User"], own["Entrypoint"]) == ("/base/sub", "7:8", ["/program"])
    assert own["Labels"] == {"mine": "me", "org.example.sha": "abc"}
    assert "Cmd" not in own  # the base's arguments, for another program
    files = registry.files(name, "one")
    assert sorted(files) == ["base/file", "base/sub", "base/sub/file", "there/leaf"]
    assert [(files[one].uid, files[one].gid) for one in ("base/sub/file", "there/leaf")] == [(5, 0), (7, 8)]
    assert files["base/sub"].isdir()
    mounted = f"/v2/{name}/blobs/uploads/?mount={manifest['layers'][0]['digest'].replace(':', '%3A')}&from={name}-base"
    assert mounted in registry.log.read_text()


def test_a_stage_may_start_from_another(registry: Registry, execute: Execute, tmp_path: Path) -> None:
    log_in(tmp_path / "docker", registry)
    context = write(
        tmp_path / "context",
        {
            "one/Other": "FROM scratch AS unused\nCOPY none /\nFROM scratch AS first\nCOPY a /a\nENV X=1\n"
            "FROM first\nCOPY a /b\nCMD echo $X\n",
            "one/a": "a",
        },
    )
    done = execute(
        f"--context=dir://{context}",
        "--context-sub-path=one",
        "--dockerfile=Other",
        f"--destination={registry.host}/stages",
        f"--insecure-registry={registry.host}",
    )
    ended(done, 0, "Building stage 'first' [idx: '2', base-idx: '1']")
    _, config, _ = registry.image("stages", "latest")
    assert config["config"] == {"Env": ["X=1"], "Cmd": ["/bin/sh", "-c", "echo $X"]}
    assert sorted(registry.files("stages", "latest")) == ["a", "b"]
    assert len(config["history"]) == 4


def test_a_login_that_is_missing_or_wrong_fails_before_the_build(
    registry: Registry, execute: Execute, tmp_path: Path
) -> None:
    context = write(tmp_path / "context", {"Dockerfile": "FROM scratch\nCOPY Dockerfile /\n"})
    arguments = [f"--context=dir://{context}", f"--destination={registry.host}/refused", "--insecure"]
    ended(execute(*arguments), 1, "checking push permission", "no login for it")
    log_in(tmp_path / "docker", registry, "build:wrong")
    again = execute(*arguments, KANIKO_DIR=str(tmp_path / "2"))
    ended(again, 1, "checking push permission", "401")
    assert "Building stage" not in again.stderr


def test_a_base_that_is_not_there_fails(registry: Registry, execute: Execute, tmp_path: Path) -> None:
    log_in(tmp_path / "docker", registry)
    context = write(tmp_path / "context", {"Dockerfile": f"FROM {registry.host}/nothing:1\nENV A=1\n"})
    done = execute(f"--context=dir://{context}", "--no-push", "--insecure-pull")
    ended(done, 1, "error building image", "MANIFEST_UNKNOWN")


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ("git://127.0.0.1/owner/name.git", "the stand-in does not implement it"),
        ("s3://bucket/x", "the stand-in does not implement it"),
        ("nfs://x", "unknown build context prefix provided"),
        ("dir:///there/is/none", "no such file or directory"),
    ],
)
def test_a_context_is_a_folder(execute: Execute, context: str, message: str) -> None:
    ended(execute(f"--context={context}", "--no-push"), 1, message)


@pytest.mark.parametrize(
    ("arguments", "variables", "message"),
    [
        (["--no-such"], {}, "Error: unknown flag: --no-such"),
        (["--no-push", "--tar-path=x"], {}, "--tar-path: Kaniko has this flag"),
        (["--no-push"], {"FF_KANIKO_COPY_AS_ROOT": "1"}, "FF_KANIKO_COPY_AS_ROOT is set"),
        (["--no-push", "--dockerfile=none"], {}, "please provide a valid path to a Dockerfile"),
    ],
)
def test_a_wrong_command_line_ends_with_1_and_says_why(
    execute: Execute, tmp_path: Path, arguments: list[str], variables: dict[str, str], message: str
) -> None:
    ended(execute(f"--context={tmp_path}", *arguments, **variables), 1, message)
