from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from tests.cluster.kaniko import copying, filesystem
from tests.cluster.kaniko.copying import CopyError
from tests.cluster.kaniko.filesystem import MARKER, Entry, FilesystemError, Root, changes, mounts, snapshot, write_layer

MOUNTS = r"""22 1 0:20 / / rw,relatime - overlay overlay rw
23 22 0:21 / /proc rw - proc proc rw
24 22 8:1 /x /etc/hosts rw - ext4 /dev/sda rw
25 22 8:1 /x /with\040blank rw - ext4 /dev/sda rw
"""


def tree(folder: Path) -> dict[str, str]:
    """Returns the files, links and folders below a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        kind = f"-> {path.readlink()}" if path.is_symlink() else "folder" if path.is_dir() else path.read_text()
        found[str(path.relative_to(folder))] = kind
    return found


@pytest.fixture
def root(tmp_path: Path) -> Root:
    folder = tmp_path / "root"
    for name, content in {
        "etc/hosts": "mounted",
        "usr/bin/sh": "shell",
        "usr/gone/deep": "x",
        "kaniko/executor": "e",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    (folder / "bin").symlink_to("usr/bin")
    return Root(folder=folder, ignored=frozenset({"/kaniko", "/etc/hosts"}))


def test_mounts_are_those_of_mountinfo_without_the_root() -> None:
    assert mounts(MOUNTS) == {"/proc", "/etc/hosts", "/with blank"}


def test_a_machines_own_root_is_refused(tmp_path: Path) -> None:
    # Only asks. Never call `empty` or `unpack` with a root that is `/`, or leads there: if the check were broken, this test
    # would delete the machine that it runs on.
    if MARKER.exists():
        pytest.skip(f"{MARKER} is here: this is an image that may be ruined")
    (tmp_path / "link").symlink_to("/")
    for folder in (Path("/"), tmp_path / "link", Path("/usr/..")):
        with pytest.raises(FilesystemError, match="refusing to unpack over /"):
            filesystem.check(Root(folder=folder, ignored=frozenset()))
    with pytest.raises(FilesystemError, match="refusing to unpack over /"):
        filesystem.own_root()


def test_emptying_leaves_what_is_ignored(root: Root) -> None:
    filesystem.empty(root)
    assert tree(root.folder) == {"etc": "folder", "etc/hosts": "mounted", "kaniko": "folder", "kaniko/executor": "e"}


def test_a_layer_of_what_changed_repeats_the_change(root: Root, tmp_path: Path) -> None:
    other = Root(folder=tmp_path / "other", ignored=root.ignored)
    other.folder.mkdir()
    everything = [Entry(name=name, source=root.folder / name) for name in snapshot(root)]
    filesystem.unpack(other, write_layer(everything, tmp_path / "base").file)
    before = snapshot(root)
    (root.folder / "usr/gone/deep").unlink()
    (root.folder / "usr/gone").rmdir()
    (root.folder / "usr/new").mkdir(mode=0o700)
    (root.folder / "usr/new/link").symlink_to("/anywhere")
    (root.folder / "bin/tool").write_text("by way of the link")
    os.utime(root.folder / "usr/bin/sh", (5, 5))
    (root.folder / "kaniko/executor").write_text("changed, and ignored")
    entries = changes(root, before, snapshot(root))
    assert [(one.name, one.removed) for one in entries] == [
        ("usr", False),
        ("usr/bin", False),
        ("usr/bin/sh", False),
        ("usr/bin/tool", False),
        ("usr/gone", True),
        ("usr/new", False),
        ("usr/new/link", False),
    ]
    filesystem.unpack(other, write_layer(entries, tmp_path / "layer").file)
    ours = {name: kind for name, kind in tree(root.folder).items() if not root.covers(f"/{name}")}
    assert tree(other.folder) == ours
    assert (other.folder / "usr/new").stat().st_mode & 0o777 == 0o700
    assert (other.folder / "usr/bin/sh").stat().st_mtime == 5


def test_nothing_changed_is_nothing(root: Root) -> None:
    assert changes(root, snapshot(root), snapshot(root)) == []


def test_a_changed_content_of_the_same_size_and_time_is_seen(root: Root) -> None:
    shell = root.folder / "usr/bin/sh"
    before, times = snapshot(root), shell.stat()
    shell.write_text("SHELL")
    os.utime(shell, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert [one.name for one in changes(root, before, snapshot(root))] == ["usr/bin/sh"]


def test_unpacking_replaces_a_link_and_never_writes_through_it(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("kept")
    root = Root(folder=tmp_path / "root", ignored=frozenset({"/kaniko"}))
    root.folder.mkdir()
    (root.folder / "name").symlink_to(outside)
    content = tmp_path / "content"
    content.write_text("new")
    names = ("name", "kaniko/executor", "../escaped")
    layer = write_layer([Entry(name=name, source=content) for name in names], tmp_path / "layer").file
    filesystem.unpack(root, layer)
    assert outside.read_text() == "kept"
    assert tree(root.folder) == {"escaped": "new", "name": "new"}
    assert not (tmp_path / "escaped").exists()


def test_the_same_files_give_the_same_layer(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("content")
    os.utime(source, (1_000, 1_000))
    entries = [
        Entry(name="a", source=source, owner=(1, 2)),
        Entry(name="b", source=None),
        Entry(name="c", source=None, removed=True),
    ]
    first, second = (write_layer(entries, tmp_path / name) for name in ("first", "second"))
    assert (first.digest, first.diff_id) == (second.digest, second.diff_id)
    content = first.file.read_bytes()
    assert first.digest == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert first.size == len(content)


@pytest.fixture
def context(tmp_path: Path) -> Path:
    folder = tmp_path / "context"
    for name in ("a.txt", "b.txt", "c.md", "sub/one", "sub/deep/two"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


@pytest.mark.parametrize(
    ("sources", "target", "names"),
    [
        (["a.txt"], "/x", ["x"]),
        (["a.txt"], "/x/", ["x/a.txt"]),
        (["*.txt"], "/x/", ["x/a.txt", "x/b.txt"]),
        (["sub"], "/x", ["x/deep", "x/deep/two", "x/one"]),
        (["sub/"], "/x/", ["x/deep", "x/deep/two", "x/one"]),
        (["../../a.txt"], "/x", ["x"]),
        (["."], "/", ["a.txt", "b.txt", "c.md", "sub", "sub/deep", "sub/deep/two", "sub/one"]),
    ],
)
def test_copy_puts_files_where_docker_does(context: Path, sources: list[str], target: str, names: list[str]) -> None:
    assert [one.name for one in copying.entries(sources, target, context, None, None)] == names


def test_copy_into_a_folder_of_the_unpacked_root(context: Path, root: Root) -> None:
    (entry,) = copying.entries(["a.txt"], "/usr", context, None, root.folder)
    assert entry.name == "usr/a.txt"


@pytest.mark.parametrize(
    ("sources", "target", "message"),
    [
        (["none"], "/x", "no such file"),
        (["none*"], "/x/", "no such file"),
        (["a.txt", "b.txt"], "/x", "must be a directory"),
    ],
)
def test_copy_refuses_what_is_not_there(context: Path, sources: list[str], target: str, message: str) -> None:
    with pytest.raises(CopyError, match=message):
        copying.entries(sources, target, context, None, None)


def test_what_is_kept_of_a_stage_lies_at_the_same_paths(root: Root, tmp_path: Path) -> None:
    copying.save(["/usr/bin", "/bin"], root.folder, tmp_path / "kept")
    assert tree(tmp_path / "kept") == {"bin": "-> usr/bin", "usr": "folder", "usr/bin": "folder", "usr/bin/sh": "shell"}
