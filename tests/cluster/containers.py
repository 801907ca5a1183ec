"""Makes an image of the testbed from a Dockerfile, by the testbed's own command `image derive`.

`derive` has the package indexes of this machine, which a build in the cluster has not. It copies files and then runs one
command; so a stage becomes a chain of images, each of some COPYs and the RUNs after them, and each with a stamp that says
what it was made from. What is up to date is not made again. Of the context, files that git ignores do not count.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import posixpath
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.kaniko import copying, stages
from tests.cluster.kaniko.dockerfile import Arg, Copy, Dockerfile, Instruction, Pairs, Run, Start, Word, parse
from tests.cluster.kaniko.filesystem import Entry
from tests.cluster.kaniko.quoting import error, expand

_PYTHON_IMAGE = "PYTHON_IMAGE"  # the argument by which our Dockerfiles take their base
_STAMP = ".stamp"
# Publishing is derive's last step, but only then is the configuration complete.
_CONFIGURE = """
set -euo pipefail
source "$1/lib.sh"
name=$2
shift 2
[ $# = 0 ] || umoci config --image "$IMAGES/$name:latest" "$@"
umoci gc --layout "$IMAGES/$name" >&2
if is_up; then publish "$name" >&2; fi
"""


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A part of a stage that one call of `derive` makes: copies, then a script."""

    copies: tuple[tuple[Copy, str], ...]  # with the target, an absolute path
    script: str


@dataclass(kw_only=True)
class _Segments:
    """Collects the segments of a stage, and its configuration, instruction by instruction."""

    variables: dict[str, str]
    arguments: dict[str, str]
    folder: str
    done: list[Segment] = field(default_factory=list)
    copies: list[tuple[Copy, str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    config: list[str] = field(default_factory=list)  # options of `umoci config`

    def values(self) -> dict[str, str]:
        return {**self.arguments, **self.variables}

    def close(self) -> None:
        if self.copies or self.lines:
            self.done.append(Segment(copies=tuple(self.copies), script="\n".join(self.lines) or "true"))
            self.copies, self.lines = [], []


def build(testbed: Path, dockerfile: Path, name: str, base: str, context: Path, target: str | None = None) -> str:
    """Returns the full name, with its digest, of an image that is made unless it is up to date.

    Args:
        testbed: the folder of the testbed's commands.
        dockerfile: the file to build.
        name: the image's name; those it is made from are called NAME.STAGE.NUMBER.
        base: the testbed's image that takes the place of the argument PYTHON_IMAGE.
        context: the folder that COPY copies from, inside a git checkout.
        target: the stage to build; None: the last.
    """
    file = _until(parse(dockerfile.read_text(encoding="utf-8")), target)
    images = Path(_ask(testbed, "IMAGES"))
    plans = stages.plan(file, {_PYTHON_IMAGE: base})
    made: dict[int, str] = {}
    for index, plan in plans.items():
        last = index == max(plans)
        source = plan.base if plan.parent is None else made[plan.parent]
        origins = {key: images / made[number] for key, number in plan.origins.items()}
        stage = f"{name}.{file.stages[index].name or index}"
        config = _config(images / source)
        parts = segments(file.stages[index].instructions, config, {_PYTHON_IMAGE: base})
        made[index] = _make(testbed, images, context, source, name if last else stage, parts, origins)
    return f"{_ask(testbed, 'REGISTRY')}/{name}@{_digest(images / name)}"


def _until(file: Dockerfile, target: str | None) -> Dockerfile:
    if target is None:
        return file
    index = file.stage_index(target, len(file.stages))
    if index is None:
        raise ValueError(f"there is no stage {target!r}")
    return Dockerfile(arguments=file.arguments, stages=file.stages[: index + 1])


def segments(
    instructions: Sequence[Instruction], config: Mapping[str, Any], before_from: Mapping[str, str]
) -> tuple[list[Segment], list[str]]:
    """Returns the segments of a stage, at least one, and the options of `umoci config` that complete it.

    Args:
        instructions: the stage's.
        config: the configuration of the image that it starts from.
        before_from: the arguments before the first FROM.
    """
    variables = dict(item.split("=", 1) for item in config.get("Env") or ())
    state = _Segments(variables=variables, arguments={}, folder=config.get("WorkingDir") or "/")
    for one in instructions:
        if isinstance(one, Arg):
            for name, default in one.defaults.items():
                given = before_from.get(name, "") if default is None else expand(default, state.values(), one.line)
                state.arguments[name] = given
        elif isinstance(one, Copy):
            if one.owner:
                raise error(one.line, "COPY --chown is not implemented here: everything becomes root's")
            if state.lines:
                state.close()
            target = expand(one.target, state.values(), one.line)
            absolute = posixpath.normpath(posixpath.join(state.folder, target))
            state.copies.append((one, f"{absolute}/" if target.endswith(("/", ".")) and absolute != "/" else absolute))
        elif isinstance(one, Run):
            state.lines.append(_script(state, one))
        else:
            _configure(state, one)
    state.close()
    return state.done or [Segment(copies=(), script="true")], state.config


def _script(state: _Segments, run: Run) -> str:
    """Returns a RUN as a subshell with the variables and the folder that it would have."""
    exports = " ".join(f"{name}={shlex.quote(value)}" for name, value in sorted(state.values().items()))
    command = run.command if isinstance(run.command, str) else shlex.join(run.command)
    folder = shlex.quote(state.folder)
    return f"(export {exports}; mkdir -p {folder}; cd {folder}; {command})" if exports else f"(cd {folder}; {command})"


def _configure(state: _Segments, one: Pairs | Word | Start) -> None:
    if isinstance(one, Start):
        words = (one.command,) if isinstance(one.command, tuple) else (("/bin/sh", "-c", one.command),)
        state.config += [f"--config.{one.kind.lower()}={word}" for word in words[0]]
    elif isinstance(one, Pairs):
        before = state.values()
        for name, text in one.values:
            value = expand(text, before, one.line)
            if one.kind == "ENV":
                state.variables[name] = value
            state.config.append(f"--config.{one.kind.lower()}={name}={value}")
    elif one.kind == "USER":
        state.config.append(f"--config.user={expand(one.value, state.values(), one.line)}")
    else:
        state.folder = posixpath.normpath(posixpath.join(state.folder, expand(one.value, state.values(), one.line)))
        state.config.append(f"--config.workingdir={state.folder}")


def _make(
    testbed: Path,
    images: Path,
    context: Path,
    source: str,
    name: str,
    parts: tuple[list[Segment], list[str]],
    origins: Mapping[str, Path],
) -> str:
    """Makes the images of a stage, one from the other, and returns the name of the last."""
    found, config = parts
    for number, segment in enumerate(found, 1):
        last = number == len(found)
        image = name if last else f"{name}.{number}"
        options = config if last else []
        with tempfile.TemporaryDirectory(prefix="containers-") as scratch:
            stamp = _stamp(images / source, segment, options, context, origins)
            file = images / image / _STAMP
            if not file.exists() or file.read_text(encoding="ascii") != stamp:
                tree = _tree(segment, context, origins, Path(scratch))
                copy = ["--copy", f"{tree}/.:/"] if segment.copies else []
                _run([str(testbed / "image"), "derive", image, source, *copy, segment.script])
                _run(["bash", "-c", _CONFIGURE, "configure", str(testbed), image, *options])
                file.write_text(stamp, encoding="ascii")
        source = image
    return source


def _stamp(source: Path, segment: Segment, options: Sequence[str], context: Path, origins: Mapping[str, Path]) -> str:
    """Returns the digest of all that an image is made from."""
    made_from = hashlib.sha256(json.dumps([_digest(source), repr(segment), list(options)]).encode())
    for copy, target in segment.copies:
        if copy.stage:
            made_from.update(_digest(origins[copy.stage]).encode())
            continue
        for entry in _entries(copy, target, context):
            assert entry.source is not None  # COPY makes no empty folders
            made_from.update(f"{entry.name} {entry.source.lstat().st_mode:o}\0".encode())
            if entry.source.is_symlink():
                made_from.update(os.fsencode(entry.source.readlink()))
            elif entry.source.is_file():
                made_from.update(hashlib.sha256(entry.source.read_bytes()).digest())
    return made_from.hexdigest()


def _tree(segment: Segment, context: Path, origins: Mapping[str, Path], scratch: Path) -> Path:
    """Returns a folder with what a segment copies, at the paths that it has in the image."""
    tree = scratch / "tree"
    tree.mkdir()
    tree.chmod(0o755)
    for copy, target in segment.copies:
        with contextlib.ExitStack() as stack:
            if copy.stage:
                folder = stack.enter_context(_unpacked(origins[copy.stage], scratch))
                entries = copying.entries(list(copy.sources), target, folder, None, None)
            else:
                entries = _entries(copy, target, context)
            for entry in entries:
                assert entry.source is not None  # COPY makes no empty folders
                copying.copy(entry.source, tree / entry.name, own=not copy.stage)
    return tree


def _entries(copy: Copy, target: str, context: Path) -> list[Entry]:
    """Returns what COPY takes of the context, without what git does not know or ignores."""
    command = ["git", "-C", str(context), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, check=True, capture_output=True).stdout
    known = {context / os.fsdecode(name) for name in listed.split(b"\0") if name}
    folders = {parent for path in known for parent in path.parents}
    found = copying.entries(list(copy.sources), target, context, None, None)
    return [entry for entry in found if entry.source in known | folders]


@contextlib.contextmanager
def _unpacked(image: Path, scratch: Path) -> Iterator[Path]:
    """Gives the root file system of an image, for as long as it is needed."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        _run(["umoci", "unpack", "--image", f"{image}:latest", f"{folder}/bundle"])
        yield Path(folder, "bundle", "rootfs")


def _blob(image: Path, digest: str) -> Any:
    return json.loads((image / "blobs" / digest.replace(":", "/")).read_text(encoding="utf-8"))


def _digest(image: Path) -> str:
    (manifest,) = json.loads((image / "index.json").read_text(encoding="utf-8"))["manifests"]
    return str(manifest["digest"])


def _config(image: Path) -> Mapping[str, Any]:
    config: Mapping[str, Any] = _blob(image, _blob(image, _digest(image))["config"]["digest"])["config"]
    return config


def _ask(testbed: Path, variable: str) -> str:
    """Returns what the testbed calls something."""
    command = ["bash", "-c", 'source "$1/lib.sh"; echo "${!2}"', "ask", str(testbed), variable]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)}: {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
