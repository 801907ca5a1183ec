"""What each instruction does, to the image's configuration, its layers and the root file system."""

from __future__ import annotations

import contextlib
import itertools
import os
import posixpath
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import copying, filesystem, quoting
from .dockerfile import Arg, Copy, Instruction, Pairs, Run, Start, Word
from .images import Image, Layer, Reference

_OWN_PATHS = ("/kaniko",)
Log = Callable[[str], None]


class BuildError(Exception):
    """A step of the build failed; `exit_code` is its own where it is a command's."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a build takes things from and puts things to.

    Args:
        context: the build context.
        work: Kaniko's folder, for layers and for what later stages want.
        arguments: those of --build-arg.
        ignored: those of --ignore-path.
        pull: gives the image of a FROM.
        download: gives the file of a layer that came with an image.
        log: takes lines of progress.
    """

    context: Path
    work: Path
    arguments: Mapping[str, str]
    ignored: Sequence[str]
    pull: Callable[[Reference], Image]
    download: Callable[[Layer], Path]
    log: Log


@dataclass(kw_only=True)
class State:
    """What a stage has become so far.

    Args:
        config: the image's `config`.
        layers: the base's and those added.
        history: one entry for each instruction, the base's first.
        layer_type: the media type of layers that are added.
        root: where the stage is unpacked; None: nowhere.
        before_from: the arguments before the first FROM.
        origins: what was saved of other stages, by the name that --from gives them.
        arguments: those that the stage has declared.
    """

    config: dict[str, Any]
    layers: list[Layer]
    history: list[dict[str, object]]
    layer_type: str
    root: filesystem.Root | None
    before_from: Mapping[str, str]
    origins: Mapping[str, Path]
    arguments: dict[str, str] = field(default_factory=dict)

    def variables(self) -> dict[str, str]:
        """Returns the variables that an instruction sees: arguments, and the image's own, which win."""
        own = dict(item.split("=", 1) for item in self.config.get("Env") or ())
        return {**self.arguments, **own}


def execute(source: Source, state: State, instruction: Instruction) -> None:
    """Does what one instruction says, to the state and to the root file system."""
    text = _text(instruction)
    source.log(text)
    before = len(state.layers)
    if isinstance(instruction, Arg):
        _declare(source, state, instruction)
    elif isinstance(instruction, Pairs):
        _set(state, instruction)
    elif isinstance(instruction, Start):
        state.config[instruction.kind.capitalize()] = list(_words(instruction.command))
    elif isinstance(instruction, Word):
        value = quoting.expand(instruction.value, state.variables(), instruction.line)
        if instruction.kind == "USER":
            state.config["User"] = value
        else:
            _change_folder(source, state, value)
    elif isinstance(instruction, Copy):
        _copy(source, state, instruction)
    else:
        _run(source, state, instruction)
    empty = {"empty_layer": True} if len(state.layers) == before else {}
    state.history.append({"author": "kaniko", "created_by": text, **empty})


def _text(instruction: Instruction) -> str:
    if isinstance(instruction, Run):
        return f"RUN {instruction.command if isinstance(instruction.command, str) else list(instruction.command)}"
    if isinstance(instruction, Copy):
        origin = f"--from={instruction.stage} " if instruction.stage else ""
        return f"COPY {origin}{' '.join(instruction.sources)} {instruction.target}"
    if isinstance(instruction, Pairs):
        return f"{instruction.kind} {' '.join(f'{name}={value}' for name, value in instruction.values)}"
    if isinstance(instruction, Word):
        return f"{instruction.kind} {instruction.value}"
    if isinstance(instruction, Start):
        return f"{instruction.kind} {list(_words(instruction.command))}"
    return "ARG " + " ".join(
        name if value is None else f"{name}={value}" for name, value in instruction.defaults.items()
    )


def _words(command: str | tuple[str, ...]) -> tuple[str, ...]:
    return ("/bin/sh", "-c", command) if isinstance(command, str) else command


def _declare(source: Source, state: State, argument: Arg) -> None:
    """Gives an argument its value: the command line's, else its own default, else the one before the first FROM."""
    for name, default in argument.defaults.items():
        if name in source.arguments:
            state.arguments[name] = source.arguments[name]
        elif default is not None:
            state.arguments[name] = quoting.expand(default, state.variables(), argument.line)
        elif name in state.before_from:
            state.arguments[name] = state.before_from[name]


def _set(state: State, pairs: Pairs) -> None:
    config, values = state.config, state.variables()
    new = {name: quoting.expand(value, values, pairs.line) for name, value in pairs.values}
    if pairs.kind == "LABEL":
        config["Labels"] = {**(config.get("Labels") or {}), **new}
    else:
        old = dict(item.split("=", 1) for item in config.get("Env") or ())
        config["Env"] = [f"{name}={value}" for name, value in {**old, **new}.items()]


