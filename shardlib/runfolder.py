"""The run's folder: all that the steps of a run share. Only this module and `shardfolder` touch it.

One writer for each file, complete the moment its name exists; readers treat it as hostile (`safefiles`, `records`).
docs/architecture.md has the layout.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from shardlib import safefiles
from shardlib.errors import PlanError, RunFolderError
from shardlib.plan import Plan
from shardlib.shardfolder import MAX_RECORD_BYTES, ShardFolder, match_name

# Bounds for hostile files; each is far above what a large run writes (guesses).
MAX_PLAN_BYTES = 1 << 30  # 1,000,000 tests with ids of 500 characters
MAX_DURATIONS_BYTES = 256 << 20

_SHARD = re.compile(r"[0-9]{2,9}|cpu")
_REPORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class RunFolder:
    """A run's folder, which need not exist yet."""

    path: Path

    def begin(self, image: str) -> Path | None:
        """Makes the folder one for an image; returns where what was found of another image was put, None if nothing was.

        A workflow that starts again before its build gets another image, of which nothing is proved by what ran in the
        first one. The collection stays: it is newer than the build.
        """
        data = safefiles.read_bytes(self.path, ("plan", "image"), limit=MAX_RECORD_BYTES)
        if data == image.encode("utf-8"):
            return None
        found = safefiles.names(self.path, ())
        aside = ("earlier", str(len(safefiles.names(self.path, ("earlier",))) + 1))
        left = [name for name in ("shards", "report", "plan") if name in found]  # the plan, with the mark in it, last
        for name in left:
            safefiles.move(self.path, (name,), (*aside, name))
        safefiles.replace(self.path, ("plan", "image"), image.encode("utf-8"))
        return self.path.joinpath(*aside) if left else None

    def write_plan(self, plan: Plan) -> None:
        """Stores the plan; one with the same digest that is there already is success.

        Raises:
            RunFolderError: another plan is there, and a shard has started with it.
        """
        text = plan.dumps().encode("ascii")
        if safefiles.create(self.path, ("plan", "plan.json"), text):
            return
        try:
            there = self.read_plan().digest
        except PlanError as err:
            there = f"unreadable ({err})"
        if there == plan.digest:
            return
        if self.has_attempts():
            raise RunFolderError(
                f"{self.path}: shards have started with another plan (digest {there}, not {plan.digest}); "
                "use a new folder, or plan with the same tests and arguments to resume"
            )
        safefiles.replace(self.path, ("plan", "plan.json"), text)

    def read_plan(self) -> Plan:
        """Returns the stored plan; RunFolderError if there is none, PlanError if it is malformed."""
        where = self.path / "plan" / "plan.json"
        data = safefiles.read_bytes(self.path, ("plan", "plan.json"), limit=MAX_PLAN_BYTES)
        if data is None:
            raise RunFolderError(f"{where}: no such file; `shardlib plan --run {self.path} --shards N` writes it")
        try:
            return Plan.loads(data.decode("ascii"), str(where))
        except UnicodeDecodeError as err:
            raise PlanError(
                f"{where}: byte {err.start} is not ASCII; plans are written by `shardlib plan` only"
            ) from err

    @property
    def collection_path(self) -> Path:
        """Where what pytest collected is kept, as `document` reads it."""
        return self.path / "collect" / "collect.json"

    def write_collection(self, text: str) -> None:
        """Keeps what pytest collected, in the place of an older one; a workflow's collect-tests brings its own."""
        safefiles.replace(self.path, ("collect", "collect.json"), text.encode("ascii"))

    def brought_durations(self) -> Path | None:
        """Returns the path of the durations file that `collect` brought along; None if it brought none.

        Raises:
            RunFolderError: it is no regular file, or too large. What it says is for the reader to check.
        """
        parts = ("collect", "durations.json")
        stream = safefiles.open_stream(self.path, parts, limit=MAX_DURATIONS_BYTES)
        if stream is None:
            return None
        stream.close()
        return self.path.joinpath(*parts)

    def make_shard_folders(self, names: Iterable[str]) -> None:
        """Makes each shard's folder, for pods that can write nowhere else and run as a user of their own.

        Each pod gets only its own folder mounted, so that it may be open to all. Empty ones of an earlier plan go.
        """
        wanted = set(names)
        for name in wanted:
            match_name(_SHARD, name, self.path / "shards")
        for name in sorted(wanted):
            safefiles.make_open_folder(self.path, ("shards", name))
        for name in set(self.shard_names()) - wanted:
            with suppress(OSError):  # one that is not empty is a stranger, and for the verdict to name
                (self.path / "shards" / name).rmdir()

    def has_attempts(self) -> bool:
        """Whether a shard of any plan has started in this folder."""
        return any(self.shard(name).attempts() for name in self.shard_names())

    def shard_names(self) -> list[str]:
        """Returns the names of the shards that have a folder; RunFolderError if something else lies there."""
        found = safefiles.names(self.path, ("shards",))
        for name in found:
            match_name(_SHARD, name, self.path / "shards")
        return found

    def shard(self, name: str) -> ShardFolder:
        """Returns the folder of one shard, which need not exist."""
        match_name(_SHARD, name, self.path / "shards")
        return ShardFolder(self.path, name)

    def log_path(self, name: str) -> Path:
        """Returns where `local` keeps what a shard printed; its folder is made. In a pod, the pod's log has it."""
        match_name(_SHARD, name, self.path / "logs")
        path = self.path / "logs" / f"{name}.log"
        path.parent.mkdir(exist_ok=True)
        return path

    def report_path(self, name: str) -> Path:
        """Returns the path of a file of the report."""
        match_name(_REPORT, name, self.path / "report")
        return self.path / "report" / name

    def write_report(self, name: str, text: str) -> Path:
        """Writes a file of the report at once, in the place of an older one; returns its path."""
        path = self.report_path(name)
        safefiles.replace(self.path, ("report", name), text.encode("utf-8"))
        return path
