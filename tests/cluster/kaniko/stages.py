"""Which stages of a Dockerfile are built, on what, and what is kept of them for others. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .dockerfile import Copy, Dockerfile
from .quoting import error, expand


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One stage that is built.

    Args:
        base: the image's name, or the stage's.
        parent: the number of the stage that it starts from; None: it starts from an image.
        origins: the numbers of the stages that its COPY --from name.
        saved: what later stages copy from it.
    """

    base: str
    parent: int | None
    origins: Mapping[str, int]
    saved: tuple[str, ...] = ()


def plan(file: Dockerfile, arguments: Mapping[str, str]) -> dict[int, Plan]:
    """Returns the stages that the last one needs, by number in the order of building; DockerfileError if one is not there.

    Args:
        file: the Dockerfile.
        arguments: values of the arguments before the first FROM.
    """
    open_stages, plans = [len(file.stages) - 1], dict[int, Plan]()
    kept: dict[int, list[str]] = {}
    while open_stages:
        index = open_stages.pop()
        if index in plans:
            continue
        stage = file.stages[index]
        base = expand(stage.base, arguments, stage.line)
        if not base:
            raise error(stage.line, f"base name ({stage.base}) should not be blank")
        parent = None if base.isdecimal() else file.stage_index(base, index)
        origins: dict[str, int] = {}
        for copy in stage.instructions:
            if isinstance(copy, Copy) and copy.stage:
                origins[copy.stage] = origin = _origin(file, copy, index)
                kept.setdefault(origin, []).extend(_paths(copy))
        plans[index] = Plan(base=base, parent=parent, origins=origins)
        open_stages += [*origins.values(), *([] if parent is None else [parent])]
    return {
        index: Plan(base=one.base, parent=one.parent, origins=one.origins, saved=tuple(kept.get(index, ())))
        for index, one in sorted(plans.items())
    }


def _origin(file: Dockerfile, copy: Copy, index: int) -> int:
    found = file.stage_index(copy.stage or "", index)
    if found is None:
        raise error(copy.line, f"COPY --from={copy.stage} names no earlier stage; images are not implemented here")
    return found


def _paths(copy: Copy) -> tuple[str, ...]:
    if any("$" in one for one in copy.sources):
        raise error(copy.line, "variables in what COPY --from copies are not implemented here")
    return copy.sources