def _change_folder(source: Source, state: State, value: str) -> None:
    folder = posixpath.normpath(posixpath.join("/", state.config.get("WorkingDir") or "/", value))
    state.config["WorkingDir"] = folder
    exists = state.root is not None and Path(folder).is_dir()
    if folder != "/" and not exists:
        entry = filesystem.Entry(name=folder[1:], source=None, owner=_owner(state, state.config.get("User") or ""))
        _add_layer(source, state, [entry])


def _copy(source: Source, state: State, copy: Copy) -> None:
    values = state.variables()
    sources = [quoting.expand(one, values, copy.line) for one in copy.sources]
    target = quoting.expand(copy.target, values, copy.line)
    absolute = posixpath.normpath(posixpath.join("/", state.config.get("WorkingDir") or "/", target))
    if target.endswith(("/", ".")) and absolute != "/":
        absolute += "/"
    folder, owner = source.context, None
    if copy.stage:
        folder = state.origins[copy.stage]
    else:  # as Kaniko: the user of the moment owns what it copies from the context
        owner = _owner(state, state.config.get("User") or "")
    if copy.owner:
        owner = _owner(state, quoting.expand(copy.owner, values, copy.line))
    found = copying.entries(sources, absolute, folder, owner, state.root.folder if state.root else None)
    own = filesystem.Root(folder=Path("/"), ignored=frozenset({*_OWN_PATHS, *source.ignored}))
    _add_layer(source, state, [one for one in found if not own.covers(f"/{one.name}")])


def _owner(state: State, text: str) -> tuple[int, int]:
    """Returns the numbers of USER[:GROUP]; names are looked up in the unpacked root file system."""
    user, _, group = text.partition(":")
    uid, primary = _number(state, "passwd", user or "0")
    return uid, _number(state, "group", group)[0] if group else primary


def _number(state: State, database: str, name: str) -> tuple[int, int]:
    """Returns the number of a name in /etc/passwd or /etc/group, and in the former its group."""
    file = Path(f"/etc/{database}")
    lines = file.read_text(encoding="utf-8").splitlines() if state.root is not None and file.exists() else []
    for fields in (line.split(":") for line in lines):
        if name in (fields[0], fields[2]):
            return int(fields[2]), int(fields[3]) if database == "passwd" else 0
    if name.isdecimal():
        return int(name), 0
    raise BuildError(f"{name} is in no /etc/{database}, which is only unpacked for a stage with RUN; give a number")


def _run(source: Source, state: State, run: Run) -> None:
    assert state.root is not None  # for _stage unpacks where there is a RUN
    before = filesystem.snapshot(state.root)
    user = state.config.get("User") or ""
    uid, gid = _owner(state, user)
    variables = {"HOME": "/root" if uid == 0 else "/", **state.variables()}
    folder = state.config.get("WorkingDir") or "/"
    words = _words(run.command)
    source.log(f"Running: {list(words)}")
    try:
        process = subprocess.Popen(
            words,
            env=variables,
            cwd=folder if Path(folder).is_dir() else "/",
            user=uid,
            group=gid,
            extra_groups=[gid],
            start_new_session=True,
        )
    except OSError as err:
        raise BuildError(f"failed to execute command: starting command: {err}") from err
    status = process.wait()
    if status:
        how, code = (f"exit status {status}", status) if status > 0 else (f"signal {-status}", 255)
        raise BuildError(f"failed to execute command: waiting for process to exit: {how}", code)
    with contextlib.suppress(ProcessLookupError):  # it may have left no grandchildren
        os.killpg(process.pid, signal.SIGKILL)
    source.log("Taking snapshot of full filesystem...")
    changed = filesystem.changes(state.root, before, filesystem.snapshot(state.root))
    if changed:
        _add_layer(source, state, changed, apply=False)
    else:
        source.log("No files were changed, appending empty layer to config. No layer added to image.")


def _add_layer(source: Source, state: State, entries: list[filesystem.Entry], *, apply: bool = True) -> None:
    """Adds a layer, and applies it to the root file system unless it comes from there."""
    folder = source.work / "layers"
    folder.mkdir(parents=True, exist_ok=True)
    number = next(one for one in itertools.count() if not (folder / f"{one}.tar.gz").exists())
    written = filesystem.write_layer(entries, folder / f"{number}.tar.gz")
    state.layers.append(
        Layer(
            digest=written.digest,
            diff_id=written.diff_id,
            size=written.size,
            media_type=state.layer_type,
            file=written.file,
        )
    )
    if apply and state.root is not None:
        filesystem.unpack(state.root, written.file)
