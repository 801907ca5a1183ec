"""Files below a folder that others can write to: opened without following links, bounded, and created whole.

A reader never trusts a name below `root`: every component is opened relative to its parent without following links, so
that nothing can be swapped in between, and only regular files of bounded size are read. A writer never shows half a
file: the name appears when the content is complete and on the disk.
"""

from __future__ import annotations

import errno
import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from shardlib.errors import InfrastructureError, RunFolderError, ShardlibError

MAX_NAMES = 1_000_000
"""Entries of one folder that a reader looks at: far above one per group of the largest suite (a guess)."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # non-blocking: opening a fifo would wait for ever
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOST = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT, errno.EROFS}

Parts = tuple[str, ...]


def read_bytes(root: Path, parts: Parts, *, limit: int) -> bytes | None:
    """Returns the content of a regular file of at most `limit` bytes, or None if there is none.

    Raises:
        RunFolderError: it, or a folder on the way, is a link, is no regular file, or is too large.
    """
    stream = open_stream(root, parts, limit=limit)
    if stream is None:
        return None
    with stream:
        data = stream.read(limit + 1)
    if len(data) > limit:  # it grew after it was opened
        raise RunFolderError(f"{root.joinpath(*parts)}: more than {limit} bytes")
    return data


def open_stream(root: Path, parts: Parts, *, limit: int) -> BinaryIO | None:
    """Returns a binary stream of a regular file of at most `limit` bytes, or None; errors as in `read_bytes`."""
    path = root.joinpath(*parts)
    try:
        with _folder(root, parts[:-1]) as folder:
            descriptor = os.open(parts[-1], _READ, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as err:
        raise _explain(err, path, "read") from err
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
        os.close(descriptor)
        what = "not a regular file" if not stat.S_ISREG(status.st_mode) else f"{status.st_size} bytes, limit {limit}"
        raise RunFolderError(f"{path}: {what}; only shardlib writes here, so look at who else did")
    return os.fdopen(descriptor, "rb")


def names(root: Path, parts: Parts) -> list[str]:
    """Returns the sorted names in a folder but for hidden ones (temporary files); none if there is no folder."""
    path = root.joinpath(*parts)
    found: list[str] = []
    try:
        with _folder(root, parts) as folder, os.scandir(folder) as entries:
            for entry in entries:
                if not entry.name.startswith("."):
                    found.append(entry.name)
                if len(found) > MAX_NAMES:
                    raise RunFolderError(f"{path}: more than {MAX_NAMES} files")
    except FileNotFoundError:
        return []
    except OSError as err:
        raise _explain(err, path, "list") from err
    return sorted(found)


def create(root: Path, parts: Parts, data: bytes) -> bool:
    """Returns whether this call gave the file its name; a name that exists keeps its content.

    A temporary file in the same folder is written, synced and linked to the name. "Exists" is not believed at once: an
    NFS server may have made the link and lost the reply (open(2) has the same advice), so the two files are compared.
    """
    path = root.joinpath(*parts)
    try:
        with _folder(root, parts[:-1], make=True) as folder, _temporary(folder, data) as (name, status):
            try:
                os.link(name, parts[-1], src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            except FileExistsError:
                if not os.path.samestat(status, os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)):
                    return False
            os.fsync(folder)
    except OSError as err:
        raise _explain(err, path, "create") from err
    return True


def replace(root: Path, parts: Parts, data: bytes) -> None:
    """Puts the data under the name at once, in the place of what was there."""
    path = root.joinpath(*parts)
    try:
        with _folder(root, parts[:-1], make=True) as folder, _temporary(folder, data) as (name, _):
            os.replace(name, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
    except OSError as err:
        raise _explain(err, path, "write") from err


def make_open_folder(root: Path, parts: Parts) -> None:
    """Makes a folder, if need be, to which every user may write; RunFolderError if it is a link or no folder."""
    try:
        with _folder(root, parts, make=True) as folder:
            os.fchmod(folder, 0o777)
    except OSError as err:
        raise _explain(err, root.joinpath(*parts), "make") from err


def move(root: Path, parts: Parts, to: Parts) -> None:
    """Moves what is there, as it is, to a name that is free, and makes its folder; no link is followed."""
    try:
        with _folder(root, parts[:-1]) as folder, _folder(root, to[:-1], make=True) as target:
            os.rename(parts[-1], to[-1], src_dir_fd=folder, dst_dir_fd=target)
            os.fsync(target)
            os.fsync(folder)
    except OSError as err:
        raise _explain(err, root.joinpath(*parts), "move") from err


def open_append(root: Path, parts: Parts) -> int:
    """Returns the descriptor of a new file to which every write appends; RunFolderError if the name exists."""
    path = root.joinpath(*parts)
    try:
        with _folder(root, parts[:-1], make=True) as folder:
            descriptor = os.open(parts[-1], _WRITE | os.O_APPEND, 0o644, dir_fd=folder)
            os.fsync(folder)
    except OSError as err:
        raise _explain(err, path, "create") from err
    return descriptor


def write(descriptor: int, data: bytes, path: Path) -> None:
    """Writes the data by one system call, so that lines of several writers never mix.

    Raises:
        InfrastructureError: the disk is full or the mount is lost.
    """
    try:
        written = os.write(descriptor, data)
    except OSError as err:
        raise _explain(err, path, "write") from err
    if written != len(data):
        raise InfrastructureError(f"{path}: only {written} of {len(data)} bytes were written; is the disk full?")


def sync(descriptor: int, path: Path) -> None:
    """Waits until what was written is on the disk; errors as in `write`."""
    try:
        os.fsync(descriptor)
    except OSError as err:
        raise _explain(err, path, "sync") from err


@contextmanager
def _folder(root: Path, parts: Parts, *, make: bool = False) -> Iterator[int]:
    """Yields the descriptor of a folder below `root`; links are followed up to `root` and no further."""
    if make:
        root.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            below = _step(descriptor, part, make=make)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def _step(folder: int, part: str, *, make: bool) -> int:
    try:
        return os.open(part, _DIRECTORY, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):  # another process was first
        os.mkdir(part, 0o755, dir_fd=folder)
        os.fsync(folder)
    return os.open(part, _DIRECTORY, dir_fd=folder)


@contextmanager
def _temporary(folder: int, data: bytes) -> Iterator[tuple[str, os.stat_result]]:
    """Yields name and status of a synced hidden file that holds the data; it is gone afterwards."""
    name = f".tmp-{uuid.uuid4().hex}"
    with os.fdopen(os.open(name, _WRITE, 0o644, dir_fd=folder), "wb") as stream:
        try:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
            yield name, os.fstat(stream.fileno())
        finally:
            with suppress(FileNotFoundError):  # renamed to its place
                os.unlink(name, dir_fd=folder)


def _explain(err: OSError, path: Path, verb: str) -> ShardlibError:
    if err.errno in _LOST:
        return InfrastructureError(f"cannot {verb} {path}: {err.strerror}")
    if err.errno in (errno.ELOOP, errno.ENOTDIR):
        return RunFolderError(f"{path}: it, or a folder on the way to it, is a link or no folder; remove it")
    if err.errno in (errno.EPERM, errno.EOPNOTSUPP) and verb == "create":
        return RunFolderError(f"cannot create {path}: {err.strerror}; the run's folder needs hard links")
    return RunFolderError(f"cannot {verb} {path}: {err.strerror}")
