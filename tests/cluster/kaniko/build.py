"""Builds the stages of a Dockerfile into an image whose new layers are files of this machine."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import copying, filesystem, quoting, stages, steps
from .dockerfile import Dockerfile, Run, Start
from .images import Image, Reference
from .steps import Source, State

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def build(source: Source, file: Dockerfile) -> Image:
    """Returns the image of the last stage; BuildError, or the errors of the parts, otherwise."""
    arguments: dict[str, str] = {}
    for one in file.arguments:
        for name, default in one.defaults.items():
            if name in source.arguments:
                arguments[name] = source.arguments[name]
            elif default is not None:
                arguments[name] = quoting.expand(default, arguments, one.line)
    images: dict[int, Image] = {}
    for index, plan in stages.plan(file, arguments).items():
        parent = -1 if plan.parent is None else plan.parent
        source.log(f"Building stage '{plan.base}' [idx: '{index}', base-idx: '{parent}']")
        base = _pull(source, plan.base) if plan.parent is None else images[plan.parent]
        images[index] = _stage(source, file, index, plan, base, arguments)
        for path in plan.saved:
            source.log(f"Saving file {path} for later use")
        copying.save(plan.saved, Path("/"), source.work / "deps" / str(index))
    return images[max(images)]


def _pull(source: Source, base: str) -> Image:
    if base == "scratch":
        machine = os.uname().machine
        architecture = _ARCHITECTURES.get(machine, machine)
        return Image(config={"architecture": architecture, "os": "linux", "config": {}}, layers=())
    source.log(f"Retrieving image manifest {base}")
    return source.pull(Reference.parse(base))


def _stage(
    source: Source, file: Dockerfile, index: int, plan: stages.Plan, base: Image, arguments: Mapping[str, str]
) -> Image:
    instructions = file.stages[index].instructions
    unpack = bool(plan.saved) or any(isinstance(one, Run) for one in instructions)
    state = State(
        config=dict(base.config.get("config") or {}),
        layers=list(base.layers),
        history=[*base.config.get("history", ())],
        layer_type=base.layer_type,
        root=_unpack(source, base) if unpack else None,
        before_from=arguments,
        origins={name: source.work / "deps" / str(number) for name, number in plan.origins.items()},
    )
    if not unpack:
        source.log("Skipping unpacking as no commands require it.")
    for instruction in instructions:
        steps.execute(source, state, instruction)
    if {one.kind for one in instructions if isinstance(one, Start)} == {"ENTRYPOINT"}:
        state.config.pop("Cmd", None)  # the base's arguments are none for another program
    return replace(base, config=_config(base, state), layers=tuple(state.layers))


def _unpack(source: Source, base: Image) -> filesystem.Root:
    """Replaces this process's own root file system by an image's, as Kaniko does."""
    root = filesystem.own_root(source.ignored)
    filesystem.check(root)
    source.log("Unpacking rootfs as a command requires it.")
    files = [one.file or source.download(one) for one in base.layers]
    filesystem.empty(root)
    for one in files:
        filesystem.unpack(root, one)
    return root


def _config(base: Image, state: State) -> dict[str, Any]:
    now = datetime.datetime.now(datetime.timezone.utc).isoformat().replace("+00:00", "Z")
    rootfs = {"type": "layers", "diff_ids": [one.diff_id for one in state.layers]}
    history = [{"created": now, **one} for one in state.history]
    return {**base.config, "created": now, "config": state.config, "rootfs": rootfs, "history": history}
