"""How code of a pull request looks around in its pod: for logins and tokens, for what it can write, for whom it can reach."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import ssl
import stat
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

RUNS = Path("/mnt/ci/runs")
_SECRETS = re.compile(
    rb"eyJhbGciOi[\w-]+\.[\w-]{20,}\.[\w-]{20,}"  # a service account's token
    rb"|\"auths\"\s*:"  # Docker's file of logins
    rb"|-----BEGIN [A-Z ]*PRIVATE KEY-----\n[A-Za-z0-9+/]{40}"
    rb"|(?:GIT|GITHUB|SHARDLIB_GIT)_TOKEN=[^\0]"
)
_LARGEST = 1 << 20  # no secret is longer
_IMAGE = ("/proc", "/sys", "/dev", "/usr", "/lib", "/bin", "/sbin", "/venv", "/workspace")  # what its author knows
MS_REMOUNT, MS_BIND = 32, 4096


def secrets(*folders: str) -> dict[str, str]:
    """Returns what looks like a secret, by the file that it is in, environments of all processes included."""
    found = {}
    for path in [
        *_files(folders or ("/",)),
        *Path("/proc").glob("[0-9]*/environ"),
        *Path("/proc").glob("[0-9]*/cmdline"),
    ]:
        try:
            match = _SECRETS.search(_head(path))
        except OSError:
            continue
        if match:
            found[str(path)] = match[0][:40].decode("ascii", "replace")
    return found


def _files(folders: tuple[str, ...]) -> Iterator[Path]:
    for folder in folders:
        for where, below, names in os.walk(folder):
            below[:] = [name for name in below if str(Path(where, name)) not in _IMAGE]
            yield from (Path(where, name) for name in names)


def _head(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        large = stat.S_ISREG(status.st_mode) and status.st_size > _LARGEST
        return b"" if large or not stat.S_ISREG(status.st_mode) else stream.read(_LARGEST)


def own_run() -> Path:
    """Returns the one run's folder that there is."""
    (run,) = RUNS.iterdir()
    return run


def mounted(path: Path) -> bool:
    """Whether something is mounted here; a folder of the same volume is, too, which `os.path.ismount` does not see."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return str(path) in {line.split(" ")[4] for line in lines}


def refused(path: Path) -> bool:
    """Whether a file cannot be written or made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as stream:
            stream.write(b"FORGED")
    except OSError as err:
        return err.errno in (errno.EROFS, errno.EACCES, errno.EPERM)
    return False


def unmounts(place: str) -> bool:
    """Whether something can be unmounted."""
    return bool(ctypes.CDLL(None).umount2(place.encode(), 2) == 0)


def makes_writable(place: str) -> bool:
    """Whether something that is mounted to be read only can be mounted anew to be written."""
    return bool(ctypes.CDLL(None).mount(b"none", place.encode(), b"none", MS_REMOUNT | MS_BIND, None) == 0)


def reads_disk(major: int, minor: int) -> bool:
    """Whether a device of the node can be made and read."""
    node = Path(f"/tmp/disk-{major}-{minor}")
    try:
        os.mknod(node, 0o600 | stat.S_IFBLK, os.makedev(major, minor))
        return bool(node.read_bytes()[:1])
    except PermissionError:
        return False


def api(path: str) -> int:
    """Returns what the API server answers to somebody without a token."""
    first = Path("/proc/1/environ").read_bytes().decode().split("\0")  # a RUN does not get the pod's own environment
    known = dict(line.split("=", 1) for line in first if "=" in line)
    host, port = known["KUBERNETES_SERVICE_HOST"], known["KUBERNETES_SERVICE_PORT"]
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(f"https://{host}:{port}{path}", timeout=20, context=context) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as err:
        return err.code


def tell(where: Path, **found: object) -> None:
    """Writes what was found to a file of one's own folder."""
    where.write_text(json.dumps(found, default=str))
