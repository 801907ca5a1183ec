"""What COPY does: which files go where, as entries of a layer."""

from __future__ import annotations

import fnmatch
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from .filesystem import Entry


class CopyError(Exception):
    """A source of COPY is not there, or lies outside of what may be copied."""


def entries(
    sources: list[str], target: str, folder: Path, owner: tuple[int, int] | None, root: Path | None
) -> list[Entry]:
    """Returns the entries that COPY adds, sorted by name.

    Args:
        sources: paths and patterns below `folder`.
        target: an absolute path; one with a slash at its end is a folder.
        folder: the context, or what was saved of another stage.
        owner: user and group for all of them; None keeps the sources'.
        root: the unpacked root file system, where a target may turn out to be a folder; None: nothing is unpacked.
    """
    found = [path for source in sources for path in _matches(source, folder)]
    into = target.endswith("/") or len(found) > 1 or (root is not None and (root / target[1:]).is_dir())
    if len(found) > 1 and not target.endswith("/"):
        raise CopyError("When using COPY with more than one source file, the destination must be a directory")
    made: dict[str, Entry] = {}
    for path in found:
        if path.is_dir() and not path.is_symlink():
            pairs = _tree(path, target)
        else:
            pairs = iter([(path, f"{target}/{path.name}" if into else target)])
        for source, name in pairs:
            clean = os.path.normpath(name).lstrip("/")
            made[clean] = Entry(name=clean, source=source, owner=owner)
    return sorted(made.values(), key=lambda entry: entry.name)


def _matches(source: str, folder: Path) -> list[Path]:
    """Returns the files and folders below `folder` that a source names; `..` does not lead out of it."""
    parts = PurePosixPath(os.path.normpath(f"/{source}")).parts[1:]
    found = [folder]
    for part in parts:
        if set(part) & set("*?["):
            found = [path for one in found for path in sorted(one.iterdir()) if fnmatch.fnmatchcase(path.name, part)]
        else:
            found = [one / part for one in found if os.path.lexists(one / part)]
    if not found:
        raise CopyError(f"failed to get fileinfo for {folder / source}: no such file or directory")
    return found


def _tree(folder: Path, target: str) -> Iterator[tuple[Path, str]]:
    """Yields all that is below a folder with its name below the target; the target itself is made by what is in it."""
    for path in sorted(folder.iterdir()):
        name = f"{target}/{path.name}"
        yield path, name
        if path.is_dir() and not path.is_symlink():
            yield from _tree(path, name)


def save(sources: Iterable[str], root: Path, folder: Path) -> None:
    """Copies what later stages want of a root file system to the same paths below `folder`."""
    for source in sources:
        for path in _matches(source, root):
            target = folder / path.relative_to(root)
            pairs = [(path, str(target))]
            if path.is_dir() and not path.is_symlink():
                pairs += _tree(path, str(target))
            for original, name in pairs:
                copy(original, Path(name))


def copy(source: Path, target: Path, *, own: bool = False) -> None:
    """Copies a file, a link or a folder without what is in it, with mode and times, and the owner unless `own`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    state = source.lstat()
    if source.is_symlink():
        target.unlink(missing_ok=True)
        target.symlink_to(source.readlink())
    elif source.is_dir():
        target.mkdir(exist_ok=True)
    elif source.is_file():
        shutil.copyfile(source, target)
    else:
        raise CopyError(f"{source} is no file, folder or link")
    if os.geteuid() == 0 and not own:
        os.chown(target, state.st_uid, state.st_gid, follow_symlinks=False)
    if not source.is_symlink():
        shutil.copystat(source, target)
