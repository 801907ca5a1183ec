"""A root file system: unpacking layers into it, emptying it, and what changed in it, as a layer.

Paths to stay away from: Kaniko's own folder, /etc/mtab, /var/run, and every mount. As in Kaniko the root is `/` itself, no
chroot: what runs there sees Kaniko's own files. Because that would ruin any other machine, `/` is touched only where the
marker lies that the stand-in's image has. Left out: extended attributes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import shutil
import stat
import tarfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

MARKER = Path("/kaniko/.in-image")  # in the stand-in's image, and nowhere else
_ALWAYS = ("/kaniko", "/etc/mtab", "/var/run")
_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_FASTEST = 1  # of gzip's levels: tests wait for it, and nobody keeps the images


class FilesystemError(Exception):
    """The root file system may not be touched, or a layer cannot be applied to it."""


@dataclass(frozen=True, kw_only=True)
class Root:
    """A root file system with the paths in it, as seen from it, that are left alone."""

    folder: Path
    ignored: frozenset[str]

    def covers(self, path: str) -> bool:
        """Says whether a path is ignored, itself or as part of something ignored."""
        return any(path == one or path.startswith(f"{one}/") for one in self.ignored)

    def holds_ignored(self, path: str) -> bool:
        """Says whether something ignored lies below a path."""
        return any(one.startswith(f"{path}/") for one in self.ignored)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What a layer says of one path (without the leading slash): a file of this machine, a folder, or its removal."""

    name: str
    source: Path | None  # None: an empty folder, or a removal
    removed: bool = False
    owner: tuple[int, int] | None = None  # None: the source's, root's for a folder


@dataclass(frozen=True, kw_only=True)
class Written:
    """A layer in a file, with the digests of the file and of the archive in it."""

    file: Path
    digest: str
    diff_id: str
    size: int


def mounts(mountinfo: str) -> set[str]:
    """Returns the mount points of a /proc/self/mountinfo."""
    points = (line.split(" ")[4] for line in mountinfo.splitlines() if line.count(" ") >= 4)
    return {re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), point) for point in points} - {"/"}


