"""One file's share of a collection: which of pytest's arguments lead to it, and what of the file tree does not.

Collecting the file by its own path would not do: pytest treats a file that is named as one more kind of thing (a module
that need not match `python_files`, a text file with doctests), and node ids outside rootdir depend on the arguments.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The arguments with which pytest collects `file` as it did among all others, if it also `ignores` the rest."""

    file: Path
    arguments: tuple[str, ...]

    def ignores(self, path: Path) -> bool:
        """Whether a file or directory is neither this file nor on the way to it (a package's `__init__.py` is)."""
        above = self.file.parents
        return path != self.file and path not in above and not (path.name == "__init__.py" and path.parent in above)


def select(file: Path, arguments: Iterable[str], *, cwd: Path, packages: bool) -> Selection:
    """Returns the selection of `file` from all of pytest's arguments, in their order.

    Args:
        file: absolute.
        arguments: as pytest parsed them: paths, node ids, or names of packages where `packages` (`--pyargs`) is set.
        cwd: where pytest was called.
        packages: whether an argument may be a module's name.
    """
    leading = []
    for argument in arguments:
        path = _path_of(argument, cwd, packages)
        if path == file or path in file.parents:
            leading.append(argument)
    return Selection(file=file, arguments=tuple(leading) or (str(file),))


def _path_of(argument: str, cwd: Path, packages: bool) -> Path:
    """Returns the file or directory that an argument means, by pytest's rules: a module first, then a path."""
    name = argument.partition("[")[0].partition("::")[0]
    if packages:
        try:
            spec = importlib.util.find_spec(name)
        except (AttributeError, ImportError, ValueError):  # no module's name, or none of that name
            spec = None
        if spec is not None and spec.submodule_search_locations:
            name = spec.submodule_search_locations[0]
        elif spec is not None and spec.origin:
            name = spec.origin
    return Path(os.path.normpath(cwd / name))
