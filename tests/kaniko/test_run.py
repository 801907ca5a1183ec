"""RUN, which replaces the root file system: in a mount namespace and a root of its own, with this machine's /usr read-only."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.kaniko.images import OCI
from tests.kaniko.conftest import EXECUTOR, Registry, ended, log_in, write

CONTEXT = "kaniko/buildcontext"
PYTHON = "/usr/bin/python3"  # what the executor's first line names
LINKS = {name: f"usr/{name}" for name in ("bin", "lib", "lib64", "sbin")}
# /usr is a mount, so the build leaves it alone: what a shell needs is there. Everything else is replaced.
ENTER = """
mount --bind /usr "$1/usr" && mount -o remount,bind,ro "$1/usr"
mount -t proc proc "$1/proc"
mount -t tmpfs tmpfs "$1/dev"
mknod -m 666 "$1/dev/null" c 1 3 && mknod -m 666 "$1/dev/urandom" c 1 9
exec chroot "$@"
"""
OLD = "import sys; sys.exit(sys.version_info < (3, 11))"
UNSHARE = [
    "unshare",
    "--mount",
    "--propagation",
    "private",
    "--pid",
    "--fork",
    "--kill-child",
    "sh",
    "-ec",
    ENTER,
    "sh",
]

Inside = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    for name in ("usr", "proc", "dev", "left-over"):
        (folder / name).mkdir(parents=True)
    for name, target in LINKS.items():
        (folder / name).symlink_to(target)
    shutil.copytree(EXECUTOR.parent, folder / "kaniko", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "kaniko" / ".in-image").touch()
    return folder


@pytest.fixture
def inside(root: Path) -> Inside:
    """Gives a function that runs a command in the root, or the executor with arguments."""
    if os.geteuid() or not Path("/bin").is_symlink() or not Path(PYTHON).exists():
        pytest.skip(f"needs root, {PYTHON}, and a machine whose programs all lie in /usr")

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [*UNSHARE, str(root), "/kaniko/executor", *arguments]
        own = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", **variables}
        return subprocess.run(command, env=own, capture_output=True, text=True, check=False, timeout=120)

    probe = subprocess.run([*UNSHARE, str(root), PYTHON, "-c", OLD], capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"mounts are not allowed here, or Python is older than 3.11: {probe.stderr.strip()}")
    return run


@pytest.fixture
def base(registry: Registry) -> str:
    passwd = b"root:x:0:0::/root:/bin/sh\nsomebody:x:33:34::/home:/bin/sh\n"
    files: dict[str, bytes | str] = {"etc/passwd": passwd, "etc/gone/file": b"x", "tmp/x": b"", **LINKS}
    return registry.put_base("run/base", OCI, files)


def test_run_changes_the_image_and_sees_kanikos_own_files(
    registry: Registry, inside: Inside, root: Path, base: str
) -> None:
    log_in(root / "kaniko" / ".docker", registry)
    (root / "kaniko" / "out").mkdir()
    dockerfile = f"""FROM {base} AS build
    ARG WORD=two
    ENV NAME=value
    RUN mkdir /out && env > /out/env && ls / > /out/root && ln -s env /out/link && chown 33:34 /out/root
    RUN ["cp", "/kaniko/.docker/config.json", "/out/login"]
    FROM {base}
    WORKDIR /work
    RUN rm -r /etc/gone && pwd > made && chmod 600 made && (sleep 60 &)
    USER somebody
    RUN id -u && id -g >&2
    COPY --from=build /out /there
    COPY file .
    """
    write(root / CONTEXT, {"Dockerfile": dockerfile, "file": "x"})
    done = inside(
        f"--context=dir:///{CONTEXT}",
        f"--destination={registry.host}/run/out",
        "--digest-file=/kaniko/out/digest",
        "--insecure",
        "--insecure-pull",
        SECRET="of the pod",
    )
    ended(done, 0, "Unpacking rootfs")
    assert (done.stdout, "\n34\n" in done.stderr) == ("33\n", True)
    assert not (root / "left-over").exists()
    files = registry.files("run/out", "latest")
    assert {name for name in files if name.startswith(("there", "work", "etc/"))} == {
        "etc/passwd",
        "etc/gone/file",
        "etc/.wh.gone",
        "work",
        "work/made",
        "work/file",
        *(f"there/{name}" for name in ("env", "link", "login", "root")),
    }
    assert not any(name.startswith(("kaniko", "usr", "proc")) for name in files)
    assert (files["work/made"].mode, files["work/file"].uid, files["there/root"].gid) == (0o600, 33, 34)
    content = registry.contents("run/out", "latest")
    assert registry.host.encode() in content["there/login"]
    env = set(content["there/env"].decode().split())
    assert env >= {"WORD=two", "NAME=value", "HOME=/root"}
    assert not any(one.startswith("SECRET") for one in env)
    assert b"left-over" not in content["there/root"]
    assert (root / "kaniko/out/digest").read_text() == registry.image("run/out", "latest")[2]


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("RUN exit 3", 3, "waiting for process to exit: exit status 3"),
        ("RUN exit 75", 75, "exit status 75"),
        ("RUN kill -9 $$", 255, "signal 9"),
        ('RUN ["/none"]', 1, "starting command"),
        ("USER nobody-here\nRUN true", 1, "nobody-here is in no /etc/passwd"),
    ],
)
def test_a_failed_command_ends_the_build_with_its_code(
    registry: Registry,
    inside: Inside,
    root: Path,
    base: str,
    command: str,
    code: int,
    message: str,
) -> None:
    log_in(root / "kaniko" / ".docker", registry)
    write(root / CONTEXT, {"Dockerfile": f"FROM {base}\n{command}\nRUN touch /kaniko/later\n"})
    done = inside(f"--context=dir:///{CONTEXT}", "--no-push", "--insecure-pull")
    ended(done, code, "error building image", message)
    assert not (root / "kaniko" / "later").exists()


def test_without_its_marker_nothing_is_replaced(registry: Registry, inside: Inside, root: Path, base: str) -> None:
    (root / "kaniko" / ".in-image").unlink()
    log_in(root / "kaniko" / ".docker", registry)
    write(root / CONTEXT, {"Dockerfile": f"FROM {base}\nRUN touch /ran\n"})
    done = inside(f"--context=dir:///{CONTEXT}", "--no-push", "--insecure-pull")
    ended(done, 1, "refusing to unpack over /")
    assert (root / "left-over").exists()
    assert not (root / "ran").exists()