def own_root(extra: Collection[str] = ()) -> Root:
    """Returns this process's own root; `extra` are more paths to ignore."""
    if not MARKER.exists():  # a barrier of its own: `check` alone must not stand between a mistake and a machine
        raise FilesystemError(f"refusing to unpack over /: {MARKER} is not there")
    found = mounts(Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape"))
    return Root(folder=Path("/"), ignored=frozenset({*_ALWAYS, *found, *extra}))


def check(root: Root) -> None:
    """Raises FilesystemError if the root is the one of a machine that nobody wants to lose."""
    if root.folder.samefile("/") and not (MARKER.exists() and os.geteuid() == 0):
        raise FilesystemError(
            f"refusing to unpack over /: {MARKER} is not there, so this is not the stand-in's image; "
            "a Dockerfile without RUN and COPY --from can be built anywhere"
        )


def empty(root: Root) -> None:
    """Removes everything but what is ignored and the folders that hold it."""
    check(root)
    _empty_folder(root, "")


def _empty_folder(root: Root, folder: str) -> None:
    with os.scandir(f"{root.folder}{folder}") as found:
        entries = list(found)
    for entry in entries:
        path = f"{folder}/{entry.name}"
        if root.covers(path):
            continue
        if root.holds_ignored(path):
            if entry.is_dir(follow_symlinks=False):
                _empty_folder(root, path)
        elif entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            Path(entry.path).unlink()


def unpack(root: Root, layer: Path) -> None:
    """Applies a layer, an archive that may be compressed."""
    check(root)
    with tarfile.open(layer, "r|*") as archive:
        for member in archive:
            name = os.path.normpath(f"/{member.name}")
            if root.covers(name) or name == "/":
                continue
            base = Path(name).name
            if base == _OPAQUE:
                raise FilesystemError(f"{member.name}: opaque folders in layers are not implemented here")
            target = Path(f"{root.folder}{name}")
            if base.startswith(_WHITEOUT):
                _remove(root, str(Path(name).parent / base[len(_WHITEOUT) :]))
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if not (member.isdir() and target.is_dir() and not target.is_symlink()):
                _remove(root, name)
            _make(archive, member, target, root)


def _remove(root: Root, name: str) -> None:
    target = Path(f"{root.folder}{name}")
    if root.covers(name) or root.holds_ignored(name) or not os.path.lexists(target):
        return
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink()


def _make(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path, root: Root) -> None:
    if member.isdir():
        target.mkdir(exist_ok=True)
    elif member.isfile():
        content = archive.extractfile(member)
        with target.open("wb") as file:
            if content is not None:
                shutil.copyfileobj(content, file, 1 << 20)
    elif member.issym():
        target.symlink_to(member.linkname)
    elif member.islnk():
        target.hardlink_to(f"{root.folder}{os.path.normpath(f'/{member.linkname}')}")
        return
    elif member.isfifo():
        os.mkfifo(target)
    elif member.isdev():
        kind = stat.S_IFCHR if member.ischr() else stat.S_IFBLK
        os.mknod(target, member.mode | kind, os.makedev(member.devmajor, member.devminor))
    else:
        raise FilesystemError(f"{member.name}: an entry of type {member.type!r} is not implemented here")
    if os.geteuid() == 0:
        os.chown(target, member.uid, member.gid, follow_symlinks=False)
    if not member.issym():
        target.chmod(member.mode)
        os.utime(target, (member.mtime, member.mtime))


def snapshot(root: Root) -> dict[str, tuple[int, ...]]:
    """Returns for each path below the root, but for those ignored, what differs if anything about it was changed."""
    return {name: _state(path) for name, path in _walk(root, "")}


def _walk(root: Root, folder: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(f"{root.folder}{folder}") as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        path = f"{folder}/{entry.name}"
        if root.covers(path):
            continue
        yield path[1:], entry
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(root, path)


def _state(entry: os.DirEntry[str]) -> tuple[int, ...]:
    is_at = entry.stat(follow_symlinks=False)
    if stat.S_ISDIR(is_at.st_mode):
        return is_at.st_mode, is_at.st_uid, is_at.st_gid, is_at.st_mtime_ns
    return is_at.st_mode, is_at.st_uid, is_at.st_gid, is_at.st_size, is_at.st_mtime_ns, is_at.st_ctime_ns, is_at.st_ino


def changes(root: Root, before: Mapping[str, tuple[int, ...]], after: Mapping[str, tuple[int, ...]]) -> list[Entry]:
    """Returns what a layer must say to get from one snapshot to another, sorted by path."""
    gone = before.keys() - after.keys()
    removed = [Entry(name=name, source=None, removed=True) for name in gone if name.rpartition("/")[0] not in gone]
    changed = [
        Entry(name=name, source=root.folder / name)
        for name, state in after.items()
        if before.get(name) != state and not stat.S_ISSOCK(state[0])
    ]
    return sorted([*removed, *changed], key=lambda entry: entry.name)


class _Hashing(io.RawIOBase):
    """Passes on what is written to it, and hashes it."""

    def __init__(self, write: Callable[[memoryview], object]) -> None:
        self._write = write
        self.hash = hashlib.sha256()

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Buffer) -> int:
        """Passes all of `data` on."""
        content = memoryview(data)
        self.hash.update(content)
        self._write(content)
        return content.nbytes


def write_layer(entries: Sequence[Entry], target: Path) -> Written:
    """Writes a layer; the same entries of the same files give the same bytes."""
    with target.open("wb") as file:
        packed = _Hashing(file.write)
        with gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=0, compresslevel=_FASTEST) as zipped:
            plain = _Hashing(zipped.write)
            with tarfile.open(fileobj=plain, mode="w|", format=tarfile.PAX_FORMAT) as archive:
                for entry in entries:
                    _add(archive, entry)
    digest, diff_id = (f"sha256:{one.hash.hexdigest()}" for one in (packed, plain))
    return Written(file=target, digest=digest, diff_id=diff_id, size=target.stat().st_size)


def _add(archive: tarfile.TarFile, entry: Entry) -> None:
    if entry.source is not None:
        info = archive.gettarinfo(entry.source, entry.name)
    elif entry.removed:
        folder, _, base = entry.name.rpartition("/")
        info = tarfile.TarInfo(f"{folder}/{_WHITEOUT}{base}" if folder else f"{_WHITEOUT}{base}")
    else:
        info = tarfile.TarInfo(entry.name)
        info.type, info.mode = tarfile.DIRTYPE, 0o755
    info.uname = info.gname = ""
    info.mtime = int(info.mtime)
    if entry.owner is not None:
        info.uid, info.gid = entry.owner
    if entry.source is not None and info.isfile():
        with entry.source.open("rb") as content:
            archive.addfile(info, content)
    else:
        archive.addfile(info)
